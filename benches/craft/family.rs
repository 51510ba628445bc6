//! What each family of models is sent: the first request by its parts, and a task of several steps.

use std::path::Path;

use serde_json::{Value, json};

use crate::mock_llm::{Api, RecordedRequest, Reply};
use crate::world::{MODELS, World, format_table, join_texts};

/// Describes the first request of a session, in bytes.
pub fn describe_first_requests(binary: &Path) -> String {
    let rows = MODELS.map(|model| {
        let requests = World::new(model).run(binary, [Reply::text("done")]);
        let request = &requests[0];
        let notes: usize = request.environment_notes().iter().map(String::len).sum();
        let tools = request.body["tools"].to_string().len();
        let parts = [system_size(request), tools, notes, request.raw.len()];
        let mut row = vec![model.name.to_owned()];
        row.extend(parts.map(|bytes| bytes.to_string()));
        row
    });
    format_table(
        "The first request, in bytes",
        &["model", "system", "tools", "environment", "whole"],
        &rows,
    )
}

fn system_size(request: &RecordedRequest) -> usize {
    let text = match request.api {
        Api::Anthropic => join_texts(&request.body["system"]),
        Api::Responses => join_texts(&request.body["instructions"]),
        Api::Gemini => join_texts(&request.body["systemInstruction"]["parts"]),
        Api::OpenAi | Api::Ollama => request
            .messages()
            .iter()
            .filter(|message| message["role"] == "system" || message["role"] == "developer")
            .map(|message| join_texts(&message["content"]))
            .collect(),
    };
    text.len()
}

/// Describes a task in which the model looks, changes a file, and tests: 5 steps.
pub fn describe_tasks(binary: &Path) -> String {
    let rows = MODELS.map(|model| {
        let world = World::new(model);
        world.write("total.py", "def total(items):\n    return sum(items)\n");
        world.write("test.sh", "grep -q 'if not items' total.py && echo passed\n");
        let edit = json!({"old_text": "    return sum(items)", "new_text": "    if not items:\n        return 0\n    return sum(items)"});
        let requests = world.run(
            binary,
            [
                Reply::tool("grep", json!({"pattern": "def total"})).call("list_dir", json!({"path": "."})),
                Reply::tool("read_file", json!({"path": "total.py"})),
                Reply::tool("edit_file", json!({"path": "total.py", "edits": [edit]})),
                Reply::tool("bash", json!({"command": "sh test.sh"})),
                Reply::text("done"),
            ],
        );
        let sent: usize = requests.iter().map(|request| request.raw.len()).sum();
        let repeated: usize = requests.windows(2).map(|two| repeated_bytes(&two[0].body, &two[1].body)).sum();
        let passed = world.list_results(&requests).iter().any(|result| result.contains("passed"));
        vec![
            model.name.to_owned(),
            requests.len().to_string(),
            sent.to_string(),
            format!("{}%", 100 * repeated / sent),
            if passed { "yes" } else { "no" }.to_owned(),
        ]
    });
    format_table(
        "A task: look, read, edit, test, report",
        &["model", "requests", "bytes sent", "sent before", "passed"],
        &rows,
    )
}

/// Returns the bytes of what a request repeats: its tools, its system text, and the messages that begin it.
fn repeated_bytes(before: &Value, now: &Value) -> usize {
    let mut bytes = 0;
    for key in ["tools", "system", "instructions"] {
        if !now[key].is_null() && before[key] == now[key] {
            bytes += now[key].to_string().len();
        }
    }
    for key in ["messages", "input"] {
        let (Some(before), Some(now)) = (before[key].as_array(), now[key].as_array()) else {
            continue;
        };
        let same = before
            .iter()
            .zip(now)
            .take_while(|(before, now)| without_marks(before) == without_marks(now));
        bytes += same.map(|(_, now)| now.to_string().len()).sum::<usize>();
    }
    bytes
}

/// Removes the marks that only say up to where to cache.
fn without_marks(message: &Value) -> Value {
    let mut message = message.clone();
    for block in message["content"].as_array_mut().into_iter().flatten() {
        if let Some(block) = block.as_object_mut() {
            block.remove("cache_control");
        }
    }
    message
}
