//! Checks 10 to 13: the header of the envelope by itself, against the ebMS header, and against what is
//! serviced here (Peppol Envelope §2, Peppol AS4 §4.6).

use super::{Fault, Participants, Violation, header, identifiers};
use crate::{
    model::{DocumentTypeId, ParticipantId, ProcessId, Timestamp, UserMessage},
    wire::sbdh::{ParticipantRef, PayloadForm, PayloadSpan, Sbd, Sbdh, Scope},
};

/// Scopes that Peppol keeps for itself: never sent, ignored with a warning (Peppol Envelope §2.2).
const RESERVED_SCOPES: [&str; 3] =
    ["COUNTRY_C4", "TECHNICAL_VALIDATION_URL", "TECHNICAL_VALIDATION_REQUIRED"];

/// What is wrong and yet no reason to refuse a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Warning {
    /// `MLS_TO` is no address of the sending provider: its default address counts.
    InvalidMlsTo,
    /// `MLS_TYPE` is none of its two values: `FAILURE_ONLY` counts.
    InvalidMlsType,
    /// A scope that Peppol keeps for itself.
    ReservedScope,
}

impl Warning {
    /// Its stable name.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::InvalidMlsTo => "invalid-mls-to",
            Self::InvalidMlsType => "invalid-mls-type",
            Self::ReservedScope => "reserved-scope",
        }
    }
}

/// What an accepted envelope says: what the backend, reports and MLS need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Business {
    /// C1.
    pub sender: ParticipantId,
    /// C4.
    pub receiver: ParticipantId,
    /// `DOCUMENTID`.
    pub document_type: DocumentTypeId,
    /// `PROCESSID`.
    pub process: ProcessId,
    /// `COUNTRY_C1`.
    pub country_c1: String,
    /// `InstanceIdentifier` of the envelope.
    pub instance_identifier: String,
    /// What was wrong and let pass.
    pub warnings: Vec<Warning>,
}

/// Judges an envelope that came in a message (checks 10 to 13). `seat` is the sending access point's, for
/// `MLS_TO`.
///
/// # Errors
/// The first rule that is broken, in the order of the checks.
pub fn judge(
    message: &UserMessage,
    sbd: &Sbd,
    seat: &str,
    participants: &Participants,
) -> Result<Business, Violation> {
    let business = envelope(sbd, seat)?;
    let corners = header::corners(message)?;
    if !corners.original_sender.is_same(&business.sender) {
        return Err(Violation::found(Fault::OriginalSenderDiffers, corners.original_sender.value()));
    }
    if !corners.final_recipient.is_same(&business.receiver) {
        return Err(Violation::found(Fault::FinalRecipientDiffers, corners.final_recipient.value()));
    }
    if corners.document_type != business.document_type {
        return Err(Violation::found(Fault::ActionDiffers, &message.action));
    }
    if corners.process != business.process {
        return Err(Violation::found(Fault::ServiceDiffers, &message.service.value));
    }
    if participants.is_serviced(&business.receiver, &business.document_type, &business.process) {
        Ok(business)
    } else {
        Err(Violation::found(Fault::NotServiced, &business.receiver.to_string()))
    }
}

/// Check 10: the envelope by itself.
///
/// # Errors
/// The first rule that is broken, in document order.
pub fn envelope(sbd: &Sbd, seat: &str) -> Result<Business, Violation> {
    let sbdh = &sbd.header;
    if sbdh.header_version.as_deref() != Some("1.0") {
        return Err(Violation { fault: Fault::InvalidHeaderVersion, found: sbdh.header_version.clone() });
    }
    let sender = participant(
        sbdh.sender.as_ref(),
        [Fault::InvalidSenderCount, Fault::InvalidSenderAuthority, Fault::InvalidSenderValue],
    )?;
    let receiver = participant(
        sbdh.receiver.as_ref(),
        [Fault::InvalidReceiverCount, Fault::InvalidReceiverAuthority, Fault::InvalidReceiverValue],
    )?;
    let instance_identifier = instance(sbdh)?;
    creation(sbdh)?;
    scopes(sbdh)?;
    let document_type = document_type(sbdh)?;
    identification(sbdh, &sbd.payload, &document_type)?;
    Ok(Business {
        sender,
        receiver,
        process: process(sbdh)?,
        country_c1: country(sbdh)?,
        instance_identifier,
        warnings: warnings(sbdh, seat),
        document_type,
    })
}

