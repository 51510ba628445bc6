//! A simulated LLM API: it gives every kind of answer and every kind of error, at every moment.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt};
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::check::ObservedCall;
use super::coverage::SimFault;
use super::mcp;
use super::rng::Rng;
use super::tools;
use super::world::{ProviderBehavior, World};
use agentls::context::compact::has_media;
use agentls::context::estimate_message_tokens;
use agentls::domain::{AgentError, Cost, ErrorCode, Price, SessionId, Usage};
use agentls::provider::account_health::is_failure;
use agentls::provider::{
    AccountHealth, Accounts, EventStream, ModelInfo, ModelRequest, Provider, ProviderError, ProviderFault,
    RetryPolicy, StopReason, StreamEvent, TimeoutPhase, WatchedProvider,
};
use agentls::tool::Tool;
use agentls::tool::delegate::Delegate;
use agentls::turn::{Fallbacks, ModelChoice, ModelSource, ResolvedModel};

/// The prices of the simulated model.
pub(super) const PRICE: Price = Price {
    input: 0.1,
    output: 1.0,
    cache_read: 0.1,
    cache_write: 0.1,
    tiers: [None; 2],
};

/// The tool that loads deferred definitions.
const SEARCH_TOOLS: &str = "search_tools";

/// The most tokens that the system prompt and the tools take.
const PROMPT_TOKENS: u64 = 1_500;

/// The models of one session. Each session has its own, so that the checker knows which session sends a request.
pub(super) struct SimModels {
    pub(super) world: Arc<World>,
    pub(super) session: SessionId,
    /// The health of the two providers in this server run.
    pub(super) accounts: Arc<Accounts>,
}

impl SimModels {
    /// Resolves a model of the first or of the spare provider.
    fn resolve_choice(&self, provider: &'static str, model: &str, choice: &ModelChoice) -> ResolvedModel {
        let (world, rng) = (&self.world, &self.world.rng);
        let retry = RetryPolicy {
            max_retries: rng.next_below(world.settings.max_retries) as u32,
            persists: rng.chance(300),
            ..RetryPolicy::default()
        };
        let health = self
            .accounts
            .get_or_create(provider, "", None, world.settings.circuit);
        let sim_provider = SimProvider {
            name: provider,
            world: world.clone(),
            session: self.session.clone(),
            health: health.clone(),
        };
        let substitute = (model != "small" && world.settings.substitute).then(|| "small".to_owned());
        let is_first = provider == FIRST;
        ResolvedModel {
            provider: Arc::new(WatchedProvider::new(Arc::new(sim_provider), health)),
            model: model.to_owned(),
            info: ModelInfo {
                window: world.context_window(),
                max_output: world.settings.max_output,
                knows_max_output: true,
                price: self.world.settings.priced.then_some(PRICE),
                reasoning: true,
                images: true,
                documents: true,
                tools: true,
                search: None,
            },
            retry,
            effort: choice.effort,
            edit_tool: Default::default(),
            choice_reason: None,
            fallbacks: Fallbacks {
                model: substitute,
                providers: (is_first && world.settings.route)
                    .then(|| SPARE.to_owned())
                    .into_iter()
                    .collect(),
                if_missing: None,
                is_default: false,
            },
        }
    }
}

/// The provider that is called first, and the one that takes over.
const FIRST: &str = "sim";
const SPARE: &str = "spare";

impl ModelSource for SimModels {
    fn resolve_model(&self, choice: &ModelChoice) -> BoxFuture<'static, Result<ResolvedModel, AgentError>> {
        let named = choice
            .model
            .as_deref()
            .map(|model| model.rsplit('/').next().unwrap_or("one"));
        let mut model = self.resolve_choice(FIRST, named.unwrap_or("one"), choice);
        let world = self.world.clone();
        async move {
            let rng = &world.rng;
            agentls::base::clock::sleep(rng.draw_pause(world.settings.provider_ms)).await;
            if rng.chance(world.settings.resolve_fails) {
                let code = *rng.pick_one(&[ErrorCode::Config, ErrorCode::ProviderError]);
                return Err(AgentError::new(code, "nothing to ask"));
            }
            model.choice_reason = rng.chance(50).then(|| "because".to_owned());
            Ok(model)
        }
        .boxed()
    }

    fn take_over(
        &self,
        choice: &ModelChoice,
        provider: &str,
        model: Option<&str>,
    ) -> Result<ResolvedModel, AgentError> {
        let provider = if provider == FIRST { FIRST } else { SPARE };
        Ok(self.resolve_choice(provider, model.unwrap_or("other"), choice))
    }

    fn learn_window(&self, _: &ResolvedModel, window: u64) {
        self.world.learn_window(window);
    }
}

