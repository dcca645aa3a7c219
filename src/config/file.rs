//! `oncepoint.toml` as it stands in the file: every key, its default and its unit. Unknown keys are
//! refused by name.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::value::{Duration, Size};
use crate::model::{Scope, Span};
/// What decides CAs and what may be switched off (`[node] stage`).
pub use crate::pmode::Stage;

/// The whole file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// `[node]`.
    pub node: Node,
    /// `[as4]`.
    #[serde(default)]
    pub as4: As4,
    /// `[connector]`.
    #[serde(default)]
    pub connector: Connector,
    /// `[identity]`, or several `[[identity]]`.
    pub identity: OneOrMany<Identity>,
    /// `[trust]`.
    pub trust: Trust,
    /// `[discovery]`, used by sending only.
    #[serde(default)]
    pub discovery: Discovery,
    /// `[pmodes]`.
    #[serde(default)]
    pub pmodes: PModes,
    /// `[participants]`.
    pub participants: Participants,
    /// `[dedup]`.
    #[serde(default)]
    pub dedup: Dedup,
    /// `[store]`.
    #[serde(default)]
    pub store: Store,
}

/// One table or a list of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// `[name]`.
    One(T),
    /// `[[name]]`.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// As a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// `[node]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Which network.
    pub stage: Stage,
    /// Where everything that must last lies.
    #[serde(default = "default_data_dir")]
    pub data_dir: PathBuf,
}

/// `[as4]`: the endpoint that other access points talk to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct As4 {
    /// Address and port.
    pub listen: String,
    /// The path of the endpoint.
    pub path: String,
    /// Certificate and key; absent: plain HTTP, only on loopback or behind a proxy.
    pub tls: Option<Tls>,
    /// Whether a proxy in front ends TLS.
    pub behind_proxy: bool,
    /// Largest message, in bytes on the wire.
    pub max_message: Size,
    /// Largest payload, decompressed.
    pub max_payload: Size,
    /// Largest ratio of decompressed to compressed, counted after 1 MiB.
    pub max_ratio: u64,
    /// How long a repeat waits for the outcome of the first.
    pub in_progress_wait: Duration,
    /// How long a peer may take for the header lines.
    pub header_timeout: Duration,
    /// How long a peer may send nothing within a body.
    pub body_idle: Duration,
    /// How long a whole body may take.
    pub body_timeout: Duration,
    /// Connections at a time.
    pub max_connections: usize,
    /// Bytes of bodies in memory over all connections; beyond it they go to files.
    pub memory_budget: Size,
    /// How long a shutdown waits for what is in flight.
    pub shutdown_grace: Duration,
}

/// `tls = { cert, key }`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM, leaf first.
    pub cert: PathBuf,
    /// PEM.
    pub key: String,
}

/// `[connector]`: the API that backends talk to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Connector {
    /// Address and port.
    pub listen: String,
    /// File of API keys; absent: loopback only, no authentication.
    pub keys: Option<PathBuf>,
}

/// `[identity]`: one of our seats.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// PEM: leaf first, then intermediates.
    pub cert: PathBuf,
    /// PEM file, `file:PATH` or `env:NAME`.
    pub key: String,
    /// Whose backend is served; default `default`.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// `[trust]`: whom we believe.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// Root certificates.
    pub roots: Vec<PathBuf>,
    /// Issuers whose leaves may act as access points.
    pub ap_ca: Vec<PathBuf>,
    /// Issuers whose leaves may sign metadata; used by sending only.
    #[serde(default)]
    pub smp_ca: Vec<PathBuf>,
    /// Revocation lists, PEM or DER.
    #[serde(default)]
    pub crls: Vec<PathBuf>,
    /// What an unknown revocation status means.
    #[serde(default)]
    pub revocation: Revocation,
}

/// `[trust] revocation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Revocation {
    /// Unknown is answered with HTTP 503.
    #[default]
    Hard,
    /// Unknown is accepted with a warning.
    Soft,
    /// Not looked at; stage local only.
    Off,
}

/// `[discovery]`: finding receivers. Read and checked, used when sending exists.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Discovery {
    /// SML zone; empty: by stage.
    pub zone: String,
    /// `"system"` or a list of addresses.
    pub resolver: Option<toml::Value>,
    /// Fixed endpoints.
    #[serde(rename = "static")]
    pub fixed: Vec<StaticEndpoint>,
}

/// A fixed endpoint, stage local and test.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticEndpoint {
    /// Participant or `*`.
    pub participant: String,
    /// Document type or `*`.
    pub doctype: String,
    /// Process or `*`.
    pub process: String,
    /// Where to.
    pub url: String,
    /// Whose certificate.
    pub cert: PathBuf,
}

/// `[pmodes]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PModes {
    /// The folder of `*.toml`.
    pub dir: PathBuf,
}

/// `[participants]`: who is serviced here.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Participants {
    /// The list.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// Everyone and every document type; stage local only.
    #[serde(default)]
    pub any: bool,
}

/// `[dedup]`: how long and within what a MessageId is unique.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dedup {
    /// For everything that is not financial.
    pub window: Duration,
    /// For invoices and their kin.
    pub financial_window: Duration,
    /// Within what an id is unique.
    pub scope: Scope,
    /// When an owner that never ends loses the id.
    pub takeover_after: Duration,
}

impl Dedup {
    /// The shorter of the two windows: nothing younger is ever purged.
    #[must_use]
    pub fn window_min(&self) -> Span {
        self.window.span().min(self.financial_window.span())
    }
}

/// `[store]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// Which backend.
    pub kind: StoreKind,
    /// Size of a journal segment.
    pub segment: Size,
    /// Free space below which no new message is taken.
    pub reserve: Size,
}

/// `[store] kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// Journal and index in `data_dir`.
    Embedded,
}

fn default_data_dir() -> PathBuf {
    "data".into()
}

const fn seconds(n: u64) -> Duration {
    Duration::new(Span::seconds(n))
}

impl Default for As4 {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8443".to_owned(),
            path: "/as4".to_owned(),
            tls: None,
            behind_proxy: false,
            max_message: Size::new(2 << 30),
            max_payload: Size::new(4 << 30),
            max_ratio: 200,
            in_progress_wait: seconds(20),
            header_timeout: seconds(10),
            body_idle: seconds(20),
            body_timeout: seconds(600),
            max_connections: 1000,
            memory_budget: Size::new(32 << 20),
            shutdown_grace: seconds(30),
        }
    }
}

impl Default for Connector {
    fn default() -> Self {
        Self { listen: "127.0.0.1:8080".to_owned(), keys: None }
    }
}

impl Default for PModes {
    fn default() -> Self {
        Self { dir: "pmodes".into() }
    }
}

impl Default for Dedup {
    fn default() -> Self {
        Self {
            window: Duration::new(Span::days(90)),
            financial_window: Duration::new(Span::days(180)),
            scope: Scope::PartyId,
            takeover_after: seconds(600),
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self { kind: StoreKind::Embedded, segment: Size::new(64 << 20), reserve: Size::new(1 << 30) }
    }
}
