//! Reads the MCP servers that a workspace names in the files of other programs: `.mcp.json` and `.vscode/mcp.json`.
//!
//! The result has the form of our own config file, so that trust, variables, and validation treat both alike. Pure:
//! `layers` reads the files.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::diagnostics::Diagnostic;
use super::expand::{InputVariable, parse_variable};
use super::foreign_inputs::ForeignInputs;
use super::inputs::FileText;
use super::location::ConfigLocation;
use super::mcp_names::{MAX_NAMED_MCP_SERVERS, usable_mcp_names};
use super::tree::{Node, SpannedValue};

/// The files, relative to the workspace folder, from lowest to highest.
pub(super) const FILES: [&str; 2] = [".mcp.json", ".vscode/mcp.json"];

/// The settings of a server that have the same name and meaning here.
const SHARED_KEYS: [&str; 6] = ["command", "args", "env", "cwd", "url", "headers"];

/// Settings that decide what runs, and that nothing here corresponds to.
const UNSUPPORTED_KEYS: [(&str, &str); 2] = [
    ("headersHelper", "it is not run, so its headers are not sent"),
    (
        "sandbox",
        "it is ignored; the program runs in our own sandbox instead",
    ),
];

/// The servers of a file in the form of a config file.
pub(super) struct ForeignServers {
    pub(super) tree: SpannedValue,
    pub(super) problems: Vec<Diagnostic>,
    /// The variables that stand for inputs, by their names.
    pub(super) variables: BTreeMap<String, InputVariable>,
}

/// Converts a file to the form of a config file.
pub(super) fn read_foreign_servers(file: &FileText, root: &Path) -> ForeignServers {
    let at = ConfigLocation::start_of_file(&file.path);
    let mut reader = ForeignReader {
        at: at.clone(),
        name: String::new(),
        root: root.to_string_lossy().into_owned(),
        inputs: ForeignInputs::default(),
        problems: Vec::new(),
        variables: BTreeMap::new(),
    };
    let servers = match &file.bytes {
        Ok(bytes) => reader.read_servers(bytes),
        Err(reason) => {
            reader.report_error(format!("cannot be read: {reason}"));
            BTreeMap::new()
        }
    };
    let mut tree = SpannedValue::new_table(at.clone());
    tree.insert_at(&["mcp"], SpannedValue::new(at, Node::Table(servers)));
    ForeignServers {
        tree,
        problems: reader.problems,
        variables: reader.variables,
    }
}

struct ForeignReader {
    /// The line of the current server, or of a problem of the whole file.
    at: ConfigLocation,
    /// The name of the current server, as rules know it.
    name: String,
    root: String,
    inputs: ForeignInputs,
    problems: Vec<Diagnostic>,
    variables: BTreeMap<String, InputVariable>,
}

impl ForeignReader {
    /// Reports a problem of the whole file. It has a path, because an error without one may hide rules about approvals.
    fn report_error(&mut self, message: String) {
        self.problems
            .push(Diagnostic::new_error(&self.at, "mcp", message));
    }

    /// Reports a problem of the current server.
    fn report_warning(&mut self, message: &str) {
        let key = format!("mcp.{}", self.name);
        self.problems
            .push(Diagnostic::new_warning(&self.at, key, message));
    }

    fn read_servers(&mut self, bytes: &[u8]) -> BTreeMap<String, SpannedValue> {
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        // VS Code allows comments and trailing commas. The parser reports what is wrong with them.
        let _ = json_strip_comments::strip(&mut text);
        let parsed: Value = match serde_json::from_str(&text) {
            Ok(parsed) => parsed,
            Err(error) => {
                self.at = self.at.with_line(error.line());
                self.report_error(format!("is not valid JSON: {error}"));
                return BTreeMap::new();
            }
        };
        let Value::Object(stated) = &parsed else {
            self.report_error("must contain a JSON object; not used".to_owned());
            return BTreeMap::new();
        };
        self.inputs = ForeignInputs::read(parsed.get("inputs"));
        // `.mcp.json` has the first name, VS Code's file the second.
        let mut keys = ["mcpServers", "servers"].into_iter();
        let Some(key) = keys.find(|key| parsed.get(key).is_some()) else {
            if stated
                .keys()
                .any(|key| !matches!(key.as_str(), "inputs" | "$schema"))
            {
                self.report_error("names no server: it has neither `mcpServers` nor `servers`".to_owned());
            }
            return BTreeMap::new();
        };
        let servers = match &parsed[key] {
            Value::Object(servers) if servers.len() <= MAX_NAMED_MCP_SERVERS => servers,
            _ => {
                let limit = format!("an object with at most {MAX_NAMED_MCP_SERVERS} servers");
                self.report_error(format!("`{key}` must be {limit}; not used"));
                return BTreeMap::new();
            }
        };
        let lines = find_lines(&text, key);
        let mut converted = BTreeMap::new();
        let names: Vec<&str> = servers.keys().map(String::as_str).collect();
        for (usable, (name, server)) in usable_mcp_names(&names).into_iter().zip(servers) {
            self.at = self.at.with_line(lines.get(name).copied().unwrap_or(1));
            self.name = usable;
            let server = self.convert_server(server);
            let server = server.and_then(|server| SpannedValue::from_json(&server, &self.at));
            converted.extend(server.map(|server| (self.name.clone(), server)));
        }
        converted
    }

