//! Reverting files that commands changed (R-SESS-3).
//!
//! A revert needs the old content: from git, from a file that was only renamed, or kept by an earlier server. Changes
//! that others make during a command must stay.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "git makes the repositories, mount the small disk; who runs the tests hears what could not be tried"
)]

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::harness::{Options, World, is_sample, now};
use crate::revert::{bash, edit, entry_fields, free, read, revert, turn};

const UNKNOWN: &str = "its old content is unknown";
const SINCE: &str = "it has changed since";

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

/// Backdates a file: git's index does not trust a file that is as young as the index itself.
fn backdate(path: &Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    file.set_modified(long_ago).unwrap();
}

/// Waits until a file that is written now is at least 20 ms younger than all files so far. Files that were backdated have
/// the time of their last change nevertheless, which cannot be set.
fn wait_for_later_file_times(world: &World) {
    let write_probe = || {
        let probe = world.path("tmp/probe");
        std::fs::write(&probe, "").unwrap();
        std::fs::metadata(probe).unwrap().modified().unwrap()
    };
    let earlier = write_probe();
    world.wait_until(|| write_probe() >= earlier + Duration::from_millis(20));
}

/// Creates a repository and commits the files.
fn commit(world: &World, files: &[(&str, &[u8])]) {
    for (name, bytes) in files {
        backdate(&world.write(name, bytes));
    }
    // The index must be younger than the files.
    wait_for_later_file_times(world);
    git(world, &["init", "-q"]);
    git(world, &["add", "-A"]);
    git(world, &["commit", "-qm", "first"]);
}

fn read_bytes(world: &World, name: &str) -> Vec<u8> {
    std::fs::read(world.workspace().join(name)).unwrap()
}

fn read_link_target(world: &World, name: &str) -> String {
    let target = std::fs::read_link(world.workspace().join(name)).unwrap();
    target.to_str().unwrap().to_owned()
}

