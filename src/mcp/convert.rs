//! Converts the values of the SDK, `rmcp`, to ours, with bounds and safe to show.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorCode, ErrorData, PromptMessage, ProtocolVersion, ResourceContents,
    Role,
};
use rmcp::service::{ClientInitializeError, Peer, ServiceError};
use serde_json::Value;
use url::Url;

use super::authorize::{ProxyFailure, to_transport_error};
use super::connection::{
    McpCallResult, McpError, McpPeer, McpPrompt, McpPromptArgument, McpPromptMessage, McpResource, McpTool,
};
use super::content::McpContent;
use super::elicitation::{Elicitation, Requested};
use super::schema::adapt_schema;
use crate::base::error_chain::find;
use crate::base::hash::sha256;
use crate::base::text::{one_line_of_words, prefix_of_words, prefix_within, reveal_hidden_characters};
use crate::domain::ArgumentSchema;

/// The longest description of a tool, in bytes.
const MAX_DESCRIPTION: usize = 4_096;
/// The longest name or address, in bytes.
const MAX_NAME: usize = 1_024;
/// The longest text about a prompt or a resource, in characters.
const MAX_LINE: usize = 300;
/// The most arguments of a prompt.
const MAX_ARGUMENTS: usize = 20;
/// The code of an error that names addresses which the user must visit first.
const VISIT_FIRST: i32 = -32_042;
/// The most addresses of such an error that count.
const MAX_VISITS: usize = 3;

pub(super) fn to_peer(peer: &Peer<RoleClient>) -> McpPeer {
    let Some(info) = peer.peer_info() else {
        return McpPeer::default();
    };
    let title = info.server_info.as_ref().map(|server| {
        let name = server.title.as_deref().unwrap_or(&server.name);
        let title = format!("{name} {}", server.version);
        one_line_of_words(&reveal_hidden_characters(&title), 100)
    });
    let instructions = info.instructions.as_deref().map(reveal_hidden_characters);
    McpPeer {
        title,
        instructions: instructions.map(|text| prefix_of_words(text.trim(), MAX_DESCRIPTION).to_owned()),
        has_tools: info.capabilities.tools.is_some(),
        has_prompts: info.capabilities.prompts.is_some(),
        has_resources: info.capabilities.resources.is_some(),
    }
}

/// Reads a tool; `None` if it is not usable.
pub(super) fn read_tool(entry: &Value) -> Option<McpTool> {
    let description = entry.get("description").and_then(Value::as_str);
    let description = reveal_hidden_characters(description.unwrap_or_default());
    let annotations = read_annotations(entry);
    Some(McpTool {
        name: read_text(entry, "name")?,
        title: read_line(entry, "title").unwrap_or_default(),
        description: prefix_within(description.trim(), MAX_DESCRIPTION).to_owned(),
        schema: ArgumentSchema::new(adapt_schema(entry.get("inputSchema").unwrap_or(&Value::Null))),
        output_schema: entry
            .get("outputSchema")
            .filter(|schema| schema.get("type").is_some_and(|kind| kind == "object"))
            .map(|schema| Arc::new(adapt_schema(schema))),
        claims_read_only: annotations.get("readOnlyHint") == Some(&true),
        fingerprint: fingerprint_tool(entry, &annotations),
        annotations,
    })
}

/// Returns what a tool claims of the effects of its calls.
fn read_annotations(entry: &Value) -> BTreeMap<String, bool> {
    let annotations = entry.get("annotations").and_then(Value::as_object);
    let annotations = annotations.into_iter().flatten();
    annotations
        .filter_map(|(name, value)| Some((name.clone(), value.as_bool()?)))
        .collect()
}

fn fingerprint_tool(entry: &Value, annotations: &BTreeMap<String, bool>) -> String {
    let mut text = String::new();
    // What people and the model see of the tool: `annotations` also has a title.
    for key in [
        "title",
        "description",
        "inputSchema",
        "outputSchema",
        "annotations",
    ] {
        write_sorted(entry.get(key).unwrap_or(&Value::Null), &mut text);
    }
    sha256(format!("{text}{annotations:?}").as_bytes())
}

/// Writes a value so that the order of its members does not count.
fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<&String, &Value> = members.iter().collect();
            text.push('{');
            for (name, member) in members {
                text.push_str(&format!("{name:?}:"));
                write_sorted(member, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            items.iter().for_each(|item| write_sorted(item, text));
            text.push(']');
        }
        plain => text.push_str(&format!("{plain},")),
    }
}

/// Reads a prompt; `None` if it is not usable.
pub(super) fn read_prompt(entry: &Value) -> Option<McpPrompt> {
    let arguments = entry.get("arguments").and_then(Value::as_array);
    let arguments: Option<Vec<McpPromptArgument>> = arguments
        .into_iter()
        .flatten()
        .map(|argument| {
            Some(McpPromptArgument {
                name: read_text(argument, "name")?,
                description: read_line(argument, "description"),
                is_required: argument.get("required") == Some(&Value::Bool(true)),
            })
        })
        .collect();
    Some(McpPrompt {
        name: read_text(entry, "name")?,
        description: read_line(entry, "description").or_else(|| read_line(entry, "title")),
        arguments: arguments.filter(|arguments| arguments.len() <= MAX_ARGUMENTS)?,
    })
}