    fn convert_server(&mut self, server: &Value) -> Option<Value> {
        let Value::Object(stated) = server else {
            self.report_warning("must be an object; ignored");
            return None;
        };
        if stated.get("type") == Some(&json!("sse")) {
            self.report_warning("uses the old transport `sse`, which is not supported; ignored");
            return None;
        }
        for (key, effect) in UNSUPPORTED_KEYS {
            if stated.contains_key(key) {
                self.report_warning(&format!("`{key}` is not supported: {effect}"));
            }
        }
        let mut converted = Map::new();
        for key in SHARED_KEYS {
            if let Some(value) = stated.get(key) {
                converted.insert(key.to_owned(), self.convert_value(value)?);
            }
        }
        if let Some(path) = stated.get("envFile") {
            converted.insert("env_file".to_owned(), self.convert_value(path)?);
        }
        if let Some(oauth) = stated.get("oauth") {
            self.convert_login(oauth, &mut converted)?;
        }
        if !converted.contains_key("command") && !converted.contains_key("url") {
            self.report_warning("has neither `command` nor `url`");
        }
        for (key, starts) in [("enabled", true), ("disabled", false)] {
            match stated.get(key) {
                None => continue,
                Some(Value::Bool(stated)) if *stated == starts => continue,
                Some(Value::Bool(_)) => {}
                Some(_) => {
                    let message = format!("`{key}` must be true or false; the server is disabled");
                    self.report_warning(&message);
                }
            }
            converted.insert("enabled".to_owned(), json!(false));
        }
        Some(Value::Object(converted))
    }

    /// Converts how to log in at a server; `None` if the server cannot be used because of it.
    fn convert_login(&mut self, oauth: &Value, converted: &mut Map<String, Value>) -> Option<()> {
        let Value::Object(stated) = oauth else {
            self.report_warning("`oauth` must be an object; ignored");
            return Some(());
        };
        for (key, value) in stated {
            let (key, value) = match key.as_str() {
                "clientId" => ("oauth_client_id", self.convert_value(value)?),
                "callbackPort" => ("oauth_callback_port", value.clone()),
                "scopes" => {
                    let separate = value.as_str().map(|text| text.split_whitespace().collect());
                    (
                        "oauth_scopes",
                        self.convert_value(&separate.unwrap_or(value.clone()))?,
                    )
                }
                other => {
                    self.report_warning(&format!("`oauth.{other}` is not supported; ignored"));
                    continue;
                }
            };
            converted.insert(key.to_owned(), value);
        }
        Some(())
    }

    /// Converts the variables in all texts; `None` if the server cannot be used because of one.
    fn convert_value(&mut self, value: &Value) -> Option<Value> {
        Some(match value {
            Value::String(text) => match self.convert_variables(text) {
                Ok(text) => Value::String(text),
                Err(variable) => {
                    let message = format!("`${{{variable}}}` is not supported; the server is not available");
                    self.report_warning(&message);
                    return None;
                }
            },
            Value::Array(items) => Value::Array(
                items
                    .iter()
                    .map(|item| self.convert_value(item))
                    .collect::<Option<_>>()?,
            ),
            Value::Object(entries) => {
                let mut converted = Map::new();
                for (key, value) in entries {
                    converted.insert(key.clone(), self.convert_value(value)?);
                }
                Value::Object(converted)
            }
            // VS Code allows numbers as values of variables.
            Value::Number(number) => Value::String(number.to_string()),
            other => other.clone(),
        })
    }

