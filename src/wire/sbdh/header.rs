//! The header while its events pass by.

use super::{SBDH_NAMESPACE, SbdError, Sbdh, Scope};
use crate::wire::scan::{Attributes, ScanName};

/// The elements that are read.
const NAMES: &[&str] = &[
    "BusinessScope",
    "CreationDateAndTime",
    "DocumentIdentification",
    "HeaderVersion",
    "Identifier",
    "InstanceIdentifier",
    "Receiver",
    "Scope",
    "Sender",
    "Standard",
    "Type",
    "TypeVersion",
];
/// Stands in a path for every other element.
const OTHER: &str = "";

/// Gathers `StandardBusinessDocumentHeader`; elements outside Peppol's subset are passed over.
#[derive(Debug, Default)]
pub(super) struct HeaderBuilder {
    header: Sbdh,
    /// Open elements below the header.
    path: Vec<&'static str>,
    text: String,
    /// Children of the header so far.
    children: Vec<&'static str>,
}

impl HeaderBuilder {
    /// An element below the header begins.
    pub(super) fn start(&mut self, name: ScanName<'_>, attributes: Attributes<'_>) -> Result<(), SbdError> {
        if self.value().is_some() {
            return Err(SbdError::Content(self.path.join("/")));
        }
        let known = NAMES.iter().find(|known| name.is(SBDH_NAMESPACE, known));
        let name = known.copied().unwrap_or(OTHER);
        self.path.push(name);
        self.text.clear();
        if self.path.len() == 1 && name != OTHER {
            if self.children.contains(&name) {
                return Err(SbdError::Twice(name.to_owned()));
            }
            self.children.push(name);
        }
        self.open(attributes.value("", "Authority"));
        match self.value() {
            Some(Some(_)) => Err(SbdError::Twice(self.path.join("/"))),
            _ => Ok(()),
        }
    }

    /// Makes room for what the element that just began holds.
    fn open(&mut self, authority: Option<&str>) {
        let participant = match self.path.as_slice() {
            ["Sender", ..] => self.header.sender.get_or_insert_default(),
            ["Receiver", ..] => self.header.receiver.get_or_insert_default(),
            ["BusinessScope", "Scope"] => return self.header.scopes.push(Scope::default()),
            _ => return,
        };
        if matches!(self.path.as_slice(), [_, "Identifier"]) && participant.value.is_none() {
            participant.authority = authority.map(str::to_owned);
        }
    }

    /// Where the value of the innermost open element belongs; none when it holds no value.
    fn value(&mut self) -> Option<&mut Option<String>> {
        let header = &mut self.header;
        Some(match self.path.as_slice() {
            ["HeaderVersion"] => &mut header.header_version,
            ["Sender", "Identifier"] => &mut header.sender.as_mut()?.value,
            ["Receiver", "Identifier"] => &mut header.receiver.as_mut()?.value,
            ["DocumentIdentification", "Standard"] => &mut header.standard,
            ["DocumentIdentification", "TypeVersion"] => &mut header.type_version,
            ["DocumentIdentification", "InstanceIdentifier"] => &mut header.instance_identifier,
            ["DocumentIdentification", "Type"] => &mut header.document_type,
            ["DocumentIdentification", "CreationDateAndTime"] => &mut header.creation,
            ["BusinessScope", "Scope", "Type"] => &mut header.scopes.last_mut()?.scope_type,
            ["BusinessScope", "Scope", "InstanceIdentifier"] => &mut header.scopes.last_mut()?.instance,
            ["BusinessScope", "Scope", "Identifier"] => &mut header.scopes.last_mut()?.identifier,
            _ => return None,
        })
    }

    /// Text of the innermost open element.
    pub(super) fn text(&mut self, text: &str) {
        if self.value().is_some() {
            self.text.push_str(text);
        }
    }

    /// Whether the innermost open element is `CreationDateAndTime`.
    pub(super) fn in_creation(&self) -> bool {
        matches!(self.path.as_slice(), ["DocumentIdentification", "CreationDateAndTime"])
    }

    /// The innermost open element ends; whether that was the header itself.
    pub(super) fn end(&mut self) -> bool {
        let text = std::mem::take(&mut self.text);
        if let Some(value) = self.value() {
            *value = Some(text);
        }
        self.path.pop().is_none()
    }

    /// What was gathered.
    pub(super) fn finish(self) -> Sbdh {
        self.header
    }
}
