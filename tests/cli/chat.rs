//! `agentls chat` as a person uses it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::terminal::Terminal;
use crate::{World, hello};

#[test]
fn chat_asks_by_keys_and_enter_alone_allows_nothing() {
    let world = World::with(hello());
    let mut chat = world.terminal(&["chat"], &[], 80);
    chat.sees("/help lists commands");
    chat.sees("› ");
    chat.keys("write it\r");
    chat.sees("? Write new.txt");
    chat.sees("+hello");
    chat.sees("y yes");
    // Neither Enter nor pasted text answers; e says what it lacks.
    chat.keys("\r\r\u{1b}[200~yyy\r\u{1b}[201~");
    chat.keys("e");
    chat.sees("no editor is chosen: set VISUAL or EDITOR");
    assert!(!world.path("work/new.txt").exists());
    chat.sees("y yes");
    chat.keys("n");
    chat.sees("no, because");
    chat.keys("not here\r");
    chat.sees("denied: Write new.txt");
    chat.sees("Denied by user: not here");
    chat.sees("That was it.");
    assert!(!world.path("work/new.txt").exists());
    chat.sees("› ");
    chat.keys("slow\r");
    chat.sees("word word");
    chat.keys("\u{3}");
    chat.sees("■ cancelled");
    chat.sees("› ");
    chat.keys("/quit\r");
    assert_eq!(chat.ends(), 0);
}

#[test]
fn a_chat_queues_takes_back_makes_again_forks_and_exports() {
    let world = World::with(hello());
    let new = world.path("work/new.txt");
    let mut chat = world.terminal(&["chat"], &[], 100);
    chat.sees("› ");
    chat.keys("/revert\r");
    chat.sees("no turn here has changed that many files");
    chat.sees("› ");
    chat.keys("slow\r");
    chat.sees("word word");
    // What is told in the middle of an answer stands below it.
    chat.keys("/queue write it\r");
    chat.keys("\u{3}");
    let told = chat.rests();
    for line in [
        "1 prompt waits for the turn's end",
        "■ cancelled",
        "1 prompt waits, held: /queue send goes on",
        "› /queue write it\r\n",
    ] {
        assert!(told.contains(line), "no {line:?} in {told:?}");
    }
    chat.sees("› ");
    chat.keys("/queue\r");
    chat.sees("  1  write it");
    chat.sees("› ");
    chat.keys("/queue send\r");
    chat.sees("› write it");
    chat.sees("? Write new.txt");
    chat.sees("y yes");
    chat.keys("y");
    chat.sees("That was it.");
    chat.sees("1 file changed (+1 −0 lines)");
    chat.sees("› ");
    assert!(new.exists());
    chat.keys("/diff\r");
    chat.sees("new.txt (+1 −0)");
    chat.sees("+hello");
    chat.sees("› ");
    chat.keys("/revert\r");
    chat.sees("− new.txt");
    chat.sees("taken back; /redo makes it again");
    assert!(!new.exists());
    chat.sees("› ");
    chat.keys("/redo\r");
    chat.sees("+ new.txt");
    chat.sees("made again");
    assert!(new.exists());
    chat.sees("› ");
    // Another writes it: that is left.
    fs::write(&new, "a person's\n").unwrap();
    chat.keys("/undo\r");
    chat.sees("! new.txt is left as it is: it was changed since");
    chat.sees("› ");
    chat.keys("/fork\r");
    chat.sees("a new session goes on from here");
    chat.sees("› ");
    chat.keys("/export said.md\r");
    chat.sees("written to");
    assert!(
        fs::read_to_string(world.path("work/said.md"))
            .unwrap()
            .contains("write it")
    );
    chat.sees("› ");
    chat.keys("/export said.md\r");
    chat.sees("cannot write");
    chat.sees("› ");
    chat.keys("/quit\r");
    assert_eq!(chat.ends(), 0);
}

/// The server that a chat has started.
fn server_of(chat: &Terminal) -> Pid {
    let id = chat.child.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    Pid::from_raw(children.trim().parse().unwrap()).unwrap()
}

#[test]
fn what_is_typed_while_a_turn_ends_stands_in_the_next_line() {
    let world = World::with(hello());
    let mut chat = world.terminal(&["chat"], &[], 100);
    chat.sees("› ");
    chat.keys("slow\r");
    chat.sees("word word");
    // Commands that a turn does not obey are no words for the model.
    chat.keys("/cost\r\u{15}");
    // The turn is cancelled before the server reads the steer: whatever it answers, it is not lost.
    let server = server_of(&chat);
    kill_process(server, Signal::STOP).unwrap();
    chat.keys("\u{3}");
    chat.sees("cancelling");
    chat.keys("and say why\r");
    chat.sees("› and say why▏");
    kill_process(server, Signal::CONT).unwrap();
    let told = chat.rests();
    for line in [
        "■ cancelled",
        "! commands wait for the turn's end; Ctrl-C cancels it",
    ] {
        assert!(told.contains(line), "no {line:?} in {told:?}");
    }
    chat.sees("› and say why");
    chat.keys("\u{15}slow\r");
    chat.sees("word word");
    // Nor when the server dies before its answer.
    kill_process(server, Signal::STOP).unwrap();
    chat.keys("and say how\r");
    chat.sees("› and say how▏");
    kill_process(server, Signal::KILL).unwrap();
    chat.rests();
    chat.sees("! the server has ended");
    chat.sees("› and say how");
    chat.keys("\u{15}slow\r");
    chat.sees("word word");
    chat.keys("/quit\r");
    assert_eq!(chat.ends(), 0);
}

