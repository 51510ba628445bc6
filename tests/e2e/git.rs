//! Programs that repository settings make git run: none, unless the user trusts the folder (R-SEC).

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Options, World};
use crate::mock_llm::Reply;

/// A script that creates repositories whose settings run programs that leave a file behind.
const REPOSITORIES: &str = r#"
set -e
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
trap='touch "$TRAPPED"; cat'
make() {
    git init -q -b main "$1"
    git -C "$1" config user.name n
    git -C "$1" config user.email n@example.invalid
    echo "*.txt filter=x diff=x" >"$1/.gitattributes"
    echo one >"$1/a.txt"
    git -C "$1" add .
    git -C "$1" commit -q -m one
    arm "$1"
    echo two >"$1/a.txt"
}
arm() {
    git -C "$1" config filter.x.clean "$trap"
    git -C "$1" config filter.x.smudge "$trap"
    git -C "$1" config diff.x.textconv "f() { touch \"$TRAPPED\"; cat \"\$1\"; }; f"
    git -C "$1" config alias.statusx '!touch "$TRAPPED"'
    git -C "$1" config core.fsmonitor 'touch "$TRAPPED"; false'
    git -C "$1" config core.editor 'touch "$TRAPPED"; true'
    git -C "$1" config custom.unknown value
    printf '#!/bin/sh\ntouch "$TRAPPED"\n' >"$1/.git/hooks/pre-commit"
    chmod +x "$1/.git/hooks/pre-commit"
}
make .
make nested
git -c advice.addEmbeddedRepo=false add nested
printf '[submodule "nested"]\n\tpath = nested\n\turl = ./nested\n\tignore = none\n' >.gitmodules
echo six >nested/a.txt
mkdir -p docs
git clone -q --bare . docs/api
git -C docs/api config core.bare false
git -C docs/api config core.worktree "$PWD/nested"
git -C docs/api config filter.x.clean "$trap"
rm -f "$TRAPPED"
"#;

/// Commands that a user may have allowed; each runs on its own, to show which one runs a program.
const COMMANDS: [&str; 13] = [
    "git status",
    "git status -vv",
    "git diff",
    "git log -p",
    "git statusx",
    "git commit --allow-empty -m x",
    "git commit --allow-empty",
    "cd nested && git status",
    "cd nested && g'i't diff",
    "cd docs/api && git status",
    "git diff --ext-diff",
    "git diff-files",
    "git status --ignore-submodules=none",
];

fn prepare(world: &World) -> std::path::PathBuf {
    let trapped = world.path("trapped");
    run(world, REPOSITORIES, &trapped);
    trapped
}