struct SimProvider {
    name: &'static str,
    health: Arc<AccountHealth>,
    world: Arc<World>,
    session: SessionId,
}

/// A running call; dropping it settles its cost, also after a cancel.
struct CallInFlight {
    world: Arc<World>,
    provider: String,
    estimate: Cost,
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        self.world
            .lock_checker()
            .settle_call(&self.provider, self.estimate);
    }
}

/// The tools of a request, as far as they decide what the model calls.
struct OfferedTools<'a> {
    session: &'a SessionId,
    /// How often the model delegates, in thousandths.
    delegates: u32,
    /// Whether definitions are deferred.
    searches: bool,
    of_mcp: Vec<String>,
}

/// One step of an answer.
enum CallMoment {
    Piece(StreamEvent),
    Error(ProviderError),
}

impl Provider for SimProvider {
    fn name(&self) -> &str {
        self.name
    }

    fn open_stream(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
        let (world, provider) = (self.world.clone(), self.name);
        let opened = self.open(request);
        async move {
            let report_observed = move |observed| world.lock_checker().observe_call_end(provider, observed);
            let is_counted = |error: &ProviderError| is_failure(&error.fault);
            let events = opened.await.inspect_err(|error| {
                if is_counted(error) {
                    report_observed(ObservedCall::Failed);
                }
            })?;
            let events = events.inspect(move |event| match event {
                Ok(StreamEvent::Stop(_)) => report_observed(ObservedCall::Well),
                Ok(_) => report_observed(ObservedCall::Begins),
                Err(error) if is_counted(error) => report_observed(ObservedCall::Failed),
                Err(_) => {}
            });
            Ok(events.boxed())
        }
        .boxed()
    }
}

impl SimProvider {
    fn open(&self, request: Arc<ModelRequest>) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
        let (world, session) = (self.world.clone(), self.session.clone());
        let health = self.health.clone();
        async move {
            world
                .lock_checker()
                .check_circuit_state(health.name(), health.circuit_view().state);
            let estimate = world
                .lock_checker()
                .check_request(&session, &request, health.name());
            // A fault of a sub-agent's call is not a fault of the turn.
            let is_turn_call = !is_from_subagent(&request);
            let note_fault = |fault| {
                if is_turn_call {
                    world.lock_checker().note_fault(&session, fault);
                }
            };
            let flight = CallInFlight {
                world: world.clone(),
                provider: health.name().to_owned(),
                estimate,
            };
            let (rng, settings) = (&world.rng, &world.settings);
            agentls::base::clock::sleep(rng.draw_pause(settings.provider_ms)).await;
            report_rate_limits(rng, &health);
            let behavior = world.current_behavior();
            if let Some(fault) = fault_of_behavior(behavior) {
                note_fault(SimFault::Refused);
                return Err(error_of_fault(rng, fault));
            }
            if rng.chance(settings.call_fails) {
                note_fault(SimFault::Refused);
                return Err(draw_error(rng));
            }
            let tokens: u64 = request
                .messages
                .iter()
                .map(|item| item.estimated_tokens(estimate_message_tokens))
                .sum();
            if tokens > settings.real_window {
                note_fault(SimFault::Refused);
                let limit = rng.chance(300).then_some(settings.real_window + PROMPT_TOKENS);
                return Err(error_of_fault(rng, ProviderFault::PromptTooLong { limit }));
            }
            if settings.blind && has_media(&request.messages) {
                note_fault(SimFault::Refused);
                return Err(error_of_fault(rng, ProviderFault::ImageRefused));
            }
            let delegates = match (
                request.tools.iter().any(|tool| tool.name == Delegate::NAME),
                is_turn_call,
            ) {
                (true, true) => settings.delegates,
                // A lower chance, because sub-agents with many sub-agents would multiply.
                (true, false) => settings.delegates / 4,
                (false, _) => 0,
            };
            let offered = OfferedTools {
                session: &session,
                delegates,
                searches: request.tools.iter().any(|tool| tool.name == SEARCH_TOOLS),
                of_mcp: request
                    .tools
                    .iter()
                    .filter(|tool| tool.name.starts_with("mcp__"))
                    .map(|tool| tool.name.clone())
                    .collect(),
            };
            let moments = draw_answer(&world, behavior, &offered);
            if is_turn_call
                && moments.iter().any(|moment| {
                    matches!(
                        moment,
                        CallMoment::Piece(StreamEvent::Stop(StopReason::PauseTurn))
                    )
                })
            {
                world.lock_checker().may_pause(&session);
            }
            let pace = rng.draw_pause(settings.provider_ms);
            let stream = stream::unfold(
                (moments.into_iter(), world.clone(), session, flight),
                move |(mut remaining, world, session, flight)| async move {
                    let moment = remaining.next()?;
                    if world.rng.chance(400) {
                        agentls::base::clock::sleep(world.rng.draw_pause(pace.as_millis() as u64)).await;
                    }
                    let item = match moment {
                        CallMoment::Piece(event) => {
                            if let StreamEvent::Usage { usage, .. } = &event {
                                world.lock_checker().counts_tokens(&session, *usage);
                            }
                            Ok(event)
                        }
                        CallMoment::Error(error) => {
                            if is_turn_call {
                                world.lock_checker().note_fault(&session, SimFault::Broken);
                            }
                            Err(error)
                        }
                    };
                    Some((item, (remaining, world, session, flight)))
                },
            );
            Ok(stream.boxed())
        }
        .boxed()
    }
}

