//! The sandbox of commands (R-BOX), with the real program, kernel, and build tools.
//!
//! Every attack is also run with the sandbox off, and must succeed there: an attack that never works shows nothing. Where
//! the kernel lets nobody create user namespaces, the tests of that method are skipped and say so.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail them")]
#![expect(clippy::print_stderr, reason = "a skipped test says so")]
#![expect(
    clippy::disallowed_methods,
    reason = "the tests start the program as a user would"
)]

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::OnceLock;

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

#[path = "sandbox/attacks.rs"]
mod attacks;
#[path = "sandbox/random_plans.rs"]
mod random_plans;

use attacks::{ALL, ATTACKS, FULL, MAY_FAIL_ANYWAY, ONLY_ROOT};

/// The user of the tests that need one without privileges, if the tests themselves run as root.
const NOBODY: u32 = 65_534;

/// A home folder, a workspace with a repository, and things outside that commands must not reach.
struct World {
    root: tempfile::TempDir,
    /// Whether commands run as [`NOBODY`].
    as_nobody: bool,
    tcp: TcpListener,
    _udp: UdpSocket,
    _unix: UnixListener,
    _abstract: UnixListener,
    abstract_name: String,
    /// Another process of the same user.
    other: Child,
    /// A file in the machine's shared memory.
    shared: tempfile::NamedTempFile,
    _datagrams: UnixDatagram,
    _pipe: fs::File,
    _bus: UnixListener,
    bus_folder: tempfile::TempDir,
    /// A terminal, in whose other end commands may try to write.
    terminal: OwnedFd,
}

/// Where the sandbox is forced to be: the method's name, or `none`.
type Method = &'static str;

