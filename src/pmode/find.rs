//! From a message to its P-Mode (ebMS3 Core §4, eDelivery AS4 §3.2.5, Peppol AS4 §5).

use std::{cmp::Reverse, fmt, sync::Arc};

use super::{PMode, PModes, PartyMode};
use crate::model::{AgreementRef, Party, UserMessage};

/// A parameter that takes part in the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// `PMode.Agreement`.
    Agreement,
    /// `PMode.Initiator.Party`.
    FromParty,
    /// `PMode.Initiator.Party.type`.
    FromPartyType,
    /// `PMode.Initiator.Role`.
    FromRole,
    /// `PMode.Responder.Party`.
    ToParty,
    /// `PMode.Responder.Party.type`.
    ToPartyType,
    /// `PMode.Responder.Role`.
    ToRole,
    /// `PMode[1].BusinessInfo.Service`.
    Service,
    /// `PMode[1].BusinessInfo.Action`.
    Action,
    /// `PMode[1].BusinessInfo.MPC`.
    Mpc,
}

impl Parameter {
    /// The standard's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agreement => "PMode.Agreement",
            Self::FromParty => "PMode.Initiator.Party",
            Self::FromPartyType => "PMode.Initiator.Party.type",
            Self::FromRole => "PMode.Initiator.Role",
            Self::ToParty => "PMode.Responder.Party",
            Self::ToPartyType => "PMode.Responder.Party.type",
            Self::ToRole => "PMode.Responder.Role",
            Self::Service => "PMode[1].BusinessInfo.Service",
            Self::Action => "PMode[1].BusinessInfo.Action",
            Self::Mpc => "PMode[1].BusinessInfo.MPC",
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No P-Mode matches: EBMS:0010, unless the network of the nearest one names another code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no P-Mode matches; nearest is {}, which differs in {}", nearest_id(.nearest.as_deref()), listed(.differs))]
pub struct NoPMode {
    /// The P-Mode that has most in common with the message.
    pub nearest: Option<Arc<PMode>>,
    /// In what it differs, in the order of [`Parameter`].
    pub differs: Vec<Parameter>,
}

fn nearest_id(mode: Option<&PMode>) -> &str {
    mode.map_or("none", |mode| mode.id.as_str())
}

fn listed(differs: &[Parameter]) -> String {
    differs.iter().map(|parameter| parameter.name()).collect::<Vec<_>>().join(", ")
}

/// How one P-Mode compares with a message.
#[derive(Default)]
struct Comparison {
    said: usize,
    differs: Vec<Parameter>,
}

impl Comparison {
    /// Orders P-Modes that do not match: the most parameters in common first, then the fewest that differ.
    fn distance(&self) -> (Reverse<usize>, usize) {
        (Reverse(self.said.saturating_sub(self.differs.len())), self.differs.len())
    }

