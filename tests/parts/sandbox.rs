//! The sandbox of commands (R-BOX), with the real program, kernel, and build tools.
//!
//! Every attack is also run with the sandbox off, and must succeed there: an attack that never works shows nothing. Where
//! the kernel lets nobody create user namespaces, the tests of that method are skipped and say so.
#![expect(clippy::print_stderr, reason = "a skipped test says so")]
#![expect(
    clippy::disallowed_methods,
    reason = "the tests start the program as a user would"
)]

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, OnceLock};

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

mod attacks;
mod broken_settings;
mod caches;
mod home_allowlist;
mod long_scripts;
mod nested_folders;
mod outer_repository;
mod private_folders;
mod random_plans;
mod run_folder;
mod second_paths;
mod sockets;
mod variables;
mod visible_paths;

use attacks::{ALL, Attack, FULL, MAY_FAIL_ANYWAY, ONLY_ORDINARY, ONLY_ROOT, PREPARED_BY_ROOT};

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
    other: Option<Child>,
    /// A file in the machine's shared memory.
    shared: tempfile::NamedTempFile,
    _datagrams: UnixDatagram,
    _pipe: fs::File,
    _bus: UnixListener,
    bus_folder: tempfile::TempDir,
    /// A socket in `/run`, where only root can create one.
    run_socket: Option<(tempfile::TempDir, UnixListener)>,
    /// The path and abstract socket of an X server, whose number is that of the TCP port.
    _x_server: [UnixListener; 2],
    resolver_port: u16,
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
            ("ws/.git/worktrees/side/config.worktree", "[core]\n"),
            ("ws/conf/workspace.xml", ""),
            ("ws/.cargo/agents.md", ""),
            ("ws/tools/hooks/pre-commit", ""),
            (
                "home/.gitconfig",
                "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ~/../ws/shared/git\n",
            ),
            ("ws/shared/git", ""),
            ("outside/file", "text"),
            ("home/.bashrc", ""),
            ("home/.profile", ""),
            ("home/.ssh/id_ed25519", "secret"),
            ("home/.aws/credentials", "secret"),
            ("home/.npmrc", "secret"),
            ("home/.npm/file", ""),
            ("home/.npm/_cacache/file", ""),
            ("home/.config/git/ignore", ""),
            ("home/.docker/run/settings", ""),
            ("home/bin/tool", ""),
            ("home/notes", ""),
            ("home/project/file", ""),
            ("ws/sub/file", ""),
            ("home/.local/share/agentls/store.db", "secret"),
            ("home/.config/agentls/config.toml", ""),
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        // As if an earlier command had left it: `.hg` is a folder that is made writable.
        std::os::unix::fs::symlink(root.path().join("outside"), root.path().join("ws/.hg")).unwrap();
        for (target, link) in [("conf", "ws/.zed"), (".cargo/agents.md", "ws/AGENTS.md")] {
            std::os::unix::fs::symlink(target, root.path().join(link)).unwrap();
        }
        let (tcp, udp) = bind_same_port();
        let port = tcp.local_addr().unwrap().port();
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
        let mut world = Self {
            as_nobody,
            tcp,
            _udp: udp,
            _unix: unix,
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            abstract_name,
            // Started last, when its folder has its owner.
            other: None,
            run_socket: bind_in_run(),
            resolver_port: start_resolver(),
            shared: tempfile::NamedTempFile::new_in("/dev/shm").unwrap(),
            _x_server: bind_x_server(port),
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
        add_set_uid_program(&world.path("outside/set-uid"), as_nobody);
        world.other = Some(start_other(as_nobody, &world.path("ws/sub")));
        world
    }

    fn port(&self) -> u16 {
        self.tcp.local_addr().unwrap().port()
    }

    fn terminal_path(&self) -> PathBuf {
        let name = ptsname(&self.terminal, Vec::new()).unwrap();
        PathBuf::from(name.into_string().unwrap())
    }

    fn run_socket_path(&self) -> PathBuf {
        let path = |(folder, _): &(tempfile::TempDir, UnixListener)| folder.path().join("socket");
        self.run_socket.as_ref().map(path).unwrap_or_default()
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
            .env("PATH", search_path())
            .env("HOME", self.path("home"))
            .env("OUT", self.path("outside"))
            .env("OTHER", self.other.as_ref().unwrap().id().to_string())
            .env("DNS", self.resolver_port.to_string())
            .env("RUN_SOCKET", self.run_socket_path())
            .env("PORT", self.port().to_string())
            .env("ABSTRACT", &self.abstract_name)
            .env("X_SERVER", x_server_path(self.port()))
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
        let _ = fs::remove_file(x_server_path(self.port()));
        if let Some(other) = &mut self.other {
            let _ = other.kill();
            let _ = other.wait();
        }
    }
}

