//! Reading `eb:SignalMessage` (ebMS3 Core §5.2.3, §6.2).

use super::{
    EbmsReadError, HeaderFault,
    cursor::{Cursor, token},
    invalid,
    user::MessageInfo,
};
use crate::{
    model::{EbmsCode, EbmsError, SignalMessage},
    wire::{
        soap::{
            Envelope,
            namespace::{DS, EBBP, EBMS},
        },
        xml::{Document, NodeId},
    },
};

pub(super) fn read(document: &Document, signal: NodeId) -> Result<SignalMessage, EbmsReadError> {
    let mut content = Cursor::new(document, signal, "SignalMessage")?;
    let info = MessageInfo::read(&mut content)?;
    if content.optional("PullRequest").is_some() {
        return Err(EbmsReadError::FeatureNotSupported { at: content.path("PullRequest") });
    }
    let receipt = content.optional("Receipt");
    if receipt.is_some_and(|node| document.elements(node).next().is_none()) {
        return Err(invalid(&content.path("Receipt"), HeaderFault::Empty));
    }
    let mut errors = Vec::new();
    while let Some(node) = content.optional("Error") {
        errors.push(error(document, node, &content.path("Error"))?);
    }
    let nothing = receipt.is_none() && errors.is_empty();
    let path = content.path("Receipt");
    content.end_or_foreign()?;
    if nothing {
        return Err(invalid(&path, HeaderFault::Missing));
    }
    Ok(SignalMessage {
        message_id: info.message_id,
        timestamp: info.timestamp,
        ref_to_message_id: info.ref_to_message_id,
        errors,
    })
}

/// One `eb:Error`. A code that is in no catalogue of ours becomes `Other` and is kept in the detail.
fn error(document: &Document, node: NodeId, path: &str) -> Result<EbmsError, EbmsReadError> {
    let missing = || invalid(&format!("{path}/@errorCode"), HeaderFault::Missing);
    let code = document.attribute(node, "", "errorCode").map(token).ok_or_else(missing)?;
    let child = |local: &str| {
        let found = document.elements(node).find(|child| document.is(*child, EBMS, local))?;
        document.text(found).map(|text| token(&text)).filter(|text| !text.is_empty())
    };
    let short = document.attribute(node, "", "shortDescription").unwrap_or_default();
    let description = child("Description").unwrap_or_else(|| token(short));
    let detail = child("ErrorDetail");
    Ok(match EbmsCode::parse(&code) {
        Some(code) => EbmsError { code, description, detail },
        None => {
            let detail = [Some(code), detail].into_iter().flatten().collect::<Vec<_>>().join(" ");
            EbmsError { code: EbmsCode::Other, description, detail: Some(detail) }
        }
    })
}

/// The `eb:Error` elements of a signal, as nodes: severity and origin are the peer's own words.
#[must_use]
pub fn signal_errors(envelope: &Envelope) -> Vec<NodeId> {
    below_signal(envelope, "Error")
}

/// The `ds:Reference` elements of a Receipt's NonRepudiationInformation, in order (AS4 §5.1.8); empty when the
/// signal is no such Receipt.
#[must_use]
pub fn receipt_references(envelope: &Envelope) -> Vec<NodeId> {
    let document = envelope.document();
    let step = |nodes: Vec<NodeId>, namespace: &str, local: &str| -> Vec<NodeId> {
        let below = nodes.into_iter().flat_map(|node| document.elements(node));
        below.filter(|node| document.is(*node, namespace, local)).collect()
    };
    let information = step(below_signal(envelope, "Receipt"), EBBP, "NonRepudiationInformation");
    step(step(information, EBBP, "MessagePartNRInformation"), DS, "Reference")
}

fn below_signal(envelope: &Envelope, local: &str) -> Vec<NodeId> {
    let document = envelope.document();
    let signals =
        document.elements(envelope.messaging()).filter(|node| document.is(*node, EBMS, "SignalMessage"));
    let below = signals.flat_map(|signal| document.elements(signal));
    below.filter(|node| document.is(*node, EBMS, local)).collect()
}
