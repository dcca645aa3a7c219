//! `oncepoint store`: looking after the store of a stopped access point.

use std::{path::Path, sync::Arc};

use serde_json::json;

use super::{CliError, StoreCommand, output::Output};
use crate::{
    config::Config,
    service::clock::Clock,
    store::{
        OpenError, Purge, PurgeBudget, PurgeOrder, Store,
        journal::{IndexChoice, Journal, JournalOptions, Recovery},
        vfs::{RealVfs, Vfs},
    },
};

pub(super) fn run(command: StoreCommand, output: &Output) -> Result<(), CliError> {
    match command {
        StoreCommand::Verify(args) => verify(&Config::load(&args.config)?, output),
        StoreCommand::Repair(args) => repair(&Config::load(&args.config)?, output),
        StoreCommand::RebuildIndex(args) => rebuild(&Config::load(&args.config)?, output),
        StoreCommand::Purge { config, dry_run, force } => {
            let purge = if force { Purge::Forced } else { Purge::Scheduled };
            let config = Config::load(&config.config)?;
            if dry_run { preview(&config, output) } else { purge_now(&config, purge, output) }
        }
    }
}

/// How the journal of a configuration is opened.
pub(super) fn journal_options(config: &Config, clock: &Clock) -> JournalOptions {
    let monotonic = clock.clone();
    JournalOptions {
        segment_bytes: config.file.store.segment.bytes(),
        reserve_bytes: config.file.store.reserve.bytes(),
        index: IndexChoice::Sled(config.file.node.data_dir.join("index")),
        monotonic: Arc::new(move || monotonic.monotonic()),
        alarm: Arc::new(|what| tracing::warn!(what, "store")),
        ..JournalOptions::new(clock.now())
    }
}

/// Opens the store of a configuration; a folder in use is told by its owner's process id.
pub(super) fn open(config: &Config, clock: &Clock) -> Result<(Store, Recovery), CliError> {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
    let dir: &Path = &config.file.node.data_dir;
    Store::open(&vfs, dir, journal_options(config, clock))
        .map_err(|error: OpenError| CliError::failed("the store", error))
}

fn closed(store: &Store) -> Result<(), CliError> {
    store.close().map_err(|error| CliError::failed("closing the store", error))
}

fn verify(config: &Config, output: &Output) -> Result<(), CliError> {
    let (store, _) = open(config, &Clock::system())?;
    let report = store.verify().map_err(|error| CliError::failed("verify", error))?;
    closed(&store)?;
    let mut lines = vec![format!("{} accepted messages in {} frames", report.accepted, report.frames)];
    lines.extend(report.findings.iter().map(|finding| format!("DAMAGED {finding}")));
    output.result(
        &lines,
        &json!({ "accepted": report.accepted, "frames": report.frames, "findings": report.findings }),
    )?;
    match report.findings.len() {
        0 => Ok(()),
        n => Err(CliError::Failed(format!("{n} findings: the store is damaged"))),
    }
}

fn repair(config: &Config, output: &Output) -> Result<(), CliError> {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs);
    let dir: &Path = &config.file.node.data_dir;
    let report = Journal::repair(&vfs, dir, journal_options(config, &Clock::system()))
        .map_err(|error| CliError::failed(dir.display(), error))?;
    let mut lines: Vec<_> = report.covered.iter().map(|fault| format!("covered {fault:?}")).collect();
    lines.extend(report.given_up.iter().map(|segment| format!("segment {segment} is given up")));
    lines.push(format!(
        "{} undamaged frames written again, {} of them without their body",
        report.salvaged, report.bodies_lost
    ));
    let covered: Vec<_> = report.covered.iter().map(|fault| format!("{fault:?}")).collect();
    output.result(
        &lines,
        &json!({ "covered": covered, "given_up": report.given_up, "salvaged": report.salvaged,
            "bodies_lost": report.bodies_lost, "format_renewed": report.format_renewed }),
    )
}

fn rebuild(config: &Config, output: &Output) -> Result<(), CliError> {
    let (store, _) = open(config, &Clock::system())?;
    store.rebuild_index();
    closed(&store)?;
    output.result(&["the index was made anew from the journal".to_owned()], &json!({ "rebuilt": true }))
}

fn order(config: &Config, clock: &Clock, purge: Purge) -> PurgeOrder {
    let window_min = config.file.dedup.window_min();
    // One call does all of it: nobody waits for the store meanwhile.
    let budget = PurgeBudget { segments: u64::MAX, octets: u64::MAX };
    PurgeOrder { now: clock.now(), budget, purge, window_min }
}

fn purge_now(config: &Config, purge: Purge, output: &Output) -> Result<(), CliError> {
    let clock = Clock::system();
    let (store, _) = open(config, &clock)?;
    let stats =
        store.purge(&order(config, &clock, purge)).map_err(|error| CliError::failed("purge", error))?;
    closed(&store)?;
    let line = if stats.clock_ahead {
        "nothing was purged: the clock is more than a day ahead of the newest record (--force if that is right)".to_owned()
    } else {
        format!(
            "{} frames and {} payload files removed, {} frames copied forward, {} bytes given back, {} segments left for the next time",
            stats.dropped, stats.payload_files, stats.forwarded, stats.octets, stats.left
        )
    };
    output.result(
        &[line],
        &json!({
            "dropped": stats.dropped, "forwarded": stats.forwarded, "segments": stats.segments,
            "bytes": stats.octets, "payload_files": stats.payload_files, "left": stats.left,
            "clock_ahead": stats.clock_ahead,
        }),
    )
}

fn preview(config: &Config, output: &Output) -> Result<(), CliError> {
    let clock = Clock::system();
    let (store, _) = open(config, &clock)?;
    let preview = store.purge_preview(&order(config, &clock, Purge::Scheduled));
    closed(&store)?;
    let preview = preview.map_err(|error| CliError::failed("purge", error))?;
    let lines = [
        format!("{} messages are beyond their window and taken: they would go", preview.messages),
        format!("{} records of other messages would go", preview.records),
        format!(
            "{} messages are beyond their window and stay: the backend has not taken them",
            preview.not_taken
        ),
    ];
    let value = json!({
        "messages": preview.messages, "records": preview.records, "not_taken": preview.not_taken,
    });
    output.result(&lines, &value)
}
