//! What people have before a turn survives its commands: a revert brings it back, or a question said that it would not.
#![expect(clippy::disallowed_methods, reason = "git makes the repositories")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::harness::{Client, Notification, Options, World, contents, is_sample};
use crate::mock_llm::Reply;
use crate::revert::{bash, revert};
use crate::sandbox::last_result;

/// The files of the workspace: committed, changed since, new, ignored, and below an ignored folder.
const FILES: [(&str, &str); 6] = [
    ("a.txt", "committed\n"),
    ("dirty.txt", "committed\n"),
    ("dir/b.txt", "committed\n"),
    (".gitignore", "*.local\ndata/\n"),
    ("settings.local", "mine\n"),
    ("data/results.csv", "1,2\n"),
];

/// What is written after the commit. Unpacked archives have files of the same size and time, as these do.
const LATER: [(&str, &str); 5] = [
    ("dirty.txt", "committed\nand half a day of work\n"),
    ("dir/new.txt", "never added\n"),
    ("notes.md", "never added\n"),
    ("one.cfg", "version=1\n"),
    ("two.cfg", "version=2\n"),
];

/// Commands that need git.
const GIT_COMMANDS: [&str; 20] = [
    "git reset --hard",
    "git checkout -- .",
    "git checkout .",
    "git restore .",
    "git restore --staged --worktree .",
    "git checkout -f other",
    "git switch --discard-changes other",
    "git clean -fd",
    "git clean -fdx",
    "git clean -fdX",
    "git stash",
    "git stash -u",
    "git stash --all",
    "git rm -rf dir",
    "git mv -f notes.md a.txt; git mv -f dir/b.txt dirty.txt",
    "git read-tree --reset -u HEAD",
    "git add -A && git rebase --autostash other",
    "git apply --unsafe-paths < /dev/null; git reset -q --hard other",
    "git add -A; git commit -qm x; git reset -q --hard HEAD~1",
    "git -C dir checkout -f other",
];

/// Commands that work everywhere.
const PLAIN_COMMANDS: [&str; 31] = [
    "rm dirty.txt",
    "rm -f notes.md settings.local",
    "rm -rf dir",
    "rm -rf data",
    "rm -rf *",
    "rm -rf ./* ./.gitignore",
    "echo x > dirty.txt",
    ": > notes.md",
    "> settings.local",
    "echo x >> notes.md",
    "sed -i s/work/play/ dirty.txt notes.md",
    "sed -i s/mine/yours/ settings.local",
    "find . -name '*.md' -delete",
    "find dir -type f -exec rm {} +",
    "find data -delete",
    "truncate -s 0 dirty.txt",
    "echo x | tee notes.md data/results.csv",
    "cp a.txt dirty.txt",
    "cp a.txt settings.local",
    "mv a.txt notes.md",
    "mv notes.md data/results.csv",
    "mkdir empty && rsync -a --delete empty/ dir/ || rm -rf dir",
    "dd if=/dev/null of=dirty.txt",
    "ln -sf a.txt dirty.txt",
    "sh -c 'rm -rf dir data'",
    "ls *.md | xargs rm",
    "python3 -c \"open('dirty.txt', 'w').write('x')\"",
    "perl -pi -e s/work/play/ dirty.txt",
    "mv one.cfg two.cfg",
    "cp -p one.cfg two.cfg",
    "echo version=3 > one.cfg; touch -r two.cfg one.cfg",
];

/// Commands that have the names of ignored files somewhere.
const IGNORED_COMMANDS: [&str; 11] = [
    "gzip settings.local",
    "sort -u a.txt -o settings.local",
    "rm {settings.local,data/results.csv}",
    "f=settings.local; rm $f",
    "sed -n 'w settings.local' a.txt",
    "awk '{print > \"settings.local\"}' a.txt",
    "python3 -c \"import os; os.rename('settings.local', 'found.txt')\"",
    "mv settings.local notes.md",
    "cd data && : > results.csv",
    "trap 'rm settings.local' EXIT",
    "tar cf data/results.csv a.txt",
];

