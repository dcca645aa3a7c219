//! Processing modes: what two parties agreed on, in the words of ebMS3 Core Appendix D and AS4 §5.2.
//!
//! A P-Mode is read from a flat file whose keys are the standard's dotted names ([`PModes::from_texts`])
//! and found again for a message by its header alone ([`PModes::find`]). What this product does not vary
//! (one-way push, signed receipts in the response, …) is demanded by the reader and not kept.

pub mod duplicates;
pub mod duration;
mod file;
mod find;
mod keys;

use std::sync::Arc;

pub use duplicates::{DocumentKind, DuplicatePolicy, Stage};
pub use file::{Defaults, PModeFileError};
pub use find::{NoPMode, Parameter};

use crate::model::{PartyId, Service, Span};

/// ebMS3 namespace, from which the identifiers of this standard are made (ebMS3 Core §5.2).
pub const EBMS: &str = "http://docs.oasis-open.org/ebxml-msg/ebms/v3.0/ns/core/200704/";
/// The default message partition channel (ebMS3 Core §3.4.1).
pub const DEFAULT_MPC: &str = "http://docs.oasis-open.org/ebxml-msg/ebms/v3.0/ns/core/200704/defaultMPC";
/// The Service of the test service (ebMS3 Core §5.2.2.8).
pub const TEST_SERVICE: &str = "http://docs.oasis-open.org/ebxml-msg/ebms/v3.0/ns/core/200704/service";
/// The Action of the test service (ebMS3 Core §5.2.2.9).
pub const TEST_ACTION: &str = "http://docs.oasis-open.org/ebxml-msg/ebms/v3.0/ns/core/200704/test";

/// The name that a P-Mode has here; it is never sent (`PMode.ID`, ebMS3 Core §D.3.1).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PModeId(String);

impl PModeId {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for PModeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One agreement on how to exchange messages (ebMS3 Core §D.3). MEP is one-way, binding is push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PMode {
    /// `PMode.ID`.
    pub id: PModeId,
    /// `PMode.Agreement`; none: any `eb:AgreementRef` is taken, and none too.
    pub agreement: Option<Agreement>,
    /// `PMode.Initiator`: the sender.
    pub initiator: PartyMode,
    /// `PMode.Responder`: the receiver.
    pub responder: PartyMode,
    /// `PMode[1]`.
    pub leg: Leg,
    /// Which network's rules apply to the payload.
    pub network: Network,
    /// What the duplicate log is told.
    pub duplicates: DuplicatePolicy,
}

/// `PMode.Agreement` (ebMS3 Core §D.3.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    /// The text of `eb:AgreementRef`.
    pub value: String,
    /// Its `@type`; none: the attribute must be absent.
    pub agreement_type: Option<String>,
}

/// `PMode.Initiator` or `PMode.Responder` (ebMS3 Core §D.3.1). What is not said matches anything: so a
/// generic receiving P-Mode is written, the *dynamic receiver* (Peppol AS4 §5).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartyMode {
    /// `….Party`.
    pub party: Option<PartyId>,
    /// `….Party.type`.
    pub party_type: Option<String>,
    /// `….Role`.
    pub role: Option<String>,
}

/// `PMode[1]`: the only leg of a one-way exchange (ebMS3 Core §D.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leg {
    /// `….BusinessInfo`.
    pub business_info: BusinessInfo,
    /// `….ErrorHandling`.
    pub error_handling: ErrorHandling,
    /// `….Security`.
    pub security: Security,
    /// `….ReceptionAwareness`.
    pub reception_awareness: ReceptionAwareness,
    /// `….BusinessInfo.PayloadProfile.maxSize`, and ours.
    pub limits: Limits,
}

/// `PMode[1].BusinessInfo` (ebMS3 Core §D.3.3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BusinessInfo {
    /// `….Service` and `….Service.type`; none: any.
    pub service: Option<Service>,
    /// `….Action`; none: any.
    pub action: Option<String>,
    /// `….Properties[]`: names of message properties that must be present.
    pub properties: Vec<String>,
}

/// `PMode[1].ErrorHandling` (ebMS3 Core §D.3.4). Errors go out in the response, and signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorHandling {
    /// The HTTP status of an `eb:Error` of severity failure.
    pub http_status: u16,
    /// Whether a SOAP Fault goes along with the `eb:Error`.
    pub soap_fault: SoapFault,
}

impl Default for ErrorHandling {
    /// HTTP 200 and no Fault (`as4-wire` §6.4).
    fn default() -> Self {
        Self { http_status: 200, soap_fault: SoapFault::Without }
    }
}

/// Whether an `eb:Error` is combined with a SOAP Fault in the Body (ebMS3 Core §6.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoapFault {
    /// The Body stays empty.
    Without,
    /// The Body holds a Fault, and the HTTP status is that of the Fault.
    With,
}

/// `PMode[1].Security` (ebMS3 Core §D.3.6). Signatures are demanded always: the sender in the key of the
/// duplicate log is the authenticated one. The algorithms are the one set of the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Security {
    /// `….X509.Encryption.Encrypt`.
    pub encryption: Encryption,
}

/// Whether attachments must be encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// All of them (AS4 §5.1.6, eDelivery AS4 §3.2.6).
    Required,
    /// All or none.
    Accepted,
}

/// `PMode[1].ReceptionAwareness` (AS4 §3.2). Retry and duplicate detection are always on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceptionAwareness {
    /// When attempts are due, counted from the first one; not empty, rising (`duplicates` §4).
    pub retry_schedule: Vec<Span>,
}

/// What is taken of one message at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Decompressed bytes of all payloads; none: the limit of the installation holds alone.
    pub payload_bytes_max: Option<u64>,
}

/// Whose rules the payload follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Peppol: an SBD with its header, four corners, participants that are serviced here.
    Peppol,
    /// AS4 between partners: any payload, no SBDH demanded.
    Plain,
}

/// Every P-Mode of an installation, with what is needed to find one.
#[derive(Debug, Clone, Default)]
pub struct PModes {
    modes: Vec<Arc<PMode>>,
}

impl PModes {
    /// Every P-Mode, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<PMode>> {
        self.modes.iter()
    }

    /// The P-Mode of that id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Arc<PMode>> {
        self.modes.iter().find(|mode| mode.id.as_str() == id)
    }
}
