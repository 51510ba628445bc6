//! The MCP servers that a client names when it creates or opens a session (R-MCP).
//!
//! The client's user has configured them, so they count like those of the user's own settings: they start without a
//! question and without the sandbox, and every call needs approval. They end with the session's connection.
//!
//! Must never log or store the values of `env` and `headers`. So they are taken out of the params before anything else
//! sees these.

use std::collections::BTreeMap;
use std::path::Path;

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use tower_lsp::jsonrpc::Error;
use url::Url;

use super::context::AcpContext;
use super::error::invalid_param;
use super::updates::Notice;
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::config::{MAX_NAMED_MCP_SERVERS, McpServerSettings, usable_mcp_names};
use crate::domain::SessionId;

/// An entry of `mcpServers`.
#[derive(Deserialize)]
struct McpServerParam {
    /// Absent for a program.
    #[serde(rename = "type")]
    transport: Option<String>,
    name: String,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: NamedValues,
    url: Option<String>,
    #[serde(default)]
    headers: NamedValues,
}

/// Environment variables or headers. Some clients send a map instead of the list.
#[derive(Deserialize)]
#[serde(untagged)]
enum NamedValues {
    List(Vec<NamedValue>),
    Map(BTreeMap<String, SecretString>),
}

impl Default for NamedValues {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl NamedValues {
    fn into_map(self) -> BTreeMap<String, SecretString> {
        match self {
            Self::List(values) => values
                .into_iter()
                .map(|named| (named.name, named.value))
                .collect(),
            Self::Map(values) => values,
        }
    }
}

#[derive(Deserialize)]
struct NamedValue {
    name: String,
    value: SecretString,
}

/// The servers that a client names.
#[derive(Debug)]
pub(super) struct NamedServers {
    pub(super) servers: Vec<McpServerSettings>,
    /// Why others are left out.
    problems: Vec<String>,
}

/// Takes the servers out of the params of a request, so that redaction of the params leaves their secrets usable.
///
/// An entry that is malformed, or whose transport is not supported, is left out.
///
/// # Errors
/// It is not a list, or too long.
pub(super) fn take_servers(params: &mut Value) -> Result<NamedServers, Error> {
    let entries = match params.get_mut("mcpServers").map(Value::take) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(_) => return Err(invalid_param("mcpServers: must be a list")),
    };
    if entries.len() > MAX_NAMED_MCP_SERVERS {
        return Err(invalid_param(format!(
            "mcpServers: has more than {MAX_NAMED_MCP_SERVERS} servers"
        )));
    }
    let mut servers: Vec<McpServerSettings> = Vec::with_capacity(entries.len());
    let mut problems = Vec::new();
    for (at, entry) in entries.into_iter().enumerate() {
        match read_server(entry) {
            Ok(settings) => servers.push(settings),
            Err(problem) => problems.push(format!("mcpServers[{at}]: {problem}")),
        }
    }
    let wanted: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let names = usable_mcp_names(&wanted);
    for (server, name) in servers.iter_mut().zip(names) {
        server.name = name;
    }
    Ok(NamedServers { servers, problems })
}

fn read_server(entry: Value) -> Result<McpServerSettings, String> {
    // An error of serde may quote a secret.
    let shape = "needs a `name`; `args` as a list of texts; `env` and `headers` as lists of names and values";
    let entry: McpServerParam = serde_json::from_value(entry).map_err(|_| shape.to_owned())?;
    let name = one_line(&reveal_hidden_characters(&entry.name), 100);
    let settings = McpServerSettings {
        name: entry.name,
        ..McpServerSettings::default()
    };
    match (entry.transport.as_deref(), entry.command, entry.url) {
        (None | Some("stdio"), Some(command), _) if !command.is_empty() => Ok(McpServerSettings {
            command: Some(command),
            args: entry.args,
            env: entry.env.into_map(),
            ..settings
        }),
        (None | Some("stdio"), _, _) => Err(format!("{name:?} needs the `command` of a program")),
        (Some("http"), _, Some(url)) if is_http(&url) => Ok(McpServerSettings {
            url: Some(url),
            headers: entry.headers.into_map(),
            ..settings
        }),
        (Some("http"), _, _) => Err(format!("{name:?} needs a `url` such as https://example.com/mcp")),
        (Some("sse"), _, _) => Err(format!(
            "{name:?} uses the transport `sse`, which is not supported; use `http` if the server offers it"
        )),
        (Some(_), _, _) => Err(format!(
            "{name:?} has an unknown type; `stdio` and `http` are supported"
        )),
    }
}

fn is_http(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some())
}

/// Sets the servers of a session. Returns notes that name the configured ones that they replace, and what is left out.
pub(super) fn name_servers(
    state: &AcpContext,
    session: &SessionId,
    folder: &Path,
    named: &NamedServers,
) -> [Option<Notice>; 2] {
    let replaced = state.configured.name_mcp_servers(session, folder, &named.servers);
    let replaced = (!replaced.is_empty()).then(|| Notice {
        description: Some(
            "Servers of your configuration with the same name are not used in this session.".to_owned(),
        ),
        ..Notice::new(
            "info",
            "mcpServers",
            format!("The editor's MCP servers are used: {}", replaced.join(", ")),
        )
    });
    let left_out = (!named.problems.is_empty()).then(|| Notice {
        description: Some(named.problems.join("\n")),
        ..Notice::new(
            "warning",
            "mcpServers",
            "MCP servers of the editor are left out of this session",
        )
    });
    [replaced, left_out]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(servers: Value) -> Result<NamedServers, String> {
        take_servers(&mut json!({"mcpServers": servers})).map_err(|error| error.message.into_owned())
    }

    fn names(named: &NamedServers) -> Vec<&str> {
        named.servers.iter().map(|server| server.name.as_str()).collect()
    }

    #[test]
    fn names_are_usable_and_distinct() {
        let named = |name: &str| json!({"name": name, "command": "/bin/x", "args": [], "env": []});
        let servers = read(json!([named("files"), named("files"), named("My Server!")])).unwrap();
        assert_eq!(names(&servers), ["files", "files-2", "My-Server"]);
    }

    #[test]
    fn a_server_that_cannot_be_used_costs_only_itself_and_no_secret_is_shown() {
        for (entry, expected) in [
            (
                json!({"type": "sse", "name": "a", "url": "https://x/", "headers": []}),
                "`sse`",
            ),
            (json!({"type": "acp", "name": "a", "id": "1"}), "unknown type"),
            (json!({"name": "a", "args": [], "env": []}), "`command`"),
            (
                json!({"type": "http", "name": "a", "url": "file:///x", "headers": []}),
                "`url`",
            ),
            (
                json!({"name": "a", "command": "x", "env": [{"name": "K", "value": ["hidden"]}]}),
                "needs a `name`",
            ),
            (
                json!({"command": "x", "env": [{"name": "K", "value": "hidden"}]}),
                "needs a `name`",
            ),
            (json!("hidden"), "needs a `name`"),
        ] {
            let good = json!({"name": "good", "command": "/bin/x", "env": {"K": "v"}});
            let named = read(json!([good, entry])).unwrap();
            assert_eq!(names(&named), ["good"]);
            let error = named.problems.concat();
            assert!(
                error.starts_with("mcpServers[1]: ") && error.contains(expected),
                "{error}"
            );
            assert!(!error.contains("hidden"), "{error}");
        }
        assert!(read(json!({"a": 1})).is_err());
        assert!(read(json!(null)).unwrap().servers.is_empty());
    }
}