/// Commands that change ignored files whose names only the shell or a program knows.
const UNNAMED_COMMANDS: [&str; 10] = [
    "rm $(ls *.local)",
    "for f in *.local; do rm $f; done",
    "rm s*.local data/r*",
    "sh clean.sh",
    "make clean",
    "find . -name '*.local' -delete",
    "find . -name '*.csv' -exec rm {} +",
    "python3 clean.py",
    "d=da; rm -r ${d}ta",
    "perl -e 'unlink glob \"*.local\"; truncate((glob \"data/*\")[0], 0)'",
];

/// What the scripts and the rules of [`UNNAMED_COMMANDS`] do.
const SCRIPTS: [(&str, &str); 3] = [
    ("clean.sh", "for f in *.local data/*; do rm $f; done\n"),
    ("Makefile", "clean:\n\t@rm -rf *.local data\n"),
    (
        "clean.py",
        "import glob, os\nfor f in glob.glob('*.local'): os.rename(f, 'data/moved')\n",
    ),
];

/// What agents run most often of all these.
const COMMON_COMMANDS: [&str; 8] = [
    "git reset --hard",
    "git checkout -- .",
    "git clean -fd",
    "git stash -u",
    "rm dirty.txt",
    "rm -rf dir",
    "echo x > dirty.txt",
    "sed -i s/work/play/ dirty.txt notes.md",
];

/// Runs git in the workspace, with no settings but the repository's.
fn git(world: &World, args: &[&str]) {
    let done = Command::new("git")
        .current_dir(world.workspace())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
        .args(args)
        .output()
        .unwrap();
    assert!(done.status.success(), "{args:?}: {done:?}");
}

/// Makes a repository of the workspace, and commits all files.
fn commit_all(world: &World) {
    git(world, &["init", "-q", "-b", "main"]);
    git(world, &["config", "user.name", "a"]);
    git(world, &["config", "user.email", "a@example.org"]);
    git(world, &["add", "."]);
    git(world, &["commit", "-qm", "first"]);
}

/// Replaces all files of the workspace.
fn fill(world: &World, with_git: bool) {
    for entry in std::fs::read_dir(world.workspace()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
    for (name, text) in FILES.into_iter().chain(SCRIPTS) {
        world.write(name, text);
    }
    if with_git {
        commit_all(world);
        git(world, &["branch", "other"]);
    }
    for (name, text) in LATER {
        world.write(name, text);
        let file = std::fs::File::options()
            .append(true)
            .open(world.workspace().join(name))
            .unwrap();
        let unpacked_at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        file.set_modified(unpacked_at).unwrap();
    }
}

/// Returns the files of the workspace, without git's own.
fn files(world: &World) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = contents(&world.workspace());
    files.retain(|path, _| !path.components().any(|part| part.as_os_str() == ".git"));
    files
}

/// Runs a turn with one command, and allows it if that is asked. Returns the turn, and the question.
fn run(world: &World, client: &Client, session: &str, command: &str) -> (String, Option<Arc<Notification>>) {
    world.mock().push(Reply::new().call("bash", bash(command).1));
    world.mock().push(Reply::text("done"));
    let id = client.prompt(session, "do it");
    let questions = || client.all(session, "agent/approvalRequested");
    world.wait_until(|| !questions().is_empty() || !client.all(session, "agent/turnEnded").is_empty());
    let asked = questions().pop();
    if let Some(approval) = &asked {
        client.decide(approval, "allow");
    }
    (client.prompt_result(&id).turn_id, asked)
}

