//! Workspaces in a subfolder of a repository: git works in them, and only with that repository.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use super::{
    ALL, FULL, Method, NOBODY, OPEN, World, give_to_nobody, is_available, is_root, search_path, worlds,
};

const AUTHOR: &str = "export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=a \
                      GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=a@example.com;";

/// What must work, each as a script that ends with success.
const WORK: [&str; 6] = [
    "echo two >> file && git add file && git commit -qm two && git log --oneline | grep -q two",
    "echo three >> file && git stash -q && git stash pop -q && git checkout -q file",
    "git switch -qc side && git commit -qm side --allow-empty && git switch -q - && git branch -D side",
    "git tag one && git tag -d one",
    "git worktree add -q extra && git worktree remove extra",
    "! git status --porcelain | grep -q '^ D'",
];

/// What must fail, each as a script that succeeds without the sandbox.
const ATTACKS: [&str; 9] = [
    "echo >> ../../.git/config",
    "git config a.b c",
    "echo > ../../.git/hooks/post-commit",
    "cp ../../.git/config c && mv c ../../.git/config",
    "mv ../../.git ../../g && mv ../../g ../../.git",
    "echo >> ../../.git/modules/group/sub/config",
    "mv ../../.git/modules/group ../../.git/modules/g && mv ../../.git/modules/g ../../.git/modules/group",
    "echo >> ../../.git/tools/pre-commit",
    "echo >> ../../file",
];

/// Runs a script in a folder of the world, in the sandbox or without one.
fn run(world: &World, method: Method, folder: &str, script: &str) -> Output {
    let script = format!("{AUTHOR} {script}");
    let mut command = match method {
        "none" => {
            let mut plain = Command::new("bash");
            plain
                .env_clear()
                .env("PATH", search_path())
                .env("HOME", world.path("home"));
            if world.as_nobody {
                plain.uid(NOBODY).gid(NOBODY);
            }
            plain
        }
        method => world.agentls(method, &["run", "--", "bash"]),
    };
    let command = command.args(["-c", &script]).current_dir(world.path(folder));
    command.output().unwrap()
}

/// Creates a repository with a commit, which contains the folder `services/api`.
fn create_repository(world: &World, folder: &str) {
    fs::create_dir_all(world.path(folder).join("services/api")).unwrap();
    if world.as_nobody {
        give_to_nobody(&world.path(folder));
    }
    let script = "git init -qb main . && echo one > file && echo one > services/api/file && git add . && \
                  git commit -qm one && git config core.hooksPath .git/tools && \
                  mkdir -p .git/tools .git/hooks .git/modules/group/sub && echo > .git/tools/pre-commit && \
                  chmod +x .git/tools/pre-commit && touch .git/modules/group/sub/config";
    let created = run(world, "none", folder, script);
    assert!(created.status.success(), "{created:?}");
}

#[test]
fn git_works_in_a_subfolder_and_its_settings_stay_protected() {
    for world in worlds() {
        create_repository(&world, "mono");
        let linked = run(&world, "none", "mono", "git worktree add -q ../linked");
        assert!(linked.status.success(), "{linked:?}");
        for method in ALL.iter().copied().filter(|method| is_available(&world, method)) {
            for folder in ["mono/services/api", "linked/services/api"] {
                for script in WORK {
                    let output = run(&world, method, folder, script);
                    assert!(
                        output.status.success(),
                        "{method}, {folder}: {script}: {output:?}"
                    );
                }
            }
        }
        for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
            for attack in ATTACKS {
                let script = format!("{attack} && echo open");
                let output = run(&world, method, "mono/services/api", &script);
                assert_eq!(output.stdout, b"", "{method}: {attack}");
            }
            let script = "echo >> ../../../mono/.git/config && echo open";
            assert_eq!(run(&world, method, "linked/services/api", script).stdout, b"");
        }
        for attack in ATTACKS {
            let output = run(
                &world,
                "none",
                "mono/services/api",
                &format!("{attack} && echo open"),
            );
            assert_eq!(output.stdout, OPEN, "{attack}: {output:?}");
        }
    }
}

/// What must fail in a submodule, each as a script that succeeds without the sandbox.
const SUBMODULE_ATTACKS: [&str; 7] = [
    "echo >> ../.git/modules/lib/config",
    "git config a.b c",
    "echo > ../.git/modules/lib/hooks/post-commit",
    "mv ../.git/modules/lib ../.git/modules/l && mv ../.git/modules/l ../.git/modules/lib",
    "echo >> ../.git/config",
    "echo > ../.git/new",
    "echo >> ../services/api/file",
];

