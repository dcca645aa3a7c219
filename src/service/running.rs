//! Starting a service, watching over it, and bringing it to an end.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, RwLock},
};

use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::service::TowerToHyperService;
use tokio::{
    net::TcpListener,
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

use super::{
    as4::{self, Shared},
    budget::Budget,
    config::{ConnectorConfig, ServiceConfig},
    connector::{self, ConnectorParts},
    observe::Observe,
    pool::Pool,
    readiness::readiness,
    sweep::sweep,
    tasks::Tasks,
};
use crate::{
    exchange::Site,
    net::server::{self, Stop},
    store::StoreError,
};

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("the {listener} cannot listen on {address}: {source}")]
    Listen {
        /// Which listener: `AS4 endpoint` or `connector`.
        listener: &'static str,
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Without keys the connector is for this machine only.
    #[error("without keys the connector listens on loopback only, not on {0}")]
    OpenConnector(SocketAddr),
}

/// How a service ended.
#[derive(Debug)]
pub struct Stopped {
    /// Connections that had to be cut because the grace was over.
    pub cut: usize,
    /// Whether every message in flight came to its end.
    pub messages: InFlightAtEnd,
    /// Whether the log was closed in order.
    pub store: Result<(), StoreError>,
}

/// What became of the messages in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlightAtEnd {
    /// Each got its answer.
    Finished,
    /// The grace was over before; their ids were given back.
    Abandoned,
}

/// A running service.
pub struct Running {
    as4: SocketAddr,
    connector: SocketAddr,
    shared: Arc<Shared>,
    stop: Stop,
    grace: std::time::Duration,
    servers: [JoinHandle<usize>; 2],
    sweeper: JoinHandle<()>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("as4", &self.as4)
            .field("connector", &self.connector)
            .finish_non_exhaustive()
    }
}

/// Starts a service on the current runtime: when this returns, both listeners answer.
///
/// # Errors
/// When an address cannot be listened on.
pub async fn start(config: ServiceConfig) -> Result<Running, StartError> {
    let ServiceConfig { site, store, clock, as4, connector, pool, sweep: sweeping, shutdown_grace } = config;
    let is_open = matches!(connector.keys, connector::ConnectorKeys::Loopback);
    if is_open && !connector.listen.ip().is_loopback() {
        return Err(StartError::OpenConnector(connector.listen));
    }
    let (as4_listener, as4_addr) = listen("AS4 endpoint", as4.listen).await?;
    let (connector_listener, connector_addr) = listen("connector", connector.listen).await?;
    let shared = Arc::new(Shared {
        path: as4.path,
        host: as4.host,
        peer: as4.peer,
        body: as4.body,
        site: RwLock::new(site),
        store,
        clock,
        pool: Pool::new(pool.slots, pool.queue_max),
        budget: Budget::new(as4.memory_budget_bytes),
        observe: Arc::new(Observe::default()),
        tasks: Tasks::default(),
    });
    let stop = Stop::default();
    let for_messages = Arc::clone(&shared);
    let messages =
        service_fn(move |request: Request<Incoming>| as4::answer(Arc::clone(&for_messages), request));
    let servers = [
        tokio::spawn(server::serve(
            as4_listener,
            as4.tls,
            as4.server,
            messages,
            stop.clone(),
            shutdown_grace,
        )),
        tokio::spawn(serve_connector(
            connector_listener,
            connector,
            Arc::clone(&shared),
            stop.clone(),
            shutdown_grace,
        )),
    ];
    let sweeper = tokio::spawn(sweep(Arc::clone(&shared), sweeping, stop.clone()));
    Ok(Running {
        as4: as4_addr,
        connector: connector_addr,
        shared,
        stop,
        grace: shutdown_grace,
        servers,
        sweeper,
    })
}

async fn listen(
    listener: &'static str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |source| StartError::Listen { listener, address, source };
    let socket = TcpListener::bind(address).await.map_err(failed)?;
    let bound = socket.local_addr().map_err(failed)?;
    Ok((socket, bound))
}

async fn serve_connector(
    listener: TcpListener,
    config: ConnectorConfig,
    shared: Arc<Shared>,
    stop: Stop,
    grace: std::time::Duration,
) -> usize {
    let [for_readiness, for_metrics, for_evidence] = std::array::from_fn(|_| Arc::clone(&shared));
    let [now, trace] = [shared.clock.clone(), shared.clock.clone()];
    let router = connector::router(ConnectorParts {
        store: shared.store.clone(),
        keys: config.keys,
        deliveries_max: config.deliveries_max,
        now: Box::new(move || now.now()),
        trace: Box::new(move || trace.random_id().to_string()),
        behind: Box::new(move |signer| {
            let trust = &for_evidence.site().trust;
            trust.certificate(signer).map(|known| trust.behind(&known)).unwrap_or_default()
        }),
        readiness: Box::new(move || {
            let (site, now) = (for_readiness.site(), for_readiness.clock.now());
            readiness(&for_readiness.store.health(), &site, now)
        }),
        metrics: Box::new(move || {
            for_metrics.observe.render(&for_metrics.store.health(), for_metrics.clock.now())
        }),
        stopping: stop.subscribe(),
    });
    let service = TowerToHyperService::new(router);
    server::serve::<_, axum::body::Body>(listener, None, config.server, service, stop, grace).await
}

impl Running {
    /// Where the AS4 endpoint listens.
    #[must_use]
    pub const fn as4_addr(&self) -> SocketAddr {
        self.as4
    }

    /// Where the connector listens.
    #[must_use]
    pub const fn connector_addr(&self) -> SocketAddr {
        self.connector
    }

    /// Puts another site in the place of the one in use; messages in flight keep theirs.
    pub fn replace_site(&self, site: Site) {
        self.shared.replace_site(site);
    }

    /// Resolves when the log failed for good: the process has to end then, and not with success
    /// (`storage` §3.3).
    pub async fn failed(&self) -> StoreError {
        self.shared.store.failed().await
    }

    /// Brings the service to its end: takes nothing more, finishes what is in flight within the grace, closes
    /// the log.
    pub async fn shutdown(self) -> Stopped {
        self.stop.stop();
        let mut cut = 0_usize;
        for server in self.servers {
            cut = cut.saturating_add(server.await.unwrap_or_default());
        }
        let finished = timeout(self.grace, self.shared.tasks.finished()).await;
        let messages = if finished.is_ok() { InFlightAtEnd::Finished } else { InFlightAtEnd::Abandoned };
        self.sweeper.abort();
        let store = self.shared.store.clone();
        let store = spawn_blocking(move || store.close()).await.unwrap_or(Err(StoreError::Closed));
        Stopped { cut, messages, store }
    }
}
