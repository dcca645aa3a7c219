//! *Same content* (`duplicates` §2).
//!
//! A retry may be signed anew: `Timestamp`, `ConversationId`, hrefs and Ids change, and with them the signed
//! digests of Messaging and of an empty Body. So neither is compared.

use crate::model::{Addressing, ContentRecord};

/// The scheme whose identifiers compare without case (Peppol PFUOI §1.2).
const PARTICIPANT_SCHEME: &str = "iso6523-actorid-upis";

/// How two messages compare by what was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    /// The same content.
    Same,
    /// The same but for the attachments' digests: compressed or wrapped anew, or other content.
    AttachmentsDiffer,
    /// Other content.
    Other,
}

pub(super) fn compare(first: &ContentRecord, again: &ContentRecord) -> Comparison {
    if first.body_children != again.body_children || !addressing(&first.addressing, &again.addressing) {
        return Comparison::Other;
    }
    let multiset = |record: &ContentRecord| {
        let mut pairs = record.attachments.clone();
        pairs.sort_unstable();
        pairs
    };
    if multiset(first) == multiset(again) { Comparison::Same } else { Comparison::AttachmentsDiffer }
}

/// Whether two opened messages have equal documents in envelopes that differ in nothing but the text of
/// `CreationDateAndTime`. What was not opened, or has no payload, is not equal to anything.
pub(super) fn opened(first: &ContentRecord, again: &ContentRecord) -> bool {
    let known = first.document.is_some() && first.envelope.is_some();
    known && first.document == again.document && first.envelope == again.envelope
}

fn addressing(first: &Addressing, again: &Addressing) -> bool {
    first.to == again.to
        && first.to_type == again.to_type
        && first.service == again.service
        && first.action == again.action
        && corner(first.original_sender.as_ref(), again.original_sender.as_ref())
        && corner(first.final_recipient.as_ref(), again.final_recipient.as_ref())
}

type Corner = (Option<String>, String);

/// Participants are equal as their scheme says: without case, because senders lower-case some of them.
fn corner(first: Option<&Corner>, again: Option<&Corner>) -> bool {
    match (first, again) {
        (Some((scheme, value)), Some((other_scheme, other))) if scheme == other_scheme => {
            let participant = scheme.as_deref() == Some(PARTICIPANT_SCHEME);
            value == other || (participant && value.eq_ignore_ascii_case(other))
        }
        (None, None) => true,
        _ => false,
    }
}
