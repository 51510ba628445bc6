//! A home folder of which commands see only what they need (`read = "allowlist"`), in the real sandbox.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use super::second_paths::run_with_mounts;
use super::{FULL, Method, World, give_to_nobody, is_available, worlds};

/// Sets the allowlist.
fn allow(world: &World) {
    let settings = "[sandbox]\nread = \"allowlist\"\nread_allow = [\"~/library\"]\n";
    fs::write(world.path("home/.config/agentls/config.toml"), settings).unwrap();
}

/// Prepares tool chains and private files in the home folder, before agentls creates caches there.
fn prepare(world: &World) {
    for (file, text) in [
        ("home/.rustup/settings.toml", "x"),
        ("home/.local/bin/tool", "x"),
        ("home/.local/share/diary", "x"),
        ("home/library/.env.example", "x"),
        ("home/library/.ssh/id_rsa", "x"),
        ("home/project/sub/file", "x"),
        ("home/notes", "x"),
        ("home/.config/git/ignore", "x"),
        ("outside/cargo/bin/cargo", "x"),
        ("home/src/pyenv/version", "x"),
    ] {
        let path = world.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    symlink(world.path("outside/cargo"), world.path("home/.cargo")).unwrap();
    symlink("src/pyenv", world.path("home/.pyenv")).unwrap();
    if world.as_nobody {
        give_to_nobody(&world.path("home/.config"));
        for folder in [
            "home/.rustup",
            "home/.local",
            "home/library",
            "home/src",
            "home/project",
            "outside/cargo",
        ] {
            give_to_nobody(&world.path(folder));
        }
    }
}

/// Returns what a command prints that runs in a folder.
fn run_in(world: &World, method: Method, folder: &str, script: &str) -> String {
    let mut command = world.agentls(method, &["run", "--", "bash", "-c", script]);
    let output = command.current_dir(world.path(folder)).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    String::from_utf8(output.stdout).unwrap() + &errors
}

#[test]
fn commands_see_tool_chains_and_the_workspace_of_the_home_folder_and_nothing_else() {
    let worlds = worlds();
    worlds.iter().for_each(prepare);
    worlds.iter().for_each(allow);
    for (world, method) in worlds
        .iter()
        .flat_map(|world| FULL.iter().map(move |method| (world, *method)))
    {
        if !is_available(world, method) {
            continue;
        }
        let script = "cd $HOME; for file in .rustup/settings.toml .local/bin/tool .local/share/diary notes .bashrc \
                      library/.env.example .config/git/ignore .gitconfig .cargo/bin/cargo .pyenv/version src/pyenv/version \
                      project/file project/sub/file bin/tool .ssh/id_ed25519 .config/agentls/config.toml; do \
                      [ -r $file ] && cat $file > /dev/null && echo $file; done 2> /dev/null; true";
        let tools = ".rustup/settings.toml\n.local/bin/tool\nlibrary/.env.example\n.config/git/ignore\n.gitconfig\n\
                     .cargo/bin/cargo\n.pyenv/version\nsrc/pyenv/version\n";
        assert_eq!(run_in(world, method, "ws", script), tools, "{method}");
        let with_project = format!("{tools}project/file\nproject/sub/file\n");
        assert_eq!(
            run_in(world, method, "home/project", script),
            with_project,
            "{method}"
        );
        let write = "echo new > file; { echo x > ../new || echo x > ../.rustup/new || mkdir ../other; } 2> /dev/null; true";
        assert_eq!(run_in(world, method, "home/project", write), "", "{method}");
        assert_eq!(
            fs::read_to_string(world.path("home/project/file")).unwrap(),
            "new\n"
        );
        assert!(!world.path("home/new").exists() && !world.path("home/.rustup/new").exists());
    }
}

#[test]
fn the_command_line_test_tries_what_the_home_folder_shows() {
    for world in worlds() {
        if !is_available(&world, "namespaces") {
            continue;
        }
        let report = |world: &World| -> Value {
            let output = world.agentls("namespaces", &["test", "--json"]).output().unwrap();
            serde_json::from_slice(&output.stdout).unwrap()
        };
        let find = |report: &Value| {
            let checks = report["checks"].as_array().unwrap().clone();
            checks
                .into_iter()
                .find(|check| check["name"] == "read other files of the home folder")
        };
        assert_eq!(find(&report(&world)), None);
        allow(&world);
        assert_eq!(find(&report(&world)).unwrap()["verdict"], "held");
    }
}

#[test]
fn a_tool_chain_with_a_volume_in_it_is_shown_read_only() {
    let world = World::new(false);
    prepare(&world);
    allow(&world);
    fs::create_dir(world.path("home/.rustup/volume")).unwrap();
    let script = "cat $HOME/.rustup/settings.toml $HOME/.rustup/volume/file; \
                  for folder in .rustup .rustup/volume; do { echo x > $HOME/$folder/new; } 2>/dev/null || echo refused; done";
    for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
        let command = world.agentls(method, &["run", "--", "bash", "-c", script]);
        let output = run_with_mounts(&world, "mount --bind $OUT $HOME/.rustup/volume", &command);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed, "xtextrefused\nrefused\n", "{method}: {output:?}");
    }
}
