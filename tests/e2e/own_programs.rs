//! Programs of the user's own settings, or of the editor: no repository decides what they run.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Client, Config, Options, World};
use crate::mcp::servers;
use crate::mock_llm::Reply;

/// The programs, by what of the clone each would run: name, command, arguments.
const PROGRAMS: [(&str, &str, &[&str]); 7] = [
    ("module", "python3", &["-m", "clone_module"]),
    ("variable", "python3", &["-m", "clone_variable"]),
    ("package", "npx", &["--offline", "--yes", "clone-package"]),
    ("registry", "npx", &["--yes", "clone-missing"]),
    ("script", "npm", &["run", "start"]),
    ("environment", "uvx", &["clone-environment"]),
    ("program", "clone-program", &[]),
];

/// What only a shell with direnv would run.
const ENVRC: &str = "envrc";

/// A clone that puts its own code wherever a program of the user's might look for it. Whatever runs leaves a mark.
pub struct HostileClone {
    pub world: World,
    /// The registry that its `.npmrc` names.
    registry: TcpListener,
}

impl HostileClone {
    pub fn new(tables: String) -> Self {
        let world = World::with(Config {
            tables,
            ..Config::default()
        });
        let registry = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        registry.set_nonblocking(true).unwrap();
        let clone = Self { world, registry };
        let ran = |name: &str| clone.mark(name).display().to_string();
        let script = |name: &str| format!("#!/bin/sh\necho x >'{}'\n", ran(name));
        let module = |name: &str| format!("open({:?}, 'w')\n", ran(name));
        clone.write("clone_module/__main__.py", module("module"));
        clone.write("on_path/clone_variable/__main__.py", module("variable"));
        clone.write("node_modules/.bin/clone-package", script("package"));
        clone.write(".venv/bin/clone-environment", script("environment"));
        clone.write("on_path/clone-program", script("program"));
        clone.write(".envrc", script(ENVRC));
        let package = json!({"name": "clone-package", "version": "1.0.0", "bin": "../.bin/clone-package"});
        clone.write("node_modules/clone-package/package.json", package.to_string());
        let project = json!({"name": "x", "scripts": {"start": format!("echo x >'{}'", ran("script"))}});
        clone.write("package.json", project.to_string());
        let port = clone.registry.local_addr().unwrap().port();
        let settings = |port| format!("registry=http://127.0.0.1:{port}/\nfetch-retries=0\n");
        clone.write(".npmrc", settings(port));
        // The user's own registry, where nothing listens.
        std::fs::write(clone.world.path(".npmrc"), settings(9)).unwrap();
        // As uvx does, it runs what the environment of the folder has.
        std::fs::create_dir(clone.world.path("tools")).unwrap();
        let uvx = clone.world.path("tools/uvx");
        std::fs::write(&uvx, "#!/bin/sh\nexec \".venv/bin/$1\"\n").unwrap();
        std::fs::set_permissions(uvx, Permissions::from_mode(0o755)).unwrap();
        clone
    }

    fn write(&self, path: &str, text: String) {
        let file = self.world.write(path, text);
        std::fs::set_permissions(file, Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns the file that a program of the clone writes.
    fn mark(&self, name: &str) -> PathBuf {
        self.world.path(&format!("ran-{name}"))
    }

    /// Returns variables that lead into the clone, as after `direnv allow` or `npm run`.
    #[expect(clippy::disallowed_methods, reason = "npx is where the tests' own PATH says")]
    pub fn env(&self) -> Vec<(String, String)> {
        let inside = self.world.workspace().join("on_path");
        let usual = std::env::var_os("PATH").unwrap_or_default();
        let entries = [inside.clone(), self.world.path("tools")];
        let entries = entries.into_iter().chain(std::env::split_paths(&usual));
        let path = std::env::join_paths(entries).unwrap().into_string().unwrap();
        vec![
            ("PATH".to_owned(), path),
            ("PYTHONPATH".to_owned(), inside.display().to_string()),
        ]
    }

    /// Starts a server with these variables.
    fn start(&self) -> Client {
        self.world.start_with(Options {
            env: self.env(),
            ..Options::default()
        })
    }

    fn trust(&self, client: &Client) {
        let _: Value = client.call(
            "agent/setTrust",
            json!({"folder": self.world.workspace(), "trusted": true}),
        );
    }

    /// Closes the connections to the clone's registry, and notes that there were some.
    fn answer_registry(&self) {
        while self.registry.accept().is_ok() {
            std::fs::write(self.mark("registry"), "").unwrap();
        }
    }

    /// Returns what of the clone ran, and forgets it.
    pub fn take_ran(&self) -> Vec<&'static str> {
        self.answer_registry();
        let names = PROGRAMS.iter().map(|(name, ..)| *name).chain([ENVRC]);
        names
            .filter(|name| std::fs::remove_file(self.mark(name)).is_ok())
            .collect()
    }

    /// Runs a turn, waits until every server has failed, and returns what of the clone ran.
    fn list_ran_as_servers(&self, client: &Client) -> Vec<&'static str> {
        client.ask(&client.session(), "hi");
        self.world.wait_until(|| {
            self.answer_registry();
            let listed = servers(client);
            listed.len() == PROGRAMS.len() && listed.iter().all(|server| server["state"] == "failed")
        });
        self.take_ran()
    }
}

