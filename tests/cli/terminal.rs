//! Runs a program at a pseudo-terminal: sends keys and reads what it shows.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::World;

/// Marks where the cursor was shown again: the chat hides it while a turn runs.
const CURSOR: &str = "\u{7}";

/// How long anything may take before a test gives up: a failure bound, never a measure.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(180);

/// A program at a pseudo-terminal.
pub(crate) struct Terminal {
    pub(crate) child: Child,
    keyboard: fs::File,
    screen: Receiver<Vec<u8>>,
    pub(crate) escapes: u32,
    /// Output that no call has consumed yet, without escape sequences.
    pending_output: String,
    part: Vec<u8>,
    /// Where the program takes orders to advance its time.
    clock: PathBuf,
}

impl Terminal {
    fn start(mut command: Command, columns: u16, clock: PathBuf) -> Self {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        // Close-on-exec: a child that inherited this end would never see the terminal hang up.
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let size = rustix::termios::Winsize {
            ws_row: 30,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        rustix::termios::tcsetwinsize(&theirs, size).unwrap();
        let child = command
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs)
            .spawn()
            .unwrap();
        // The `Command` holds the other end; with it open, reads would never end.
        drop(command);
        let keyboard = fs::File::from(ours);
        let mut output = keyboard.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(n) = output.read(&mut bytes) {
                if n == 0 || sender.send(bytes[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            keyboard,
            screen,
            escapes: 0,
            pending_output: String::new(),
            part: Vec::new(),
            clock,
        }
    }

    pub(crate) fn send_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Moves the program's time forward, for pauses between keys.
    pub(crate) fn advance(&self, time: Duration) {
        let mut socket = UnixStream::connect(&self.clock).unwrap();
        writeln!(socket, "{}", time.as_millis()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(!answer.is_empty(), "the time was not advanced");
    }

    /// Returns the terminal's local modes (echo, line buffering).
    pub(crate) fn modes(&self) -> rustix::termios::LocalModes {
        rustix::termios::tcgetattr(&self.keyboard).unwrap().local_modes
    }

    /// Waits until keys go to the prompt again, not to a turn. Returns what was shown before that.
    #[track_caller]
    pub(crate) fn wait_until_idle(&mut self) -> String {
        self.wait_for_text(CURSOR)
    }

    /// Waits until `text` is shown. Returns the output up to and including it.
    #[track_caller]
    pub(crate) fn wait_for_text(&mut self, text: &str) -> String {
        let deadline = Instant::now() + WAIT_LIMIT;
        let mut searched = 0;
        loop {
            if let Some(at) = self.pending_output[searched..].find(text) {
                return self.pending_output.drain(..searched + at + text.len()).collect();
            }
            searched = self
                .pending_output
                .floor_char_boundary(self.pending_output.len().saturating_sub(text.len()));
            let remaining = deadline.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(remaining) {
                Ok(bytes) => self.show(&bytes),
                Err(RecvTimeoutError::Timeout) => panic!("no {text:?} in {:?}", self.pending_output),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("ended without {text:?}: {:?}", self.pending_output)
                }
            }
        }
    }

    fn show(&mut self, bytes: &[u8]) {
        self.part.extend_from_slice(bytes);
        loop {
            // A read may end within an escape sequence or a character; the rest of it comes with the next read.
            let (length, text) = match self.part.as_slice() {
                [] => return,
                [0x1b, b'[', rest @ ..] => match rest.iter().position(|byte| (0x40..0x7f).contains(byte)) {
                    Some(end) => (end + 3, ""),
                    None => return,
                },
                [0x1b] => return,
                [0x1b, ..] => (2, ""),
                part => {
                    let end = part.iter().position(|byte| *byte == 0x1b).unwrap_or(part.len());
                    let valid = std::str::from_utf8(&part[..end]);
                    let valid = valid
                        .unwrap_or_else(|error| std::str::from_utf8(&part[..error.valid_up_to()]).unwrap());
                    (valid.len(), valid)
                }
            };
            if length == 0 {
                return;
            }
            self.escapes += u32::from(self.part[0] == 0x1b);
            self.pending_output.push_str(text);
            if self.part.starts_with(b"\x1b[?25h") {
                self.pending_output.push_str(CURSOR);
            }
            self.part.drain(..length);
        }
    }

    /// Waits for the program's end and returns everything it showed, with escape sequences.
    pub(crate) fn raw_until_end(&mut self) -> String {
        let mut bytes = Vec::new();
        while let Ok(more) = self.screen.recv_timeout(WAIT_LIMIT) {
            bytes.extend(more);
        }
        self.child.wait().unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits for the chat's prompt, quits, and checks that the exit code is 0.
    #[track_caller]
    pub(crate) fn quit(mut self) {
        self.wait_for_text("› ");
        self.send_keys("/quit\r");
        assert_eq!(self.wait_for_exit(), 0);
    }

    /// Waits for the program's end and returns its exit code.
    #[track_caller]
    pub(crate) fn wait_for_exit(mut self) -> i32 {
        // Drain its output: a full terminal buffer would keep it from exiting.
        loop {
            match self.screen.recv_timeout(WAIT_LIMIT) {
                Ok(bytes) => self.show(&bytes),
                Err(RecvTimeoutError::Timeout) => panic!("does not end: {:?}", self.pending_output),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl World {
    pub(crate) fn terminal(&self, args: &[&str], env: &[(&str, &str)], columns: u16) -> Terminal {
        let mut command = self.command(args);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let clock = self.path(&format!("clock-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        command
            .env("TERM", "xterm")
            .env("AGENTLS_TEST_CLOCK_SOCKET", &clock)
            .envs(env.iter().copied());
        Terminal::start(command, columns, clock)
    }
}
