//! Why a message is refused, and what its sender is told: one table from causes to answers.
//!
//! The two are kept apart. The cause goes to the log whole. The answer says no more than a sender needs: of
//! a failed authentication, decryption or policy nothing but the code, or it would be an oracle. A fault of
//! ours and whatever passes by itself is HTTP 503 without SOAP, because peers take every `eb:Error` for
//! final (`as4-wire` §6.4).

use crate::{
    model::{EbmsCode, EbmsError, ItemId, MessageId, PartyId, Span},
    peppol::{self, Fault, Violation},
    pmode::{ErrorHandling, Network, NoPMode},
    security::{SecurityError, SecurityStage, trust::TrustError},
    wire::{
        ebms::EbmsReadError, gzip::GzipError, mime::MimeError, sbdh::SbdError, soap::SoapError, xml::XmlError,
    },
};

/// `Retry-After` while the first message is in progress.
pub const RETRY_AFTER_IN_PROGRESS: Span = Span::seconds(10);
/// `Retry-After` for faults of ours: storage, revocation lists, the crypto library.
pub const RETRY_AFTER_FAULT: Span = Span::seconds(30);
/// The `eb:ErrorDetail` that says that a participant is not serviced, exactly (Peppol AS4 §4.4).
pub const NOT_SERVICED: &str = "PEPPOL:NOT_SERVICED";
/// Longest `eb:ErrorDetail` that is sent, in characters.
const DETAIL_CHARS_MAX: usize = 300;

/// Where a message failed, in the order of processing (`as4-wire` §13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The package.
    Mime,
    /// The XML of the SOAP part.
    Xml,
    /// The envelope.
    Soap,
    /// `eb:Messaging`.
    Ebms,
    /// The choice of the P-Mode, parties and agreement.
    PMode,
    /// Algorithms and structure of the security header.
    Policy,
    /// Signature value, digests of Messaging and Body.
    Signature,
    /// What must be signed and encrypted.
    Coverage,
    /// The signer's certificate.
    Trust,
    /// Whether the signer is who the message is from.
    Party,
    /// The duplicate decision.
    Duplicate,
    /// Content key and tags.
    Decrypt,
    /// Signed digests of the attachments.
    Attachment,
    /// Decompression.
    Decompress,
    /// Envelope and network rules.
    Sbdh,
    /// The transaction.
    Store,
}

impl Stage {
    /// The name in records and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mime => "mime",
            Self::Xml => "xml",
            Self::Soap => "soap",
            Self::Ebms => "ebms",
            Self::PMode => "pmode",
            Self::Policy => "policy",
            Self::Signature => "signature",
            Self::Coverage => "coverage",
            Self::Trust => "trust",
            Self::Party => "party",
            Self::Duplicate => "duplicate",
            Self::Decrypt => "decrypt",
            Self::Attachment => "attachment",
            Self::Decompress => "decompress",
            Self::Sbdh => "sbdh",
            Self::Store => "store",
        }
    }
}

