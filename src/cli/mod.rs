//! The commands of `oncepoint`: one table of arguments, one function each.
//!
//! Results go to standard output (JSON with `--json`), errors to standard error; the exit status is 0 for
//! done, 1 for failed, 2 for a wrong call or configuration.

mod check;
mod connector;
mod inbox;
mod init;
mod output;
mod pki;
mod serve;
mod store;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{ConfigError, file::Stage};
use output::{Form, Output};

/// A command could not be done.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The configuration or a file it names is wrong: exit status 2.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The call is wrong: exit status 2.
    #[error("{0}")]
    Usage(String),
    /// Everything was right, but it did not work: exit status 1.
    #[error("{0}")]
    Failed(String),
    /// Standard output is gone.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] std::io::Error),
}

impl CliError {
    /// A failure that says what did not work and why.
    fn failed(what: impl std::fmt::Display, why: impl std::fmt::Display) -> Self {
        Self::Failed(format!("{what}: {why}"))
    }

    const fn status(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Usage(_) => 2,
            Self::Failed(_) | Self::Output(_) => 1,
        }
    }
}

/// An AS4 / Peppol access point: a document enters the backend once; a repeat gets the first receipt.
#[derive(Debug, Parser)]
#[command(name = "oncepoint", version, arg_required_else_help = true)]
struct Cli {
    /// Print one JSON object instead of text.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a commented oncepoint.toml and its folders; nothing is overwritten.
    Init(InitArgs),
    /// Read configuration, keys, chain, P-Modes and folders, and print what would be served.
    Check(ConfigArgs),
    /// Run the access point.
    Serve(ServeArgs),
    /// Work with the inbox through the connector.
    #[command(subcommand)]
    Inbox(InboxCommand),
    /// Look at one message.
    #[command(subcommand)]
    Message(MessageCommand),
    /// Look after the store of a stopped access point.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Trust anchors.
    #[command(subcommand)]
    Pki(PkiCommand),
}

#[derive(Debug, Args)]
struct InitArgs {
    /// The folder to write to.
    dir: PathBuf,
    /// Seat ID of this access point, as in the subject CN of its certificate.
    #[arg(long, default_value = "POP000000")]
    seat: String,
    /// Which network.
    #[arg(long, value_enum, default_value_t = StageName::Local)]
    stage: StageName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StageName {
    Local,
    Test,
    Production,
}

impl From<StageName> for Stage {
    fn from(name: StageName) -> Self {
        match name {
            StageName::Local => Self::Local,
            StageName::Test => Self::Test,
            StageName::Production => Self::Production,
        }
    }
}

#[derive(Debug, Args)]
struct ConfigArgs {
    /// The configuration file.
    #[arg(long, default_value = "oncepoint.toml")]
    config: PathBuf,
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// The configuration file.
    #[arg(long, default_value = "oncepoint.toml")]
    config: PathBuf,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = LogFormat::Human)]
    log: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Human,
    Json,
}

