//! What the crash campaign of `../shared/crash` needs: a site on disk and a store of composed messages that
//! its Python adapter can read (`testbed/crash/adapter.py`).

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::{
    Fault,
    composer::Draft,
    load::compose,
    pki::{Credentials, Pki},
    product::{Site, Transport},
    scene::{RECEIVER, SENDER},
};

/// Messages composed at a time, so that memory stays bounded.
const BATCH: usize = 1000;
/// Each so-many-th message has a document that is stored as a file of its own.
const LARGE_EVERY: usize = 40;
/// The size of such a document, in bytes.
const LARGE_BYTES: u64 = 1_500_000;

/// Writes a site into `folder`: `oncepoint.toml`, `pki/`, and the sender's `pki/sender.pem` and `.key`. The
/// journal segments are small, so that crashes meet their ends; nothing waits for windows.
///
/// # Errors
/// When it cannot be written.
pub fn site(folder: &Path) -> Result<Site, Fault> {
    let pki = Pki::new()?;
    let receiver = pki.access_point(RECEIVER)?;
    let site = Site::new(folder, &pki, &receiver, Transport::Plain, &[("store", "segment = \"256KiB\"")])?;
    pki.access_point(SENDER)?.write(&folder.join("pki"), "sender")?;
    receiver.write(&folder.join("pki"), "receiver")?;
    Ok(site)
}

/// Composes `count` messages from the sender of a site into `out`: all bodies in `messages.bin`, and in
/// `messages.tsv` a line each with MessageId, Content-Type, offset, length and the SHA-256 of the SBD.
///
/// # Errors
/// When the site is none or `out` cannot be written.
pub fn pool(site: &Path, count: usize, bytes: u64, out: &Path) -> Result<(), Fault> {
    let keys = site.join("pki");
    let sender = Credentials::read(&keys.join("sender.pem"), &keys.join("sender.key"))?;
    let receiver = Credentials::read(&keys.join("receiver.pem"), &keys.join("receiver.key"))?;
    fs::create_dir_all(out)?;
    let mut bodies = BufWriter::new(File::create(out.join("messages.bin"))?);
    let mut index = BufWriter::new(File::create(out.join("messages.tsv"))?);
    let (mut offset, mut left) = (0, count);
    let turn = AtomicUsize::new(1);
    let make = || {
        let large = turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(LARGE_EVERY);
        let bytes = if large { LARGE_BYTES } else { bytes };
        Draft::invoice(&sender, &receiver.certificate, bytes).compose()
    };
    while left > 0 {
        let batch = left.min(BATCH);
        left -= batch;
        for package in compose(batch, &make)? {
            bodies.write_all(&package.body)?;
            writeln!(
                index,
                "{}\t{}\t{offset}\t{}\t{}",
                package.claim.message_id,
                package.content_type,
                package.body.len(),
                package.claim.sbd_sha256
            )?;
            offset += package.body.len();
        }
    }
    bodies.flush()?;
    index.flush()?;
    Ok(())
}

/// What a crash is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// SIGKILL: what the kernel has, stays.
    Kill,
    /// A power cut that forgets every directory entry not synced, as POSIX allows.
    PowerStrict,
    /// A power cut as ext4 and XFS show it.
    PowerLenient,
}

impl Crash {
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Kill => &["--crash", "kill"],
            Self::PowerStrict => &["--crash", "power", "--pf-dirs", "strict"],
            Self::PowerLenient => &["--crash", "power", "--pf-dirs", "lenient"],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::PowerStrict => "power-strict",
            Self::PowerLenient => "power-lenient",
        }
    }
}

/// Runs `../shared/crash/campaign.py` against the product: so many cycles, a seed, the testbed binary that
/// composes. Its report stays in `target/testbed`, what it saw of a bad cycle too.
///
/// # Errors
/// [`Fault::Broken`] when it found a violation, [`Fault::Setup`] when it proves nothing.
pub fn crash(shared: &Path, testbed: &Path, crash: Crash, cycles: u32, seed: u32) -> Result<String, Fault> {
    let folder = crate::scene::scratch(&format!("crash-{}", crash.name()))?;
    let site = site(&folder.path().join("site"))?;
    let kept = crate::scene::output()?;
    let report = kept.join(format!("crash-{}.json", crash.name()));
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("crash/adapter.py");
    let command = format!(
        "env ONCEPOINT_NODE__DATA_DIR={{data}} ONCEPOINT_AS4__LISTEN=127.0.0.1:{{port}} \
         ONCEPOINT_CONNECTOR__LISTEN=127.0.0.1:{{port2}} {} serve --config {}",
        crate::product::binary()?.display(),
        site.config().display()
    );
    let done = std::process::Command::new("python3")
        .arg(shared.join("crash/campaign.py"))
        .args(["--cmd", &command, "--exe", "oncepoint", "--send", "/as4"])
        .args(["--ready", "http://127.0.0.1:{port2}/health/ready"])
        .arg("--source")
        .arg(format!("{}:Source", adapter.display()))
        .arg("--backend")
        .arg(format!("{}:Backend", adapter.display()))
        .args(crash.arguments())
        .args(["--stuck", "fail", "--max-seconds", "3000"])
        .args(["--cycles", &cycles.to_string(), "--seed", &seed.to_string()])
        .arg("--work")
        .arg(kept.join(format!("crash-{}-work", crash.name())))
        .arg("--report")
        .arg(&report)
        .env("ONCEPOINT_CRASH_SITE", site.folder())
        .env("ONCEPOINT_CRASH_TESTBED", testbed)
        .env("ONCEPOINT_CRASH_BATCH", cycles.saturating_mul(300).min(6000).to_string())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()?;
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    match done.status.code() {
        Some(0) => Ok(said),
        Some(1) => Err(Fault::broken(format_args!("{said}\nsee {}", report.display()))),
        _ => Err(Fault::setup(format_args!("the campaign proves nothing: {said}"))),
    }
}
