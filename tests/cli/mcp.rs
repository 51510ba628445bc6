//! `agentls mcp`, and the MCP servers in `agentls doctor`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::json;

use crate::mcp_peer::{HttpPeer, log_in_by_browser, script, visit};
use crate::{CommandResult, World};

impl World {
    fn config(&self) -> String {
        fs::read_to_string(self.path("home/.config/agentls/config.toml")).unwrap()
    }

    /// Logs in as a user would.
    fn log_in(&self, name: &str) {
        let done = self.try_to_log_in(name);
        done.assert_exit_code(0).assert_stdout("logged in");
    }

    fn try_to_log_in(&self, name: &str) -> CommandResult {
        let mut command = self.command(&["mcp", "login", name]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut url = String::new();
        while !url.starts_with("http") {
            url.clear();
            assert!(output.read_line(&mut url).unwrap() > 0, "no address");
        }
        log_in_by_browser(url.trim());
        let rest: Vec<String> = output.lines().map(Result::unwrap).collect();
        let mut done = CommandResult::of(&child.wait_with_output().unwrap());
        done.out = rest.join("\n");
        done
    }

    /// Writes a file of the workspace that names a server.
    fn name_foreign_server(&self) {
        let servers =
            json!({"mcpServers": {"theirs": {"command": "theirs", "env": {"KEY": "canary-foreign"}}}});
        fs::write(self.path("work/.mcp.json"), servers.to_string()).unwrap();
    }
}

#[test]
fn servers_are_added_shown_and_removed() {
    let world = World::new();
    let before = "# Mine.\n[agent.default] # one\nmode = \"ask\"\n";
    world.configure(before);
    world
        .run(&["mcp"])
        .assert_exit_code(0)
        .assert_stdout("no MCP server is configured");
    let files = [
        "mcp",
        "add",
        "files",
        "--env",
        "KEY=canary-env",
        "--",
        "npx",
        "-y",
        "a b",
    ];
    world.run(&files).assert_exit_code(0).assert_stdout("added files");
    world.run(&files).assert_exit_code(1).assert_stderr("already");
    let url = "https://ada:canary-password@h.example/mcp?key=canary-query";
    let tickets = [
        "mcp",
        "add",
        "tickets",
        "--url",
        url,
        "--header",
        "X-Key: canary-header",
    ];
    world.run(&tickets).assert_exit_code(0);
    let other_spelling = "http:ada:canary-password@h.example/mcp?key=canary-query";
    let added = world.run(&["mcp", "add", "plain", "--url", other_spelling]);
    added.assert_exit_code(0);
    assert!(world.config().starts_with(before), "{}", world.config());
    world.name_foreign_server();
    let listed = world.run(&["mcp", "list"]);
    for part in [
        "npx -y a b (~/.config/agentls/config.toml; stdio, enabled)",
        "theirs (.mcp.json; the folder is not trusted)",
        "http, enabled",
        "http://ada:hidden@h.example/mcp?hidden",
    ] {
        listed.assert_exit_code(0).assert_stdout(part);
    }
    let shown = world.run(&["mcp", "get", "tickets"]);
    shown
        .assert_stdout("transport http")
        .assert_stdout("X-Key (hidden)")
        .assert_stdout("login no");
    let program = world.run(&["mcp", "get", "files"]);
    program
        .assert_stdout("argument a b")
        .assert_stdout("KEY (hidden)");
    let login = world.run(&["mcp", "login", "plain"]);
    login
        .assert_exit_code(1)
        .assert_stderr("http://ada:hidden@h.example/mcp?hidden is not https, so no token is sent there");
    for done in [&listed, &shown, &program, &login] {
        let shown = format!("{}{}", done.out, done.err);
        assert!(!shown.contains("canary"), "{shown}");
    }
    world
        .run(&["mcp", "get", "none"])
        .assert_exit_code(1)
        .assert_stderr("no MCP server is called");
    let missing = "there is no [mcp.theirs]";
    world
        .run(&["mcp", "remove", "theirs"])
        .assert_exit_code(1)
        .assert_stderr(missing);
    for name in ["files", "tickets", "plain"] {
        world
            .run(&["mcp", "remove", name])
            .assert_exit_code(0)
            .assert_stdout("removed");
    }
    assert_eq!(world.config().trim_end(), before.trim_end());
    world
        .run(&["mcp", "add", "a__b", "--", "x"])
        .assert_exit_code(1)
        .assert_stderr("single `_`");
    world
        .run(&["mcp", "add", "x", "--url", "ftp://x"])
        .assert_exit_code(1);
    world
        .run(&["mcp", "add", "x"])
        .assert_exit_code(2)
        .assert_stderr("`agentls mcp add x -- COMMAND`");
}

#[test]
fn a_file_that_is_not_valid_is_named_with_its_line() {
    let world = World::new();
    world.configure("[mcp.a]\ncommand = \"x\"\nbroken\n");
    world
        .run(&["mcp", "list"])
        .assert_exit_code(1)
        .assert_stdout("config.toml:3:");
    world
        .run(&["mcp", "add", "b", "--", "x"])
        .assert_exit_code(1)
        .assert_stderr("config.toml: line 3 is not valid TOML");
}

#[test]
fn servers_that_are_added_at_once_are_all_kept() {
    let world = World::new();
    let names = ["a", "b", "c", "d", "e", "f"];
    let children = names.map(|name| world.command(&["mcp", "add", name, "--", "x"]).spawn().unwrap());
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    for name in names {
        assert!(
            world.config().contains(&format!("[mcp.{name}]")),
            "{}",
            world.config()
        );
    }
}

#[test]
fn of_two_servers_with_the_same_name_only_the_own_one_is_removed() {
    let world = World::new();
    let work = world.path("work");
    world.configure(&format!(
        "trusted = [{work:?}]\n[mcp.theirs]\ncommand = \"mine\"\n"
    ));
    fs::write(
        world.path("work/.mcp.json"),
        r#"{"mcpServers": {"theirs": {"command": "theirs"}}}"#,
    )
    .unwrap();
    let removed = world.run(&["mcp", "remove", "theirs"]);
    removed
        .assert_exit_code(0)
        .assert_stdout("removed theirs")
        .assert_stdout("the server of this name in .mcp.json stays");
    assert!(!world.config().contains("mine"), "{}", world.config());
    world
        .run(&["mcp", "remove", "theirs"])
        .assert_exit_code(1)
        .assert_stderr("there is no [mcp.theirs]; the server of this name is in .mcp.json");
}

#[test]
fn a_new_config_file_is_private_and_a_link_stays() {
    let world = World::new();
    let path = world.path("home/.config/agentls/config.toml");
    world.run(&["mcp", "add", "one", "--", "x"]).assert_exit_code(0);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let real = world.path("home/dotfile.toml");
    fs::rename(&path, &real).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    world.run(&["mcp", "remove", "one"]).assert_exit_code(0);
    assert!(path.is_symlink() && fs::read_to_string(&real).unwrap().is_empty());
}

#[test]
fn test_starts_a_server_and_reports_why_one_does_not() {
    let world = World::new();
    let script = script().display().to_string();
    world.configure(&format!(
        "[mcp.good]\ncommand = \"python3\"\nargs = [\"{script}\", \"--tools\", \"60\"]\n\
         [mcp.bad]\ncommand = \"sh\"\nargs = [\"-c\", \"echo no database >&2; exit 3\"]\n"
    ));
    world
        .run(&["mcp", "test", "good"])
        .assert_exit_code(0)
        .assert_stdout("Scripted peer 1.0.0")
        .assert_stdout("mcp__good__echo, ")
        .assert_stdout("mcp__good__extra_059")
        .assert_stdout("3 prompts, ");
    world
        .run(&["mcp", "test", "bad"])
        .assert_exit_code(1)
        .assert_stdout("exit code 3")
        .assert_stdout("stderr no database");
    world.name_foreign_server();
    let refused = world.run(&["mcp", "test", "theirs"]);
    refused.assert_exit_code(1).assert_stderr("not trusted");
    for command in ["login", "logout"] {
        world
            .run(&["mcp", command, "good"])
            .assert_exit_code(1)
            .assert_stderr("the MCP server good has no login: it is a program");
    }
}

#[test]
fn a_login_waits_for_the_browser_and_a_logout_forgets_it() {
    let world = World::new();
    let peer = HttpPeer::start(&["--oauth"]);
    world.configure(&format!("[mcp.peer]\nurl = \"{}\"\n", peer.url));
    world
        .run(&["mcp", "test", "peer"])
        .assert_exit_code(1)
        .assert_stdout("agentls mcp login peer");
    world.log_in("peer");
    world
        .run(&["mcp", "test", "peer"])
        .assert_exit_code(0)
        .assert_stdout("Scripted peer");
    world.run(&["mcp", "list"]).assert_stdout("logged in");
    let doctor = |world: &World| -> CommandResult { world.run(&["doctor", "--offline"]) };
    doctor(&world).assert_stdout("logged in");
    world
        .run(&["mcp", "logout", "peer"])
        .assert_exit_code(0)
        .assert_stdout("removed the tokens");
    assert_eq!(peer.oauth_steps("revocation").len(), 1);
    world
        .run(&["mcp", "logout", "peer"])
        .assert_exit_code(0)
        .assert_stdout("no tokens");
    world.run(&["mcp", "test", "peer"]).assert_exit_code(1);
    doctor(&world).assert_stdout("agentls mcp login peer");
}

#[test]
fn a_refused_refresh_and_a_failed_revocation_are_shown() {
    let world = World::new();
    let peer = HttpPeer::start(&["--oauth", "--oauth-fault", "refuse_revocation"]);
    world.configure(&format!("[mcp.peer]\nurl = \"{}\"\n", peer.url));
    world.log_in("peer");
    let listed = world.run(&["mcp", "list"]);
    listed.assert_stdout("logged in");
    assert!(!listed.out.contains("needs a new login"), "{}", listed.out);
    let revoke = peer.url.join("/revoke?all").unwrap();
    visit(revoke.as_str());
    world.run(&["mcp", "test", "peer"]).assert_exit_code(1);
    let listed = world.run(&["mcp", "list"]);
    listed.assert_stdout("needs a new login");
    assert!(!listed.out.contains("logged in"), "{}", listed.out);
    world
        .run(&["mcp", "get", "peer"])
        .assert_stdout("login needs a new one");
    world
        .run(&["doctor", "--offline"])
        .assert_stdout("needs a new login");
    world
        .run(&["mcp", "logout", "peer"])
        .assert_exit_code(0)
        .assert_stdout("removed the tokens")
        .assert_stdout("the authorization server did not revoke them: the authorization server refused");
    world
        .run(&["mcp", "logout", "peer"])
        .assert_stdout("there were no tokens");
}

#[test]
fn credentials_in_arguments_and_addresses_are_hidden() {
    let world = World::new();
    world.configure(
        "[mcp.program]\ncommand = \"sh\"\nargs = [\"-c\", \"echo bad key $0 >&2; exit 3\", \"${SPEC_TOKEN}\"]\n\
         [mcp.remote]\nurl = \"http://127.0.0.1:9/${SPEC_TOKEN}/mcp\"\n",
    );
    for (arguments, expected) in [
        (&["mcp", "list"][..], "http://127.0.0.1:9/***/mcp"),
        (&["mcp", "get", "program"], "argument       ***"),
        (&["mcp", "get", "remote"], "http://127.0.0.1:9/***/mcp"),
        (&["mcp", "test", "program"], "bad key ***"),
        (&["mcp", "test", "remote"], "remote"),
        (&["doctor", "--offline"], "exit 3 ***"),
    ] {
        let mut command = world.command(arguments);
        command.env("SPEC_TOKEN", "canary-token-0123456789");
        let done = CommandResult::of(&command.output().unwrap());
        done.assert_stdout(expected);
        let shown = format!("{}{}", done.out, done.err);
        assert!(!shown.contains("canary-token"), "{shown}");
    }
}

#[test]
fn a_token_that_the_server_refuses_fails_the_login_or_the_start_with_the_reason() {
    let world = World::new();
    let peer = HttpPeer::start(&["--oauth", "--oauth-fault", "rejecting"]);
    world.configure(&format!(
        "[mcp.peer]\nurl = \"{0}\"\n[mcp.pat]\nurl = \"{0}\"\nheaders = {{Authorization = \"Bearer old\"}}\n",
        peer.url
    ));
    let failed = world.try_to_log_in("peer");
    failed
        .assert_exit_code(1)
        .assert_stderr("the server refuses the token of the last login");
    let listed = world.run(&["mcp", "list"]);
    assert!(!listed.out.contains("logged in"), "{}", listed.out);
    let tested = world.run(&["mcp", "test", "pat"]);
    tested
        .assert_exit_code(1)
        .assert_stdout("the server refuses the token of the header Authorization (HTTP 401)");
    assert!(!tested.out.contains("mcp login"), "{}", tested.out);
}

#[test]
fn doctor_reports_what_would_run_and_starts_nothing() {
    let world = World::new();
    world.name_foreign_server();
    let touched = world.path("touched");
    world.configure(&format!(
        "[mcp.there]\ncommand = \"sh\"\nargs = [\"-c\", \"touch {}\"]\n\
         [mcp.missing]\ncommand = \"no-such-program\"\n[mcp.off]\ncommand = \"sh\"\nenabled = false\n\
         [mcp.broken]\ncommand = \"sh\"\nargs = [\"${{NOT_SET}}\"]\n[mcp.ghost]\ntimeout_s = 5\n",
        touched.display()
    ));
    let done = world.run(&["doctor", "--offline"]);
    for part in [
        "/sh -c touch ",
        "broken: its settings cannot be used: args: the environment variable NOT_SET is not set",
        "ghost: its settings cannot be used: it has neither `command` nor `url`",
        "missing: no-such-program is not found",
        "off: disabled",
        "theirs: theirs (.mcp.json)",
        "not trusted",
    ] {
        done.assert_stdout(part);
    }
    assert!(!touched.exists() && !done.out.contains("canary"), "{}", done.out);
}

#[test]
fn a_server_that_its_settings_turn_off_is_named_with_the_reason() {
    let world = World::new();
    world.configure("[mcp.tickets]\nurl = \"https://h.example/mcp\"\nbearer_token_env = \"TICKETS_TOKEN\"\n");
    let reason = "mcp.tickets.bearer_token_env: the environment variable TICKETS_TOKEN is not set";
    let listed = world.run(&["mcp", "list"]);
    listed
        .assert_exit_code(0)
        .assert_stdout(reason)
        .assert_stdout("tickets (~/.config/agentls/config.toml; its settings cannot be used)");
    assert!(!listed.out.contains("no MCP server"), "{}", listed.out);
    for command in ["get", "test", "login", "logout"] {
        world
            .run(&["mcp", command, "tickets"])
            .assert_exit_code(1)
            .assert_stderr(reason);
    }
    world
        .run(&["mcp", "get", "tickets"])
        .assert_stdout("url https://h.example/mcp")
        .assert_stdout("from ~/.config/agentls/config.toml");
    world
        .run(&["mcp", "logout", "none"])
        .assert_exit_code(1)
        .assert_stderr("see `agentls mcp list`");
}

#[test]
fn all_settings_of_a_server_are_shown() {
    let world = World::new();
    world.configure(
        "[mcp.wiki]\nurl = \"https://h.example/mcp\"\noauth_scopes = [\"read\", \"write\"]\ntools = [\"get_*\"]\n\
         deny_tools = [\"get_all\"]\ntimeout_s = 7.5\nrequired = true\ntrust_annotations = true\n",
    );
    let shown = world.run(&["mcp", "get", "wiki"]);
    for part in [
        "scopes read, write",
        "tools get_*",
        "deny tools get_all",
        "start limit 10 s",
        "call limit 7.5 s",
        "required a turn fails without it",
        "annotations calls that only read need no approval",
    ] {
        shown.assert_exit_code(0).assert_stdout(part);
    }
}

#[test]
fn an_address_is_shown_as_it_is_written_without_its_credentials() {
    let world = World::new();
    world.configure(
        "[mcp.remote]\nurl = \"http://${A_TOKEN}:x@Host-${A_TOKEN}.Example:9/é/${A_TOKEN} z?k=v\"\n",
    );
    for arguments in [
        &["mcp", "list"][..],
        &["mcp", "get", "remote"],
        &["doctor", "--offline"],
    ] {
        let mut command = world.command(arguments);
        let done = command.env("A_TOKEN", "Canary-é0123456789").output().unwrap();
        CommandResult::of(&done).assert_stdout("http://***:hidden@Host-***.Example:9/é/*** z?hidden");
    }
}

#[test]
fn a_failed_request_is_explained_without_the_secrets_of_its_address() {
    let world = World::with(json!([{"repeat": true, "events": [{"text": "hello"}]}]));
    let mine = world.config();
    world.configure(&format!(
        "{mine}\n[mcp.remote]\nurl = \"http://127.0.0.1:9/mcp?key=canary-query\"\n"
    ));
    let tested = world.run(&["mcp", "test", "remote"]);
    tested
        .assert_exit_code(1)
        .assert_stdout("the server refused the connection");
    let ran = world.run(&["run", "hello"]);
    ran.assert_exit_code(0)
        .assert_stderr("MCP server remote: the server refused the connection");
    let log = fs::read_to_string(world.path("home/.local/state/agentls/agentls.log")).unwrap();
    assert!(log.contains("an MCP server failed"), "{log}");
    for text in [tested.out, ran.err, log] {
        assert!(!text.contains("canary-query"), "{text}");
    }
}

#[test]
fn files_of_other_programs_that_cannot_be_used_are_named() {
    let world = World::new();
    let file = world.path("work/.mcp.json");
    for (text, problem) in [
        ("{", ".mcp.json:1:1: error: mcp: is not valid JSON"),
        ("[]", "mcp: must contain a JSON object; not used"),
        (
            "{\"mcpServers\": []}",
            "mcp: `mcpServers` must be an object with at most 100 servers; not used",
        ),
        (
            "{\"mcpServers\": {\"x\": {}}}",
            "mcp.x: has neither `command` nor `url`",
        ),
        (&"x".repeat(20 << 20), "mcp: cannot be read"),
    ] {
        fs::write(&file, text).unwrap();
        let listed = world.run(&["mcp", "list"]);
        listed.assert_exit_code(0).assert_stdout(problem);
        assert!(!listed.out.contains("no MCP server"), "{}", listed.out);
        let checked = world.run(&["config", "check"]);
        assert!(
            (checked.out.clone() + &checked.err).contains(problem),
            "{}",
            checked.out
        );
    }
}
