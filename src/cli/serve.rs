//! `oncepoint serve`: runs the access point until it is told to stop, or its store fails.

use std::{fs, path::PathBuf, time::Duration, time::SystemTime};

use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};
use tracing_subscriber::EnvFilter;

use super::{CliError, LogFormat, ServeArgs, output::Output, store};
use crate::{
    config::{self, Config},
    service::{
        clock::Clock,
        running::{InFlightAtEnd, Running, Stopped, start},
    },
};

/// What is logged unless `RUST_LOG` says otherwise.
const LOG_DEFAULT: &str = "info,sled=warn";

/// How often revocation lists are looked at.
const LISTS_EVERY: Duration = Duration::from_secs(60);

pub(super) fn run(args: &ServeArgs, output: &Output) -> Result<(), CliError> {
    log_to_stderr(args.log);
    let config = Config::load(&args.config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| CliError::failed("runtime", error))?.block_on(serve(args, &config, output))
}

fn log_to_stderr(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG_DEFAULT));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Human => log.with_target(false).init(),
        LogFormat::Json => log.json().init(),
    }
}

async fn serve(args: &ServeArgs, config: &Config, output: &Output) -> Result<(), CliError> {
    let clock = Clock::system();
    // Everything that can be wrong is read before the folder is locked.
    let site = config::site(config)?;
    let (store, recovery) = store::open(config, &clock)?;
    tracing::info!(
        segments = recovery.segments,
        replayed = recovery.replayed,
        rewritten = recovery.rewritten,
        torn_octets = recovery.torn_octets,
        clean = recovery.clean,
        "store open"
    );
    let service = config::service(config, site, store, clock)?;
    let mut signals = Signals::new()?;
    let running = start(service).await.map_err(|error| CliError::Usage(error.to_string()))?;
    announce(config, &running, output)?;
    let failure = wait(args, config, &running, &mut signals).await;
    let stopped = running.shutdown().await;
    end(&stopped, failure)
}

fn announce(config: &Config, running: &Running, output: &Output) -> Result<(), CliError> {
    let scheme = if config.file.as4.tls.is_some() { "https" } else { "http" };
    output.line(&format!("listening as4 {scheme}://{}{}", running.as4_addr(), config.file.as4.path))?;
    output.line(&format!("listening connector http://{}", running.connector_addr()))?;
    output.line("ready")
}

/// What may happen to a running service from outside.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    reload: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self, CliError> {
        let listen = |kind| signal(kind).map_err(|error| CliError::failed("signals", error));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            reload: listen(SignalKind::hangup())?,
        })
    }
}

/// Waits for the end; says why when it is not a wanted one.
async fn wait(
    args: &ServeArgs,
    config: &Config,
    running: &Running,
    signals: &mut Signals,
) -> Option<CliError> {
    let mut lists = Lists::of(config);
    let mut look = interval(LISTS_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = look.tick() => if lists.changed() { reload(args, running) },
            _ = signals.terminate.recv() => return None,
            _ = signals.interrupt.recv() => return None,
            _ = signals.reload.recv() => reload(args, running),
            error = running.failed() => return Some(CliError::failed("the store failed", error)),
        }
    }
}

/// The revocation lists and when each was last written: they are read anew when that changes.
struct Lists {
    paths: Vec<PathBuf>,
    written: Vec<Option<SystemTime>>,
}

impl Lists {
    fn of(config: &Config) -> Self {
        let paths = config.file.trust.crls.clone();
        Self { written: written(&paths), paths }
    }

    fn changed(&mut self) -> bool {
        let before = std::mem::replace(&mut self.written, written(&self.paths));
        before != self.written
    }
}

fn written(paths: &[PathBuf]) -> Vec<Option<SystemTime>> {
    paths.iter().map(|path| fs::metadata(path).and_then(|file| file.modified()).ok()).collect()
}

/// Reads keys, anchors, revocation lists, P-Modes and participants anew; what is wrong leaves the old in use.
fn reload(args: &ServeArgs, running: &Running) {
    match Config::load(&args.config).and_then(|config| config::site(&config)) {
        Ok(site) => {
            running.replace_site(site);
            tracing::info!("configuration reloaded");
        }
        Err(error) => tracing::error!(%error, "configuration not reloaded; the old one stays in use"),
    }
}

fn end(stopped: &Stopped, failure: Option<CliError>) -> Result<(), CliError> {
    tracing::info!(cut = stopped.cut, messages = ?stopped.messages, "stopped");
    if let Some(failure) = failure {
        return Err(failure);
    }
    if let Err(error) = &stopped.store {
        return Err(CliError::failed("closing the store", error));
    }
    match stopped.messages {
        InFlightAtEnd::Finished => Ok(()),
        InFlightAtEnd::Abandoned => Err(CliError::Failed(
            "messages in flight were abandoned; their senders will ask again".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_written_anew_is_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.crl");
        let mut lists = Lists { paths: vec![path.clone()], written: vec![None] };
        assert!(!lists.changed());
        fs::write(&path, "one").unwrap();
        assert!(lists.changed());
        assert!(!lists.changed());
        fs::remove_file(&path).unwrap();
        assert!(lists.changed());
    }
}
