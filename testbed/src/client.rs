//! A small HTTP/1.1 client over a socket, so that a test can do what a library would not let it: leave before
//! the answer, send a body of 1 GiB that was never in memory, look at the very bytes of an answer.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use openssl::x509::X509;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName},
};

use crate::{Fault, composer::Package, xml::Sink};

/// How long a socket may be silent.
const SILENCE: Duration = Duration::from_secs(120);
/// Longest head of an answer, in bytes.
const HEAD_BYTES_MAX: u64 = 64 * 1024;
/// Largest answer kept in memory, in bytes.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Where a server listens.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// Its address.
    pub address: SocketAddr,
    /// The path of messages; other requests name their own.
    pub path: String,
    tls: Option<Arc<ClientConfig>>,
}

impl Endpoint {
    /// Without TLS.
    #[must_use]
    pub fn plain(address: SocketAddr, path: &str) -> Self {
        Self { address, path: path.to_owned(), tls: None }
    }

    /// With TLS, trusting that anchor and no other.
    ///
    /// # Errors
    /// When the anchor is no certificate.
    pub fn tls(address: SocketAddr, path: &str, anchor: &X509) -> Result<Self, Fault> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(anchor.to_der()?))?;
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { address, path: path.to_owned(), tls: Some(Arc::new(config)) })
    }

    /// The URL of `path`.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{}", self.address, self.path)
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// When nobody listens.
    pub fn connect(&self) -> Result<Connection, Fault> {
        let socket = TcpStream::connect_timeout(&self.address, Duration::from_secs(10))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE))?;
        socket.set_write_timeout(Some(SILENCE))?;
        let stream = match &self.tls {
            None => Stream::Plain(socket),
            Some(config) => {
                let name = ServerName::IpAddress(self.address.ip().into());
                let session = ClientConnection::new(Arc::clone(config), name)?;
                Stream::Tls(Box::new(StreamOwned::new(session, socket)))
            }
        };
        Ok(Connection { stream: BufReader::with_capacity(64 * 1024, stream), host: self.address.to_string() })
    }

    /// One message over a connection of its own.
    ///
    /// # Errors
    /// When there is no whole answer.
    pub fn post(&self, package: &Package) -> Result<Answer, Fault> {
        self.connect()?.post(&self.path, package)
    }
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(session) => session.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(session) => session.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(session) => session.flush(),
        }
    }
}

/// An open connection; kept alive for further requests unless dropped.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<Stream>,
    host: String,
}

/// The body of a request.
pub enum Body<'a> {
    /// None.
    Empty,
    /// In memory, with its length.
    Bytes(&'a [u8]),
    /// In memory, sent in chunks of that many bytes.
    Chunked(&'a [u8], usize),
    /// Generated, with its length in bytes.
    Stream(u64, &'a mut dyn FnMut(&mut Sink<'_>) -> Result<(), Fault>),
}

impl std::fmt::Debug for Body<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Bytes(_) => "Bytes",
            Self::Chunked(..) => "Chunked",
            Self::Stream(..) => "Stream",
        })
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, transfer-decoded.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header of that (lower-case) name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether another answer is the same to a sender: status, Content-Type and body.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.status == other.status
            && self.body == other.body
            && self.header("content-type") == other.header("content-type")
    }
}

/// A header of a request.
pub type Header<'a> = (&'a str, &'a str);

impl Connection {
    /// Sends a message and reads the answer.
    ///
    /// # Errors
    /// When there is no whole answer.
    pub fn post(&mut self, path: &str, package: &Package) -> Result<Answer, Fault> {
        let headers = [("Content-Type", package.content_type.as_str())];
        self.request("POST", path, &headers, Body::Bytes(&package.body))
    }