/// Starts a process with a secret in its environment, and a socket that it binds by a relative path.
fn start_other(as_nobody: bool, folder: &Path) -> Child {
    let script = "import socket,time; s=socket.socket(socket.AF_UNIX); s.bind('relative'); s.listen(9); \
        print(flush=True); time.sleep(1000)";
    let mut command = Command::new("python3");
    command
        .args(["-c", script])
        .current_dir(folder)
        .env("PATH", search_path())
        .env("SECRET", "secret")
        .stdout(Stdio::piped());
    if as_nobody {
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut child = command.spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

/// Adds a program that runs as another user, if that is possible here. It prints user ids.
fn add_set_uid_program(path: &Path, as_nobody: bool) {
    if !is_root() {
        return;
    }
    let id = Command::new("bash")
        .args(["-c", "command -v id"])
        .output()
        .unwrap();
    fs::copy(String::from_utf8(id.stdout).unwrap().trim(), path).unwrap();
    chown(path, Some(if as_nobody { 0 } else { NOBODY }), None).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o4755)).unwrap();
}

/// Binds a socket in `/run`, which every user may use.
fn bind_in_run() -> Option<(tempfile::TempDir, UnixListener)> {
    let folder = tempfile::tempdir_in("/run").ok()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("socket");
    let socket = UnixListener::bind(&path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    Some((folder, socket))
}

fn x_server_path(number: u16) -> String {
    format!("/tmp/.X11-unix/X{number}")
}

/// Binds the sockets of an X server, as every user may use them.
fn bind_x_server(number: u16) -> [UnixListener; 2] {
    let path = x_server_path(number);
    // Another test may create the folder at the same time.
    if fs::create_dir("/tmp/.X11-unix").is_ok() {
        fs::set_permissions("/tmp/.X11-unix", fs::Permissions::from_mode(0o1777)).unwrap();
    }
    let _ = fs::remove_file(&path);
    let by_path = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    let address = SocketAddr::from_abstract_name(&path).unwrap();
    [by_path, UnixListener::bind_addr(&address).unwrap()]
}

/// Binds a port that is free for both protocols. Another test may use the number that one of them gets.
fn bind_same_port() -> (TcpListener, UdpSocket) {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        match UdpSocket::bind(tcp.local_addr().unwrap()) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            udp => return (tcp, udp.unwrap()),
        }
    }
}

/// Starts a resolver that answers every query with its first bytes, and returns its port. It ends with the test's process.
fn start_resolver() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            // The bit of an answer.
            query[2] |= 0x80;
            let _ = socket.send_to(&query[..length], from);
        }
    });
    port
}

/// Returns the variable `PATH` of commands, with Python itself before what may only start it.
fn search_path() -> &'static OsStr {
    static PATH: OnceLock<OsString> = OnceLock::new();
    PATH.get_or_init(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let script = "import os, sys; print(os.path.dirname(sys.executable), end='')";
        let python = Command::new("python3").args(["-c", script]).output().unwrap();
        let folder = PathBuf::from(OsString::from_vec(python.stdout));
        std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&path))).unwrap()
    })
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

/// Returns whether this kernel has the method; if not, the test says so. A sample of the tests (`AGENTLS_TEST_SAMPLE`)
/// tries an ordinary user with the first method only.
fn is_available(world: &World, method: Method) -> bool {
    static AVAILABLE: Mutex<BTreeSet<(bool, Method)>> = Mutex::new(BTreeSet::new());
    if world.as_nobody && method != ALL[0] && std::env::var_os("AGENTLS_TEST_SAMPLE").is_some() {
        return false;
    }
    let key = (world.as_nobody, method);
    if AVAILABLE.lock().unwrap().contains(&key) {
        return true;
    }
    let works = has_method(world, method);
    if works {
        AVAILABLE.lock().unwrap().insert(key);
    }
    works
}

