//! Reading `eb:UserMessage` (ebMS3 Core §5.2.2).

use std::collections::BTreeSet;

use super::{
    EbmsReadError, HeaderFault,
    cursor::{Cursor, attribute, text, token},
    invalid,
};
use crate::{
    model::{
        AgreementRef, ContentId, ConversationId, MessageId, PartInfo, PartProperty, Party, PartyId, Property,
        Service, Timestamp, UserMessage,
    },
    wire::{
        mime::percent_decoded,
        xml::{Document, NodeId},
    },
};

/// The only compression there is (AS4 §3.1).
const GZIP: &str = "application/gzip";

/// Identifier and time of a message or signal.
pub(super) struct MessageInfo {
    pub(super) timestamp: Timestamp,
    pub(super) message_id: MessageId,
    pub(super) ref_to_message_id: Option<MessageId>,
}

impl MessageInfo {
    pub(super) fn read(parent: &mut Cursor<'_>) -> Result<Self, EbmsReadError> {
        let mut info = parent.enter("MessageInfo")?;
        let timestamp = info.text("Timestamp")?;
        let timestamp =
            Timestamp::parse(&timestamp).map_err(|error| invalid(&info.path("Timestamp"), error))?;
        let message_id = info.text("MessageId")?;
        let message_id =
            MessageId::parse(&message_id).map_err(|error| invalid(&info.path("MessageId"), error))?;
        let ref_to_message_id = info.optional_text("RefToMessageId")?;
        let ref_to_message_id = ref_to_message_id.map(|id| MessageId::parse(&id)).transpose();
        let ref_to_message_id =
            ref_to_message_id.map_err(|error| invalid(&info.path("RefToMessageId"), error))?;
        info.end()?;
        Ok(Self { timestamp, message_id, ref_to_message_id })
    }
}

pub(super) fn read(document: &Document, user: NodeId) -> Result<UserMessage, EbmsReadError> {
    let mut message = Cursor::new(document, user, "UserMessage")?;
    let mpc = attribute(document, user, "mpc", "UserMessage")?;
    let info = MessageInfo::read(&mut message)?;
    let mut parties = message.enter("PartyInfo")?;
    let from = party(document, &mut parties, "From")?;
    let to = party(document, &mut parties, "To")?;
    parties.end()?;
    let collaboration = Collaboration::read(document, message.enter("CollaborationInfo")?)?;
    let properties = match message.enter_optional("MessageProperties")? {
        Some(list) => properties(document, list)?,
        None => Vec::new(),
    };
    let parts = match message.enter_optional("PayloadInfo")? {
        Some(list) => parts(document, list)?,
        None => Vec::new(),
    };
    message.end()?;
    Ok(UserMessage {
        mpc,
        message_id: info.message_id,
        timestamp: info.timestamp,
        ref_to_message_id: info.ref_to_message_id,
        from,
        to,
        agreement: collaboration.agreement,
        service: collaboration.service,
        action: collaboration.action,
        conversation_id: collaboration.conversation_id,
        properties,
        parts,
    })
}

/// A value without `type` must be a URI (ebMS3 Core §5.2.2.4, §5.2.2.7, §5.2.2.8).
fn typed_or_uri(path: &str, kind: Option<&str>, value: &str) -> Result<(), EbmsReadError> {
    if kind.is_some() || is_uri(value) {
        return Ok(());
    }
    let reason = "a value without type must be a URI";
    Err(EbmsReadError::ValueInconsistent { at: path.to_owned(), reason })
}

fn is_uri(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
            && !rest.is_empty()
            && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
    })
}

fn party(document: &Document, parties: &mut Cursor<'_>, local: &str) -> Result<Party, EbmsReadError> {
    let mut party = parties.enter(local)?;
    let path = party.path("PartyId");
    let node = party.required("PartyId")?;
    if party.optional("PartyId").is_some() {
        let reason = "there must be exactly one PartyId";
        return Err(EbmsReadError::ValueInconsistent { at: path, reason });
    }
    let id = PartyId::parse(&text(document, node, &path)?).map_err(|error| invalid(&path, error))?;
    let id_type = attribute(document, node, "type", &path)?;
    typed_or_uri(&path, id_type.as_deref(), id.as_str())?;
    let role = party.text("Role")?.into_owned();
    party.end()?;
    Ok(Party { id, id_type, role })
}

struct Collaboration {
    agreement: Option<AgreementRef>,
    service: Service,
    action: String,
    conversation_id: ConversationId,
}

impl Collaboration {
    fn read(document: &Document, mut info: Cursor<'_>) -> Result<Self, EbmsReadError> {
        let agreement = match info.optional("AgreementRef") {
            Some(node) => Some(agreement(document, node, &info.path("AgreementRef"))?),
            None => None,
        };
        let node = info.required("Service")?;
        let service = service(document, node, &info.path("Service"))?;
        let action = token(&info.text("Action")?);
        if action.is_empty() {
            return Err(invalid(&info.path("Action"), HeaderFault::Empty));
        }
        let path = info.path("ConversationId");
        let node = info.required("ConversationId")?;
        // The schema lets it be empty.
        let text = document.text(node).ok_or_else(|| invalid(&path, HeaderFault::Content))?;
        let conversation_id = ConversationId::parse(&token(&text)).map_err(|error| invalid(&path, error))?;
        info.end()?;
        Ok(Self { agreement, service, action, conversation_id })
    }
}

