//! Attacks on files that make programs run, where no mount can protect them: each one succeeds without a sandbox.
#![cfg(target_os = "linux")]

use std::cell::Cell;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Client, Config, Options, World};
use crate::mcp::peer_script;
use crate::mock_llm::Reply;
use crate::sandbox::{Confined, ConfinedSession, last_result, session_in};

/// What is attacked.
struct Attack {
    name: &'static str,
    /// Prepares the workspace, outside of the sandbox.
    prepare: &'static str,
    command: &'static str,
    /// Succeeds if the attack did.
    proof: &'static str,
}

const REPOSITORY: &str = "git init -q . && git config user.name a && git config user.email a@example.com && \
    git commit -qm one --allow-empty && git commit -qm two --allow-empty && ";

const ATTACKS: &[Attack] = &[
    Attack {
        name: "replace a link in the place of a folder",
        prepare: "mkdir conf && ln -s conf .vscode",
        command: "rm .vscode && mkdir .vscode && echo evil > .vscode/tasks.json",
        proof: "grep -q evil .vscode/tasks.json",
    },
    Attack {
        name: "replace a link by another one",
        prepare: "mkdir docs && echo > docs/agents.md && ln -s docs/agents.md AGENTS.md",
        command: "echo evil > other && ln -sfn other AGENTS.md",
        proof: "grep -q evil AGENTS.md",
    },
    Attack {
        name: "replace a link on the way to a folder",
        prepare: "mkdir real && ln -s real middle && ln -s middle .idea",
        command: "rm middle && mkdir middle && echo evil > middle/workspace.xml",
        proof: "grep -q evil .idea/workspace.xml",
    },
    Attack {
        name: "create what a link leads to",
        prepare: "ln -s later .envrc",
        command: "echo evil > later",
        proof: "grep -q evil .envrc",
    },
    Attack {
        name: "replace a link in the place of a folder with workflows",
        prepare: "mkdir -p conf/workflows && ln -s conf .github",
        command: "rm .github && mkdir -p .github/workflows && echo evil > .github/workflows/ci.yml",
        proof: "grep -q evil .github/workflows/ci.yml",
    },
    Attack {
        name: "replace a link in the place of the hooks",
        prepare: "rm -r .git/hooks && mkdir hooks && ln -s ../hooks .git/hooks",
        command: "rm .git/hooks && mkdir .git/hooks && printf '#!/bin/sh\ntouch ran' > .git/hooks/pre-commit && \
            chmod +x .git/hooks/pre-commit",
        proof: "git commit -qm three --allow-empty; [ -e ran ]",
    },
    Attack {
        name: "lead a linked work tree to other settings",
        prepare: "git worktree add -q side",
        command: "cp -r .git evil && git config -f evil/config alias.x '!true' && \
            echo ../../../evil > .git/worktrees/side/commondir",
        proof: "git -C side x",
    },
    Attack {
        name: "lead a linked work tree of a submodule to other settings",
        prepare: "git init -q up && git -C up -c user.name=a -c user.email=b commit -qm x --allow-empty && \
            git -c protocol.file.allow=always submodule --quiet add ./up lib && git -C lib worktree add -q ../side",
        command: "cp -r .git/modules/lib evil && git config -f evil/config alias.x '!true' && \
            echo $PWD/evil > .git/modules/lib/worktrees/side/commondir",
        proof: "git -C side x",
    },
    Attack {
        name: "add settings to a linked work tree that uses its own folder",
        prepare: "git worktree add -q side",
        command: "cd .git/worktrees/side && rm commondir && cp -r ../../objects ../../refs ../../config . && \
            git config -f config alias.x '!true'",
        proof: "git -C side x",
    },
    Attack {
        name: "add a command to the list of a rebase",
        prepare: "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -qi HEAD~1",
        command: "echo 'exec touch ran' >> .git/rebase-merge/git-rebase-todo",
        proof: "git rebase --continue; [ -e ran ]",
    },
    Attack {
        name: "replace the folder of a rebase by a link",
        prepare: "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -qi HEAD~1",
        command: "cp -r .git/rebase-merge copy && echo 'exec touch ran' >> copy/git-rebase-todo && \
            rm -r .git/rebase-merge && ln -s ../copy .git/rebase-merge",
        proof: "git rebase --continue; [ -e ran ]",
    },
    Attack {
        name: "name a program as the merge strategy of a rebase",
        prepare: "git commit -qm three --allow-empty && GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' \
            git rebase -qi HEAD~2 && git commit -q --amend --allow-empty -m changed",
        command: "echo x/evil > .git/rebase-merge/strategy && mkdir git-merge-x && \
            printf '#!/bin/sh\ntouch ran' > git-merge-x/evil && chmod +x git-merge-x/evil",
        proof: "git rebase --continue; [ -e ran ]",
    },
    Attack {
        name: "name a program as the merge strategy of a rebase in a linked work tree",
        prepare: "git commit -qm three --allow-empty && git worktree add -q side && cd side && \
            GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi HEAD~2 && \
            git commit -q --amend --allow-empty -m changed",
        command: "echo x/evil > .git/worktrees/side/rebase-merge/strategy && mkdir side/git-merge-x && \
            printf '#!/bin/sh\ntouch ran' > side/git-merge-x/evil && chmod +x side/git-merge-x/evil",
        proof: "cd side; git rebase --continue; [ -e ran ]",
    },
    Attack {
        name: "name a program as the merge strategy of a cherry-pick",
        prepare: "echo 1 > f && git add f && git commit -qm three && git switch -qc side HEAD~1 && echo 2 > f && \
            git add f && git commit -qm four && echo 3 > f && git commit -qam five && git switch -q - && \
            ! git cherry-pick side~1 side",
        command: "printf '[options]\n\tstrategy = x/evil\n' > .git/sequencer/opts && mkdir git-merge-x && \
            printf '#!/bin/sh\ntouch ran' > git-merge-x/evil && chmod +x git-merge-x/evil",
        proof: "echo 4 > f; git add f; git -c core.editor=true cherry-pick --continue; [ -e ran ]",
    },
    Attack {
        name: "replace the folder of linked work trees by a link",
        prepare: "git worktree add -q side",
        command: "cp -r .git evil && git config -f evil/config alias.x '!true' && cp -r .git/worktrees copy && \
            echo $PWD/evil > copy/side/commondir && rm -r .git/worktrees && ln -s ../copy .git/worktrees",
        proof: "git -C side x",
    },
    Attack {
        name: "create the repository of a submodule",
        prepare: "true",
        command: "git init -q --bare .git/modules/lib && git config -f .git/modules/lib/config alias.x '!true' && \
            mkdir lib && echo 'gitdir: ../.git/modules/lib' > lib/.git",
        proof: "git -C lib x",
    },
    Attack {
        name: "create the hooks of a submodule",
        prepare: "git init -q --bare --template= .git/modules/lib && mkdir lib && \
            echo 'gitdir: ../.git/modules/lib' > lib/.git && git config -f .git/modules/lib/config core.bare false",
        command: "mkdir .git/modules/lib/hooks && printf '#!/bin/sh\ntouch ../ran ran' > .git/modules/lib/hooks/pre-commit && \
            chmod +x .git/modules/lib/hooks/pre-commit",
        proof: "cd lib; git -c user.name=a -c user.email=b commit -qm x --allow-empty; [ -e ran ]",
    },
];

