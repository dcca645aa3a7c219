//! How a message breaks a rule of the network, under the stable names that logs and records use.

use std::fmt;

use super::Check;

/// Longest value that is repeated in a violation, in characters: it came from outside and goes to logs.
const FOUND_CHARS_MAX: usize = 120;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $check:ident, $rule:literal;)*) => {
        /// A rule that is broken.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its stable name.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)* }
            }

            /// The check it belongs to.
            #[must_use]
            pub const fn check(self) -> Check {
                match self { $(Self::$name => Check::$check,)* }
            }

            /// The rule, as a sentence without its end.
            #[must_use]
            pub const fn rule(self) -> &'static str {
                match self { $(Self::$name => $rule,)* }
            }
        }
    };
}

faults! {
    /// From is not the signer.
    PartyNotSigner = "party-not-signer", PartyBinding, "From/PartyId must be the subject CN of the signing certificate";
    /// From has the wrong type or shape.
    InvalidFromParty = "invalid-from-party", Parties, "From/PartyId must be a Seat ID of type urn:fdc:peppol.eu:2017:identifiers:ap";
    /// To has the wrong type or shape.
    InvalidToParty = "invalid-to-party", Parties, "To/PartyId must be a Seat ID of type urn:fdc:peppol.eu:2017:identifiers:ap";
    /// To is not us.
    NotOurSeat = "not-our-seat", Parties, "To/PartyId must be a seat of this access point";
    /// A Role is not that of its side.
    InvalidRole = "invalid-role", Parties, "From has the role of initiator and To that of responder";
    /// The agreement is another.
    InvalidAgreement = "invalid-agreement", Agreement, "AgreementRef must be urn:fdc:peppol.eu:2017:agreements:tia:ap_provider without type and pmode";
    /// None or several payloads.
    InvalidPayloadCount = "invalid-payload-count", Payload, "there must be exactly one payload, the part after the SOAP part";
    /// Not well-formed, or no envelope with header and one document.
    InvalidSbdXml = "invalid-sbd-xml", Payload, "the payload must be a StandardBusinessDocument with a header and one document";
    /// No header.
    MissingSbdh = "missing-sbdh", Payload, "the payload has no StandardBusinessDocumentHeader";
    /// `HeaderVersion`.
    InvalidHeaderVersion = "invalid-header-version", Envelope, "HeaderVersion must be 1.0";
    /// `Sender` is not there.
    InvalidSenderCount = "invalid-sender-count", Envelope, "there must be one Sender";
    /// `Sender/Identifier/@Authority`.
    InvalidSenderAuthority = "invalid-sender-authority", Envelope, "Sender must have the authority iso6523-actorid-upis";
    /// `Sender/Identifier`.
    InvalidSenderValue = "invalid-sender-value", Envelope, "Sender must be a participant identifier";
    /// `Receiver` is not there.
    InvalidReceiverCount = "invalid-receiver-count", Envelope, "there must be one Receiver";
    /// `Receiver/Identifier/@Authority`.
    InvalidReceiverAuthority = "invalid-receiver-authority", Envelope, "Receiver must have the authority iso6523-actorid-upis";
    /// `Receiver/Identifier`.
    InvalidReceiverValue = "invalid-receiver-value", Envelope, "Receiver must be a participant identifier";
    /// No `BusinessScope`.
    BusinessScopeMissing = "business-scope-missing", Envelope, "there must be a BusinessScope";
    /// A scope is there twice.
    InvalidScopeCount = "invalid-scope-count", Envelope, "each scope may be there once";
    /// No `DOCUMENTID`.
    MissingDocumentTypeIdentifier = "missing-document-type-identifier", Envelope, "there must be a scope DOCUMENTID";
    /// `DOCUMENTID`.
    InvalidDocumentTypeIdentifier = "invalid-document-type-identifier", Envelope, "DOCUMENTID must be a document type identifier";
    /// No `PROCESSID`.
    MissingProcessIdentifier = "missing-process-identifier", Envelope, "there must be a scope PROCESSID";
    /// `PROCESSID`.
    InvalidProcessIdentifier = "invalid-process-identifier", Envelope, "PROCESSID must be a process identifier";
    /// No `COUNTRY_C1`.
    MissingCountryC1 = "missing-country-c1", Envelope, "there must be a scope COUNTRY_C1";
    /// `COUNTRY_C1`.
    InvalidCountryC1 = "invalid-country-c1", Envelope, "COUNTRY_C1 must be a country code of two capitals";
    /// No `Standard`.
    MissingStandard = "missing-standard", Envelope, "there must be a Standard";
    /// `Standard` is not that of the document.
    InvalidStandard = "invalid-standard", Envelope, "Standard must be the namespace of the document and begin DOCUMENTID";
    /// No `TypeVersion`.
    MissingTypeVersion = "missing-type-version", Envelope, "there must be a TypeVersion";
    /// `TypeVersion` is not that of the document type.
    InvalidTypeVersion = "invalid-type-version", Envelope, "TypeVersion must end DOCUMENTID";
    /// No `Type`.
    MissingType = "missing-type", Envelope, "there must be a Type";
    /// `Type` is not that of the document.
    InvalidType = "invalid-type", Envelope, "Type must be the local name of the document";
    /// No `InstanceIdentifier`.
    InvalidInstanceIdentifier = "invalid-instance-identifier", Envelope, "InstanceIdentifier must not be empty";
    /// `CreationDateAndTime`.
    InvalidCreationDateTime = "invalid-creation-date-time", Envelope, "CreationDateAndTime must be a date and time with a time zone";
    /// The property is not there, or no participant.
    InvalidOriginalSender = "invalid-original-sender", Corners, "the property originalSender must be a participant with its type";
    /// The property is not there, or no participant.
    InvalidFinalRecipient = "invalid-final-recipient", Corners, "the property finalRecipient must be a participant with its type";
    /// C1 differs between header and envelope.
    OriginalSenderDiffers = "original-sender-differs", Corners, "originalSender must be the Sender of the envelope";
    /// C4 differs between header and envelope.
    FinalRecipientDiffers = "final-recipient-differs", Corners, "finalRecipient must be the Receiver of the envelope";
    /// The Action names another document type.
    ActionDiffers = "action-differs", Business, "Action must be the document type of the envelope";
    /// The Service names another process.
    ServiceDiffers = "service-differs", Business, "Service must be the process of the envelope";
    /// Nobody here gets this.
    NotServiced = "not-serviced", Serviced, "the addressed participant does not receive this document type and process here";
}

