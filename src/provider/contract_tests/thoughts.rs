//! Thoughts in the text of an answer, by the server that sends it.

use url::Url;

use super::*;
use crate::config::CacheTtl;
use crate::provider::anthropic::Anthropic;
use crate::provider::http_api::HttpApi;
use crate::provider::openai::{Flavour, OpenAi};
use crate::provider::request::tests::build_request;
use crate::provider::responses::Responses;

const ANSWER: &str = "<thinking>Hm.</thinking>Hi";

const MESSAGES: &str = r#"data: {"type": "message_start", "message": {"id": "m"}}

data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}

data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ANSWER"}}

"#;

const RESPONSES: &str = r#"data: {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "delta": "ANSWER"}

"#;

const CHAT: &str = r#"data: {"choices": [{"delta": {"content": "ANSWER"}}]}

"#;

/// Returns the text that the answer of a server at this address has.
fn decode_text(api: &impl HttpApi, address: &str, stream: &str) -> String {
    let request = build_request("m", Vec::new());
    let call = api.build_call(&Url::parse(address).unwrap(), &request, "");
    let (mut decoder, mut out) = (call.decoder, EventQueue::default());
    let stream = stream.replace("ANSWER", ANSWER);
    decoder.push(stream.as_bytes(), &mut out).unwrap();
    let texts = std::iter::from_fn(|| out.take()).filter_map(|event| match event {
        StreamEvent::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

#[test]
fn only_engines_and_gateways_of_chat_leave_thoughts_in_the_text() {
    let (local, remote) = ("http://127.0.0.1:8000/v1", "https://api.example.com/v1");
    let messages = Anthropic {
        cache_ttl: CacheTtl::default(),
    };
    let responses = Responses { verbosity: None };
    assert_eq!(decode_text(&messages, local, MESSAGES), "Hi");
    assert_eq!(decode_text(&messages, remote, MESSAGES), ANSWER);
    assert_eq!(decode_text(&responses, local, RESPONSES), "Hi");
    assert_eq!(decode_text(&responses, remote, RESPONSES), ANSWER);
    for (flavour, text) in [(Flavour::OpenAi, ANSWER), (Flavour::Other, "Hi")] {
        let chat = OpenAi {
            flavour,
            section: String::new(),
            verbosity: None,
        };
        assert_eq!(decode_text(&chat, remote, CHAT), text, "{flavour:?}");
    }
}