fn participant(
    reference: Option<&ParticipantRef>,
    [count, authority, value]: [Fault; 3],
) -> Result<ParticipantId, Violation> {
    let reference = reference.ok_or_else(|| Violation::missing(count))?;
    if reference.authority.as_deref() != Some(identifiers::PARTICIPANT_SCHEME) {
        return Err(Violation { fault: authority, found: reference.authority.clone() });
    }
    let text = reference.value.as_deref().unwrap_or_default();
    identifiers::participant(identifiers::PARTICIPANT_SCHEME, text).map_err(|_| Violation::found(value, text))
}

fn instance(sbdh: &Sbdh) -> Result<String, Violation> {
    let instance = sbdh.instance_identifier.as_deref().map(str::trim).filter(|text| !text.is_empty());
    instance.map(str::to_owned).ok_or(Violation::missing(Fault::InvalidInstanceIdentifier))
}

/// xs:dateTime with `Z` or an offset (Peppol Envelope §2.1).
fn creation(sbdh: &Sbdh) -> Result<(), Violation> {
    let text = sbdh.creation.as_deref().unwrap_or_default().trim();
    let offset = text.get(text.len().saturating_sub(6)..).unwrap_or_default();
    let has_zone = text.ends_with('Z') || offset.starts_with(['+', '-']);
    if has_zone && Timestamp::parse(text).is_ok() {
        return Ok(());
    }
    Err(Violation::found(Fault::InvalidCreationDateTime, text))
}

/// Every scope has a type of its own (Peppol Envelope §2.2).
fn scopes(sbdh: &Sbdh) -> Result<(), Violation> {
    if sbdh.scopes.is_empty() {
        return Err(Violation::missing(Fault::BusinessScopeMissing));
    }
    for (n, scope) in sbdh.scopes.iter().enumerate() {
        let name = scope.scope_type.as_deref().unwrap_or_default();
        let again = sbdh.scopes.iter().skip(n + 1).any(|other| other.scope_type == scope.scope_type);
        if name.is_empty() || again {
            return Err(Violation::found(Fault::InvalidScopeCount, name));
        }
    }
    Ok(())
}

/// Value and scheme of a scope, the scheme as said or the one that a missing Identifier means.
fn scoped<'a>(scope: &'a Scope, scheme: &'a str) -> (&'a str, &'a str) {
    let said = scope.identifier.as_deref().filter(|said| !said.is_empty());
    (said.unwrap_or(scheme), scope.instance.as_deref().unwrap_or_default())
}

fn document_type(sbdh: &Sbdh) -> Result<DocumentTypeId, Violation> {
    let scope = sbdh.scope("DOCUMENTID").ok_or(Violation::missing(Fault::MissingDocumentTypeIdentifier))?;
    let (scheme, value) = scoped(scope, identifiers::DOCTYPE_EXACT);
    let wrong = || Violation::found(Fault::InvalidDocumentTypeIdentifier, value);
    let id = DocumentTypeId::new(scheme, value).map_err(|_| wrong())?;
    let parts = identifiers::DocumentTypeParts::of(value).ok_or_else(wrong)?;
    // The star is for registrations; a document has a real type (Peppol PFUOI §5.1.2).
    if parts.customization.contains('*') { Err(wrong()) } else { Ok(id) }
}

fn process(sbdh: &Sbdh) -> Result<ProcessId, Violation> {
    let scope = sbdh.scope("PROCESSID").ok_or(Violation::missing(Fault::MissingProcessIdentifier))?;
    let (scheme, value) = scoped(scope, identifiers::PROCESS_SCHEME);
    ProcessId::new(scheme, value).map_err(|_| Violation::found(Fault::InvalidProcessIdentifier, value))
}