/// Why a message is refused: what the log is told.
#[derive(Debug, thiserror::Error)]
pub enum RefusalCause {
    /// The package.
    #[error("mime: {0}")]
    Mime(#[from] MimeError),
    /// The XML.
    #[error("xml: {0}")]
    Xml(#[from] XmlError),
    /// The envelope.
    #[error("soap: {0}")]
    Soap(#[from] SoapError),
    /// The header.
    #[error("ebms: {0}")]
    Ebms(#[from] EbmsReadError),
    /// A Receipt or Error came as a request of its own (eDelivery AS4 §3.3.2).
    #[error("a signal message came as a request")]
    SignalAsRequest,
    /// The Action of the test service with another Service (ebMS3 Core §5.2.2.9).
    #[error("the Action of the test service with Service {0:?}")]
    TestActionElsewhere(String),
    /// No P-Mode.
    #[error("pmode: {0}")]
    PMode(#[from] NoPMode),
    /// A message property that the P-Mode demands is not there.
    #[error("the message property {0} is missing")]
    PropertyMissing(String),
    /// A rule of the network.
    #[error("peppol: {0}")]
    Peppol(#[from] Violation),
    /// Signature, certificate, decryption, policy.
    #[error("security: {0}")]
    Security(#[from] SecurityError),
    /// The signer may only repeat what it signed when it was good, and this is no repeat.
    #[error("the signer is not good for a new message: {0}")]
    SignerNotGood(TrustError),
    /// The MessageId was used with other content.
    #[error("the MessageId was accepted with other content, item {0}")]
    IdReused(ItemId),
    /// The MessageId was used by another party, in scope `id`.
    #[error("the MessageId was accepted from another party, item {0}")]
    IdOfOtherParty(ItemId),
    /// The signature was accepted under another key.
    #[error("the signature was accepted with another message, item {0}")]
    ReplayedSignature(ItemId),
    /// The first message is in progress, here or on another node.
    #[error("the first message is still in progress")]
    InProgress,
    /// The compressed payload.
    #[error("gzip: {0}")]
    Gzip(#[from] GzipError),
    /// More bytes than the P-Mode allows, decompressed.
    #[error("the payload is larger than {0} bytes")]
    PayloadTooLarge(u64),
    /// The envelope of the document.
    #[error("sbd: {0}")]
    Sbd(#[from] SbdError),
    /// More bytes than the installation takes, as sent.
    #[error("the message is larger than {0} bytes")]
    MessageTooLarge(u64),
    /// A fault of ours; the text says which.
    #[error("our own fault: {0}")]
    Ours(String),
}

/// What the sender is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalAnswer {
    /// A signed `eb:Error`.
    Ebms(EbmsError),
    /// A SOAP Fault without `eb:Error`.
    Fault(FaultCode),
    /// HTTP alone, with a short text.
    Http {
        /// The status.
        status: u16,
        /// The text.
        text: &'static str,
    },
    /// HTTP 503: it passes by itself.
    Unavailable {
        /// When to try again.
        retry_after: Span,
    },
}

/// `S12:Fault/S12:Code/S12:Value` (SOAP 1.2 Part 1 §5.4.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultCode {
    /// The envelope is of another version.
    VersionMismatch,
    /// A header block must be understood and is not.
    MustUnderstand {
        /// Its namespace.
        namespace: String,
        /// Its local name.
        local: String,
    },
}

/// A refused message.
#[derive(Debug)]
pub struct Refusal {
    /// What the sender is told.
    pub answer: RefusalAnswer,
    /// What the log is told.
    pub cause: Box<RefusalCause>,
    /// Where it failed.
    pub stage: Stage,
    /// The MessageId that the answer refers to, when it could be read.
    pub ref_to: Option<MessageId>,
    /// Which seat was addressed, and signs the answer.
    pub to: Option<PartyId>,
    /// How its P-Mode wants errors to go out.
    pub handling: ErrorHandling,
}

impl Refusal {
    /// A refusal for a cause; what is answered follows from it.
    pub(super) fn new(cause: impl Into<RefusalCause>, ref_to: Option<&MessageId>) -> Self {
        let cause = cause.into();
        Self {
            answer: answer(&cause),
            stage: stage(&cause),
            ref_to: ref_to.cloned(),
            to: None,
            handling: ErrorHandling::default(),
            cause: Box::new(cause),
        }
    }

    /// The same, of a message to that seat.
    pub(super) fn for_seat(self, to: &PartyId) -> Self {
        Self { to: Some(to.clone()), ..self }
    }

    /// The same, under a P-Mode's rules for errors.
    pub(super) fn under(self, handling: ErrorHandling) -> Self {
        Self { handling, ..self }
    }

    /// The package could not be read. The MessageId is known when the SOAP part had been read before.
    #[must_use]
    pub fn mime(error: MimeError, ref_to: Option<&MessageId>) -> Self {
        Self::new(error, ref_to)
    }

    /// The message is longer than the installation takes: HTTP 413.
    #[must_use]
    pub fn too_large(bytes_max: u64) -> Self {
        Self::new(RefusalCause::MessageTooLarge(bytes_max), None)
    }

    /// The first message is still in progress after the wait: HTTP 503 (`duplicates` §2).
    #[must_use]
    pub fn in_progress() -> Self {
        Self::new(RefusalCause::InProgress, None)
    }

    /// A fault of ours: HTTP 503, the id is given back (`duplicates` §2).
    #[must_use]
    pub fn ours(what: impl Into<String>) -> Self {
        Self::new(RefusalCause::Ours(what.into()), None)
    }

    /// The signature was accepted with another message: EBMS:0101 (`duplicates` §2).
    #[must_use]
    pub fn replayed_signature(item: ItemId, ref_to: &MessageId) -> Self {
        Self::new(RefusalCause::ReplayedSignature(item), Some(ref_to))
    }

    /// The code of the `eb:Error`, when one is sent.
    #[must_use]
    pub const fn code(&self) -> Option<EbmsCode> {
        match &self.answer {
            RefusalAnswer::Ebms(error) => Some(error.code),
            _ => None,
        }
    }

    /// Whether the sender may simply try again: the message is not at fault.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self.answer, RefusalAnswer::Unavailable { .. })
    }
}

/// Where a cause belongs.
fn stage(cause: &RefusalCause) -> Stage {
    use RefusalCause as C;
    match cause {
        C::Mime(_) | C::MessageTooLarge(_) => Stage::Mime,
        C::Xml(_) => Stage::Xml,
        C::Soap(SoapError::SecondSecurity) => Stage::Policy,
        C::Soap(SoapError::DuplicateId(_)) => Stage::Signature,
        C::Soap(
            SoapError::MultiHop(_)
            | SoapError::NoMessaging
            | SoapError::SecondBody
            | SoapError::SecondMessaging,
        ) => Stage::Ebms,
        C::Soap(_) => Stage::Soap,
        C::Ebms(_) | C::SignalAsRequest | C::TestActionElsewhere(_) => Stage::Ebms,
        C::PMode(_) | C::PropertyMissing(_) => Stage::PMode,
        C::Peppol(violation) => match violation.fault.check() {
            peppol::Check::PartyBinding => Stage::Party,
            peppol::Check::Parties | peppol::Check::Agreement => Stage::PMode,
            _ => Stage::Sbdh,
        },
        C::Security(error) => error.stage().map_or(Stage::Policy, stage_of_security),
        C::SignerNotGood(_) => Stage::Trust,
        C::IdReused(_) | C::IdOfOtherParty(_) | C::ReplayedSignature(_) | C::InProgress => Stage::Duplicate,
        C::Gzip(_) | C::PayloadTooLarge(_) => Stage::Decompress,
        C::Sbd(_) => Stage::Sbdh,
        C::Ours(_) => Stage::Store,
    }
}

const fn stage_of_security(stage: SecurityStage) -> Stage {
    match stage {
        SecurityStage::Policy => Stage::Policy,
        SecurityStage::Signature => Stage::Signature,
        SecurityStage::Coverage => Stage::Coverage,
        SecurityStage::Trust => Stage::Trust,
        SecurityStage::Decrypt => Stage::Decrypt,
        SecurityStage::Attachment => Stage::Attachment,
    }
}

/// The table (`as4-wire` §6.4 and §8, `peppol-network` §2.4).
fn answer(cause: &RefusalCause) -> RefusalAnswer {
    use EbmsCode as E;
    use RefusalCause as C;
    match cause {
        C::Mime(error) => of_mime(error),
        C::Xml(_) => told(E::InvalidHeader, "The SOAP part is not acceptable XML.", cause),
        C::Soap(error) => of_soap(error, cause),
        C::Ebms(error) => of_ebms(error, cause),
        C::SignalAsRequest => {
            RefusalAnswer::Http { status: 400, text: "signal messages are taken as responses only\n" }
        }
        C::TestActionElsewhere(_) => {
            told(E::ValueInconsistent, "The Action of the test service needs its Service.", cause)
        }
        C::PMode(none) => of_no_pmode(none),
        C::PropertyMissing(_) => {
            told(E::ProcessingModeMismatch, "The message does not fit its processing mode.", cause)
        }
        C::Peppol(violation) => of_violation(violation),
        C::Security(error) => of_security(error),
        C::SignerNotGood(TrustError::RevocationUnknown) | C::Ours(_) => {
            RefusalAnswer::Unavailable { retry_after: RETRY_AFTER_FAULT }
        }
        C::SignerNotGood(_) | C::ReplayedSignature(_) => generic(E::FailedAuthentication),
        C::IdReused(_) => only(E::ValueInconsistent, "MessageId reused with different content"),
        C::IdOfOtherParty(_) => only(E::ValueInconsistent, "MessageId already used"),
        C::InProgress => RefusalAnswer::Unavailable { retry_after: RETRY_AFTER_IN_PROGRESS },
        C::Gzip(_) | C::PayloadTooLarge(_) => {
            told(E::DecompressionFailure, "The payload cannot be decompressed.", cause)
        }
        C::Sbd(_) => told(E::Other, "The payload is no acceptable StandardBusinessDocument.", cause),
        C::MessageTooLarge(_) => RefusalAnswer::Http { status: 413, text: "the message is too large\n" },
    }
}

/// An error that says no more than its code and a text.
fn only(code: EbmsCode, description: &str) -> RefusalAnswer {
    RefusalAnswer::Ebms(EbmsError::new(code, description))
}

/// An error that also says what was found.
fn told(code: EbmsCode, description: &str, detail: &dyn ToString) -> RefusalAnswer {
    let detail: String = detail.to_string().chars().take(DETAIL_CHARS_MAX).collect();
    RefusalAnswer::Ebms(EbmsError::new(code, description).with_detail(detail))
}

/// The one text of a security code.
fn generic(code: EbmsCode) -> RefusalAnswer {
    only(
        code,
        match code {
            EbmsCode::FailedDecryption => "The message could not be decrypted.",
            EbmsCode::PolicyNoncompliance => "The message does not comply with the security policy.",
            _ => "The message could not be authenticated.",
        },
    )
}

fn of_mime(error: &MimeError) -> RefusalAnswer {
    match error {
        MimeError::NoContentType
        | MimeError::ContentType(_)
        | MimeError::NotSoap(_)
        | MimeError::NoBoundary
        | MimeError::Boundary
        | MimeError::NoParts => {
            RefusalAnswer::Http { status: 400, text: "neither a SOAP 1.2 message nor a package of one\n" }
        }
        error => told(EbmsCode::MimeInconsistency, "The MIME package is inconsistent.", error),
    }
}

fn of_soap(error: &SoapError, cause: &RefusalCause) -> RefusalAnswer {
    match error {
        SoapError::NotAnEnvelope => {
            RefusalAnswer::Http { status: 400, text: "the root part is no SOAP envelope\n" }
        }
        SoapError::VersionMismatch => RefusalAnswer::Fault(FaultCode::VersionMismatch),
        SoapError::MustUnderstand { namespace, local } => RefusalAnswer::Fault(FaultCode::MustUnderstand {
            namespace: namespace.clone(),
            local: local.clone(),
        }),
        SoapError::MultiHop(_) => {
            told(EbmsCode::FeatureNotSupported, "Multi-hop messaging is not supported.", cause)
        }
        _ => told(EbmsCode::InvalidHeader, "The SOAP envelope is not acceptable.", cause),
    }
}

fn of_ebms(error: &EbmsReadError, cause: &RefusalCause) -> RefusalAnswer {
    let (code, description) = match error {
        EbmsReadError::InvalidHeader { .. } => (EbmsCode::InvalidHeader, "The ebMS header is not valid."),
        EbmsReadError::ValueInconsistent { .. } => {
            (EbmsCode::ValueInconsistent, "A value of the ebMS header contradicts another or a rule.")
        }
        EbmsReadError::ExternalPayload { .. } => {
            (EbmsCode::ExternalPayloadError, "Payloads and their references do not match.")
        }
        EbmsReadError::FeatureNotSupported { .. } => {
            (EbmsCode::FeatureNotSupported, "The ebMS header asks for something that is not supported.")
        }
        EbmsReadError::BodyContent => (EbmsCode::ValueInconsistent, "The SOAP Body must be empty."),
    };
    told(code, description, cause)
}

/// EBMS:0010, unless the nearest P-Mode is Peppol's and the network has a code for what differs.
fn of_no_pmode(none: &NoPMode) -> RefusalAnswer {
    let is_peppol = none.nearest.as_ref().is_some_and(|mode| mode.network == Network::Peppol);
    let fault = none.differs.iter().find_map(|parameter| peppol::header::fault_of(*parameter));
    match fault {
        Some(fault) if is_peppol => of_violation(&Violation::missing(fault)),
        _ => {
            let differs =
                none.differs.iter().map(|parameter| parameter.name()).collect::<Vec<_>>().join(", ");
            told(EbmsCode::ProcessingModeMismatch, "No processing mode matches the message.", &differs)
        }
    }
}

fn of_violation(violation: &Violation) -> RefusalAnswer {
    let fault = violation.fault;
    let code = fault.check().code().unwrap_or(EbmsCode::Other);
    match fault {
        Fault::NotServiced => told(code, "The addressed participant is not serviced here.", &NOT_SERVICED),
        Fault::PartyNotSigner => generic(code),
        _ => told(code, fault.rule(), violation),
    }
}

fn of_security(error: &SecurityError) -> RefusalAnswer {
    match error.code() {
        Some(code) => generic(code),
        None => RefusalAnswer::Unavailable { retry_after: RETRY_AFTER_FAULT },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_is_sent_whole_at_the_limit_and_cut_beyond() {
        let detail = |length: usize| match told(EbmsCode::Other, "d", &"é".repeat(length)) {
            RefusalAnswer::Ebms(error) => error.detail.unwrap_or_default().chars().count(),
            other => panic!("{other:?}"),
        };
        assert_eq!(detail(DETAIL_CHARS_MAX), DETAIL_CHARS_MAX);
        assert_eq!(detail(DETAIL_CHARS_MAX + 1), DETAIL_CHARS_MAX);
    }

    #[test]
    fn not_serviced_is_said_exactly_so_and_every_other_rule_by_its_name() {
        for fault in Fault::ALL.iter().copied().filter(|fault| *fault != Fault::PartyNotSigner) {
            let RefusalAnswer::Ebms(error) = of_violation(&Violation::missing(fault)) else {
                panic!("{fault:?}")
            };
            let detail = error.detail.unwrap_or_default();
            if fault == Fault::NotServiced {
                assert_eq!((error.code, detail.as_str()), (EbmsCode::Other, "PEPPOL:NOT_SERVICED"));
            } else {
                assert!(detail.starts_with(fault.id()), "{detail}");
            }
        }
    }
}