#[expect(clippy::disallowed_methods, reason = "the test plays the attacker")]
pub fn run(world: &World, script: &str, trapped: &Path) {
    let done = std::process::Command::new("bash")
        .args(["-c", script])
        .current_dir(world.workspace())
        .env("HOME", world.path(""))
        .env("TRAPPED", trapped)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Returns what the model sees of each command, and whether the command ran a trap.
fn outputs(world: &World, trapped: &Path, commands: &[&str], trusted: bool) -> Vec<(String, bool)> {
    let client = world.start_with(Options {
        env: vec![("TRAPPED".to_owned(), trapped.display().to_string())],
        ..Options::default()
    });
    let folder = world.workspace().display().to_string();
    let _: Value = client.call("agent/setTrust", json!({"folder": folder, "trusted": trusted}));
    let session = client.session_with(json!({"mode": "full"}));
    let run = |(index, command): (usize, &&str)| {
        world
            .mock()
            .push(Reply::tool("bash", json!({"command": command})));
        client.ask(&session, *command);
        let request = world.wait_for_request(index * 2 + 1);
        let message = request.messages().last().unwrap().to_string();
        (message, std::fs::remove_file(trapped).is_ok())
    };
    commands.iter().enumerate().map(run).collect()
}

/// `ask` would ask about anything but a command that shows no secret.
#[test]
fn git_leaves_out_tracked_secrets_in_place_of_a_question() {
    let world = World::new();
    let script = "set -e; git init -q; git config user.name a; git config user.email a@example.org
        mkdir sub; echo KEY=none >.env; echo old >sub/a; git add -f .; git commit -qm first
        echo KEY=canary >.env; echo new >sub/a";
    run(&world, script, Path::new(""));
    let client = world.start();
    let session = client.session_with(json!({"mode": "ask"}));
    for (index, input) in [
        json!({"command": "git diff"}),
        json!({"command": "git grep -n '' | cat"}),
        json!({"command": "git diff HEAD 2>&1", "workdir": "sub"}),
    ]
    .into_iter()
    .enumerate()
    {
        world.mock().push(Reply::tool("bash", input.clone()));
        client.ask(&session, "Go");
        let request = world.wait_for_request(index * 2 + 1);
        let message = request.messages().last().unwrap().to_string();
        assert!(message.contains("new"), "{input}: {message}");
        assert!(!message.contains("KEY"), "{input}: {message}");
        assert!(
            message.contains("[git left out what looks like it holds secrets: .env;"),
            "{input}: {message}"
        );
    }
}

#[test]
fn git_says_what_it_leaves_out_besides_secrets() {
    let world = World::new();
    let script = "set -e; git init -q -b main; git config user.name a; git config user.email a@example.org
        echo old >a; echo KEY=old >'a~'; echo KEY=old >a.bak; git add -f .; git commit -qm first
        git checkout -qb side; echo KEY=canary >.env; git add -f .env; git commit -qm second; git checkout -q main
        echo new >a; echo KEY=new >'a~'; echo KEY=new >a.bak";
    run(&world, script, Path::new(""));
    let client = world.start();
    let session = client.session_with(json!({"mode": "ask"}));
    let mut count = 0;
    let mut ask = |command: &str| {
        world
            .mock()
            .push(Reply::tool("bash", json!({"command": command})));
        client.ask(&session, "Go");
        count += 2;
        let request = world.wait_for_request(count - 1);
        let messages = request.messages();
        messages.last().unwrap().to_string()
    };
    let diff = ask("git diff");
    assert!(
        diff.contains("[git left out what looks like it holds secrets: a~; name"),
        "{diff}"
    );
    assert!(diff.contains("+KEY=new") && diff.contains("a.bak"), "{diff}");
    let log = ask("git log -p side");
    assert!(
        !log.contains("second") && log.contains("merges and commits that change only these"),
        "{log}"
    );
    let log = ask("git log -p side --");
    assert!(log.contains("second") && !log.contains("may be missing"), "{log}");
    let grep = ask("git grep -c KEY=canary side");
    assert!(
        !grep.contains(".env:1") && grep.contains("[git left out"),
        "{grep}"
    );
}

#[test]
fn git_runs_no_program_of_an_untrusted_repository() {
    let world = World::new();
    let trapped = prepare(&world);
    let outputs = outputs(&world, &trapped, &COMMANDS, false);
    for (command, (output, was_run)) in COMMANDS.iter().zip(&outputs) {
        assert!(!was_run, "{command}: {output}");
    }
    assert!(outputs[0].0.contains("modified:   a.txt"), "{}", outputs[0].0);
    assert!(
        outputs[2].0.contains("-one") && outputs[2].0.contains("+two"),
        "{}",
        outputs[2].0
    );
    assert!(outputs[3].0.contains("+one"), "{}", outputs[3].0);
    assert!(outputs[7].0.contains("dubious ownership"), "{}", outputs[7].0);
    assert!(
        outputs[7]
            .0
            .contains("[the user does not trust this folder, so git accepts only"),
        "{}",
        outputs[7].0
    );
    assert!(outputs[9].0.contains("bare repository"), "{}", outputs[9].0);
}

#[test]
fn git_follows_the_settings_of_a_trusted_repository() {
    let world = World::new();
    let trapped = prepare(&world);
    let outputs = outputs(&world, &trapped, &COMMANDS, true);
    let ran: Vec<&str> = COMMANDS
        .iter()
        .zip(&outputs)
        .filter_map(|(command, (_, was_run))| was_run.then_some(*command))
        .collect();
    assert!(
        ran.contains(&"git status") && ran.contains(&"git statusx"),
        "{ran:?}"
    );
}

#[test]
fn a_command_works_in_the_repository_that_it_creates_in_another_one() {
    let world = World::new();
    let trapped = world.path("trapped");
    run(&world, "git -C .. init -q", &trapped);
    let create =
        "git init -q . && git -c user.name=n -c user.email=e commit -q --allow-empty -m one && git log";
    let outputs = outputs(&world, &trapped, &[create], false);
    assert!(outputs[0].0.contains("    one"), "{}", outputs[0].0);
}

#[test]
fn git_refuses_settings_that_cannot_be_inspected() {
    for sabotage in [
        "git config include.path ../more",
        "rm .git/config && mkfifo .git/config",
        "git config core.worktree /",
        "mv .git dir && echo 'gitdir: dir' >.git && git config core.worktree /",
        "mv .git ../dir && echo 'gitdir: ../dir' >.git",
        "git init -q ../other && echo ../../other/.git >.git/commondir",
        "mv .git dir && ln -s dir .git",
        "echo secret >.env && ln -s ../.env .git/shallow",
        "mkdir ../info && rm -rf .git/info && ln -s ../../info .git/info",
        "mkfifo .git/MERGE_HEAD",
    ] {
        let world = World::new();
        let trapped = prepare(&world);
        run(&world, sabotage, &trapped);
        let outputs = outputs(&world, &trapped, &COMMANDS[..1], false);
        assert!(outputs.iter().all(|(_, ran)| !ran), "{sabotage}: {outputs:?}");
        assert!(
            !outputs[0].0.contains("modified:"),
            "{sabotage}: {}",
            outputs[0].0
        );
    }
}

#[test]
fn git_works_in_linked_work_trees_and_submodules_of_an_untrusted_folder() {
    let world = World::new();
    let trapped = prepare(&world);
    run(
        &world,
        "git init -q ../main && cd ../main && git -c user.name=n -c user.email=e commit -q --allow-empty -m one\n\
         git worktree add -q ../work/linked\n\
         git -c protocol.file.allow=always submodule --quiet add ../main sub\n\
         mv sub ../work/sub && sed -i 's|^gitdir: .*|gitdir: ../../main/.git/modules/sub|' ../work/sub/.git\n\
         git config -f .git/modules/sub/config core.worktree ../../../../work/sub\n\
         touch ../work/linked/new.txt ../work/sub/new.txt",
        &trapped,
    );
    let client = world.start();
    for folder in ["linked", "sub"] {
        let cwd = world.workspace().join(folder);
        let session = client.session_with(json!({"mode": "full", "cwd": cwd}));
        world
            .mock()
            .push(Reply::tool("bash", json!({"command": "git status --short"})));
        client.ask(&session, "look");
        let request = world.wait_for_request(world.requests() - 1);
        let message = request.messages().last().unwrap().to_string();
        assert!(message.contains("?? new.txt"), "{folder}: {message}");
    }
}
