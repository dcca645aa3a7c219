//! `oncepoint init`: everything an installation needs but its keys.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
};

use serde_json::json;

use super::{CliError, InitArgs, output::Output};
use crate::{
    config::{self, file::Stage},
    model::SeatId,
};

/// The P-Modes that come with the product.
const PMODES: &[(&str, &str)] = &[
    ("pmodes/peppol.toml", include_str!("../../pmodes/peppol.toml")),
    ("pmodes/ping.toml", include_str!("../../pmodes/ping.toml")),
];

pub(super) fn run(args: &InitArgs, output: &Output) -> Result<(), CliError> {
    let seat =
        SeatId::parse(&args.seat).map_err(|e| CliError::Usage(format!("--seat {}: {e}", args.seat)))?;
    let stage = Stage::from(args.stage);
    let mut lines = vec![];
    for folder in ["", "pki", "pmodes"] {
        create_folder(&args.dir.join(folder))?;
    }
    let own = [
        ("oncepoint.toml", config::template(stage, seat.as_str())),
        ("participants.toml", config::participants_template().to_owned()),
    ];
    let all = own.into_iter().chain(PMODES.iter().map(|(name, text)| (*name, (*text).to_owned())));
    let mut written = vec![];
    for (name, text) in all {
        let path = args.dir.join(name);
        let fresh = write_new(&path, &text)?;
        lines.push(format!("{} {}", if fresh { "wrote" } else { "kept " }, path.display()));
        written.push(json!({ "path": path, "written": fresh }));
    }
    lines.extend(next_steps(&args.dir, stage, &seat));
    output.result(&lines, &json!({ "files": written, "seat": seat, "stage": stage }))
}

fn create_folder(path: &Path) -> Result<(), CliError> {
    fs::create_dir_all(path).map_err(|e| CliError::failed(path.display(), e))
}

/// Writes a file that is not there yet; an existing one is never touched.
fn write_new(path: &Path, text: &str) -> Result<bool, CliError> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).map_err(|e| CliError::failed(path.display(), e))?;
            Ok(true)
        }
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(CliError::failed(path.display(), e)),
    }
}

fn next_steps(dir: &Path, stage: Stage, seat: &SeatId) -> Vec<String> {
    let dir = dir.display();
    let mut lines = vec![
        String::new(),
        "next:".to_owned(),
        format!(
            "  1. put the certificate of {seat} (leaf first) at {dir}/ap.pem and its key at {dir}/ap.key"
        ),
        format!("  2. put the root at {dir}/pki/root.pem and the access point CA at {dir}/pki/ap-ca.pem"),
        format!("     (oncepoint pki import FILE --config {dir}/oncepoint.toml knows the Peppol CAs)"),
    ];
    if stage != Stage::Local {
        lines.push(format!("  3. put the TLS certificate at {dir}/tls.pem and its key at {dir}/tls.key"));
        lines.push(format!("  4. list who is serviced in {dir}/participants.toml, name the CRLs in [trust]"));
    }
    lines.push(format!("then: oncepoint check --config {dir}/oncepoint.toml"));
    lines.push(format!("      oncepoint serve --config {dir}/oncepoint.toml"));
    lines
}
