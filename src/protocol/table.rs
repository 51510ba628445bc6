//! The one table of all methods and notifications.
//!
//! What the server announces, the generated references and the tests all follow from it. The `///`
//! line of an entry is its description in the reference; its example stands in `examples.json`.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::*;

/// Who sends it, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// Client to server, answered.
    Request,
    /// Client to server, not answered.
    ClientNotification,
    /// Server to client, answered; only where the client announced it.
    ServerRequest,
    /// Server to client: numbered, stored, and told again by `agent/loadSession`.
    Durable,
    /// Server to client: never the only carrier of a fact.
    Transient,
}

/// One line of the table.
#[derive(Debug)]
pub struct Entry {
    /// The name of its constant in [`method`].
    pub constant: &'static str,
    /// Its name on the wire.
    pub method: &'static str,
    /// Who sends it.
    pub kind: MessageKind,
    /// What it is for.
    pub doc: &'static str,
    /// The type of its params.
    pub params: TypeRef,
    /// The type of its result; only of requests.
    pub result: Option<TypeRef>,
}

/// A wire type, for the generator and the tests.
#[derive(Debug)]
pub struct TypeRef {
    /// Its name.
    pub name: &'static str,
    /// Adds its schema, and those of all that it uses, to the generator's definitions.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Reads a value as this type and writes it again.
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
        /// Names on the wire.
        #[expect(missing_docs, reason = "the table above documents them")]
        pub mod method {
            $(pub const $rconst: &str = $rname;)*
            $(pub const $cconst: &str = $cname;)*
            $(pub const $qconst: &str = $qname;)*
            $(pub const $sconst: &str = $sname;)*
        }

        /// Requests, client to server.
        pub static REQUESTS: &[Entry] = &[$(Entry {
            constant: stringify!($rconst),
            method: $rname,
            kind: MessageKind::Request,
            doc: $rdoc,
            params: type_ref::<$rparams>(stringify!($rparams)),
            result: Some(type_ref::<$rresult>(stringify!($rresult))),
        },)*];

        /// Notifications, client to server.
        pub static CLIENT_NOTIFICATIONS: &[Entry] = &[$(Entry {
            constant: stringify!($cconst),
            method: $cname,
            kind: MessageKind::ClientNotification,
            doc: $cdoc,
            params: type_ref::<$cparams>(stringify!($cparams)),
            result: None,
        },)*];

        /// Requests, server to client.
        pub static SERVER_REQUESTS: &[Entry] = &[$(Entry {
            constant: stringify!($qconst),
            method: $qname,
            kind: MessageKind::ServerRequest,
            doc: $qdoc,
            params: type_ref::<$qparams>(stringify!($qparams)),
            result: Some(type_ref::<$qresult>(stringify!($qresult))),
        },)*];

        /// Notifications, server to client.
        pub static SERVER_NOTIFICATIONS: &[Entry] = &[$(Entry {
            constant: stringify!($sconst),
            method: $sname,
            kind: MessageKind::$skind,
            doc: $sdoc,
            params: type_ref::<$sparams>(stringify!($sparams)),
            result: None,
        },)*];

        /// Any notification of the server. Serialises as its params.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum ServerNotification {
            $(#[doc = $sdoc] $svariant($sparams),)*
        }

        impl ServerNotification {
            /// Its name on the wire.
            pub fn method(&self) -> &'static str {
                match self { $(Self::$svariant(_) => $sname,)* }
            }