#[test]
fn what_a_chat_trusts_the_checks_know() {
    let world = World::with(hello());
    fs::create_dir_all(world.path("work/.agentls")).unwrap();
    fs::write(
        world.path("work/.agentls/config.toml"),
        "[agent.default]\nmode = \"full\"\n",
    )
    .unwrap();
    world.run(&["config", "check"]).says("is not trusted");
    world.run(&["doctor", "--offline"]).says("is not trusted");
    let mut chat = world.terminal(&["chat"], &[], 80);
    chat.sees("› ");
    chat.keys("/trust yes\r");
    chat.sees("this folder is trusted");
    chat.keys("/quit\r");
    assert_eq!(chat.ends(), 0);
    world.run(&["config", "check"]).is(0).says("nothing is wrong");
    let doctor = world.run(&["doctor", "--offline"]);
    assert!(!doctor.out.contains("not trusted"), "{}", doctor.out);
}

#[test]
fn a_dumb_terminal_gets_text_only() {
    let world = World::with(hello());
    let mut chat = world.terminal(&["chat"], &[("TERM", "dumb")], 80);
    chat.sees("› ");
    chat.keys("write it\n");
    chat.sees("y yes");
    chat.keys("n");
    chat.sees("no, because");
    chat.keys("\r");
    chat.sees("Denied by user");
    chat.sees("That was it.");
    chat.sees("› ");
    chat.keys("/load 99\n");
    chat.sees("no session has that number; /sessions lists them");
    chat.sees("› ");
    assert_eq!(chat.escapes, 0);
    chat.keys("/quit\n");
    assert_eq!(chat.ends(), 0);
}

#[test]
fn the_input_of_a_call_is_changed_in_an_editor() {
    let world = World::with(hello());
    let editor = world.path("editor");
    fs::write(&editor, "#!/bin/sh\n. \"$EDITS\"\n").unwrap();
    fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let edits = world.path("edits");
    let does = |script: &str| fs::write(&edits, script).unwrap();
    let (editor, edits) = (editor.to_str().unwrap(), edits.to_str().unwrap());
    let mut chat = world.terminal(&["chat"], &[("VISUAL", editor), ("EDITS", edits)], 100);
    chat.sees("› ");
    chat.keys("write it\r");
    chat.sees("e edit   s yes, this session");
    // What is not an object is not sent, and not lost.
    does("echo '{' > \"$1\"");
    chat.keys("e");
    chat.sees("your change is no JSON");
    chat.sees("e edit   s yes, this session");
    does("cat \"$1\" > seen; echo '{\"path\": \"other.txt\", \"content\": \"mine\"}' > \"$1\"");
    chat.keys("e");
    chat.sees("? write_file, as you changed it");
    chat.sees("content: mine");
    assert_eq!(fs::read_to_string(world.path("work/seen")).unwrap(), "{\n");
    // No rule goes with it.
    let keys = chat.sees("e edit");
    assert!(keys.contains("y yes") && !keys.contains("this session"), "{keys}");
    assert!(!world.path("work/other.txt").exists());
    chat.keys("sa\ry");
    chat.sees("allowed");
    chat.sees("+mine");
    chat.sees("That was it.");
    assert_eq!(fs::read_to_string(world.path("work/other.txt")).unwrap(), "mine");
    assert!(!world.path("work/new.txt").exists());
    chat.sees("› ");
    // Unchanged, or given up: asked as before.
    chat.keys("write it\r");
    chat.sees("e edit   s yes, this session");
    does("cat \"$1\" > seen");
    chat.keys("e");
    chat.sees("nothing was changed");
    chat.sees("e edit   s yes, this session");
    let seen: Value = serde_json::from_slice(&fs::read(world.path("work/seen")).unwrap()).unwrap();
    assert_eq!(seen, json!({"path": "new.txt", "content": "hello\n"}));
    does("exit 1");
    chat.keys("e");
    chat.sees("has failed (exit status: 1); the call is as it was");
    chat.sees("e edit   s yes, this session");
    chat.keys("y");
    chat.sees("That was it.");
    assert_eq!(fs::read_to_string(world.path("work/new.txt")).unwrap(), "hello\n");
    chat.sees("› ");
    // Who is told to end while the editor is open ends it too.
    fs::remove_file(world.path("work/new.txt")).unwrap();
    chat.keys("write it\r");
    chat.sees("e edit   s yes, this session");
    does("echo $$ > pid; echo opened; exec sleep 600");
    chat.keys("e");
    chat.sees("opened");
    let editor = fs::read_to_string(world.path("work/pid")).unwrap();
    let pid = chat.child.id().to_string();
    Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert_eq!(chat.ends(), 0);
    let alive = PathBuf::from(format!("/proc/{}", editor.trim())).exists();
    assert!(!alive, "the editor is gone");
    assert!(!world.path("work/new.txt").exists());
    let left = fs::read_dir(world.path("tmp")).unwrap().count();
    assert_eq!(left, 0, "the file that was edited is gone");
}