fn has_method(world: &World, method: Method) -> bool {
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

/// Declares a test of a list of attacks for each user. They are separate, so that they run side by side.
macro_rules! test_attacks {
    ($($list:ident: $this_user:ident, $ordinary_user:ident;)*) => {$(
        #[test]
        fn $this_user() {
            try_attacks(&World::new(false), attacks::$list);
        }

        #[test]
        fn $ordinary_user() {
            if is_root() {
                try_attacks(&World::new(true), attacks::$list);
            }
        }
    )*};
}

test_attacks! {
    PLAIN: plain_attacks_fail_in_the_sandbox, plain_attacks_of_an_ordinary_user_fail_in_the_sandbox;
    FILES: attacks_on_files_fail_in_the_sandbox, attacks_on_files_of_an_ordinary_user_fail_in_the_sandbox;
    PROCESSES: attacks_on_processes_fail_in_the_sandbox, attacks_on_processes_of_an_ordinary_user_fail_in_the_sandbox;
    SOCKETS: attacks_on_sockets_fail_in_the_sandbox, attacks_on_sockets_of_an_ordinary_user_fail_in_the_sandbox;
    KERNEL: attacks_on_the_kernel_fail_in_the_sandbox, attacks_on_the_kernel_of_an_ordinary_user_fail_in_the_sandbox;
}

/// Returns whether this machine denies an attack to everybody.
fn may_fail_here(name: &str) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let is_filtered = status.lines().any(|line| line == "Seccomp:\t2");
    let denies = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).output().unwrap().status.success()
    };
    let mut known = MAY_FAIL_ANYWAY.iter().filter(|(_, names)| names.contains(&name));
    known.any(|(script, _)| is_filtered || denies(script))
}

/// Tries attacks with every method, and sees them succeed without one.
fn try_attacks(world: &World, attacks: &[Attack]) {
    let mut wrong = Vec::new();
    let who = if world.as_nobody {
        "an ordinary user"
    } else {
        "this user"
    };
    let methods: Vec<Method> = ALL
        .iter()
        .copied()
        .filter(|method| is_available(world, method))
        .collect();
    for (name, promised, script) in attacks {
        // Without a sandbox last, because a successful attack may change the world.
        for method in methods.iter().copied().filter(|method| promised.contains(method)) {
            if world.run(method, script).stdout.ends_with(OPEN) {
                wrong.push(format!("{name}: succeeds with {method}, as {who}"));
            }
        }
        let output = world.run("none", script);
        let may_fail = may_fail_here(name)
            || (ONLY_ROOT.contains(name) && !is_privileged(world))
            || (ONLY_ORDINARY.contains(name) && is_privileged(world))
            || (PREPARED_BY_ROOT.contains(name) && !is_root());
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
            // Something was possible with the others.
            let code = i32::from(level != "full");
            assert_eq!(output.status.code(), Some(code), "{method}: {report:#}");
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
        let code = i32::from(method == "none");
        assert_eq!(output.status.code(), Some(code), "{method}: {report:#}");
    }
}

#[test]
fn the_command_line_test_holds_with_a_home_folder_of_a_long_path() {
    let world = World::new(false);
    // Longer than the path of a socket can be.
    let home = world.path("home").join("long".repeat(40));
    fs::create_dir(&home).unwrap();
    for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
        let mut command = world.agentls(method, &["test"]);
        let output = command.env("HOME", &home).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("not tried: connect to a Unix socket"),
            "{method}: {output:?}"
        );
        assert_eq!(output.status.code(), Some(0), "{method}: {text}");
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
fn a_command_of_the_user_is_confined_as_one_of_the_agent() {
    let world = World::new(false);
    for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
        let run = |args: &[&str]| {
            let mut command = world.agentls(method, args);
            command
                .env("GITHUB_TOKEN", "ghp_0123456789abcdefghijklmnopqrstuvwxyz")
                .env("KEPT", "kept");
            command.output().unwrap()
        };
        let script = "echo \"$KEPT$GITHUB_TOKEN\"";
        let output = run(&["run", "--", "sh", "-c", script]);
        assert_eq!(output.stdout, b"kept\n", "{method}: {output:?}");
        let script = "echo x > file && echo open";
        let output = run(&["run", "--mode", "plan", "--", "sh", "-c", script]);
        assert_eq!(output.stdout, b"", "{method}");
        let output = run(&["run", "--mode", "full", "--", "sh", "-c", script]);
        assert_eq!(output.stdout, OPEN, "{method}: {output:?}");
        let output = run(&[
            "run",
            "--mode",
            "full",
            "--",
            "sh",
            "-c",
            "echo x > $OUT/file && echo open",
        ]);
        assert_eq!(output.stdout, b"", "{method}");
        let output = run(&["run", "--", "no-such-program"]);
        assert_eq!(output.status.code(), Some(127), "{method}: {output:?}");
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
fn the_settings_count_for_a_command_of_the_user() {
    let world = World::new(false);
    let config = world.path("sandbox.toml");
    let with_settings = |method: Method, settings: &str, script: &str| {
        fs::write(&config, format!("[sandbox]\n{settings}\n")).unwrap();
        let words = [
            "run",
            "--config",
            config.to_str().unwrap(),
            "--",
            "bash",
            "-c",
            script,
        ];
        world.agentls(method, &words).output().unwrap()
    };
    let (writable, hidden) = (world.path("extra/writable"), world.path("extra/hidden"));
    for folder in [&writable, &hidden] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(hidden.join("file"), "text").unwrap();
    let script = format!(
        "echo x > {}/new && echo written; cat {}/file || echo hidden",
        writable.display(),
        hidden.display()
    );
    for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
        let output = with_settings(method, "", &script);
        assert_eq!(output.stdout, b"text", "{method}");
        let settings = format!("write = [{writable:?}]\nread_deny = [{hidden:?}]\nrequired = true");
        let output = with_settings(method, &settings, &script);
        assert_eq!(output.stdout, b"written\nhidden\n", "{method}: {output:?}");
    }
    let output = with_settings("landlock", "required = true", "echo ran");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(1), 0),
        "{errors}"
    );
    assert!(
        errors.contains("require a full one, not landlock; AGENTLS_SANDBOX_METHOD is \"landlock\""),
        "{errors}"
    );
}