impl World {
    fn new(as_nobody: bool) -> Self {
        // Not in /tmp, which is another folder inside.
        let root = tempfile::Builder::new()
            .prefix("sandbox-test-")
            .tempdir_in("/var/lib")
            .or_else(|_| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")))
            .unwrap();
        for (file, text) in [
            ("ws/.git/HEAD", "ref: refs/heads/main\n"),
            ("ws/.git/config", "[core]\n"),
            ("ws/.git/hooks/pre-commit.sample", ""),
            ("ws/.git/modules/group/sub/config", "[core]\n"),
            ("ws/.jj/repo/config.toml", ""),
            ("ws/.vscode/tasks.json", "{}"),
            ("ws/.cargo/config.toml", ""),
            ("ws/file", "text"),
            ("outside/file", "text"),
            ("home/.bashrc", ""),
            ("home/.profile", ""),
            ("home/.ssh/id_ed25519", "secret"),
            ("home/.aws/credentials", "secret"),
            ("home/.npmrc", "secret"),
            ("home/.npm/file", ""),
            ("home/.local/share/agentls/store.db", "secret"),
            ("home/.config/agentls/config.toml", ""),
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        // As if an earlier command had left it: `.hg` is a folder that is made writable.
        std::os::unix::fs::symlink(root.path().join("outside"), root.path().join("ws/.hg")).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind(tcp.local_addr().unwrap()).unwrap();
        let unix = UnixListener::bind(root.path().join("outside/socket")).unwrap();
        let datagrams = UnixDatagram::bind(root.path().join("outside/datagrams")).unwrap();
        mkfifoat(CWD, root.path().join("outside/pipe"), Mode::from_raw_mode(0o600)).unwrap();
        // Open, so that a writer need not wait for a reader.
        let pipe = fs::File::options()
            .read(true)
            .write(true)
            .open(root.path().join("outside/pipe"));
        let pipe = pipe.unwrap();
        let bus_folder = tempfile::tempdir_in("/tmp").unwrap();
        let bus = UnixListener::bind(bus_folder.path().join("bus")).unwrap();
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let abstract_name = format!("agentls-test-{}", root.path().display());
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let world = Self {
            as_nobody,
            tcp,
            _udp: udp,
            _unix: unix,
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            abstract_name,
            other: start_other(as_nobody),
            shared: tempfile::NamedTempFile::new_in("/dev/shm").unwrap(),
            _datagrams: datagrams,
            _pipe: pipe,
            _bus: bus,
            bus_folder,
            terminal,
            root,
        };
        fs::write(world.shared.path(), "secret").unwrap();
        fs::set_permissions(world.shared.path(), fs::Permissions::from_mode(0o644)).unwrap();
        if as_nobody {
            give_to_nobody(world.root.path());
            give_to_nobody(world.bus_folder.path());
            chown(world.terminal_path(), Some(NOBODY), None).unwrap();
        }
        world
    }

    fn terminal_path(&self) -> PathBuf {
        let name = ptsname(&self.terminal, Vec::new()).unwrap();
        PathBuf::from(name.into_string().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Builds `agentls sandbox …`, run in the workspace.
    fn agentls(&self, method: Method, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(["sandbox"])
            .args(args)
            .current_dir(self.path("ws"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("OUT", self.path("outside"))
            .env("OTHER", self.other.id().to_string())
            .env("PORT", self.tcp.local_addr().unwrap().port().to_string())
            .env("ABSTRACT", &self.abstract_name)
            .env("SHARED", self.shared.path())
            .env("BUS", self.bus_folder.path().join("bus"))
            .env("TTY", self.terminal_path())
            .env("AGENTLS_SANDBOX_METHOD", method);
        if self.as_nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Runs a script in the sandbox; with the method `none`, without one.
    fn run(&self, method: Method, script: &str) -> Output {
        let mut command = match method {
            "none" => {
                let mut command = self.agentls(method, &[]);
                let mut plain = Command::new("bash");
                plain
                    .arg("-c")
                    .arg(script)
                    .current_dir(self.path("ws"))
                    .env_clear();
                plain.envs(
                    command
                        .get_envs()
                        .filter_map(|(name, value)| Some((name, value?))),
                );
                if self.as_nobody {
                    plain.uid(NOBODY).gid(NOBODY);
                }
                command = plain;
                command
            }
            method => self.agentls(method, &["run", "--", "bash", "-c", script]),
        };
        command.output().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.other.kill();
        let _ = self.other.wait();
    }
}

/// Starts a process with a secret in its environment.
fn start_other(as_nobody: bool) -> Child {
    let mut command = Command::new("sleep");
    command.arg("1000").env("SECRET", "secret");
    if as_nobody {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.spawn().unwrap()
}

/// Returns the program in a folder that every user can enter.
fn program() -> &'static Path {
    static COPY: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = COPY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("agentls");
        fs::copy(env!("CARGO_BIN_EXE_agentls"), &path).unwrap();
        (folder, path)
    });
    path
}

fn give_to_nobody(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give_to_nobody(&entry.unwrap().path());
        }
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Returns the worlds to test in: this user's, and an ordinary user's if this one is root.
fn worlds() -> Vec<World> {
    let mut worlds = vec![World::new(false)];
    if is_root() {
        worlds.push(World::new(true));
    }
    worlds
}

/// Returns whether this kernel has the method; if not, the test says so.
fn is_available(world: &World, method: Method) -> bool {
    let output = world.run(method, "echo works");
    let works = output.stdout == b"works\n";
    if !works {
        let reason = String::from_utf8_lossy(&output.stderr);
        eprintln!("skipped: the method {method} does not work here: {reason}");
    }
    works
}

fn is_privileged(world: &World) -> bool {
    is_root() && !world.as_nobody
}

/// What a script prints in the end if its attack succeeded.
const OPEN: &[u8] = b"open\n";

#[test]
fn attacks_succeed_without_the_sandbox_and_fail_in_it() {
    let mut wrong = Vec::new();
    for world in worlds() {
        let who = if world.as_nobody {
            "an ordinary user"
        } else {
            "this user"
        };
        let methods: Vec<Method> = ALL
            .iter()
            .copied()
            .filter(|method| is_available(&world, method))
            .collect();
        for (name, promised, script) in ATTACKS {
            // Without a sandbox last, because a successful attack may change the world.
            for method in methods.iter().copied().filter(|method| promised.contains(method)) {
                if world.run(method, script).stdout.ends_with(OPEN) {
                    wrong.push(format!("{name}: succeeds with {method}, as {who}"));
                }
            }
            let output = world.run("none", script);
            let may_fail =
                MAY_FAIL_ANYWAY.contains(name) || (ONLY_ROOT.contains(name) && !is_privileged(&world));
            if output.stdout.ends_with(OPEN) {
                continue;
            }
            if may_fail {
                eprintln!("not seen to succeed without a sandbox: {name}, as {who}");
            } else {
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                wrong.push(format!("{name}: fails without a sandbox, as {who}: {errors}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_command_line_test_reports_what_each_method_holds() {
    for world in worlds() {
        for (method, level) in [
            ("namespaces", "full"),
            ("bubblewrap", "full"),
            ("landlock", "partial"),
            ("none", "none"),
        ] {
            if method != "none" && !is_available(&world, method) {
                continue;
            }
            let output = world.agentls(method, &["test", "--json"]).output().unwrap();
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(report["level"], level, "{report:#}");
            for check in report["checks"].as_array().unwrap() {
                let verdict = check["verdict"].as_str().unwrap();
                assert_ne!(verdict, "broken", "{method}: {check}");
                // Nothing is promised without a sandbox, so each attack must be seen to work there.
                // That one holds without a sandbox too.
                let is_attack =
                    check["expected"] == false && check["name"] != "read the environment of agentls";
                if method == "none" && is_attack {
                    assert_eq!(verdict, "notPromised", "{check}");
                }
            }
            assert!(output.status.success(), "{method}: {report:#}");
        }
    }
}

#[test]
fn the_command_line_test_holds_with_a_home_folder_in_tmp() {
    let world = World::new(false);
    let home = tempfile::tempdir_in("/tmp").unwrap();
    for (method, verdict) in [
        ("namespaces", "held"),
        ("bubblewrap", "held"),
        ("none", "notPromised"),
    ] {
        if method != "none" && !is_available(&world, method) {
            continue;
        }
        let mut command = world.agentls(method, &["test", "--json"]);
        let output = command.env("HOME", home.path()).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        for check in report["checks"].as_array().unwrap() {
            if check["expected"] == false && check["name"] != "read the environment of agentls" {
                assert_eq!(check["verdict"], verdict, "{method}: {check}");
            }
        }
        assert!(output.status.success(), "{method}: {report:#}");
    }
}

#[test]
fn output_exit_code_and_signals_come_through() {
    let world = World::new(false);
    for method in ALL.iter().copied().filter(|method| is_available(&world, method)) {
        let output = world.run(method, "echo out; echo err >&2; exit 7");
        assert_eq!(
            (
                output.stdout.as_slice(),
                output.stderr.as_slice(),
                output.status.code()
            ),
            (b"out\n".as_slice(), b"err\n".as_slice(), Some(7)),
            "{method}"
        );
        let output = world.run(method, "kill -KILL $$");
        assert_eq!(output.status.code(), Some(128 + 9), "{method}");
        let output = world.run(method, "echo $(id -u)");
        let own = fs::metadata("/proc/self").unwrap().uid();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap().trim(),
            own.to_string(),
            "{method}"
        );
    }
}

#[test]
fn files_that_agentls_inherited_do_not_reach_a_command() {
    let world = World::new(false);
    let inner = "cat <&9; echo end";
    let outer = format!(
        "exec 9<$HOME/.ssh/id_ed25519; exec {} sandbox run -- bash -c '{inner}'",
        program().display()
    );
    let run = |method: Method, script: &str| {
        let mut command = Command::new("bash");
        let environment = world.agentls(method, &[]);
        command.args(["-c", script]).current_dir(world.path("ws"));
        command.envs(
            environment
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
        assert_eq!(run(method, &outer), "end\n", "{method}");
    }
    let unconfined = format!("exec 9<$HOME/.ssh/id_ed25519; {inner}");
    assert_eq!(run("none", &unconfined), "secretend\n");
}

#[test]
fn nothing_of_a_command_outlives_it() {
    let world = World::new(false);
    let mark = format!("1{}", std::process::id());
    for method in ALL.iter().copied().filter(|method| is_available(&world, method)) {
        // Daemons, and an attack on whatever supervises them.
        let script = format!(
            "setsid sleep {mark} & (setsid sh -c 'sleep {mark} & sleep {mark}' &) ; kill -KILL $PPID; kill -KILL 1; echo end"
        );
        world.run(method, &script);
        let left = Command::new("pgrep")
            .args(["-f", &format!("^sleep {mark}$")])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&left.stdout), "", "{method}");
    }
}

#[test]
fn real_work_needs_nothing_more() {
    for world in worlds() {
        for method in ALL.iter().copied().filter(|method| is_available(&world, method)) {
            for (tool, script) in [
                (
                    "git",
                    "rm -rf r && mkdir r && cd r && git init -q . && echo a > a && git add a && \
                  git -c user.name=a -c user.email=a@example.com commit -qm first && git log --oneline | grep -q first",
                ),
                (
                    "make",
                    "printf 'all:\\n\\tprintf 1 > made\\n' > Makefile && make -s && [ -e made ]",
                ),
                (
                    "python3",
                    "mkdir -p t && printf 'import tempfile, unittest\\nclass T(unittest.TestCase):\\n  def test(self):\\n    tempfile.TemporaryFile().write(b\"x\")\\n' > t/test_a.py && python3 -m unittest -q t/test_a.py",
                ),
                (
                    "python3",
                    "python3 -c \"import multiprocessing as m; p=m.Pool(2); print(p.map(abs,[-1,2]))\" | grep -q 2",
                ),
                (
                    "cc",
                    "printf 'int main(void){return 0;}' > m.c && cc m.c -o m && ./m",
                ),
            ] {
                let exists = Command::new("which").arg(tool).output().unwrap().status.success();
                if !exists {
                    eprintln!("skipped: {tool} is not installed");
                    continue;
                }
                let output = world.run(method, script);
                assert!(
                    output.status.success(),
                    "{tool} with {method}: {}{}",
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
    }
}

#[test]
fn a_server_of_the_command_can_be_reached_by_the_command() {
    let world = World::new(false);
    let script = "python3 - <<'P'\nimport socket\ns=socket.create_server(('127.0.0.1',0))\n\
        c=socket.create_connection(s.getsockname())\nprint('reached')\nP";
    for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
        assert_eq!(world.run(method, script).stdout, b"reached\n", "{method}");
    }
}

#[test]
fn a_folder_that_cannot_be_confined_is_refused() {
    let world = World::new(false);
    for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
        let mut command = world.agentls(method, &["run", "--", "true"]);
        let output = command.current_dir("/").output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains("the root folder cannot be a workspace folder"),
            "{method}: {errors}"
        );
        assert_eq!(output.status.code(), Some(1), "{method}");
    }
}
