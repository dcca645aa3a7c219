//! The real `oncepoint` binary under test: found or built, configured, started, killed, started again.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{OnceLock, mpsc},
    thread,
    time::{Duration, SystemTime},
};

use openssl::x509::X509;

use crate::{
    Fault,
    client::Endpoint,
    connector::Connector,
    pki::{Credentials, Pki},
    process,
    sbd::Random,
};

/// How long a start may take: recovery of a large journal on a busy machine.
const START: Duration = Duration::from_secs(60);
/// How long a drain may take.
const STOP: Duration = Duration::from_secs(60);

/// The checkout that this testbed belongs to.
#[must_use]
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// The binary under test: `ONCEPOINT_BIN`, else the one beside this program, built when it is missing or older
/// than its source.
///
/// # Errors
/// When it cannot be built.
pub fn binary() -> Result<&'static Path, Fault> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let found = BINARY.get_or_init(|| locate().map_err(|fault| fault.to_string()));
    found.as_deref().map_err(Fault::setup)
}

fn locate() -> Result<PathBuf, Fault> {
    if let Some(path) = env::var_os("ONCEPOINT_BIN") {
        let path = PathBuf::from(path);
        return fs::canonicalize(&path)
            .map_err(|error| Fault::setup(format_args!("{}: {error}", path.display())));
    }
    let own = env::current_exe()?;
    let folder = own.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let folder = folder.ok_or_else(|| Fault::setup("this program is nowhere"))?;
    let binary = folder.join("oncepoint");
    if modified(&binary).is_none_or(|built| newest_source().is_some_and(|source| source > built)) {
        build(folder)?;
    }
    if binary.is_file() {
        Ok(binary)
    } else {
        Err(Fault::setup(format_args!("{} is not there", binary.display())))
    }
}

fn build(folder: &Path) -> Result<(), Fault> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(checkout()).args([
        "build",
        "--quiet",
        "--package",
        "oncepoint",
        "--bin",
        "oncepoint",
    ]);
    if folder.ends_with("release") {
        command.arg("--release");
    }
    if let Some(target) = folder.parent() {
        command.arg("--target-dir").arg(target);
    }
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(Fault::setup("cargo could not build oncepoint")) }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|meta| meta.modified()).ok()
}

/// When the newest source file of the product was changed.
fn newest_source() -> Option<SystemTime> {
    let root = checkout();
    let mut folders = vec![root.join("src"), root.join("pmodes")];
    let mut newest =
        [root.join("Cargo.toml"), root.join("Cargo.lock")].iter().filter_map(|p| modified(p)).max();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                newest = newest.max(modified(&entry.path()));
            }
        }
    }
    newest
}

/// A port that nobody listens on, below the range that outgoing connections use, so that it stays free while
/// the server is down.
///
/// # Errors
/// When a thousand tries were not enough.
pub fn free_port() -> Result<u16, Fault> {
    let mut random = Random::new(&uuid::Uuid::new_v4().to_string());
    for _ in 0..1000 {
        let port = u16::try_from(10_000 + random.number() % 22_000).unwrap_or_default();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Fault::setup("no free port"))
}

/// Whether the AS4 endpoint speaks TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Plain HTTP on loopback.
    Plain,
    /// TLS with a certificate of the throw-away PKI.
    Tls,
}

/// Whom a site trusts and what it is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its chain, leaf first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Root certificates.
    pub roots: Vec<PathBuf>,
    /// CAs whose leaves may act as access points.
    pub access_point_cas: Vec<PathBuf>,
    /// Revocation lists; none: revocation is off.
    pub crls: Vec<PathBuf>,
}

/// A folder with a configuration that the product can be started from, again and again, on the same ports.
#[derive(Debug, Clone)]
pub struct Site {
    folder: PathBuf,
    as4: Endpoint,
    connector: SocketAddr,
}

