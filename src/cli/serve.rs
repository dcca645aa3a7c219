//! `oncepoint serve`: runs the access point until it is told to stop, or its store fails.

use std::io::IsTerminal as _;

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::{CliError, LogFormat, ServeArgs, output::Output, store};
use crate::{
    config::{self, Config},
    net::tls::ServerTls,
    service::{
        clock::Clock,
        running::{InFlightAtEnd, Running, Stopped, start},
    },
};

/// What is logged unless `RUST_LOG` says otherwise.
const LOG_DEFAULT: &str = "info,sled=warn";

pub(super) fn run(args: &ServeArgs, output: &Output) -> Result<(), CliError> {
    log_to_stderr(args.log);
    let config = Config::load(&args.config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| CliError::failed("runtime", error))?.block_on(serve(args, &config, output))
}

fn log_to_stderr(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG_DEFAULT));
    let colours = std::io::stderr().is_terminal();
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr);
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
    let tls = service.as4.tls.clone();
    let mut signals = Signals::new()?;
    let running = start(service).await.map_err(|error| CliError::Usage(error.to_string()))?;
    announce(config, &running, output)?;
    let failure = wait(args, &running, tls.as_ref(), &mut signals).await;
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
    running: &Running,
    tls: Option<&ServerTls>,
    signals: &mut Signals,
) -> Option<CliError> {
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => return None,
            _ = signals.interrupt.recv() => return None,
            _ = signals.reload.recv() => reload(args, running, tls),
            error = running.failed() => return Some(CliError::failed("the store failed", error)),
        }
    }
}

/// Reads keys, anchors, revocation lists, P-Modes, participants and the TLS pair anew; what is wrong leaves the
/// old in use.
fn reload(args: &ServeArgs, running: &Running, tls: Option<&ServerTls>) {
    let reread = Config::load(&args.config).and_then(|config| {
        let site = config::site(&config)?;
        if let (Some(listener), Some(files)) = (tls, &config.file.as4.tls) {
            config::replace_tls(listener, files)?;
        }
        Ok(site)
    });
    match reread {
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