            /// Reads a notification; none when the method is not one of ours, which clients ignore.
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
        /// Starts a session. Waits for no network.
        NEW_SESSION "agent/newSession": NewSessionParams => NewSessionResult;
        /// Starts a turn. Answered when the turn has ended.
        PROMPT "agent/prompt": PromptParams => PromptResult;
        /// Talks to the running turn: joins the history before the next model call, and keeps the turn going.
        STEER "agent/steer": SteerParams => SteerResult;
        /// Prompts that wait for the turn's end: told, added, edited, taken out, sent now. At most 100 wait; they outlive the server.
        QUEUE "agent/queue": QueueParams => QueueResult;
        /// Starts a new turn that goes on where an interrupted or cancelled one stopped. Open approvals, limits and questions are asked again under their ids. Answered like `agent/prompt`.
        RESUME_TURN "agent/resumeTurn": ResumeTurnParams => PromptResult;
        /// Starts a turn that does nothing but make smaller what the model is sent: a summary takes the place of old messages. Answered like `agent/prompt`.
        COMPACT "agent/compact": CompactParams => PromptResult;
        /// Decides an approval. The first answer wins; an unknown or settled id is an error.
        APPROVAL_RESPOND "agent/approvalRespond": ApprovalRespondParams => EmptyResult;
        /// Says what becomes of a limit. The first answer wins; an unknown or settled id is an error.
        LIMIT_RESPOND "agent/limitRespond": LimitRespondParams => EmptyResult;
        /// Answers a question of the agent. The first answer wins; an unknown or settled id is an error.
        QUESTION_RESPOND "agent/questionRespond": QuestionRespondParams => EmptyResult;
        /// Lists what waits for a person: approvals, limits, questions.
        LIST_APPROVALS "agent/listApprovals": ListApprovalsParams => ListApprovalsResult;
        /// Lists what was allowed beyond one call.
        LIST_GRANTS "agent/listGrants": ListGrantsParams => ListGrantsResult;
        /// Takes back what was allowed.
        REVOKE_GRANT "agent/revokeGrant": RevokeGrantParams => EmptyResult;
        /// Lists or searches sessions, those used last first.
        LIST_SESSIONS "agent/listSessions": ListSessionsParams => ListSessionsResult;
        /// Opens a session: a page of its events, and what is open in it. Its notifications follow from then on.
        LOAD_SESSION "agent/loadSession": LoadSessionParams => LoadSessionResult;
        /// Gives a session another title.
        RENAME_SESSION "agent/renameSession": RenameSessionParams => EmptyResult;
        /// Makes a new session of what a session has up to the end of a turn. What was allowed for the session alone is not taken along.
        FORK_SESSION "agent/forkSession": ForkSessionParams => ForkSessionResult;
        /// Tells all of a session as one text.
        EXPORT_SESSION "agent/exportSession": ExportSessionParams => ExportSessionResult;
        /// Deletes a session for good.
        DELETE_SESSION "agent/deleteSession": DeleteSessionParams => EmptyResult;
        /// Puts the files of a turn and of all later ones back as they were before it, but none that people changed since; or takes such a revert back. An error while a turn runs.
        REVERT "agent/revert": RevertParams => RevertResult;
        /// Sets how freely the agent may act.
        SET_MODE "agent/setMode": SetModeParams => EmptyResult;
        /// Sets the model and how hard it thinks. A name that cannot be a model is an error that names the nearest ones.
        SET_MODEL "agent/setModel": SetModelParams => EmptyResult;
        /// Lists what a folder's own files would activate, and where they would send keys of the person's. Reads only: it starts and changes nothing.
        DESCRIBE_TRUST "agent/describeTrust": DescribeTrustParams => DescribeTrustResult;
        /// Says whether a workspace folder is trusted, and which redirects of its are accepted.
        SET_TRUST "agent/setTrust": SetTrustParams => EmptyResult;
        /// Lists the models that can be chosen, and the providers with their health.
        LIST_MODELS "agent/listModels": ListModelsParams => ListModelsResult;
        /// Lists the named agents of the configuration.
        LIST_AGENTS "agent/listAgents": ListAgentsParams => ListAgentsResult;
        /// Lists the slash commands: prompts from the person's and the workspace's files.
        LIST_COMMANDS "agent/listCommands": ListCommandsParams => ListCommandsResult;
        /// Lists the tools.
        LIST_TOOLS "agent/listTools": ListToolsParams => ListToolsResult;
        /// Reads on where a field was cut.
        READ_CONTENT "agent/readContent": ReadContentParams => ReadContentResult;
        /// Tells what the server has counted since it started.
        METRICS "agent/metrics": MetricsParams => MetricsResult;
        /// Closes a circuit by hand: the provider or the tool is called again at once.
        RESET_CIRCUIT "agent/resetCircuit": ResetCircuitParams => ResetCircuitResult;
        /// Reads the configuration files again.
        RELOAD_CONFIG "agent/reloadConfig": ReloadConfigParams => ReloadConfigResult;
    }
    client_notifications {
        /// Cancels the running turn. Without one, or with another `turnId`, it does nothing.
        CANCEL "agent/cancel": CancelNotification;
    }
    server_requests {
        /// Asks for documents to be saved, after an edit of one that had no unsaved change, so that commands see it. Only where the client announced `saveDocuments`. Unanswered after 10 s it counts as failed.
        SAVE_DOCUMENTS "agent/saveDocuments": SaveDocumentsParams => SaveDocumentsResult;
        /// Asks for the API key of a provider that has none in the configuration and the environment. Only where the client announced `getCredential`. Unanswered after 10 s there is none. The key is kept in memory alone and is asked for again after `agent/reloadConfig`, or when the provider refused it; that there is none is remembered until `agent/reloadConfig`.
        GET_CREDENTIAL "agent/getCredential": GetCredentialParams => GetCredentialResult;
        /// Asks what the client's compilers and linters say, of one document or of all. Only where the client announced `getDiagnostics`. Unanswered after 10 s the call of the tool has failed.
        GET_DIAGNOSTICS "agent/getDiagnostics": GetDiagnosticsParams => GetDiagnosticsResult;
    }
    server_notifications {
        /// A turn began.
        TURN_STARTED Durable TurnStarted "agent/turnStarted": TurnStartedNotification;
        /// A turn ended: exactly one per turn, and the last of its turn.
        TURN_ENDED Durable TurnEnded "agent/turnEnded": TurnEndedNotification;
        /// Text of a message in progress.
        TEXT_DELTA Transient TextDelta "agent/textDelta": TextDeltaNotification;
        /// Reasoning of a message in progress.
        REASONING_DELTA Transient ReasoningDelta "agent/reasoningDelta": ReasoningDeltaNotification;
        /// A message of the history, completed or cut.
        MESSAGE Durable Message "agent/message": MessageNotification;
        /// What was shown of a broken attempt is void: clients take it off the screen. The next attempt has a new `messageId`. Unknown ids are ignored.
        MESSAGE_RETRACTED Durable MessageRetracted "agent/messageRetracted": MessageRetractedNotification;
        /// A tool call's input as the model writes it.
        TOOL_INPUT_DELTA Transient ToolInputDelta "agent/toolInputDelta": ToolInputDeltaNotification;
        /// Live output of a running tool.
        TOOL_OUTPUT_DELTA Transient ToolOutputDelta "agent/toolOutputDelta": ToolOutputDeltaNotification;
        /// A tool call changed.
        TOOL_CALL Durable ToolCall "agent/toolCall": ToolCallNotification;
        /// A person is asked about an effect.
        APPROVAL_REQUESTED Durable ApprovalRequested "agent/approvalRequested": ApprovalRequestedNotification;
        /// The question is settled.
        APPROVAL_RESOLVED Durable ApprovalResolved "agent/approvalResolved": ApprovalResolvedNotification;
        /// A limit was reached, or a limit in money meets an unknown price: it may be raised. Only where the client announced `questions`.
        LIMIT_REQUESTED Durable LimitRequested "agent/limitRequested": LimitRequestedNotification;
        /// What became of it.
        LIMIT_RESOLVED Durable LimitResolved "agent/limitResolved": LimitResolvedNotification;
        /// A question of the agent. Only where the client announced `questions`.
        QUESTION_REQUESTED Durable QuestionRequested "agent/questionRequested": QuestionRequestedNotification;
        /// The question is settled.
        QUESTION_RESOLVED Durable QuestionResolved "agent/questionResolved": QuestionResolvedNotification;
        /// The plan, whole.
        PLAN Durable Plan "agent/plan": PlanNotification;
        /// What a turn has changed, file by file: at its end, and when that was taken back or made again.
        TURN_DIFF Durable TurnDiff "agent/turnDiff": TurnDiffNotification;
        /// A decision of the loop.
        TRANSITION Durable Transition "agent/transition": TransitionNotification;
        /// A provider call failed and will be made again.
        RETRY Durable Retry "agent/retry": RetryNotification;
        /// The turn waits for something that is not an error.
        WAIT Durable Wait "agent/wait": WaitNotification;
        /// What the model is sent became smaller; what is kept did not.
        COMPACTED Durable Compacted "agent/compacted": CompactedNotification;
        /// Another model answers from now on: the next of the route took over, or the first is asked again.
        MODEL_SWITCHED Durable ModelSwitched "agent/modelSwitched": ModelSwitchedNotification;
        /// The turn met a circuit that is open, on trial, or closed again.
        CIRCUIT Durable Circuit "agent/circuit": CircuitNotification;
        /// Tokens and cost after a step.
        USAGE Durable Usage "agent/usage": UsageNotification;
        /// Something that a person should know. One that concerns the server as a whole has no session, is not numbered, and stands in `agent/status` too.
        WARNING Durable Warning "agent/warning": WarningNotification;
        /// The session's own data changed; only what changed is set.
        SESSION_UPDATED Durable SessionUpdated "agent/sessionUpdated": SessionUpdatedNotification;
        /// Which files of instructions (`SOUL.md`, `AGENTS.md`, `TOOLS.md`, skills) the agent was given: at a session's first turn that has any, and whenever one of them has changed.
        INSTRUCTIONS Durable Instructions "agent/instructions": InstructionsNotification;
        /// The server as a whole, for a status bar.
        STATUS Transient Status "agent/status": StatusNotification;
    }
}

