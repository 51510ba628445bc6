//! Commands that want a person end at once and say what to do instead.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::bash_tool::Session;
use crate::waiting::within_limit;

const REFUSAL: &str = "no editor here";

/// Creates a repository whose editor never ends, as a terminal's would.
async fn start_session_with_editor() -> Session {
    let mut session = Session::new();
    let cwd = session.cx.cwd.clone();
    session.cx.workspace.shared().set_trusted(&cwd, true);
    let editor = cwd.join("editor");
    std::fs::write(&editor, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let setup = "git init -q 'a b' && cd 'a b' && git config user.name t && git config user.email t@example.invalid \
                 && git config core.editor ../editor && git config sequence.editor ../editor \
                 && for n in 1 2 3; do echo $n > f && git add f && git commit -qm $n; done; echo 4 > f";
    assert_eq!(session.text(setup).await, "(no output)");
    session
}

#[tokio::test]
async fn editors_fail_at_once_and_change_nothing() {
    let mut session = start_session_with_editor().await;
    let before = session.text("cd 'a b' && git log --format=%H%s").await;
    for command in [
        "git commit -a",
        "git commit -a --amend",
        "git stash -q; git rebase -i HEAD~2; git stash pop -q",
        "git tag -a v1",
        "git branch --edit-description",
        "git notes add",
        "git config --edit",
        "$EDITOR f",
        "eval \"$EDITOR f\"",
        "${VISUAL:-sh -c \"$EDITOR f\"}",
    ] {
        let command = format!("cd 'a b' && {command}");
        let call = session.bash(json!({ "command": command }));
        let text = within_limit(call).await.0.unwrap().text;
        // What splits the words at blanks alone gets an error of the shell.
        assert!(
            text.contains(REFUSAL) || text.contains("yntax error"),
            "{command}: {text}"
        );
        let after = session
            .text("cd 'a b' && git log --format=%H%s && cat f && ls .git/*.lock 2>/dev/null")
            .await;
        assert_eq!(after, format!("{before}\n4\nexit code: 2"), "{command}");
    }
    // Nothing runs the file that should be edited.
    let text = session.text("cd 'a b' && EDITOR= git commit -a").await;
    assert!(text.contains("problem with the editor"), "{text}");
}

#[tokio::test]
async fn an_editor_that_a_command_names_is_used() {
    let mut session = start_session_with_editor().await;
    for (number, command) in [
        "GIT_EDITOR=true git commit --amend",
        "EDITOR=true git commit --amend",
        "VISUAL=true git commit --amend",
        "git -c core.editor=true commit --amend",
        "EDITOR=\"sed -i 's/3/three/'\" git commit --amend",
        "git stash -q; GIT_SEQUENCE_EDITOR=true git rebase -q -i HEAD~2",
        "git -c sequence.editor=true rebase -q -i HEAD~2",
        "git -c core.editor=true rebase -q -i HEAD~2",
        "EDITOR=true git rebase -q -i HEAD~2",
    ]
    .into_iter()
    .enumerate()
    {
        let command = format!("cd 'a b' && {command} && git log -1 --format='last: %s'");
        let call = session.bash(json!({ "command": command }));
        let text = within_limit(call).await.0.unwrap().text;
        let want = if number < 4 { "last: 3" } else { "last: three" };
        assert!(text.contains(want), "{command}: {text}");
    }
}
