//! Text that only a model would read (tags, runs of invisible characters) is escaped before a model sees it (R-SEC).

use serde_json::{Value, json};

use crate::harness::World;
use crate::mock_llm::Reply;

/// "AB" in tag characters, in variation selectors after a letter, and a run of zero-width characters.
const HIDDEN: &str = "x\u{e0041}\u{e0042} y\u{e0131}\u{e0132} z\u{200b}\u{200c}\u{200d}";
const SHOWN: [&str; 3] = [
    "x<U+E0041><U+E0042>",
    "y<U+E0131><U+E0132>",
    "z<U+200B><U+200C><U+200D>",
];

fn is_written_out(body: &Value, times: usize) {
    let body = body.to_string();
    for hidden in ['\u{e0041}', '\u{e0131}', '\u{200b}'] {
        assert!(!body.contains(hidden), "{hidden:?} in {body}");
    }
    for escaped in SHOWN {
        assert_eq!(body.matches(escaped).count(), times, "{escaped} in {body}");
    }
}

#[test]
fn hidden_text_in_files_commands_and_instructions_is_escaped() {
    let world = World::new();
    world.write("AGENTS.md", format!("Be kind. {HIDDEN}\n"));
    let notes = format!("{HIDDEN} 👩\u{200d}💻 ❤\u{fe0f} می\u{200c}خواهم\n");
    world.write("notes.txt", &notes);
    world.write(".agentls/commands/do.md", format!("Do it. {HIDDEN}\n"));
    let client = world.start();
    let session = client.session();
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "notes.txt"})));
    world.mock().push(Reply::text("done"));
    client.ask(
        &session,
        json!([
            {"type": "text", "text": "look"},
            {"type": "reference", "uri": world.uri("notes.txt")},
        ]),
    );
    is_written_out(&world.wait_for_request(0).body, 2);
    let body = &world.wait_for_request(1).body;
    is_written_out(body, 3);
    // Joiners and selectors that emoji and scripts need stay.
    let body = body.to_string();
    for preserved in ["👩\u{200d}💻", "❤\u{fe0f}", "می\u{200c}خواهم"] {
        assert_eq!(body.matches(preserved).count(), 2, "{preserved} in {body}");
    }
    world.mock().push(Reply::text("done"));
    client.ask(&session, "/do");
    is_written_out(&world.wait_for_request(2).body, 4);
}