#[test]
fn revert_restores_from_git_without_running_repository_programs() {
    let world = World::new();
    symlink("a.txt", world.path("work/link")).unwrap();
    let files: [(&str, &[u8]); 9] = [
        ("a.txt", b"a\n"),
        ("bin", b"\0\xff\x01"),
        ("crlf.txt", b"one\r\ntwo\r\n"),
        ("deleted.txt", b"deleted\n"),
        ("dir/run.sh", b"#!/bin/sh\n"),
        ("dirty.txt", b"committed\n"),
        ("filtered.evil", b"filtered\n"),
        ("ident.id", b"$Id$\n"),
        (".gitattributes", b"*.evil filter=evil diff=evil\n*.id ident\n"),
    ];
    std::fs::create_dir_all(world.path("work/dir")).unwrap();
    commit(&world, &files);
    std::fs::set_permissions(
        world.path("work/dir/run.sh"),
        std::fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    world.write("dirty.txt", "a user's\n");
    // Every setting and hook by which git could start a program.
    let trap = world.write(
        "trap.sh",
        format!("#!/bin/sh\ntouch {}\n", world.path("pwned").display()),
    );
    std::fs::set_permissions(&trap, std::fs::Permissions::from_mode(0o755)).unwrap();
    let trap = trap.to_str().unwrap();
    for name in [
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.gitProxy",
        "core.alternateRefsCommand",
        "filter.evil.smudge",
        "filter.evil.clean",
        "filter.evil.process",
        "diff.evil.textconv",
        "diff.external",
        "remote.origin.uploadpack",
        "credential.helper",
    ] {
        let value = match name {
            "credential.helper" => format!("!{trap}"),
            _ => trap.to_owned(),
        };
        git(&world, &["config", name, &value]);
    }
    for (name, value) in [
        ("remote.origin.url", format!("ext::{trap}")),
        ("remote.origin.promisor", "true".to_owned()),
        ("protocol.ext.allow", "always".to_owned()),
        ("extensions.partialClone", "origin".to_owned()),
        ("core.repositoryFormatVersion", "1".to_owned()),
    ] {
        git(&world, &["config", name, &value]);
    }
    for hook in [
        "post-index-change",
        "post-checkout",
        "reference-transaction",
        "pre-auto-gc",
    ] {
        let path = world.path("work/.git/hooks").join(hook);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(trap, path).unwrap();
    }
    let client = world.start();
    let session = free(&client);
    let command = "printf x > a.txt; printf 'y\\0' > bin; printf z > crlf.txt; rm deleted.txt; chmod -x dir/run.sh; \
                   echo more >> dir/run.sh; echo 1 > dirty.txt; echo 1 > filtered.evil; echo 1 > ident.id; \
                   rm link; ln -s bin link; echo n > new.txt";
    let id = turn(&world, &client, &session, &[bash(command)]);
    let diff = client.next(&session, "agent/turnDiff");
    let files = diff.params["files"].as_array().unwrap();
    assert_eq!(files.len(), 10, "{files:?}");
    let lost: Vec<&str> = files
        .iter()
        .filter(|file| file["unrestorable"] == true)
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(lost, ["filtered.evil", "ident.id"]);
    assert!(
        files[0]["diff"].as_str().unwrap().contains("-a\n+x"),
        "{}",
        files[0]
    );
    let preview = revert(&client, &session, &id, json!({"dryRun": true}));
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!(done, preview);
    assert_eq!(
        entry_fields(&done, "conflicts", "why"),
        [("filtered.evil", UNKNOWN), ("ident.id", UNKNOWN)]
    );
    assert_eq!(read_bytes(&world, "a.txt"), b"a\n");
    assert_eq!(read_bytes(&world, "bin"), b"\0\xff\x01");
    assert_eq!(read_bytes(&world, "crlf.txt"), b"one\r\ntwo\r\n");
    assert_eq!(read_bytes(&world, "deleted.txt"), b"deleted\n");
    assert_eq!(read_bytes(&world, "dir/run.sh"), b"#!/bin/sh\n");
    let mode = world
        .path("work/dir/run.sh")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o755);
    assert_eq!(read_link_target(&world, "link"), "a.txt");
    assert_eq!(world.read("new.txt"), None);
    assert_eq!(world.read("dirty.txt").unwrap(), "a user's\n");
    assert!(
        !world.path("pwned").exists(),
        "a program of the repository was started"
    );
}

#[test]
fn revert_uses_the_git_index_from_before_the_command() {
    let world = World::new();
    commit(
        &world,
        &[("a.txt", b"a\n"), ("b.txt", b"b\n"), ("sub/c.txt", b"c\n")],
    );
    // A second worktree inside, with its own index.
    git(&world, &["worktree", "add", "-q", "inner"]);
    backdate(&world.path("work/inner/a.txt"));
    wait_for_later_file_times(&world);
    let inner = world.path("work/inner");
    git(
        &world,
        &["-C", inner.to_str().unwrap(), "update-index", "--refresh"],
    );
    let client = world.start();
    let session = free(&client);
    let command = "echo x > a.txt; git rm -q b.txt; git mv sub moved; echo y > inner/a.txt; \
                   git -c user.name=a -c user.email=a@example.org commit -qam second";
    let id = turn(&world, &client, &session, &[bash(command)]);
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!(
        entry_fields(&done, "files", "kind"),
        [
            ("a.txt", "modified"),
            ("b.txt", "created"),
            ("inner/a.txt", "modified"),
            ("moved/c.txt", "deleted"),
            ("sub/c.txt", "created"),
        ]
    );
    assert_eq!(done["conflicts"], json!([]));
    for (name, text) in [
        ("a.txt", "a\n"),
        ("b.txt", "b\n"),
        ("inner/a.txt", "a\n"),
        ("sub/c.txt", "c\n"),
    ] {
        assert_eq!(world.read(name).as_deref(), Some(text), "{name}");
    }
    // If the attributes change with the file, the old content is unknown.
    backdate(&world.path("work/a.txt"));
    wait_for_later_file_times(&world);
    git(&world, &["add", "-A", "--", "a.txt"]);
    let id = turn(
        &world,
        &client,
        &session,
        &[bash("echo '* ident' > .gitattributes; echo z > a.txt")],
    );
    // This session still knows the file from its own changes.
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!(done["conflicts"], json!([]));
    let other = free(&client);
    backdate(&world.path("work/a.txt"));
    git(&world, &["add", "-A", "--", "a.txt"]);
    let id = turn(
        &world,
        &client,
        &other,
        &[bash("echo '* ident' > .gitattributes; echo z > a.txt")],
    );
    let done = revert(&client, &other, &id, json!({}));
    assert_eq!(entry_fields(&done, "conflicts", "why"), [("a.txt", UNKNOWN)]);
}