#[expect(clippy::disallowed_methods, reason = "runs what a user would")]
fn succeeds(workspace: &Path, script: &str) -> bool {
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(workspace);
    command.output().unwrap().status.success()
}

/// Runs a command in a turn that is allowed, answers questions about created files with `aside`, and returns how many
/// there were.
fn attack(client: &Client, world: &World, session: &str, command: &str) -> usize {
    let questions = || client.all(session, "agent/questionRequested");
    let approvals = || client.all(session, "agent/approvalRequested");
    let before = questions().len();
    let (mut answered, mut allowed) = (before, approvals().len());
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    let turn = client.prompt(session, "do it");
    let has_ended = Cell::new(false);
    while !has_ended.get() {
        world.wait_until(|| {
            has_ended.set(client.take_answer(&turn).is_some());
            has_ended.get() || questions().len() > answered || approvals().len() > allowed
        });
        if let Some(approval) = approvals().get(allowed) {
            client.decide(approval, "allow");
            allowed += 1;
        }
        if let Some(question) = questions().get(answered) {
            let answers =
                json!({"questionId": question.text("questionId"), "answers": {"choice": ["aside"]}});
            client.call::<Value>("agent/questionRespond", answers);
            answered += 1;
        }
    }
    answered - before
}

#[test]
fn what_no_mount_protects_is_put_back_after_the_command() {
    let Some(confined) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    let free = World::with(Config {
        tables: "[sandbox]\nenabled = false".to_owned(),
        ..Config::default()
    });
    let free_client = free.start();
    let free_session = session_in(&free_client, "full");
    let mut wrong = Vec::new();
    for case in ATTACKS {
        for (world, client, session, is_confined) in [
            (confined.world(), &confined.client, &confined.id, true),
            (&free, &free_client, &free_session, false),
        ] {
            let workspace = world.workspace();
            assert!(succeeds(&workspace, "rm -rf -- * .[!.]*"));
            let prepare = format!("{REPOSITORY}{}", case.prepare);
            assert!(succeeds(&workspace, &prepare), "{}", case.name);
            let asked = attack(client, world, session, case.command);
            let is_open = succeeds(&workspace, case.proof);
            // What was put back must work as before, unless the command has removed the rest.
            let check = "[ ! -e .git/worktrees/side ] || git -C side status";
            let is_broken = is_confined && !succeeds(&workspace, check);
            if is_open == is_confined || (asked == 0) == is_confined || is_broken {
                wrong.push(format!(
                    "{}: confined: {is_confined}, open: {is_open}, asked: {asked}, broken: {is_broken}: {}",
                    case.name,
                    last_result(world)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn git_settings_that_a_variable_names_count_from_the_next_command() {
    let Some(confined) = Confined::new("") else { return };
    let world = &confined.world;
    let settings = world.workspace().join("own-settings");
    let client = world.start_with(Options {
        env: vec![("GIT_CONFIG_GLOBAL".to_owned(), settings.display().to_string())],
        ..Options::default()
    });
    assert!(succeeds(&world.workspace(), "git init -q ."));
    world.write("tools/pre-commit", "");
    let session = session_in(&client, "autoEdit");
    let append = |line: &str| {
        let command = format!("echo {line} >> tools/pre-commit");
        world
            .mock()
            .push(Reply::tool("bash", json!({"command": command})));
        client.ask(&session, "append");
        world.read("tools/pre-commit").unwrap()
    };
    assert_eq!(append("one"), "one\n");
    world.write("own-settings", "[core]\n\thooksPath = tools\n");
    assert_eq!(append("two"), "one\n", "{}", last_result(world));
}

#[test]
fn ordinary_work_with_git_is_not_asked_about() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    let workspace = session.world().workspace();
    let upstream = session.confined.outside().with_file_name("upstream");
    let prepare = format!(
        "{REPOSITORY}git init -q '{up}' && git -C '{up}' -c user.name=a -c user.email=b commit -qm x --allow-empty && \
         git -c protocol.file.allow=always submodule add -q '{up}' lib && git commit -qam lib && \
         git submodule -q deinit -f lib && rm -r .git/modules/lib && git config submodule.lib.url '{up}' && \
         git config submodule.lib.active true",
        up = upstream.display()
    );
    assert!(succeeds(&workspace, &prepare));
    for command in [
        "echo a > a && git add a && git commit -qm a && git checkout -qb other && git stash list",
        "echo b >> a && git stash -q && git stash pop -q && git commit -qam b && git rebase -q HEAD~1",
        "git worktree add -q side && git -C side commit -qm c --allow-empty && git worktree remove side",
        "git -c protocol.file.allow=always submodule update -q lib && [ -e .git/modules/lib/HEAD ]",
        "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -qi HEAD~1 && git rebase --continue",
    ] {
        let result = session.run(&format!("({command}) && echo do{}ne", ""));
        assert!(result.contains("done"), "{command}: {result}");
        assert_eq!(session.count_questions(), 0, "{command}: {result}");
        assert!(!result.contains("git obeys"), "{command}: {result}");
    }
}

#[test]
fn with_landlock_alone_changed_files_are_put_back() {
    let variable = ("AGENTLS_SANDBOX_METHOD".to_owned(), "landlock".to_owned());
    let Some(session) = ConfinedSession::start("", vec![variable]) else {
        return;
    };
    let world = session.world();
    let (tasks, hook) = (".vscode/tasks.json", ".git/hooks/pre-commit");
    for file in [
        tasks,
        hook,
        ".git/config",
        ".git/HEAD",
        ".git/objects/x",
        ".idea/x",
    ] {
        world.write(file, "old");
    }
    let command = "for f in .vscode/tasks.json .git/config .git/hooks/pre-commit .git/HEAD; do echo evil > $f; done; \
        rm -r .idea; echo evil > .vscode/new";
    assert_eq!(attack(&session.client, world, &session.id, command), 1);
    for file in [tasks, hook, ".git/config", ".idea/x"] {
        assert_eq!(world.read(file).as_deref(), Some("old"), "{file}");
    }
    assert_eq!(
        world.read(".vscode/put-aside-tasks.json").as_deref(),
        Some("evil\n")
    );
    assert_eq!(world.read(".vscode/new"), None);
    assert_eq!(
        world.read(".git/HEAD").as_deref(),
        Some("evil\n"),
        "it runs nothing"
    );
    let result = last_result(world);
    assert!(result.contains("removed `.idea`"), "{result}");
}

#[test]
fn what_appears_during_a_background_process_keeps_its_name_until_the_answer() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    let world = session.world();
    let command = "until [ -e go ]; do sleep 0.05; done; echo x > CLAUDE.md; touch done; until [ -e end ]; do sleep 0.05; done";
    let start = session.start_tool("bash", json!({"command": command, "background": true}));
    session.finish(&start);
    world.write("go", "");
    world.wait_until(|| world.read("done").is_some());
    for (choice, is_kept) in [("cancel", true), ("aside", false), ("keep", true)] {
        // For the last time, it is the user's.
        world.write("CLAUDE.md", "x");
        let turn = session.start_tool("bash_output", json!({"id": "bg1"}));
        let question = session.next_question();
        assert!(question.text("text").contains("You or a command"), "{question:?}");
        assert!(world.read("CLAUDE.md").is_some());
        if choice == "cancel" {
            session.client.cancel(&session.id);
            session.client.prompt_result(&turn);
        } else {
            session.answer(&question, choice);
            session.finish(&turn);
        }
        assert_eq!(world.read("CLAUDE.md").is_some(), is_kept, "{choice}");
    }
    world.write("end", "");
    let wait = session.start_tool("bash_output", json!({"id": "bg1", "wait_s": 60}));
    session.finish(&wait);
    world.write(".envrc", "by the user");
    session.run("true");
    assert_eq!(session.count_questions(), 3);
    assert_eq!(world.read(".envrc").as_deref(), Some("by the user"));
}

#[test]
fn without_a_user_undecided_files_keep_their_names() {
    let Some(confined) = Confined::new("") else { return };
    let world = &confined.world;
    let client = world.start();
    let session = session_in(&client, "autoEdit");
    let run = |tool: &str, input: Value| {
        world.mock().push(Reply::tool(tool, input));
        client.ask(&session, "go");
        last_result(world)
    };
    run(
        "bash",
        json!({"command": "until [ -e end ]; do sleep 0.05; done", "background": true}),
    );
    world.write("CLAUDE.md", "by the user");
    for _ in 0..2 {
        let result = run("bash_output", json!({"id": "bg1"}));
        assert!(result.contains("keep their names"), "{result}");
        assert!(!result.contains("were renamed"), "{result}");
        assert_eq!(world.read("CLAUDE.md").as_deref(), Some("by the user"));
    }
    world.write("end", "");
    run("bash_output", json!({"id": "bg1", "wait_s": 60}));
}

#[test]
fn files_of_confined_hooks_are_put_aside() {
    let hook = "[hook.maker]\non = 'prompt'\nsandbox = 'workspace'\ncommand = 'cat >/dev/null; mkdir .vscode; echo x > .vscode/tasks.json'\n";
    let Some(confined) = Confined::new(hook) else {
        return;
    };
    let client = confined.world.start();
    let session = session_in(&client, "autoEdit");
    confined.world.mock().push(Reply::text("done"));
    client.ask(&session, "hello");
    assert_eq!(confined.world.read(".vscode/tasks.json"), None);
    assert!(confined.world.read("put-aside-.vscode/tasks.json").is_some());
    let warnings = client.all(&session, "agent/warning");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].text("message").contains("put-aside-.vscode"));
}

#[test]
fn files_of_confined_mcp_servers_are_put_aside_after_a_call_and_at_the_end() {
    let script = format!(
        "while IFS= read -r line; do case \"$line\" in *make-tasks*) mkdir .vscode;; esac; printf \"%s\\\\n\" \"$line\"; done \
         | python3 '{}'; mkdir .idea",
        peer_script().display()
    );
    let table = format!(
        "[mcp.peer]\ncommand = 'sh'\nargs = ['-c', '''{script}''']\nsandbox = 'workspace'\n[approvals]\nallow = ['mcp:peer/*']\n"
    );
    let Some(confined) = Confined::new(&table) else {
        return;
    };
    let world = &confined.world;
    let client = world.start_with(Options {
        questions: true,
        ..Options::default()
    });
    let session = session_in(&client, "autoEdit");
    let call = Reply::tool("mcp__peer__echo", json!({"text": "make-tasks"}));
    world.mock().push(call);
    let turn = client.prompt(&session, "go");
    let question = client.next(&session, "agent/questionRequested");
    assert!(world.path("work/put-aside-.vscode").exists());
    let answers = json!({"questionId": question.text("questionId"), "answers": {"choice": ["aside"]}});
    client.call::<Value>("agent/questionRespond", answers);
    client.prompt_result(&turn);
    let result = last_result(world);
    assert!(result.contains("put-aside-.vscode"), "{result}");
    // It runs all the time, so this may be the user's.
    world.write("CLAUDE.md", "by the user");
    client.close_input();
    client.wait_until_gone();
    assert_eq!(world.read("CLAUDE.md").as_deref(), Some("by the user"));
    assert!(!world.path("work/.idea").exists());
    assert!(world.path("work/put-aside-.idea").exists());
}

#[test]
fn too_many_submodules_are_closed_as_a_whole_and_this_is_said_once() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    let world = session.world();
    world.write(".git/HEAD", "ref: refs/heads/main\n");
    for number in 0..101 {
        world.write(&format!(".git/modules/m{number}/config"), "");
    }
    let note = "so many submodules";
    let result = session.run("echo x > .git/modules/m1/index; echo x > .git/index");
    assert!(result.contains(note), "{result}");
    assert!(world.read(".git/modules/m1/index").is_none() && world.read(".git/index").is_some());
    session.run("true");
    let result = last_result(world);
    assert_eq!(result.matches(note).count(), 1, "only in the history: {result}");
}
