//! Leaves out of requests what a provider has refused: optional parts, earlier reasoning, and tools.
//!
//! This is no retry: the next request is a different one, and no answer is lost. `calibration` remembers refusals for the
//! session.

use std::borrow::Cow;
use std::sync::Arc;

use super::context::TurnContext;
use super::emit::emit_late_warning;
use super::model_choice::ResolvedModel;
use super::session_link::TurnStopped;
use crate::provider::{
    Disposition, Effort, ModelRequest, ProviderError, ProviderFault, RequestPart, ToolPointer,
};

/// The code of the warning that a provider rejected a part of our requests.
const PART_LEFT_OUT: &str = "part_left_out";

/// The code of the warning that a part is sent again, because the provider meant something else.
const PART_RESTORED: &str = "part_restored";

/// What to tell the user about a refusal.
struct RefusalWarning {
    /// What the provider refuses.
    what: String,
    /// What is done without it.
    remedy: &'static str,
    /// What follows from that.
    effect: &'static str,
}

impl RefusalWarning {
    fn of_tools(what: String, remedy: &'static str) -> Self {
        Self {
            what,
            remedy,
            effect: "",
        }
    }
}

/// What one call has left out of its request.
pub(super) struct RefusedParts {
    /// The effort with which the request began.
    effort: Option<Effort>,
    /// The parts that have left the request since its failures have this message.
    parts: Vec<RequestPart>,
    /// The tools that have left it since then.
    tools: Vec<String>,
    /// What the user was told about these parts and tools.
    announced: Vec<String>,
    /// The message without what differs from one response to the next.
    message: String,
}

impl RefusedParts {
    pub(super) fn new(effort: Option<Effort>) -> Self {
        Self {
            effort,
            parts: Vec::new(),
            tools: Vec::new(),
            announced: Vec::new(),
            message: String::new(),
        }
    }

    /// Leaves out of `request` what `error` refuses. Returns whether the request is another one then.
    pub(super) async fn leave_out(
        &mut self,
        cx: &TurnContext,
        model: &ResolvedModel,
        request: &mut Arc<ModelRequest>,
        error: &mut ProviderError,
    ) -> Result<bool, TurnStopped> {
        let calibration = &cx.services.statistics.calibration;
        let message = mask_ids(&error.message);
        if message != self.message {
            // What fails for a while says nothing about the parts: the same request follows.
            let is_refusal = matches!(
                error.fault,
                ProviderFault::PartRefused(_) | ProviderFault::ToolsRefused(_)
            );
            if !is_refusal
                && matches!(
                    error.disposition(),
                    Disposition::Retry | Disposition::RetryTimeout
                )
            {
                return Ok(false);
            }
            self.message = message;
            self.parts.clear();
            self.tools.clear();
            self.announced.clear();
        }
        let warnings = match &error.fault {
            ProviderFault::PartRefused(part) => self.record_refusal(cx, model, request, part),
            ProviderFault::ToolsRefused(pointers) if pointers.contains(&ToolPointer::Unnamed) => {
                self.record_unnamed_tools(cx, model, request)
            }
            ProviderFault::ToolsRefused(pointers) => {
                let tools = find_refused_tools(cx, request, pointers);
                self.record_refused_tools(cx, model, tools, error)
            }
            _ => None,
        };
        let Some(warnings) = warnings else {
            self.restore(cx, model).await?;
            return Ok(false);
        };
        tracing::warn!(model = %model.label(), fault = ?error.fault, "a part of the request was rejected");
        calibration.adapt_request(model, self.effort, Arc::make_mut(request));
        for RefusalWarning { what, remedy, effect } in warnings {
            let message = format!(
                "{} rejected {what} ({}); {remedy} in this session{effect}",
                model.label(),
                error.message
            );
            emit_late_warning(cx, PART_LEFT_OUT, message).await?;
        }
        Ok(true)
    }

    /// Takes the parts back into later requests. They were not what the provider meant: its message stays the same
    /// without them.
    async fn restore(&mut self, cx: &TurnContext, model: &ResolvedModel) -> Result<(), TurnStopped> {
        let calibration = &cx.services.statistics.calibration;
        for part in self.parts.drain(..) {
            calibration.forget_refusal(model, &part, self.effort);
        }
        calibration.forget_refused_tools(model, self.tools.drain(..));
        for what in self.announced.drain(..) {
            let message = format!(
                "{} fails in the same way without {what}; later requests have it again",
                model.label()
            );
            emit_late_warning(cx, PART_RESTORED, message).await?;
        }
        Ok(())
    }

