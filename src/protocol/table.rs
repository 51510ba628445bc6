//! The one table of all methods and notifications.
//!
//! The server's announcement, the generated references and the tests follow from it. The `///` line of an entry is its
//! description in the reference; its example is in `examples.json`. Knows no handlers.
//!
//! The program itself uses only the names in [`method`]. The entries carry the schema and the conversion of every type,
//! so the program must not refer to them: the linker then drops them.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::*;

/// The sender of a message, and its guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// From client to server, with an answer.
    Request,
    /// From client to server, without an answer.
    ClientNotification,
    /// From server to client, with an answer; only if the client announced it.
    ServerRequest,
    /// From server to client: numbered, stored, and repeated by `agent/loadSession`.
    Durable,
    /// From server to client: never the only carrier of a fact.
    Transient,
}

/// A line of the table.
#[derive(Debug)]
pub struct MethodEntry {
    /// Name of its constant in [`method`].
    pub constant: &'static str,
    /// Name on the wire.
    pub method: &'static str,
    /// Sender and guarantees.
    pub kind: MessageKind,
    /// Description for the reference.
    pub doc: &'static str,
    /// Type of its params.
    pub params: TypeRef,
    /// Type of its result; only for requests.
    pub result: Option<TypeRef>,
}

/// A wire type, as the generator and the tests see it.
#[derive(Debug)]
pub struct TypeRef {
    /// Name of the Rust type.
    pub name: &'static str,
    /// Adds its schema, and those of all types it uses, to the generator's definitions.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Parses a value as this type and serializes it again.
    pub round_trip: fn(&Value) -> serde_json::Result<Value>,
}

const fn type_ref<T: JsonSchema + Serialize + DeserializeOwned>(name: &'static str) -> TypeRef {
    TypeRef {
        name,
        schema: |generator| generator.subschema_for::<T>(),
        round_trip: |value| serde_json::to_value(T::deserialize(value)?),
    }
}

