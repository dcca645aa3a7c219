//! `eb:Messaging`: reader and writer.
//!
//! The reader takes what the schema `ebms-header-3_0-200704.xsd` takes, with the rules of ebMS3 Core §5.2 and
//! AS4 §3.1 that concern one message by itself; whether the values fit a P-Mode is for others. What it finds
//! is only [`Claimed`]: an envelope says it of itself, nothing is proven. The writer makes canonical bytes.

mod cursor;
mod signal;
mod user;
mod writer;

use std::collections::BTreeSet;

pub use signal::{receipt_references, signal_errors};
pub use writer::{S12_DECLARATION, write_error_messaging, write_receipt_messaging};

use super::{
    mime::same_content_id,
    soap::{Envelope, namespace::EBMS, namespace::SOAP12},
    xml::{Document, NodeId},
};
use crate::model::{ContentId, IdError, MessageId, PartInfo, SignalMessage, TimeError, UserMessage};

/// Why an `eb:Messaging` is refused. The variants are the ebMS error that the peer is owed (ebMS3 Core §6.7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EbmsReadError {
    /// Not as the schema or a packaging rule demands: EBMS:0009.
    #[error("{at}: {fault}")]
    InvalidHeader {
        /// The path of the element or attribute, from below `eb:Messaging`.
        at: String,
        /// What is wrong.
        fault: HeaderFault,
    },
    /// A value that contradicts another or a rule: EBMS:0003.
    #[error("{at}: {reason}")]
    ValueInconsistent {
        /// The path of the element or attribute.
        at: String,
        /// The rule.
        reason: &'static str,
    },
    /// A payload that is no part of the message: EBMS:0011.
    #[error("{at}: {reason}")]
    ExternalPayload {
        /// The path of the element or attribute.
        at: String,
        /// The rule.
        reason: &'static str,
    },
    /// An element whose feature is not supported: EBMS:0008.
    #[error("{at} is not supported")]
    FeatureNotSupported {
        /// The path of the element.
        at: String,
    },
    /// The Body of a user message is not empty: EBMS:0003.
    #[error("the SOAP Body of a user message must be empty")]
    BodyContent,
}

/// How a header breaks the schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// A required element or attribute is not there (or not at its place).
    #[error("missing")]
    Missing,
    /// Not expected here: out of order, once too often, or unknown.
    #[error("not expected here")]
    Unexpected,
    /// Text between elements, or elements where only text may be.
    #[error("has the wrong kind of content")]
    Content,
    /// Empty where something must be.
    #[error("empty")]
    Empty,
    /// Named a second time.
    #[error("occurs twice")]
    Twice,
    /// No usable identifier.
    #[error(transparent)]
    Id(#[from] IdError),
    /// No timestamp.
    #[error(transparent)]
    Time(#[from] TimeError),
}

/// What an envelope says of itself. Nothing is proven: good for choosing a P-Mode and for naming the message
/// in an error, for nothing else.
#[derive(Debug)]
pub struct Claimed {
    /// The envelope.
    pub envelope: Envelope,
    /// Its `eb:UserMessage`.
    pub message: UserMessage,
}

/// What `eb:Messaging` holds.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "lives for one match, and the large variant is the usual one")]
pub enum Reading {
    /// One `eb:UserMessage`.
    User(Claimed),
    /// One `eb:SignalMessage`: a Receipt or Errors.
    Signal(Envelope, SignalMessage),
}

/// Reads `eb:Messaging`.
///
/// # Errors
/// When it is not what the schema demands, holds no or more than one message, or asks for a feature that is
/// not supported.
pub fn read(envelope: Envelope) -> Result<Reading, EbmsReadError> {
    let document = envelope.document();
    let mut content = cursor::Cursor::new(document, envelope.messaging(), "")?;
    let signal = content.optional("SignalMessage");
    let second_signal = content.optional("SignalMessage");
    let user = content.optional("UserMessage");
    content.end_or_foreign()?;
    match (signal, second_signal, user) {
        (None, None, Some(user)) => {
            let message = user::read(document, user)?;
            if !envelope.body_is_empty() {
                return Err(EbmsReadError::BodyContent);
            }
            Ok(Reading::User(Claimed { envelope, message }))
        }
        (Some(signal), None, None) => {
            let signal = signal::read(document, signal)?;
            Ok(Reading::Signal(envelope, signal))
        }
        (None, ..) => Err(invalid("UserMessage", HeaderFault::Missing)),
        (Some(_), Some(_), _) => Err(invalid("SignalMessage", HeaderFault::Twice)),
        // ebMS3 Part 2 bundling.
        (Some(_), None, Some(_)) => {
            Err(EbmsReadError::FeatureNotSupported { at: "UserMessage beside SignalMessage".to_owned() })
        }
    }
}

/// Checks that every part behind the root is named by one `eb:PartInfo` and the other way round (ebMS3 Core
/// §5.2.2.13). `attachments` are the Content-IDs of the package without its root.
///
/// # Errors
/// [`EbmsReadError::ExternalPayload`] when a reference has no part, or a part no reference.
pub fn match_parts(parts: &[PartInfo], attachments: &[ContentId]) -> Result<(), EbmsReadError> {
    let external = |reason| EbmsReadError::ExternalPayload { at: "PayloadInfo".to_owned(), reason };
    let mut named = BTreeSet::new();
    for part in parts {
        let exact = attachments.iter().position(|id| *id == part.href);
        let found = exact.or_else(|| attachments.iter().position(|id| same_content_id(id, &part.href)));
        named.insert(found.ok_or_else(|| external("href names no part of the message"))?);
    }
    if named.len() == attachments.len() && named.len() == parts.len() {
        Ok(())
    } else {
        Err(external("a part of the message is named by no PartInfo"))
    }
}

/// The MessageId of a message that could not be read, for the reference of the error; none when it is not
/// certain which one that is.
#[must_use]
pub fn claimed_message_id(document: &Document) -> Option<MessageId> {
    let only = |parent: NodeId, namespace: &str, local: &str| {
        let mut found = document.elements(parent).filter(|node| document.is(*node, namespace, local));
        found.next().filter(|_| found.next().is_none())
    };
    let header = only(document.root(), SOAP12, "Header")?;
    let messaging = only(header, EBMS, "Messaging")?;
    let message = only(messaging, EBMS, "UserMessage")?;
    let id = only(only(message, EBMS, "MessageInfo")?, EBMS, "MessageId")?;
    MessageId::parse(&document.text(id)?).ok()
}

fn invalid(at: &str, fault: impl Into<HeaderFault>) -> EbmsReadError {
    EbmsReadError::InvalidHeader { at: at.to_owned(), fault: fault.into() }
}

#[cfg(test)]
mod tests;
