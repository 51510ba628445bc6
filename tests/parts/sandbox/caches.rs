//! What commands change in the caches of build tools, in the real sandbox.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;

use super::{FULL, Method, World, give_to_nobody, is_available, worlds};

/// Returns what a command of a workspace folder prints.
fn run_in(world: &World, method: Method, folder: &str, script: &str) -> String {
    let mut command = world.agentls(method, &["run", "--", "bash", "-c", script]);
    let output = command.current_dir(world.path(folder)).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Fills the cache of npm, as a build outside of the sandbox does.
fn fill(world: &World) {
    for file in [
        "home/.npm/_npx/1/.bin/tool",
        "home/.npm/gone",
        "home/.npm/folder/file",
    ] {
        fs::create_dir_all(world.path(file).parent().unwrap()).unwrap();
        fs::write(world.path(file), "own\n").unwrap();
    }
    if world.as_nobody {
        give_to_nobody(&world.path("home/.npm"));
    }
}

/// Returns the worlds and methods that can keep changes of caches apart. Only newer versions of bubblewrap can.
fn list_layered(worlds: &[World]) -> Vec<(&World, Method)> {
    let all = worlds
        .iter()
        .flat_map(|world| FULL.iter().map(move |method| (world, *method)));
    let is_layered = |(world, method): &(&World, Method)| {
        let script = "mkdir $HOME/.npm/probe && rmdir $HOME/.npm/probe && echo writes";
        is_available(world, method)
            && (*method == "namespaces" || run_in(world, method, "ws", script) == "writes\n")
    };
    all.filter(is_layered).collect()
}

/// Lists what is in a folder, with the texts of its files.
fn list(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(list(&path));
        } else {
            found.push(format!(
                "{}: {}",
                path.display(),
                fs::read_to_string(&path).unwrap()
            ));
        }
    }
    found.sort();
    found
}

#[test]
fn what_a_command_changes_in_a_cache_reaches_only_commands_of_its_workspace() {
    for (world, method) in list_layered(&worlds()) {
        let _ = fs::remove_dir_all(world.path("home/.local/share/agentls"));
        fill(world);
        let before = list(&world.path("home/.npm"));
        let change = "cd $HOME/.npm && echo evil > _npx/1/.bin/tool && echo evil > new && rm gone && rm -r folder && \
                      mkdir folder && touch folder/other && mv new newer && chmod 755 _npx/1/.bin/tool && echo changed";
        assert_eq!(run_in(world, method, "ws", change), "changed\n");
        assert_eq!(list(&world.path("home/.npm")), before);
        let look = "cd $HOME/.npm && cat _npx/1/.bin/tool && ls . folder";
        let own = "evil\n.:\n_npx\nfile\nfolder\nnewer\n\nfolder:\nother\n";
        assert_eq!(run_in(world, method, "ws", look), own);
        let others = "own\n.:\n_npx\nfile\nfolder\ngone\n\nfolder:\nfile\n";
        assert_eq!(
            run_in(world, method, "outside", look),
            others,
            "another workspace"
        );
    }
}

#[test]
fn commands_at_the_same_time_write_the_same_cache() {
    for (world, method) in list_layered(&worlds()) {
        let _ = fs::remove_file(world.path("ws/go"));
        fill(world);
        let script = "echo one > $HOME/.npm/one; echo waits; until [ -e go ]; do sleep 0.02; done; \
                      echo more > $HOME/.npm/folder/more && cat $HOME/.npm/folder/*";
        let mut first = world.agentls(method, &["run", "--", "bash", "-c", script]);
        let mut first = first.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = first.stdout.take().unwrap();
        output.read_exact(&mut [0; 6]).unwrap();
        let second = run_in(
            world,
            method,
            "ws",
            "cat $HOME/.npm/one && echo two > $HOME/.npm/two && touch go",
        );
        assert_eq!(second, "one\n");
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        first.wait().unwrap();
        assert_eq!(rest, "own\nmore\n");
        assert_eq!(
            run_in(world, method, "ws", "cd $HOME/.npm && cat one two folder/more"),
            "one\ntwo\nmore\n"
        );
    }
}

#[test]
fn a_cache_whose_layer_is_impossible_is_read_only() {
    let world = World::new(false);
    // `proc` has no folder for a layer.
    let script = "cat $HOME/.npm/gone; echo x > $HOME/.npm/new";
    for method in FULL {
        if !is_available(&world, method) {
            continue;
        }
        fill(&world);
        let mut command = world.agentls(method, &["run", "--", "bash", "-c", script]);
        let output = command.env("XDG_DATA_HOME", "/proc/none").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "own\n", "{method}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("Read-only"),
            "{method}: {output:?}"
        );
        assert!(!world.path("home/.npm/new").exists(), "{method}");
    }
}
