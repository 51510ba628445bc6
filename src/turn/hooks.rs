//! Hooks (R-CONF): what they are told at each moment of a turn, and what their answers do to it.
//!
//! A hook's own failure is one warning, and the turn goes on. What an answer means is `hook_answer`'s to say, how a
//! command runs is `hook_command`'s.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::hook_output::{HookDecision, parse_hook_decision};
use super::session_link::Stopped;
use super::{TurnContext, redact};
use crate::base::{clock, text};
use crate::config::{HookMoment, HookSettings};
use crate::domain::Event;

/// The code of the warning that a hook failed.
const FAILED: &str = "hook_failed";
/// People who wait longer than this for a hook are told so.
const SLOW: Duration = Duration::from_secs(2);

/// What running a hook came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookExit {
    /// It ran to its end.
    Exited {
        /// Its exit code.
        code: i32,
        /// Standard output.
        stdout: String,
        /// Standard error.
        stderr: String,
    },
    /// It was not found, took too long, or was killed.
    Failed(String),
}

/// Runs hooks. Obeys the turn's cancel, and leaves nothing running.
pub trait HookRunner: Send + Sync {
    /// Runs one; `input` is the JSON that it reads.
    fn run_hook<'a>(
        &'a self,
        cx: &'a TurnContext,
        hook: &'a HookSettings,
        input: Vec<u8>,
    ) -> BoxFuture<'a, Result<HookExit, Stopped>>;
}

/// The hooks of a session's turns.
#[derive(Clone)]
pub struct Hooks {
    hooks: Arc<[HookSettings]>,
    runner: Arc<dyn HookRunner>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hooks").field(&self.hooks).finish()
    }
}

impl Hooks {
    /// These hooks, in their order, run by `runner`.
    pub fn new(hooks: &[HookSettings], runner: Arc<dyn HookRunner>) -> Self {
        Self {
            hooks: hooks.into(),
            runner,
        }
    }

    /// Those that a sub-agent's turn has: around tools. What it is told no person says, and its end is not the turn's.
    pub fn of_subagent(&self) -> Self {
        let around_tools = |hook: &&HookSettings| match hook.on {
            HookMoment::PreTool | HookMoment::PostTool => true,
            HookMoment::Prompt | HookMoment::Stop => false,
        };
        Self {
            hooks: self.hooks.iter().filter(around_tools).cloned().collect(),
            runner: self.runner.clone(),
        }
    }

    /// Whether any hook runs at that moment.
    pub fn has_hooks_for(&self, moment: HookMoment) -> bool {
        self.hooks.iter().any(|hook| hook.on == moment)
    }
}

/// What all hooks of a moment said together.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HookVerdict {
    /// None objected; what the input was changed to, and by which hooks.
    Pass { changed: Option<Value>, by: Vec<String> },
    /// One objected; its name and its words.
    Block(Objection),
    /// One ended the turn.
    End(Objection),
}

/// A hook's name and words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Objection {
    pub(super) hook: String,
    pub(super) words: String,
}

impl Objection {
    /// For people.
    pub(super) fn to_detail(&self) -> String {
        text::one_line(&format!("hook `{}`: {}", self.hook, self.words), 500)
    }
}

/// Runs the hooks of a moment one after the other, until one objects. `about`: what they are told beside the usual;
/// `input` names the field of it that they may change.
pub(super) async fn run_hooks(
    cx: &TurnContext,
    moment: HookMoment,
    tool: Option<&str>,
    mut about: Map<String, Value>,
    input: &str,
) -> Result<HookVerdict, Stopped> {
    let (mut changed, mut by) = (None, Vec::new());
    let due = |hook: &&HookSettings| hook.on == moment && tool.is_none_or(|tool| hook.matches_tool(tool));
    for hook in cx.hooks.hooks.iter().filter(due) {
        let ran = redact_hook_exit(cx, run_one(cx, hook, build_hook_input(cx, hook, &about)).await?);
        let objection = |words: String| Objection {
            hook: hook.name.clone(),
            words: redact::text(&cx.redactor, words),
        };
        match parse_hook_decision(moment, &ran) {
            Ok(HookDecision::Pass(None)) => {}
            Ok(HookDecision::Pass(Some(to))) => {
                about.insert(input.to_owned(), to.clone());
                changed = Some(to);
                by.push(hook.name.clone());
            }
            Ok(HookDecision::Block(words)) => return Ok(HookVerdict::Block(objection(words))),
            Ok(HookDecision::End(words)) => return Ok(HookVerdict::End(objection(words))),
            Err(why) => report_hook_failure(cx, hook, &why).await?,
        }
    }
    Ok(HookVerdict::Pass { changed, by })
}

/// What a hook reads.
fn build_hook_input(cx: &TurnContext, hook: &HookSettings, about: &Map<String, Value>) -> Vec<u8> {
    let mut told = Map::new();
    for (key, value) in [
        ("event", json!(hook.on.name())),
        ("hook", json!(hook.name)),
        ("sessionId", json!(cx.session.as_str())),
        ("turnId", json!(cx.turn.as_str())),
        ("cwd", json!(cx.cwd.display().to_string())),
    ] {
        told.insert(key.to_owned(), value);
    }
    told.extend(about.clone());
    Value::Object(told).to_string().into_bytes()
}

/// Without keys in what it says: before that is cut, which could leave a part of one.
fn redact_hook_exit(cx: &TurnContext, ran: HookExit) -> HookExit {
    match ran {
        HookExit::Exited { code, stdout, stderr } => HookExit::Exited {
            code,
            stdout,
            stderr: redact::text(&cx.redactor, stderr),
        },
        failed @ HookExit::Failed(_) => failed,
    }
}

/// Runs one in plain sight: a slow one shows.
async fn run_one(cx: &TurnContext, hook: &HookSettings, input: Vec<u8>) -> Result<HookExit, Stopped> {
    let until = clock::wall_ms().saturating_add_unsigned(hook.timeout.as_millis() as u64);
    let mut run = cx.hooks.runner.run_hook(cx, hook, input);
    let telling = async {
        tokio::time::sleep(SLOW).await;
        let why = format!("waiting for the hook `{}` ({})", hook.name, hook.on);
        // A turn that is stopped shows in the run.
        let _ = cx
            .port
            .emit_event(Event::Wait {
                why,
                until: Some(until),
            })
            .await;
    };
    let mut telling = std::pin::pin!(telling.fuse());
    loop {
        tokio::select! { biased;
            ran = &mut run => return ran,
            () = &mut telling => {}
        }
    }
}

/// Its own failure is non-fatal.
async fn report_hook_failure(cx: &TurnContext, hook: &HookSettings, why: &str) -> Result<(), Stopped> {
    let why = redact::text(&cx.redactor, text::strip_control_characters(why).into_owned());
    tracing::warn!(
        hook = hook.name,
        moment = hook.on.name(),
        error = why,
        "a hook failed"
    );
    let message = format!(
        "the hook `{}` ({}) failed and was skipped: {why}",
        hook.name, hook.on
    );
    cx.port
        .emit_event(Event::Warning {
            code: FAILED.to_owned(),
            message,
        })
        .await
}
