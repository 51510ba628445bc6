//! `agentls docs` and `agentls prompt`: the documentation pages and the instructions that the binary contains.

use std::process::Stdio;

use crate::World;

#[test]
fn docs_lists_topics_and_shows_one_as_plain_text() {
    let world = World::new();
    let listed = world.run(&["docs"]);
    listed.assert_exit_code(0);
    let line = listed.out.lines().find(|line| line.contains("reference/cli"));
    assert_eq!(
        line.map(|line| line.split_whitespace().collect::<Vec<_>>()),
        Some(vec!["reference/cli", "Command", "line"])
    );
    assert!(!listed.out.contains("SUMMARY"), "{}", listed.out);

    let page = world.run(&["docs", "cli"]);
    page.assert_exit_code(0)
        .assert_stdout("Command line")
        .assert_stdout("agentls docs");
    assert!(
        !page.out.contains('\u{1b}') && !page.out.contains("<!--"),
        "{}",
        page.out
    );
    assert_eq!(world.run(&["docs", "reference/cli"]).out, page.out);
}

#[test]
fn docs_suggests_the_nearest_topic_for_an_unknown_one() {
    let world = World::new();
    let unknown = world.run(&["docs", "fualts"]);
    unknown
        .assert_exit_code(1)
        .assert_stderr("reference/faults")
        .assert_stderr("agentls docs");
    assert_eq!(unknown.out, "");
}

#[test]
fn docs_exits_cleanly_when_the_reader_closes_the_pipe() {
    let world = World::new();
    let mut command = world.command(&["docs", "faults"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Like `head`, but it closes the pipe before the first byte.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}

#[test]
fn prompt_prints_the_instructions_for_a_model() {
    let world = World::new();
    let (unknown, claude) = (world.run(&["prompt"]), world.run(&["prompt", "claude-opus-5-5"]));
    unknown
        .assert_exit_code(0)
        .assert_stdout("You are a coding agent")
        .assert_stdout("Act by calling tools");
    claude.assert_exit_code(0).assert_stdout("Report faithfully");
    assert!(!claude.out.contains("Act by calling tools"), "{}", claude.out);
}
