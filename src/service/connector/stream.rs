//! A body that a blocking reader fills: documents go out in pieces, whatever their size.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use hyper::body::Frame;
use tokio::sync::mpsc;

use crate::wire::sbdh::SbdError;

/// Bytes of a piece.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// Pieces between the reader and a slow client.
const PIECES_MAX: usize = 4;

/// Why the reader stops.
#[derive(Debug)]
pub(super) enum Stop {
    /// The client is gone.
    Gone,
    /// The stored bytes cannot be read on.
    Broken,
}

impl From<SbdError> for Stop {
    fn from(error: SbdError) -> Self {
        tracing::error!(%error, "a stored envelope does not read as it did when it was accepted");
        Self::Broken
    }
}

/// Takes the pieces of a body.
pub(super) struct Pieces(mpsc::Sender<Bytes>);

impl Pieces {
    /// Hands a piece on; waits while the client is slow.
    pub(super) fn put(&self, piece: &[u8]) -> Result<(), Stop> {
        if piece.is_empty() {
            return Ok(());
        }
        self.0.blocking_send(Bytes::copy_from_slice(piece)).map_err(|_| Stop::Gone)
    }
}

struct Received(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Received {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A body that `fill` writes on a thread for blocking work. When `fill` fails half-way the body ends early,
/// and the client sees fewer bytes than Content-Length said.
pub(super) fn filled_by(fill: impl FnOnce(&Pieces) + Send + 'static) -> Body {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    tokio::task::spawn_blocking(move || fill(&Pieces(sender)));
    Body::new(Received(receiver))
}
