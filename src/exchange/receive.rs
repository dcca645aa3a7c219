//! The way of a UserMessage up to its duplicate decision, and after it was opened: `read` → [`Claimed`],
//! [`admit`] → [`Admitted`], (decision, opening) → [`accept`] → [`Accepted`].
//!
//! The types hold the order: nothing makes an [`Admitted`] but [`admit`], after signature, digests, coverage,
//! trust and party binding; the duplicate decision takes nothing less.

use std::sync::Arc;

use super::{Admitted, Identity, Notice, Opened, Refusal, RefusalCause, Site, duplicate::Decision};
use crate::{
    model::{MessageKey, Seen, Span, Timestamp, UserMessage},
    peppol::{self, Business, Fault, Violation},
    pmode::{DocumentKind, Encryption, Network, PMode, TEST_ACTION, TEST_SERVICE},
    security::{
        SecurityError,
        signature::{self, EncryptionPolicy, NotTrusted, Proven, SecurityPolicy, Verified},
        trust::{TrustError, Untrusted},
    },
    wire::{
        ebms::{self, Claimed, Reading},
        mime,
        soap::Envelope,
        xml::{Document, XmlLimits},
    },
};

/// Reads the SOAP part: XML, envelope, `eb:Messaging`. Nothing is proven by that.
///
/// # Errors
/// When one of them cannot be read, or it is a signal.
pub fn read(root_part: &[u8], root_content_type: &str) -> Result<Claimed, Refusal> {
    mime::check_charset(root_content_type, root_part).map_err(|error| Refusal::new(error, None))?;
    let document = Document::parse(root_part, &XmlLimits::SOAP).map_err(|error| Refusal::new(error, None))?;
    let id = ebms::claimed_message_id(&document);
    let envelope = Envelope::read(document).map_err(|error| Refusal::new(error, id.as_ref()))?;
    match ebms::read(envelope) {
        Ok(Reading::User(claimed)) => Ok(claimed),
        Ok(Reading::Signal(..)) => Err(Refusal::new(RefusalCause::SignalAsRequest, None)),
        Err(error) => Err(Refusal::new(error, id.as_ref())),
    }
}

/// Asks the log for accepted messages with a key. Called only when the signer is not good *now*, to find out
/// whether it was when it signed; the text of an error goes to the log.
pub type Lookup<'a> = &'a dyn Fn(&MessageKey) -> Result<Vec<Seen>, String>;

/// Takes a message from what it claims to what is proven: P-Mode, parties, policy, signature, coverage,
/// trust, party binding (`as4-wire` §13, steps 6 to 10). No private key is used.
///
/// # Errors
/// The first step that fails. HTTP 503 when it cannot be known whether the signer is good.
pub fn admit(claimed: Claimed, site: &Site, now: Timestamp, lookup: Lookup<'_>) -> Result<Admitted, Refusal> {
    let message = claimed.message.clone();
    let pmode = find_pmode(&message, site).map_err(|cause| refuse(cause, &message, None))?;
    let error = |cause| refuse(cause, &message, Some(&pmode));
    let identity = seat(&message, &pmode, site).map_err(error)?;
    let proven =
        signature::verify_signature(claimed, &policy(&pmode), &site.trust).map_err(|e| error(e.into()))?;
    let (verified, only_repeat) = trust(proven, &identity, site, now, lookup).map_err(error)?;
    peppol::header::party_binding(&message, verified.signer().subject()).map_err(|e| error(e.into()))?;
    Ok(Admitted::new(verified, pmode, identity, site, only_repeat))
}

pub(super) fn refuse(cause: RefusalCause, message: &UserMessage, pmode: Option<&PMode>) -> Refusal {
    let refusal = Refusal::new(cause, Some(&message.message_id)).for_seat(&message.to.id);
    match pmode {
        Some(pmode) => refusal.under(pmode.leg.error_handling),
        None => refusal,
    }
}

fn find_pmode(message: &UserMessage, site: &Site) -> Result<Arc<PMode>, RefusalCause> {
    if message.action == TEST_ACTION && message.service.value != TEST_SERVICE {
        return Err(RefusalCause::TestActionElsewhere(message.service.value.clone()));
    }
    Ok(site.pmodes.find(message)?)
}

/// The seat that the message is addressed to, after what the header alone can break.
fn seat(message: &UserMessage, pmode: &PMode, site: &Site) -> Result<Arc<Identity>, RefusalCause> {
    if pmode.network == Network::Peppol {
        peppol::header::parties(message, &site.seats())?;
        peppol::header::agreement(message)?;
    } else {
        let missing = |name: &&String| message.property(name).is_none();
        if let Some(name) = pmode.leg.business_info.properties.iter().find(missing) {
            return Err(RefusalCause::PropertyMissing(name.clone()));
        }
    }
    let to = &message.to.id;
    let nobody = || Violation::found(Fault::NotOurSeat, to.as_str());
    site.identity(to).cloned().ok_or_else(|| nobody().into())
}