impl Site {
    /// Writes the configuration of a site of that PKI: it is `seat`, everyone is serviced, revocation is hard.
    /// `settings` are further lines, each under the name of its section, such as `("store", "segment = \"64KiB\"")`.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn new(
        folder: &Path,
        pki: &Pki,
        own: &Credentials,
        transport: Transport,
        settings: &[(&str, &str)],
    ) -> Result<Self, Fault> {
        let keys = folder.join("pki");
        pki.write(&keys)?;
        fs::write(keys.join("ap.pem"), own.chain_pem(&[pki.access_point_ca()])?)?;
        fs::write(keys.join("ap.key"), own.key_pem()?)?;
        let identity = Identity {
            certificate: keys.join("ap.pem"),
            key: keys.join("ap.key"),
            roots: vec![keys.join("root.pem")],
            access_point_cas: vec![keys.join("apca.pem")],
            crls: vec![keys.join("apca.crl.pem"), keys.join("root.crl.pem")],
        };
        let anchor = match transport {
            Transport::Plain => None,
            Transport::Tls => {
                pki.tls()?.write(&keys, "tls")?;
                Some(pki.tls_anchor())
            }
        };
        Self::with_identity(folder, &identity, anchor, settings)
    }

    /// Writes the configuration of a site with keys that exist already; with a TLS anchor `pki/tls.pem` and
    /// `pki/tls.key` must be there.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn with_identity(
        folder: &Path,
        identity: &Identity,
        tls: Option<&X509>,
        settings: &[(&str, &str)],
    ) -> Result<Self, Fault> {
        fs::create_dir_all(folder)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let connector = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let as4 = match tls {
            None => Endpoint::plain(address, "/as4"),
            Some(anchor) => Endpoint::tls(address, "/as4", anchor)?,
        };
        let more = |section: &str| -> String {
            settings
                .iter()
                .filter(|(name, _)| *name == section)
                .map(|(_, line)| format!("{line}\n"))
                .collect()
        };
        let tls =
            tls.map_or(String::new(), |_| "tls = { cert = \"pki/tls.pem\", key = \"pki/tls.key\" }\n".into());
        let revocation = if identity.crls.is_empty() { "off" } else { "hard" };
        let config = format!(
            "[node]\nstage = \"local\"\ndata_dir = \"data\"\n{}\
             [as4]\nlisten = \"{address}\"\n{tls}{}\
             [connector]\nlisten = \"{connector}\"\n{}\
             [identity]\ncert = {:?}\nkey = {:?}\n{}\
             [trust]\nroots = {:?}\nap_ca = {:?}\ncrls = {:?}\nrevocation = \"{revocation}\"\n{}\
             [pmodes]\ndir = {:?}\n\
             [participants]\nany = true\n{}\
             [dedup]\n{}\
             [store]\nreserve = \"64MiB\"\n{}",
            more("node"),
            more("as4"),
            more("connector"),
            identity.certificate,
            identity.key,
            more("identity"),
            identity.roots,
            identity.access_point_cas,
            identity.crls,
            more("trust"),
            checkout().join("pmodes"),
            more("participants"),
            more("dedup"),
            more("store"),
        );
        fs::write(folder.join("oncepoint.toml"), config)?;
        Ok(Self { folder: folder.to_owned(), as4, connector })
    }

    /// The folder of the configuration.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.folder.join("oncepoint.toml")
    }

    /// The AS4 endpoint.
    #[must_use]
    pub fn as4(&self) -> &Endpoint {
        &self.as4
    }

    /// The connector API.
    #[must_use]
    pub fn connector(&self) -> Connector {
        Connector::new(Endpoint::plain(self.connector, "/v1"))
    }

    /// Starts the binary and waits until it says `ready`.
    ///
    /// # Errors
    /// When it ends or is silent instead; the end of its log is in the message.
    pub fn start(&self) -> Result<Product, Fault> {
        let log = fs::File::options().create(true).append(true).open(self.log())?;
        let mut child = Command::new(binary()?)
            .current_dir(&self.folder)
            .args(["serve", "--config"])
            .arg(self.config())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let output = child.stdout.take().ok_or_else(|| Fault::setup("no pipe"))?;
        let (keep, lines) = mpsc::channel();
        thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).for_each(|line| drop(keep.send(line)));
        });
        let product = Product { child, site: self.clone() };
        loop {
            match lines.recv_timeout(START) {
                Ok(line) if line.trim() == "ready" => return Ok(product),
                Ok(_) => {}
                Err(_) => {
                    return Err(Fault::setup(format_args!(
                        "oncepoint did not get ready: {}",
                        self.log_tail()
                    )));
                }
            }
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The end of what it wrote to standard error, over all starts.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(12).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

/// A running server, killed when dropped.
#[derive(Debug)]
pub struct Product {
    child: Child,
    site: Site,
}

impl Product {
    /// Where it runs.
    #[must_use]
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it used so far.
    ///
    /// # Errors
    /// When it has ended.
    pub fn usage(&self) -> Result<process::Usage, Fault> {
        process::usage(self.pid())
    }

    /// Kills it at once (SIGKILL).
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill(mut self) -> Result<(), Fault> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to drain (SIGTERM) and waits for its end.
    ///
    /// # Errors
    /// When it does not end in time.
    pub fn stop(mut self) -> Result<ExitStatus, Fault> {
        let asked = Command::new("kill").arg("-TERM").arg(self.pid().to_string()).status()?;
        if !asked.success() {
            return Err(Fault::setup("kill -TERM did not succeed"));
        }
        let mut status = None;
        process::wait_until(STOP, || {
            status = self.child.try_wait()?;
            Ok(status.is_some())
        })?;
        status.ok_or_else(|| Fault::broken("SIGTERM was not followed by an end within a minute"))
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
