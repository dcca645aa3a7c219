//! Complete answers: receipts and refusals as the bytes that go out, and never change again.

use bytes::Bytes;

use super::{Admitted, FaultCode, Refusal, RefusalAnswer, Site};
use crate::{
    model::{Answer, AnswerKind, EbmsError, MessageId, SignalMessage, Span, Timestamp},
    pmode::{ErrorHandling, SoapFault},
    security::{
        key::OwnKey,
        signature::{self, SignError, SigningIds},
    },
    wire::{ebms, soap::namespace::SOAP12},
};

/// The Content-Type of every SOAP answer (`as4-wire` §6.4).
pub const SOAP_CONTENT_TYPE: &str = "application/soap+xml; charset=UTF-8";
/// The Content-Type of an answer without SOAP.
const TEXT_CONTENT_TYPE: &str = "text/plain; charset=UTF-8";

/// What an answer needs and the pure half cannot make: an id of its own, and the time.
#[derive(Debug, Clone)]
pub struct SignalIds {
    /// The MessageId of the signal, unused so far.
    pub message_id: MessageId,
    /// `eb:Timestamp`.
    pub now: Timestamp,
}

/// An answer with the header that HTTP 503 needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Status, Content-Type and body.
    pub answer: Answer,
    /// `Retry-After`, for what passes by itself.
    pub retry_after: Option<Span>,
}

/// A signed Receipt for a message: every `ds:Reference` of its signature, copied whole (AS4 §5.1.8). It is
/// stored as it is, before it goes out, and every repeat gets these bytes again.
///
/// # Errors
/// When signing fails: a fault of ours.
pub fn receipt(admitted: &Admitted, ids: &SignalIds, key: &OwnKey) -> Result<Answer, SignError> {
    let signal = signal(ids, Some(&admitted.message().message_id), Vec::new());
    let names = names(ids);
    let references = admitted.verified().references_c14n();
    let messaging = ebms::write_receipt_messaging(&signal, &names.messaging, &references);
    let body = signature::sign_envelope(&messaging, "", &names, key)?;
    Ok(soap(AnswerKind::Receipt, 200, body))
}

/// The answer to a refused message. An `eb:Error` is signed by the seat that was addressed, or by the first;
/// when that fails, the answer is HTTP 503.
#[must_use]
pub fn refusal(refusal: &Refusal, ids: &SignalIds, site: &Site) -> Outgoing {
    let transient = |retry_after: Span| Outgoing {
        answer: text(503, "try again later\n"),
        retry_after: Some(retry_after),
    };
    let answer = match &refusal.answer {
        RefusalAnswer::Unavailable { retry_after } => return transient(*retry_after),
        RefusalAnswer::Http { status, text: what } => text(*status, what),
        RefusalAnswer::Fault(code) => fault(code),
        RefusalAnswer::Ebms(error) => {
            let addressed = refusal.to.as_ref().and_then(|to| site.identity(to));
            let Some(identity) = addressed.or_else(|| site.identities.first()) else {
                return transient(super::RETRY_AFTER_FAULT);
            };
            match error_signal(error, refusal, ids, &identity.key) {
                Ok(answer) => answer,
                Err(_) => return transient(super::RETRY_AFTER_FAULT),
            }
        }
    };
    Outgoing { answer, retry_after: None }
}

fn error_signal(
    error: &EbmsError,
    refusal: &Refusal,
    ids: &SignalIds,
    key: &OwnKey,
) -> Result<Answer, SignError> {
    let names = names(ids);
    let signal = signal(ids, refusal.ref_to.as_ref(), vec![error.clone()]);
    let messaging = ebms::write_error_messaging(&signal, &names.messaging);
    let body = match refusal.handling.soap_fault {
        SoapFault::Without => signature::sign_envelope(&messaging, "", &names, key)?,
        SoapFault::With => {
            let children = fault_element("S12:Receiver", error.code.short_description());
            signature::sign_envelope(&messaging, &children, &names, key)?
        }
    };
    Ok(soap(AnswerKind::Refusal, status(refusal.handling), body))
}

/// The HTTP status of an `eb:Error`: with a Fault of `S12:Receiver` it is 500 (SOAP 1.2 Part 2 §7.5.2.2).
const fn status(handling: ErrorHandling) -> u16 {
    match handling.soap_fault {
        SoapFault::With => 500,
        SoapFault::Without => handling.http_status,
    }
}

fn signal(ids: &SignalIds, ref_to: Option<&MessageId>, errors: Vec<EbmsError>) -> SignalMessage {
    SignalMessage {
        message_id: ids.message_id.clone(),
        timestamp: ids.now,
        ref_to_message_id: ref_to.cloned(),
        errors,
    }
}

/// Ids of the signed parts. They are made of the MessageId, which is unique, in the characters of an `NCName`.
fn names(ids: &SignalIds) -> SigningIds {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let suffix: String = ids.message_id.as_str().chars().take(64).map(plain).collect();
    SigningIds {
        messaging: format!("msg-{suffix}"),
        body: format!("body-{suffix}"),
        token: format!("X509-{suffix}"),
        signature: format!("SIG-{suffix}"),
    }
}

fn soap(kind: AnswerKind, status: u16, body: impl Into<Bytes>) -> Answer {
    Answer { kind, status, content_type: Some(SOAP_CONTENT_TYPE.to_owned()), body: body.into() }
}

fn text(status: u16, text: &'static str) -> Answer {
    Answer {
        kind: AnswerKind::Refusal,
        status,
        content_type: Some(TEXT_CONTENT_TYPE.to_owned()),
        body: Bytes::from_static(text.as_bytes()),
    }
}

/// A SOAP Fault without `eb:Error`: the envelope could not even be understood (SOAP 1.2 Part 1 §5.4).
fn fault(code: &FaultCode) -> Answer {
    let (header, value, reason) = match code {
        FaultCode::VersionMismatch => (
            "<S12:Upgrade><S12:SupportedEnvelope qname=\"S12:Envelope\"></S12:SupportedEnvelope></S12:Upgrade>"
                .to_owned(),
            "S12:VersionMismatch",
            "SOAP 1.2 is expected",
        ),
        FaultCode::MustUnderstand { namespace, local } => (
            format!(
                "<S12:NotUnderstood xmlns:nu=\"{}\" qname=\"nu:{}\"></S12:NotUnderstood>",
                escaped(namespace),
                escaped(local)
            ),
            "S12:MustUnderstand",
            "A mandatory header block is not understood",
        ),
    };
    let body = format!(
        "<S12:Envelope xmlns:S12=\"{SOAP12}\"><S12:Header>{header}</S12:Header><S12:Body>{}</S12:Body></S12:Envelope>",
        fault_element(value, reason)
    );
    soap(AnswerKind::Refusal, 500, body.into_bytes())
}

fn fault_element(code: &str, reason: &str) -> String {
    format!(
        "<S12:Fault><S12:Code><S12:Value>{code}</S12:Value></S12:Code><S12:Reason><S12:Text xml:lang=\"en\">{}</S12:Text></S12:Reason></S12:Fault>",
        escaped(reason)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
