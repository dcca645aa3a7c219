//! From the text of a P-Mode file to a [`PMode`]: every key named, every refusal says file, key and rule.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Agreement, BusinessInfo, DuplicatePolicy, Encryption, ErrorHandling, Leg, Limits, Network, PMode,
    PModeId, PModes, PartyMode, ReceptionAwareness, Security, SoapFault, Stage, duplicates, keys::Keys,
};
use crate::model::{PartyId, Scope, Service, Span};

/// Attempts at most in one retry schedule.
const RETRIES_MAX: usize = 32;
/// When attempts are due after the first, in seconds (`duplicates` §4).
const RETRY_SCHEDULE_DEFAULT: [u64; 7] = [0, 30, 120, 300, 540, 1800, 7200];

/// Parameters of the standard that have one value in this product, with every spelling that is taken. The
/// first spelling is the one to write. MEP and binding: Peppol AS4 §4.1, older spellings AS4 §5.2.5; SOAP
/// version: AS4 §2.1.1; MPC: Peppol AS4 §4.8; signed parts: AS4 §5.1.4 and AS4 §5.1.5.
const FIXED: &[(&str, &[&str])] = &[
    (
        "PMode.MEP",
        &[
            "http://docs.oasis-open.org/ebxml-msg/ebms/v3.0/ns/core/200704/oneWay",
            "http://www.oasis-open.org/committees/ebxml-msg/one-way",
        ],
    ),
    (
        "PMode.MEPbinding",
        &[
            "http://docs.oasis-open.org/ebxml-msg/ebms/v3.0/ns/core/200704/push",
            "http://www.oasis-open.org/committees/ebxml-msg/push",
        ],
    ),
    ("PMode[1].Protocol.SOAPVersion", &["1.2"]),
    ("PMode[1].Protocol.AddActorOrRoleAttribute", &["false"]),
    ("PMode[1].BusinessInfo.MPC", &[super::DEFAULT_MPC]),
    ("PMode[1].ErrorHandling.Report.AsResponse", &["true"]),
    ("PMode[1].ErrorHandling.Report.ProcessErrorNotifyConsumer", &["true"]),
    ("PMode[1].ErrorHandling.Report.ProcessErrorNotifyProducer", &["true"]),
    ("PMode[1].ErrorHandling.Report.DeliveryFailuresNotifyProducer", &["true"]),
    ("PMode[1].ErrorHandling.Report.MissingReceiptNotifyProducer", &["true"]),
    ("PMode[1].Security.WSSVersion", &["1.1.1", "1.1"]),
    ("PMode[1].Security.X509.Sign", &["true"]),
    ("PMode[1].Security.X509.Signature.HashFunction", &["http://www.w3.org/2001/04/xmlenc#sha256"]),
    ("PMode[1].Security.X509.Signature.Algorithm", &["http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"]),
    ("PMode[1].Security.X509.Encryption.Algorithm", &["http://www.w3.org/2009/xmlenc11#aes128-gcm"]),
    ("PMode[1].Security.X509.Encryption.MinimumStrength", &["128"]),
    ("PMode[1].Security.PModeAuthorize", &["false"]),
    ("PMode[1].Security.SendReceipt", &["true"]),
    ("PMode[1].Security.SendReceipt.NonRepudiation", &["true"]),
    ("PMode[1].Security.SendReceipt.ReplyPattern", &["Response", "response"]),
    ("PMode[1].PayloadService.CompressionType", &["application/gzip"]),
    ("PMode[1].ReceptionAwareness", &["true"]),
    ("PMode[1].ReceptionAwareness.Retry", &["true"]),
    ("PMode[1].ReceptionAwareness.DuplicateDetection", &["true"]),
];

/// Why P-Mode files cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PModeFileError {
    /// The text is no TOML.
    #[error("{file}: {message}")]
    Toml {
        /// The file.
        file: String,
        /// What the reader of TOML says, with line and column.
        message: String,
    },
    /// A key that no parameter has.
    #[error("{file}: {key} is not a parameter")]
    Unknown {
        /// The file.
        file: String,
        /// The dotted name.
        key: String,
    },
    /// A key that must be there.
    #[error("{file}: {key} is missing")]
    Missing {
        /// The file.
        file: String,
        /// The dotted name.
        key: String,
    },
    /// A value that its key does not take.
    #[error("{file}: {key} {rule}")]
    Value {
        /// The file.
        file: String,
        /// The dotted name.
        key: String,
        /// The rule, to be read after the key.
        rule: String,
    },
    /// Two P-Modes that one message would match alike, or that have one id.
    #[error("{file}: {what} {other} has already")]
    Twice {
        /// The file.
        file: String,
        /// What both have.
        what: &'static str,
        /// The id of the P-Mode read before.
        other: String,
    },
}