/// Reports now and then how much of a rate limit is left, as response headers do.
fn report_rate_limits(rng: &Rng, health: &AccountHealth) {
    if rng.chance(20) {
        let headers = [
            ("x-ratelimit-limit-requests", 100),
            ("x-ratelimit-remaining-requests", rng.next_below(100)),
            ("x-ratelimit-reset-requests", rng.next_below(90)),
        ];
        health.observe_headers(&headers.into_iter().map(rate_limit_header).collect());
    }
}

fn rate_limit_header((name, value): (&'static str, u64)) -> (HeaderName, HeaderValue) {
    (HeaderName::from_static(name), HeaderValue::from(value))
}

/// Returns the fault with which a mood fails every call.
fn fault_of_behavior(behavior: ProviderBehavior) -> Option<ProviderFault> {
    match behavior {
        ProviderBehavior::TooLong => Some(ProviderFault::PromptTooLong { limit: None }),
        ProviderBehavior::Pictures => Some(ProviderFault::ImageRefused),
        ProviderBehavior::Overloaded => Some(ProviderFault::Overloaded),
        ProviderBehavior::Usual
        | ProviderBehavior::Truncates
        | ProviderBehavior::Empty
        | ProviderBehavior::Pauses
        | ProviderBehavior::Declines
        | ProviderBehavior::Breaks => None,
    }
}

fn draw_error(rng: &Rng) -> ProviderError {
    // Prefer transient errors, so that turns often retry.
    if rng.chance(500) {
        let fault = rng.pick_one(&[
            ProviderFault::Throttled,
            ProviderFault::Overloaded,
            ProviderFault::Server,
            ProviderFault::Connection,
        ]);
        return error_of_fault(rng, fault.clone());
    }
    let fault = rng
        .pick_one(&[
            ProviderFault::Throttled,
            ProviderFault::Overloaded,
            ProviderFault::Server,
            ProviderFault::TimedOut(TimeoutPhase::Connect),
            ProviderFault::TimedOut(TimeoutPhase::FirstEvent),
            ProviderFault::TimedOut(TimeoutPhase::Gap),
            ProviderFault::Connection,
            ProviderFault::Tls,
            ProviderFault::BrokenStream,
            ProviderFault::ErrorEvent,
            ProviderFault::PromptTooLong { limit: None },
            ProviderFault::ImageRefused,
            ProviderFault::Unauthorized,
            ProviderFault::QuotaExhausted { reset_at: None },
            ProviderFault::NotFound,
            ProviderFault::ContentPolicy,
            ProviderFault::InvalidRequest,
            ProviderFault::NotTheApi,
            ProviderFault::Local,
        ])
        .clone();
    error_of_fault(rng, fault)
}

fn error_of_fault(rng: &Rng, fault: ProviderFault) -> ProviderError {
    ProviderError {
        fault,
        provider: "sim".to_owned(),
        model: "one".to_owned(),
        message: "simulated".to_owned(),
        status: None,
        request_id: None,
        retry_after: rng.chance(200).then(|| rng.draw_pause(90_000)),
        user_action: None,
        should_retry: None,
    }
}

/// Draws the pieces of one answer, complete or broken.
fn draw_answer(world: &World, behavior: ProviderBehavior, offered: &OfferedTools<'_>) -> Vec<CallMoment> {
    let (rng, settings) = (&world.rng, &world.settings);
    let mut pieces = Vec::new();
    if let Some(stop) = stop_reason_of_behavior(behavior) {
        if rng.chance(500) {
            push_reasoning(rng, &mut pieces);
        }
        if behavior != ProviderBehavior::Empty && rng.chance(700) {
            push_text(rng, false, &mut pieces);
        }
        pieces.push(StreamEvent::Stop(stop));
        return break_stream(world, pieces, settings.stream_fails);
    }
    let is_malformed = rng.chance(settings.malformed_answers);
    if rng.chance(300) {
        push_reasoning(rng, &mut pieces);
    }
    if !(is_malformed && rng.chance(300)) {
        push_text(rng, is_malformed, &mut pieces);
    }
    let wants_calls = rng.chance(settings.wants_tools);
    if wants_calls && rng.chance(settings.repeats) {
        push_repeated_call(&mut pieces);
    } else if wants_calls {
        let calls = 1 + rng.next_below(*rng.pick_one(&[1, 3, 12])) as u32;
        if rng.chance(offered.delegates) {
            push_delegation(rng, calls * 3, &mut pieces);
        }
        for index in 0..calls {
            push_tool_use(world, index * 3, is_malformed, offered, &mut pieces);
            if is_malformed && rng.chance(300) {
                push_text(rng, is_malformed, &mut pieces);
            }
        }
    }
    if rng.chance(800) {
        let usage = Usage {
            input: rng.next_below(1_000),
            output: rng.next_below(*rng.pick_one(&[100, 100, 1_500])),
            cache_read: rng.next_below(100),
            cache_write: 0,
        };
        let cost = rng.chance(500).then(|| Cost(rng.next_below(1_000_000)));
        pieces.push(StreamEvent::Usage { usage, cost });
    }
    let stop = match (is_malformed, wants_calls) {
        (true, _) => rng
            .pick_one(&[
                StopReason::EndTurn,
                StopReason::ToolUse,
                StopReason::MaxTokens,
                StopReason::Refusal(None),
                StopReason::Refusal(Some("no".to_owned())),
                StopReason::PauseTurn,
                StopReason::WindowFull,
            ])
            .clone(),
        (false, true) => StopReason::ToolUse,
        (false, false) => StopReason::EndTurn,
    };
    pieces.push(StreamEvent::Stop(stop));
    let break_chance = if behavior == ProviderBehavior::Breaks {
        950
    } else {
        settings.stream_fails
    };
    break_stream(world, pieces, break_chance)
}

/// Returns the stop reason of every answer in a mood.
fn stop_reason_of_behavior(behavior: ProviderBehavior) -> Option<StopReason> {
    match behavior {
        ProviderBehavior::Truncates => Some(StopReason::MaxTokens),
        ProviderBehavior::Empty => Some(StopReason::EndTurn),
        ProviderBehavior::Pauses => Some(StopReason::PauseTurn),
        ProviderBehavior::Declines => Some(StopReason::Refusal(None)),
        ProviderBehavior::Usual
        | ProviderBehavior::TooLong
        | ProviderBehavior::Pictures
        | ProviderBehavior::Overloaded
        | ProviderBehavior::Breaks => None,
    }
}

/// Turns pieces into steps, and truncates the answer in `break_chance` of 1,000 cases.
fn break_stream(world: &World, pieces: Vec<StreamEvent>, break_chance: u32) -> Vec<CallMoment> {
    let rng = &world.rng;
    let mut moments: Vec<CallMoment> = pieces.into_iter().map(CallMoment::Piece).collect();
    if rng.chance(break_chance) {
        moments.truncate(rng.next_below(moments.len() as u64) as usize);
        if rng.chance(800) {
            moments.push(CallMoment::Error(draw_error(rng)));
        }
    }
    moments
}

fn push_reasoning(rng: &Rng, pieces: &mut Vec<StreamEvent>) {
    for _ in 0..rng.next_below(4) {
        pieces.push(StreamEvent::Reasoning(pick_word(rng).to_owned()));
    }
    if rng.chance(500) {
        pieces.push(StreamEvent::ReasoningSignature("proof".to_owned()));
    }
    if rng.chance(100) {
        pieces.push(StreamEvent::RedactedReasoning("opaque".to_owned()));
    }
}

fn push_text(rng: &Rng, is_malformed: bool, pieces: &mut Vec<StreamEvent>) {
    if is_malformed && rng.chance(400) {
        pieces.push(StreamEvent::Text(rng.pick_one(&["", " ", "\n\n"]).to_string()));
        return;
    }
    for _ in 0..=rng.next_below(8) {
        pieces.push(StreamEvent::Text(pick_word(rng).to_owned()));
    }
    if rng.chance(2) {
        pieces.push(StreamEvent::Text("much ".repeat(20_000)));
    } else if rng.chance(60) {
        pieces.push(StreamEvent::Text("more ".repeat(300)));
    }
}

fn pick_word(rng: &Rng) -> &'static str {
    const WORDS: [&str; 8] = ["so ", "it is", "ä", "日本", "\n", " ", "`code`", "x"];
    rng.pick_one::<&str>(&WORDS)
}

