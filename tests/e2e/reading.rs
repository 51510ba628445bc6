//! What `read_file` shows of files that are not plain text: notebooks, pictures, and PDFs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::harness::World;
use crate::mock_llm::Reply;

/// A picture of one pixel.
pub const DOT: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[test]
fn a_notebook_is_read_and_edited_by_cell() {
    let world = World::new();
    let notebook = format!(
        "{{\n \"cells\": [\n  {{\n   \"cell_type\": \"code\",\n   \"execution_count\": 1,\n   \"metadata\": {{}},\n   \
         \"outputs\": [{{\"output_type\": \"display_data\", \"data\": {{\"image/png\": \"{DOT}\"}}}}],\n   \
         \"source\": [\n    \"import x\\n\",\n    \"x.plot()\"\n   ]\n  }}\n ],\n \"metadata\": {{}},\n \"nbformat\": 4\n}}\n"
    );
    world.write("plot.ipynb", &notebook);
    let edit = json!({"path": "plot.ipynb", "edits": [
        {"old_text": "import x\nx.plot()", "new_text": "import y\n\ny.plot(\"a\")"}]});
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "plot.ipynb"})));
    world.mock().push(Reply::tool("edit_file", edit));
    let client = world.start();
    let session = client.session_with(json!({"mode": "autoEdit"}));
    client.ask(&session, "plot y instead");
    let read = world.wait_for_request(1).messages().last().unwrap().to_string();
    let shown = "1\\t=== cell 1, code, run as [1] ===\\n2\\timport x\\n3\\tx.plot()\\n4\\t--- output of cell 1 ---\\n\
                 5\\t[a picture, image/png, 72 bytes]\\n";
    assert!(read.contains(shown) && read.contains(DOT), "{read}");
    let edited = notebook.replace(
        "    \"import x\\n\",\n    \"x.plot()\"\n",
        "    \"import y\\n\",\n    \"\\n\",\n    \"y.plot(\\\"a\\\")\"\n",
    );
    assert_eq!(world.read("plot.ipynb"), Some(edited));
}

#[test]
fn a_reference_attaches_what_a_model_can_see() {
    let world = World::new();
    world.write("dot.png", STANDARD.decode(DOT).unwrap());
    world.write("paper.pdf", "%PDF-1.7\n...");
    let output = json!({"output_type": "display_data", "data": {"image/png": DOT}});
    let cell = json!({"cell_type": "code", "source": "x.plot()", "outputs": [output]});
    let notebook = json!({"cells": [cell], "metadata": {}, "nbformat": 4});
    world.write("plot.ipynb", notebook.to_string());
    world.write("tool.bin", b"\x7fELF\0\0");
    let client = world.start();
    let session = client.session_with(json!({"model": "mock/claude-sonnet-5-5"}));
    let refer = |name: &str| json!([{"type": "reference", "uri": world.uri(name)}]);
    let ask = |at: usize, name: &str| {
        assert_eq!(client.ask(&session, refer(name)).text, "ok");
        world.wait_for_request(at).messages().last().unwrap().to_string()
    };
    let sent = ask(0, "dot.png");
    assert!(
        sent.contains("<file path=\\\"dot.png\\\">\\n[a picture, image/png, 70 bytes: it follows]"),
        "{sent}"
    );
    assert!(sent.contains(DOT), "{sent}");
    let sent = ask(1, "paper.pdf");
    assert!(
        sent.contains("\"document\"") && sent.contains("JVBERi0xLjcKLi4u") && !sent.contains("%PDF"),
        "{sent}"
    );
    let sent = ask(2, "plot.ipynb");
    assert!(
        sent.contains("=== cell 1, code ===\\nx.plot()") && sent.contains(DOT) && !sent.contains("nbformat"),
        "{sent}"
    );
    let error = client.refused(
        "agent/prompt",
        json!({"sessionId": session, "prompt": refer("tool.bin")}),
    );
    assert!(
        error.message.contains("tool.bin") && error.message.contains("binary file"),
        "{error:?}"
    );
    // Clients get the reference and the pictures; they cannot show the PDF.
    let messages = client.all(&session, "agent/message");
    let media: Vec<&str> = messages
        .iter()
        .filter(|message| message.params["role"] == "user" && message.params["hidden"] != true)
        .flat_map(|message| message.params["content"].as_array().unwrap())
        .filter_map(|block| block["mediaType"].as_str())
        .collect();
    assert_eq!(media, ["image/png", "image/png"]);
    assert!(messages.iter().all(|message| message.params["more"].is_null()));
}

#[test]
fn a_large_picture_is_sent_in_the_size_that_models_see() {
    let world = World::new();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 2_000, 1_000);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&vec![7; 2_000_000]).unwrap();
    writer.finish().unwrap();
    world.write("wide.png", file);
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "wide.png"})));
    let client = world.start();
    client.ask(&client.session(), "look");
    let result = world.wait_for_request(1).messages().last().unwrap().to_string();
    assert!(
        result.contains("scaled down from 2000 × 1000 to 1568 × 784 pixels"),
        "{result}"
    );
    // The header of a PNG with this width.
    let header = "iVBORw0KGgoAAAANSUhEUgAABiAAAAMQ";
    assert!(result.contains(header), "{result}");
}

#[test]
fn a_pdf_reaches_models_that_read_it_and_others_learn_what_to_do() {
    const BASE64: &str = "JVBERi0xLjcKLi4u";
    let world = World::new();
    world.mock().allow_rewrites();
    world.write("paper.pdf", "%PDF-1.7\n...");
    let read = || {
        world
            .mock()
            .push(Reply::tool("read_file", json!({"path": "paper.pdf"})));
    };
    let result = |at: usize| world.wait_for_request(at).messages().last().unwrap().to_string();
    let client = world.start();
    read();
    client.ask(
        &client.session_with(json!({"model": "mock/claude-sonnet-5-5"})),
        "read it",
    );
    let document = json!({"type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": BASE64}});
    assert!(result(1).contains(&document.to_string()), "{}", result(1));

    read();
    client.ask(&client.session(), "read it");
    assert!(
        result(3).contains("you cannot read PDFs") && !result(3).contains(BASE64),
        "{}",
        result(3)
    );

    // A document that the API refuses does not block the session.
    read();
    let message = "messages.2.content.0.pdf.source.base64.data: The PDF specified was not valid.";
    world
        .mock()
        .push(Reply::error(400, "invalid_request_error", message));
    let session = client.session_with(json!({"model": "mock/claude-sonnet-5-5"}));
    assert_eq!(client.ask(&session, "read it").text, "ok");
    assert!(
        result(6).contains("a document was here; the API refused it") && !result(6).contains(BASE64),
        "{}",
        result(6)
    );
}