/// What holds where a file says nothing: the installation's own rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Defaults {
    /// Decides which windows are taken.
    pub stage: Stage,
    /// What `[dedup]` of the configuration says.
    pub duplicates: DuplicatePolicy,
}

impl PModes {
    /// Reads P-Mode files given as (name, text). Names are used in messages only.
    ///
    /// # Errors
    /// The first fault, with its file, key and rule.
    pub fn from_texts(texts: &[(&str, &str)], defaults: &Defaults) -> Result<Self, PModeFileError> {
        let mut modes: Vec<Arc<PMode>> = Vec::with_capacity(texts.len());
        for (file, text) in texts {
            let mode = read(file, text, defaults)?;
            let clash = modes.iter().find_map(|other| clash(&mode, other).map(|what| (what, other)));
            if let Some((what, other)) = clash {
                let (file, other) = ((*file).to_owned(), other.id.to_string());
                return Err(PModeFileError::Twice { file, what, other });
            }
            modes.push(Arc::new(mode));
        }
        modes.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(Self { modes })
    }
}

/// What two P-Modes may not share.
fn clash(mode: &PMode, other: &PMode) -> Option<&'static str> {
    if mode.id == other.id {
        return Some("PMode.ID is one that");
    }
    let business = |mode: &PMode| {
        let info = &mode.leg.business_info;
        (info.service.clone(), info.action.clone())
    };
    let alike = mode.agreement == other.agreement
        && mode.initiator == other.initiator
        && mode.responder == other.responder
        && business(mode) == business(other);
    alike.then_some("matches the very messages that")
}

fn read(file: &str, text: &str, defaults: &Defaults) -> Result<PMode, PModeFileError> {
    let mut keys = Keys::read(file, text)?;
    for (key, allowed) in FIXED {
        keys.fixed(key, allowed)?;
    }
    let id = keys.text("PMode.ID")?;
    let mode = PMode {
        id: PModeId(keys.demand("PMode.ID", id)?),
        agreement: agreement(&mut keys)?,
        initiator: party(&mut keys, "PMode.Initiator")?,
        responder: party(&mut keys, "PMode.Responder")?,
        leg: leg(&mut keys)?,
        network: network(&mut keys)?,
        duplicates: duplicate_policy(&mut keys, defaults)?,
    };
    keys.finish()?;
    Ok(mode)
}

fn agreement(keys: &mut Keys<'_>) -> Result<Option<Agreement>, PModeFileError> {
    let value = keys.text("PMode.Agreement")?;
    match (value, keys.text("PMode.Agreement.type")?) {
        (Some(value), agreement_type) => Ok(Some(Agreement { value, agreement_type })),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(keys.wrong("PMode.Agreement.type", "needs PMode.Agreement")),
    }
}

fn party(keys: &mut Keys<'_>, side: &str) -> Result<PartyMode, PModeFileError> {
    let key = format!("{side}.Party");
    let party = match keys.text(&key)? {
        Some(text) => Some(PartyId::parse(&text).map_err(|error| keys.wrong(&key, error.to_string()))?),
        None => None,
    };
    Ok(PartyMode {
        party,
        party_type: keys.text(&format!("{side}.Party.type"))?,
        role: keys.text(&format!("{side}.Role"))?,
    })
}

fn leg(keys: &mut Keys<'_>) -> Result<Leg, PModeFileError> {
    let encrypt =
        keys.switch("PMode[1].Security.X509.Encryption.Encrypt", Encryption::Required, Encryption::Accepted)?;
    Ok(Leg {
        business_info: business_info(keys)?,
        error_handling: error_handling(keys)?,
        security: Security { encryption: encrypt.unwrap_or(Encryption::Required) },
        reception_awareness: ReceptionAwareness { retry_schedule: retry_schedule(keys)? },
        limits: Limits { payload_bytes_max: max_size(keys)? },
    })
}

