//! Simulated MCP servers behind the real manager, supervisor and tools. They start slowly or not at all, crash, change
//! their tools in the middle of a turn, and answer in every way.
//!
//! Each call has a tag, by which the checker knows the session and the call that it belongs to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::rng::Rng;
use super::tools::EXPECTED_PANIC;
use super::world::World;
use agentls::base::CancellationToken;
use agentls::base::clock::{self, Instant};
use agentls::config::McpServerSettings;
use agentls::domain::{ArgumentSchema, Effect, EffectKind, ForeignTool, ToolCallId};
use agentls::mcp::{
    Elicitation, ElicitationRequest, McpCall, McpCallResult, McpClient, McpConnection, McpConnector,
    McpContent, McpError, McpPeer, McpPrompt, McpRegistration, McpResource, McpTool, McpWait, PromptReply,
    Sampling, SamplingMessage, SamplingRequest, ServerRequest,
};

/// The servers of the folder.
const SERVERS: [&str; 3] = ["alpha", "beta", "gamma"];
/// The server that a client names for its session.
const NAMED: &str = "delta";
/// The server whose annotations the settings believe.
const TRUSTED: &str = "beta";
/// The tool that says that it only reads.
const READS: &str = "ask";
const TOOLS: [&str; 3] = [READS, "store", "grow"];
/// The tool that comes and goes.
const EXTRA: &str = "extra";

/// The ends of a call without a failure; repeated ones are more likely.
const GOOD_ENDS: &[&str] = &[
    "ok",
    "ok",
    "ok",
    "chatty",
    "empty",
    "structured",
    "is_error",
    "grow",
    "sample",
    "elicit",
    "roots",
];
/// The ends with a failure.
const BAD_ENDS: &[&str] = &["refused", "malformed", "failed", "hang", "crash", "panic", "long"];

/// How a world's MCP servers behave.
#[derive(Clone, Debug)]
pub(super) struct McpSettings {
    /// How many servers the folder has.
    pub(super) servers: usize,
    /// Whether clients name servers for their sessions.
    pub(super) is_named: bool,
    /// This chance and all others are in thousandths.
    wanted: u32,
    bad_calls: u32,
    start_fails: u32,
    crashes: u32,
    /// The longest start, in ms.
    start_ms: u64,
    timeout: f64,
    is_required: bool,
}

impl McpSettings {
    pub(super) fn draw_settings(seed: u64) -> Self {
        let rng = Rng::new(seed ^ 0x6d63_7020_7365_7276);
        Self {
            servers: *rng.pick_one(&[0, 0, 0, 1, 2, 3]),
            is_named: rng.chance(200),
            wanted: *rng.pick_one(&[200, 500, 900]),
            bad_calls: *rng.pick_one(&[0, 150, 600]),
            start_fails: *rng.pick_one(&[0, 0, 200, 700]),
            crashes: *rng.pick_one(&[0, 0, 200, 900]),
            start_ms: *rng.pick_one(&[0, 500, 20_000]),
            timeout: *rng.pick_one(&[0.5, 20.0, 60.0]),
            is_required: rng.chance(100),
        }
    }

    pub(super) fn has_servers(&self) -> bool {
        self.servers > 0 || self.is_named
    }
}

/// Returns the servers of the folder.
pub(super) fn folder_servers(world: &World) -> McpRegistration {
    let names = SERVERS.iter().take(world.settings.mcp.servers);
    McpRegistration {
        servers: names.map(|name| server_settings(world, name)).collect(),
        ..McpRegistration::default()
    }
}

/// Returns the servers that a client names: none, a new one, or one that replaces the folder's.
pub(super) fn draw_named_servers(world: &World) -> Vec<McpServerSettings> {
    let names = *world
        .rng
        .pick_one(&[&[][..], &[NAMED][..], &[NAMED][..], &[NAMED, SERVERS[0]][..]]);
    names.iter().map(|name| server_settings(world, name)).collect()
}

