//! The process's own pipes: stdout moves out of reach of stray prints (I11), and a thread reads stdin.
//!
//! stdin may be a pipe, a socket, a file, a terminal or `/dev/null`, and other processes may share it. So its mode
//! stays as it is: no `O_NONBLOCK`. The reading thread can stop at any time and never delays the end of the runtime.
//! Knows bytes only; frames are the job of [`super::frame`].

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

/// Bytes that one read takes at most.
const READ_CHUNK_BYTES: usize = 64 << 10;

/// Chunks that may wait to be decoded. When they are full, the thread stops reading.
const READS_AHEAD: usize = 4;

/// macOS refuses a higher limit of open files, whatever the hard limit says.
#[cfg(target_os = "macos")]
const OPEN_MAX: u64 = 10_240;

/// The standard streams cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// A standard stream could not be moved.
    #[error("{stream} cannot be used: {error}")]
    Unusable { stream: &'static str, error: io::Error },
    #[error("no thread to read stdin: {0}")]
    Thread(io::Error),
}

/// The client's two pipes.
#[derive(Debug)]
pub struct Stdio {
    pub input: StdinReader,
    /// The only way to the client's end.
    pub output: StdoutWriter,
}

/// Moves stdin and stdout aside. Call it before anything else runs.
///
/// From then on a stray print goes to stderr, and no child can reach the client's pipes or read its messages.
///
/// # Errors
/// [`StdioError::Unusable`] if a stream cannot be duplicated or replaced, and [`StdioError::Thread`] if the thread
/// that reads stdin cannot start.
pub fn claim_stdio() -> Result<Stdio, StdioError> {
    let unusable = |stream| {
        move |error: Errno| StdioError::Unusable {
            stream,
            error: error.into(),
        }
    };
    let input = move_aside(rustix::stdio::stdin()).map_err(unusable("stdin"))?;
    let output = move_aside(rustix::stdio::stdout()).map_err(unusable("stdout"))?;
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty());
    let null = null.map_err(unusable("/dev/null"))?;
    // A stray read of fd 0 now meets its end. A stray print goes to stderr, or nowhere if stderr is closed.
    rustix::stdio::dup2_stdin(&null).map_err(unusable("stdin"))?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())
        .or_else(|_| rustix::stdio::dup2_stdout(&null))
        .map_err(unusable("stdout"))?;
    Ok(Stdio {
        input: StdinReader::new(input).map_err(StdioError::Thread)?,
        output: StdoutWriter { fd: output },
    })
}

/// Duplicates a descriptor above the standard streams. No child inherits the duplicate.
fn move_aside(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3)
}

/// Raises the soft limit of open files to the hard limit. Returns the limit in force; `None` means unlimited.
pub fn raise_open_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum;
    #[cfg(target_os = "macos")]
    let wanted = Some(wanted.map_or(OPEN_MAX, |hard| hard.min(OPEN_MAX)));
    if limit.current == wanted {
        return wanted;
    }
    let raised = Rlimit {
        current: wanted,
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => wanted,
        // Not fatal: the server then works with the old limit.
        Err(error) => {
            tracing::warn!(%error, "limit of open files cannot be raised");
            limit.current
        }
    }
}

/// Reads any kind of descriptor on a thread of its own, so that the runtime never blocks.
#[derive(Debug)]
pub struct StdinReader {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
    /// Write end of a pipe that the thread polls. Closing it on drop ends the thread.
    _stop: OwnedFd,
}

impl StdinReader {
    /// Starts a thread that reads `fd`.
    ///
    /// # Errors
    /// The OS error if the stop pipe or the thread cannot be created.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        // Close-on-exec: a child with a copy of the write end would keep the thread alive.
        let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (sender, chunks) = mpsc::channel(READS_AHEAD);
        std::thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || read_all(&fd, &stopped, &sender))?;
        Ok(Self {
            chunks,
            current: Bytes::new(),
            _stop: stop,
        })
    }
}

impl AsyncRead for StdinReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.current.is_empty() {
            match std::task::ready!(self.chunks.poll_recv(cx)) {
                Some(chunk) => self.current = chunk?,
                // The thread has ended, so this is the end of input.
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.current.len().min(buf.remaining());
        buf.put_slice(&self.current[..count]);
        self.current.advance(count);
        Poll::Ready(Ok(()))
    }
}

fn read_all(fd: &OwnedFd, stopped: &OwnedFd, sender: &mpsc::Sender<io::Result<Bytes>>) {
    let mut buffer = vec![0; READ_CHUNK_BYTES];
    while wait_for_input(fd, stopped) {
        let read = match rustix::io::read(fd, &mut buffer) {
            // Returning drops the sender, which tells the receiver about the end of input.
            Ok(0) => return,
            Ok(length) => Ok(Bytes::copy_from_slice(&buffer[..length])),
            // Another process that shares the descriptor may have made it non-blocking: poll again.
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(error) => Err(error.into()),
        };
        let failed = read.is_err();
        // Blocks while `READS_AHEAD` chunks wait, which presses back on the client.
        if sender.blocking_send(read).is_err() || failed {
            return;
        }
    }
}

