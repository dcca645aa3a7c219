//! A client that writes exactly what a test says, byte by byte, and reads one answer after the other.

use std::{net::SocketAddr, sync::Arc};

use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// An HTTP answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// One connection.
pub(crate) struct Client<S> {
    stream: S,
    read: Vec<u8>,
}

pub(crate) async fn connect(to: SocketAddr) -> Client<TcpStream> {
    let stream = TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    Client { stream, read: vec![] }
}

/// Connects with TLS of one version, trusting one certificate.
pub(crate) async fn connect_tls(
    to: SocketAddr,
    trusted: &openssl::x509::X509,
    version: &'static rustls::SupportedProtocolVersion,
) -> Client<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.to_der().unwrap().into()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(to).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    Client { stream, read: vec![] }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Writes bytes as they are. Whether the server still listens is for the answer to show.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
        let _ = self.stream.flush().await;
    }

    /// The next answer; none when the connection ends before one began.
    pub(crate) async fn reply(&mut self) -> Option<Reply> {
        let head = loop {
            if let Some(end) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                let rest = self.read.split_off(end + 4);
                break std::mem::replace(&mut self.read, rest);
            }
            if !self.more().await {
                return None;
            }
        };
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut reply = Reply { status, headers, body: vec![] };
        if status == 100 {
            return Some(reply);
        }
        if reply.header("transfer-encoding") == Some("chunked") {
            reply.body = self.chunked().await;
        } else {
            let length: usize = reply.header("content-length").map_or(0, |length| length.parse().unwrap());
            reply.body = self.exactly(length).await;
        }
        Some(reply)
    }

    /// Whether the server has closed the connection, without another answer.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.read.is_empty() && !self.more().await
    }

    async fn more(&mut self) -> bool {
        let mut buffer = [0; 8192];
        match self.stream.read(&mut buffer).await {
            Ok(0) | Err(_) => false,
            Ok(read) => {
                self.read.extend_from_slice(&buffer[..read]);
                true
            }
        }
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.read.len() < length {
            assert!(self.more().await, "the answer is cut off");
        }
        let rest = self.read.split_off(length);
        std::mem::replace(&mut self.read, rest)
    }

    async fn chunked(&mut self) -> Vec<u8> {
        let mut body = vec![];
        loop {
            let end = loop {
                if let Some(end) = self.read.windows(2).position(|window| window == b"\r\n") {
                    break end;
                }
                assert!(self.more().await, "the answer is cut off");
            };
            let line = self.exactly(end + 2).await;
            let length = usize::from_str_radix(std::str::from_utf8(&line[..end]).unwrap(), 16).unwrap();
            body.extend(self.exactly(length).await);
            self.exactly(2).await;
            if length == 0 {
                return body;
            }
        }
    }
}

/// The head of a POST with these header lines.
pub(crate) fn post(path: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head
}

/// A whole POST with a body of known length.
pub(crate) fn post_body(path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let length = body.len().to_string();
    let headers: Vec<_> = headers.iter().copied().chain([("Content-Length", length.as_str())]).collect();
    let mut request = post(path, &headers).into_bytes();
    request.extend_from_slice(body);
    request
}

/// One request on a connection of its own.
pub(crate) async fn ask(to: SocketAddr, request: impl AsRef<[u8]>) -> Reply {
    let mut client = connect(to).await;
    client.send(request).await;
    client.reply().await.unwrap()
}

/// A GET on a connection of its own.
pub(crate) async fn get(to: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Reply {
    let head = post(path, headers).replacen("POST", "GET", 1);
    ask(to, head).await
}
