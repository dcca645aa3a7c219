//! C programs over libxml2 that tests ask for a verdict, behind a pipe.

use std::ffi::OsStr;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running judge.
pub(crate) struct Judge {
    child: Child,
    to: BufWriter<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Judge {
    /// Compiles `tests/oracle/<program>.c` and starts it; `None`, with a line that says why, where there is no C
    /// compiler or no libxml2 for development. With `ONCEPOINT_REQUIRE_SHARED=1` that is a failure.
    pub(crate) fn start(program: &str, argument: Option<&Path>) -> Option<Self> {
        match build(program) {
            Ok(path) => Some(Self::run(&path, argument)),
            Err(reason) => {
                let required = std::env::var("ONCEPOINT_REQUIRE_SHARED").is_ok_and(|value| value == "1");
                assert!(!required, "{reason}");
                println!("skipped: {reason}");
                None
            }
        }
    }

    fn run(path: &Path, argument: Option<&Path>) -> Self {
        let mut child = Command::new(path)
            .args(argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the judge starts");
        // The running program needs its file no longer.
        let _ = std::fs::remove_file(path);
        let to = BufWriter::new(child.stdin.take().expect("stdin"));
        let from = BufReader::new(child.stdout.take().expect("stdout"));
        Self { child, to, from }
    }

    /// Writes a number of 32 bits.
    pub(crate) fn number(&mut self, number: usize) {
        let number = u32::try_from(number).expect("32 bits");
        self.to.write_all(&number.to_be_bytes()).expect("the judge listens");
    }

    /// Writes bytes after their length.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.to.write_all(bytes).expect("the judge listens");
    }

    /// Sends what was written.
    pub(crate) fn flush(&mut self) {
        self.to.flush().expect("the judge listens");
    }

    /// Reads bytes.
    pub(crate) fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.from.read_exact(&mut bytes).expect("the judge answers");
        bytes
    }

    /// Reads one byte.
    pub(crate) fn byte(&mut self) -> u8 {
        self.read(1)[0]
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn build(program: &str) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle").join(program).with_extension("c");
    // Tests run side by side: each builds its own.
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{program}-{}-{thread}", std::process::id()));
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "libxml-2.0"])
        .output()
        .map_err(|error| format!("pkg-config: {error}"))?;
    if !flags.status.success() {
        return Err("libxml2 is not installed for development".to_owned());
    }
    let flags = String::from_utf8(flags.stdout).expect("flags are text");
    let arguments: Vec<&OsStr> = ["-O2", "-Wall", "-Wextra", "-o"]
        .map(OsStr::new)
        .into_iter()
        .chain([path.as_os_str(), source.as_os_str()])
        .chain(flags.split_whitespace().map(OsStr::new))
        .collect();
    let compiled = Command::new("cc").args(arguments).status().map_err(|error| format!("cc: {error}"))?;
    if compiled.success() { Ok(path) } else { Err(format!("cc could not compile {}", source.display())) }
}
