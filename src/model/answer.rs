//! The complete answer to one message: bytes that never change again.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Digest;

/// What an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// A signed Receipt.
    Receipt,
    /// A signed `eb:Error`, a SOAP Fault, or a plain HTTP refusal.
    Refusal,
}

/// Status, Content-Type and exact entity body. A repeat gets this very value again (`duplicates` §2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether this proves anything.
    pub kind: AnswerKind,
    /// HTTP status.
    pub status: u16,
    /// HTTP `Content-Type`; none for an empty body.
    pub content_type: Option<String>,
    /// The entity body.
    pub body: Bytes,
}

impl Answer {
    /// SHA-256 of the body: what evidence and logs show.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.body)
    }
}
