//! Files that make programs run and that a confined command creates: renamed, asked about, and kept on request.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use crate::harness::World;
use crate::mock_llm::Reply;
use crate::sandbox::{Confined, ConfinedSession, last_result, session_in};

/// A session whose questions are about created files.
struct Case {
    session: ConfinedSession,
}

impl Case {
    fn new() -> Option<Self> {
        let session = ConfinedSession::start("", Vec::new())?;
        Some(Self { session })
    }

    fn world(&self) -> &World {
        self.session.world()
    }

    /// Runs a tool and returns its result. Answers the question about created files with `answer`, if one is expected.
    fn run(&self, tool: &str, input: Value, answer: Option<&str>) -> String {
        let asked = self.session.count_questions();
        let turn = self.session.start_tool(tool, input);
        if let Some(answer) = answer {
            let question = self.session.next_question();
            assert!(question.text("text").contains("Keep them?"), "{question:?}");
            self.session.answer(&question, answer);
        }
        self.session.client.prompt_result(&turn);
        assert_eq!(
            self.session.count_questions(),
            asked + usize::from(answer.is_some())
        );
        let request = self.world().wait_for_request(self.world().requests() - 1);
        request.messages().last().unwrap().to_string()
    }

    fn bash(&self, command: &str, answer: Option<&str>) -> String {
        self.run("bash", json!({"command": command}), answer)
    }
}

const TASKS: &str = "mkdir .vscode && echo tasks > .vscode/tasks.json";

#[test]
fn created_files_are_kept_only_if_the_user_says_so() {
    let Some(case) = Case::new() else { return };
    let result = case.bash(TASKS, Some("aside"));
    assert!(result.contains("obeyed by VS Code"), "{result}");
    assert_eq!(case.world().read(".vscode/tasks.json"), None);
    assert_eq!(
        case.world().read("put-aside-.vscode/tasks.json").as_deref(),
        Some("tasks\n")
    );
    let result = case.bash(TASKS, Some("keep"));
    assert!(!result.contains("were renamed"), "{result}");
    assert_eq!(
        case.world().read(".vscode/tasks.json").as_deref(),
        Some("tasks\n")
    );
    // It exists now, so the sandbox protects it.
    let result = case.bash("echo more >> .vscode/tasks.json", None);
    assert!(result.contains("Read-only file system"), "{result}");
}

#[test]
fn without_a_user_created_files_stay_renamed() {
    let Some(confined) = Confined::new("") else { return };
    let client = confined.world.start();
    let session = session_in(&client, "autoEdit");
    let reply = Reply::tool("bash", json!({"command": TASKS}));
    confined.world.mock().push(reply);
    client.ask(&session, "do it");
    assert_eq!(
        confined.world.read("put-aside-.vscode/tasks.json").as_deref(),
        Some("tasks\n")
    );
    assert!(last_result(&confined.world).contains("were renamed"));
}

#[test]
fn a_new_repository_is_kept_if_it_runs_nothing() {
    let Some(case) = Case::new() else { return };
    case.bash("git init -q . && git add -A", None);
    assert!(case.world().read(".git/config").is_some());
    fs::rename(
        case.world().workspace().join(".git"),
        case.world().workspace().join("moved"),
    )
    .unwrap();
    let result = case.bash(
        "git init -q . && git config core.fsmonitor /bin/true",
        Some("aside"),
    );
    assert!(result.contains("obeyed by git"), "{result}");
    assert_eq!(case.world().read(".git/config"), None);
}

#[test]
fn hooks_that_a_command_adds_are_put_aside() {
    let Some(case) = Case::new() else { return };
    case.bash("git init -q --template= .", None);
    let result = case.bash(
        "mkdir .git/hooks && echo x > .git/hooks/pre-commit",
        Some("aside"),
    );
    assert!(result.contains("put-aside-hooks"), "{result}");
    assert_eq!(case.world().read(".git/hooks/pre-commit"), None);
    assert_eq!(
        case.world().read(".git/put-aside-hooks/pre-commit").as_deref(),
        Some("x\n")
    );
}