/// Runs the commands, and reverts each. Nothing is gone that the question did not name.
fn check<'a>(mode: &str, with_git: bool, commands: impl IntoIterator<Item = &'a &'a str>) {
    let world = World::new();
    let client = world.start();
    for command in commands {
        fill(&world, with_git);
        let before = files(&world);
        let session = client.session_with(json!({"mode": mode}));
        let (turn, asked) = run(&world, &client, &session, command);
        let named = asked.map_or_else(Vec::new, |approval| named_losses(&approval));
        let changed = before != files(&world);
        if changed {
            revert(&client, &session, &turn, json!({}));
        }
        let after = files(&world);
        for (path, bytes) in &before {
            let name = path
                .strip_prefix(world.workspace())
                .unwrap_or(path)
                .display()
                .to_string();
            assert!(
                after.get(path) == Some(bytes) || named.contains(&name),
                "{mode}, git {with_git}, `{command}`: {name} is gone, and the question named {named:?}"
            );
        }
    }
}

/// Returns what a question says would be gone for good.
fn named_losses(approval: &Notification) -> Vec<String> {
    let loses = approval.params["loses"].as_array().cloned().unwrap_or_default();
    let named: Vec<String> = loses
        .iter()
        .map(|loss| loss["what"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        named.is_empty() || approval.text("risk") == "high",
        "{approval:?}"
    );
    named
}

#[test]
fn own_work_survives_commands_of_git() {
    check("full", true, &GIT_COMMANDS);
}

#[test]
fn own_work_survives_commands_on_files_in_a_repository() {
    check("full", true, &PLAIN_COMMANDS);
}

#[test]
fn own_work_survives_commands_on_files_without_git() {
    check("full", false, &PLAIN_COMMANDS);
}

#[test]
fn ignored_files_survive_commands_that_name_them() {
    for with_git in [true, false] {
        check("full", with_git, &IGNORED_COMMANDS);
    }
}

#[test]
fn ignored_files_survive_commands_that_do_not_name_them() {
    let every: &[&str] = if is_sample() {
        &["full"]
    } else {
        &["ask", "autoEdit", "full"]
    };
    for mode in every {
        for with_git in [true, false] {
            check(mode, with_git, &UNNAMED_COMMANDS);
        }
        check(mode, true, &["git clean -fdX"]);
    }
}

/// What programs make and remake is no work of a person, and no news.
#[test]
fn ignored_files_that_commands_make_are_not_reported() {
    let world = World::new();
    fill(&world, true);
    world.write(".gitignore", "*.local\n*.log\n*.o\nbuild/\n");
    world.write("old.o", "of a build\n");
    world.write("build/old", "of a build\n");
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    // Nothing is named on a command line.
    for script in [
        "echo 1 > new.log; echo 2 > build/new; rm old.o build/old",
        "echo 3 >> new.log; touch other.log",
        "rm *.log *.local",
    ] {
        world.write("script.sh", script);
        run(&world, &client, &session, "sh script.sh");
    }
    let diffs = client.all(&session, "agent/turnDiff");
    let paths: Vec<&str> = diffs
        .iter()
        .flat_map(|diff| diff.params["files"].as_array().unwrap())
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
    assert!(paths[0].ends_with("settings.local"), "{paths:?}");
}

/// No copy is made of a secret, or of a large file.
#[test]
fn lost_ignored_files_that_are_not_kept_are_reported() {
    let world = World::new();
    world.write(".gitignore", ".env\n*.local\n");
    world.write(".env", "KEY=1\n");
    let big = std::fs::File::create(world.workspace().join("big.local")).unwrap();
    big.set_len(5 << 20).unwrap();
    world.write("clean.sh", "rm .e* b*\n");
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    let (turn, _) = run(&world, &client, &session, "sh clean.sh");
    let result = revert(&client, &session, &turn, json!({}));
    let conflicts = result["conflicts"].as_array().unwrap();
    let lost: Vec<&str> = conflicts
        .iter()
        .map(|conflict| conflict["path"].as_str().unwrap())
        .collect();
    assert_eq!(lost, [".env", "big.local"], "{result}");
}

/// Nobody watches what a build makes, so where it was moved to may be its only place.
#[test]
fn a_revert_deletes_no_ignored_file_that_a_command_moved() {
    for with_git in [true, false] {
        let world = World::new();
        world.write(".gitignore", "build\n");
        world.write("a.txt", "a\n");
        if with_git {
            commit_all(&world);
        }
        world.write("build/thesis.local", "precious\n");
        world.write("build/other.local", "precious, too\n");
        let client = world.start();
        let session = client.session_with(json!({"mode": "full"}));
        // The files are older than the next command.
        run(&world, &client, &session, "true");
        // The names are known to the shell only.
        let command = "cp -p b*/t*.local copy.txt; mkdir d; mv b*/t*.local d/new.txt; mv b*/o*.local a.txt";
        let (turn, _) = run(&world, &client, &session, command);
        let result = revert(&client, &session, &turn, json!({}));
        let conflicts: Vec<&str> = result["conflicts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|conflict| conflict["path"].as_str().unwrap())
            .collect();
        assert_eq!(conflicts.len(), 2, "{result}");
        assert_eq!(world.read("d/new.txt").as_deref(), Some("precious\n"), "{result}");
        assert_eq!(
            world.read("a.txt").as_deref(),
            Some("precious, too\n"),
            "{result}"
        );
        // A copy is new.
        assert_eq!(world.read("copy.txt"), None, "{result}");
    }
}

/// The mode decides what is asked and how a command is confined, so the most common commands are enough.
#[test]
fn own_work_survives_in_the_modes_that_confine_commands() {
    for mode in ["ask", "autoEdit"] {
        check(mode, true, &COMMON_COMMANDS);
        check(
            mode,
            false,
            COMMON_COMMANDS
                .iter()
                .filter(|command| !command.starts_with("git")),
        );
    }
}

/// Returns whether nobody keeps anything there.
fn is_temporary(path: &Path) -> bool {
    path.starts_with("/tmp") || path.starts_with(std::env::temp_dir())
}

/// What cannot be brought back is asked about in every mode, and a denial leaves it.
#[test]
fn what_cannot_be_brought_back_is_asked_about() {
    let world = World::new();
    fill(&world, true);
    let big = world.workspace().join("data/big.bin");
    std::fs::File::create(&big).unwrap().set_len(80 << 20).unwrap();
    world.write(".env", "KEY=1\n");
    world.write("more.txt", "stashed\n");
    git(&world, &["stash", "push", "-q", "-u", "--", "more.txt"]);
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outside = elsewhere.path().canonicalize().unwrap().join("thesis.txt");
    std::fs::write(&outside, "outside\n").unwrap();
    let client = world.start();
    let remove_outside = format!("rm {}", outside.display());
    let folder_outside = elsewhere.path().display();
    let sort_outside = format!("f={}; sort a.txt -o \"$f\"", outside.display());
    let unpack_outside = format!("tar xf a.tar -C {folder_outside}");
    let reset_outside = format!("git -C {folder_outside} reset --hard");
    git(&world, &["init", "-q", elsewhere.path().to_str().unwrap()]);
    git(
        &world,
        &["-C", elsewhere.path().to_str().unwrap(), "add", "thesis.txt"],
    );
    std::fs::write(&outside, "outside, and changed\n").unwrap();
    let remove_in_folder = format!("cd {folder_outside}; rm -f thesis.txt");
    for (command, lost) in [
        ("rm -rf data", "data/big.bin"),
        ("> data/big.bin", "data/big.bin"),
        ("git clean -fdx", "data/big.bin"),
        // No copy is made of a secret.
        ("rm .env", ".env"),
        ("git clean -fd", ".env"),
        ("git stash drop", "an entry of the stash"),
        ("git stash clear", "all entries of the stash"),
        ("git branch -D other", "the commits that only this branch has"),
        ("rm -rf .git", ".git"),
        ("rm -rf .git/refs", ".git/refs"),
        ("cd .git; echo x > HEAD", ".git/HEAD"),
        ("git tag -d v1", "what the tag pointed to"),
        // The sandbox has a folder of its own there, which ends with the session.
        ("mv data /tmp/elsewhere", "data/big.bin"),
        ("rm -rf \"$PWD/data\"", "data/big.bin"),
        (
            "rm -rf \"$(cat a.txt)\"",
            "files whose names only the shell knows",
        ),
        ("rm \"$PWD/.env\"", ".env"),
        ("rm $(ls .e*)", ".env"),
        ("f=.env; rm \"$f\"", ".env"),
        ("for f in .e*; do > \"$f\"; done", ".env"),
        ("cat a.txt | while read f; do rm \"$f\"; done", ".env"),
        ("bash <<< 'rm .env'", ".env"),
        ("sh <<E\nrm .env\nE", ".env"),
        ("echo 'rm .env' | sh", ".env"),
        ("(cd dir && rm ../.env)", ".env"),
        ("sort a.txt -o .env", ".env"),
        ("echo $[1]; rm .env", ".env"),
        (&remove_outside, outside.to_str().unwrap()),
        (&remove_in_folder, outside.to_str().unwrap()),
        (&sort_outside, outside.to_str().unwrap()),
        (&unpack_outside, outside.to_str().unwrap()),
        (&reset_outside, outside.to_str().unwrap()),
    ] {
        let is_outside = lost == outside.to_str().unwrap();
        if is_outside && is_temporary(&outside) {
            continue;
        }
        // In the sandbox, the file outside is safe.
        let modes: &[&str] = if is_outside {
            &["full"]
        } else {
            &["ask", "autoEdit", "full"]
        };
        for mode in modes {
            let session = client.session_with(json!({"mode": mode}));
            world.mock().push(Reply::new().call("bash", bash(command).1));
            world.mock().push(Reply::text("done"));
            let id = client.prompt(&session, "do it");
            let approval = client.next_approval(&session);
            assert!(
                named_losses(&approval).iter().any(|named| named == lost),
                "{mode} `{command}`: {approval:?}"
            );
            assert_eq!(approval.params.get("rule"), None, "{approval:?}");
            client.decide(&approval, "deny");
            client.prompt_result(&id);
        }
    }
    assert!(big.exists() && outside.exists());
    assert_eq!(world.read("notes.md").unwrap(), "never added\n");
}

/// What a line makes itself, and what builds make, can go without a question.
#[test]
fn temporary_files_and_products_are_deleted_without_a_question() {
    let world = World::new();
    fill(&world, true);
    world.write(".env", "KEY=1\n");
    world.write("a.o", "object\n");
    let client = world.start();
    for mode in ["autoEdit", "full"] {
        for command in [
            "f=$(mktemp); echo x > \"$f\"; rm \"$f\"",
            "d=$(mktemp -d); trap 'rm -rf \"$d\"' EXIT; echo x > \"$d/x\"; cp \"$d/x\" \"$d/y\"",
            "for f in *.o; do rm -f \"$f\"; done",
            "rm -f $(ls *.o)",
            "rm -f \"$PWD/a.o\" \"${TMPDIR:-/tmp}/nothing\"",
            "x=a; echo 2 > \"$x.txt\"",
            "tar cf new.tar a.txt; tar xf new.tar",
        ] {
            let session = client.session_with(json!({"mode": mode}));
            let (_, asked) = run(&world, &client, &session, command);
            let named = asked.map(|approval| named_losses(&approval));
            assert_eq!(named.unwrap_or_default(), [""; 0], "{mode} `{command}`");
        }
    }
}

/// The next git command finds the former commit, and no lock of a killed git is in its way.
#[test]
fn a_moved_head_is_reported_and_locks_of_a_stopped_command_are_removed() {
    let world = World::new();
    fill(&world, true);
    git(&world, &["commit", "-qam", "second"]);
    world.write(".git/config.lock", "of the user\n");
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    let run = |command: &str| {
        world.mock().push(Reply::new().call("bash", bash(command).1));
        world.mock().push(Reply::text("done"));
        client.prompt(&session, "do it")
    };
    client.prompt_result(&run("git status --short"));
    assert!(!last_result(&world).contains("[HEAD"));
    client.prompt_result(&run("git reset -q --soft HEAD~1; git commit -qm again"));
    let result = last_result(&world);
    assert!(result.contains("[HEAD moved from "), "{result}");
    assert!(
        result.contains("(commit: again); HEAD@{2} is the former]"),
        "{result}"
    );
    let id = run("touch .git/index.lock .git/HEAD.lock && echo up; sleep 600");
    client.next_matching(&session, "agent/toolOutputDelta", |notification| {
        notification.text("text").contains("up")
    });
    client.cancel(&session);
    client.prompt_result(&id);
    let git_folder = world.workspace().join(".git");
    let remaining = ["index.lock", "HEAD.lock", "config.lock"].map(|name| git_folder.join(name).exists());
    assert_eq!(remaining, [false, false, true]);
    // So are those of a git that the command itself has killed.
    for killed in [
        "touch .git/index.lock; timeout -s KILL 0.1 sleep 60",
        "touch .git/index.lock; bash -c 'kill -9 $$'; true",
    ] {
        client.prompt_result(&run(killed));
        let result = last_result(&world);
        assert!(result.contains("[removed .git/index.lock, which "), "{result}");
        assert!(!git_folder.join("index.lock").exists(), "{killed}");
    }
}

/// The repository may begin above the workspace folder, and the session in a folder of the workspace.
#[test]
fn own_work_in_a_subfolder_survives() {
    let git_commands = [
        "git reset -q --hard",
        "git clean -qfdx",
        "git stash -q -u",
        "git checkout -q -- .",
    ];
    let plain_commands = [
        "echo x > a.txt; rm -rf dir dirty.txt; rm $(ls *.local); mkdir made; echo x > made/x",
        "mv a.txt dir/b.txt; rm n*",
    ];
    for (with_git, is_workspace) in [(true, true), (true, false), (false, true), (false, false)] {
        let world = World::new();
        for (name, text) in [
            (".gitignore", "*.local\n"),
            ("pkg/a.txt", "committed\n"),
            ("pkg/dirty.txt", "committed\n"),
            ("pkg/dir/b.txt", "committed too\n"),
            ("other.txt", "committed\n"),
        ] {
            world.write(name, text);
        }
        let mut commands = plain_commands.to_vec();
        if with_git {
            commit_all(&world);
            commands.extend(git_commands);
        }
        for name in ["pkg/dirty.txt", "pkg/new.txt", "pkg/mine.local"] {
            world.write(name, "mine\n");
        }
        let client = world.launch(Options::default());
        let mut params = client.initialize_params(None);
        if is_workspace {
            params["workspaceFolders"] = json!([{"uri": world.uri("pkg"), "name": "pkg"}]);
        }
        let _: Value = client.call("initialize", params);
        client.initialized();
        let before = files(&world);
        for command in commands {
            let cwd = world.workspace().join("pkg");
            let session = client.session_with(json!({"mode": "full", "cwd": cwd}));
            let (turn, _) = run(&world, &client, &session, command);
            let changed = files(&world);
            assert_ne!(
                changed, before,
                "git {with_git}, workspace {is_workspace}, `{command}`"
            );
            let result = revert(&client, &session, &turn, json!({}));
            let after = files(&world);
            assert_eq!(
                after, before,
                "git {with_git}, workspace {is_workspace}, `{command}`: {result}"
            );
        }
    }
}

#[test]
fn commands_in_a_large_repository_can_be_reverted() {
    let world = World::new();
    let many = world.workspace().join("many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..20_500 {
        std::fs::write(many.join(number.to_string()), "").unwrap();
    }
    commit_all(&world);
    let before = files(&world);
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    for command in [
        "echo 1 > many/9; echo 2 > new",
        "rm many/20499; echo 3 > many/9; mkdir -p x/y; mv many/3 x/y",
    ] {
        world.mock().push(Reply::new().call("bash", bash(command).1));
    }
    world.mock().push(Reply::text("done"));
    let done = client.ask(&session, "do it");
    assert_eq!(
        client.next(&session, "agent/turnDiff").params.get("partial"),
        None
    );
    assert_ne!(files(&world), before);
    revert(&client, &session, &done.turn_id, json!({}));
    assert_eq!(files(&world), before);
}
