//! The nouns of AS4 and Peppol. No bytes, no rules.
//!
//! Everything here is a value that has already been parsed: an identifier is a newtype whose only way
//! in is `parse`, a state is a type. What the bytes look like is known to `wire`, what may be done with
//! a value to the floors above.

mod answer;
mod content;
mod digest;
mod ebms_error;
mod id;
mod message;
mod time;

pub use answer::{Answer, AnswerKind};
pub use content::{Addressing, ContentRecord, MessageKey, PartDigest, Scope, Seen};
pub use digest::{Digest, DigestError};
pub use ebms_error::{Category, EbmsCode, EbmsError, Origin, Severity};
pub use id::{
    ContentId, ConversationId, DOCUMENT_TYPE_CHARS_MAX, DocumentTypeId, ID_BYTES_MAX, IdError, ItemId,
    MessageId, PARTICIPANT_CHARS_MAX, PROCESS_CHARS_MAX, ParticipantId, PartyId, ProcessId, SCHEME_CHARS_MAX,
    SeatId, Tenant,
};
pub use message::{
    AgreementRef, PartInfo, PartProperty, Party, Property, Service, SignalMessage, UserMessage,
};
pub use time::{Span, TimeError, Timestamp};