fn business_info(keys: &mut Keys<'_>) -> Result<BusinessInfo, PModeFileError> {
    let service_type = keys.text("PMode[1].BusinessInfo.Service.type")?;
    let service = match keys.text("PMode[1].BusinessInfo.Service")? {
        Some(value) => Some(Service { value, service_type }),
        None if service_type.is_some() => {
            return Err(
                keys.wrong("PMode[1].BusinessInfo.Service.type", "needs PMode[1].BusinessInfo.Service")
            );
        }
        None => None,
    };
    let action = keys.text("PMode[1].BusinessInfo.Action")?;
    let properties = keys.texts("PMode[1].BusinessInfo.Properties[]")?.unwrap_or_default();
    Ok(BusinessInfo { service, action, properties })
}

fn error_handling(keys: &mut Keys<'_>) -> Result<ErrorHandling, PModeFileError> {
    let key = "oncepoint.error_http_status";
    let http_status = match keys.number(key)? {
        None => 200,
        Some(200) => 200,
        Some(400) => 400,
        Some(500) => 500,
        Some(_) => return Err(keys.wrong(key, "is 200, 400 or 500")),
    };
    let soap_fault = keys.switch("oncepoint.error_with_soap_fault", SoapFault::With, SoapFault::Without)?;
    Ok(ErrorHandling { http_status, soap_fault: soap_fault.unwrap_or(SoapFault::Without) })
}

fn max_size(keys: &mut Keys<'_>) -> Result<Option<u64>, PModeFileError> {
    let key = "PMode[1].BusinessInfo.PayloadProfile.maxSize";
    match keys.number(key)? {
        Some(0) => Err(keys.wrong(key, "is at least 1 byte")),
        size => Ok(size),
    }
}

fn retry_schedule(keys: &mut Keys<'_>) -> Result<Vec<Span>, PModeFileError> {
    let ours = "oncepoint.retry_schedule";
    let standard = "PMode[1].ReceptionAwareness.Retry.Parameters";
    let (key, schedule) = match (keys.texts(ours)?, keys.text(standard)?) {
        (None, None) => return Ok(RETRY_SCHEDULE_DEFAULT.map(Span::seconds).to_vec()),
        (Some(_), Some(_)) => {
            return Err(keys.wrong(standard, "says it again: oncepoint.retry_schedule is there"));
        }
        (Some(texts), None) => {
            (ours, texts.iter().map(|text| keys.span(ours, text)).collect::<Result<Vec<_>, _>>()?)
        }
        (None, Some(parameters)) => (standard, constant_schedule(keys, standard, &parameters)?),
    };
    let rising = schedule.windows(2).all(|pair| pair.first() < pair.last());
    if schedule.is_empty() || schedule.len() > RETRIES_MAX || !rising {
        return Err(
            keys.wrong(key, format!("has 1 to {RETRIES_MAX} due times, each later than the one before"))
        );
    }
    Ok(schedule)
}

/// `maxretries=5,period=10000` (AS4 §5.2.4): one attempt and so many retries, the period in milliseconds.
fn constant_schedule(keys: &Keys<'_>, key: &str, text: &str) -> Result<Vec<Span>, PModeFileError> {
    let (mut retries, mut period) = (None, None);
    for part in text.split([',', ';']).map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once('=').map(|(name, value)| (name.trim(), value.trim().parse::<u32>())) {
            Some(("maxretries", Ok(number))) => retries = Some(number),
            Some(("period", Ok(number))) if number > 0 => period = Some(number),
            _ => return Err(keys.wrong(key, "reads maxretries=N,period=MILLISECONDS")),
        }
    }
    match (retries, period) {
        (Some(retries), Some(period)) if usize::try_from(retries).is_ok_and(|n| n < RETRIES_MAX) => {
            Ok((0..=u64::from(retries)).map(|n| Span::millis(n * u64::from(period))).collect())
        }
        _ => {
            Err(keys.wrong(key, format!("reads maxretries=N,period=MILLISECONDS with N below {RETRIES_MAX}")))
        }
    }
}

fn network(keys: &mut Keys<'_>) -> Result<Network, PModeFileError> {
    let key = "oncepoint.network";
    let text = keys.text(key)?;
    match keys.demand(key, text)?.as_str() {
        "peppol" => Ok(Network::Peppol),
        "plain" => Ok(Network::Plain),
        _ => Err(keys.wrong(key, "is \"peppol\" or \"plain\"")),
    }
}