/// Reads a resource; `None` if it is not usable.
pub(super) fn read_resource(entry: &Value) -> Option<McpResource> {
    Some(McpResource {
        uri: read_text(entry, "uri")?,
        name: read_line(entry, "title").or_else(|| read_line(entry, "name"))?,
        description: read_line(entry, "description"),
        media_type: read_line(entry, "mimeType"),
    })
}

/// Returns a text that the server must get back as it is.
fn read_text(entry: &Value, key: &str) -> Option<String> {
    let text = entry.get(key)?.as_str()?;
    (!text.is_empty() && text.len() <= MAX_NAME).then(|| text.to_owned())
}

/// Returns a text for people.
fn read_line(entry: &Value, key: &str) -> Option<String> {
    let text = entry.get(key)?.as_str()?;
    Some(one_line_of_words(&reveal_hidden_characters(text), MAX_LINE)).filter(|text| !text.is_empty())
}

pub(super) fn to_call_result(result: CallToolResult) -> McpCallResult {
    McpCallResult {
        content: result.content.into_iter().map(to_content).collect(),
        structured: result.structured_content,
        is_error: result.is_error == Some(true),
    }
}

/// Reads a result with a part that the SDK does not know, or cannot read; `None` if it is not a result.
pub(super) fn read_call_result(mut result: Value) -> Option<McpCallResult> {
    let parts = std::mem::take(result.get_mut("content")?.as_array_mut()?);
    let result: CallToolResult = serde_json::from_value(result).ok()?;
    let parts = parts.into_iter().map(|part| {
        let kind = read_line(&part, "type");
        let kind = kind.map_or("without a type".to_owned(), |kind| {
            format!("of the type {kind:?}")
        });
        let known = serde_json::from_value(part).map(to_content);
        known.unwrap_or_else(|_| McpContent::Other(format!("unreadable content {kind}")))
    });
    Some(McpCallResult {
        content: parts.collect(),
        ..to_call_result(result)
    })
}

pub(super) fn to_content(block: ContentBlock) -> McpContent {
    match block {
        ContentBlock::Text(text) => McpContent::Text(text.text),
        ContentBlock::Image(image) => McpContent::Image {
            media_type: image.mime_type,
            data: image.data,
        },
        ContentBlock::Audio(audio) => McpContent::Other(format!("sound ({})", audio.mime_type)),
        ContentBlock::Resource(embedded) => to_document(embedded.resource),
        ContentBlock::ResourceLink(link) => McpContent::Link {
            uri: link.uri,
            name: link.name,
        },
        _ => McpContent::Other("content of an unknown kind".to_owned()),
    }
}

/// Converts a part of a resource.
pub(super) fn to_document(contents: ResourceContents) -> McpContent {
    match contents {
        ResourceContents::TextResourceContents { uri, text, .. } => McpContent::Document { uri, text },
        ResourceContents::BlobResourceContents {
            mime_type: Some(media_type),
            blob,
            ..
        } if media_type.starts_with("image/") => McpContent::Image {
            media_type,
            data: blob,
        },
        ResourceContents::BlobResourceContents { uri, blob, .. } => {
            McpContent::Other(format!("binary data of {uri}, {} bytes", blob.len() / 4 * 3))
        }
        _ => McpContent::Other("a resource of an unknown kind".to_owned()),
    }
}

/// Converts a message of a prompt.
pub(super) fn to_prompt_message(message: PromptMessage) -> McpPromptMessage {
    McpPromptMessage {
        is_from_assistant: message.role == Role::Assistant,
        content: to_content(message.content),
    }
}

pub(super) fn to_error(error: &ServiceError) -> McpError {
    if error.is_authorization_required() {
        return McpError::NeedsLogin;
    }
    match error {
        ServiceError::McpError(error) => match error.code {
            ErrorCode(VISIT_FIRST) => {
                let visits = read_visits(error);
                McpError::VisitFirst(describe_visits(&error.message, &visits), visits)
            }
            ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY => McpError::Refused(describe_missing(error)),
            ErrorCode::INVALID_PARAMS => McpError::WrongInput(to_message(&error.message)),
            _ => McpError::Refused(to_message(&error.message)),
        },
        ServiceError::TransportClosed => McpError::Closed,
        ServiceError::UnexpectedResponse => McpError::Malformed("another kind of result".to_owned()),
        ServiceError::Timeout { timeout } => McpError::TimedOut(*timeout),
        ServiceError::Cancelled { .. } => McpError::Cancelled,
        ServiceError::TransportSend(error) => to_transport_error(error.error.as_ref()),
        other => McpError::Failed(to_message(&other.to_string())),
    }
}