#[test]
fn without_the_program_git_contents_are_kept() {
    let world = World::new();
    commit(&world, &[("a.txt", b"a\n")]);
    let programs = world.path("programs");
    std::fs::create_dir(&programs).unwrap();
    symlink("/bin/bash", programs.join("bash")).unwrap();
    let client = world.start_with(Options {
        env: vec![("PATH".to_owned(), programs.display().to_string())],
        ..Options::default()
    });
    let session = free(&client);
    let id = turn(
        &world,
        &client,
        &session,
        &[bash("echo x > a.txt; echo y > b.txt")],
    );
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!(done["conflicts"], json!([]));
    assert_eq!(world.read("a.txt").unwrap(), "a\n");
    assert_eq!(world.read("b.txt"), None);
}

#[test]
fn renamed_files_are_restored() {
    let world = World::new();
    world.write("precious.txt", "precious\n");
    world.write("dir/a", "a\n");
    world.write("dir/deep/b", [0, 255, 1]);
    let client = world.start();
    let session = free(&client);
    let id = turn(
        &world,
        &client,
        &session,
        &[bash(
            "mv precious.txt other.txt; mv dir elsewhere; mv elsewhere/a a.txt",
        )],
    );
    let there = ["other.txt", "elsewhere/deep/b", "a.txt"];
    assert!(there.iter().all(|name| world.workspace().join(name).exists()));
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!(done["conflicts"], json!([]));
    assert_eq!(world.read("precious.txt").unwrap(), "precious\n");
    assert_eq!(world.read("dir/a").unwrap(), "a\n");
    assert_eq!(read_bytes(&world, "dir/deep/b"), [0, 255, 1]);
    assert!(!there.iter().any(|name| world.workspace().join(name).exists()));
    revert(&client, &session, &id, json!({"redo": true}));
    assert!(there.iter().all(|name| world.workspace().join(name).exists()));
    assert_eq!(world.read("precious.txt"), None);
}

#[test]
fn ignored_files_are_restored_only_if_read_and_never_deleted() {
    let world = World::new();
    world.write(".gitignore", ".env\nlocal.toml\nout/\n");
    world.write(".env", "SECRET=1\n");
    world.write("local.toml", "a = 1\n");
    world.write("out/built", "1\n");
    world.write("out/untouched", "1\n");
    wait_for_later_file_times(&world);
    let client = world.start();
    let session = free(&client);
    // The line does not name them, so nothing is kept for it.
    let script = "echo 'a = 2' > local.toml; echo 2 > out/built; echo SECRET=2 > .env; rm .gitignore";
    world.write("run.sh", script);
    let id = turn(
        &world,
        &client,
        &session,
        &[read("local.toml"), read(".gitignore"), bash("sh run.sh")],
    );
    let diff = client.next(&session, "agent/turnDiff");
    // Files that are visible only since `.gitignore` is gone must not count as new.
    assert_eq!(
        entry_fields(&diff.params, "files", "kind"),
        [
            (".env", "modified"),
            (".gitignore", "deleted"),
            ("local.toml", "modified"),
            ("out/built", "modified")
        ]
    );
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!(
        entry_fields(&done, "conflicts", "why"),
        [(".env", UNKNOWN), ("out/built", UNKNOWN)]
    );
    assert_eq!(world.read("local.toml").unwrap(), "a = 1\n");
    assert_eq!(world.read(".env").unwrap(), "SECRET=2\n");
    assert_eq!(world.read("out/built").unwrap(), "2\n");
}