fn names() -> Vec<&'static str> {
    PROGRAMS.iter().map(|(name, ..)| *name).collect()
}

/// Returns the tables of the user's servers, each with these settings more.
fn server_tables(more: &str) -> String {
    let table = |(name, command, arguments): &(&str, &str, &[&str])| {
        format!("[mcp.{name}]\ncommand = {command:?}\nargs = {arguments:?}\n{more}\n")
    };
    PROGRAMS.iter().map(table).collect()
}

/// Returns the same servers as an editor names them.
pub fn list_servers() -> Value {
    let entry = |(name, command, arguments): &(&str, &str, &[&str])| json!({"name": name, "command": command, "args": arguments, "env": []});
    PROGRAMS.iter().map(entry).collect()
}

#[test]
fn a_clone_does_not_provide_the_program_of_the_users_own_server() {
    let clone = HostileClone::new(server_tables(""));
    let client = clone.start();
    assert_eq!(clone.list_ran_as_servers(&client), Vec::<&str>::new());
    // Each has a folder of its own, in which it may keep files.
    let own = clone.world.path("data/agentls/mcp-servers/module/node_modules");
    assert!(own.is_dir());
}

#[test]
fn a_server_in_the_workspace_needs_trust() {
    let clone = HostileClone::new(server_tables("in_workspace = true\nsandbox = \"off\""));
    let client = clone.start();
    assert_eq!(clone.list_ran_as_servers(&client), Vec::<&str>::new());
    let reasons = format!("{:?}", servers(&client));
    assert!(reasons.contains("which you have not trusted"), "{reasons}");
    drop(client);
    let client = clone.start();
    clone.trust(&client);
    // The clone's code runs now: what the other test refuses is there to be found.
    assert_eq!(clone.list_ran_as_servers(&client), names());
}

/// Returns tables of hooks or tools that run the programs; `head` is the first line of each.
fn command_tables(kind: &str, head: &str, more: &str) -> String {
    let table = |(name, command, arguments): &(&str, &str, &[&str])| {
        let argv: Vec<&str> = [*command].iter().chain(*arguments).copied().collect();
        format!("[{kind}.try_{name}]\n{head}\ncommand = {argv:?}\n{more}\n")
    };
    PROGRAMS.iter().map(table).collect()
}

impl HostileClone {
    /// Runs a turn to its end. Meanwhile, npm must not wait for the registry.
    fn run_turn(&self, client: &Client, session: &str) {
        let ended = || client.all(session, "agent/turnEnded").len();
        let before = ended();
        let id = client.prompt(session, "hi");
        self.world.wait_until(|| {
            self.answer_registry();
            ended() > before
        });
        client.prompt_result(&id);
    }
}

/// Each case of a hook or tool: its `sandbox`, and whether the folder is trusted. If it is, all of its code runs.
const CASES: [(&str, bool); 3] = [("", false), ("sandbox = 'off'", false), ("sandbox = 'off'", true)];

/// Returns what of the clone runs unconfined.
fn names_if(is_trusted: bool) -> Vec<&'static str> {
    if is_trusted { names() } else { Vec::new() }
}

#[test]
fn a_clone_does_not_provide_what_the_users_own_hooks_run() {
    for (more, is_trusted) in CASES {
        let clone = HostileClone::new(command_tables("hook", "on = 'prompt'", more));
        let client = clone.start();
        if is_trusted {
            clone.trust(&client);
        }
        let session = client.session_with(json!({"mode": "full"}));
        clone.run_turn(&client, &session);
        assert_eq!(clone.take_ran(), names_if(is_trusted), "{more} {is_trusted}");
        let warnings = format!("{:?}", client.all(&session, "agent/warning"));
        let is_elsewhere =
            warnings.contains("It runs in /, since it is not confined and you have not trusted");
        assert!(more.is_empty() || is_elsewhere != is_trusted, "{warnings}");
    }
}

#[test]
fn a_clone_does_not_provide_what_the_users_own_tools_run() {
    for (more, is_trusted) in CASES {
        let clone = HostileClone::new(command_tables("tool", "description = 'Tries.'", more));
        let client = clone.start();
        if is_trusted {
            clone.trust(&client);
        }
        let session = client.session_with(json!({"mode": "full"}));
        for (name, ..) in PROGRAMS {
            let mock = clone.world.mock();
            mock.push(Reply::tool(&format!("try_{name}"), json!({})));
            clone.run_turn(&client, &session);
            let request = clone.world.wait_for_request(clone.world.requests() - 1);
            let result = request.messages().last().unwrap().to_string();
            let is_elsewhere = result.contains("It runs in /, since it is not confined");
            assert!(more.is_empty() || is_elsewhere != is_trusted, "{name}: {result}");
        }
        assert_eq!(clone.take_ran(), names_if(is_trusted), "{more} {is_trusted}");
    }
}