fn server_settings(world: &World, name: &str) -> McpServerSettings {
    McpServerSettings {
        name: name.to_owned(),
        command: Some("simulated".to_owned()),
        timeout_s: world.settings.mcp.timeout.into(),
        required: world.settings.mcp.is_required,
        trust_annotations: name == TRUSTED,
        ..McpServerSettings::default()
    }
}

/// Returns the effect that a tool of a server declares; `None` for other tools.
pub(super) fn declared_effect(name: &str) -> Option<Effect> {
    let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
    let only_reads = server == TRUSTED && tool == READS;
    Some(Effect {
        kind: if only_reads {
            EffectKind::Read
        } else {
            EffectKind::Execute
        },
        foreign: Some(ForeignTool {
            name: format!("mcp:{server}/{tool}"),
            only_reads,
            definition: Arc::default(),
        }),
        ..Effect::none()
    })
}

/// Draws the tool of a call as a model writes it: mostly one of `offered`, now and then one that is not there.
pub(super) fn draw_tool(rng: &Rng, offered: &[String]) -> String {
    if offered.is_empty() || rng.chance(50) {
        let (server, tool) = (rng.pick_one(&SERVERS), rng.pick_one(&[READS, EXTRA]));
        return format!("mcp__{server}__{tool}");
    }
    rng.pick_one(offered).clone()
}

/// Draws the arguments of a call, with its tag.
pub(super) fn draw_arguments(world: &World, tag: u64) -> Value {
    let (rng, settings) = (&world.rng, &world.settings);
    let ends = if rng.chance(settings.mcp.bad_calls) {
        BAD_ENDS
    } else {
        GOOD_ENDS
    };
    json!({
        "how": rng.pick_one(ends), "ms": rng.draw_pause(settings.tool_ms).as_millis() as u64,
        "parts": rng.next_below(4), "tag": tag,
    })
}

/// Returns whether the model calls a tool of a server next.
pub(super) fn wants_server(world: &World) -> bool {
    world.settings.mcp.has_servers() && world.rng.chance(world.settings.mcp.wanted)
}

/// Connects to the simulated servers.
pub(super) struct SimConnector(pub(super) Arc<World>);

impl McpConnector for SimConnector {
    fn connect<'a>(
        &'a self,
        settings: &'a McpServerSettings,
        client: Arc<dyn McpClient>,
    ) -> BoxFuture<'a, Result<Arc<dyn McpConnection>, McpError>> {
        async move {
            let (world, mcp) = (&self.0, &self.0.settings.mcp);
            agentls::base::clock::sleep(world.rng.draw_pause(mcp.start_ms)).await;
            if world.rng.chance(mcp.start_fails) {
                return Err(match world.rng.next_below(4) {
                    0 => McpError::NeedsLogin,
                    1 => McpError::Closed,
                    2 => std::future::pending().await,
                    _ => McpError::Refused("simulated".to_owned()),
                });
            }
            let lifetime = world
                .rng
                .chance(mcp.crashes)
                .then(|| world.rng.draw_pause(60_000));
            world.lock_checker().mcp_connection_opens(&settings.name);
            Ok(Arc::new(SimConnection {
                world: world.clone(),
                server: settings.name.clone(),
                peer: McpPeer {
                    has_tools: true,
                    ..McpPeer::default()
                },
                client,
                has_extra: AtomicBool::new(world.rng.chance(500)),
                crashes_at: lifetime.map(|lifetime| clock::now() + lifetime),
                closed: CancellationToken::new(),
            }) as Arc<dyn McpConnection>)
        }
        .boxed()
    }
}

struct SimConnection {
    world: Arc<World>,
    server: String,
    peer: McpPeer,
    client: Arc<dyn McpClient>,
    has_extra: AtomicBool,
    crashes_at: Option<Instant>,
    closed: CancellationToken,
}

impl Drop for SimConnection {
    fn drop(&mut self) {
        self.world.lock_checker().mcp_connection_ends(&self.server);
    }
}

impl McpConnection for SimConnection {
    fn peer(&self) -> &McpPeer {
        &self.peer
    }

