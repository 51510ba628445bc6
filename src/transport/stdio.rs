//! The process's own pipes: stdout moved out of everybody's reach (I11), stdin read on a thread of its own.
//!
//! stdin may be a pipe, a socket, a file, a terminal or /dev/null, and may be shared with other processes, so
//! its mode is left alone: no O_NONBLOCK. The reading thread can be stopped at any time and never holds up the
//! end of the runtime.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

/// How much one read takes.
const READ: usize = 64 << 10;

/// How many reads may wait to be decoded; then reading waits.
const READS_AHEAD: usize = 4;

/// What macOS refuses to go beyond, whatever the hard limit says.
#[cfg(target_os = "macos")]
const OPEN_MAX: u64 = 10_240;

/// Why the pipes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// A standard stream could not be moved.
    #[error("{stream} cannot be used: {error}")]
    Unusable {
        /// Which.
        stream: &'static str,
        /// Why.
        error: io::Error,
    },
    /// No thread for reading.
    #[error("no thread to read stdin: {0}")]
    Thread(io::Error),
}

/// The client's two pipes.
#[derive(Debug)]
pub struct Stdio {
    /// What the client sends.
    pub input: StdinReader,
    /// What the client reads: the only way to it.
    pub output: StdoutWriter,
}

/// Moves stdin and stdout aside, before anything else runs: from then on a stray print goes to stderr, and no
/// child can reach the client's pipes or read its messages.
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
    rustix::stdio::dup2_stdin(&null).map_err(unusable("stdin"))?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())
        .or_else(|_| rustix::stdio::dup2_stdout(&null))
        .map_err(unusable("stdout"))?;
    Ok(Stdio {
        input: StdinReader::new(input).map_err(StdioError::Thread)?,
        output: StdoutWriter { fd: output },
    })
}

/// A duplicate above the standard streams that no child inherits.
fn move_aside(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(fd, 3)
}

/// Raises the soft limit of open files to the hard one. Returns the limit, if there is one.
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
        Err(error) => {
            tracing::warn!(%error, "limit of open files cannot be raised");
            limit.current
        }
    }
}

/// Reading without blocking the runtime, whatever the descriptor is.
#[derive(Debug)]
pub struct StdinReader {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
    /// Closed on drop: ends the thread.
    _stop: OwnedFd,
}

impl StdinReader {
    /// Starts a thread that reads `fd`.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
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
                // The thread has ended: so has the input.
                None => return Poll::Ready(Ok(())),
            }
        }
        let taken = self.current.len().min(buf.remaining());
        buf.put_slice(&self.current[..taken]);
        self.current.advance(taken);
        Poll::Ready(Ok(()))
    }
}

fn read_all(fd: &OwnedFd, stopped: &OwnedFd, sender: &mpsc::Sender<io::Result<Bytes>>) {
    let mut buffer = vec![0; READ];
    while wait_for_input(fd, stopped) {
        let read = match rustix::io::read(fd, &mut buffer) {
            Ok(0) => return,
            Ok(length) => Ok(Bytes::copy_from_slice(&buffer[..length])),
            // Somebody who shares the descriptor made it non-blocking.
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(error) => Err(error.into()),
        };
        let failed = read.is_err();
        if sender.blocking_send(read).is_err() || failed {
            return;
        }
    }
}

/// False: nobody wants it any more.
fn wait_for_input(fd: &OwnedFd, stopped: &OwnedFd) -> bool {
    loop {
        let mut fds = [
            PollFd::new(fd, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN),
        ];
        match rustix::event::poll(&mut fds, None) {
            Ok(_) => return fds[1].revents().is_empty(),
            Err(Errno::INTR) => {}
            // What cannot be polled can still be read.
            Err(_) => return true,
        }
    }
}

/// The client's end of what we write. Blocks: it belongs on the writer's thread.
#[derive(Debug)]
pub struct StdoutWriter {
    fd: OwnedFd,
}

impl StdoutWriter {
    /// Writes to `fd`.
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
                Err(Errno::AGAIN) => wait_for_output(self.fd.as_fd())?,
                Err(error) => return Err(error.into()),
            }
        }
    }

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
    async fn reads_pipes_sockets_files_and_nothing() {
        let text = vec![b'x'; 1 << 20];
        let (read, write) = rustix::pipe::pipe().unwrap();
        let sent = text.clone();
        let thread = std::thread::spawn(move || StdoutWriter::new(write).write_all(&sent).unwrap());
        assert_eq!(read_to_end(read).await, text);
        thread.join().unwrap();

        let (ours, theirs) = UnixStream::pair().unwrap();
        // A shared descriptor that somebody made non-blocking, on both sides.
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
    async fn a_directory_is_an_error_and_no_hang() {
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
        let gone = std::thread::spawn(move || {
            let mut fds = [PollFd::new(&write, PollFlags::empty())];
            rustix::event::poll(&mut fds, None).unwrap();
            fds[0].revents().contains(PollFlags::ERR)
        });
        assert!(gone.join().unwrap());
    }

    #[test]
    fn writing_to_nobody_is_an_error() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        drop(read);
        let error = StdoutWriter::new(write).write_all(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn the_limit_of_open_files_is_raised() {
        let limit = raise_open_files();
        let now = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        assert_eq!(now.current, limit);
        #[cfg(target_os = "linux")]
        assert_eq!(now.current, now.maximum);
    }

    /// Set for the process that plays a part in another test.
    const ROLE: &str = "AGENTLS_TEST_ROLE";

    /// Not a test of its own: `a_claimed_stdout_is_out_of_reach` runs it in a process of its own.
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