    /// Records that the model refuses a part. Returns what to warn of; `None` if the request did not have the part.
    fn record_refusal(
        &mut self,
        cx: &TurnContext,
        model: &ResolvedModel,
        request: &ModelRequest,
        part: &RequestPart,
    ) -> Option<Vec<RefusalWarning>> {
        let calibration = &cx.services.statistics.calibration;
        let is_new = calibration.record_refusal(model, part, self.effort, &request.messages);
        // Another request may have learned it meanwhile.
        if !is_new && (*part == RequestPart::Reasoning || request.omitted.contains(part)) {
            return None;
        }
        self.parts.push(part.clone());
        let warning = part.warning().filter(|_| is_new);
        self.announced
            .extend(warning.as_ref().map(|(what, _)| what.clone().into_owned()));
        let to_warning = |(what, effect): (Cow<'_, str>, _)| RefusalWarning {
            what: what.into_owned(),
            remedy: part.remedy(),
            effect,
        };
        Some(warning.map(to_warning).into_iter().collect())
    }

    /// Records that the model refuses a tool without naming it, which agentls's own tools never cause. Returns what to warn
    /// of; `None` if the request has no others.
    fn record_unnamed_tools(
        &mut self,
        cx: &TurnContext,
        model: &ResolvedModel,
        request: &ModelRequest,
    ) -> Option<Vec<RefusalWarning>> {
        let is_foreign = |name: &String| cx.tools.get(name).is_some_and(|tool| tool.owner().is_some());
        let names = request.tools.iter().map(|tool| tool.name.clone());
        let tools: Vec<String> = names.filter(is_foreign).collect();
        if tools.is_empty() {
            return None;
        }
        let calibration = &cx.services.statistics.calibration;
        calibration.record_refused_tools(model, tools.iter().cloned());
        self.tools = tools;
        let what = "a tool without naming it".to_owned();
        let remedy = "leaving out the tools of MCP servers";
        self.announced.push("the tools of MCP servers".to_owned());
        Some(vec![RefusalWarning::of_tools(what, remedy)])
    }

    /// Records that the model refuses tools. Returns what to warn of; `None` if all are agentls's own, which stay.
    fn record_refused_tools(
        &mut self,
        cx: &TurnContext,
        model: &ResolvedModel,
        tools: Vec<(String, Option<String>)>,
        error: &mut ProviderError,
    ) -> Option<Vec<RefusalWarning>> {
        let foreign: Vec<_> = tools
            .iter()
            .filter_map(|(name, owner)| Some((name, owner.as_ref()?)))
            .collect();
        if foreign.is_empty() {
            if let Some((own, _)) = tools.first() {
                error.user_action = Some(format!(
                    "choose a model other than {}, or take agentls's own tool `{own}` from the agent with deny_tools",
                    model.model
                ));
            }
            return None;
        }
        let names = foreign.iter().map(|(name, _)| (*name).clone());
        self.tools.extend(names.clone());
        cx.services
            .statistics
            .calibration
            .record_refused_tools(model, names);
        let named: Vec<String> = foreign
            .iter()
            .map(|(name, owner)| format!("the tool {name} of {owner}"))
            .collect();
        self.announced.extend_from_slice(&named);
        let to_warning = |what| RefusalWarning::of_tools(what, "leaving it out");
        Some(named.into_iter().map(to_warning).collect())
    }
}

/// Returns an error's message with `#` for each word that has a digit: ids, times, and counters differ from one response
/// to the next.
fn mask_ids(message: &str) -> String {
    let is_of_id = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let words = message.split_inclusive(|c| !is_of_id(c)).map(|word| {
        let id = word.trim_end_matches(|c| !is_of_id(c));
        if id.contains(|c: char| c.is_ascii_digit()) {
            format!("#{}", &word[id.len()..])
        } else {
            word.to_owned()
        }
    });
    words.collect()
}

/// Returns the names of the refused tools that the request has, each with who has added it; `None` for agentls itself.
fn find_refused_tools(
    cx: &TurnContext,
    request: &ModelRequest,
    pointers: &[ToolPointer],
) -> Vec<(String, Option<String>)> {
    let named = pointers.iter().filter_map(|pointer| match pointer {
        ToolPointer::Index(index) => request.tools.get(*index),
        ToolPointer::Name(name) => request
            .tools
            .iter()
            .find(|tool| tool.name.eq_ignore_ascii_case(name)),
        ToolPointer::Unnamed => None,
    });
    named
        .map(|tool| {
            let owner = cx.tools.get(&tool.name).and_then(|tool| tool.owner());
            (tool.name.clone(), owner)
        })
        .collect()
}