fn push_tool_use(
    world: &World,
    index: u32,
    is_malformed: bool,
    offered: &OfferedTools<'_>,
    pieces: &mut Vec<StreamEvent>,
) {
    let rng = &world.rng;
    let (name, input) = draw_call(world, is_malformed, offered);
    pieces.push(StreamEvent::ToolUseStarted { index, name });
    let mut written = input.to_string();
    if is_malformed && rng.chance(200) {
        written = rng
            .pick_one(&["", "[1]", "{\"how\":", "{\"surprise\":1}"])
            .to_string();
    }
    let cut = written.floor_char_boundary(rng.next_below(written.len() as u64 + 1) as usize);
    for piece in [&written[..cut], &written[cut..]] {
        pieces.push(StreamEvent::ToolInput {
            index,
            json: piece.to_owned(),
        });
    }
    if !(is_malformed && rng.chance(100)) {
        pieces.push(StreamEvent::ToolUseCompleted { index });
    }
}

/// Draws the tool and the arguments of a call.
fn draw_call(world: &World, is_malformed: bool, offered: &OfferedTools<'_>) -> (String, Value) {
    let (rng, settings) = (&world.rng, &world.settings);
    if mcp::wants_server(world) {
        if offered.searches && rng.chance(300) {
            let query = *rng.pick_one(&["ask", "simulated", "mcp__alpha__store"]);
            return (SEARCH_TOOLS.to_owned(), json!({"query": query}));
        }
        let tag = world.lock_checker().write_mcp_call(offered.session);
        return (
            mcp::draw_tool(rng, &offered.of_mcp),
            mcp::draw_arguments(world, tag),
        );
    }
    let name = match is_malformed && rng.chance(200) {
        true => *rng.pick_one(&["unknown", "", "read file"]),
        false if rng.chance(50) => "update_plan",
        // Those that change files come more often.
        false if rng.chance(400) => *rng.pick_one(&["change", "make"]),
        false => *rng.pick_one(tools::NAMES),
    };
    let input = match name {
        "update_plan" => json!({"items": [{"text": pick_word(rng), "status": "pending"}]}),
        _ => tools::draw_arguments(rng, settings.bad_tools, settings.tool_ms),
    };
    (name.to_owned(), input)
}