macro_rules! table {
    (
        requests { $(#[doc = $rdoc:literal] $rconst:ident $rname:literal: $rparams:ident => $rresult:ident;)* }
        client_notifications { $(#[doc = $cdoc:literal] $cconst:ident $cname:literal: $cparams:ident;)* }
        server_requests { $(#[doc = $qdoc:literal] $qconst:ident $qname:literal: $qparams:ident => $qresult:ident;)* }
        server_notifications { $(#[doc = $sdoc:literal] $sconst:ident $skind:ident $svariant:ident $sname:literal: $sparams:ident;)* }
    ) => {
        /// The names of all methods on the wire.
        #[expect(missing_docs, reason = "the table above documents them")]
        pub mod method {
            $(pub const $rconst: &str = $rname;)*
            $(pub const $cconst: &str = $cname;)*
            $(pub const $qconst: &str = $qname;)*
            $(pub const $sconst: &str = $sname;)*

            /// Everything that a client may send.
            pub const FROM_CLIENT: &[&str] = &[$($rname,)* $($cname),*];
            /// Every notification of the server.
            pub const NOTIFICATIONS: &[&str] = &[$($sname),*];
        }

        /// Requests from client to server.
        pub static REQUESTS: &[MethodEntry] = &[$(MethodEntry {
            constant: stringify!($rconst),
            method: $rname,
            kind: MessageKind::Request,
            doc: $rdoc,
            params: type_ref::<$rparams>(stringify!($rparams)),
            result: Some(type_ref::<$rresult>(stringify!($rresult))),
        },)*];

        /// Notifications from client to server.
        pub static CLIENT_NOTIFICATIONS: &[MethodEntry] = &[$(MethodEntry {
            constant: stringify!($cconst),
            method: $cname,
            kind: MessageKind::ClientNotification,
            doc: $cdoc,
            params: type_ref::<$cparams>(stringify!($cparams)),
            result: None,
        },)*];

        /// Requests from server to client.
        pub static SERVER_REQUESTS: &[MethodEntry] = &[$(MethodEntry {
            constant: stringify!($qconst),
            method: $qname,
            kind: MessageKind::ServerRequest,
            doc: $qdoc,
            params: type_ref::<$qparams>(stringify!($qparams)),
            result: Some(type_ref::<$qresult>(stringify!($qresult))),
        },)*];

        /// Notifications from server to client.
        pub static SERVER_NOTIFICATIONS: &[MethodEntry] = &[$(MethodEntry {
            constant: stringify!($sconst),
            method: $sname,
            kind: MessageKind::$skind,
            doc: $sdoc,
            params: type_ref::<$sparams>(stringify!($sparams)),
            result: None,
        },)*];

        /// Any notification of the server. It serializes as its params.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum ServerNotification {
            $(#[doc = $sdoc] $svariant($sparams),)*
        }

        impl ServerNotification {
            /// Returns the name on the wire.
            pub fn method(&self) -> &'static str {
                match self { $(Self::$svariant(_) => $sname,)* }
            }

            /// Parses a notification. Returns `None` for an unknown method, which clients must ignore.
            pub fn parse(method: &str, params: Value) -> Option<serde_json::Result<Self>> {
                match method {
                    $($sname => Some(serde_json::from_value(params).map(Self::$svariant)),)*
                    _ => None,
                }
            }
        }

        $(impl From<$sparams> for ServerNotification {
            fn from(params: $sparams) -> Self {
                Self::$svariant(params)
            }
        })*
    };
}

table! {
    requests {
        /// Starts a session. Does not wait for the network.
        NEW_SESSION "agent/newSession": NewSessionParams => NewSessionResult;
        /// Starts a turn. The answer comes when the turn has ended.
        PROMPT "agent/prompt": PromptParams => PromptResult;
        /// Sends a message to the running turn. It joins the history before the next model call and keeps the turn going.
        STEER "agent/steer": SteerParams => SteerResult;
        /// Manages the prompts that wait for the end of the turn: list, add, edit, remove, send now. At most 100 wait; they survive a restart of the server.
        QUEUE "agent/queue": QueueParams => QueueResult;
        /// Starts a new turn that continues an interrupted or canceled one. Open approvals, limits and questions are requested again under the same ids. Answered like `agent/prompt`.
        RESUME_TURN "agent/resumeTurn": ResumeTurnParams => PromptResult;
        /// Starts a turn that only compacts what the model receives: a summary replaces old messages. Answered like `agent/prompt`.
        COMPACT "agent/compact": CompactParams => PromptResult;
        /// Decides an approval. The first answer wins; an unknown or settled id is an error.
        APPROVAL_RESPOND "agent/approvalRespond": ApprovalRespondParams => EmptyResult;
        /// Answers a limit request. The first answer wins; an unknown or settled id is an error.
        LIMIT_RESPOND "agent/limitRespond": LimitRespondParams => EmptyResult;
        /// Answers a question of the agent. The first answer wins; an unknown or settled id is an error.
        QUESTION_RESPOND "agent/questionRespond": QuestionRespondParams => EmptyResult;
        /// Lists the approvals, limits and questions that wait for the user.
        LIST_APPROVALS "agent/listApprovals": ListApprovalsParams => ListApprovalsResult;
        /// Lists the grants: permissions beyond one call.
        LIST_GRANTS "agent/listGrants": ListGrantsParams => ListGrantsResult;
        /// Revokes a grant.
        REVOKE_GRANT "agent/revokeGrant": RevokeGrantParams => EmptyResult;
        /// Lists or searches sessions, the most recently used first.
        LIST_SESSIONS "agent/listSessions": ListSessionsParams => ListSessionsResult;
        /// Opens a session: returns a page of its events and its open requests. Its notifications follow from then on.
        LOAD_SESSION "agent/loadSession": LoadSessionParams => LoadSessionResult;
        /// Changes the title of a session.
        RENAME_SESSION "agent/renameSession": RenameSessionParams => EmptyResult;
        /// Creates a new session from the events of another one, up to the end of a turn. Grants for that session alone are not copied.
        FORK_SESSION "agent/forkSession": ForkSessionParams => ForkSessionResult;
        /// Exports a whole session as one text.
        EXPORT_SESSION "agent/exportSession": ExportSessionParams => ExportSessionResult;
        /// Deletes a session permanently.
        DELETE_SESSION "agent/deleteSession": DeleteSessionParams => EmptyResult;
        /// Restores the files of a turn and of all later ones to their state before it, except files that the user changed since. Can also undo such a revert. Fails while a turn runs.
        REVERT "agent/revert": RevertParams => RevertResult;
        /// Sets how freely the agent may act.
        SET_MODE "agent/setMode": SetModeParams => EmptyResult;
        /// Sets the model and its reasoning effort. A name that cannot be a model is an error that suggests the nearest names.
        SET_MODEL "agent/setModel": SetModelParams => EmptyResult;
        /// Lists what a folder's own files would activate, and where they would send the user's keys. It only reads: it starts and changes nothing.
        DESCRIBE_TRUST "agent/describeTrust": DescribeTrustParams => DescribeTrustResult;
        /// Sets whether a workspace folder is trusted, and which of its redirects are accepted.
        SET_TRUST "agent/setTrust": SetTrustParams => EmptyResult;
        /// Lists the models to choose from, and the providers with their health.
        LIST_MODELS "agent/listModels": ListModelsParams => ListModelsResult;
        /// Lists the configured agents.
        LIST_AGENTS "agent/listAgents": ListAgentsParams => ListAgentsResult;
        /// Lists the slash commands: prompts from the user's and the workspace's files, and of the MCP servers that run.
        LIST_COMMANDS "agent/listCommands": ListCommandsParams => ListCommandsResult;
        /// Lists the tools.
        LIST_TOOLS "agent/listTools": ListToolsParams => ListToolsResult;
        /// Lists the MCP servers that the configuration names, also those that it cannot use, with their state. It starts none.
        LIST_MCP_SERVERS "agent/listMcpServers": ListMcpServersParams => ListMcpServersResult;
        /// Stops an MCP server and starts it again, also one that has failed. One that no session uses starts with the next turn.
        RESTART_MCP_SERVER "agent/restartMcpServer": RestartMcpServerParams => EmptyResult;
        /// Begins a login at an MCP server. The server then waits for the browser's redirect, and sends `agent/mcpServerUpdated` when the login ends: `ready`, or `needsLogin` with the reason. A login of the same server that already waits ends.
        LOGIN_MCP_SERVER "agent/loginMcpServer": LoginMcpServerParams => LoginMcpServerResult;
        /// Ends a login that waits. Has no effect if none does.
        CANCEL_MCP_LOGIN "agent/cancelMcpLogin": CancelMcpLoginParams => EmptyResult;
        /// Removes the tokens of the login at an MCP server, restarts the server if it runs, and revokes the tokens if the authorization server has a revocation endpoint.
        LOGOUT_MCP_SERVER "agent/logoutMcpServer": LogoutMcpServerParams => LogoutMcpServerResult;
        /// Reads the rest of a cut field.
        READ_CONTENT "agent/readContent": ReadContentParams => ReadContentResult;
        /// Returns the server's counters since its start.
        METRICS "agent/metrics": MetricsParams => MetricsResult;
        /// Closes a circuit breaker by hand, so that the provider or the tool is called again immediately.
        RESET_CIRCUIT "agent/resetCircuit": ResetCircuitParams => ResetCircuitResult;
        /// Reads the configuration files again.
        RELOAD_CONFIG "agent/reloadConfig": ReloadConfigParams => ReloadConfigResult;
    }
    client_notifications {
        /// Cancels the running turn. Has no effect if no turn is running, or another one than `turnId`.
        CANCEL "agent/cancel": CancelNotification;
    }
    server_requests {
        /// Requests to save documents after an edit of one without unsaved changes, so that commands see the edit. Only sent if the client announced `saveDocuments`. Counts as failed after 10 s without an answer.
        SAVE_DOCUMENTS "agent/saveDocuments": SaveDocumentsParams => SaveDocumentsResult;
        /// Requests the API key of a provider that has none in the configuration or the environment. Only sent if the client announced `getCredential`. After 10 s without an answer, there is no key. The key stays in memory. It is requested again after `agent/reloadConfig`, or if the provider refused it. A missing key is remembered until `agent/reloadConfig`.
        GET_CREDENTIAL "agent/getCredential": GetCredentialParams => GetCredentialResult;
        /// Requests the reports of the client's compilers and linters, for one document or for all. Only sent if the client announced `getDiagnostics`. The tool call fails after 10 s without an answer.
        GET_DIAGNOSTICS "agent/getDiagnostics": GetDiagnosticsParams => GetDiagnosticsResult;
        /// Asks the language servers of the editor. Only sent if the client announced `languageQueries`. Counts as failed after 5 s without an answer. Then, and when the turn is canceled, the server sends `$/cancelRequest`.
        LANGUAGE_QUERY "agent/languageQuery": LanguageQueryParams => LanguageQueryResult;
    }
    server_notifications {
        /// A turn started.
        TURN_STARTED Durable TurnStarted "agent/turnStarted": TurnStartedNotification;
        /// A turn ended. There is exactly one per turn, and nothing of the turn follows it.
        TURN_ENDED Durable TurnEnded "agent/turnEnded": TurnEndedNotification;
        /// Text of a message in progress.
        TEXT_DELTA Transient TextDelta "agent/textDelta": TextDeltaNotification;
        /// Reasoning of a message in progress.
        REASONING_DELTA Transient ReasoningDelta "agent/reasoningDelta": ReasoningDeltaNotification;
        /// A message of the history, complete or cut.
        MESSAGE Durable Message "agent/message": MessageNotification;
        /// The shown part of a failed attempt was discarded; remove it from the screen. The next attempt has a new `messageId`. Ignore unknown ids.
        MESSAGE_RETRACTED Durable MessageRetracted "agent/messageRetracted": MessageRetractedNotification;
        /// A tool call's input as the model writes it.
        TOOL_INPUT_DELTA Transient ToolInputDelta "agent/toolInputDelta": ToolInputDeltaNotification;
        /// Live output of a running tool.
        TOOL_OUTPUT_DELTA Transient ToolOutputDelta "agent/toolOutputDelta": ToolOutputDeltaNotification;
        /// A tool call changed.
        TOOL_CALL Durable ToolCall "agent/toolCall": ToolCallNotification;
        /// An effect needs the user's approval.
        APPROVAL_REQUESTED Durable ApprovalRequested "agent/approvalRequested": ApprovalRequestedNotification;
        /// An approval was settled.
        APPROVAL_RESOLVED Durable ApprovalResolved "agent/approvalResolved": ApprovalResolvedNotification;
        /// A limit was reached, or a money limit meets an unknown price; the user may raise it. Only sent if the client announced `questions`.
        LIMIT_REQUESTED Durable LimitRequested "agent/limitRequested": LimitRequestedNotification;
        /// A limit request was settled.
        LIMIT_RESOLVED Durable LimitResolved "agent/limitResolved": LimitResolvedNotification;
        /// A question of the agent. Only sent if the client announced `questions`.
        QUESTION_REQUESTED Durable QuestionRequested "agent/questionRequested": QuestionRequestedNotification;
        /// A question was settled.
        QUESTION_RESOLVED Durable QuestionResolved "agent/questionResolved": QuestionResolvedNotification;
        /// The whole plan.
        PLAN Durable Plan "agent/plan": PlanNotification;
        /// The file changes of a turn: at its end, and after a revert or a redo.
        TURN_DIFF Durable TurnDiff "agent/turnDiff": TurnDiffNotification;
        /// A decision of the loop.
        TRANSITION Durable Transition "agent/transition": TransitionNotification;
        /// A provider call failed and will be repeated.
        RETRY Durable Retry "agent/retry": RetryNotification;
        /// The turn waits for something that is not an error.
        WAIT Durable Wait "agent/wait": WaitNotification;
        /// The part of the history that the model receives became smaller; the stored history did not.
        COMPACTED Durable Compacted "agent/compacted": CompactedNotification;
        /// Another model answers from now on: the next one of the route took over, or the first one is used again.
        MODEL_SWITCHED Durable ModelSwitched "agent/modelSwitched": ModelSwitchedNotification;
        /// The turn met a circuit breaker that is open, on trial, or closed again.
        CIRCUIT Durable Circuit "agent/circuit": CircuitNotification;
        /// Tokens and cost after a step.
        USAGE Durable Usage "agent/usage": UsageNotification;
        /// A warning for the user. A warning about the whole server has no session and no number, and also appears in `agent/status`.
        WARNING Durable Warning "agent/warning": WarningNotification;
        /// The session's own data changed; only what changed is set.
        SESSION_UPDATED Durable SessionUpdated "agent/sessionUpdated": SessionUpdatedNotification;
        /// The instruction files (`SOUL.md`, `AGENTS.md`, `TOOLS.md`, skills) that the agent received: at the first turn of a session that has any, and whenever one of them has changed.
        INSTRUCTIONS Durable Instructions "agent/instructions": InstructionsNotification;
        /// The state of an MCP server changed. States in between may be left out.
        MCP_SERVER_UPDATED Transient McpServerUpdated "agent/mcpServerUpdated": McpServerUpdatedNotification;
        /// The state of the whole server, for a status bar.
        STATUS Transient Status "agent/status": StatusNotification;
    }
}

/// An example of params and result for each method, as a JSON object.
pub static EXAMPLES: &str = include_str!("examples.json");

/// Types without a method of ours: those of the handshake, and the `data` of errors.
pub static OTHER_TYPES: &[TypeRef] = &[
    type_ref::<ServerCapability>("ServerCapability"),
    type_ref::<ClientCapability>("ClientCapability"),
    type_ref::<InitializationOptions>("InitializationOptions"),
    type_ref::<ErrorData>("ErrorData"),
];

/// Returns all lines of the table.
pub fn iter_entries() -> impl Iterator<Item = &'static MethodEntry> {
    REQUESTS
        .iter()
        .chain(CLIENT_NOTIFICATIONS)
        .chain(SERVER_REQUESTS)
        .chain(SERVER_NOTIFICATIONS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn examples() -> serde_json::Map<String, Value> {
        serde_json::from_str(EXAMPLES).unwrap()
    }

    #[test]
    fn every_example_round_trips_unchanged() {
        let mut examples = examples();
        for entry in iter_entries() {
            let example = examples
                .remove(entry.method)
                .unwrap_or_else(|| panic!("examples.json lacks {}", entry.method));
            let types = [("params", Some(&entry.params)), ("result", entry.result.as_ref())];
            for (part, of_type) in types {
                let Some(of_type) = of_type else {
                    assert!(example.get(part).is_none(), "{}: {part}", entry.method);
                    continue;
                };
                let value = &example[part];
                let reencoded = (of_type.round_trip)(value)
                    .unwrap_or_else(|error| panic!("{} {part}: {error}", entry.method));
                assert_eq!(&reencoded, value, "{} {part}", entry.method);
            }
        }
        assert!(examples.is_empty(), "not in the table: {:?}", examples.keys());
    }

    #[test]
    fn names_follow_the_naming_rules() {
        let mut seen = BTreeSet::new();
        for entry in iter_entries() {
            assert!(seen.insert(entry.method), "{} is listed twice", entry.method);
            let name = entry.method.strip_prefix("agent/").unwrap();
            let pascal = name[..1].to_uppercase() + &name[1..];
            let suffix = if entry.result.is_some() {
                "Params"
            } else {
                "Notification"
            };
            assert_eq!(entry.params.name, pascal.clone() + suffix);
            if let Some(result) = &entry.result {
                let own = pascal + "Result";
                assert!(
                    [own.as_str(), "EmptyResult", "PromptResult"].contains(&result.name),
                    "{}: {}",
                    entry.method,
                    result.name
                );
            }
        }
    }

    #[test]
    fn only_durable_notifications_are_numbered() {
        let examples = examples();
        for entry in SERVER_NOTIFICATIONS {
            let params = &examples[entry.method]["params"];
            assert_eq!(
                params.get("seq").is_some(),
                entry.kind == MessageKind::Durable,
                "{}",
                entry.method
            );
        }
    }

    #[test]
    fn unknown_fields_and_methods_are_ignored() {
        let params = serde_json::json!({"sessionId": "s", "prompt": "hi", "later": 1});
        assert!(serde_json::from_value::<PromptParams>(params).is_ok());
        assert!(ServerNotification::parse("agent/later", Value::Null).is_none());
        let status = examples()["agent/status"]["params"].clone();
        let parsed = ServerNotification::parse(method::STATUS, status.clone())
            .unwrap()
            .unwrap();
        assert_eq!(parsed.method(), method::STATUS);
        assert_eq!(serde_json::to_value(parsed).unwrap(), status);
    }

    #[test]
    fn the_error_for_a_wrong_prompt_names_the_mistake() {
        for (prompt, expected) in [
            (
                serde_json::json!(7),
                "a string or a list of content blocks in `prompt`",
            ),
            (
                serde_json::json!([{"type": "txt"}]),
                "unknown variant `txt`, expected one of `text`",
            ),
            (serde_json::json!([{"type": "text"}]), "missing field `text`"),
        ] {
            let params = serde_json::json!({"sessionId": "s", "prompt": prompt});
            let error = serde_json::from_value::<PromptParams>(params)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
