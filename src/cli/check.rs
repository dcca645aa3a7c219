//! `oncepoint check`: everything that `serve` would need, read and judged, without serving.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::FileExt as _,
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};

use super::{CliError, ConfigArgs, output::Output};
use crate::{
    config::{Config, connector_keys, site},
    exchange::Site,
    model::{Span, Timestamp},
    peppol::Participants,
    service::{clock::Clock, connector::ConnectorKeys},
};

/// Syncs that are measured.
const SYNCS: u32 = 32;
/// Quicker than any disk: the write went to memory only (`storage` §1).
const SYNC_IMPLAUSIBLE: Duration = Duration::from_micros(20);
/// Slower than a spinning disk should be.
const SYNC_SLOW: Duration = Duration::from_millis(20);
/// A certificate that ends sooner is worth a warning.
const EXPIRY_WARNING: Span = Span::days(60);

/// What was found out, in the order it was.
#[derive(Default)]
struct Findings {
    lines: Vec<String>,
    warnings: Vec<String>,
    faults: Vec<String>,
}

impl Findings {
    fn say(&mut self, name: &str, value: impl std::fmt::Display) {
        self.lines.push(format!("{name:<14} {value}"));
    }
}

pub(super) fn run(args: &ConfigArgs, output: &Output) -> Result<(), CliError> {
    let config = Config::load(&args.config)?;
    let clock = Clock::system();
    let site = site(&config)?;
    let keys = connector_keys(&config)?;
    let mut found = Findings::default();
    describe_listeners(&config, &keys, &mut found);
    check_seats(&site, clock.now(), &mut found);
    describe_agreements(&config, &site, &mut found);
    let sync = check_disk(&config.file.node.data_dir, &clock, &mut found);
    found.say("clock", clock.now());
    finish(&config, found, sync, output)
}

fn describe_listeners(config: &Config, keys: &ConnectorKeys, found: &mut Findings) {
    let file = &config.file;
    let scheme = if file.as4.tls.is_some() { "https" } else { "http" };
    found.say("stage", format!("{:?}", file.node.stage).to_lowercase());
    found.say("as4", format!("{scheme}://{}{}", config.as4_listen, file.as4.path));
    let access = match keys {
        ConnectorKeys::Loopback => "no keys, loopback only".to_owned(),
        ConnectorKeys::Keys(keys) => format!("{} keys", keys.len()),
    };
    found.say("connector", format!("http://{} ({access})", config.connector_listen));
    found.say(
        "limits",
        format!(
            "message {}, payload {}, ratio {}",
            file.as4.max_message, file.as4.max_payload, file.as4.max_ratio
        ),
    );
}

fn check_seats(site: &Site, now: Timestamp, found: &mut Findings) {
    for identity in &site.identities {
        let (seat, until) = (identity.key.seat(), identity.key.not_after());
        found.say("seat", format!("{seat} (tenant {}), certificate until {until}", identity.tenant));
        if until < now {
            found.faults.push(format!("the certificate of {seat} ended at {until}"));
        } else if until < now.plus(EXPIRY_WARNING) {
            found.warnings.push(format!("the certificate of {seat} ends at {until}"));
        }
        match site.trust.certificate(identity.key.certificate_der()).map(|own| site.trust.judge(&own, now)) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                found.warnings.push(format!("{seat} would not be trusted by a peer like us: {error}"))
            }
            Err(error) => found.warnings.push(format!("the certificate of {seat}: {error}")),
        }
    }
}

fn describe_agreements(config: &Config, site: &Site, found: &mut Findings) {
    for mode in site.pmodes.iter() {
        found.say("P-Mode", format!("{} ({:?})", mode.id, mode.network));
    }
    let serviced = match &site.participants {
        Participants::Any => "everyone".to_owned(),
        Participants::Listed(listed) => format!("{} listed", listed.len()),
    };
    if matches!(&site.participants, Participants::Listed(listed) if listed.is_empty()) {
        found
            .warnings
            .push("no participant is listed: every message will be refused as not serviced".to_owned());
    }
    found.say("participants", serviced);
    let dedup = &config.file.dedup;
    found.say("window", format!("{}, financial {}", dedup.window, dedup.financial_window));
    found.say(
        "revocation",
        format!("{:?}, {} lists", config.file.trust.revocation, config.file.trust.crls.len()),
    );
}

/// Makes the data folder when it is not there, as `serve` would, and measures what a sync costs in it.
fn check_disk(dir: &Path, clock: &Clock, found: &mut Findings) -> Option<Duration> {
    match measure(dir, clock) {
        Ok(sync) => {
            found.say("fdatasync", format!("{sync:?} (median of {SYNCS}) in {}", dir.display()));
            if sync < SYNC_IMPLAUSIBLE {
                found.warnings.push(
                    "fdatasync is implausibly fast: the disk does not keep what it acknowledges (tmpfs, or a cache that lies)"
                        .to_owned(),
                );
            } else if sync > SYNC_SLOW {
                found.warnings.push("fdatasync is slow: every answer waits for one".to_owned());
            }
            Some(sync)
        }
        Err(error) => {
            found.faults.push(format!("{}: {error}", dir.display()));
            None
        }
    }
}

fn measure(dir: &Path, clock: &Clock) -> io::Result<Duration> {
    fs::create_dir_all(dir)?;
    let path = dir.join(".fdatasync-probe");
    let result = measure_in(&path, clock);
    // The file holds nothing; when it cannot be removed the next check overwrites it.
    let _ = fs::remove_file(&path);
    result
}

fn measure_in(path: &Path, clock: &Clock) -> io::Result<Duration> {
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all(&[0; 4096])?;
    file.sync_all()?;
    let mut times = Vec::new();
    for n in 0..SYNCS {
        let from = clock.monotonic();
        file.write_all_at(&n.to_le_bytes(), 0)?;
        file.sync_data()?;
        times.push(clock.monotonic().saturating_sub(from));
    }
    times.sort();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}

fn finish(config: &Config, found: Findings, sync: Option<Duration>, output: &Output) -> Result<(), CliError> {
    let Findings { mut lines, warnings, faults } = found;
    lines.extend(warnings.iter().map(|warning| format!("WARNING        {warning}")));
    let value = json!({
        "effective": serde_json::to_value(&config.file).unwrap_or(Value::Null),
        "warnings": warnings,
        "faults": faults,
        "fdatasync_us": sync.map(|sync| sync.as_micros()),
    });
    if faults.is_empty() {
        lines.push("ready to serve".to_owned());
    }
    output.result(&lines, &value)?;
    match faults.as_slice() {
        [] => Ok(()),
        faults => Err(CliError::Usage(faults.join("; "))),
    }
}
