//! An HTTP/1.1 server loop with limits. Knows no AS4: what a request means is the service's business.
//!
//! Guarantees: never more than `connections_max` connections at once (then accepting waits, the backlog of
//! the kernel fills and nobody is turned away with half an answer); a head comes within `header_timeout`;
//! a peer that does not read its answer is let go; after [`Stop`] no connection is taken, idle ones are
//! closed, those with a request in flight are finished, and what is left after `grace` is cut.

use std::{convert::Infallible, io, net::SocketAddr, pin::Pin, sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use hyper::{
    Request, Response,
    body::{Body, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::{
    pace::{Paced, Paces, Phase},
    tls::ServerTls,
};

/// The limits of a listener.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Longest time for the TLS handshake, and from the first byte of a head to its end.
    pub header_timeout: Duration,
    /// Longest time between an answer and the next request on one connection.
    pub keep_alive_idle: Duration,
    /// Longest time without progress while an answer is written.
    pub write_idle: Duration,
    /// How long a connection that is closed with an unread body is read on, so that the answer arrives.
    pub linger: Duration,
    /// Most bytes of a request head, request line included; beyond it 431.
    pub header_bytes_max: usize,
    /// Most connections at once.
    pub connections_max: usize,
}

/// The smallest buffer the HTTP parser works with, in bytes.
const HEADER_BYTES_MIN: usize = 8192;

/// Wait after a failed accept: the usual cause is that no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            keep_alive_idle: Duration::from_secs(60),
            write_idle: Duration::from_secs(20),
            linger: Duration::from_secs(2),
            header_bytes_max: 32 * 1024,
            connections_max: 1000,
        }
    }
}

/// Tells everything that serves to come to an end. Clones share one signal.
#[derive(Debug, Clone)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Stop {
    /// Gives the signal; for good.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Whether the signal was given.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.0.borrow()
    }

    /// For those who wait along with something else.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }

    /// Returns once the signal was given.
    pub async fn stopping(&self) {
        // The sender lives as long as self, so waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|stopping| *stopping).await;
    }
}

/// The address the connection came from, as an extension of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Serves a listener until `stop`, then for at most `grace` what is in flight. Returns the number of
/// connections that had to be cut.
pub async fn serve<S, B>(
    listener: TcpListener,
    tls: Option<ServerTls>,
    limits: ServerLimits,
    service: S,
    stop: Stop,
    grace: Duration,
) -> usize
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let acceptor = tls.map(|tls| TlsAcceptor::from(tls.config()));
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.stopping() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = accept(&listener, &places) => accepted,
        };
        match accepted {
            Ok((stream, peer, place)) => {
                let (acceptor, service, stop) = (acceptor.clone(), service.clone(), stop.clone());
                connections.spawn(async move {
                    connection(stream, peer, acceptor, limits, service, stop).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let finished = timeout(grace, async { while connections.join_next().await.is_some() {} }).await;
    let cut = if finished.is_ok() { 0 } else { connections.len() };
    connections.shutdown().await;
    cut
}

/// Waits for a place first, so that a full server leaves newcomers in the kernel's queue.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, place))
}

async fn connection<S, B>(
    stream: TcpStream,
    peer: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    limits: ServerLimits,
    service: S,
    stop: Stop,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + Sync + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // Answers are small and written at once; Nagle would only delay them.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = acceptor else {
        return exchange(stream, peer, limits, service, stop).await;
    };
    let handshake = timeout(limits.header_timeout, acceptor.accept(stream));
    let handshake = tokio::select! {
        () = stop.stopping() => return,
        handshake = handshake => handshake,
    };
    match handshake {
        Ok(Ok(stream)) => exchange(stream, peer, limits, service, stop).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
    }
}

/// Requests and answers of one connection, one after the other.
async fn exchange<I, S, B>(stream: I, peer: SocketAddr, limits: ServerLimits, service: S, stop: Stop)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + Sync + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let phase = Arc::new(Phase::default());
    let paces = Paces {
        head: limits.header_timeout,
        idle: limits.keep_alive_idle,
        write: limits.write_idle,
        linger: limits.linger,
    };
    let io = TokioIo::new(Paced::new(stream, paces, Arc::clone(&phase)));
    let service = service_fn(|mut request: Request<Incoming>| {
        phase.busy();
        request.extensions_mut().insert(Peer(peer));
        request.extensions_mut().insert(Arc::clone(&phase));
        let (answer, phase) = (service.call(request), Arc::clone(&phase));
        async move { answer.await.map(|answer| answer.map(|body| Watched { body, phase })) }
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .max_header_size(limits.header_bytes_max)
        .max_buf_size(limits.header_bytes_max.max(HEADER_BYTES_MIN))
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.stopping() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection ended early");
    }
}

/// An answer's body; when it is gone the connection waits for its next request.
struct Watched<B> {
    body: B,
    phase: Arc<Phase>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Watched<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Watched<B> {
    fn drop(&mut self) {
        self.phase.idle();
    }
}
