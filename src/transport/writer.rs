//! The thread behind the outbox: joins waiting frames into few writes and releases their bytes once written.
//!
//! It runs on a thread because a write into a full pipe blocks. Order is the job of [`super::queue`].

use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::lines::Framing;
use super::outbox::{Outbox, QueuedFrame};
use crate::base::CancellationToken;

/// Bytes of bodies that one write joins at most; a larger single frame still leaves.
const COALESCE: usize = 128 << 10;

/// Capacity in bytes above which the buffer is shrunk after a write.
const KEEP_BUFFER: usize = 512 << 10;

/// The running writer, as a future that resolves when the thread has ended.
///
/// Dropping it does not stop the thread: a write into a full pipe cannot be interrupted.
#[derive(Debug)]
pub struct FrameWriter {
    ended: oneshot::Receiver<()>,
}

impl FrameWriter {
    /// Starts a thread that writes the frames of `outbox` to `output`.
    ///
    /// A failed write closes the outbox and cancels `root`.
    ///
    /// # Errors
    /// The OS error if the thread cannot start.
    pub fn start(
        outbox: Outbox,
        output: impl Write + Send + 'static,
        root: CancellationToken,
        framing: Framing,
    ) -> std::io::Result<Self> {
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || {
                let mut guard = WriterGuard {
                    outbox,
                    root,
                    clean: false,
                    _end: end,
                };
                match write_all(&guard.outbox, output, framing) {
                    Ok(()) => guard.clean = true,
                    Err(error) => tracing::warn!(%error, "output is gone"),
                }
            })?;
        Ok(Self { ended })
    }
}

impl Future for FrameWriter {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // The sender is dropped without a value; that is the signal.
        Pin::new(&mut self.ended).poll(cx).map(drop)
    }
}

/// Releases everything that waits for the thread, however the thread ends; a panic included.
struct WriterGuard {
    outbox: Outbox,
    root: CancellationToken,
    clean: bool,
    // Dropping it completes the [`FrameWriter`] future.
    _end: oneshot::Sender<()>,
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        if !self.clean {
            // Releases all bytes, so that no sender waits for a writer that is gone.
            self.outbox.close();
            self.root.cancel();
        }
    }
}

fn write_all(outbox: &Outbox, mut output: impl Write, framing: Framing) -> std::io::Result<()> {
    let mut batch: Vec<QueuedFrame> = Vec::new();
    let mut buffer = Vec::new();
    while outbox.take_blocking(&mut batch, COALESCE) {
        batch
            .iter()
            .for_each(|slot| slot.write_framed(&mut buffer, framing));
        output.write_all(&buffer)?;
        output.flush()?;
        // Dropping the frames releases their bytes, so this must follow the write.
        batch.clear();
        buffer.clear();
        buffer.shrink_to(KEEP_BUFFER);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::base::backpressure::ByteBudget;
    use crate::transport::outbox::Outgoing;

    fn build_notification(permit: Option<crate::base::backpressure::Permit>) -> Outgoing {
        Outgoing::Notification {
            body: b"0123456789".to_vec(),
            group: None,
            permit,
        }
    }

    /// Reports each write to the test, then waits for the test's answer.
    struct Gate {
        go: mpsc::Receiver<io::Result<()>>,
        wrote: mpsc::Sender<usize>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.wrote.send(bytes.len()).unwrap();
            self.go.recv().unwrap().map(|()| bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct WriterHarness {
        outbox: Outbox,
        root: CancellationToken,
        go: mpsc::Sender<io::Result<()>>,
        wrote: mpsc::Receiver<usize>,
        writer: FrameWriter,
    }

    fn start_harness() -> WriterHarness {
        let (go, gate_go) = mpsc::channel();
        let (gate_wrote, wrote) = mpsc::channel();
        let (outbox, root) = (Outbox::new(Duration::ZERO), CancellationToken::new());
        outbox.open();
        let gate = Gate {
            go: gate_go,
            wrote: gate_wrote,
        };
        let writer = FrameWriter::start(outbox.clone(), gate, root.clone(), Framing::Header).unwrap();
        WriterHarness {
            outbox,
            root,
            go,
            wrote,
            writer,
        }
    }

    #[tokio::test]
    async fn bytes_are_released_after_the_write_and_waiting_frames_are_joined() {
        let harness = start_harness();
        let pool = ByteBudget::new(1_000);
        let account = pool.open_session(1_000);
        harness.outbox.push(build_notification(Some(account.take(10))));
        assert_eq!(harness.wrote.recv().unwrap(), 32);
        assert_eq!(pool.bytes_in_flight(), 10, "not yet written");
        for _ in 0..100 {
            harness.outbox.push(build_notification(Some(account.take(1))));
        }
        harness.go.send(Ok(())).unwrap();
        assert_eq!(harness.wrote.recv().unwrap(), 3_200);
        assert_eq!(pool.bytes_in_flight(), 100);
        harness.go.send(Ok(())).unwrap();
        harness.outbox.finish();
        harness.writer.await;
        assert_eq!(pool.bytes_in_flight(), 0);
        assert!(!harness.root.is_cancelled());
    }

    #[tokio::test]
    async fn a_broken_pipe_closes_the_outbox_and_cancels_the_root() {
        let harness = start_harness();
        let pool = ByteBudget::new(1_000);
        let account = pool.open_session(1_000);
        harness.outbox.push(build_notification(Some(account.take(10))));
        harness.wrote.recv().unwrap();
        harness.outbox.push(build_notification(Some(account.take(10))));
        harness.go.send(Err(io::ErrorKind::BrokenPipe.into())).unwrap();
        harness.root.cancelled().await;
        harness.writer.await;
        assert!(harness.outbox.is_closed());
        assert_eq!(pool.bytes_in_flight(), 0);
    }

    #[tokio::test]
    async fn a_panic_closes_the_outbox_and_cancels_the_root() {
        let harness = start_harness();
        harness.outbox.push(build_notification(None));
        drop(harness.go);
        harness.root.cancelled().await;
        harness.writer.await;
        assert!(harness.outbox.is_closed());
    }
}
