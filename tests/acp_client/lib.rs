//! The schema of the Agent Client Protocol, from its official types. Every frame of a test is checked against it.

use std::collections::HashMap;

use agent_client_protocol_schema::v1 as acp;
use jsonschema::Validator;
use serde_json::Value;

/// Checks frames of both directions.
#[derive(Default)]
pub struct FrameChecker {
    /// By kind, for the kinds that have occurred.
    validators: HashMap<&'static str, Validator>,
    /// Methods of open requests, by id: ours to the agent.
    asked: HashMap<String, String>,
}

macro_rules! schema_of {
    ($($name:literal => $type:ty,)*) => {
        fn schema_of(name: &str) -> Option<Value> {
            let schema = match name {
                $($name => schemars::schema_for!($type),)*
                _ => return None,
            };
            Some(schema.into())
        }
        const NAMES: &[&str] = &[$($name),*];
    };
}

schema_of! {
    "> session/update" => acp::SessionNotification,
    "> session/request_permission" => acp::RequestPermissionRequest,
    "> fs/read_text_file" => acp::ReadTextFileRequest,
    "> fs/write_text_file" => acp::WriteTextFileRequest,
    "> elicitation/create" => acp::CreateElicitationRequest,
    "> $/cancel_request" => acp::CancelRequestNotification,
    "< initialize" => acp::InitializeResponse,
    "< session/new" => acp::NewSessionResponse,
    "< session/load" => acp::LoadSessionResponse,
    "< session/resume" => acp::ResumeSessionResponse,
    "< session/fork" => acp::ForkSessionResponse,
    "< session/list" => acp::ListSessionsResponse,
    "< session/close" => acp::CloseSessionResponse,
    "< session/delete" => acp::DeleteSessionResponse,
    "< session/prompt" => acp::PromptResponse,
    "< session/set_mode" => acp::SetSessionModeResponse,
    "< session/set_config_option" => acp::SetSessionConfigOptionResponse,
    "error" => acp::Error,
}

impl FrameChecker {
    /// Notes a line to the agent.
    pub fn note_sent(&mut self, line: &str) {
        let message: Value = serde_json::from_str(line).expect("the client sends JSON");
        if let (Some(method), id) = (message["method"].as_str(), &message["id"])
            && !id.is_null()
        {
            self.asked.insert(id.to_string(), method.to_owned());
        }
    }

    /// Returns the kinds of frames that were never checked.
    pub fn list_unchecked(&self) -> Vec<&'static str> {
        let mut kinds = NAMES.to_vec();
        kinds.retain(|name| !self.validators.contains_key(name));
        kinds
    }

    /// Another connection begins.
    pub fn forget_requests(&mut self) {
        self.asked.clear();
    }

    /// Checks a line of the agent; panics if it breaks the schema.
    pub fn check_received(&mut self, line: &str) {
        let message: Value = serde_json::from_str(line).expect("a line is JSON");
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        let (name, value) = match message["method"].as_str() {
            Some(method) => (format!("> {method}"), &message["params"]),
            None if message.get("error").is_some() => ("error".to_owned(), &message["error"]),
            None => {
                let method = self.asked.remove(&message["id"].to_string());
                (
                    format!("< {}", method.expect("an answer to a request")),
                    &message["result"],
                )
            }
        };
        let name = NAMES.iter().find(|known| **known == name);
        let name = *name.unwrap_or_else(|| panic!("a frame that the protocol does not know: {line}"));
        let validator = self.validators.entry(name).or_insert_with(|| {
            let schema = schema_of(name).expect("a schema");
            jsonschema::validator_for(&schema).expect("a valid schema")
        });
        let problems: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert!(problems.is_empty(), "{name}: {problems:?}\n{line}");
    }
}