fn push_delegation(rng: &Rng, index: u32, pieces: &mut Vec<StreamEvent>) {
    let (name, json) = (Delegate::NAME.to_owned(), tools::draw_delegation(rng).to_string());
    pieces.push(StreamEvent::ToolUseStarted { index, name });
    pieces.push(StreamEvent::ToolInput { index, json });
    pieces.push(StreamEvent::ToolUseCompleted { index });
}

/// Returns whether a sub-agent sends the request, rather than the turn itself.
pub(super) fn is_from_subagent(request: &ModelRequest) -> bool {
    // The note below a sub-agent's task; a history rendered as text contains it too.
    let first = request.messages.first();
    first.is_some_and(|item| item.message.text().contains("[You work for another agent"))
}

/// Pushes a call that is always the same, to trigger the detection of loops.
fn push_repeated_call(pieces: &mut Vec<StreamEvent>) {
    let (index, name) = (0, "look".to_owned());
    let json = r#"{"how":"ok","ms":0,"parts":0}"#.to_owned();
    pieces.push(StreamEvent::ToolUseStarted { index, name });
    pieces.push(StreamEvent::ToolInput { index, json });
    pieces.push(StreamEvent::ToolUseCompleted { index });
}

/// The longest that a turn may take; the simulator reports a longer one as hanging (I13).
pub(super) const LONGEST_TURN: Duration = Duration::from_secs(24 * 3_600);
