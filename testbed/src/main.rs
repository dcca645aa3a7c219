//! `testbed`: the demo, the load tools and what the crash campaign needs.

use std::{
    env,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use testbed::{
    Fault,
    campaign::{self, Crash},
    demo,
    load::{self, Load, big, storm},
    peers,
    product::Transport,
};

/// Black-box tests of the real `oncepoint` binary (`ONCEPOINT_BIN`, else the one beside this program).
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The promise in fifteen lines; exit status 1 when it is broken.
    Demo,
    /// Throughput, CPU per message as a ratio to the crypto floor, memory.
    Load {
        /// First messages.
        #[arg(long, default_value_t = 2000)]
        messages: usize,
        /// Size of each document, in bytes.
        #[arg(long, default_value_t = 10_000)]
        bytes: u64,
        /// Connections.
        #[arg(long, default_value_t = 8)]
        connections: usize,
        /// Repeats, in percent of the first messages.
        #[arg(long, default_value_t = 200)]
        repeats: usize,
        /// Over TLS.
        #[arg(long)]
        tls: bool,
    },
    /// One message thousands of times at once, while other senders go on.
    Storm {
        /// How often.
        #[arg(long, default_value_t = 14_000)]
        repeats: usize,
        /// Connections.
        #[arg(long, default_value_t = 64)]
        connections: usize,
        /// Messages of other senders.
        #[arg(long, default_value_t = 400)]
        fresh: usize,
        /// Size of each document, in bytes.
        #[arg(long, default_value_t = 10_000)]
        bytes: u64,
    },
    /// Large payloads; exit status 1 above 96 MiB over idle.
    Big {
        /// Size of each envelope, in MiB.
        #[arg(long, default_value_t = 1024)]
        mebibytes: u64,
    },
    /// Crash the product again and again under load and demand that nothing is lost or delivered twice.
    Crash {
        /// What a crash is.
        #[arg(value_enum)]
        kind: CrashKind,
        /// How many.
        #[arg(long, default_value_t = 50)]
        cycles: u32,
        /// The plan of the crashes.
        #[arg(long, default_value_t = 1)]
        seed: u32,
    },
    /// Write a site (configuration and PKI) for the crash campaign.
    Site {
        /// A new folder.
        folder: PathBuf,
    },
    /// Compose messages for a site into a folder.
    Compose {
        /// How many.
        count: usize,
        /// Where to.
        out: PathBuf,
        /// The folder that `site` wrote.
        #[arg(long)]
        site: PathBuf,
        /// Size of each document, in bytes.
        #[arg(long, default_value_t = 4000)]
        bytes: u64,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum CrashKind {
    /// SIGKILL.
    Kill,
    /// A simulated power cut by the letter of POSIX.
    PowerStrict,
    /// A simulated power cut as journaling file systems show it.
    PowerLenient,
}

fn crash(kind: CrashKind, cycles: u32, seed: u32, out: &mut dyn Write) -> Result<(), Fault> {
    let shared = peers::shared()?.ok_or_else(|| Fault::setup("../shared is not there"))?;
    let kind = match kind {
        CrashKind::Kill => Crash::Kill,
        CrashKind::PowerStrict => Crash::PowerStrict,
        CrashKind::PowerLenient => Crash::PowerLenient,
    };
    let said = campaign::crash(&shared, &env::current_exe()?, kind, cycles, seed)?;
    Ok(out.write_all(said.as_bytes())?)
}

fn run(command: Command) -> Result<(), Fault> {
    let out = &mut io::stdout();
    match command {
        Command::Demo => demo::run(out),
        Command::Load { messages, bytes, connections, repeats, tls } => {
            let transport = if tls { Transport::Tls } else { Transport::Plain };
            load::run(&Load { messages, bytes, connections, repeats, transport }, out)
        }
        Command::Storm { repeats, connections, fresh, bytes } => {
            storm::run(&storm::Storm { repeats, connections, fresh, bytes }, out)
        }
        Command::Big { mebibytes } => big::run(mebibytes << 20, out),
        Command::Crash { kind, cycles, seed } => crash(kind, cycles, seed, out),
        Command::Site { folder } => campaign::site(&folder).map(drop),
        Command::Compose { count, out, site, bytes } => campaign::pool(&site, count, bytes, &out),
    }
}

#[expect(clippy::print_stderr, reason = "this is where a command line tool says what went wrong")]
fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("testbed: {fault}");
            match fault {
                Fault::Broken(_) => ExitCode::FAILURE,
                _ => ExitCode::from(2),
            }
        }
    }
}