#[test]
fn a_background_process_is_watched_until_it_ends_and_tools_are_not_blamed() {
    let Some(case) = Case::new() else { return };
    let command = "until [ -e go ]; do sleep 0.05; done; echo x > CLAUDE.md; echo x > done";
    case.run("bash", json!({"command": command, "background": true}), None);
    // Written meanwhile by a tool, which the user approved.
    let input = json!({"path": ".vscode/settings.json", "content": "by a tool"});
    let turn = case.session.start_tool("write_file", input);
    let client = &case.session.client;
    client.decide(&client.next_approval(&case.session.id), "allow");
    client.prompt_result(&turn);
    let result = case.run(
        "bash",
        json!({"command": "touch go; until [ -e done ]; do sleep 0.05; done"}),
        Some("aside"),
    );
    assert!(result.contains("put-aside-CLAUDE.md"), "{result}");
    assert_eq!(
        case.world().read(".vscode/settings.json").as_deref(),
        Some("by a tool")
    );
    assert_eq!(case.world().read("CLAUDE.md"), None);
}

#[test]
fn a_command_that_goes_on_after_its_time_limit_is_watched_until_it_ends() {
    let Some(case) = Case::new() else { return };
    let command = "until [ -e go ]; do sleep 0.05; done; echo x > CLAUDE.md; echo x > done";
    let result = case.run("bash", json!({"command": command, "timeout_s": 0.2}), None);
    assert!(result.contains("goes on in the background"), "{result}");
    // No other command runs meanwhile.
    case.world().write("go", "");
    case.world().wait_until(|| case.world().read("done").is_some());
    let result = case.run("bash_output", json!({"id": "bg1"}), Some("aside"));
    assert!(result.contains("put-aside-CLAUDE.md"), "{result}");
    assert_eq!(case.world().read("CLAUDE.md"), None);
}

#[test]
fn a_working_folder_does_not_move_the_sandbox() {
    let Some(case) = Case::new() else { return };
    case.world().write(".vscode/tasks.json", "tasks");
    case.world().write("sub/a.txt", "a");
    let run = |command: &str| case.run("bash", json!({"command": command, "workdir": "sub"}), None);
    let result = run("echo more >> ../.vscode/tasks.json");
    assert!(result.contains("Read-only file system"), "{result}");
    run("echo in > inside; echo beside > ../beside");
    assert_eq!(case.world().read("sub/inside").as_deref(), Some("in\n"));
    assert_eq!(case.world().read("beside").as_deref(), Some("beside\n"));
    let result = case.run(
        "bash",
        json!({"command": "echo x > CLAUDE.md; echo x > ../CLAUDE.md", "workdir": "sub"}),
        Some("aside"),
    );
    assert!(result.contains("put-aside-CLAUDE.md"), "{result}");
    assert_eq!(case.world().read("CLAUDE.md"), None);
}

#[test]
fn a_cancel_while_the_question_is_open_leaves_the_files_renamed() {
    let Some(case) = Case::new() else { return };
    let turn = case.session.start_command(TASKS);
    case.session.next_question();
    let client = &case.session.client;
    client.cancel(&case.session.id);
    assert_eq!(json!(client.prompt_result(&turn).state), "cancelled");
    assert_eq!(case.world().read(".vscode/tasks.json"), None);
    assert_eq!(
        case.world().read("put-aside-.vscode/tasks.json").as_deref(),
        Some("tasks\n")
    );
}

#[test]
fn what_a_person_creates_while_a_read_only_command_runs_is_not_attributed_to_it() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    let world = session.world();
    // The folder has been watched.
    session.run("true");
    let client = &session.client;
    client.call::<Value>("agent/setMode", json!({"sessionId": session.id, "mode": "plan"}));
    let pipe = world.workspace().join("pipe");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    let turn = session.start_command("cat pipe");
    // Opens once the command reads, so the command runs.
    let mut pipe = fs::File::options().write(true).open(pipe).unwrap();
    world.write(".vscode/tasks.json", "by the user");
    pipe.write_all(b"seen").unwrap();
    drop(pipe);
    let result = session.finish(&turn);
    assert!(
        result.contains("seen") && !result.contains("obeyed by"),
        "{result}"
    );
    assert_eq!(session.count_questions(), 0);
    assert_eq!(world.read(".vscode/tasks.json").as_deref(), Some("by the user"));
}
