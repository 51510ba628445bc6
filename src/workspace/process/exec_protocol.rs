//! The protocol between server and helper. Pure encoding; must not start or signal processes.
//!
//! To the helper: four bytes of length together with the command's three descriptors (stdin, stdout, stderr), then the
//! request, then one byte per stage. From the helper: one line per report; a descriptor comes with one of them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::domain::words::word_enum;
use crate::sandbox::SandboxPlan;

/// The hidden subcommand under which the server starts its own binary.
pub const EXEC_COMMAND: &str = "__exec";

/// The argument of the helper that creates a user namespace, then starts itself again inside.
pub(super) const OUTER_STAGE: &str = "sandbox";
/// The argument of the helper inside, which is process 1 of the PID namespace.
pub(super) const INNER_STAGE: &str = "inner";
/// The argument of the helper that lets bubblewrap start it again inside; the words of the plan follow.
pub(super) const BUBBLEWRAP_STAGE: &str = "bubblewrap";
/// The argument of the helper inside of bubblewrap; what it has to check follows.
pub(super) const BUBBLEWRAP_INNER_STAGE: &str = "bubblewrap-inner";

/// Largest request that the helper accepts, in bytes; the kernel allows far less for arguments.
pub(super) const REQUEST_LIMIT: usize = 64 << 20;

/// What to run. The command inherits the helper's environment and gets `env` in addition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExecRequest {
    pub(super) cwd: PathBuf,
    /// Path of the program; if `None`, its name is looked up in the helper's PATH.
    pub(super) program: Option<PathBuf>,
    /// What the command may do; `None` if it is not confined.
    pub(super) sandbox: Option<SandboxPlan>,
    /// Variables for the command alone: some of them, such as `LD_PRELOAD`, would run code in the helper before it has
    /// confined itself.
    pub(super) env: Vec<(OsString, OsString)>,
    /// Starts with the program's name; never empty.
    pub(super) argv: Vec<OsString>,
}

impl ExecRequest {
    /// Encodes length-prefixed fields: the working directory, the program (empty for none), the numbers of words of the
    /// sandbox and of variables, the words, names and values of the variables, the arguments.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let program = self.program.as_deref().unwrap_or(Path::new(""));
        let plan = self
            .sandbox
            .as_ref()
            .map(SandboxPlan::to_words)
            .unwrap_or_default();
        let words = OsString::from(plan.len().to_string());
        let variables = OsString::from(self.env.len().to_string());
        let head = [self.cwd.as_os_str(), program.as_os_str(), &words, &variables];
        let env = self.env.iter().flat_map(|(name, value)| [name, value]);
        let words = plan.iter().chain(env).chain(&self.argv).map(OsString::as_os_str);
        for field in head.into_iter().chain(words) {
            body.extend_from_slice(&(field.len() as u32).to_le_bytes());
            body.extend_from_slice(field.as_bytes());
        }
        body
    }

    /// Decodes a request; `None` if `body` is not one.
    pub(super) fn from_bytes(mut body: &[u8]) -> Option<Self> {
        let mut fields = Vec::new();
        while !body.is_empty() {
            let (len, rest) = body.split_first_chunk::<4>()?;
            let (field, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            fields.push(OsStr::from_bytes(field).to_owned());
            body = rest;
        }
        let [cwd, program, words, variables, rest @ ..] = fields.as_slice() else {
            return None;
        };
        let (plan, rest) = rest.split_at_checked(words.to_str()?.parse().ok()?)?;
        let variables: usize = variables.to_str()?.parse().ok()?;
        let (env, argv) = rest.split_at_checked(variables.checked_mul(2)?)?;
        let env = env.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        let sandbox = match plan {
            [] => None,
            // A plan that is not understood must not mean that there is none.
            words => Some(SandboxPlan::from_words(words)?),
        };
        (!argv.is_empty()).then(|| Self {
            cwd: cwd.into(),
            program: (!program.is_empty()).then(|| program.into()),
            sandbox,
            env: env.collect(),
            argv: argv.to_vec(),
        })
    }
}

/// A stage of stopping: one byte on the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopStage {
    Interrupt,
    Terminate,
    /// SIGKILL, until no process is left.
    Kill,
}

impl StopStage {
    pub(super) fn to_byte(self) -> u8 {
        match self {
            Self::Interrupt => b'i',
            Self::Terminate => b't',
            Self::Kill => b'k',
        }
    }

    /// Returns the stage of `byte`. Anything unknown kills: a helper that misunderstands must not keep a child.
    pub(super) fn from_byte(byte: u8) -> Self {
        match byte {
            b'i' => Self::Interrupt,
            b't' => Self::Terminate,
            _ => Self::Kill,
        }
    }
}

word_enum! {
    /// The reason why a command did not start.
    pub(super) enum StartRefusal {
        /// The working directory is missing or not a directory.
        Directory = "directory",
        /// The program does not exist.
        Missing = "missing",
        /// The system takes no such arguments.
        Arguments = "arguments",
        /// The sandbox could not be set up.
        Sandbox = "sandbox",
        Other = "other",
    }
}