    /// Sends a request and reads the answer.
    ///
    /// # Errors
    /// When there is no whole answer.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[Header<'_>],
        body: Body<'_>,
    ) -> Result<Answer, Fault> {
        // A server may answer, and close, before it took the whole body.
        let sent = self.send(method, path, headers, body);
        match (sent, self.receive()) {
            (_, Ok(answer)) => Ok(answer),
            (Err(first), Err(_)) => Err(first),
            (Ok(()), Err(error)) => Err(error),
        }
    }

    /// Sends a request and does not wait for the answer.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[Header<'_>],
        body: Body<'_>,
    ) -> Result<(), Fault> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.host);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match &body {
            Body::Empty if method == "GET" => {}
            Body::Empty => head.push_str("Content-Length: 0\r\n"),
            Body::Bytes(bytes) => head.push_str(&format!("Content-Length: {}\r\n", bytes.len())),
            Body::Stream(length, _) => head.push_str(&format!("Content-Length: {length}\r\n")),
            Body::Chunked(..) => head.push_str("Transfer-Encoding: chunked\r\n"),
        }
        head.push_str("\r\n");
        let out = self.stream.get_mut();
        match body {
            Body::Empty => out.write_all(head.as_bytes())?,
            Body::Bytes(bytes) => {
                let mut whole = head.into_bytes();
                whole.extend_from_slice(bytes);
                out.write_all(&whole)?;
            }
            Body::Chunked(bytes, size) => {
                out.write_all(head.as_bytes())?;
                for chunk in bytes.chunks(size.max(1)) {
                    write!(out, "{:x}\r\n", chunk.len())?;
                    out.write_all(chunk)?;
                    out.write_all(b"\r\n")?;
                }
                out.write_all(b"0\r\n\r\n")?;
            }
            Body::Stream(_, generate) => {
                out.write_all(head.as_bytes())?;
                generate(&mut |bytes| Ok(out.write_all(bytes)?))?;
            }
        }
        Ok(out.flush()?)
    }

    /// Reads an answer whole.
    ///
    /// # Errors
    /// When it ends early or is no HTTP.
    pub fn receive(&mut self) -> Result<Answer, Fault> {
        let mut body = Vec::new();
        let mut answer = self.receive_into(&mut |bytes| {
            if (body.len() + bytes.len()) as u64 > BODY_BYTES_MAX {
                return Err(Fault::setup("the answer is too large to be held"));
            }
            body.extend_from_slice(bytes);
            Ok(())
        })?;
        answer.body = body;
        Ok(answer)
    }

    /// Reads an answer, its body as a stream.
    ///
    /// # Errors
    /// When it ends early or is no HTTP, and those of the sink.
    pub fn receive_into(&mut self, sink: &mut Sink<'_>) -> Result<Answer, Fault> {
        let mut answer = self.head()?;
        while (100..200).contains(&answer.status) {
            answer = self.head()?;
        }
        if answer.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            self.chunks(sink)?;
        } else if let Some(length) = answer.header("content-length").and_then(|value| value.parse().ok()) {
            self.copy(length, sink)?;
        } else if !matches!(answer.status, 204 | 304) {
            self.copy_to_end(sink)?;
        }
        Ok(answer)
    }

    /// Closes the connection at once, whatever the server still has to say.
    ///
    /// # Errors
    /// When the socket is gone already.
    pub fn abort(self) -> Result<(), Fault> {
        let socket = match self.stream.get_ref() {
            Stream::Plain(socket) => socket,
            Stream::Tls(session) => session.get_ref(),
        };
        Ok(socket.shutdown(Shutdown::Both)?)
    }

    fn line(&mut self) -> Result<String, Fault> {
        let mut line = Vec::new();
        (&mut self.stream).take(HEAD_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned())
    }

    fn head(&mut self) -> Result<Answer, Fault> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| Fault::setup(format_args!("no status line: {line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(Answer { status, headers, body: Vec::new() });
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn chunks(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        loop {
            let line = self.line()?;
            let size = line.split(';').next().and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
            match size.ok_or_else(|| Fault::setup(format_args!("no chunk size: {line:?}")))? {
                0 => break,
                size => self.copy(size, sink)?,
            }
            self.line()?;
        }
        while !self.line()?.is_empty() {}
        Ok(())
    }

    fn copy(&mut self, mut left: u64, sink: &mut Sink<'_>) -> Result<(), Fault> {
        while left > 0 {
            let bytes = self.stream.fill_buf()?;
            if bytes.is_empty() {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let size = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            sink(bytes.get(..size).unwrap_or_default())?;
            self.stream.consume(size);
            left -= size as u64;
        }
        Ok(())
    }

    fn copy_to_end(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        loop {
            let bytes = self.stream.fill_buf()?;
            let size = bytes.len();
            if size == 0 {
                return Ok(());
            }
            sink(bytes)?;
            self.stream.consume(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    fn answered(with: &'static [u8]) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::plain(listener.local_addr().unwrap(), "/as4");
        thread::spawn(move || {
            let mut socket = listener.accept().unwrap().0;
            let mut request = [0; 4096];
            let _ = socket.read(&mut request).unwrap();
            socket.write_all(with).unwrap();
        });
        endpoint
    }

    fn body(with: &'static [u8]) -> Result<Answer, Fault> {
        answered(with).connect().unwrap().request("GET", "/", &[], Body::Empty)
    }

    #[test]
    fn answers_come_with_length_in_chunks_or_to_the_end() {
        for with in [
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloXX".as_slice(),
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nT: 1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\nhello",
        ] {
            assert_eq!(body(with).unwrap().body, b"hello");
        }
        assert!(body(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell").is_err());
        assert_eq!(
            body(b"HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n")
                .unwrap()
                .header("retry-after"),
            Some("2")
        );
    }
}
