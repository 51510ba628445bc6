//! Esc and Ctrl-C in a chat: they work whatever the server does, and do not swallow the key that follows.

use std::fs;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::LocalModes;
use serde_json::json;

use crate::chat::server_of;
use crate::terminal::{Terminal, WAIT_LIMIT};
use crate::{World, hello};

#[test]
fn esc_interrupts_a_streaming_turn_and_keeps_the_next_key() {
    let world = World::with(hello());
    let mut chat = world.terminal(&["chat"], &[], 80);
    chat.wait_for_text("› ");
    chat.send_keys("slow\r");
    chat.wait_for_text("word word");
    chat.send_keys("\u{1b}");
    chat.wait_for_text("■ canceled");
    // Another key follows immediately, in the same read and in the next one.
    chat.wait_for_text("› ");
    for keys in [&["\u{1b}x"][..], &["\u{1b}", "x"]] {
        chat.send_keys("\u{15}slow\r");
        chat.wait_for_text("word word");
        for key in keys {
            chat.send_keys(key);
        }
        chat.wait_for_text("■ canceled");
        // Before this, keys go to the turn that is ending.
        chat.wait_until_idle();
        chat.wait_for_text("› x");
    }
    // Arrow keys do not count as Esc, however their bytes are split; Alt keys keep the typed line.
    chat.send_keys("\u{15}slow\r");
    chat.wait_for_text("word word");
    for keys in [
        "\u{1b}", "[A", "\u{1b}[", "1;5C", "\u{1b}O", "P", "a", "\u{1b}b", "c",
    ] {
        chat.send_keys(keys);
    }
    chat.wait_for_text("› abc▏");
    chat.send_keys("\u{1b}");
    chat.send_keys("\u{3}");
    let output = chat.wait_for_text("■ canceled");
    assert!(!output.contains("[A") && !output.contains("5C"), "{output}");
    chat.quit();
}

#[test]
fn ctrl_c_leaves_on_an_empty_line_only_and_loses_no_text() {
    let world = World::with(hello());
    let mut chat = world.terminal(&["chat"], &[], 80);
    chat.wait_for_text("› ");
    for prompt in ["one", "a long and important prompt"] {
        chat.send_keys(prompt);
        chat.wait_for_text(prompt);
        chat.send_keys("\u{3}");
        chat.wait_for_text("cleared; ↑ brings it back");
        chat.wait_for_text("› ");
    }
    chat.send_keys("\u{1b}[A");
    chat.wait_for_text("a long and important prompt");
    chat.send_keys("\u{15}\u{3}");
    chat.wait_for_text("press Ctrl-C again or Ctrl-D to leave");
    chat.wait_for_text("› ");
    chat.send_keys("\u{3}");
    assert_eq!(chat.wait_for_exit(), 0);
}

#[test]
fn a_draft_that_esc_clears_during_a_turn_is_in_the_history() {
    let world = World::with(hello());
    let mut chat = world.terminal(&["chat"], &[], 80);
    chat.wait_for_text("› ");
    chat.send_keys("slow\r");
    chat.wait_for_text("word word");
    chat.send_keys("and then this");
    chat.wait_for_text("and then this▏");
    chat.send_keys("\u{1b}");
    chat.send_keys("\u{3}");
    chat.wait_for_text("■ canceled");
    chat.wait_until_idle();
    chat.wait_for_text("› ");
    chat.send_keys("\u{1b}[A");
    chat.wait_for_text("› and then this");
    // Of an empty line, the second key leaves.
    chat.send_keys("\u{15}\u{4}");
    assert_eq!(chat.wait_for_exit(), 0);
}

#[test]
fn esc_denies_an_open_approval() {
    let world = World::with(hello());
    let mut chat = world.terminal(&["chat"], &[], 80);
    for keys in ["\u{1b}", "\u{1b}y", "\u{1b}a"] {
        chat.wait_for_text("› ");
        chat.send_keys("\u{15}write it\r");
        chat.wait_for_text("y allow");
        chat.send_keys(keys);
        chat.wait_for_text("⊘ denied: Write new.txt");
        chat.wait_for_text("That was");
        chat.wait_until_idle();
    }
    assert!(!world.path("work/new.txt").exists());
    chat.wait_for_text("› a");
    chat.send_keys("\u{15}/quit\r");
    assert_eq!(chat.wait_for_exit(), 0);
}

/// Starts a chat in which an endless command runs, and returns the command's process id.
fn start_chat_with_command(world: &World) -> (Terminal, Pid) {
    let mut chat = world.terminal(&["chat", "--mode", "full"], &[], 100);
    chat.wait_for_text("› ");
    chat.send_keys("run it\r");
    // Only the output reads `run1ning`; the command line itself contains `run$((1))ning`.
    chat.wait_for_text("run1ning");
    let id = fs::read_to_string(world.path("work/pid")).unwrap();
    (chat, Pid::from_raw(id.trim().parse().unwrap()).unwrap())
}

