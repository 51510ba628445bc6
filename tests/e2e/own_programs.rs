//! Programs of the user's own servers: no repository decides what they run.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Client, Config, Options, World};
use crate::mcp::servers;

/// A clone that puts its own code wherever a program of the user's might look for it. Whatever runs writes a file.
fn hostile_clone(world: &World) {
    let ran = |name: &str| world.path(&format!("ran-{name}")).display().to_string();
    let script = |name: &str| format!("#!/bin/sh\necho x >'{}'\n", ran(name));
    world.write(
        "mcp_clone_module/__main__.py",
        format!("open({:?}, 'w')\n", ran("module")),
    );
    world.write(
        "on_path/mcp_clone_variable/__main__.py",
        format!("open({:?}, 'w')\n", ran("variable")),
    );
    for (path, name) in [
        ("node_modules/.bin/mcp-clone-package", "package"),
        ("on_path/mcp-clone-program", "program"),
    ] {
        let file = world.write(path, script(name));
        std::fs::set_permissions(file, Permissions::from_mode(0o755)).unwrap();
    }
    let package =
        json!({"name": "mcp-clone-package", "version": "1.0.0", "bin": "../.bin/mcp-clone-package"});
    world.write("node_modules/mcp-clone-package/package.json", package.to_string());
}

const NAMES: [&str; 4] = ["module", "variable", "package", "program"];

fn tables(more: &str) -> String {
    format!(
        r#"
[mcp.module]
command = "python3"
args = ["-m", "mcp_clone_module"]
{more}
[mcp.variable]
command = "python3"
args = ["-m", "mcp_clone_variable"]
{more}
[mcp.package]
command = "npx"
args = ["--offline", "--yes", "mcp-clone-package"]
{more}
[mcp.program]
command = "mcp-clone-program"
{more}
"#
    )
}

/// Creates a world with the user's servers, each with these settings more, and with the clone.
fn world_of(more: &str) -> World {
    let world = World::with(Config {
        tables: tables(more),
        ..Config::default()
    });
    hostile_clone(&world);
    world
}

/// Starts a server whose variables lead into the clone, as after `direnv allow` or `npm run`.
#[expect(clippy::disallowed_methods, reason = "npx is where the tests' own PATH says")]
fn start_inside(world: &World) -> Client {
    let inside = world.workspace().join("on_path");
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = [inside.clone()]
        .into_iter()
        .chain(std::env::split_paths(&usual))
        .collect();
    let text = |value: PathBuf| value.display().to_string();
    world.start_with(Options {
        env: vec![
            (
                "PATH".to_owned(),
                std::env::join_paths(path).unwrap().into_string().unwrap(),
            ),
            ("PYTHONPATH".to_owned(), text(inside)),
        ],
        ..Options::default()
    })
}

/// Runs a turn, waits until every server has failed, and returns which programs of the clone ran.
fn list_ran(world: &World, client: &Client) -> Vec<&'static str> {
    client.ask(&client.session(), "hi");
    world.wait_until(|| {
        let listed = servers(client);
        listed.len() == NAMES.len() && listed.iter().all(|server| server["state"] == "failed")
    });
    let ran = NAMES
        .into_iter()
        .filter(|name| world.path(&format!("ran-{name}")).exists());
    ran.collect()
}

#[test]
fn a_clone_does_not_provide_the_program_of_the_users_own_server() {
    let world = world_of("");
    let client = start_inside(&world);
    assert_eq!(list_ran(&world, &client), Vec::<&str>::new());
    // Each has a folder of its own, in which it may keep files.
    assert!(
        world
            .path("data/agentls/mcp-servers/module/node_modules")
            .is_dir()
    );
}

#[test]
fn a_server_in_the_workspace_needs_trust() {
    let world = world_of("in_workspace = true\nsandbox = \"off\"");
    let client = start_inside(&world);
    assert_eq!(list_ran(&world, &client), Vec::<&str>::new());
    let reasons = format!("{:?}", servers(&client));
    assert!(reasons.contains("which you have not trusted"), "{reasons}");
    drop(client);
    let client = start_inside(&world);
    let _: Value = client.call(
        "agent/setTrust",
        json!({"folder": world.workspace(), "trusted": true}),
    );
    // The clone's code runs now: what the other test refuses is there to be found.
    assert_eq!(list_ran(&world, &client), NAMES);
}
