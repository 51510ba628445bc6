//! A stream that fails once nothing was read from it or written to it for a while.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::base::clock::Sleep;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::base::clock;

/// How long a connection may transfer nothing.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(300);

/// A stream with a time limit for inactivity.
pub(super) struct IdleStream<S> {
    inner: S,
    limit: Duration,
    deadline: Pin<Box<Sleep>>,
}

impl<S> IdleStream<S> {
    /// Creates a stream that may be inactive for `limit`.
    pub(super) fn new(inner: S, limit: Duration) -> Self {
        Self {
            inner,
            limit,
            deadline: Box::pin(clock::sleep(limit)),
        }
    }

    /// Restarts the time after progress; without progress, fails when it is up.
    fn observe<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.deadline.as_mut().reset(clock::now() + self.limit);
            return polled;
        }
        ready!(self.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for IdleStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.observe(cx, polled)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IdleStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.observe(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_fails_once_it_was_idle_for_too_long() {
        let limit = Duration::from_secs(10);
        let (mut far, near) = duplex(8);
        let mut near = IdleStream::new(near, limit);
        let mut byte = [0];
        for _ in 0..3 {
            clock::sleep(limit / 2).await;
            far.write_all(b"x").await.unwrap();
            near.read_exact(&mut byte).await.unwrap();
            clock::sleep(limit / 2).await;
            near.write_all(b"y").await.unwrap();
        }
        let start = clock::now();
        let error = near.read(&mut byte).await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed()), (io::ErrorKind::TimedOut, limit));
    }
}