/// A broken rule and what was found instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Violation {
    /// The rule.
    pub fault: Fault,
    /// What was found, shortened; none where nothing was.
    pub found: Option<String>,
}

impl Violation {
    /// A rule broken by something that is not there.
    #[must_use]
    pub const fn missing(fault: Fault) -> Self {
        Self { fault, found: None }
    }

    /// A rule broken by a value.
    #[must_use]
    pub fn found(fault: Fault, value: &str) -> Self {
        Self { fault, found: Some(value.chars().take(FOUND_CHARS_MAX).collect()) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.fault.id(), self.fault.rule())?;
        self.found.as_ref().map_or(Ok(()), |found| write!(f, ", not {found:?}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_has_a_name_of_its_own_and_a_check_with_a_code() {
        let names: BTreeSet<&str> = Fault::ALL.iter().map(|fault| fault.id()).collect();
        assert_eq!(names.len(), Fault::ALL.len());
        assert!(Fault::ALL.iter().all(|fault| fault.check().code().is_some()));
    }

    #[test]
    fn what_was_found_is_escaped_and_cut() {
        let violation = Violation::found(Fault::InvalidCountryC1, &format!("\n{}", "x".repeat(500)));
        let shown = violation.to_string();
        assert!(shown.starts_with(
            "invalid-country-c1: COUNTRY_C1 must be a country code of two capitals, not \"\\nx"
        ));
        assert!(!shown.contains('\n'));
        assert_eq!(violation.found.unwrap().chars().count(), FOUND_CHARS_MAX);
    }
}