fn agreement(document: &Document, node: NodeId, path: &str) -> Result<AgreementRef, EbmsReadError> {
    let value = text(document, node, path)?.into_owned();
    let agreement_type = attribute(document, node, "type", path)?;
    let pmode = attribute(document, node, "pmode", path)?;
    typed_or_uri(path, agreement_type.as_deref(), &value)?;
    Ok(AgreementRef { value, agreement_type, pmode })
}

fn service(document: &Document, node: NodeId, path: &str) -> Result<Service, EbmsReadError> {
    let value = text(document, node, path)?.into_owned();
    let service_type = attribute(document, node, "type", path)?;
    typed_or_uri(path, service_type.as_deref(), &value)?;
    Ok(Service { value, service_type })
}

/// One `eb:Property` or more (ebMS3 Core §5.2.2.11).
fn properties(document: &Document, mut list: Cursor<'_>) -> Result<Vec<Property>, EbmsReadError> {
    let path = list.path("Property");
    let mut found = Vec::new();
    while let Some(node) = list.optional("Property") {
        let name = attribute(document, node, "name", &path)?;
        let name = name.ok_or_else(|| invalid(&format!("{path}/@name"), HeaderFault::Missing))?;
        let property_type = attribute(document, node, "type", &path)?;
        let value = text(document, node, &path)?.into_owned();
        found.push(Property { name, property_type, value });
    }
    list.end()?;
    if found.is_empty() { Err(invalid(&path, HeaderFault::Missing)) } else { Ok(found) }
}

/// One `eb:PartInfo` or more (ebMS3 Core §5.2.2.13).
fn parts(document: &Document, mut list: Cursor<'_>) -> Result<Vec<PartInfo>, EbmsReadError> {
    let path = list.path("PartInfo");
    let mut hrefs = BTreeSet::new();
    let mut found = Vec::new();
    while let Some(node) = list.optional("PartInfo") {
        let part = part(document, node, &path)?;
        if !hrefs.insert(percent_decoded(part.href.as_str())) {
            return Err(invalid(&format!("{path}/@href"), HeaderFault::Twice));
        }
        found.push(part);
    }
    list.end()?;
    if found.is_empty() { Err(invalid(&path, HeaderFault::Missing)) } else { Ok(found) }
}

fn part(document: &Document, node: NodeId, path: &str) -> Result<PartInfo, EbmsReadError> {
    let href = href(document.attribute(node, "", "href"), &format!("{path}/@href"))?;
    let mut content = Cursor::new(document, node, path)?;
    content.optional("Schema");
    content.optional("Description");
    let list = content.enter_optional("PartProperties")?;
    content.end()?;
    let named = list.map(|list| properties(document, list)).transpose()?.unwrap_or_default();
    let properties = named.into_iter().map(|p| PartProperty { name: p.name, value: p.value }).collect();
    let part = PartInfo { href, properties };
    part_properties(&part, &format!("{path}/PartProperties"))?;
    Ok(part)
}

fn href(written: Option<&str>, path: &str) -> Result<ContentId, EbmsReadError> {
    let external = |reason| EbmsReadError::ExternalPayload { at: path.to_owned(), reason };
    let written = written.ok_or_else(|| external("a payload in the SOAP Body"))?;
    let href = token(written);
    let id = href.strip_prefix("cid:").ok_or_else(|| external("does not begin with cid:"))?;
    ContentId::parse(id).map_err(|error| invalid(path, error))
}

/// The part properties that AS4 gives a meaning (AS4 §3.1).
fn part_properties(part: &PartInfo, path: &str) -> Result<(), EbmsReadError> {
    let wrong = |name: &str, reason| {
        Err(EbmsReadError::ValueInconsistent { at: format!("{path}/Property[{name}]"), reason })
    };
    for name in ["CompressionType", "MimeType", "CharacterSet"] {
        if part.properties.iter().filter(|p| p.name.eq_ignore_ascii_case(name)).count() > 1 {
            return wrong(name, "occurs twice");
        }
    }
    match part.property("CompressionType") {
        None => {}
        Some(kind) if kind != GZIP => return wrong("CompressionType", "must be application/gzip"),
        Some(_) if part.property("MimeType").is_none() => {
            return wrong("MimeType", "must be given for a compressed part");
        }
        Some(_) => {}
    }
    match part.property("CharacterSet") {
        Some(name) if !is_encoding_name(name) => wrong("CharacterSet", "is no name of an encoding"),
        _ => Ok(()),
    }
}

/// `EncName` (XML §4.3.3).
fn is_encoding_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}