/// One line from the helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HelperReport {
    /// A socket that listens on this port, inside the sandbox, comes with this report.
    Listening(u16),
    /// The command runs, with this id of its process and group.
    Started(u32),
    /// The command did not start; the text is for people.
    Refused(StartRefusal, String),
    /// The command exited with this code.
    Exited(i32),
    /// This signal ended the command.
    Signalled(i32),
    /// The helper ends; this many descendants could not be killed.
    Gone(u32),
}

impl HelperReport {
    /// Returns the line, with its newline.
    pub(super) fn to_line(&self) -> String {
        match self {
            Self::Listening(port) => format!("listening {port}\n"),
            Self::Started(pid) => format!("started {pid}\n"),
            Self::Refused(refusal, text) => {
                // A line feed in the text would end the report early.
                format!("refused {} {}\n", refusal.name(), text.replace(['\n', '\r'], " "))
            }
            Self::Exited(code) => format!("exited {code}\n"),
            Self::Signalled(signal) => format!("signalled {signal}\n"),
            Self::Gone(remaining) => format!("gone {remaining}\n"),
        }
    }

    /// Parses a line without its newline.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        Some(match word {
            "listening" => Self::Listening(rest.parse().ok()?),
            "started" => Self::Started(rest.parse().ok()?),
            "refused" => {
                let (refusal, text) = rest.split_once(' ')?;
                Self::Refused(StartRefusal::from_name(refusal)?, text.to_owned())
            }
            "exited" => Self::Exited(rest.parse().ok()?),
            "signalled" => Self::Signalled(rest.parse().ok()?),
            "gone" => Self::Gone(rest.parse().ok()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;
    use crate::domain::{SandboxMethod, SandboxNetwork};
    use crate::sandbox::PathRule;
    use proptest::prelude::*;

    #[test]
    fn reports_round_trip() {
        for report in [
            HelperReport::Listening(40_000),
            HelperReport::Started(12),
            HelperReport::Refused(StartRefusal::Directory, "no such directory".into()),
            HelperReport::Refused(StartRefusal::Missing, String::new()),
            HelperReport::Refused(StartRefusal::Sandbox, "cannot mount /proc".into()),
            HelperReport::Refused(StartRefusal::Arguments, "argument list too long".into()),
            HelperReport::Refused(StartRefusal::Other, "permission denied (os error 13)".into()),
            HelperReport::Exited(-1),
            HelperReport::Signalled(9),
            HelperReport::Gone(3),
        ] {
            let line = report.to_line();
            assert_eq!(
                HelperReport::parse(line.trim_end_matches('\n')),
                Some(report),
                "{line}"
            );
        }
    }

    #[test]
    fn a_refusal_stays_on_one_line() {
        assert_eq!(
            HelperReport::Refused(StartRefusal::Other, "a\nb".into()).to_line(),
            "refused other a b\n"
        );
    }

    fn plan() -> SandboxPlan {
        SandboxPlan {
            method: SandboxMethod::Namespaces,
            network: SandboxNetwork::Offline,
            temp: "/tmp/x".into(),
            cache_layers: None,
            rules: vec![(PathRule::Hide, "/home/u/.ssh".into())],
        }
    }

    #[test]
    fn truncated_requests_are_rejected() {
        let body = ExecRequest {
            cwd: "/tmp".into(),
            program: Some("/bin/a".into()),
            sandbox: Some(plan()),
            env: vec![("A".into(), "1".into())],
            argv: vec!["a".into(), "b".into()],
        }
        .to_bytes();
        let complete_lengths = [body.len() - 5, body.len() - 10];
        for cut in 0..body.len() {
            let decoded = ExecRequest::from_bytes(&body[..cut]);
            assert_eq!(
                decoded.is_some(),
                complete_lengths[..1].contains(&cut),
                "cut at {cut}"
            );
        }
    }

    proptest! {
        #[test]
        fn requests_round_trip(
            cwd: Vec<u8>,
            program: Vec<u8>,
            confined: bool,
            env: Vec<(Vec<u8>, Vec<u8>)>,
            argv in prop::collection::vec(any::<Vec<u8>>(), 1..5),
        ) {
            let word = OsString::from_vec;
            let request = ExecRequest {
                cwd: OsString::from_vec(cwd).into(),
                program: (!program.is_empty()).then(|| OsString::from_vec(program).into()),
                sandbox: confined.then(plan),
                env: env.into_iter().map(|(name, value)| (word(name), word(value))).collect(),
                argv: argv.into_iter().map(word).collect(),
            };
            prop_assert_eq!(ExecRequest::from_bytes(&request.to_bytes()), Some(request));
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
            let _ = ExecRequest::from_bytes(&bytes);
        }
    }
}