/// Files become folders and links and the other way around; revert and redo repeat.
#[test]
fn revert_and_redo_swap_files_folders_and_links() {
    let world = World::new();
    commit(
        &world,
        &[
            ("file", b"file\n"),
            ("folder/x", b"x\n"),
            ("folder/y/z", b"z\n"),
            ("tree/t", b"t\n"),
        ],
    );
    // Link targets are recorded before every command, with or without git.
    symlink("file", world.path("work/link")).unwrap();
    let client = world.start();
    let session = free(&client);
    let command = "rm file; mkdir -p file/in; echo n > file/in/n; rm -r folder; echo f > folder; \
                   mv tree wood; ln -s wood tree; rm link; mkdir link; echo l > link/l";
    let id = turn(&world, &client, &session, &[bash(command)]);
    let before = || {
        assert_eq!(world.read("file").unwrap(), "file\n");
        assert_eq!(world.read("folder/x").unwrap(), "x\n");
        assert_eq!(world.read("folder/y/z").unwrap(), "z\n");
        assert_eq!(world.read("tree/t").unwrap(), "t\n");
        assert!(!world.path("work/tree").is_symlink() && world.read("wood/t").is_none());
        assert_eq!(read_link_target(&world, "link"), "file");
    };
    let after = || {
        assert_eq!(world.read("file/in/n").unwrap(), "n\n");
        assert_eq!(world.read("folder").unwrap(), "f\n");
        assert_eq!(world.read("wood/t").unwrap(), "t\n");
        assert_eq!(read_link_target(&world, "tree"), "wood");
        assert_eq!(world.read("link/l").unwrap(), "l\n");
    };
    after();
    for _ in 0..3 {
        let preview = revert(&client, &session, &id, json!({"dryRun": true}));
        after();
        let done = revert(&client, &session, &id, json!({}));
        assert_eq!((&done["conflicts"], &done), (&json!([]), &preview));
        before();
        let done = revert(&client, &session, &id, json!({"redo": true}));
        assert_eq!(done["conflicts"], json!([]));
        after();
        let error = client.refused(
            "agent/revert",
            json!({"sessionId": session, "turnId": id, "redo": true}),
        );
        assert_eq!(error.data["refusal"], "nothingToRedo");
    }
    // A user's file in such a folder stays, and so does the folder.
    world.write("file/in/mine", "a user's\n");
    let preview = revert(&client, &session, &id, json!({"dryRun": true}));
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!(done, preview);
    assert_eq!(
        entry_fields(&done, "conflicts", "why"),
        [("file", "it is now a folder")]
    );
    assert_eq!(world.read("file/in/mine").unwrap(), "a user's\n");
    assert_eq!(world.read("file/in/n"), None);
    assert_eq!(world.read("folder/x").unwrap(), "x\n");
}

/// A long file is not kept after a command, but before the next one.
#[test]
fn long_file_changed_by_two_commands_is_restored() {
    let world = World::new();
    let client = world.start();
    let session = free(&client);
    let grow = |letter: &str| format!("head -c 2000000 /dev/zero | tr '\\0' {letter} > long");
    let calls = [bash(&grow("a")), bash(&grow("b"))];
    let first = turn(&world, &client, &session, &calls);
    let second = turn(&world, &client, &session, &[bash("echo end >> long")]);
    let diff = client.next_matching(&session, "agent/turnDiff", |notification| {
        notification.text("ofTurnId") == second
    });
    assert_eq!(diff.params["files"][0].get("unrestorable"), None);
    let done = revert(&client, &session, &second, json!({}));
    assert_eq!(done["conflicts"], json!([]));
    assert_eq!(read_bytes(&world, "long"), vec![b'b'; 2_000_000]);
    let done = revert(&client, &session, &first, json!({}));
    assert_eq!(done["conflicts"], json!([]));
    assert!(world.read("long").is_none());
    revert(&client, &session, &first, json!({"redo": true}));
    assert_eq!(read_bytes(&world, "long").len(), 2_000_000);
}

