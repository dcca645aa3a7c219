//! What a service is started with: plain values, already checked. Reading them from files is the work of a
//! higher floor.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use super::{clock::Clock, connector::ConnectorKeys};
use crate::{
    exchange::Site,
    model::Span,
    net::{body::BodyLimits, server::ServerLimits, tls::ServerTls},
    store::{DELIVERIES_MAX, PurgeBudget, Store},
};

/// Bytes of bodies in memory over all connections, unless configured otherwise.
pub const MEMORY_BUDGET_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of one message on the wire at most, unless configured otherwise.
pub const MESSAGE_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// Jobs that may wait for the pool, unless configured otherwise: one for each connection.
pub const QUEUE_MAX: usize = 1000;
/// How long a shutdown waits for what is in flight, unless configured otherwise.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(30);

/// Everything that a service is started with.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// Seats, agreements, trust, participants.
    pub site: Arc<Site>,
    /// The log; already open. The service closes it.
    pub store: Store,
    /// Time and randomness.
    pub clock: Clock,
    /// The AS4 endpoint.
    pub as4: As4Config,
    /// The connector.
    pub connector: ConnectorConfig,
    /// The pool for what takes a processor.
    pub pool: PoolConfig,
    /// The sweeper.
    pub sweep: SweepConfig,
    /// How long a shutdown waits for what is in flight.
    pub shutdown_grace: Duration,
}

/// The AS4 endpoint.
#[derive(Debug, Clone)]
pub struct As4Config {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The path of the endpoint; every other is 404.
    pub path: String,
    /// TLS; none: plain HTTP, on loopback or behind a proxy.
    pub tls: Option<ServerTls>,
    /// Where the address of a peer is read.
    pub peer: PeerAddress,
    /// Limits of connections and heads.
    pub server: ServerLimits,
    /// Limits of one message on the wire.
    pub body: BodyLimits,
    /// Bytes of bodies in memory over all connections; beyond it they go to files.
    pub memory_budget_bytes: usize,
    /// The right side of each `MessageId` that we make.
    pub host: String,
}

impl As4Config {
    /// The defaults of the operator's contract, on that address, without TLS.
    #[must_use]
    pub fn on(listen: SocketAddr) -> Self {
        Self {
            listen,
            path: "/as4".to_owned(),
            tls: None,
            peer: PeerAddress::Connection,
            server: ServerLimits::default(),
            body: BodyLimits {
                bytes_max: MESSAGE_BYTES_MAX,
                idle: Duration::from_secs(20),
                total: Duration::from_secs(600),
            },
            memory_budget_bytes: MEMORY_BUDGET_BYTES,
            host: "oncepoint".to_owned(),
        }
    }
}

/// Where the address of a peer is read, for logs and records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerAddress {
    /// From the connection.
    Connection,
    /// From the last entry of `X-Forwarded-For`, which the proxy in front wrote (`behind_proxy`).
    Forwarded,
}

/// The connector.
#[derive(Debug, Clone)]
pub struct ConnectorConfig {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Limits of connections and heads.
    pub server: ServerLimits,
    /// Who is let in.
    pub keys: ConnectorKeys,
    /// Deliveries before an item is put aside.
    pub deliveries_max: u32,
}

impl ConnectorConfig {
    /// The defaults of the operator's contract, on that address.
    #[must_use]
    pub fn on(listen: SocketAddr, keys: ConnectorKeys) -> Self {
        Self { listen, server: ServerLimits::default(), keys, deliveries_max: DELIVERIES_MAX }
    }
}

/// Reads the site anew when its files have changed; none: nothing changed. It may block.
#[derive(Clone)]
pub struct Reload(pub Arc<dyn Fn() -> Result<Option<Site>, String> + Send + Sync>);

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reload")
    }
}

/// The sweeper: what is done on a schedule.
#[derive(Debug, Clone)]
pub struct SweepConfig {
    /// Time between two looks for what is expired.
    pub purge_every: Duration,
    /// What one step of a purge may do; others have their turn in between.
    pub purge_budget: PurgeBudget,
    /// The shortest window that is configured: nothing younger is purged.
    pub window_min: Span,
    /// Time between two looks whether revocation lists (and whatever else makes the site) have changed.
    pub reload_every: Duration,
    /// How to look.
    pub reload: Option<Reload>,
}

impl Default for SweepConfig {
    fn default() -> Self {
        Self {
            purge_every: Duration::from_secs(600),
            purge_budget: PurgeBudget { segments: 4, octets: 64 << 20 },
            window_min: Span::days(30),
            reload_every: Duration::from_secs(60),
            reload: None,
        }
    }
}

/// The pool for what takes a processor.
#[derive(Debug, Clone, Copy)]
pub struct PoolConfig {
    /// Jobs at once.
    pub slots: usize,
    /// Jobs that may wait; beyond it messages are answered with 503.
    pub queue_max: usize,
}

impl Default for PoolConfig {
    /// As many jobs at once as there are processors.
    fn default() -> Self {
        let slots = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self { slots, queue_max: QUEUE_MAX }
    }
}
