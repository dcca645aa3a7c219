//! Checks 5 to 7 and the four corners, as the ebMS header alone shows them.

use super::{Fault, Violation, identifiers};
use crate::{
    model::{DocumentTypeId, ParticipantId, Party, PartyId, ProcessId, Property, SeatId, UserMessage},
    pmode::{EBMS, Parameter},
};

/// The type of every Peppol PartyId (Peppol AS4 §4.5).
pub const PARTY_TYPE: &str = "urn:fdc:peppol.eu:2017:identifiers:ap";
/// The only agreement (Peppol AS4 §4.3).
pub const AGREEMENT: &str = "urn:fdc:peppol.eu:2017:agreements:tia:ap_provider";

/// Check 5: the signer is who the message says it is from (eDelivery AS4 §4.3.3).
///
/// # Errors
/// When From/PartyId is not the subject CN of the signing certificate.
pub fn party_binding(message: &UserMessage, signer: &PartyId) -> Result<(), Violation> {
    if message.from.id == *signer {
        return Ok(());
    }
    Err(Violation::found(Fault::PartyNotSigner, message.from.id.as_str()))
}

/// Check 6: both parties are seats, and To is one of ours (Peppol AS4 §4.5). That there is one PartyId each
/// is known since the header was read.
///
/// # Errors
/// When a type, a shape or a role is another, or To is somebody else.
pub fn parties(message: &UserMessage, ours: &[&PartyId]) -> Result<(), Violation> {
    seat(&message.from, Fault::InvalidFromParty)?;
    seat(&message.to, Fault::InvalidToParty)?;
    role(&message.from, "initiator")?;
    role(&message.to, "responder")?;
    if ours.contains(&&message.to.id) {
        return Ok(());
    }
    Err(Violation::found(Fault::NotOurSeat, message.to.id.as_str()))
}

fn seat(party: &Party, fault: Fault) -> Result<(), Violation> {
    if party.id_type.as_deref() != Some(PARTY_TYPE) {
        return Err(Violation { fault, found: party.id_type.clone() });
    }
    let seat = SeatId::parse(party.id.as_str());
    seat.map(|_| ()).map_err(|_| Violation::found(fault, party.id.as_str()))
}

fn role(party: &Party, role: &str) -> Result<(), Violation> {
    if party.role.trim().strip_prefix(EBMS) == Some(role) {
        return Ok(());
    }
    Err(Violation::found(Fault::InvalidRole, &party.role))
}

/// Check 7: the agreement, without type and pmode (Peppol AS4 §4.3).
///
/// # Errors
/// When it is missing, another, or has an attribute.
pub fn agreement(message: &UserMessage) -> Result<(), Violation> {
    let Some(agreement) = &message.agreement else {
        return Err(Violation::missing(Fault::InvalidAgreement));
    };
    if agreement.value == AGREEMENT && agreement.agreement_type.is_none() && agreement.pmode.is_none() {
        return Ok(());
    }
    Err(Violation::found(Fault::InvalidAgreement, &agreement.value))
}

/// The fault that a parameter stands for which kept a message from its Peppol P-Mode. None for what the
/// network has no code for.
#[must_use]
pub const fn fault_of(parameter: Parameter) -> Option<Fault> {
    match parameter {
        Parameter::Agreement => Some(Fault::InvalidAgreement),
        Parameter::FromParty | Parameter::FromPartyType => Some(Fault::InvalidFromParty),
        Parameter::ToParty | Parameter::ToPartyType => Some(Fault::InvalidToParty),
        Parameter::FromRole | Parameter::ToRole => Some(Fault::InvalidRole),
        Parameter::Service | Parameter::Action | Parameter::Mpc => None,
    }
}

/// What the header says of corners 1 and 4, document and process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corners {
    /// `originalSender`: C1.
    pub original_sender: ParticipantId,
    /// `finalRecipient`: C4.
    pub final_recipient: ParticipantId,
    /// `Action`.
    pub document_type: DocumentTypeId,
    /// `Service` with its type.
    pub process: ProcessId,
}

/// Reads corners, document type and process from the header (Peppol AS4 §4.6, §4.9).
///
/// # Errors
/// When a property is missing or no participant, or Action or Service no identifier.
pub fn corners(message: &UserMessage) -> Result<Corners, Violation> {
    let service = &message.service;
    let process = service.service_type.as_deref().map(|scheme| ProcessId::new(scheme, &service.value));
    let Some(Ok(process)) = process else {
        return Err(Violation::found(Fault::ServiceDiffers, &service.value));
    };
    let document_type = DocumentTypeId::parse(&message.action)
        .map_err(|_| Violation::found(Fault::ActionDiffers, &message.action))?;
    Ok(Corners {
        original_sender: corner(message.property("originalSender"), Fault::InvalidOriginalSender)?,
        final_recipient: corner(message.property("finalRecipient"), Fault::InvalidFinalRecipient)?,
        document_type,
        process,
    })
}

/// C4 as the header says it, when it is a participant.
#[must_use]
pub fn final_recipient(message: &UserMessage) -> Option<ParticipantId> {
    corner(message.property("finalRecipient"), Fault::InvalidFinalRecipient).ok()
}