    /// Compares a parameter that the P-Mode says, or not.
    fn compare<T: PartialEq + ?Sized>(&mut self, parameter: Parameter, said: Option<&T>, found: Option<&T>) {
        if said.is_some() {
            self.said += 1;
            if said != found {
                self.differs.push(parameter);
            }
        }
    }
}

impl PModes {
    /// The P-Mode for a message: of those whose every parameter matches, the one that says most. The
    /// attribute `pmode` of `eb:AgreementRef` chooses among the matching ones when it names one of them; it
    /// never makes one match, and a name that is unknown here is passed over (eDelivery AS4 §3.2.5).
    ///
    /// # Errors
    /// When none matches.
    pub fn find(&self, message: &UserMessage) -> Result<Arc<PMode>, NoPMode> {
        let compared: Vec<(&Arc<PMode>, Comparison)> =
            self.iter().map(|mode| (mode, compare(mode, message))).collect();
        let matching = || compared.iter().filter(|(_, comparison)| comparison.differs.is_empty());
        let named = message.agreement.as_ref().and_then(|agreement| agreement.pmode.as_deref());
        let by_name = matching().find(|(mode, _)| Some(mode.id.as_str()) == named);
        // `max_by_key` takes the last of equals and `min_by_key` the first: ids are sorted, so both are
        // deterministic.
        if let Some((mode, _)) = by_name.or_else(|| matching().max_by_key(|(_, comparison)| comparison.said))
        {
            return Ok(Arc::clone(mode));
        }
        let nearest = compared.into_iter().min_by_key(|(_, comparison)| comparison.distance());
        Err(match nearest {
            Some((mode, comparison)) => {
                NoPMode { nearest: Some(Arc::clone(mode)), differs: comparison.differs }
            }
            None => NoPMode { nearest: None, differs: Vec::new() },
        })
    }
}

fn compare(mode: &PMode, message: &UserMessage) -> Comparison {
    let mut comparison = Comparison::default();
    let agreement = mode.agreement.as_ref().map(|said| (said.value.as_str(), said.agreement_type.as_deref()));
    let found = message.agreement.as_ref().map(AgreementRef::value_and_type);
    comparison.compare(Parameter::Agreement, agreement.as_ref(), found.as_ref());
    let from = [Parameter::FromParty, Parameter::FromPartyType, Parameter::FromRole];
    party(&mut comparison, from, &mode.initiator, &message.from);
    let to = [Parameter::ToParty, Parameter::ToPartyType, Parameter::ToRole];
    party(&mut comparison, to, &mode.responder, &message.to);
    let info = &mode.leg.business_info;
    comparison.compare(Parameter::Service, info.service.as_ref(), Some(&message.service));
    comparison.compare(Parameter::Action, info.action.as_deref(), Some(message.action.as_str()));
    let mpc = message.mpc.as_deref().filter(|mpc| *mpc != super::DEFAULT_MPC);
    if mpc.is_some() {
        comparison.differs.push(Parameter::Mpc);
    }
    comparison
}

fn party(comparison: &mut Comparison, parameters: [Parameter; 3], mode: &PartyMode, found: &Party) {
    let [party, party_type, role] = parameters;
    comparison.compare(party, mode.party.as_ref(), Some(&found.id));
    comparison.compare(party_type, mode.party_type.as_deref(), found.id_type.as_deref());
    // White space around a role says nothing; whether it was signed so is for the signature to say.
    comparison.compare(role, mode.role.as_deref(), Some(found.role.trim()));
}

impl AgreementRef {
    /// What an agreement is compared by.
    fn value_and_type(&self) -> (&str, Option<&str>) {
        (self.value.as_str(), self.agreement_type.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{ConversationId, MessageId, PartyId, Service, Timestamp},
        pmode::{Defaults, EBMS, TEST_ACTION, TEST_SERVICE},
    };

    const PEPPOL: &str = include_str!("../../pmodes/peppol.toml");
    const PING: &str = include_str!("../../pmodes/ping.toml");
    const PARTNER: &str =
        "PMode.ID = \"partner\"\noncepoint.network = \"plain\"\nPMode.Initiator.Party = \"acme\"\n";

    fn modes() -> PModes {
        let texts = [("peppol.toml", PEPPOL), ("ping.toml", PING), ("partner.toml", PARTNER)];
        PModes::from_texts(&texts, &Defaults::default()).unwrap()
    }

    fn party_of(id: &str, role: &str) -> Party {
        let id_type = Some("urn:fdc:peppol.eu:2017:identifiers:ap".to_owned());
        Party { id: PartyId::parse(id).unwrap(), id_type, role: format!("{EBMS}{role}") }
    }

    fn message() -> UserMessage {
        UserMessage {
            mpc: None,
            message_id: MessageId::parse("a@b").unwrap(),
            timestamp: Timestamp::from_millis(0),
            ref_to_message_id: None,
            from: party_of("POP000001", "initiator"),
            to: party_of("POP000002", "responder"),
            agreement: Some(AgreementRef {
                value: "urn:fdc:peppol.eu:2017:agreements:tia:ap_provider".to_owned(),
                agreement_type: None,
                pmode: None,
            }),
            service: Service {
                value: "urn:p".to_owned(),
                service_type: Some("cenbii-procid-ubl".to_owned()),
            },
            action: "busdox-docid-qns::x".to_owned(),
            conversation_id: ConversationId::default(),
            properties: Vec::new(),
            parts: Vec::new(),
        }
    }

    fn found(message: &UserMessage) -> Result<String, Vec<Parameter>> {
        modes().find(message).map(|mode| mode.id.to_string()).map_err(|none| none.differs)
    }

    #[test]
    fn any_peppol_sender_service_and_action_finds_the_generic_p_mode() {
        assert_eq!(found(&message()), Ok("peppol".to_owned()));
        let mpc = UserMessage { mpc: Some(format!("{EBMS}defaultMPC")), ..message() };
        assert_eq!(found(&mpc), Ok("peppol".to_owned()));
    }

    /// The P-Mode of the test service is there with the same parameters (eDelivery AS4 §3.4.3).
    #[test]
    fn the_test_service_finds_the_more_specific_p_mode() {
        let mut ping = message();
        ping.service = Service { value: TEST_SERVICE.to_owned(), service_type: None };
        ping.action = TEST_ACTION.to_owned();
        assert_eq!(found(&ping), Ok("ping".to_owned()));
    }

    #[test]
    fn each_parameter_that_differs_is_named() {
        let check = |change: fn(&mut UserMessage), differs: Parameter| {
            let mut message = message();
            change(&mut message);
            assert_eq!(found(&message), Err(vec![differs]));
        };
        check(|m| m.agreement = None, Parameter::Agreement);
        check(|m| m.agreement.as_mut().unwrap().value.push('x'), Parameter::Agreement);
        check(|m| m.agreement.as_mut().unwrap().agreement_type = Some("t".to_owned()), Parameter::Agreement);
        check(|m| m.from.id_type = None, Parameter::FromPartyType);
        check(|m| m.from.role = "x".to_owned(), Parameter::FromRole);
        check(|m| m.to.id_type = Some("urn:x".to_owned()), Parameter::ToPartyType);
        check(|m| m.to.role = "x".to_owned(), Parameter::ToRole);
        check(|m| m.mpc = Some("urn:other".to_owned()), Parameter::Mpc);
    }

    #[test]
    fn the_pmode_attribute_selects_among_matching_ones_and_is_not_required() {
        let mut chosen = message();
        chosen.from.id = PartyId::parse("acme").unwrap();
        assert_eq!(found(&chosen), Ok("peppol".to_owned()));
        chosen.agreement.as_mut().unwrap().pmode = Some("partner".to_owned());
        assert_eq!(found(&chosen), Ok("partner".to_owned()));
        chosen.agreement.as_mut().unwrap().pmode = Some("unknown".to_owned());
        assert_eq!(found(&chosen), Ok("peppol".to_owned()));
        let mut foreign = message();
        foreign.agreement.as_mut().unwrap().pmode = Some("partner".to_owned());
        assert_eq!(found(&foreign), Ok("peppol".to_owned()));
    }

    #[test]
    fn without_any_p_mode_nothing_matches() {
        let none = PModes::default().find(&message()).unwrap_err();
        assert_eq!(none, NoPMode { nearest: None, differs: Vec::new() });
    }
}
