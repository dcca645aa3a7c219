//! A connection with a sense of time: how long it may be idle, how long a head may take, how long the
//! peer may leave an answer unread. hyper has one timer for heads; a slow sender has more ways.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// The deadlines of one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paces {
    /// From the first byte of a head to its end.
    pub(super) head: Duration,
    /// Between an answer and the next request.
    pub(super) idle: Duration,
    /// How long a write may make no progress.
    pub(super) write: Duration,
    /// How long a closing connection waits for a peer that is still sending.
    pub(super) linger: Duration,
}

/// Most bytes that are read and thrown away on a closing connection.
const LINGER_BYTES_MAX: usize = 8 * 1024 * 1024;

const IDLE: u8 = 0;
const HEAD: u8 = 1;
const BUSY: u8 = 2;

/// What the connection is at; shared between its bytes and its requests.
#[derive(Debug, Default)]
pub(super) struct Phase {
    at: AtomicU8,
    unread: AtomicBool,
    /// Who reads, to be woken when the deadline becomes another one.
    reader: Mutex<Option<Waker>>,
}

impl Phase {
    /// The head is complete: bodies have deadlines of their own.
    pub(super) fn busy(&self) {
        self.at.store(BUSY, Ordering::Release);
    }

    /// The answer is written.
    pub(super) fn idle(&self) {
        self.at.store(IDLE, Ordering::Release);
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        reader.into_iter().for_each(Waker::wake);
    }

    /// Whoever reads while a request is worked on has no deadline until [`Self::idle`].
    fn wake_when_idle(&self, cx: &Context<'_>) {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        *reader = Some(cx.waker().clone());
    }

    /// A request was answered before its body was read: closing at once would destroy the answer.
    pub(super) fn left_unread(&self) {
        self.unread.store(true, Ordering::Release);
    }
}

/// A byte stream under deadlines.
#[derive(Debug)]
pub(super) struct Paced<I> {
    inner: I,
    paces: Paces,
    phase: Arc<Phase>,
    seen: u8,
    reading: Pin<Box<Sleep>>,
    writing: Option<Pin<Box<Sleep>>>,
    closing: Option<Closing>,
}

#[derive(Debug)]
struct Closing {
    until: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl<I> Paced<I> {
    pub(super) fn new(inner: I, paces: Paces, phase: Arc<Phase>) -> Self {
        // A new connection has to bring its first head within the head's time.
        phase.at.store(HEAD, Ordering::Release);
        let reading = Box::pin(sleep(paces.head));
        Self { inner, paces, phase, seen: HEAD, reading, writing: None, closing: None }
    }

    /// Sets the read timer when the phase is another one than at the last look.
    fn follow_phase(&mut self) -> u8 {
        let at = self.phase.at.load(Ordering::Acquire);
        if at != self.seen {
            self.seen = at;
            let span = if at == IDLE { self.paces.idle } else { self.paces.head };
            self.reading.set(sleep(span));
        }
        at
    }

    fn wait_to_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let span = self.paces.write;
        let timer = self.writing.get_or_insert_with(|| Box::pin(sleep(span)));
        timer.as_mut().poll(cx).map(|()| io::ErrorKind::TimedOut.into())
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Paced<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let at = this.follow_phase();
        let before = buffer.filled().len();
        if let Poll::Ready(result) = Pin::new(&mut this.inner).poll_read(cx, buffer) {
            if at == IDLE && buffer.filled().len() > before {
                this.phase.at.store(HEAD, Ordering::Release);
                this.follow_phase();
            }
            return Poll::Ready(result);
        }
        if at == BUSY {
            this.phase.wake_when_idle(cx);
            return Poll::Pending;
        }
        this.reading.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Paced<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if let Poll::Ready(result) = Pin::new(&mut this.inner).poll_write(cx, bytes) {
            this.writing = None;
            return Poll::Ready(result);
        }
        this.wait_to_write(cx).map(Err)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Poll::Ready(result) = Pin::new(&mut this.inner).poll_flush(cx) {
            this.writing = None;
            return Poll::Ready(result);
        }
        this.wait_to_write(cx).map(Err)
    }

    /// Closes our direction, then reads on for a while when the peer is still sending: a reset would
    /// reach it before the answer does.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.closing.is_none() {
            match Pin::new(&mut this.inner).poll_shutdown(cx) {
                Poll::Ready(result) => result?,
                Poll::Pending => return this.wait_to_write(cx).map(Err),
            }
            if !this.phase.unread.load(Ordering::Acquire) {
                return Poll::Ready(Ok(()));
            }
        }
        let linger = this.paces.linger;
        let closing = this
            .closing
            .get_or_insert_with(|| Closing { until: Box::pin(sleep(linger)), bytes_left: LINGER_BYTES_MAX });
        let mut scratch = [0_u8; 4096];
        while closing.bytes_left > 0 && closing.until.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut this.inner).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    closing.bytes_left = closing.bytes_left.saturating_sub(buffer.filled().len());
                }
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}