#[test]
fn content_kept_by_an_earlier_server_is_restored() {
    let world = World::new();
    world.write("a.txt", "one\n");
    world.write("b.txt", "one\n");
    let client = world.start();
    let session = free(&client);
    turn(
        &world,
        &client,
        &session,
        &[edit("a.txt", "one", "two"), edit("b.txt", "one", "two")],
    );
    drop(client);
    world.write("b.txt", "tre\n");
    let client = world.start();
    client.load(&session);
    let id = turn(
        &world,
        &client,
        &session,
        &[bash("echo x > a.txt; echo y > b.txt")],
    );
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!(
        entry_fields(&done, "files", "kind"),
        [("a.txt", "modified"), ("b.txt", "modified")]
    );
    assert_eq!(done["conflicts"], json!([]));
    assert_eq!(world.read("a.txt").unwrap(), "two\n");
    assert_eq!(world.read("b.txt").unwrap(), "tre\n");
}

#[test]
fn changes_by_others_during_a_command_are_not_attributed_to_it() {
    let world = World::new();
    for name in ["agent.txt", "person.txt", "both.txt", "other.txt"] {
        world.write(name, "old\n");
    }
    let client = world.start();
    let (session, other) = (free(&client), free(&client));
    let started = world.path("started");
    let go = world.path("go");
    let command = format!(
        "touch {}; until [ -e {} ]; do sleep 0.02; done; echo agent > agent.txt; echo agent >> both.txt",
        started.display(),
        go.display()
    );
    let files = ["agent.txt", "person.txt", "both.txt", "other.txt"];
    let mut calls: Vec<(&str, Value)> = files.iter().map(|name| read(name)).collect();
    calls.push(bash(&command));
    for (name, input) in calls {
        world.mock().push(crate::mock_llm::Reply::new().call(name, input));
    }
    for name in ["person.txt", "both.txt"] {
        let document = json!({"uri": world.uri(name), "languageId": "text", "version": 0, "text": "old\n"});
        client.notify("textDocument/didOpen", json!({"textDocument": document}));
    }
    let running = client.prompt(&session, "go");
    world.wait_until(|| started.exists());
    // Meanwhile a user saves two files and another session edits a third.
    for name in ["person.txt", "both.txt"] {
        let change = json!({"textDocument": {"uri": world.uri(name), "version": 1}, "contentChanges": [{"text": "person\n"}]});
        client.notify("textDocument/didChange", change);
        world.write(name, "person\n");
        client.notify(
            "textDocument/didSave",
            json!({"textDocument": {"uri": world.uri(name)}}),
        );
    }
    turn(&world, &client, &other, &[edit("other.txt", "old", "other")]);
    world.mock().push(crate::mock_llm::Reply::text("done"));
    std::fs::write(&go, "").unwrap();
    let id = client.prompt_result(&running).turn_id;
    let diff = client.next(&session, "agent/turnDiff");
    assert_eq!(
        entry_fields(&diff.params, "files", "kind"),
        [("agent.txt", "modified")]
    );
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!(entry_fields(&done, "files", "kind"), [("agent.txt", "modified")]);
    assert_eq!(world.read("person.txt").unwrap(), "person\n");
    assert_eq!(world.read("both.txt").unwrap(), "person\nagent\n");
    assert_eq!(world.read("other.txt").unwrap(), "other\n");
}

