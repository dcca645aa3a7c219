//! UserMessage and SignalMessage as ebMS3 Core §5.2 names their parts.

use serde::{Deserialize, Serialize};

use super::{ContentId, ConversationId, EbmsError, MessageId, PartyId, Timestamp};

/// `eb:UserMessage` (ebMS3 Core §5.2.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// `@mpc`; absent means the default MPC.
    pub mpc: Option<String>,
    /// `MessageInfo/MessageId`.
    pub message_id: MessageId,
    /// `MessageInfo/Timestamp`.
    pub timestamp: Timestamp,
    /// `MessageInfo/RefToMessageId`.
    pub ref_to_message_id: Option<MessageId>,
    /// `PartyInfo/From`.
    pub from: Party,
    /// `PartyInfo/To`.
    pub to: Party,
    /// `CollaborationInfo/AgreementRef`.
    pub agreement: Option<AgreementRef>,
    /// `CollaborationInfo/Service`.
    pub service: Service,
    /// `CollaborationInfo/Action`.
    pub action: String,
    /// `CollaborationInfo/ConversationId`.
    pub conversation_id: ConversationId,
    /// `MessageProperties`, in document order.
    pub properties: Vec<Property>,
    /// `PayloadInfo`, in document order: the first is the leading document.
    pub parts: Vec<PartInfo>,
}

impl UserMessage {
    /// The message property of that exact name.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Property> {
        self.properties.iter().find(|property| property.name == name)
    }
}

/// `eb:From` or `eb:To`: exactly one PartyId (eDelivery AS4 §3.3) and a Role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// The value of `eb:PartyId`.
    pub id: PartyId,
    /// `eb:PartyId/@type`.
    pub id_type: Option<String>,
    /// `eb:Role`.
    pub role: String,
}

/// `eb:AgreementRef`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgreementRef {
    /// The text.
    pub value: String,
    /// `@type`.
    pub agreement_type: Option<String>,
    /// `@pmode`.
    pub pmode: Option<String>,
}

/// `eb:Service`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// The text.
    pub value: String,
    /// `@type`.
    pub service_type: Option<String>,
}

/// `eb:MessageProperties/eb:Property`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Property {
    /// `@name`.
    pub name: String,
    /// `@type`.
    pub property_type: Option<String>,
    /// The text.
    pub value: String,
}

/// `eb:PartProperties/eb:Property`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartProperty {
    /// `@name`; compared without case on input.
    pub name: String,
    /// The text.
    pub value: String,
}

/// `eb:PartInfo`: a payload in a MIME part of this package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartInfo {
    /// What follows `cid:` in `@href`, as written (it may be percent-encoded).
    pub href: ContentId,
    /// `PartProperties`, in document order.
    pub properties: Vec<PartProperty>,
}

impl PartInfo {
    /// The value of a part property; names are compared without case (`as4-wire` §4).
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|p| p.name.eq_ignore_ascii_case(name)).map(|p| p.value.as_str())
    }
}

/// `eb:SignalMessage`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalMessage {
    /// `MessageInfo/MessageId` of the signal itself.
    pub message_id: MessageId,
    /// `MessageInfo/Timestamp`.
    pub timestamp: Timestamp,
    /// `MessageInfo/RefToMessageId`: the message that is answered; unknown when it could not be read.
    pub ref_to_message_id: Option<MessageId>,
    /// `eb:Error` elements; empty for a Receipt.
    pub errors: Vec<EbmsError>,
}
