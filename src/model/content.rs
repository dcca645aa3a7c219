//! The key a message is remembered by, and all that *same content* is judged by (`duplicates` §1 and §2).

use serde::{Deserialize, Serialize};

use super::{Digest, ItemId, MessageId, PartyId, Service, Tenant, Timestamp};

/// (tenant, sender, MessageId), exact octets. The sender is the authenticated one: the subject CN of the
/// certificate, equal to From/PartyId, so a key can only be made of a message that authenticated.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MessageKey {
    /// Whose identity was addressed.
    pub tenant: Tenant,
    /// The authenticated sender.
    pub sender: PartyId,
    /// `eb:MessageId`.
    pub message_id: MessageId,
}

/// What a MessageId is unique within: the *scope* of a P-Mode (`duplicates` §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Scope {
    /// Among all senders.
    #[serde(rename = "id")]
    Id,
    /// For one sender.
    #[default]
    #[serde(rename = "party+id")]
    PartyId,
    /// For one sender and content: ids are reused on purpose.
    #[serde(rename = "party+id+payload")]
    PartyIdPayload,
}

/// The signed (transform, digest) pair of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartDigest {
    /// The algorithm URI of its only transform.
    pub transform: String,
    /// `ds:DigestValue`.
    pub digest: Digest,
}

/// To, Service, Action, originalSender and finalRecipient, as compared between a message and its repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addressing {
    /// `eb:To/eb:PartyId`.
    pub to: PartyId,
    /// `eb:To/eb:PartyId/@type`.
    pub to_type: Option<String>,
    /// `eb:Service` with its type.
    pub service: Service,
    /// `eb:Action`.
    pub action: String,
    /// The property `originalSender`: type and value.
    pub original_sender: Option<(Option<String>, String)>,
    /// The property `finalRecipient`: type and value.
    pub final_recipient: Option<(Option<String>, String)>,
}

/// What content is judged by. It is stored with the key and lives as long as the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentRecord {
    /// The attachments' signed pairs, sorted: a multiset.
    pub attachments: Vec<PartDigest>,
    /// SHA-256 of the children of Body in canonical form, without Body's own tag.
    pub body_children: Digest,
    /// Who and what for.
    pub addressing: Addressing,
    /// The signed digest of `eb:Messaging`: equal for a repeat that was not signed anew.
    pub messaging: Digest,
    /// SHA-256 of the decoded SignatureValue: each is accepted once per sender.
    pub signature: Digest,
    /// SHA-256 of the signer certificate's DER form.
    pub signer: Digest,
    /// SHA-256 of the business document, without its envelope; none for a message without payload, and
    /// before the payload was opened.
    pub document: Option<Digest>,
    /// SHA-256 over the envelope without the text of `CreationDateAndTime` and over the digest of the document:
    /// equal for two payloads that differ in nothing but that text. Of a payload without envelope its own digest.
    pub envelope: Option<Digest>,
}

/// What the log knows of an accepted message: enough to decide about a repeat without its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Our id of the accepted message.
    pub item: ItemId,
    /// Its key.
    pub key: MessageKey,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// When its window ends by the rule of its acceptance.
    pub expires_at: Timestamp,
    /// What its content is judged by.
    pub content: ContentRecord,
}