fn duplicate_policy(keys: &mut Keys<'_>, defaults: &Defaults) -> Result<DuplicatePolicy, PModeFileError> {
    let stage = defaults.stage;
    let mut policy = defaults.duplicates.clone();
    if let Some(scope) = keys.text("oncepoint.scope")? {
        policy.scope = scope_of(keys, &scope)?;
    }
    let standard = "PMode[1].ReceptionAwareness.DuplicateDetection.Parameters";
    if let Some(parameters) = keys.text(standard)? {
        let value = parameters.trim().strip_prefix("checkwindow=").map(str::to_ascii_lowercase);
        let value = value.ok_or_else(|| keys.wrong(standard, "reads checkwindow=90D"))?;
        policy.window = window(keys, standard, &value, stage)?;
    }
    if let Some(text) = keys.text("oncepoint.window")? {
        policy.window = window(keys, "oncepoint.window", &text, stage)?;
    }
    if let Some(text) = keys.text("oncepoint.financial_window")? {
        policy.financial_window = window(keys, "oncepoint.financial_window", &text, stage)?;
    }
    if let Some(names) = keys.texts("oncepoint.financial")? {
        policy.financial = names;
    }
    policy.by_document.extend(windows_by_document(keys, stage)?);
    policy.by_partner.extend(windows_by_partner(keys, stage)?);
    if let Some(text) = keys.text("oncepoint.in_progress_wait")? {
        policy.in_progress_wait = keys.span("oncepoint.in_progress_wait", &text)?;
    }
    if let Some(text) = keys.text("oncepoint.takeover_after")? {
        policy.takeover_after = keys.span("oncepoint.takeover_after", &text)?;
    }
    Ok(policy)
}

fn scope_of(keys: &Keys<'_>, text: &str) -> Result<Scope, PModeFileError> {
    match text {
        "id" => Ok(Scope::Id),
        "party+id" => Ok(Scope::PartyId),
        "party+id+payload" => Ok(Scope::PartyIdPayload),
        _ => Err(keys.wrong("oncepoint.scope", "is \"id\", \"party+id\" or \"party+id+payload\"")),
    }
}

fn window(keys: &Keys<'_>, key: &str, text: &str, stage: Stage) -> Result<Span, PModeFileError> {
    let span = match text {
        "forever" => duplicates::FOREVER,
        text => keys.span(key, text)?,
    };
    duplicates::check_window(span, stage).map_err(|rule| keys.wrong(key, format!("is refused: {rule}")))
}

fn windows_by_document(keys: &mut Keys<'_>, stage: Stage) -> Result<BTreeMap<String, Span>, PModeFileError> {
    let key = "oncepoint.window_by_document";
    let entries = keys.table(key)?;
    entries.into_iter().map(|(name, text)| Ok((name, window(keys, key, &text, stage)?))).collect()
}