    /// Converts `${env:NAME}`, `${input:ID}`, `${userHome}`, and those of the workspace folder to our syntax. The error is a
    /// variable that has no meaning here.
    fn convert_variables(&mut self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('$') {
            out.push_str(&rest[..start]);
            rest = &rest[start..];
            let Some((variable, tail)) = rest.strip_prefix("${").and_then(|tail| tail.split_once('}')) else {
                // In our syntax, two of them stand for one.
                out.push_str("$$");
                rest = &rest[1..];
                continue;
            };
            if let Some(id) = variable.strip_prefix("input:") {
                out.push_str(&self.convert_input(id));
                rest = tail;
                continue;
            }
            match variable.strip_prefix("env:").unwrap_or(variable) {
                "workspaceFolder" | "workspaceRoot" => out.push_str(&self.root.replace('$', "$$")),
                "workspaceFolderBasename" => {
                    let folder = Path::new(&self.root).file_name().unwrap_or_default();
                    out.push_str(&folder.to_string_lossy().replace('$', "$$"));
                }
                "userHome" => out.push_str("${HOME}"),
                // A default is as in our syntax, too.
                inside if parse_variable(inside).is_some() => {
                    out.push_str("${");
                    out.push_str(inside);
                    out.push('}');
                }
                _ => return Err(variable.to_owned()),
            }
            rest = tail;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn convert_input(&mut self, id: &str) -> String {
        let variable = self.inputs.convert_input(id);
        if variable.lacks_default {
            let message =
                format!("the default of `${{input:{id}}}` contains `}}` or `${{`, so it is ignored");
            self.report_warning(&message);
        }
        let text = variable.text.clone();
        self.variables.insert(variable.name.clone(), variable);
        text
    }
}

/// Returns the line of each entry of a table of a JSON text, from 1.
fn find_lines(text: &str, table: &str) -> BTreeMap<String, usize> {
    type Entries<'a> = BTreeMap<String, &'a RawValue>;
    let tables: Entries<'_> = serde_json::from_str(text).unwrap_or_default();
    let entries = tables
        .get(table)
        .map(|table| serde_json::from_str::<Entries<'_>>(table.get()));
    let entries = entries.and_then(Result::ok).unwrap_or_default();
    let line_of = |entry: &RawValue| {
        // Both are parts of the same text.
        let before = entry.get().as_ptr() as usize - text.as_ptr() as usize;
        text[..before].matches('\n').count() + 1
    };
    let entries = entries.into_iter();
    entries.map(|(name, entry)| (name, line_of(entry))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Value, Vec<String>) {
        let file = FileText {
            path: "/w/.mcp.json".into(),
            bytes: Ok(text.as_bytes().to_vec()),
        };
        let read = read_foreign_servers(&file, Path::new("/w"));
        let problems = read.problems.iter().map(ToString::to_string);
        (read.tree.to_json(), problems.collect())
    }

    #[test]
    fn both_files_are_converted() {
        let (tree, problems) = read(
            r#"{"mcpServers": {"docs": {"command": "npx", "args": ["-y", "docs", "${PORT:-$80}"], "env": {"KEY": "${KEY}", "N": 1}}}}"#,
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(
            tree,
            json!({"mcp": {"docs": {"command": "npx", "args": ["-y", "docs", "${PORT:-$80}"], "env": {"KEY": "${KEY}", "N": "1"}}}})
        );
        let (tree, problems) = read(
            r#"{
              // Servers.
              "servers": {
                "web": {"type": "http", "url": "https://example.com/mcp", "headers": {"A": "Bearer ${env:TOKEN:-none}"},},
                "local": {"command": "${workspaceFolder}/bin/x", "args": ["$1", "a // b", "${workspaceFolderBasename}"], /* off */ "disabled": true},
              },
            }"#,
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(
            tree,
            json!({"mcp": {
                "web": {"url": "https://example.com/mcp", "headers": {"A": "Bearer ${TOKEN:-none}"}},
                "local": {"command": "/w/bin/x", "args": ["$$1", "a // b", "w"], "enabled": false},
            }})
        );
    }

    #[test]
    fn a_server_that_is_not_clearly_enabled_does_not_start() {
        for (flag, is_disabled, warns) in [
            (r#""enabled": false"#, true, false),
            (r#""enabled": true"#, false, false),
            (r#""disabled": true"#, true, false),
            (r#""disabled": false"#, false, false),
            (r#""disabled": "true""#, true, true),
            (r#""enabled": "no""#, true, true),
            (r#""enabled": true, "disabled": null"#, true, true),
        ] {
            let text = format!("\u{feff}{{\"mcpServers\": {{\"a\": {{\"command\": \"c\", {flag}}}}}}}");
            let (tree, problems) = read(&text);
            let expected = if is_disabled {
                json!({"command": "c", "enabled": false})
            } else {
                json!({"command": "c"})
            };
            assert_eq!(tree["mcp"]["a"], expected, "{flag}");
            let said = problems.concat();
            assert_eq!(
                said.contains("must be true or false; the server is disabled"),
                warns,
                "{said}"
            );
        }
    }

    #[test]
    fn files_inputs_and_logins_are_converted() {
        let (tree, problems) = read(
            r#"{
              "inputs": [{"type": "promptString", "id": "key", "description": "The key", "password": true}],
              "servers": {
                "local": {"command": "c", "envFile": "${workspaceFolder}/.env", "env": {"KEY": "${input:key}-${input:other}"},
                          "dev": {"watch": "x"}, "gallery": "x", "autoApprove": ["*"], "alwaysAllow": ["*"], "sandboxEnabled": true},
                "web": {"url": "https://h/", "oauth": {"clientId": "id", "callbackPort": 8080, "scopes": "a  b"}},
              },
            }"#,
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(
            tree,
            json!({"mcp": {
                "local": {"command": "c", "env_file": "/w/.env",
                          "env": {"KEY": "${AGENTLS_INPUT_KEY}-${AGENTLS_INPUT_OTHER}"}},
                "web": {"url": "https://h/", "oauth_client_id": "id", "oauth_callback_port": 8080,
                        "oauth_scopes": ["a", "b"]},
            }})
        );
    }

    #[test]
    fn what_cannot_be_used_is_reported() {
        for (text, server, expected) in [
            (
                r#"{"servers": {"x": {"command": "${command:pick}/c"}}}"#,
                false,
                "`${command:pick}` is not supported",
            ),
            (
                r#"{"servers": {"x": {"command": "${A:-${B}}/c"}}}"#,
                false,
                "`${A:-${B}` is not supported",
            ),
            (
                r#"{"servers": {"x": {"type": "sse", "url": "http://h/"}}}"#,
                false,
                "old transport",
            ),
            (
                r#"{"servers": {"x": {"command": "c", "sandbox": {"filesystem": {}}}}}"#,
                true,
                "`sandbox` is not supported",
            ),
            (
                r#"{"servers": {"x": {"url": "https://h/", "headersHelper": "./x"}}}"#,
                true,
                "`headersHelper` is not supported",
            ),
            (
                r#"{"servers": {"x": {"url": "https://h/", "oauth": {"authServerMetadataUrl": "https://h/"}}}}"#,
                true,
                "`oauth.authServerMetadataUrl` is not supported",
            ),
            (
                r#"{"inputs": [{"id": "a", "default": "}"}], "servers": {"x": {"command": "${input:a}"}}}"#,
                true,
                "the default of `${input:a}`",
            ),
            (r#"{"servers": {"x": 3}}"#, false, "must be an object"),
            (
                r#"{"servers": {"x": {}}}"#,
                true,
                "mcp.x: has neither `command` nor `url`",
            ),
            ("{", false, "mcp: is not valid JSON"),
            ("[]", false, "mcp: must contain a JSON object"),
            (
                r#"{"mcpServers": []}"#,
                false,
                "mcp: `mcpServers` must be an object",
            ),
            (
                r#"{"x": {"command": "c"}}"#,
                false,
                "mcp: names no server: it has neither `mcpServers` nor `servers`",
            ),
            (r#"{"servers": null}"#, false, "mcp: `servers` must be an object"),
        ] {
            let (tree, problems) = read(text);
            assert_eq!(tree["mcp"].get("x").is_some(), server, "{text}");
            assert!(problems.concat().contains(expected), "{text}: {problems:?}");
        }
    }

    #[test]
    fn servers_and_their_problems_have_the_names_of_rules() {
        let (tree, problems) = read(
            r#"{"servers": {
                "My Server": {"command": "a", "sandbox": true}, "a b": {"command": "b"}, "a.b": {"command": "c"},
                "io.github.ChromeDevTools/chrome-devtools-mcp": {"command": "d"}, "x__y": {"command": "e"},
                "com.atlassian/atlassian-mcp-server": {"type": "sse", "url": "https://h/"}
            }}"#,
        );
        let expected = json!({"mcp": {
            "My-Server": {"command": "a"}, "a-b": {"command": "b"}, "a-b-2": {"command": "c"},
            "chrome-devtools-mcp": {"command": "d"}, "x_y": {"command": "e"},
        }});
        assert_eq!(tree, expected);
        let problems = problems.concat();
        for part in [
            "mcp.My-Server: `sandbox`",
            "mcp.atlassian-mcp-server: uses the old",
        ] {
            assert!(problems.contains(part), "{problems}");
        }
    }

    #[test]
    fn problems_name_the_line_of_their_server() {
        let text = "// Servers.\n{\"servers\": {\n  \"a\": {\"command\": \"a\"},\n  \"b\": 3}}";
        let file = FileText {
            path: "/w/.mcp.json".into(),
            bytes: Ok(text.as_bytes().to_vec()),
        };
        let servers = read_foreign_servers(&file, Path::new("/w"));
        let command = servers.tree.find(&["mcp", "a", "command"]);
        assert_eq!(command.unwrap().at.line, 3);
        assert_eq!(servers.problems[0].line, 4);
        let (_, problems) = read("{\n{");
        assert!(
            problems[0].starts_with("/w/.mcp.json:2:1: error: mcp: is not valid JSON"),
            "{problems:?}"
        );
    }
}