/// For each method an example of its params and result, as a JSON object.
pub static EXAMPLES: &str = include_str!("examples.json");

/// Types that belong to no method of ours: the handshake's, and the `data` of errors.
pub static OTHER_TYPES: &[TypeRef] = &[
    type_ref::<ServerCapability>("ServerCapability"),
    type_ref::<ClientCapability>("ClientCapability"),
    type_ref::<InitializationOptions>("InitializationOptions"),
    type_ref::<ErrorData>("ErrorData"),
];

/// All lines of the table.
pub fn iter_entries() -> impl Iterator<Item = &'static Entry> {
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
    fn every_example_is_read_and_written_again_unchanged() {
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
                let again = (of_type.round_trip)(value)
                    .unwrap_or_else(|error| panic!("{} {part}: {error}", entry.method));
                assert_eq!(&again, value, "{} {part}", entry.method);
            }
        }
        assert!(examples.is_empty(), "not in the table: {:?}", examples.keys());
    }

    #[test]
    fn names_follow_the_law() {
        let mut seen = BTreeSet::new();
        for entry in iter_entries() {
            assert!(seen.insert(entry.method), "{} stands twice", entry.method);
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
    fn durable_ones_are_numbered_and_transient_ones_are_not() {
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
    fn unknown_fields_are_ignored_and_unknown_methods_too() {
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
    fn a_wrong_prompt_is_explained() {
        for (prompt, says) in [
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
            assert!(error.contains(says), "{error}");
        }
    }
}