/// Reverting across a user's change between two edits of the agent would lose that change.
#[test]
fn revert_keeps_a_users_change_between_two_edits() {
    let world = World::new();
    world.write("a.txt", "one\ntwo\n");
    world.write("b.txt", "one\ntwo\n");
    let client = world.start();
    let session = free(&client);
    let gate = crate::mock_llm::Gate::new();
    let call = |(name, input): (&'static str, Value)| crate::mock_llm::Reply::new().call(name, input);
    world.mock().push(call(edit("a.txt", "one", "1")));
    world.mock().push(
        crate::mock_llm::Reply::new()
            .gate(&gate)
            .call("read_file", json!({"path": "a.txt"})),
    );
    world.mock().push(call(edit("a.txt", "two", "2")));
    world.mock().push(call(edit("b.txt", "two", "2")));
    world.mock().push(crate::mock_llm::Reply::text("done"));
    let running = client.prompt(&session, "go");
    world.wait_at_gate(&gate);
    world.write("a.txt", "1\ntwo\na person's\n");
    gate.release();
    let first = client.prompt_result(&running).turn_id;
    let diff = client.next(&session, "agent/turnDiff");
    assert_eq!(
        entry_fields(&diff.params, "files", "kind"),
        [("a.txt", "modified"), ("b.txt", "modified")]
    );
    world.write("b.txt", "one\n2\na person's\n");
    let second = turn(
        &world,
        &client,
        &session,
        &[read("b.txt"), edit("b.txt", "one", "1")],
    );
    let between = "it was changed by someone else between these changes";
    let done = revert(&client, &session, &first, json!({}));
    assert_eq!(done["files"], json!([]));
    assert_eq!(
        entry_fields(&done, "conflicts", "why"),
        [("a.txt", between), ("b.txt", between)]
    );
    assert_eq!(world.read("a.txt").unwrap(), "1\n2\na person's\n");
    let done = revert(&client, &session, &second, json!({}));
    assert_eq!(done["conflicts"], json!([]));
    assert_eq!(world.read("b.txt").unwrap(), "one\n2\na person's\n");
}

#[test]
fn background_changes_count_only_while_a_command_runs() {
    let world = World::new();
    let client = world.start();
    let session = free(&client);
    let (first, second) = (world.path("first"), world.path("second"));
    let wait = |path: &Path| format!("until [ -e {} ]; do sleep 0.02; done", path.display());
    let background = format!(
        "{}; echo 1 > during.txt; {}; echo 2 > after.txt",
        wait(&first),
        wait(&second)
    );
    let command = format!(
        "touch {}; until [ -s during.txt ]; do sleep 0.02; done",
        first.display()
    );
    let id = turn(
        &world,
        &client,
        &session,
        &[
            ("bash", json!({"command": background, "background": true})),
            bash(&command),
        ],
    );
    let diff = client.next(&session, "agent/turnDiff");
    assert_eq!(
        entry_fields(&diff.params, "files", "kind"),
        [("during.txt", "created")]
    );
    // Changes after the turn are not attributed: the user could have made them.
    std::fs::write(&second, "").unwrap();
    world.wait_until(|| world.read("after.txt").is_some_and(|text| !text.is_empty()));
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!(entry_fields(&done, "files", "kind"), [("during.txt", "deleted")]);
    assert_eq!(world.read("after.txt").unwrap(), "2\n");
}

#[test]
fn concurrent_reverts_do_what_one_does() {
    let world = World::new();
    for name in ["f0", "f1", "f2"] {
        world.write(name, "old\n");
    }
    let client = world.start();
    let (session, other) = (free(&client), free(&client));
    let command = "for f in f0 f1 f2; do echo new > $f; done; seq 300 | while read n; do echo n > g$n; done";
    let calls = [read("f0"), read("f1"), read("f2"), bash(command)];
    let id = turn(&world, &client, &session, &calls);
    let next = turn(&world, &client, &other, &[edit("f1", "new", "newer")]);
    let params = json!({"sessionId": session, "turnId": id});
    let same = [
        client.send("agent/revert", params.clone()),
        client.send("agent/revert", params),
    ];
    let foreign = client.send("agent/revert", json!({"sessionId": other, "turnId": next}));
    let [one, two] = same.map(|revert_id| client.answer(&revert_id).unwrap());
    let foreign = client.answer(&foreign).unwrap();
    assert_eq!(
        two["files"].as_array().unwrap().len() + one["files"].as_array().unwrap().len(),
        302 + usize::from(world.read("f1").unwrap() == "old\n")
    );
    assert_eq!(world.read("f0").unwrap(), "old\n");
    // Whichever came first, no change of the other session is lost silently.
    match world.read("f1").unwrap().as_str() {
        "old\n" => assert_eq!(foreign["conflicts"], json!([])),
        "new\n" => assert_eq!(entry_fields(&one, "conflicts", "why"), [("f1", SINCE)]),
        other => panic!("{other}"),
    }
}

/// A small tmpfs, if the test may mount one; otherwise the test is skipped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(path: std::path::PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir_all(&path).unwrap();
        let size = format!("size={size}");
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "none"])
            .arg(&path)
            .output();
        match done {
            Ok(done) if done.status.success() => Some(Self(path)),
            _ => {
                eprintln!("NOT TESTED: a full disk, as none can be mounted here");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn full_disk_reverts_the_rest_and_loses_nothing() {
    let world = World::new();
    let Some(_disk) = SmallDisk::mount(world.path("work/small"), "256k") else {
        return;
    };
    let line = "0123456789abcdef\n";
    for name in ["small/a", "small/b", "small/c", "elsewhere"] {
        world.write(name, line.repeat(1_500));
    }
    let client = world.start();
    let session = free(&client);
    let calls = [
        read("small/a"),
        read("small/b"),
        read("small/c"),
        read("elsewhere"),
        bash("rm small/a small/b elsewhere; echo x > small/c"),
    ];
    let id = turn(&world, &client, &session, &calls);
    let filler = world.path("work/small/.filler");
    let full = std::fs::write(&filler, vec![0; 2 << 20]).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(28), "{full}");
    let done = revert(&client, &session, &id, json!({}));
    let conflicts = entry_fields(&done, "conflicts", "why");
    let names: Vec<&str> = conflicts.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["small/a", "small/b", "small/c"]);
    assert!(
        conflicts.iter().all(|(_, why)| why.contains("No space left")),
        "{conflicts:?}"
    );
    assert_eq!(entry_fields(&done, "files", "kind"), [("elsewhere", "created")]);
    assert_eq!(world.read("small/c").unwrap(), "x\n", "all or nothing");
    assert_eq!(world.read("elsewhere").unwrap(), line.repeat(1_500));
    let remaining: Vec<_> = std::fs::read_dir(world.path("work/small")).unwrap().collect();
    assert_eq!(remaining.len(), 2, "{remaining:?}");
    std::fs::remove_file(filler).unwrap();
    let done = revert(&client, &session, &id, json!({}));
    assert_eq!(done["conflicts"], json!([]));
    for name in ["small/a", "small/b", "small/c"] {
        assert_eq!(world.read(name).unwrap(), line.repeat(1_500));
    }
    // The redo undoes both reverts.
    let done = revert(&client, &session, &id, json!({"redo": true}));
    assert_eq!(done["files"].as_array().unwrap().len(), 4);
    assert_eq!(world.read("elsewhere"), None);
}

