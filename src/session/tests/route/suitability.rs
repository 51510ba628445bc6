//! Models that cannot take over: too small a window, no tools, no pictures.

use super::mock_llm::Reply;
use super::scenario::{Client, DOT, Scenario, picture, unavailable};
use crate::domain::*;

fn look() -> Vec<Block> {
    vec![Block::Text("look".to_owned()), picture()]
}

fn ask_with_picture(client: &Client, session: &SessionId) -> String {
    client.outcome(client.prompt_blocks(session, look())).text
}

#[test]
fn unsuitable_fallback_is_skipped_with_a_warning() {
    let small = "\n[model.\"model-two\"]\ncontext_window = 900";
    let no_tools = "\n[model.\"model-two\"]\ntools = false";
    for (tables, expected) in [
        (small, "exceeds its window of 900 tokens"),
        (no_tools, "model-two cannot use tools"),
    ] {
        let scenario = Scenario::chain(["", "", tables]);
        scenario.always_answer(&[("model-one", unavailable)]);
        let client = scenario.start();
        let session = client.session();
        assert_eq!(client.ask(&session, "word ".repeat(2_000)).text, "ok");
        assert_eq!(
            scenario.requested_models(),
            ["model-one", "model-one", "model-three"],
            "{expected}"
        );
        let warnings = client.warnings(&session, "route_skipped");
        assert!(warnings[0].contains(expected), "{warnings:?}");
    }
}

#[test]
fn conversation_is_summarized_before_a_fallback_to_a_smaller_window() {
    let scenario = Scenario::chain(["", "", "\n[model.\"model-two\"]\ncontext_window = 14000"]);
    let client = scenario.start();
    let session = client.session();
    for _ in 0..9 {
        client.ask(&session, "word ".repeat(800));
    }
    scenario.push_for_model("model-one", [unavailable(), unavailable()]);
    scenario.push_for_model("model-two", [Reply::text("they said words")]);
    assert_eq!(client.ask(&session, "go on").text, "ok");
    assert_eq!(
        scenario.requested_models()[9..],
        ["model-one", "model-one", "model-two", "model-two"]
    );
    let kinds = client.all(&session, |event| match event {
        Event::Compacted(_) => Some("compacted"),
        Event::ModelSwitched { .. } => Some("switched"),
        Event::Transition { .. } => Some("transition"),
        _ => None,
    });
    assert_eq!(kinds[9..], ["transition", "compacted", "switched", "transition"]);
    assert!(scenario.wait_for_request(12).raw.len() < scenario.wait_for_request(10).raw.len());
}

#[test]
fn fallback_without_image_support_gets_a_placeholder() {
    let scenario = Scenario::chain(["", "", "\n[model.\"model-two\"]\nimages = false"]);
    scenario.push_for_model("model-one", [unavailable(), unavailable()]);
    let client = scenario.start();
    let session = client.session();
    assert_eq!(ask_with_picture(&client, &session), "ok");
    assert!(scenario.raw_request(1).contains(DOT));
    let raw = scenario.raw_request(2);
    assert!(!raw.contains(DOT) && raw.contains("a picture is here"), "{raw}");
    assert_eq!(client.warnings(&session, "pictures_left_out").len(), 1);
    client.ask(&session, "and now?");
    assert!(scenario.raw_request(3).contains(DOT));
}

#[test]
fn a_model_that_is_known_not_to_see_gets_a_placeholder_at_once() {
    let scenario = Scenario::chain(["\n[model.\"model-one\"]\nimages = false", "", ""]);
    let client = scenario.start();
    let session = client.session();
    assert_eq!(ask_with_picture(&client, &session), "ok");
    let raw = scenario.raw_request(0);
    assert!(!raw.contains(DOT) && raw.contains("a picture is here"), "{raw}");
    assert_eq!(client.warnings(&session, "pictures_left_out").len(), 1);
    // Whoever does not attach another picture is not warned again.
    client.ask(&session, "and now?");
    assert!(!scenario.raw_request(1).contains(DOT));
    assert_eq!(client.warnings(&session, "pictures_left_out").len(), 1);
    // A model that the catalogue knows needs no setting; an unknown one is given the picture.
    let known = client.session_of_model("anthropic/o3-mini");
    client.outcome(client.prompt_blocks(&known, vec![picture()]));
    let raw = scenario.raw_request(2);
    assert!(raw.contains("a picture is here"), "{raw}");
}

#[test]
fn turn_fails_if_no_fallback_fits() {
    let scenario = Scenario::chain([
        "",
        "",
        "\n[model.\"model-two\"]\ncontext_window = 900\n[model.\"model-three\"]\ncontext_window = 900",
    ]);
    scenario.always_answer(&[("model-one", unavailable)]);
    let client = scenario.start();
    let error = client.ask(&client.session(), "word ".repeat(2_000)).end.error;
    assert_eq!(error.unwrap().status, Some(503));
    assert_eq!(scenario.requested_models(), ["model-one"; 2]);
}