fn country(sbdh: &Sbdh) -> Result<String, Violation> {
    let scope = sbdh.scope("COUNTRY_C1").ok_or(Violation::missing(Fault::MissingCountryC1))?;
    let code = scope.instance.as_deref().unwrap_or_default();
    if code.len() == 2 && code.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()) {
        return Ok(code.to_owned());
    }
    Err(Violation::found(Fault::InvalidCountryC1, code))
}

/// `Standard`, `TypeVersion` and `Type` are those of the document and of its type. Of what is wrapped in
/// `BinaryContent` or `TextContent` they only have to be there (Peppol Envelope §2.3).
fn identification(
    sbdh: &Sbdh,
    payload: &PayloadSpan,
    document_type: &DocumentTypeId,
) -> Result<(), Violation> {
    let demanded = |value: &'_ Option<String>, fault: Fault| {
        value.clone().filter(|text| !text.trim().is_empty()).ok_or_else(|| Violation::missing(fault))
    };
    let standard = demanded(&sbdh.standard, Fault::MissingStandard)?;
    let version = demanded(&sbdh.type_version, Fault::MissingTypeVersion)?;
    let root = demanded(&sbdh.document_type, Fault::MissingType)?;
    if payload.form != PayloadForm::Xml {
        return Ok(());
    }
    let value = document_type.value();
    let begins = value.strip_prefix(standard.as_str()).is_some_and(|rest| rest.starts_with("::"));
    if standard != payload.root_namespace || !begins {
        return Err(Violation::found(Fault::InvalidStandard, &standard));
    }
    if !value.strip_suffix(version.as_str()).is_some_and(|rest| rest.ends_with(':')) {
        return Err(Violation::found(Fault::InvalidTypeVersion, &version));
    }
    if root != payload.root_local {
        return Err(Violation::found(Fault::InvalidType, &root));
    }
    Ok(())
}

fn warnings(sbdh: &Sbdh, seat: &str) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if sbdh.scope("MLS_TO").is_some_and(|scope| !is_mls_to(scope, seat)) {
        warnings.push(Warning::InvalidMlsTo);
    }
    let known = |scope: &Scope| matches!(scope.instance.as_deref(), Some("FAILURE_ONLY" | "ALWAYS_SEND"));
    if sbdh.scope("MLS_TYPE").is_some_and(|scope| !known(scope)) {
        warnings.push(Warning::InvalidMlsType);
    }
    if RESERVED_SCOPES.iter().any(|name| sbdh.scope(name).is_some()) {
        warnings.push(Warning::ReservedScope);
    }
    warnings
}

/// An address of the very provider that sends: `0242:` and the digits of its seat, with or without a use
/// case (Peppol MLS §5.1, SPIS).
fn is_mls_to(scope: &Scope, seat: &str) -> bool {
    let scheme = scope.identifier.as_deref() == Some(identifiers::PARTICIPANT_SCHEME);
    let value = scope.instance.as_deref().and_then(|value| value.strip_prefix("0242:"));
    let main = seat.get(3..).unwrap_or_default();
    scheme
        && value.and_then(|value| value.strip_prefix(main)).is_some_and(|rest| {
            main.len() == 6 && (rest.is_empty() || rest.strip_prefix('-').is_some_and(is_use_case))
        })
}

/// `[0-9A-Z_]{3,12}(\.[0-9A-Z\-._~]{3,24})?`, without case (SPIS).
fn is_use_case(text: &str) -> bool {
    let (name, suffix) = text.split_once('.').map_or((text, None), |(name, suffix)| (name, Some(suffix)));
    let word = |text: &str, also: &[u8]| text.bytes().all(|b| b.is_ascii_alphanumeric() || also.contains(&b));
    let named = (3..=12).contains(&name.len()) && word(name, b"_");
    named && suffix.is_none_or(|suffix| (3..=24).contains(&suffix.len()) && word(suffix, b"-._~"))
}

#[cfg(test)]
mod tests;
