//! Streams a command's output in chunks.
//!
//! Stores nothing: a command whose output is not read waits, so a gigabyte of output costs one buffer. Must not decode
//! or interpret the bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::base::clock::{self, Instant};
use crate::workspace::process::state::State;

/// Largest chunk, in bytes: as much as a pipe holds.
const CHUNK: usize = 64 << 10;
/// How long someone else (a daemon that was handed the pipe) may keep the output open after the last descendant ended.
const DRAIN: Duration = Duration::from_millis(100);
/// How much may still arrive on each pipe then; a pipe holds no more.
const DRAIN_BYTES: usize = 1 << 20;

/// The stream that a chunk came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output, including standard error if merged.
    Stdout,
    Stderr,
}

/// A piece of output; never empty, at most 64 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub stream: Stream,
    /// May end in the middle of a character.
    pub bytes: Bytes,
}

/// The reading ends of a command's output.
#[derive(Debug)]
pub struct Output {
    pipes: [Option<pipe::Receiver>; 2],
    /// The pipe to poll first; it alternates, so that neither starves the other.
    first: usize,
    buffer: Box<[u8]>,
    state: watch::Receiver<State>,
    late: usize,
    /// The end of standard output ends all, although the other pipe is open.
    ends_with_stdout: bool,
    /// Standard output has ended, and what is left of the other pipe is read.
    drains: bool,
}

impl Output {
    pub(super) fn new(
        stdout: pipe::Receiver,
        stderr: Option<pipe::Receiver>,
        state: watch::Receiver<State>,
    ) -> Self {
        Self {
            pipes: [Some(stdout), stderr],
            first: 0,
            buffer: vec![0; CHUNK].into(),
            state,
            late: 0,
            ends_with_stdout: false,
            drains: false,
        }
    }

    /// Makes the end of standard output the end of all: what comes later than 100 ms after it is not read.
    #[must_use]
    pub fn ending_with_stdout(self) -> Self {
        Self {
            ends_with_stdout: true,
            ..self
        }
    }

    /// Returns the next chunk, or `None` once all is read, at most 100 ms after the last descendant ended.
    ///
    /// Cancel-safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Chunk> {
        let mut state = self.state.clone();
        let next = loop {
            let drains = self.drains;
            let next = tokio::select! {
                // Output first: what is already in a pipe is delivered even after the deadline.
                biased;
                next = std::future::poll_fn(|cx| self.poll_next(cx)) => next,
                () = wait_until_drained(&mut state) => None,
                () = clock::sleep(DRAIN), if drains => None,
            };
            // What was written to standard error before may be noticed only now.
            self.drains |= next.is_none() && self.ends_with_stdout;
            if next.is_some() || drains == self.drains {
                break next;
            }
        };
        // A stranger that still has the pipe could write to it forever.
        if let Some(chunk) = &next
            && matches!(*state.borrow(), State::Gone { .. })
        {
            self.late += chunk.bytes.len();
        }
        if next.is_none() || self.late > DRAIN_BYTES * self.pipes.len() {
            self.pipes = [None, None];
        }
        next
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Chunk>> {
        let mut open = false;
        for index in [self.first, 1 - self.first] {
            let Some(pipe) = &mut self.pipes[index] else {
                continue;
            };
            match poll_read(pipe, cx, &mut self.buffer) {
                Poll::Pending => open = true,
                Poll::Ready(Ok(count)) if count > 0 => {
                    self.first = 1 - index;
                    return Poll::Ready(Some(Chunk {
                        stream: if index == 0 {
                            Stream::Stdout
                        } else {
                            Stream::Stderr
                        },
                        bytes: Bytes::copy_from_slice(&self.buffer[..count]),
                    }));
                }
                // An error ends the stream just as its end of file does.
                Poll::Ready(_) => self.pipes[index] = None,
            }
        }
        let ends = self.ends_with_stdout && self.pipes[0].is_none() && !self.drains;
        if open && !ends {
            Poll::Pending
        } else {
            Poll::Ready(None)
        }
    }
}

fn poll_read(pipe: &mut pipe::Receiver, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
    let mut buffer = ReadBuf::new(buffer);
    ready!(Pin::new(pipe).poll_read(cx, &mut buffer))?;
    Poll::Ready(Ok(buffer.filled().len()))
}

/// Waits until no more output is expected.
async fn wait_until_drained(state: &mut watch::Receiver<State>) {
    let gone_at: Option<Instant> = match state.wait_for(|state| matches!(state, State::Gone { .. })).await {
        Ok(state) => state.gone_at(),
        // The handle was dropped: the processes are being killed right now.
        Err(_) => None,
    };
    match gone_at {
        Some(at) => clock::sleep_until(at + DRAIN).await,
        None => clock::sleep(DRAIN).await,
    }
}
