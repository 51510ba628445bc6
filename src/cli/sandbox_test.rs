//! `agentls sandbox test`: tries what a sandboxed command must not be able to do, and reports what it could do.
//!
//! Each check is a small shell script that prints `open` if it succeeded. All act on scratch folders and on sockets and
//! processes that the test itself provides, so that a check that succeeds does no harm.

use std::error::Error;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::sandbox_tools::{SandboxTools, confine};
use super::screen::{Screen, print_json};
use super::style::Color;
use crate::config::{ConfigSource, HomeAccess};
use crate::domain::words::word_enum;
use crate::domain::{SandboxLevel, SandboxMethod, SandboxNetwork, SandboxPolicy};
use crate::sandbox::{PrivateTemp, SandboxScope, remove_layers};
use crate::workspace::process::Command;

/// One thing that a command must not, or must, be able to do.
struct SandboxCheck {
    name: &'static str,
    /// Prints `open` if it was possible.
    script: &'static str,
    /// Whether it must be possible: work that the sandbox must not hinder.
    expected: bool,
    /// The lowest level that promises it.
    from: SandboxLevel,
    /// Whether the real files show that it was possible, by the fixture's folder. The command may have changed others:
    /// a folder in `/tmp` is another one in the sandbox.
    left_traces: fn(&Path) -> bool,
}

const fn denied(name: &'static str, from: SandboxLevel, script: &'static str) -> SandboxCheck {
    SandboxCheck {
        name,
        script,
        expected: false,
        from,
        left_traces: |_| true,
    }
}

/// A check that changes files, so that it can be seen from outside.
const fn denied_change(
    name: &'static str,
    script: &'static str,
    left_traces: fn(&Path) -> bool,
) -> SandboxCheck {
    SandboxCheck {
        left_traces,
        ..denied(name, SandboxLevel::Partial, script)
    }
}

const fn allowed(name: &'static str, script: &'static str) -> SandboxCheck {
    SandboxCheck {
        name,
        script,
        expected: true,
        from: SandboxLevel::None,
        left_traces: |_| true,
    }
}

/// The variables in the scripts: `WS` is the workspace, `OUT` a folder outside, `HOME` a home folder with secrets, `PORT`
/// a TCP and UDP port, `SOCK` a Unix socket, and `SERVER` the id of this process.
const CHECKS: [SandboxCheck; 19] = [
    allowed("write in the workspace", "echo x > $WS/new && echo open"),
    allowed(
        "write a temporary file",
        "f=$(mktemp) && echo x > $f && echo open",
    ),
    allowed("commit to the repository", "echo x > $WS/.git/index && echo open"),
    allowed(
        "write a build tool's cache",
        "echo x > $HOME/.npm/_cacache/new && echo open",
    ),
    allowed("start processes", "(echo open) | cat"),
    denied_change(
        "write outside the workspace",
        "echo x > $OUT/new && echo open",
        |root| root.join("outside/new").exists(),
    ),
    denied_change(
        "delete a file outside",
        "rm -f $OUT/file; [ -e $OUT/file ] || echo open",
        |root| !root.join("outside/file").exists(),
    ),
    denied_change(
        "write a shell profile",
        "echo x >> $HOME/.bashrc && echo open",
        |root| fs::metadata(root.join("home/.bashrc")).is_ok_and(|file| file.len() > 0),
    ),
    denied(
        "write a git hook",
        SandboxLevel::Full,
        "echo x > $WS/.git/hooks/post-commit && echo open",
    ),
    denied(
        "write git settings",
        SandboxLevel::Full,
        "echo x >> $WS/.git/config && echo open",
    ),
    denied(
        "replace the folder around git settings",
        SandboxLevel::Full,
        "mv $WS/.git $WS/moved && mkdir $WS/.git && echo x > $WS/.git/config && echo open",
    ),
    denied(
        "write editor tasks",
        SandboxLevel::Full,
        "echo x > $WS/.vscode/tasks.json && echo open",
    ),
    SandboxCheck {
        from: SandboxLevel::Full,
        ..denied_change(
            "change a program that other projects run",
            "echo x > $HOME/.npm/_npx/tool && echo open",
            |root| fs::metadata(root.join("home/.npm/_npx/tool")).is_ok_and(|file| file.len() > 0),
        )
    },
    denied(
        "read a private key",
        SandboxLevel::Full,
        "grep -q secret $HOME/.ssh/id_ed25519 && echo open",
    ),
    denied(
        "read a token",
        SandboxLevel::Full,
        "grep -q secret $HOME/.npmrc && echo open",
    ),
    denied(
        "read the environment of agentls",
        SandboxLevel::Partial,
        "tr '\\0' '\\n' 2>/dev/null < /proc/$SERVER/environ | grep -q . && echo open",
    ),
    denied(
        "signal agentls",
        SandboxLevel::Partial,
        "kill -0 $SERVER 2>/dev/null && echo open",
    ),
    denied(
        "connect over TCP",
        SandboxLevel::Partial,
        "(: <> /dev/tcp/127.0.0.1/$PORT) 2>/dev/null && echo open",
    ),
    denied(
        "connect to a Unix socket",
        SandboxLevel::Partial,
        "{ [ -n \"$SOCK\" ] && command -v python3 >/dev/null; } || { echo skip; exit; }; python3 -c \"import socket,os; \
         socket.socket(socket.AF_UNIX).connect(os.environ['SOCK'])\" 2>/dev/null && echo open",
    ),
];

