//! What is worth a line in a message's history besides its outcome, under the names that records, the API and
//! logs use (`duplicates` §2).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::peppol::Warning;

/// One such line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notice {
    /// On the first message: a repeat came and got the stored answer.
    DuplicateReceived,
    /// The repeat was signed anew: its Messaging digest differs.
    RepeatResigned,
    /// The repeat was compressed or wrapped anew: its attachments' digests differ, its document does not.
    RepeatRewrapped,
    /// The MessageId was accepted before, or the message is older, than the window reaches: taken as new.
    RepeatOutsideWindow,
    /// The repeat came while the first was being worked on.
    RepeatWhileInProgress,
    /// An owner that never ended lost the id.
    TakenOver,
    /// Another party has used this MessageId.
    IdSeenFromOtherParty,
    /// The MessageId was used again with other content.
    Conflict,
    /// The stored answer could not be read; a new receipt stands in its place.
    ReceiptRebuilt,
    /// A signature was used a second time.
    ReplayedSignature,
    /// Accepted although the revocation status could not be had.
    RevocationUnknown,
    /// The signer is no longer good, but was when the first message was accepted.
    SignerGoodAtFirst,
    /// The MessageId is no RFC 2822 `left@right`.
    MessageIdNotRfc2822,
    /// `MLS_TO` is of no use; the sender's default address counts.
    InvalidMlsTo,
    /// `MLS_TYPE` is none of its two values; `FAILURE_ONLY` counts.
    InvalidMlsType,
    /// A scope that Peppol keeps for itself.
    ReservedScope,
}

impl Notice {
    /// The name in records, API and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DuplicateReceived => "duplicate_received",
            Self::RepeatResigned => "repeat_resigned",
            Self::RepeatRewrapped => "repeat_rewrapped",
            Self::RepeatOutsideWindow => "repeat_outside_window",
            Self::RepeatWhileInProgress => "repeat_while_in_progress",
            Self::TakenOver => "taken_over",
            Self::IdSeenFromOtherParty => "id_seen_from_other_party",
            Self::Conflict => "conflict",
            Self::ReceiptRebuilt => "receipt_rebuilt",
            Self::ReplayedSignature => "replayed_signature",
            Self::RevocationUnknown => "revocation_unknown",
            Self::SignerGoodAtFirst => "signer_good_at_first",
            Self::MessageIdNotRfc2822 => "message_id_not_rfc2822",
            Self::InvalidMlsTo => "invalid_mls_to",
            Self::InvalidMlsType => "invalid_mls_type",
            Self::ReservedScope => "reserved_scope",
        }
    }

    /// Whether an operator must hear of it at once.
    #[must_use]
    pub const fn is_alert(self) -> bool {
        matches!(
            self,
            Self::IdSeenFromOtherParty | Self::Conflict | Self::ReceiptRebuilt | Self::ReplayedSignature
        )
    }
}

impl From<Warning> for Notice {
    fn from(warning: Warning) -> Self {
        match warning {
            Warning::InvalidMlsTo => Self::InvalidMlsTo,
            Warning::InvalidMlsType => Self::InvalidMlsType,
            Warning::ReservedScope => Self::ReservedScope,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