fn corner(property: Option<&Property>, fault: Fault) -> Result<ParticipantId, Violation> {
    let property = property.ok_or_else(|| Violation::missing(fault))?;
    let scheme = property.property_type.as_deref().unwrap_or_default();
    identifiers::participant(scheme, &property.value).map_err(|_| Violation::found(fault, &property.value))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::{AgreementRef, ConversationId, MessageId, Service, Timestamp};

    /// A header in order.
    pub(in crate::peppol) fn message() -> UserMessage {
        let party = |id: &str, role: &str| Party {
            id: PartyId::parse(id).unwrap(),
            id_type: Some(PARTY_TYPE.to_owned()),
            role: format!("{EBMS}{role}"),
        };
        let property = |name: &str, value: &str| Property {
            name: name.to_owned(),
            property_type: Some(identifiers::PARTICIPANT_SCHEME.to_owned()),
            value: value.to_owned(),
        };
        UserMessage {
            mpc: None,
            message_id: MessageId::parse("a@b").unwrap(),
            timestamp: Timestamp::from_millis(0),
            ref_to_message_id: None,
            from: party("POP000001", "initiator"),
            to: party("PGB000002", "responder"),
            agreement: Some(AgreementRef {
                value: AGREEMENT.to_owned(),
                agreement_type: None,
                pmode: None,
            }),
            service: Service {
                value: "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0".to_owned(),
                service_type: Some("cenbii-procid-ubl".to_owned()),
            },
            action: "busdox-docid-qns::urn:oasis:names:specification:ubl:schema:xsd:Invoice-2::Invoice##urn:cen.eu::2.1".to_owned(),
            conversation_id: ConversationId::default(),
            properties: vec![
                property("originalSender", "0088:abc"),
                property("finalRecipient", "0192:974760673"),
            ],
            parts: Vec::new(),
        }
    }

    fn fault<T>(result: Result<T, Violation>) -> Option<Fault> {
        result.err().map(|violation| violation.fault)
    }

    fn changed(change: impl FnOnce(&mut UserMessage)) -> UserMessage {
        let mut message = message();
        change(&mut message);
        message
    }

    #[test]
    fn from_must_be_the_signer_exactly() {
        let signer = |cn: &str| fault(party_binding(&message(), &PartyId::parse(cn).unwrap()));
        assert_eq!(signer("POP000001"), None);
        assert_eq!(signer("pop000001"), Some(Fault::PartyNotSigner));
        assert_eq!(signer("POP000009"), Some(Fault::PartyNotSigner));
    }

    #[test]
    fn parties_are_seats_of_the_right_type_role_and_place() {
        let ours = PartyId::parse("PGB000002").unwrap();
        let check = |change: fn(&mut UserMessage)| fault(parties(&changed(change), &[&ours]));
        assert_eq!(check(|_| ()), None);
        assert_eq!(check(|m| m.from.id_type = None), Some(Fault::InvalidFromParty));
        assert_eq!(check(|m| m.from.id = PartyId::parse("acme").unwrap()), Some(Fault::InvalidFromParty));
        assert_eq!(check(|m| m.to.id_type = Some("urn:x".to_owned())), Some(Fault::InvalidToParty));
        assert_eq!(check(|m| m.to.id = PartyId::parse("PGB00002").unwrap()), Some(Fault::InvalidToParty));
        assert_eq!(check(|m| m.to.id = PartyId::parse("PGB000003").unwrap()), Some(Fault::NotOurSeat));
        assert_eq!(check(|m| std::mem::swap(&mut m.from.role, &mut m.to.role)), Some(Fault::InvalidRole));
        assert_eq!(check(|m| m.to.role = "responder".to_owned()), Some(Fault::InvalidRole));
    }

    #[test]
    fn the_agreement_has_one_value_and_no_attribute() {
        let check = |change: fn(&mut AgreementRef)| {
            fault(agreement(&changed(|m| change(m.agreement.as_mut().unwrap()))))
        };
        assert_eq!(check(|_| ()), None);
        assert_eq!(check(|a| a.value.push('x')), Some(Fault::InvalidAgreement));
        assert_eq!(check(|a| a.agreement_type = Some("t".to_owned())), Some(Fault::InvalidAgreement));
        assert_eq!(check(|a| a.pmode = Some("p".to_owned())), Some(Fault::InvalidAgreement));
        assert_eq!(fault(agreement(&changed(|m| m.agreement = None))), Some(Fault::InvalidAgreement));
    }

    #[test]
    fn corners_are_participants_with_their_type() {
        let check = |change: fn(&mut UserMessage)| fault(corners(&changed(change)));
        assert_eq!(check(|_| ()), None);
        assert_eq!(check(|m| m.properties[0].property_type = None), Some(Fault::InvalidOriginalSender));
        assert_eq!(check(|m| m.properties[1].property_type = None), Some(Fault::InvalidFinalRecipient));
        assert_eq!(check(|m| m.properties[0].name.push('x')), Some(Fault::InvalidOriginalSender));
        assert_eq!(
            check(|m| m.properties[1].value = "974760673".to_owned()),
            Some(Fault::InvalidFinalRecipient)
        );
        assert_eq!(check(|m| m.service.service_type = None), Some(Fault::ServiceDiffers));
        assert_eq!(check(|m| m.action = "x".to_owned()), Some(Fault::ActionDiffers));
    }
}
