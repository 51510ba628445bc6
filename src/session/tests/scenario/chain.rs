//! A route of three providers, and the lines that show how a turn follows it.

use super::{Client, Config, Scenario};
use crate::domain::{CircuitState, Event, SessionId};
use crate::session::tests::mock_llm::Reply;

/// A model, and what builds its answer.
type ModelAnswer = (&'static str, fn() -> Reply);

impl Scenario {
    /// Creates a scenario with three preset providers, each falling back to the next. Each gets extra `lines`.
    pub(in crate::session::tests) fn chain(lines: [&str; 3]) -> Self {
        let scenario = Self::new();
        let text = scenario.build_chain(lines);
        scenario.configure(Config::from_text(text));
        scenario
    }

    fn build_chain(&self, [first, second, third]: [&str; 3]) -> String {
        format!(
            r#"
[provider.anthropic]
base_url = "{anthropic}"
api_key = "key-of-one"
model = "model-one"
fallback = "openrouter"
{first_backoff}
{first}

[provider.openrouter]
base_url = "{openai}"
api_key = "key-of-two"
model = "model-two"
fallback = ["eachlabs"]
{second_backoff}
{second}

[provider.eachlabs]
base_url = "{openai}"
api_key = "key-of-three"
model = "model-three"
{third_backoff}
{third}

[agent.default]
provider = "anthropic"
"#,
            anthropic = self.mock().anthropic_url(),
            openai = self.mock().openai_url(),
            first_backoff = short_backoff(first),
            second_backoff = short_backoff(second),
            third_backoff = short_backoff(third),
        )
    }

    /// Scripts answers of one model.
    pub(in crate::session::tests) fn push_for_model(
        &self,
        model: &str,
        replies: impl IntoIterator<Item = Reply>,
    ) {
        for reply in replies {
            self.mock().push_for(&format!("\"{model}\""), reply);
        }
    }

    /// Makes these models always answer in the same way.
    pub(in crate::session::tests) fn always_answer(&self, answers: &'static [ModelAnswer]) {
        self.mock().respond_with(move |request| {
            let model = request.body["model"].as_str().unwrap_or_default();
            let found = answers.iter().find(|(name, _)| *name == model);
            found.map(|(_, reply)| reply())
        });
    }

    /// Returns the models of all requests, in order.
    pub(in crate::session::tests) fn requested_models(&self) -> Vec<String> {
        let requests = self.mock().requests().into_iter();
        let models = requests.map(|request| request.body["model"].as_str().unwrap().to_owned());
        models.collect()
    }
}

/// Returns the settings of short waits between one retry, unless `lines` set the number of retries.
fn short_backoff(lines: &str) -> &'static str {
    if lines.contains("max_retries") {
        "initial_backoff_ms = 20\nmax_backoff_ms = 50"
    } else {
        "initial_backoff_ms = 20\nmax_backoff_ms = 50\nmax_retries = 1"
    }
}

pub(in crate::session::tests) fn unavailable() -> Reply {
    Reply::error(503, "api_error", "down")
}

pub(in crate::session::tests) fn overloaded() -> Reply {
    Reply::error(529, "overloaded_error", "Overloaded")
}

impl Client {
    /// Returns a session's transitions, retries, switches, circuits, waits, warnings, retractions and turn ends, one
    /// line each.
    pub(in crate::session::tests) fn event_summary(&self, session: &SessionId) -> String {
        self.all(session, summarize).join("\n")
    }

    /// Waits for the next open circuit of a session. Returns when it allows a trial.
    pub(in crate::session::tests) fn next_open_circuit(&self, session: &SessionId) -> i64 {
        self.next(session, |event| match event {
            Event::Circuit {
                state: CircuitState::Open,
                until,
                ..
            } => *until,
            _ => None,
        })
    }

    /// Returns the switches of a session's model: from, to, and why.
    pub(in crate::session::tests) fn model_switches(
        &self,
        session: &SessionId,
    ) -> Vec<(String, String, String)> {
        self.all(session, |event| match event {
            Event::ModelSwitched { from, to, why } => Some((from.clone(), to.clone(), why.clone())),
            _ => None,
        })
    }
}

fn summarize(event: &Event) -> Option<String> {
    Some(match event {
        Event::Transition { transition, .. } => transition.reason_name().to_owned(),
        Event::Retry {
            attempt,
            max_retries,
            next,
            ..
        } => format!("  retry {attempt} of {max_retries}; {next}"),
        Event::ModelSwitched { from, to, why } => format!("  {from} -> {to}: {why}"),
        Event::Circuit { name, state, .. } => format!("  circuit of {name} {}", state.name()),
        Event::Wait { .. } => "  wait".to_owned(),
        Event::Warning { message, .. } => format!("  warning {message}"),
        Event::MessageRetracted { .. } => "  retracted".to_owned(),
        Event::TurnEnded(end) => {
            let code = end.error.as_ref().map_or("no error", |error| error.code.name());
            format!("{} / {code}", end.state.name())
        }
        _ => return None,
    })
}