fn windows_by_partner(keys: &mut Keys<'_>, stage: Stage) -> Result<BTreeMap<PartyId, Span>, PModeFileError> {
    let key = "oncepoint.window_by_partner";
    let entries = keys.table(key)?;
    let read = |(name, text): (String, String)| {
        let partner = PartyId::parse(&name).map_err(|error| keys.wrong(key, error.to_string()))?;
        Ok((partner, window(keys, key, &text, stage)?))
    };
    entries.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEPPOL: &str = include_str!("../../pmodes/peppol.toml");
    const PING: &str = include_str!("../../pmodes/ping.toml");
    const MINIMAL: &str = "PMode.ID = \"m\"\noncepoint.network = \"plain\"\n";

    fn one(text: &str) -> Result<PMode, String> {
        read("m.toml", text, &Defaults::default()).map_err(|error| error.to_string())
    }

    fn with(line: &str) -> Result<PMode, String> {
        one(&format!("{MINIMAL}{line}\n"))
    }

    fn refused(line: &str, message: &str) {
        assert_eq!(with(line).unwrap_err(), message, "{line}");
    }

    #[test]
    fn the_files_that_are_shipped_load_and_say_what_peppol_says() {
        let modes = PModes::from_texts(&[("peppol.toml", PEPPOL), ("ping.toml", PING)], &Defaults::default())
            .unwrap();
        let peppol = modes.get("peppol").unwrap();
        assert_eq!(peppol.network, Network::Peppol);
        assert_eq!(peppol.duplicates, DuplicatePolicy::default());
        assert_eq!(peppol.leg.security.encryption, Encryption::Required);
        assert_eq!(
            peppol.leg.error_handling,
            ErrorHandling { http_status: 200, soap_fault: SoapFault::Without }
        );
        assert_eq!(
            peppol.leg.reception_awareness.retry_schedule,
            RETRY_SCHEDULE_DEFAULT.map(Span::seconds).to_vec()
        );
        let ping = modes.get("ping").unwrap();
        assert_eq!(ping.leg.business_info.action.as_deref(), Some(super::super::TEST_ACTION));
        assert_eq!(modes.iter().count(), 2);
    }

    /// The older spellings of AS4 §5.2.5, Peppol AS4 §4.1 and §4.8.
    #[test]
    fn what_has_one_value_takes_every_spelling_of_it_and_nothing_else() {
        for (key, allowed) in FIXED {
            for spelling in *allowed {
                let bare = matches!(*spelling, "true" | "false" | "128");
                let value = if bare { (*spelling).to_owned() } else { format!("\"{spelling}\"") };
                assert!(with(&format!("\"{key}\" = {value}")).is_ok(), "{key} {spelling}");
            }
            assert!(with(&format!("\"{key}\" = \"other\"")).is_err(), "{key}");
        }
    }

    #[test]
    fn nested_and_dotted_keys_are_the_same_names() {
        let nested = "[PMode]\nID = \"n\"\nAgreement = \"urn:a\"\n[PMode.Initiator]\nRole = \"r\"\n[oncepoint]\nnetwork = \"plain\"\n[oncepoint.window_by_partner]\nPOP000001 = \"40d\"\n[\"PMode[1].BusinessInfo\"]\nAction = \"a\"\n";
        let dotted = "\"PMode.ID\" = \"n\"\n\"PMode.Agreement\" = \"urn:a\"\n\"PMode.Initiator.Role\" = \"r\"\n\"oncepoint.network\" = \"plain\"\n\"oncepoint.window_by_partner\" = { POP000001 = \"40d\" }\n\"PMode[1].BusinessInfo.Action\" = \"a\"\n";
        assert_eq!(one(nested), one(dotted));
        assert!(one(nested).is_ok());
        let twice = format!("{nested}[\"PMode\".Responder]\nRole = \"x\"\n");
        assert!(one(&twice.replace("[PMode]", "\"PMode.Agreement\" = \"urn:b\"\n[PMode]")).is_err());
    }

    #[test]
    fn every_refusal_names_file_key_and_rule() {
        refused("\"PMode.Id\" = \"x\"", "m.toml: PMode.Id is not a parameter");
        refused("\"oncepoint.windows\" = \"90d\"", "m.toml: oncepoint.windows is not a parameter");
        refused(
            "\"oncepoint.window\" = \"90\"",
            "m.toml: oncepoint.window not a whole number with one of the units ms, s, m, h, d",
        );
        refused(
            "\"oncepoint.window\" = \"29d\"",
            "m.toml: oncepoint.window is refused: a window is at least 30d outside stage local",
        );
        refused(
            "\"oncepoint.financial_window\" = \"forever\"",
            "m.toml: oncepoint.financial_window is refused: a window for ever is taken in stage local only",
        );
        refused(
            "\"oncepoint.window_by_document\" = { Order = \"1d\" }",
            "m.toml: oncepoint.window_by_document is refused: a window is at least 30d outside stage local",
        );
        refused(
            "\"oncepoint.scope\" = \"payload\"",
            "m.toml: oncepoint.scope is \"id\", \"party+id\" or \"party+id+payload\"",
        );
        refused(
            "\"oncepoint.error_http_status\" = 503",
            "m.toml: oncepoint.error_http_status is 200, 400 or 500",
        );
        refused(
            "\"oncepoint.error_with_soap_fault\" = \"no\"",
            "m.toml: oncepoint.error_with_soap_fault is true or false",
        );
        refused(
            "\"PMode[1].ReceptionAwareness.DuplicateDetection\" = false",
            "m.toml: PMode[1].ReceptionAwareness.DuplicateDetection can only be true",
        );
        refused(
            "\"PMode[1].Security.X509.Sign\" = false",
            "m.toml: PMode[1].Security.X509.Sign can only be true",
        );
        refused("\"PMode.Agreement.type\" = \"t\"", "m.toml: PMode.Agreement.type needs PMode.Agreement");
        refused(
            "\"PMode.Initiator.Party\" = \"a b\"",
            "m.toml: PMode.Initiator.Party PartyId contains U+0020",
        );
        refused(
            "\"PMode[1].BusinessInfo.PayloadProfile.maxSize\" = 0",
            "m.toml: PMode[1].BusinessInfo.PayloadProfile.maxSize is at least 1 byte",
        );
        assert_eq!(one("oncepoint.network = \"plain\"").unwrap_err(), "m.toml: PMode.ID is missing");
        assert_eq!(one("PMode.ID = \"m\"").unwrap_err(), "m.toml: oncepoint.network is missing");
        assert!(one("PMode.ID = ").unwrap_err().starts_with("m.toml: TOML parse error"));
    }

    #[test]
    fn windows_and_waits_are_read_over_the_defaults() {
        let mode = with("\"oncepoint.scope\" = \"id\"\n\"oncepoint.window\" = \"30d\"\n\"oncepoint.financial_window\" = \"365d\"\n\"oncepoint.financial\" = [\"Order\"]\n\"oncepoint.window_by_partner\" = { POP000001 = \"40d\" }\n\"oncepoint.in_progress_wait\" = \"5s\"\n\"oncepoint.takeover_after\" = \"1h\"").unwrap();
        let policy = mode.duplicates;
        assert_eq!((policy.scope, policy.window), (Scope::Id, Span::days(30)));
        assert_eq!(policy.financial_window, Span::days(365));
        assert_eq!(policy.financial, ["Order"]);
        assert_eq!(policy.by_partner.values().collect::<Vec<_>>(), [&Span::days(40)]);
        assert_eq!((policy.in_progress_wait, policy.takeover_after), (Span::seconds(5), Span::minutes(60)));
        let standard = "\"PMode[1].ReceptionAwareness.DuplicateDetection.Parameters\" = \"checkwindow=60D\"";
        assert_eq!(with(standard).unwrap().duplicates.window, Span::days(60));
        assert!(with(&standard.replace("60D", "7D")).is_err());
    }

    #[test]
    fn stage_local_takes_any_window() {
        let defaults = Defaults { stage: Stage::Local, ..Defaults::default() };
        let text =
            format!("{MINIMAL}\"oncepoint.window\" = \"1m\"\n\"oncepoint.financial_window\" = \"forever\"\n");
        let policy = read("m.toml", &text, &defaults).unwrap().duplicates;
        assert_eq!((policy.window, policy.financial_window), (Span::minutes(1), duplicates::FOREVER));
    }

    #[test]
    fn retry_schedules_rise_and_have_a_limit() {
        let parameters = "\"PMode[1].ReceptionAwareness.Retry.Parameters\" = ";
        let schedule = |line: &str| with(line).map(|mode| mode.leg.reception_awareness.retry_schedule);
        assert_eq!(
            schedule(&format!("{parameters}\"maxretries=2,period=10000\"")),
            Ok(vec![Span::seconds(0), Span::seconds(10), Span::seconds(20)])
        );
        assert_eq!(
            schedule(&format!("{parameters}\"maxretries=31;period=1\"")).map(|s| s.len()),
            Ok(RETRIES_MAX)
        );
        assert!(schedule(&format!("{parameters}\"maxretries=32;period=1\"")).is_err());
        assert!(schedule(&format!("{parameters}\"period=1\"")).is_err());
        assert!(schedule(&format!("{parameters}\"maxretries=2,period=0\"")).is_err());
        assert!(schedule("\"oncepoint.retry_schedule\" = [\"0s\", \"30s\"]").is_ok());
        assert!(schedule("\"oncepoint.retry_schedule\" = [\"30s\", \"30s\"]").is_err());
        assert!(schedule("\"oncepoint.retry_schedule\" = []").is_err());
    }

    #[test]
    fn two_files_may_not_match_the_same_messages() {
        let other = MINIMAL.replace("\"m\"", "\"o\"");
        let texts = [("a.toml", MINIMAL), ("b.toml", other.as_str())];
        let error = PModes::from_texts(&texts, &Defaults::default()).unwrap_err();
        assert_eq!(error.to_string(), "b.toml: matches the very messages that m has already");
        let error = PModes::from_texts(&[("a.toml", MINIMAL), ("b.toml", MINIMAL)], &Defaults::default());
        assert_eq!(error.unwrap_err().to_string(), "b.toml: PMode.ID is one that m has already");
    }
}