#[test]
fn git_works_in_a_submodule_and_its_settings_stay_protected() {
    for world in worlds() {
        for folder in ["library", "mono"] {
            create_repository(&world, folder);
        }
        let add = "git -c protocol.file.allow=always submodule add -q ../library lib && git commit -qm lib";
        let added = run(&world, "none", "mono", add);
        assert!(added.status.success(), "{added:?}");
        for method in ALL.iter().copied().filter(|method| is_available(&world, method)) {
            for script in WORK {
                let output = run(&world, method, "mono/lib", script);
                assert!(output.status.success(), "{method}: {script}: {output:?}");
            }
        }
        for method in FULL.iter().copied().filter(|method| is_available(&world, method)) {
            for attack in SUBMODULE_ATTACKS {
                let output = run(&world, method, "mono/lib", &format!("{attack} && echo open"));
                assert_eq!(output.stdout, b"", "{method}: {attack}");
            }
        }
        for attack in SUBMODULE_ATTACKS {
            let output = run(&world, "none", "mono/lib", &format!("{attack} && echo open"));
            assert_eq!(output.stdout, OPEN, "{attack}: {output:?}");
        }
    }
}

#[test]
fn no_other_repository_of_the_user_can_be_written() {
    let world = World::new(false);
    create_repository(&world, "other");
    create_repository(&world, "home");
    for folder in ["plain", "own-pointer", "pointer", "link", "moved", "stranger"] {
        create_repository(&world, folder);
    }
    let replace_git = |folder: &str| {
        fs::remove_dir_all(world.path(folder).join(".git")).unwrap();
        world.path(folder).join(".git")
    };
    let linked = run(&world, "none", "other", "git worktree add -q ../linked-to-other");
    assert!(linked.status.success(), "{linked:?}");
    let pointer = format!(
        "gitdir: {}\n",
        world.path("other/.git/worktrees/linked-to-other").display()
    );
    fs::write(world.path("own-pointer/services/api/.git"), &pointer).unwrap();
    fs::write(replace_git("pointer"), &pointer).unwrap();
    symlink(world.path("other/.git"), replace_git("link")).unwrap();
    let moved = run(&world, "none", "moved", "git config core.worktree ../../other");
    assert!(moved.status.success(), "{moved:?}");
    if is_root() {
        chown(world.path("stranger/.git"), Some(NOBODY), None).unwrap();
    }
    let with_stranger = [("stranger/services/api", "stranger/.git")];
    for method in ["namespaces", "bubblewrap", "landlock", "none"] {
        if method != "none" && !is_available(&world, method) {
            continue;
        }
        for (folder, repository) in [
            ("home/services/api", "home/.git"),
            ("own-pointer/services/api", "own-pointer/.git"),
            ("own-pointer/services/api", "other/.git"),
            ("pointer/services/api", "other/.git"),
            ("link/services/api", "other/.git"),
            ("moved/services/api", "moved/.git"),
            ("plain/services/api", "other/.git"),
        ]
        .into_iter()
        .chain(with_stranger.into_iter().filter(|_| is_root()))
        {
            let script = format!("echo > {}/new && echo open", world.path(repository).display());
            let output = run(&world, method, folder, &script);
            assert_eq!(
                output.stdout == OPEN,
                method == "none",
                "{method}: {folder}, {repository}"
            );
        }
        let output = run(
            &world,
            method,
            "plain/services/api",
            "echo > ../../.git/new && echo open",
        );
        assert_eq!(output.stdout, OPEN, "{method}: {output:?}");
    }
}

#[test]
fn the_command_line_names_changes_of_the_repository_around_the_folder() {
    let world = World::new(false);
    create_repository(&world, "mono");
    fs::remove_dir_all(world.path("mono/.git/hooks")).unwrap();
    let expect = |method: Method, script: &str, expected: &str| {
        if is_available(&world, method) {
            let output = run(&world, method, "mono/services/api", script);
            let errors = String::from_utf8_lossy(&output.stderr);
            let reports: Vec<&str> = errors
                .lines()
                .filter(|line| line.starts_with("agentls: "))
                .collect();
            assert_eq!(reports.len(), 1, "{method}: {errors}");
            assert!(reports[0].contains(expected), "{method}: {errors}");
        }
    };
    let hooks = world.path("mono/.git/hooks");
    for method in ALL {
        let expected = format!("created {}, obeyed by git", hooks.display());
        expect(method, "mkdir ../../.git/hooks", &expected);
        if is_available(&world, method) {
            fs::remove_dir(&hooks).unwrap();
        }
    }
    let expected = format!(
        "changed {}, obeyed by git",
        world.path("mono/.git/config").display()
    );
    expect("landlock", "echo >> ../../.git/config", &expected);
    create_repository(&world, "top");
    let output = run(&world, "landlock", "top", "mv .git moved");
    let errors = String::from_utf8_lossy(&output.stderr);
    if is_available(&world, "landlock") {
        assert_eq!(errors, "agentls: removed .git, obeyed by git\n");
    }
}