/// With `read = "allowlist"`.
const HOME_CHECK: SandboxCheck = denied(
    "read other files of the home folder",
    SandboxLevel::Full,
    "grep -q private $HOME/notes && echo open",
);

/// What the checks act on.
struct CheckFixture {
    root: PrivateTemp,
    tcp: TcpListener,
    _udp: Option<UdpSocket>,
    /// `None` if its path would be longer than that of a socket can be.
    unix: Option<UnixListener>,
}

impl CheckFixture {
    /// Creates the fixture in the current folder: the temporary folder of a sandboxed command is another one.
    fn create(parent: &Path) -> std::io::Result<Self> {
        let root = PrivateTemp::create_in(parent)?;
        for (file, text) in [
            ("workspace/.git/config", "[core]\n"),
            ("workspace/.git/hooks/pre-commit", ""),
            ("workspace/.vscode/tasks.json", "{}"),
            ("outside/file", ""),
            ("home/.bashrc", ""),
            ("home/.ssh/id_ed25519", "secret"),
            ("home/.npmrc", "secret"),
            ("home/notes", "private"),
            ("home/.npm/_cacache/file", ""),
            ("home/.npm/_npx/tool", ""),
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap_or(root.path()))?;
            fs::write(path, text)?;
        }
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let udp = UdpSocket::bind(tcp.local_addr()?).ok();
        let unix = match UnixListener::bind(root.path().join("socket")) {
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => None,
            bound => Some(bound?),
        };
        Ok(Self {
            root,
            tcp,
            _udp: udp,
            unix,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn prepare_command(&self, check: &SandboxCheck) -> std::io::Result<Command> {
        let port = self.tcp.local_addr()?.port();
        let socket = self.unix.as_ref().map(|_| self.path("socket"));
        Ok(Command::from_script(check.script)
            .current_dir(self.path("workspace"))
            .env("WS", self.path("workspace"))
            .env("OUT", self.path("outside"))
            .env("HOME", self.path("home"))
            .env("SOCK", socket.unwrap_or_default())
            .env("PORT", port.to_string())
            .env("SERVER", std::process::id().to_string()))
    }
}

word_enum! {
    /// What a check found.
    enum CheckVerdict {
        /// It is as it should be.
        Held = "held",
        /// It was possible, and this level does not promise otherwise.
        NotPromised = "notPromised",
        /// The program that the check needs is missing.
        NotTried = "notTried",
        /// The level promises something else.
        Broken = "broken",
    }
}

impl CheckVerdict {
    fn of(check: &SandboxCheck, output: &[u8], root: &Path, level: SandboxLevel) -> Self {
        let was_possible = output.starts_with(b"open") && (check.left_traces)(root);
        if output.starts_with(b"skip") {
            Self::NotTried
        } else if was_possible == check.expected {
            Self::Held
        } else if level >= check.from {
            Self::Broken
        } else {
            Self::NotPromised
        }
    }

    /// Returns whether the result differs from what a sandbox is for.
    fn is_failure(self) -> bool {
        match self {
            Self::NotPromised | Self::Broken => true,
            Self::Held | Self::NotTried => false,
        }
    }

    fn mark(self) -> (Color, &'static str) {
        match self {
            Self::Held => (Color::Green, "✓"),
            Self::NotPromised | Self::NotTried => (Color::Yellow, "!"),
            Self::Broken => (Color::BoldRed, "✗"),
        }
    }

    fn describe(self, check: &SandboxCheck) -> String {
        match (self, check.expected) {
            (Self::NotTried, _) => format!("not tried: {}", check.name),
            (Self::Held, true) | (Self::NotPromised | Self::Broken, false) => {
                format!("a command can {}", check.name)
            }
            (Self::Held, false) | (Self::NotPromised | Self::Broken, true) => {
                format!("a command cannot {}", check.name)
            }
        }
    }
}

/// Runs all checks. Returns the exit code: 1 if something was possible that must not be, whatever the level promises,
/// or if the sandbox hinders work.
pub(super) async fn test_sandbox(
    tools: &SandboxTools,
    source: &ConfigSource,
    home: HomeAccess,
    json: bool,
    mut screen: Screen,
) -> Result<i32, Box<dyn Error>> {
    let level = tools.detected.method.level();
    let results = run_checks(tools, source, home, level).await?;
    let code = i32::from(results.iter().any(|(_, verdict)| verdict.is_failure()));
    if json {
        let checks = results
            .iter()
            .map(|(check, verdict)| json!({"name": check.name, "expected": check.expected, "verdict": verdict.name()}));
        let report = json!({
            "method": tools.detected.method.name(),
            "level": level.to_string(),
            "failures": tools.detected.failures,
            "checks": checks.collect::<Vec<_>>(),
        });
        print_json(&format!("{report:#}\n"))?;
        return Ok(code);
    }
    let styler = screen.styler;
    screen.write_line(&format!("sandbox: {level} ({})", tools.detected.method.name()));
    for reason in &tools.detected.failures {
        screen.write_line(&format!("  not stronger: {reason}"));
    }
    for (check, verdict) in results {
        let (color, mark) = verdict.mark();
        let mark = styler.paint_text(color, mark);
        screen.write_line(&format!("{mark} {}", verdict.describe(check)));
    }
    Ok(code)
}

async fn run_checks(
    tools: &SandboxTools,
    source: &ConfigSource,
    home: HomeAccess,
    level: SandboxLevel,
) -> Result<Vec<(&'static SandboxCheck, CheckVerdict)>, Box<dyn Error>> {
    let parent = source.places.as_ref().map(|own| own.state_dir.clone());
    let parent = parent.unwrap_or_else(std::env::temp_dir);
    fs::create_dir_all(&parent)?;
    let fixture = CheckFixture::create(&parent)?;
    let has_allowlist = home == HomeAccess::Allowlist;
    let scope = SandboxScope {
        policy: SandboxPolicy::Workspace,
        method: tools.detected.method,
        workspace: vec![fixture.path("workspace")],
        home: Some(fixture.path("home")),
        temp: tools.temp.path().to_owned(),
        network: SandboxNetwork::Offline,
        extra_write: Vec::new(),
        extra_hide: Vec::new(),
        extra_read_only: Vec::new(),
        visible: Vec::new(),
        shown_home: has_allowlist.then(Vec::new),
        cache_layers: Some(fixture.path("layers")),
    };
    let mut results = Vec::new();
    for check in CHECKS.iter().chain(has_allowlist.then_some(&HOME_CHECK)) {
        let mut command = fixture.prepare_command(check)?;
        if tools.detected.method != SandboxMethod::None {
            command = confine(command, &scope, source);
        }
        let output = tools.launcher.spawn(command).await?.collect_output(1 << 10).await;
        results.push((
            check,
            CheckVerdict::of(check, &output.stdout, fixture.root.path(), level),
        ));
    }
    // The kernel leaves folders in it that the fixture could not remove.
    remove_layers(&fixture.path("layers"))?;
    Ok(results)
}
