//! From a checked configuration to the service's own: listeners, limits, pool, sweeper.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use super::{Config, ConfigError, connector_keys, file::Tls, read, read_secret};
use crate::{
    exchange::Site,
    net::{
        body::BodyLimits,
        server::ServerLimits,
        tls::{ServerTls, TlsError},
    },
    service::{
        clock::Clock,
        config::{As4Config, ConnectorConfig, PeerAddress, PoolConfig, Reload, ServiceConfig, SweepConfig},
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
    Ok(ServiceConfig {
        as4: as4(config, &site)?,
        connector: ConnectorConfig::on(config.connector_listen, connector_keys(config)?),
        site: Arc::new(site),
        store,
        clock,
        pool: PoolConfig::default(),
        sweep: SweepConfig {
            window_min: config.file.dedup.window_min(),
            reload: Some(reload_with_lists(config)),
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
    let (chain, key) = pair(tls)?;
    ServerTls::from_pem(&chain, &key).map_err(|error| unfit(tls, &error))
}

/// Uses the listener's certificate and key as they are in their files now, from the next handshake on.
///
/// # Errors
/// As [`tls`]; the pair in use stays.
pub fn replace_tls(listener: &ServerTls, tls: &Tls) -> Result<(), ConfigError> {
    let (chain, key) = pair(tls)?;
    listener.replace(&chain, &key).map_err(|error| unfit(tls, &error))
}

fn pair(tls: &Tls) -> Result<(Vec<u8>, Vec<u8>), ConfigError> {
    Ok((read(&tls.cert)?, read_secret("as4.tls.key", &tls.key)?))
}

fn unfit(tls: &Tls, error: &TlsError) -> ConfigError {
    ConfigError::Syntax { path: tls.cert.clone(), message: error.to_string() }
}

/// Reads the site anew when a revocation list was written since the last look.
fn reload_with_lists(config: &Config) -> Reload {
    let config = config.clone();
    let lists = Mutex::new(Lists::of(&config.file.trust.crls));
    Reload(Arc::new(move || {
        let changed = lists.lock().unwrap_or_else(PoisonError::into_inner).changed();
        changed.then(|| super::site(&config)).transpose().map_err(|error| error.to_string())
    }))
}

/// Files, and when each was last written.
struct Lists {
    paths: Vec<PathBuf>,
    written: Vec<Option<SystemTime>>,
}

impl Lists {
    fn of(paths: &[PathBuf]) -> Self {
        Self { written: written(paths), paths: paths.to_vec() }
    }

    fn changed(&mut self) -> bool {
        let before = std::mem::replace(&mut self.written, written(&self.paths));
        before != self.written
    }
}

fn written(paths: &[PathBuf]) -> Vec<Option<SystemTime>> {
    paths.iter().map(|path| fs::metadata(path).and_then(|file| file.modified()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_written_anew_is_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crl");
        let mut lists = Lists::of(std::slice::from_ref(&path));
        assert!(!lists.changed());
        fs::write(&path, "one").unwrap();
        assert!(lists.changed());
        assert!(!lists.changed());
        fs::remove_file(&path).unwrap();
        assert!(lists.changed());
    }
}
