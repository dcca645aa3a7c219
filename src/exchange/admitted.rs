//! A message that authenticated: what the duplicate decision takes, and nothing less.

use std::sync::Arc;

use super::{Identity, Notice, Refusal, RefusalCause, Site, duplicate::Arrival};
use crate::{
    model::{Addressing, ContentId, ContentRecord, MessageKey, PartDigest, Span, UserMessage},
    pmode::{DocumentKind, PMode, TEST_SERVICE},
    security::{revocation::RevocationStatus, signature::Verified, trust::TrustError},
    wire::{
        ebms::{self, EbmsReadError},
        mime,
    },
};

/// A message that is authenticated and bound to its sender and to one of our seats.
#[derive(Debug)]
pub struct Admitted {
    verified: Verified,
    pmode: Arc<PMode>,
    identity: Arc<Identity>,
    key: MessageKey,
    content: ContentRecord,
    document: DocumentKind,
    window: Span,
    payload_bytes_max: u64,
    ratio_max: u64,
    only_repeat: Option<TrustError>,
    notices: Vec<Notice>,
}

impl Admitted {
    pub(super) fn new(
        verified: Verified,
        pmode: Arc<PMode>,
        identity: Arc<Identity>,
        site: &Site,
        only_repeat: Option<TrustError>,
    ) -> Self {
        let message = verified.message();
        let key = MessageKey {
            tenant: identity.tenant.clone(),
            sender: verified.signer().subject().clone(),
            message_id: message.message_id.clone(),
        };
        let document = DocumentKind::of_action(&message.action);
        let window = super::receive::window(message, &pmode, site, &document);
        let content = content(&verified);
        let notices = notices(&verified, only_repeat.as_ref());
        let limits = site.limits;
        let payload_bytes_max = pmode
            .leg
            .limits
            .payload_bytes_max
            .map_or(limits.payload_bytes_max, |max| max.min(limits.payload_bytes_max));
        Self {
            verified,
            pmode,
            identity,
            key,
            content,
            document,
            window,
            payload_bytes_max,
            ratio_max: limits.ratio_max,
            only_repeat,
            notices,
        }
    }

    /// The header. It is the very one that was signed.
    #[must_use]
    pub fn message(&self) -> &UserMessage {
        self.verified.message()
    }

    /// All that was proven.
    #[must_use]
    pub const fn verified(&self) -> &Verified {
        &self.verified
    }

    /// Its P-Mode.
    #[must_use]
    pub const fn pmode(&self) -> &Arc<PMode> {
        &self.pmode
    }

    /// The seat it is addressed to.
    #[must_use]
    pub const fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// What it is remembered by.
    #[must_use]
    pub const fn key(&self) -> &MessageKey {
        &self.key
    }

    /// What its content is judged by, before it was opened.
    #[must_use]
    pub const fn content(&self) -> &ContentRecord {
        &self.content
    }

    /// What its document is, as far as the header tells.
    #[must_use]
    pub const fn document(&self) -> &DocumentKind {
        &self.document
    }

    /// How long its key counts, as far as the header tells; see [`super::Accepted::window`].
    #[must_use]
    pub const fn window(&self) -> Span {
        self.window
    }

    /// Decompressed bytes of all its payloads at most.
    #[must_use]
    pub const fn payload_bytes_max(&self) -> u64 {
        self.payload_bytes_max
    }

    /// Decompressed bytes for each compressed one at most.
    #[must_use]
    pub const fn ratio_max(&self) -> u64 {
        self.ratio_max
    }

    /// What is worth a line in its history already.
    pub fn notices(&self) -> impl Iterator<Item = Notice> {
        self.notices.iter().copied()
    }

    /// Whether its signer is good only for repeating what it signed before (`duplicates` §2).
    #[must_use]
    pub const fn may_only_repeat(&self) -> bool {
        self.only_repeat.is_some()
    }

    /// A message of the test service: receipted, never delivered. The Service alone decides, whatever the
    /// Action is (ebMS3 Core §5.2.2.8).
    #[must_use]
    pub fn is_ping(&self) -> bool {
        self.message().service.value == TEST_SERVICE
    }

    /// What the duplicate decision looks at.
    #[must_use]
    pub fn arrival(&self) -> Arrival<'_> {
        Arrival {
            key: &self.key,
            content: &self.content,
            timestamp: self.message().timestamp,
            scope: self.pmode.duplicates.scope,
            window: self.window,
        }
    }

    /// Checks that the package held what PartInfo names and nothing else. `attachments` are its Content-IDs
    /// without the root's.
    ///
    /// # Errors
    /// EBMS:0011 when they differ.
    pub fn check_parts(&self, attachments: &[ContentId]) -> Result<(), Refusal> {
        ebms::match_parts(&self.message().parts, attachments).map_err(|error| self.refuse(error))
    }

    /// Which payload a MIME part is, by its Content-ID: the place in `PayloadInfo`.
    ///
    /// # Errors
    /// EBMS:0011 when no PartInfo names it.
    pub fn part_named(&self, content_id: &ContentId) -> Result<usize, Refusal> {
        let parts = &self.message().parts;
        let exact = parts.iter().position(|part| part.href == *content_id);
        let found =
            exact.or_else(|| parts.iter().position(|part| mime::same_content_id(content_id, &part.href)));
        found.ok_or_else(|| {
            self.refuse(EbmsReadError::ExternalPayload {
                at: "PayloadInfo".to_owned(),
                reason: "a part of the message is named by no PartInfo",
            })
        })
    }

    /// A refusal of this message: it refers to it, and goes out as its P-Mode says, signed by its seat.
    #[must_use]
    pub fn refuse(&self, cause: impl Into<RefusalCause>) -> Refusal {
        super::receive::refuse(cause.into(), self.message(), Some(&self.pmode))
    }

    /// The refusal of a message whose signer may only repeat, and which is no repeat.
    #[must_use]
    pub fn refuse_signer(&self) -> Refusal {
        let error = self.only_repeat.clone().unwrap_or(TrustError::RevocationUnknown);
        self.refuse(RefusalCause::SignerNotGood(error))
    }
}

fn content(verified: &Verified) -> ContentRecord {
    let message = verified.message();
    let corner = |name: &str| {
        message.property(name).map(|property| (property.property_type.clone(), property.value.clone()))
    };
    let mut attachments: Vec<PartDigest> = verified
        .attachments()
        .iter()
        .map(|claim| PartDigest { transform: claim.transform.uri().to_owned(), digest: claim.digest })
        .collect();
    attachments.sort_unstable();
    ContentRecord {
        attachments,
        body_children: verified.body_children_digest(),
        addressing: Addressing {
            to: message.to.id.clone(),
            to_type: message.to.id_type.clone(),
            service: message.service.clone(),
            action: message.action.clone(),
            original_sender: corner("originalSender"),
            final_recipient: corner("finalRecipient"),
        },
        messaging: verified.messaging_digest(),
        signature: verified.signature_digest(),
        signer: verified.signer().digest(),
        document: None,
        envelope: None,
    }
}

fn notices(verified: &Verified, only_repeat: Option<&TrustError>) -> Vec<Notice> {
    let mut notices = Vec::new();
    if only_repeat.is_some() {
        notices.push(Notice::SignerGoodAtFirst);
    } else if verified.signer().status() == RevocationStatus::Unknown {
        notices.push(Notice::RevocationUnknown);
    }
    if !verified.message().message_id.is_rfc2822() {
        notices.push(Notice::MessageIdNotRfc2822);
    }
    notices
}
