//! The body of a request, read within limits of size and time.

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{HeaderMap, body::Incoming, header::CONTENT_LENGTH};
use tokio::time::{Sleep, sleep, timeout};

use super::pace::Phase;

/// What a body may cost.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// Most bytes on the wire, transfer coding taken off.
    pub bytes_max: u64,
    /// Longest silence between two pieces.
    pub idle: Duration,
    /// Longest time from head to last byte.
    pub total: Duration,
}

/// Why a body did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// More bytes than allowed, announced or sent.
    #[error("the message is longer than {0} bytes")]
    TooLarge(u64),
    /// Nothing came for as long as is allowed.
    #[error("the sender fell silent within the message")]
    Idle,
    /// It took longer than is allowed.
    #[error("the message took too long")]
    Slow,
    /// The connection ended, or the chunked coding is damaged.
    #[error("the connection ended within the message")]
    Broken,
}

/// A request body under limits.
#[derive(Debug)]
pub struct Upload {
    body: Incoming,
    limits: BodyLimits,
    taken: u64,
    deadline: Pin<Box<Sleep>>,
    ended: bool,
    phase: Option<Arc<Phase>>,
}

impl Upload {
    /// Begins to read; the clock of [`BodyLimits::total`] starts. Nothing is read yet, so a sender that
    /// waits for `100 Continue` has not been told to go on.
    ///
    /// # Errors
    /// [`BodyError::TooLarge`] at once when Content-Length says so.
    pub fn begin(request: hyper::Request<Incoming>, limits: BodyLimits) -> Result<Self, BodyError> {
        let announced = content_length(request.headers());
        let phase = request.extensions().get::<Arc<Phase>>().cloned();
        let deadline = Box::pin(sleep(limits.total));
        let upload = Self { body: request.into_body(), limits, taken: 0, deadline, ended: false, phase };
        match announced {
            Some(length) if length > limits.bytes_max => Err(BodyError::TooLarge(limits.bytes_max)),
            _ => Ok(upload),
        }
    }

    /// The next piece; none after the last. Trailers are ignored.
    ///
    /// # Errors
    /// When a limit is passed or the connection ended before the body did.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            let frame = tokio::select! {
                biased;
                frame = timeout(self.limits.idle, self.body.frame()) => frame.map_err(|_| BodyError::Idle)?,
                () = self.deadline.as_mut() => return Err(BodyError::Slow),
            };
            let Some(frame) = frame else {
                self.ended = true;
                return Ok(None);
            };
            let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
            self.taken = self.taken.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
            if self.taken > self.limits.bytes_max {
                return Err(BodyError::TooLarge(self.limits.bytes_max));
            }
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
    }

    /// Reads the rest and throws it away.
    ///
    /// # Errors
    /// As [`Upload::chunk`].
    pub async fn drain(&mut self) -> Result<(), BodyError> {
        while self.chunk().await?.is_some() {}
        Ok(())
    }

    /// Bytes taken so far.
    #[must_use]
    pub const fn taken(&self) -> u64 {
        self.taken
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(phase) = self.phase.as_ref().filter(|_| !self.ended) {
            phase.left_unread();
        }
    }
}

/// What Content-Length says, when it says something readable.
#[must_use]
pub fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}