/// Blocks until `fd` can be read. Returns false once the [`StdinReader`] is gone.
fn wait_for_input(fd: &OwnedFd, stopped: &OwnedFd) -> bool {
    loop {
        let mut fds = [
            PollFd::new(fd, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN),
        ];
        match rustix::event::poll(&mut fds, None) {
            Ok(_) => return fds[1].revents().is_empty(),
            Err(Errno::INTR) => {}
            // A descriptor that cannot be polled can still be read.
            Err(_) => return true,
        }
    }
}

/// Writes to the client. Blocks, so it belongs on the writer's thread ([`super::writer`]).
#[derive(Debug)]
pub struct StdoutWriter {
    fd: OwnedFd,
}

impl StdoutWriter {
    /// Takes over `fd` and leaves its mode as it is.
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

impl Write for StdoutWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::io::write(&self.fd, bytes) {
                Ok(written) => return Ok(written),
                Err(Errno::INTR) => {}
                // Another process that shares the pipe may have made it non-blocking.
                Err(Errno::AGAIN) => wait_for_output(self.fd.as_fd())?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    // Writes go straight to the descriptor, so there is nothing to flush.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn wait_for_output(fd: BorrowedFd<'_>) -> io::Result<()> {
    match rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio as ChildStdio};

    use tokio::io::AsyncReadExt;

    use super::*;

    async fn read_to_end(fd: impl Into<OwnedFd>) -> Vec<u8> {
        let mut all = Vec::new();
        StdinReader::new(fd.into())
            .unwrap()
            .read_to_end(&mut all)
            .await
            .unwrap();
        all
    }

    #[tokio::test]
    async fn reader_accepts_pipes_sockets_files_and_dev_null() {
        let text = vec![b'x'; 1 << 20];
        let (read, write) = rustix::pipe::pipe().unwrap();
        let sent = text.clone();
        let thread = std::thread::spawn(move || StdoutWriter::new(write).write_all(&sent).unwrap());
        assert_eq!(read_to_end(read).await, text);
        thread.join().unwrap();

        let (ours, theirs) = UnixStream::pair().unwrap();
        // A shared descriptor that another process made non-blocking, on both sides.
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let sent = text.clone();
        let thread = std::thread::spawn(move || StdoutWriter::new(theirs.into()).write_all(&sent).unwrap());
        assert_eq!(read_to_end(ours).await, text);
        thread.join().unwrap();

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("input");
        std::fs::write(&file, &text).unwrap();
        assert_eq!(read_to_end(File::open(&file).unwrap()).await, text);
        assert_eq!(read_to_end(File::open("/dev/null").unwrap()).await, b"");
    }

    #[tokio::test]
    async fn reading_a_directory_fails_without_a_hang() {
        let folder = File::open("/").unwrap();
        let mut all = Vec::new();
        let error = StdinReader::new(folder.into())
            .unwrap()
            .read_to_end(&mut all)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }

    #[tokio::test]
    async fn dropping_the_input_ends_its_thread() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let mut input = StdinReader::new(read).unwrap();
        rustix::io::write(&write, b"x").unwrap();
        assert_eq!(input.read_u8().await.unwrap(), b'x');
        drop(input);
        // The thread owned the reading end; when it is gone, writing fails.
        let watcher = std::thread::spawn(move || {
            let mut fds = [PollFd::new(&write, PollFlags::empty())];
            rustix::event::poll(&mut fds, None).unwrap();
            fds[0].revents().contains(PollFlags::ERR)
        });
        assert!(watcher.join().unwrap());
    }

    #[test]
    fn writing_to_a_closed_pipe_is_an_error() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        drop(read);
        let error = StdoutWriter::new(write).write_all(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn raises_the_limit_of_open_files() {
        let limit = raise_open_files();
        let now = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        assert_eq!(now.current, limit);
        #[cfg(target_os = "linux")]
        assert_eq!(now.current, now.maximum);
    }

    /// Set for the child process that plays a part in another test.
    const ROLE: &str = "AGENTLS_TEST_ROLE";

    /// Not a test by itself: `a_claimed_stdout_is_out_of_reach` runs it in a child process.
    #[test]
    fn claims_the_standard_streams() {
        // It moves the standard streams of its process, so it needs one of its own.
        if !std::env::vars_os().any(|(name, _)| name == ROLE) {
            return;
        }
        let mut stdio = claim_stdio().unwrap();
        println!("stray print");
        let mut stray = Vec::new();
        std::io::stdin().read_to_end(&mut stray).unwrap();
        assert!(stray.is_empty(), "fd 0 is empty now");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let mut input = String::new();
        runtime.block_on(stdio.input.read_to_string(&mut input)).unwrap();
        stdio.output.write_all(format!("<{input}>").as_bytes()).unwrap();
    }

    #[test]
    fn a_claimed_stdout_is_out_of_reach() {
        #[expect(
            clippy::disallowed_methods,
            reason = "a test needs a process whose streams it may move"
        )]
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "transport::stdio::tests::claims_the_standard_streams",
            ])
            .env(ROLE, "claim")
            .stdin(ChildStdio::piped())
            .stdout(ChildStdio::piped())
            .stderr(ChildStdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"from the client").unwrap();
        let output = child.wait_with_output().unwrap();
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(out.ends_with("<from the client>"), "{out} / {err}");
        assert!(
            err.contains("stray print") && !out.contains("stray print"),
            "{out} / {err}"
        );
    }
}
