//! Who is serviced here: `participants.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::identifiers;
use crate::{
    model::{DocumentTypeId, IdError, ParticipantId, ProcessId, Span, Tenant},
    pmode::{
        DocumentKind, DuplicatePolicy, Stage,
        duplicates::check_window,
        duration::{self, DurationError},
    },
};

/// Why a list of participants cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParticipantsError {
    /// The text is no TOML, or has a key that is not known.
    #[error("participants: {0}")]
    Toml(String),
    /// An identifier is none.
    #[error("participants: {id}: {error}")]
    Id {
        /// The participant, as written.
        id: String,
        /// What is wrong.
        error: IdError,
    },
    /// One participant is there twice; identifiers compare without case.
    #[error("participants: {0} is listed twice")]
    Twice(String),
    /// Not two letters or digits (Peppol reports need the country of C4).
    #[error("participants: {id}: country is a code of two letters, not {country:?}")]
    Country {
        /// The participant, as written.
        id: String,
        /// The value.
        country: String,
    },
    /// A window that cannot be read.
    #[error("participants: {id}: {key} is {error}")]
    Duration {
        /// The participant, as written.
        id: String,
        /// The key.
        key: &'static str,
        /// What is wrong.
        error: DurationError,
    },
    /// A window that is refused.
    #[error("participants: {id}: {key} is refused: {rule}")]
    Window {
        /// The participant, as written.
        id: String,
        /// The key.
        key: &'static str,
        /// The rule.
        rule: &'static str,
    },
    /// `any = true` outside stage `local`, or together with a list.
    #[error("participants: any = true is for stage local, and stands alone")]
    Any,
}

/// The participants of this installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Participants {
    /// Everyone and every document type is serviced (stage `local`).
    Any,
    /// Those of the list, by their normal form.
    Listed(BTreeMap<String, Participant>),
}

