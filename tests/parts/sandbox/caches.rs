//! What commands change in the caches of build tools, in the real sandbox.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Output, Stdio};

use super::second_paths::run_with_mounts;
use super::{ALL, Method, World, give_to_nobody, is_available, worlds};

/// Runs a script in a folder of the world, confined.
fn run_in(world: &World, method: Method, folder: &str, script: &str) -> String {
    let mut command = world.agentls(method, &["run", "--", "bash", "-c", script]);
    print_of(&command.current_dir(world.path(folder)).output().unwrap())
}

fn print_of(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Fills two caches of npm, as a build outside of the sandbox does.
fn fill(world: &World) {
    for file in [
        "home/.npm/_npx/tool",
        "home/.npm/_cacache/gone",
        "home/.npm/_cacache/folder/file",
    ] {
        fs::create_dir_all(world.path(file).parent().unwrap()).unwrap();
        fs::write(world.path(file), "own\n").unwrap();
    }
    if world.as_nobody {
        give_to_nobody(&world.path("home/.npm"));
    }
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

/// The worlds in which our own namespaces work, with caches.
fn list_worlds() -> Vec<World> {
    let mut worlds = worlds();
    worlds.retain(|world| is_available(world, "namespaces"));
    worlds.iter().for_each(fill);
    worlds
}

#[test]
fn what_a_command_changes_in_a_cache_reaches_only_commands_of_its_workspace() {
    for world in &list_worlds() {
        let before = list(&world.path("home/.npm"));
        let change = "cd $HOME/.npm && echo evil > _npx/tool && echo evil > _npx/new && chmod 755 _npx/tool && \
                      cd _cacache && rm gone && rm -r folder && mkdir folder && touch folder/other && \
                      echo x > new && mv new newer && echo changed";
        assert_eq!(run_in(world, "namespaces", "ws", change), "changed\n");
        assert_eq!(list(&world.path("home/.npm")), before);
        let look = "cd $HOME/.npm && cat _npx/* && ls -R _cacache";
        let own = "evil\nevil\n_cacache:\nfile\nfolder\nnewer\n\n_cacache/folder:\nother\n";
        assert_eq!(run_in(world, "namespaces", "ws", look), own);
        let others = "own\n_cacache:\nfile\nfolder\ngone\n\n_cacache/folder:\nfile\n";
        let found = run_in(world, "namespaces", "outside", look);
        assert_eq!(found, others, "another workspace");
        let hidden = "ls $HOME/.local/share/agentls/build-caches 2>/dev/null || echo hidden";
        assert_eq!(run_in(world, "namespaces", "ws", hidden), "hidden\n");
    }
}

/// A command that has listed its cache, and goes on after a line of input.
struct Waiting(Child);

impl Waiting {
    fn start(world: &World, then: &str) -> Self {
        let script = format!("cd $HOME/.npm/_cacache && ls -R && read line && {then}");
        let mut command = world.agentls("namespaces", &["run", "--", "bash", "-c", &script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = child.stdout.as_mut().unwrap();
        let mut listed = Vec::new();
        let mut byte = [0];
        while !listed.ends_with(b"./folder:\nfile\n") {
            output.read_exact(&mut byte).unwrap();
            listed.push(byte[0]);
        }
        Self(child)
    }

    fn finish(mut self) -> String {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        print_of(&self.0.wait_with_output().unwrap())
    }
}

#[test]
fn commands_at_the_same_time_write_the_same_files_of_a_cache() {
    // Both have looked at everything before either writes.
    let write = "for n in $(seq 99); do echo $$ > $n && mkdir d$n && echo x > folder/$n || exit 1; done; \
                 flock -n folder/file mv folder/file gone && rm folder/9 && ls folder | wc -l && sort -u [1-9] | wc -l";
    for world in &list_worlds() {
        let before = list(&world.path("home/.npm"));
        let (first, second) = (Waiting::start(world, write), Waiting::start(world, write));
        assert_eq!(second.finish(), "98\n1\n");
        assert_eq!(first.finish(), "98\n1\n");
        assert_eq!(list(&world.path("home/.npm")), before);
        // Locks exclude the processes of a command.
        let both = "cd $HOME/.npm/_cacache && exec 9> lock && flock 9 && flock -n lock true || echo locked";
        assert_eq!(run_in(world, "namespaces", "ws", both), "locked\n");
    }
}

/// Where caches have no layers, nobody else runs what a command left in them by a name.
#[test]
fn programs_of_other_projects_are_never_changed() {
    let world = World::new(false);
    fill(&world);
    let script = "cat $HOME/.npm/_npx/tool; for folder in .npm/_cacache .npm/_npx .cache/pre-commit; do \
                  { echo x > $HOME/$folder/new; } 2>/dev/null && echo $folder; done";
    fs::create_dir_all(world.path("home/.cache/pre-commit")).unwrap();
    for method in ALL.iter().copied().filter(|method| is_available(&world, method)) {
        for folder in [".npm/_cacache", ".npm/_npx"] {
            let _ = fs::remove_file(world.path("home").join(folder).join("new"));
        }
        let mut command = world.agentls(method, &["run", "--", "bash", "-c", script]);
        // `proc` has no folder for a layer.
        let output = command.env("XDG_DATA_HOME", "/proc/none").output().unwrap();
        let written = match method {
            "namespaces" => "",
            "bubblewrap" => ".npm/_cacache\n",
            // Landlock cannot protect a part of a folder that is written.
            _ => ".npm/_cacache\n.npm/_npx\n",
        };
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed, format!("own\n{written}"), "{method}: {output:?}");
    }
}

#[test]
fn a_cache_with_another_mount_in_it_is_read_only() {
    let world = World::new(false);
    if !is_available(&world, "namespaces") {
        return;
    }
    fill(&world);
    let mounts = "mount --bind $OUT $HOME/.npm/_cacache/folder && mount --bind $OUT $HOME/.npm/_npx";
    let script = "cat $HOME/.npm/_cacache/folder/file $HOME/.npm/_npx/file; \
                  for folder in . _cacache _cacache/folder _npx; do \
                  { echo x > $HOME/.npm/$folder/new; } 2>/dev/null || echo refused; done";
    let command = world.agentls("namespaces", &["run", "--", "bash", "-c", script]);
    let output = run_with_mounts(&world, mounts, &command);
    assert_eq!(print_of(&output), "texttext".to_owned() + &"refused\n".repeat(4));
}

#[test]
fn the_first_command_of_a_user_sees_nothing_of_our_data() {
    let world = World::new(false);
    if !is_available(&world, "namespaces") {
        return;
    }
    fs::remove_dir_all(world.path("home/.local")).unwrap();
    let script = "ls $HOME/.local/share/agentls 2>/dev/null || echo hidden";
    assert_eq!(run_in(&world, "namespaces", "ws", script), "hidden\n");
}
