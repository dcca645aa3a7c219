//! From a checked configuration to the service's own: listeners, limits, pool, sweeper.

use std::sync::Arc;

use super::{Config, ConfigError, connector_keys, file::Tls, read, read_secret};
use crate::{
    exchange::Site,
    net::{body::BodyLimits, server::ServerLimits, tls::ServerTls},
    service::{
        clock::Clock,
        config::{As4Config, ConnectorConfig, PeerAddress, PoolConfig, ServiceConfig, SweepConfig},
    },
    store::Store,
};

/// What the service is started with, around a site and an open store.
///
/// # Errors
/// When TLS or connector keys cannot be read or do not fit together.
pub fn service(
    config: &Config,
    site: Site,
    store: Store,
    clock: Clock,
) -> Result<ServiceConfig, ConfigError> {
    let dedup = &config.file.dedup;
    Ok(ServiceConfig {
        as4: as4(config, &site)?,
        connector: ConnectorConfig::on(config.connector_listen, connector_keys(config)?),
        site: Arc::new(site),
        store,
        clock,
        pool: PoolConfig::default(),
        sweep: SweepConfig {
            window_min: dedup.window.span().min(dedup.financial_window.span()),
            ..SweepConfig::default()
        },
        shutdown_grace: config.file.as4.shutdown_grace.span().as_duration(),
    })
}

fn as4(config: &Config, site: &Site) -> Result<As4Config, ConfigError> {
    let keys = &config.file.as4;
    let host =
        site.identities.first().map_or_else(String::new, |seat| seat.key.seat().as_str().to_lowercase());
    Ok(As4Config {
        path: keys.path.clone(),
        tls: keys.tls.as_ref().map(tls).transpose()?,
        peer: if keys.behind_proxy { PeerAddress::Forwarded } else { PeerAddress::Connection },
        server: ServerLimits {
            header_timeout: keys.header_timeout.span().as_duration(),
            connections_max: keys.max_connections,
            ..ServerLimits::default()
        },
        body: BodyLimits {
            bytes_max: keys.max_message.bytes(),
            idle: keys.body_idle.span().as_duration(),
            total: keys.body_timeout.span().as_duration(),
        },
        memory_budget_bytes: usize::try_from(keys.memory_budget.bytes()).unwrap_or(usize::MAX),
        host: format!("{host}.oncepoint"),
        ..As4Config::on(config.as4_listen)
    })
}

/// The TLS side of the AS4 listener.
///
/// # Errors
/// When certificate or key cannot be read, or they do not belong together.
pub fn tls(tls: &Tls) -> Result<ServerTls, ConfigError> {
    let (chain, key) = (read(&tls.cert)?, read_secret("as4.tls.key", &tls.key)?);
    ServerTls::from_pem(&chain, &key)
        .map_err(|error| ConfigError::Syntax { path: tls.cert.clone(), message: error.to_string() })
}