/// One participant that is serviced here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    /// Its identifier, as written.
    pub id: ParticipantId,
    /// The country of C4, for reports.
    pub country: String,
    /// Whose backend its documents belong to.
    pub tenant: Tenant,
    /// The document types it receives.
    document_types: Vec<DocumentTypeId>,
    /// The process of each, in the same order.
    processes: Vec<ProcessId>,
    /// Its own windows, where it has some.
    window: Option<Span>,
    financial_window: Option<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    any: bool,
    #[serde(default)]
    participants: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    country: String,
    #[serde(default)]
    tenant: Option<Tenant>,
    doctypes: Vec<Doctype>,
    #[serde(default)]
    dedup: Dedup,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Doctype {
    id: String,
    process: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Dedup {
    window: Option<String>,
    financial_window: Option<String>,
}

impl Participants {
    /// Reads `[[participants]]` tables (`operating`), or `any = true`.
    ///
    /// # Errors
    /// The first fault, with the participant it is at.
    pub fn parse(text: &str, stage: Stage) -> Result<Self, ParticipantsError> {
        let file: File = toml::from_str(text)
            .map_err(|error| ParticipantsError::Toml(error.to_string().trim_end().to_owned()))?;
        if file.any {
            let alone = file.participants.is_empty() && stage == Stage::Local;
            return if alone { Ok(Self::Any) } else { Err(ParticipantsError::Any) };
        }
        let mut listed = BTreeMap::new();
        for entry in file.participants {
            let participant = entry.read(stage)?;
            let id = participant.id.normal_form();
            if listed.insert(id, participant.clone()).is_some() {
                return Err(ParticipantsError::Twice(participant.id.to_string()));
            }
        }
        Ok(Self::Listed(listed))
    }

    /// The participant, when it is listed. With [`Participants::Any`] nobody is.
    #[must_use]
    pub fn get(&self, id: &ParticipantId) -> Option<&Participant> {
        match self {
            Self::Any => None,
            Self::Listed(listed) => listed.get(&id.normal_form()),
        }
    }

    /// Whether a receiver gets such documents here (Peppol AS4 §4.4): the document type is matched as a
    /// sender would match it, and the process is the one listed for what matched, or for an equal type.
    #[must_use]
    pub fn is_serviced(
        &self,
        receiver: &ParticipantId,
        document_type: &DocumentTypeId,
        process: &ProcessId,
    ) -> bool {
        match self {
            Self::Any => true,
            Self::Listed(_) => {
                self.get(receiver).is_some_and(|participant| participant.receives(document_type, process))
            }
        }
    }

    /// The window for a document to this receiver: its own where it has one, otherwise none.
    #[must_use]
    pub fn window(
        &self,
        receiver: &ParticipantId,
        policy: &DuplicatePolicy,
        document: &DocumentKind,
    ) -> Option<Span> {
        let participant = self.get(receiver)?;
        if policy.is_financial(document) {
            participant.financial_window.or(participant.window)
        } else {
            participant.window
        }
    }
}

impl Participant {
    fn receives(&self, document_type: &DocumentTypeId, process: &ProcessId) -> bool {
        let Some(matched) = identifiers::find_match(document_type, &self.document_types) else {
            return false;
        };
        let matched = self.document_types.get(matched);
        let offers = self.document_types.iter().zip(&self.processes);
        offers.into_iter().any(|(listed, of)| Some(listed) == matched && of == process)
    }

    /// What it receives: document type and process.
    pub fn offers(&self) -> impl Iterator<Item = (&DocumentTypeId, &ProcessId)> {
        self.document_types.iter().zip(&self.processes)
    }
}

impl Entry {
    fn read(self, stage: Stage) -> Result<Participant, ParticipantsError> {
        let wrong = |error| ParticipantsError::Id { id: self.id.clone(), error };
        let (scheme, value) = self.id.split_once("::").unwrap_or((identifiers::PARTICIPANT_SCHEME, &self.id));
        let id = identifiers::participant(scheme, value).map_err(wrong)?;
        let country_fits = self.country.len() == 2
            && self.country.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
        if !country_fits {
            return Err(ParticipantsError::Country { id: self.id, country: self.country });
        }
        let (mut document_types, mut processes) = (Vec::new(), Vec::new());
        for doctype in &self.doctypes {
            document_types.push(identifiers::document_type(&doctype.id).map_err(wrong)?);
            processes.push(identifiers::process(&doctype.process).map_err(wrong)?);
        }
        let window = self.span("dedup.window", self.dedup.window.as_deref(), stage)?;
        let financial_window =
            self.span("dedup.financial_window", self.dedup.financial_window.as_deref(), stage)?;
        let tenant = self.tenant.unwrap_or_else(Tenant::default_tenant);
        Ok(Participant {
            id,
            country: self.country,
            tenant,
            document_types,
            processes,
            window,
            financial_window,
        })
    }

    fn span(
        &self,
        key: &'static str,
        text: Option<&str>,
        stage: Stage,
    ) -> Result<Option<Span>, ParticipantsError> {
        let Some(text) = text else { return Ok(None) };
        let id = || self.id.clone();
        let span =
            duration::parse(text).map_err(|error| ParticipantsError::Duration { id: id(), key, error })?;
        check_window(span, stage).map(Some).map_err(|rule| ParticipantsError::Window { id: id(), key, rule })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVOICE: &str =
        "urn:oasis:names:specification:ubl:schema:xsd:Invoice-2::Invoice##urn:cen.eu:en16931:2017::2.1";
    const PINT: &str =
        "urn:oasis:names:specification:ubl:schema:xsd:Invoice-2::Invoice##urn:peppol:pint:billing-1*::2.1";

    fn list(extra: &str) -> String {
        format!(
            "[[participants]]\nid = \"0192:974760673\"\ncountry = \"NO\"\ntenant = \"acme\"\n{extra}\ndoctypes = [{{ id = \"{INVOICE}\", process = \"urn:billing\" }}, {{ id = \"{INVOICE}\", process = \"urn:other\" }}, {{ id = \"{PINT}\", process = \"urn:peppol:bis:billing\" }}]\n"
        )
    }

    fn read(text: &str) -> Result<Participants, String> {
        Participants::parse(text, Stage::Production).map_err(|error| error.to_string())
    }

    fn serviced(receiver: &str, document_type: &str, process: &str) -> bool {
        read(&list("")).unwrap().is_serviced(
            &identifiers::participant(identifiers::PARTICIPANT_SCHEME, receiver).unwrap(),
            &identifiers::document_type(document_type).unwrap(),
            &identifiers::process(process).unwrap(),
        )
    }

    #[test]
    fn receiver_document_type_and_process_decide() {
        assert!(serviced("0192:974760673", INVOICE, "urn:billing"));
        assert!(serviced("0192:974760673", INVOICE, "urn:other"));
        assert!(!serviced("0192:974760673", INVOICE, "urn:third"));
        assert!(!serviced("0192:000000000", INVOICE, "urn:billing"));
        assert!(!serviced("0192:974760673", &INVOICE.replace("Invoice##", "Order##"), "urn:billing"));
    }

    #[test]
    fn a_pint_type_is_serviced_through_its_wildcard() {
        let real = PINT.replace("billing-1*", "billing-1@ae-1");
        assert!(serviced("0192:974760673", &real, "urn:peppol:bis:billing"));
        assert!(!serviced("0192:974760673", &real, "urn:billing"));
        assert!(!serviced(
            "0192:974760673",
            &real.replace("pint:billing", "pint:other"),
            "urn:peppol:bis:billing"
        ));
    }

    #[test]
    fn participants_are_found_without_case() {
        let text = list("").replace("0192:974760673", "0195:SGUEN200618345W");
        let participants = read(&text).unwrap();
        let lower =
            identifiers::participant(identifiers::PARTICIPANT_SCHEME, "0195:sguen200618345w").unwrap();
        assert_eq!(participants.get(&lower).unwrap().country, "NO");
        assert_eq!(participants.get(&lower).unwrap().tenant, Tenant::parse("acme").unwrap());
        assert_eq!(participants.get(&lower).unwrap().offers().count(), 3);
    }

    #[test]
    fn windows_of_a_receiver_override_by_kind() {
        let of = |extra: &str, root: &str| {
            let participants = read(&list(extra)).unwrap();
            let id = identifiers::participant(identifiers::PARTICIPANT_SCHEME, "0192:974760673").unwrap();
            participants.window(&id, &DuplicatePolicy::default(), &DocumentKind::default().named(root))
        };
        assert_eq!(of("", "Invoice"), None);
        assert_eq!(of("dedup = { window = \"40d\" }", "Invoice"), Some(Span::days(40)));
        let both = "dedup = { window = \"40d\", financial_window = \"400d\" }";
        assert_eq!(of(both, "Invoice"), Some(Span::days(400)));
        assert_eq!(of(both, "Order"), Some(Span::days(40)));
        assert_eq!(of("dedup = { financial_window = \"400d\" }", "Order"), None);
    }

    #[test]
    fn faults_name_the_participant() {
        let check = |text: String, message: &str| assert_eq!(read(&text).unwrap_err(), message);
        check(
            list("dedup = { window = \"1d\" }"),
            "participants: 0192:974760673: dedup.window is refused: a window is at least 30d outside stage local",
        );
        check(
            list("dedup = { window = \"1\" }"),
            "participants: 0192:974760673: dedup.window is not a whole number with one of the units ms, s, m, h, d",
        );
        check(
            list("").replace("\"NO\"", "\"Norway\""),
            "participants: 0192:974760673: country is a code of two letters, not \"Norway\"",
        );
        check(
            list("").replace("0192:974760673", "974760673"),
            "participants: 974760673: participant must look like iso6523-actorid-upis::0000:value",
        );
        check(
            format!("{}{}", list(""), list("").replace("0192", "iso6523-actorid-upis::0192")),
            "participants: iso6523-actorid-upis::0192:974760673 is listed twice",
        );
        check(
            format!("any = true\n{}", list("")),
            "participants: any = true is for stage local, and stands alone",
        );
        assert!(read(&list("colour = \"red\"")).unwrap_err().contains("unknown field"));
        assert!(read(&list("").replace("country = \"NO\"\n", "")).unwrap_err().contains("country"));
    }

    #[test]
    fn any_is_for_stage_local() {
        assert_eq!(Participants::parse("any = true", Stage::Local), Ok(Participants::Any));
        assert_eq!(Participants::parse("any = true", Stage::Test), Err(ParticipantsError::Any));
        assert_eq!(read(""), Ok(Participants::Listed(BTreeMap::new())));
    }
}
