//! What typical calls leave in the history, which every later step sends again.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::mock_llm::Reply;
use crate::world::{MODELS, World, format_table};

/// Describes the results of seven typical calls, in characters.
pub fn describe_results(binary: &Path) -> String {
    let calls: [(&str, &str, Value); 7] = [
        ("a file of 1,200 lines", "read_file", json!({"path": "long.rs"})),
        ("a search for a common word", "grep", json!({"pattern": "value"})),
        (
            "200 KB of output",
            "bash",
            json!({"command": "yes 'a line of output' | head -c 200000"}),
        ),
        (
            "an edit that cannot be made",
            "edit_file",
            json!({"path": "long.rs", "edits": [{"old_text": "let value_7 = seven();", "new_text": ""}]}),
        ),
        ("a small command", "bash", json!({"command": "echo done"})),
        ("a folder of 400 files", "list_dir", json!({"path": "."})),
        ("names by a pattern", "glob", json!({"pattern": "*_1*.txt"})),
    ];
    let world = World::new(MODELS[0]);
    let mut long = String::new();
    for n in 0..1_200 {
        // Writing to a string cannot fail.
        let _ = writeln!(long, "    let value_{n} = compute(value_{}, {n});", n / 2);
    }
    world.write("long.rs", &long);
    for n in 0..400 {
        world.write(&format!("part_{n}.txt"), "a small file\n");
    }
    let replies = calls
        .iter()
        .map(|(_, tool, input)| Reply::tool(tool, input.clone()));
    let requests = world.run(binary, replies.chain([Reply::text("done")]));
    let results = world.list_results(&requests);
    let mut rows = Vec::new();
    for ((about, tool, _), result) in calls.iter().zip(&results) {
        let size = result.chars().count();
        rows.push(vec![
            format!("{about} ({tool})"),
            size.to_string(),
            (size / 4).to_string(),
        ]);
    }
    format_table(
        "What calls leave in the history",
        &["call", "characters", "tokens, about"],
        &rows,
    )
}
