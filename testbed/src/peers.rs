//! The independent implementations beside the checkout (`../shared/peers`): where they are, how to call them.
//!
//! Without that folder the tests that need it print a line and pass; with `ONCEPOINT_REQUIRE_SHARED=1` its
//! absence is a failure.

use std::{
    env,
    ffi::OsStr,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
};

use serde_json::Value;

use crate::Fault;

/// The folder of test material beside the checkout, or nothing when it may be missing and is.
///
/// # Errors
/// When it is missing and `ONCEPOINT_REQUIRE_SHARED=1` demands it.
pub fn shared() -> Result<Option<PathBuf>, Fault> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared"));
    match folder.canonicalize() {
        Ok(folder) => Ok(Some(folder)),
        Err(_) => missing(&format!("{} is not there", folder.display())),
    }
}

/// Nothing, or a failure when test material is demanded.
fn missing<T>(what: &str) -> Result<Option<T>, Fault> {
    if env::var_os("ONCEPOINT_REQUIRE_SHARED").is_some_and(|value| value == "1") {
        return Err(Fault::setup(format_args!("{what}, and ONCEPOINT_REQUIRE_SHARED=1 demands it")));
    }
    Ok(None)
}

/// The Python peers, set up.
#[derive(Debug, Clone)]
pub struct Peers {
    folder: PathBuf,
    home: PathBuf,
    /// The folder with the keys they play with.
    pub pki: Option<PathBuf>,
}

/// What a command found out.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Its exit status.
    pub status: Option<i32>,
    /// The JSON on its last line.
    pub json: Value,
    /// All that it printed.
    pub output: String,
}

impl Verdict {
    /// Whether the command said yes.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        self.status == Some(0)
    }
}

impl Peers {
    /// Sets the Python peers up, once; nothing when they may be missing and are.
    ///
    /// # Errors
    /// When they are demanded and cannot be set up.
    pub fn find() -> Result<Option<Self>, Fault> {
        let Some(shared) = shared()? else { return Ok(None) };
        let folder = shared.join("peers");
        let home = env::var_os("PEERS_HOME").map_or_else(
            || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache/oncepoint-peers"),
            PathBuf::from,
        );
        let done = Command::new(folder.join("setup.sh")).stdout(Stdio::null()).stderr(Stdio::null()).status();
        match done {
            Ok(status) if status.success() => Ok(Some(Self { folder, home, pki: None })),
            _ => missing("peers/setup.sh did not succeed"),
        }
    }

    /// With the keys of that folder instead of those of the vectors.
    #[must_use]
    pub fn with_pki(mut self, folder: &Path) -> Self {
        self.pki = Some(folder.to_owned());
        self
    }

    fn prepared(&self, program: PathBuf) -> Command {
        let mut command = Command::new(program);
        if let Some(pki) = &self.pki {
            command.env("PEER_PKI", pki);
        }
        command
    }

    /// A script that runs with the environment of `PyPI` `as4`.
    #[must_use]
    pub fn as4(&self, script: &str) -> Command {
        let mut command = self.prepared(self.home.join("as4/bin/python"));
        command.arg(self.folder.join(script));
        command
    }

    /// The driver of `PyPI` `peppol-py`.
    #[must_use]
    pub fn peppol_py(&self) -> Command {
        let mut command = self.prepared(self.home.join("peppol-py/bin/python"));
        command.arg(self.folder.join("peppol_py_peer.py"));
        command
    }

    /// The driver of phase4.
    #[must_use]
    pub fn phase4(&self) -> Command {
        self.prepared(self.folder.join("phase4/phase4.sh"))
    }

    /// The independent verifier over a stored message or answer.
    ///
    /// # Errors
    /// When it cannot be started or says nothing.
    pub fn verify<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<Verdict, Fault> {
        verdict(self.as4("refverify.py").args(arguments))
    }
}

/// Runs a command of the peers to its end.
///
/// # Errors
/// When it cannot be started or its last line is no JSON.
pub fn verdict(command: &mut Command) -> Result<Verdict, Fault> {
    let done = command.stdin(Stdio::null()).output()?;
    let output = String::from_utf8_lossy(&done.stdout).into_owned();
    let json = output.lines().last().and_then(|line| serde_json::from_str(line).ok()).ok_or_else(|| {
        Fault::setup(format_args!("{command:?} said nothing: {}", String::from_utf8_lossy(&done.stderr)))
    })?;
    Ok(Verdict { status: done.status.code(), json, output })
}

/// A server of the peers, ready when `start` returns and killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens on 127.0.0.1.
    pub port: u16,
    /// What it prints, a line each.
    pub lines: mpsc::Receiver<String>,
}

impl Server {
    /// Starts it and waits for its first line.
    ///
    /// # Errors
    /// When it does not say where it listens.
    pub fn start(command: &mut Command) -> Result<Self, Fault> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or_else(|| Fault::setup("no pipe"))?;
        let mut output = BufReader::new(output).lines().map_while(Result::ok);
        let first = output.next().unwrap_or_default();
        let port = first.strip_prefix("listening on 127.0.0.1:").and_then(|port| port.parse().ok());
        let Some(port) = port else {
            child.kill()?;
            child.wait()?;
            return Err(Fault::setup(format_args!("{command:?} began with {first:?}")));
        };
        let (keep, lines) = mpsc::channel();
        thread::spawn(move || output.for_each(|line| drop(keep.send(line))));
        Ok(Self { child, port, lines })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Stores a message the way the peers read it: `BASE.mime` and `BASE.headers`.
///
/// # Errors
/// When it cannot be written.
pub fn store(base: &Path, content_type: &str, body: &[u8]) -> Result<(), Fault> {
    std::fs::write(base.with_extension("mime"), body)?;
    std::fs::write(base.with_extension("headers"), format!("Content-Type: {content_type}\n"))?;
    Ok(())
}
