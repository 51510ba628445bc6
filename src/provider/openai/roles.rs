//! Adapts messages to engines whose chat templates know only alternating turns of the user and the assistant.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::domain::Role;

/// Returns whether messages of the same role follow each other. Each result of a tool is a message of its own anyway.
pub(super) fn has_neighbors(mut roles: impl Iterator<Item = Role>) -> bool {
    let mut before = None;
    roles.any(|role| before.replace(role) == Some(role) && role != Role::Tool)
}

/// Returns encoded messages with neighbors of one role joined, and with the system prompt in front of the first message
/// of the user.
pub(super) fn join_roles(written: &[(Role, Bytes)], system: Option<&str>) -> Bytes {
    let encoded: Vec<&[u8]> = written.iter().map(|(_, bytes)| &bytes[..]).collect();
    let encoded = encoded.join(&b","[..]);
    let list = [b"[", &encoded[..], b"]"].concat();
    let Ok(messages) = serde_json::from_slice::<Vec<Value>>(&list) else {
        return encoded.into();
    };
    let mut joined: Vec<Value> = Vec::new();
    joined.extend(system.map(|system| json!({"role": "user", "content": system})));
    for message in messages {
        match joined.last_mut() {
            Some(last) if last["role"] == message["role"] && message["role"] != "tool" => {
                append_message(last, message);
            }
            _ => joined.push(message),
        }
    }
    join_messages(&joined)
}

/// Returns messages as JSON, separated by commas.
pub(super) fn join_messages(messages: &[Value]) -> Bytes {
    Bytes::from(
        messages
            .iter()
            .map(Value::to_string)
            .collect::<Vec<_>>()
            .join(","),
    )
}

/// Appends a message to one of the same role.
fn append_message(last: &mut Value, mut message: Value) {
    let content = join_contents(last["content"].take(), message["content"].take());
    last["content"] = content;
    for (key, value) in message.as_object_mut().into_iter().flatten() {
        match last.get_mut(key.as_str()) {
            Some(Value::Array(items)) => items.append(value.as_array_mut().unwrap_or(&mut Vec::new())),
            Some(_) => {}
            None => last[key.as_str()] = value.take(),
        }
    }
}

/// Joins two contents: texts, lists of parts, or nothing.
fn join_contents(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Null, content) | (content, Value::Null) => content,
        (Value::String(first), Value::String(second)) => json!(format!("{first}\n\n{second}")),
        (first, second) => [first, second].into_iter().flat_map(to_parts).collect(),
    }
}

fn to_parts(content: Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts,
        text => vec![json!({"type": "text", "text": text})],
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::{ReasoningFields, build_body};
    use super::super::flavour::Flavour;
    use super::*;
    use crate::domain::Block;
    use crate::provider::request::tests::{ORIGIN, build_message, build_request};
    use crate::provider::request_part::RequestPart;

    fn encode(omitted: &[RequestPart], texts: &[(Role, &str)]) -> (Value, Vec<RequestPart>) {
        let message =
            |(role, text): &(Role, &str)| build_message(*role, vec![Block::Text((*text).to_owned())]);
        let mut request = build_request("m", texts.iter().map(message).collect());
        request.omitted = omitted.iter().cloned().collect();
        let body = build_body(&request, Flavour::Other, ORIGIN, ReasoningFields::default(), None);
        let parts = body.parts().iter().cloned().collect();
        (serde_json::from_str(&body.text()).unwrap(), parts)
    }

    #[test]
    fn refused_roles_are_joined_and_nothing_is_lost() {
        let (repeated, system) = (RequestPart::RepeatedRoles, RequestPart::SystemRole);
        let texts = [
            (Role::User, "a"),
            (Role::User, "b"),
            (Role::Assistant, "c"),
            (Role::User, "d"),
        ];
        let (body, parts) = encode(&[], &texts);
        assert!(parts.contains(&repeated) && parts.contains(&system));
        assert_eq!(body["messages"].as_array().unwrap().len(), 5);
        for (omitted, expected) in [
            (
                &[repeated.clone()][..],
                json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a\n\nb"},
                       {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}]),
            ),
            (
                &[repeated.clone(), system.clone()],
                json!([{"role": "user", "content": "Be brief.\n\na\n\nb"}, {"role": "assistant", "content": "c"},
                       {"role": "user", "content": "d"}]),
            ),
        ] {
            let (body, parts) = encode(omitted, &texts);
            assert_eq!(body["messages"], expected);
            assert!(omitted.iter().all(|part| !parts.contains(part)));
        }
        // Without such messages, there is nothing to refuse.
        let (_, parts) = encode(&[], &texts[..1]);
        assert!(!parts.contains(&repeated));
    }

    #[test]
    fn calls_and_pictures_of_joined_messages_stay() {
        let message = |value: Value| (Role::User, Bytes::from(value.to_string()));
        let picture = json!({"type": "image_url", "image_url": {"url": "data:"}});
        let written = [
            message(json!({"role": "user", "content": "a"})),
            message(json!({"role": "user", "content": [picture]})),
            message(json!({"role": "assistant", "content": "b"})),
            message(json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]})),
            message(json!({"role": "assistant", "content": "c", "tool_calls": [{"id": "2"}]})),
            message(json!({"role": "tool", "content": "r"})),
            message(json!({"role": "tool", "content": "s"})),
        ];
        let joined = join_roles(&written, None);
        let joined: Value =
            serde_json::from_str(&format!("[{}]", std::str::from_utf8(&joined).unwrap())).unwrap();
        let expected = json!([
            {"role": "user", "content": [{"type": "text", "text": "a"}, picture]},
            {"role": "assistant", "content": "b\n\nc", "tool_calls": [{"id": "1"}, {"id": "2"}]},
            {"role": "tool", "content": "r"}, {"role": "tool", "content": "s"},
        ]);
        assert_eq!(joined, expected);
    }

    #[test]
    fn a_refused_name_of_the_output_limit_is_replaced() {
        let (body, parts) = encode(&[], &[(Role::User, "a")]);
        assert_eq!(body["max_tokens"], 4_096);
        assert!(parts.contains(&RequestPart::OutputLimitName));
        let (body, parts) = encode(&[RequestPart::OutputLimitName], &[(Role::User, "a")]);
        assert_eq!(
            (&body["max_tokens"], &body["max_completion_tokens"]),
            (&Value::Null, &json!(4_096))
        );
        assert!(parts.contains(&RequestPart::OutputLimit) && !parts.contains(&RequestPart::OutputLimitName));
    }
}