#[test]
fn thousands_of_files_are_restored_from_git() {
    let count = if is_sample() { 2_000 } else { 10_000 };
    let world = World::new();
    let folder = world.path("work/many");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..count {
        let path = folder.join(format!("f{number}"));
        std::fs::write(&path, format!("file {number}\n")).unwrap();
        backdate(&path);
    }
    wait_for_later_file_times(&world);
    git(&world, &["init", "-q"]);
    git(&world, &["add", "-A"]);
    let client = world.start();
    let session = free(&client);
    let timed = |label: &str, calls: &[(&str, Value)]| {
        let start = now();
        let id = turn(&world, &client, &session, calls);
        eprintln!("{label}: {} ms", start.elapsed().as_millis());
        id
    };
    timed(
        &format!("a command that changes nothing, next to {count} files"),
        &[bash("true")],
    );
    let id = timed(
        &format!("a command that changes {count} files that git has"),
        &[bash("cd many; for f in f*; do echo more >> $f; done")],
    );
    let start = now();
    let done = revert(&client, &session, &id, json!({}));
    eprintln!("taking them back: {} ms", start.elapsed().as_millis());
    assert_eq!(done["files"].as_array().unwrap().len(), count);
    assert_eq!(done["conflicts"], json!([]));
    assert_eq!(world.read("many/f1777").unwrap(), "file 1777\n");
}