const fn policy(pmode: &PMode) -> SecurityPolicy {
    SecurityPolicy {
        encryption: match pmode.leg.security.encryption {
            Encryption::Required => EncryptionPolicy::Require,
            Encryption::Accepted => EncryptionPolicy::Allow,
        },
    }
}

/// Trusts the signer now; or, for a repeat, as of the acceptance of the first message with its certificate
/// (`duplicates` §2). A revoked signer is refused either way.
fn trust(
    proven: Proven,
    identity: &Identity,
    site: &Site,
    now: Timestamp,
    lookup: Lookup<'_>,
) -> Result<(Verified, Option<TrustError>), RefusalCause> {
    let NotTrusted { proven, error } = match proven.trust(&site.trust, now) {
        Ok(verified) => return Ok((verified, None)),
        Err(refused) => *refused,
    };
    if !may_have_been_good(&error) {
        return Err(SecurityError::Trust(error).into());
    }
    let message = proven.message();
    let key = MessageKey {
        tenant: identity.tenant.clone(),
        sender: message.from.id.clone(),
        message_id: message.message_id.clone(),
    };
    let seen = lookup(&key).map_err(RefusalCause::Ours)?;
    let signer = proven.certificate().digest();
    let first = seen.iter().filter(|first| first.key == key && first.content.signer == signer);
    let Some(accepted_at) = first.map(|first| first.accepted_at).max() else {
        return Err(SecurityError::Trust(error).into());
    };
    match proven.trust_as_of(&site.trust, accepted_at, now) {
        Ok(verified) => Ok((verified, Some(error))),
        Err(refused) => Err(SecurityError::Trust(refused.error).into()),
    }
}

/// What a signer can become that was good before, without having done wrong.
const fn may_have_been_good(error: &TrustError) -> bool {
    matches!(
        error,
        TrustError::Expired(_)
            | TrustError::RevocationUnknown
            | TrustError::Untrusted(Untrusted::IssuerNotValid)
    )
}

/// The window of a message: what is said of sender, document or receiver, or the general rule.
pub(super) fn window(message: &UserMessage, pmode: &PMode, site: &Site, document: &DocumentKind) -> Span {
    let policy = &pmode.duplicates;
    let receiver = peppol::header::final_recipient(message);
    let own = receiver.and_then(|id| site.participants.window(&id, policy, document));
    policy.window_with(&message.from.id, document, own)
}

/// Whether the backend gets a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It gets an inbox entry.
    Inbox,
    /// It does not: the test service (ebMS3 Core §5.2.2.8).
    Never,
}

/// A message that may be receipted once it is durable.
#[derive(Debug)]
pub struct Accepted {
    /// What the envelope says; none for a ping and outside Peppol.
    pub business: Option<Business>,
    /// What the document is.
    pub document: DocumentKind,
    /// How long its key counts, now that the document is known.
    pub window: Span,
    /// Whether the backend gets it.
    pub delivery: Delivery,
    /// What is worth a line in its history, besides what the duplicate decision said.
    pub notices: Vec<Notice>,
}

/// Judges what was opened by the rules of its network (checks 9 to 13). A ping is decrypted and compared
/// with its signature like any message, and no more.
///
/// # Errors
/// EBMS:0004 for the first rule that is broken.
pub fn accept(admitted: &Admitted, opened: &Opened, site: &Site) -> Result<Accepted, Refusal> {
    let is_peppol = admitted.pmode().network == Network::Peppol && !admitted.is_ping();
    let business = if is_peppol {
        let judged = peppol::envelope::judge(
            admitted.message(),
            opened.single_sbd().map_err(|cause| admitted.refuse(cause))?,
            admitted.key().sender.as_str(),
            &site.participants,
        );
        Some(judged.map_err(|violation| admitted.refuse(violation))?)
    } else {
        None
    };
    let document = match opened.root_name() {
        Some(name) => admitted.document().clone().named(name),
        None => admitted.document().clone(),
    };
    let window = window(admitted.message(), admitted.pmode(), site, &document).max(admitted.window());
    let warnings = business.iter().flat_map(|business| business.warnings.iter());
    let delivery = if admitted.is_ping() { Delivery::Never } else { Delivery::Inbox };
    let notices = warnings.map(|warning| Notice::from(*warning)).collect();
    Ok(Accepted { business, document, window, delivery, notices })
}

/// The refusal that a duplicate decision asks for; none when it asks for none.
#[must_use]
pub fn refusal_of(admitted: &Admitted, decision: &Decision, seen: &[Seen]) -> Option<Refusal> {
    let cause = match decision {
        Decision::Conflict { index } => {
            let first = seen.get(*index)?;
            if first.key.sender == admitted.key().sender {
                RefusalCause::IdReused(first.item)
            } else {
                RefusalCause::IdOfOtherParty(first.item)
            }
        }
        Decision::ReplayedSignature { item } => RefusalCause::ReplayedSignature(*item),
        Decision::SignerNotGood => return Some(admitted.refuse_signer()),
        Decision::Process(_) | Decision::Replay { .. } | Decision::LookCloser { .. } => return None,
    };
    Some(admitted.refuse(cause))
}