#[test]
fn a_folder_that_cannot_be_confined_is_refused() {
    let world = World::new(false);
    for method in ALL.iter().copied().filter(|method| is_available(&world, method)) {
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

#[test]
fn files_in_shared_memory_do_not_leave_the_sandbox() {
    let world = World::new(false);
    let name = format!("left-{}", std::process::id());
    let left = Path::new("/dev/shm").join(&name);
    let script = format!("echo x > /dev/shm/{name} && [ -e /dev/shm/{name} ] && echo open");
    for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
        assert_eq!(world.run(method, &script).stdout, OPEN, "{method}");
        assert!(!left.exists(), "{method}");
        let again = world.run(method, &format!("[ -e /dev/shm/{name} ] && echo open"));
        assert_eq!(again.stdout, b"", "{method}: each command has its own");
    }
    assert_eq!(world.run("none", &script).stdout, OPEN);
    assert!(left.exists());
    fs::remove_file(left).unwrap();
}

#[test]
fn a_service_that_starts_later_is_closed_where_its_folder_is_hidden() {
    let world = World::new(false);
    let script = "touch waits; until [ -e go ]; do sleep 0.02; done; \
        python3 -c \"import os,socket; socket.socket(socket.AF_UNIX).connect(os.environ['HOME']+'/.docker/run/docker.sock')\" && echo open";
    for method in ["namespaces", "bubblewrap", "landlock", "none"] {
        if method != "none" && !is_available(&world, method) {
            continue;
        }
        for name in ["ws/waits", "ws/go", "home/.docker/run/docker.sock"] {
            let _ = fs::remove_file(world.path(name));
        }
        let output = std::thread::scope(|scope| {
            let command = scope.spawn(|| world.run(method, script));
            while !world.path("ws/waits").exists() && !command.is_finished() {
                std::thread::yield_now();
            }
            let _service = UnixListener::bind(world.path("home/.docker/run/docker.sock")).unwrap();
            fs::write(world.path("ws/go"), "").unwrap();
            command.join().unwrap()
        });
        assert_eq!(output.stdout == OPEN, method == "none", "{method}");
    }
}

/// Ways to change what programs of the user do, in a home folder.
const IN_HOME: [&str; 7] = [
    "echo x >> $HOME/.bashrc",
    "mv $HOME/.bashrc $HOME/moved && mv $HOME/moved $HOME/.bashrc",
    "echo x > $HOME/.xprofile",
    "echo x > $HOME/.config/git/config",
    "mkdir -p $HOME/.config/autostart",
    "echo x > $HOME/bin/tool",
    "touch $HOME/.profile.new && mv $HOME/.profile.new $HOME/.profile",
];

#[test]
fn a_home_folder_as_workspace_is_writable_only_where_it_is_visible() {
    let world = World::new(false);
    let run = |method: Method, folder: &str, script: &str| {
        let script = format!("{script} && echo open");
        let mut command = match method {
            "none" => Command::new("bash"),
            method => world.agentls(method, &["run", "--", "bash"]),
        };
        command.args(["-c", &script]).env("HOME", world.path("home"));
        command.current_dir(world.path(folder)).output().unwrap()
    };
    for method in ALL.iter().copied().filter(|method| is_available(&world, method)) {
        for allowed in [
            "echo x >> $HOME/notes",
            "echo x > $HOME/project/new",
            "echo x > $HOME/.npm/_cacache/new",
        ] {
            let output = run(method, "home", allowed);
            assert_eq!(output.stdout, OPEN, "{allowed} with {method}: {output:?}");
        }
        for attack in IN_HOME {
            assert_eq!(run(method, "home", attack).stdout, b"", "{attack} with {method}");
            // Landlock cannot take the home folder out of the workspace around it.
            if method != "landlock" {
                let output = run(method, "", attack);
                assert_eq!(
                    output.stdout, b"",
                    "{attack} with {method}, around the home folder"
                );
            }
        }
        let around = run(method, "", "echo x > ws/new && echo x > home/project/new");
        assert_eq!(around.stdout, OPEN, "{method}: {around:?}");
    }
    for attack in IN_HOME {
        assert_eq!(run("none", "home", attack).stdout, OPEN, "{attack}");
    }
}

#[test]
fn the_configuration_of_agentls_cannot_be_created() {
    let world = World::new(false);
    let run = |method: Method, folder: &str| {
        let folder = world.path(folder);
        let _ = fs::remove_dir_all(world.path("home/.config/agentls"));
        let script = "mkdir -p $HOME/.config/agentls; echo > $HOME/.config/agentls/config.toml && echo open";
        let mut command = match method {
            "none" => Command::new("bash"),
            method => world.agentls(method, &["run", "--", "bash"]),
        };
        command.args(["-c", script]).env("HOME", world.path("home"));
        command.current_dir(folder).output().unwrap()
    };
    for folder in ["home/.config", "home"] {
        for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
            let output = run(method, folder);
            assert_eq!(output.stdout, b"", "{method}: {folder}: {output:?}");
        }
        assert_eq!(run("none", folder).stdout, OPEN, "{folder}");
    }
    if is_available(&world, "landlock") {
        let errors = String::from_utf8(run("landlock", "home/.config").stderr).unwrap();
        assert!(
            errors.contains("agentls/config.toml, obeyed by agentls"),
            "{errors}"
        );
    }
}