    fn list_tools(&self) -> BoxFuture<'_, Result<Vec<McpTool>, McpError>> {
        async move {
            let (rng, mcp) = (&self.world.rng, &self.world.settings.mcp);
            agentls::base::clock::sleep(rng.draw_pause(mcp.start_ms / 4)).await;
            if rng.chance(mcp.start_fails / 4) {
                return Err(McpError::Malformed("simulated".to_owned()));
            }
            let extra = self.has_extra.load(Ordering::Relaxed).then_some(EXTRA);
            Ok(TOOLS.into_iter().chain(extra).map(describe_tool).collect())
        }
        .boxed()
    }

    fn call_tool(&self, call: McpCall) -> BoxFuture<'_, Result<McpCallResult, McpError>> {
        async move {
            let tag = call.arguments["tag"].as_u64().unwrap_or_default();
            let how = call.arguments["how"].as_str().unwrap_or_default().to_owned();
            let name = format!("mcp__{}__{}", self.server, call.tool);
            let _running = CallInProgress {
                call: self.world.lock_checker().mcp_call_begins(tag, &name, &how),
                world: self.world.clone(),
            };
            let ended = tokio::select! { biased;
                () = call.cancel.cancelled() => Err(McpError::Cancelled),
                () = self.closed.cancelled() => Err(McpError::Closed),
                result = self.perform_call(&call, tag, &how) => result,
                () = agentls::base::clock::sleep(call.limit) => Err(McpError::TimedOut(call.limit)),
            };
            if matches!(ended, Err(McpError::Cancelled | McpError::TimedOut(_))) {
                // The server is slow to take the cancel.
                agentls::base::clock::sleep(self.world.rng.draw_pause(500)).await;
            }
            let end = ended.as_ref().map_or_else(ToString::to_string, |_| how);
            self.world.lock_checker().count_case(format!("MCP call: {end}"));
            ended
        }
        .boxed()
    }

    fn list_prompts(&self) -> BoxFuture<'_, Result<Vec<McpPrompt>, McpError>> {
        futures::future::ready(Ok(Vec::new())).boxed()
    }

    fn get_prompt(&self, _name: &str, _arguments: Map<String, Value>, _wait: McpWait) -> PromptReply<'_> {
        futures::future::ready(Err(McpError::Refused("simulated".to_owned()))).boxed()
    }

    fn list_resources(&self) -> BoxFuture<'_, Result<Vec<McpResource>, McpError>> {
        futures::future::ready(Ok(Vec::new())).boxed()
    }

    fn read_resource(&self, _uri: &str, _wait: McpWait) -> BoxFuture<'_, Result<Vec<McpContent>, McpError>> {
        futures::future::ready(Err(McpError::Refused("simulated".to_owned()))).boxed()
    }

    fn notify_roots_changed(&self) -> BoxFuture<'_, ()> {
        futures::future::ready(()).boxed()
    }

    fn wait_until_closed(&self) -> BoxFuture<'_, ()> {
        async {
            let crash = async {
                match self.crashes_at {
                    Some(at) => agentls::base::clock::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! { biased;
                () = self.closed.cancelled() => {}
                () = crash => self.closed.cancel(),
            }
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {
            agentls::base::clock::sleep(self.world.rng.draw_pause(100)).await;
            self.closed.cancel();
        }
        .boxed()
    }
}

impl SimConnection {
    async fn perform_call(&self, call: &McpCall, tag: u64, how: &str) -> Result<McpCallResult, McpError> {
        let number = |key: &str| call.arguments[key].as_u64().unwrap_or_default();
        let parts = number("parts");
        for part in 0..=parts {
            agentls::base::clock::sleep(Duration::from_millis(number("ms") / (parts + 1))).await;
            self.world.lock_checker().mcp_call_goes_on(tag);
            if how == "chatty" {
                for line in 0..40 {
                    // What does not fit is dropped, as the trait says.
                    let _ = call.progress.try_send(format!("part {part} line {line}\n"));
                }
            }
        }
        let text = |text: String| McpContent::Text(text);
        let result = |content: Vec<McpContent>| McpCallResult {
            content,
            ..McpCallResult::default()
        };
        match how {
            "empty" => Ok(McpCallResult::default()),
            "structured" => Ok(McpCallResult {
                structured: Some(json!({"sum": 42})),
                ..McpCallResult::default()
            }),
            "is_error" => Ok(McpCallResult {
                is_error: true,
                ..result(vec![text("not found".to_owned())])
            }),
            "long" => Ok(result(vec![text("x".repeat(31_000))])),
            "roots" => Ok(result(vec![text(format!("{:?}", self.client.list_roots()))])),
            "grow" => {
                self.has_extra.fetch_xor(true, Ordering::Relaxed);
                self.client.note_lists_changed();
                Ok(result(vec![text("changed".to_owned())]))
            }
            "sample" => Ok(result(vec![text(sample(call).await)])),
            "elicit" => Ok(result(vec![text(elicit(call, tag).await)])),
            "refused" => Err(McpError::Refused("simulated".to_owned())),
            "malformed" => Err(McpError::Malformed("simulated".to_owned())),
            "failed" => Err(McpError::Failed("simulated".to_owned())),
            "hang" => std::future::pending().await,
            "crash" => {
                self.closed.cancel();
                std::future::pending().await
            }
            "panic" => panic!("{EXPECTED_PANIC}"),
            _ => Ok(result(vec![text("done".to_owned())])),
        }
    }
}

/// Asks the model, and returns its answer or why there is none.
async fn sample(call: &McpCall) -> String {
    let (reply, answer) = oneshot::channel();
    let sampling = Sampling {
        system: None,
        messages: vec![SamplingMessage {
            is_from_assistant: false,
            content: vec![McpContent::Text("sum this up".to_owned())],
        }],
        max_tokens: 100,
        stops: Vec::new(),
    };
    let request = ServerRequest::Sample(SamplingRequest { sampling, reply });
    if call.requests.try_send(request).is_err() {
        return "nobody hears it".to_owned();
    }
    match answer.await {
        Ok(Ok(answer)) => answer.text,
        Ok(Err(reason)) => reason,
        Err(_) => "nobody answers".to_owned(),
    }
}

/// Asks the user to fill in a form, and returns what came of it.
async fn elicit(call: &McpCall, tag: u64) -> String {
    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "color": {"type": "string", "enum": ["red", "green"]}},
        "required": ["name"],
    });
    let params = json!({"message": format!("Who is {tag}?"), "requestedSchema": schema});
    let Ok(elicitation) = Elicitation::read(&params, None) else {
        return "the form is wrong".to_owned();
    };
    let (reply, answer) = oneshot::channel();
    let request = ServerRequest::Elicit(ElicitationRequest {
        elicitation,
        is_of_this_session: true,
        reply,
    });
    if call.requests.try_send(request).is_err() {
        return "nobody hears it".to_owned();
    }
    match answer.await {
        Ok(answer) => format!("{answer:?}"),
        Err(_) => "nobody answers".to_owned(),
    }
}

/// A running call; dropping it reports the end to the checker.
struct CallInProgress {
    world: Arc<World>,
    call: ToolCallId,
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        self.world.lock_checker().effect_ended(&self.call);
    }
}

fn describe_tool(name: &'static str) -> McpTool {
    let number = json!({"type": "integer", "minimum": 0});
    McpTool {
        name: name.to_owned(),
        title: name.to_owned(),
        description: "Simulated.".to_owned(),
        schema: ArgumentSchema::new(json!({
            "type": "object",
            "properties": {"how": {"type": "string"}, "ms": number, "parts": number, "tag": number},
            "required": ["how", "ms", "parts", "tag"],
        })),
        output_schema: None,
        claims_read_only: name == READS,
        annotations: [("readOnlyHint".to_owned(), name == READS)].into(),
        fingerprint: name.to_owned(),
    }
}