pub(super) fn to_start_error(error: &ClientInitializeError) -> McpError {
    if error.is_authorization_required() {
        return McpError::NeedsLogin;
    }
    match error {
        ClientInitializeError::ConnectionClosed(_) => McpError::Closed,
        ClientInitializeError::JsonRpcError(error) => McpError::Refused(to_message(&error.message)),
        ClientInitializeError::TransportError { error, .. } => to_transport_error(error.error.as_ref()),
        ClientInitializeError::ExpectedInitResult(_) | ClientInitializeError::ExpectedInitResponse(_) => {
            McpError::Malformed("it does not introduce the server".to_owned())
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => to_start_error(fallback),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<&str> = server_supported.iter().map(|version| version.as_str()).collect();
            let spoken = ProtocolVersion::KNOWN_VERSIONS
                .iter()
                .map(|version| version.as_str());
            McpError::Malformed(to_message(&format!(
                "it speaks MCP {}, and agentls speaks {}",
                versions.join(", "),
                spoken.collect::<Vec<_>>().join(", ")
            )))
        }
        other => McpError::Malformed(to_message(&other.to_string())),
    }
}

/// Returns whether a start may have failed only because the server does not know `server/discover`.
pub(super) fn may_have_refused_probe(error: &ClientInitializeError) -> bool {
    let is_certain = match error {
        // It has already been asked in the old way, by an independent request.
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            matches!(**fallback, ClientInitializeError::TransportError { .. })
        }
        ClientInitializeError::TransportError { error, .. } => {
            let error = error.error.as_ref();
            find::<ProxyFailure>(error).is_some()
                || find::<reqwest::Error>(error).is_some_and(|error| error.status().is_none())
        }
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            !server_supported.iter().any(|version| version.has_initialize())
        }
        _ => false,
    };
    !is_certain && !error.is_authorization_required()
}

/// Returns whether a server refuses `initialize` because it speaks newer revisions only.
pub(super) fn is_refusal_of_older(error: &ClientInitializeError) -> bool {
    matches!(error, ClientInitializeError::JsonRpcError(error) if error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION)
}

/// Describes what a server demands that we have not announced: it asks the model only if its settings allow that.
fn describe_missing(error: &ErrorData) -> String {
    let demanded = error
        .data
        .as_ref()
        .and_then(|data| data.get("requiredCapabilities"));
    let message = to_message(&error.message);
    match demanded.and_then(|demanded| demanded.get("sampling")) {
        Some(_) => {
            format!("{message}; it wants to ask your model, which `sampling = true` in its settings allows")
        }
        None => message,
    }
}

/// Reads the addresses that the user must visit first.
fn read_visits(error: &ErrorData) -> Vec<(String, Url)> {
    let elicitations = error.data.as_ref().and_then(|data| data.get("elicitations"));
    let elicitations = elicitations.and_then(Value::as_array).into_iter().flatten();
    let visits = elicitations.filter_map(|params| {
        let Elicitation { message, requested } = Elicitation::read(params, None).ok()?;
        match requested {
            Requested::Visit(url) => Some((message, url)),
            Requested::Form(_) => None,
        }
    });
    visits.take(MAX_VISITS).collect()
}

fn describe_visits(message: &str, visits: &[(String, Url)]) -> String {
    let mut message = to_message(message);
    message.truncate(message.trim_end_matches('.').len());
    for (_, url) in visits {
        message.push_str(&format!("; the user must first open {url}"));
    }
    message
}

/// Returns a message of a server, safe to show.
fn to_message(message: &str) -> String {
    one_line_of_words(&reveal_hidden_characters(message), 500)
}

#[cfg(test)]
mod tests {
    use rmcp::transport::streamable_http_client::StreamableHttpError;

    use super::*;

    #[test]
    fn everything_that_a_server_says_of_a_tool_is_in_its_fingerprint() {
        use serde_json::json;

        let tool = json!({"name": "a", "title": "A", "description": "d", "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object"}, "annotations": {"title": "x", "readOnlyHint": true}});
        let fingerprint = |tool: &Value| read_tool(tool).unwrap().fingerprint;
        for (key, value) in [
            ("title", json!("B")),
            ("description", json!("e")),
            ("inputSchema", json!({"type": "object", "properties": {"b": {}}})),
            ("outputSchema", json!({"type": "object", "properties": {"b": {}}})),
            ("annotations", json!({"title": "y", "readOnlyHint": true})),
            ("annotations", json!({"title": "x", "readOnlyHint": false})),
        ] {
            let mut changed = tool.clone();
            changed[key] = value;
            assert_ne!(fingerprint(&changed), fingerprint(&tool), "{key}");
        }
        assert_eq!(read_tool(&tool).unwrap().title, "A");
    }

    #[test]
    fn errors_of_the_sdk_are_told_in_plain_words() {
        let error = to_start_error(&ClientInitializeError::ExpectedInitResult(None));
        assert!(
            error.to_string().ends_with("it does not introduce the server"),
            "{error}"
        );
        let kind = Some("text/html".to_owned());
        let page: StreamableHttpError<reqwest::Error> = StreamableHttpError::UnexpectedContentType(kind);
        let said = to_transport_error(&page).to_string();
        assert!(
            said.contains("the server answered with text/html instead of JSON"),
            "{said}"
        );
    }
}