#[test]
fn what_is_piped_in_reaches_a_command() {
    let world = World::new(false);
    let input = world.path("outside/input");
    fs::write(&input, "from a file\n").unwrap();
    for method in ALL.iter().copied().filter(|method| is_available(&world, method)) {
        let mut command = world.agentls(
            method,
            &["run", "--", "bash", "-c", "cat; echo x > /proc/self/fd/0"],
        );
        let output = command.stdin(fs::File::open(&input).unwrap()).output().unwrap();
        assert_eq!(output.stdout, b"from a file\n", "{method}: {output:?}");
        assert_eq!(fs::read(&input).unwrap(), b"from a file\n", "{method}: a copy");
        let mut command = world.agentls(method, &["run", "--", "cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"from a pipe\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"from a pipe\n", "{method}");
    }
}

#[test]
fn a_workspace_in_a_place_of_secrets_is_refused_with_the_reason() {
    let world = World::new(false);
    fs::create_dir(world.path("home/.ssh/x")).unwrap();
    for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
        let mut command = world.agentls(method, &["run", "--", "true"]);
        let output = command.current_dir(world.path("home/.ssh/x")).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("as a place of secrets"), "{method}: {errors}");
        assert_eq!(output.status.code(), Some(1), "{method}");
    }
}

#[test]
fn missing_caches_of_installed_tools_can_be_written() {
    for method in ALL {
        let world = World::new(false);
        if !is_available(&world, method) {
            continue;
        }
        let bin = world.path("outside/bin");
        fs::create_dir(&bin).unwrap();
        fs::write(bin.join("uv"), "").unwrap();
        fs::set_permissions(bin.join("uv"), fs::Permissions::from_mode(0o755)).unwrap();
        let path =
            std::env::join_paths([bin].into_iter().chain(std::env::split_paths(search_path()))).unwrap();
        let script = "echo x > $HOME/.cache/uv/file && echo open";
        let mut command = world.agentls(method, &["run", "--", "bash", "-c", script]);
        let output = command.env("PATH", path).output().unwrap();
        assert_eq!(output.stdout, OPEN, "{method}: {output:?}");
        assert!(world.path("home/.cache/uv").is_dir());
        let is_itself = world.path("home/.cache/uv/file").is_file();
        assert_eq!(is_itself, *method != "namespaces", "{method}");
    }
}

#[test]
fn the_command_line_names_created_files_that_make_programs_run() {
    let world = World::new(false);
    for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
        let output = world.run(method, "mkdir .idea && echo x > .idea/x && echo x > plain");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains("agentls: created .idea, obeyed by JetBrains editors"),
            "{method}: {errors}"
        );
        assert_eq!(errors.lines().count(), 1, "{method}: {errors}");
        fs::remove_dir_all(world.path("ws/.idea")).unwrap();
    }
}