/// Waits until the process has ended; a zombie that nobody has reaped counts as ended.
#[track_caller]
pub(crate) fn is_gone(pid: Pid) {
    let deadline = Instant::now() + WAIT_LIMIT;
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < deadline, "{pid:?} is still there");
        std::thread::yield_now();
    }
}

fn world_with_endless_command() -> World {
    World::with(json!([
        {"repeat": true, "events": [{"tool": {"name": "bash", "input": {
            "command": "echo $$ > pid; echo run$((1))ning; exec sleep 600", "timeout_s": 600}}}]},
    ]))
}

#[test]
fn second_ctrl_c_leaves_a_hung_server() {
    let world = world_with_endless_command();
    let (mut chat, command) = start_chat_with_command(&world);
    let server = server_of(&chat);
    kill_process(server, Signal::STOP).unwrap();
    // More than a pipe holds, so the write to the stopped server blocks.
    let paste = format!("\u{1b}[200~{}\u{1b}[201~\r", "words ".repeat(40_000));
    chat.send_keys(&paste);
    chat.send_keys("\u{1b}");
    chat.wait_for_text("canceling");
    chat.send_keys("\u{3}");
    chat.send_keys("\u{3}");
    chat.wait_for_text("to resume this session: agentls chat --session ses_");
    chat.raw_until_end();
    assert!(chat.modes().contains(LocalModes::ICANON | LocalModes::ECHO));
    is_gone(server);
    is_gone(command);
}

#[test]
fn ctrl_c_interrupts_a_request_to_a_hung_server() {
    let world = World::with(hello());
    let mut chat = world.terminal(&["chat"], &[], 80);
    chat.wait_for_text("› ");
    chat.send_keys("hello\r");
    chat.wait_for_text("Hello there.");
    chat.wait_for_text("› ");
    let server = server_of(&chat);
    kill_process(server, Signal::STOP).unwrap();
    chat.send_keys("/tools\r");
    chat.wait_for_text("/tools");
    chat.wait_for_text("\n");
    let me = Pid::from_child(&chat.child);
    // A signal between the end of the input line and the wait is lost, so repeat it until it takes effect.
    // Not soon: a second signal that takes effect too would leave the chat.
    let (seen, is_seen) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            loop {
                kill_process(me, Signal::INT).unwrap();
                if is_seen.recv_timeout(WAIT_LIMIT / 6) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        chat.wait_for_text("interrupted before the server answered; press Ctrl-C again to leave");
        drop(seen);
    });
    chat.wait_for_text("› ");
    chat.send_keys("\u{3}");
    chat.wait_for_text("to resume this session: agentls chat --session ses_");
    chat.raw_until_end();
    is_gone(server);
}

#[test]
fn killed_server_leaves_no_command_behind() {
    let world = world_with_endless_command();
    let (mut chat, command) = start_chat_with_command(&world);
    kill_process(server_of(&chat), Signal::KILL).unwrap();
    chat.wait_for_text("! the server exited");
    chat.wait_for_text("/resume continues the interrupted turn");
    is_gone(command);
    chat.quit();
}

#[test]
fn chat_without_a_provider_warns_before_the_first_prompt() {
    let world = World::new();
    let mut chat = world.terminal(&["chat"], &[], 80);
    chat.wait_for_text("! no provider is available: run `agentls login`");
    chat.quit();
    world.configure("[provider.anthropic]\nmodel = \"m\"\n");
    let mut chat = world.terminal(&["chat"], &[], 80);
    chat.wait_for_text("! anthropic: ");
    chat.wait_for_text("! no provider is available");
    chat.quit();
}

#[test]
fn output_command_shows_truncated_output_in_full() {
    // More output than one read of the kept content returns.
    let command = "printf -v pad %900s; for i in $(seq 1300); do echo \"line $i of 1300 $pad\"; done; exit 7";
    let world = World::with(json!([
        {"when": {"prompt": "test", "step": 0}, "events": [
            {"tool": {"name": "bash", "input": {"command": command}}}]},
        {"repeat": true, "events": [{"text": "It failed."}]},
    ]));
    let mut chat = world.terminal(&["chat", "--mode", "full"], &[], 80);
    chat.wait_for_text("› ");
    chat.send_keys("/output\r");
    chat.wait_for_text("No such call with output in this chat.");
    chat.wait_for_text("› ");
    chat.send_keys("test it\r");
    // While the command runs, its lines show in a transient line; only the final block remains.
    let output = chat.wait_for_text("✗ exit 7");
    assert!(
        output.contains("│ line 1300 of 1300") && !output.contains("│ line 1 of 1300"),
        "{output}"
    );
    chat.wait_for_text("/output shows all");
    chat.wait_for_text("› ");
    chat.send_keys("/output\r");
    let all = chat.wait_for_text("line 1300 of 1300");
    for number in [1, 650, 1_299] {
        let line = format!("line {number} of 1300 ");
        assert!(all.contains(&line), "{number}: {}", &all[..all.len().min(2_000)]);
    }
    chat.quit();
}