/// Where the connector is: its URL and key, or a configuration to take both from.
#[derive(Debug, Args)]
struct ConnectorArgs {
    /// URL of the connector, like `http://127.0.0.1:8080`.
    #[arg(long, conflicts_with = "config")]
    connector: Option<String>,
    /// API key, or `env:NAME` or `file:PATH`.
    #[arg(long)]
    key: Option<String>,
    /// Take the connector's address from this configuration.
    #[arg(long)]
    config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum InboxCommand {
    /// List items without leasing them.
    List {
        #[command(flatten)]
        connector: ConnectorArgs,
        /// `available`, `leased`, `acked`, `dead`, `refused`, `refused_duplicate` or `conflict`.
        #[arg(long)]
        state: Option<String>,
        /// At most so many.
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Lease the oldest items.
    Claim {
        #[command(flatten)]
        connector: ConnectorArgs,
        /// At most so many.
        #[arg(long, default_value_t = 10)]
        max: u32,
        /// Lease in seconds.
        #[arg(long, default_value_t = 60)]
        lease: u32,
        /// Wait so many seconds for an item.
        #[arg(long, default_value_t = 0)]
        wait: u32,
    },
    /// Write an item's document to a file or standard output.
    Get {
        #[command(flatten)]
        connector: ConnectorArgs,
        /// The item.
        id: String,
        /// The whole envelope instead of the document.
        #[arg(long)]
        sbd: bool,
        /// Where to; standard output when absent.
        #[arg(long)]
        output: Option<PathBuf>,
    },
    /// Say that the backend has the item.
    Ack {
        #[command(flatten)]
        connector: ConnectorArgs,
        /// The item.
        id: String,
        /// The lease that `claim` gave.
        lease: String,
        /// The backend's own number, kept and shown.
        #[arg(long)]
        external_ref: Option<String>,
    },
    /// Give an item back.
    Nack {
        #[command(flatten)]
        connector: ConnectorArgs,
        /// The item.
        id: String,
        /// The lease that `claim` gave.
        lease: String,
        /// Why.
        #[arg(long, default_value = "given back by the operator")]
        reason: String,
        /// Not before so many seconds.
        #[arg(long, default_value_t = 0)]
        delay: u32,
        /// Never again, until requeued.
        #[arg(long)]
        dead: bool,
    },
    /// Hand an item out once more.
    Requeue {
        #[command(flatten)]
        connector: ConnectorArgs,
        /// The item.
        id: String,
    },
}

#[derive(Debug, Subcommand)]
enum MessageCommand {
    /// Print an item and its timeline.
    Show {
        #[command(flatten)]
        connector: ConnectorArgs,
        /// Our id of the message.
        id: String,
    },
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Check every frame, every receipt and every payload.
    Verify(ConfigArgs),
    /// Give up what is damaged, knowingly, so that the rest can be used again; keys are kept where they can be.
    Repair(ConfigArgs),
    /// Make the index anew from the journal.
    RebuildIndex(ConfigArgs),
    /// Remove what is beyond its window and taken by the backend.
    Purge {
        #[command(flatten)]
        config: ConfigArgs,
        /// Count only.
        #[arg(long)]
        dry_run: bool,
        /// Also when the clock is more than a day ahead of the newest record.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Subcommand)]
enum PkiCommand {
    /// Print the trust anchors of a configuration, known Peppol CAs by name.
    Show(ConfigArgs),
    /// Add the certificates of a file to the anchors of a configuration.
    Import {
        #[command(flatten)]
        config: ConfigArgs,
        /// PEM or DER.
        file: PathBuf,
        /// What they are; known Peppol CAs say it themselves.
        #[arg(long = "as", value_enum)]
        role: Option<pki::AnchorRole>,
    },
}

/// Reads the arguments, runs the command, prints its errors.
#[must_use]
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let status = if error.use_stderr() { 2 } else { 0 };
            return ExitCode::from(if error.print().is_ok() { status } else { 1 });
        }
    };
    let output = Output::new(if cli.json { Form::Json } else { Form::Text });
    match dispatch(cli.command, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output.error(&error);
            ExitCode::from(error.status())
        }
    }
}

fn dispatch(command: Command, output: &Output) -> Result<(), CliError> {
    match command {
        Command::Init(args) => init::run(&args, output),
        Command::Check(args) => check::run(&args, output),
        Command::Serve(args) => serve::run(&args, output),
        Command::Inbox(command) => inbox::run(command, output),
        Command::Message(MessageCommand::Show { connector, id }) => inbox::show(&connector, &id, output),
        Command::Store(command) => store::run(command, output),
        Command::Pki(command) => pki::run(command, output),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_table_of_arguments_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_wrong_call_is_told_from_a_failure() {
        assert_eq!(CliError::Usage(String::new()).status(), 2);
        assert_eq!(CliError::failed("a", "b").status(), 1);
    }
}
