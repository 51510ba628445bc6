//! The fault cases: what the provider does in each. `faults` runs them and compares snapshots.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::mock_llm::{Api, Cut, Reply};

/// One fault of a provider.
pub struct Case {
    pub name: &'static str,
    pub prompt: Value,
    /// Answers to the calls, in order; the server must ask for all of them.
    pub replies: Vec<Reply>,
    /// Answers of the provider's `fallback_model`; if empty, there is none.
    pub substitute: Vec<Reply>,
    /// Answers of the next provider on the route, of the same kind; if empty, there is none.
    pub next: Vec<Reply>,
    pub at: Where,
    /// The wait that the first answer asks for, in ms: the least and the most.
    pub requested_wait: Option<(u64, u64)>,
    /// The time that an attempt may take.
    pub takes: Duration,
    /// Extra settings of the provider.
    pub settings: &'static str,
}

/// The server at the provider's address.
#[derive(Clone, Copy)]
pub enum Where {
    Mock,
    Nobody,
    UnknownCertificate,
}

impl Case {
    fn new(name: &'static str, replies: Vec<Reply>) -> Self {
        Self {
            name,
            prompt: json!("hello"),
            replies,
            substitute: Vec::new(),
            next: Vec::new(),
            at: Where::Mock,
            requested_wait: None,
            takes: Duration::ZERO,
            settings: "",
        }
    }

    /// The first answer fails, the second succeeds.
    fn fails_once(name: &'static str, failure: Reply) -> Self {
        Self::new(name, vec![failure, Reply::text("here I am")])
    }

    /// Every answer fails, and the next provider answers.
    fn then_next(name: &'static str, failures: Vec<Reply>) -> Self {
        Self::new(name, failures).or_next(vec![Reply::text("here I am instead")])
    }

    fn or_next(mut self, replies: Vec<Reply>) -> Self {
        self.next = replies;
        self
    }

    fn or_stand_in(mut self, replies: Vec<Reply>) -> Self {
        self.substitute = replies;
        self
    }

    fn requests_wait(mut self, least: u64, most: u64) -> Self {
        self.requested_wait = Some((least, most));
        self
    }

    fn at(mut self, at: Where) -> Self {
        self.at = at;
        self
    }

    fn with(mut self, settings: &'static str) -> Self {
        self.settings = settings;
        self
    }

    fn takes(mut self, seconds: u64) -> Self {
        self.takes = Duration::from_secs(seconds);
        self
    }
}

fn throttled() -> Reply {
    Reply::error(429, "rate_limit_error", "slow down")
}

fn json_body(status: u16, body: &str) -> Reply {
    Reply::status(status)
        .header("content-type", "application/json")
        .body(body.to_owned())
}

#[expect(clippy::disallowed_methods, reason = "a header with the real time")]
fn date(seconds: i64) -> String {
    let shift = Duration::from_secs(seconds.unsigned_abs());
    let now = SystemTime::now();
    httpdate::fmt_http_date(if seconds < 0 { now - shift } else { now + shift })
}

/// A picture of one pixel.
const DOT: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Short time limits; still long enough for a busy machine if the stream makes progress.
const SHORT_TIMEOUTS: &str = "first_event_timeout_s = 2\nevent_gap_timeout_s = 2";

pub fn cases(api: Api) -> Vec<Case> {
    let mut all = statuses();
    all.extend(announced_waits());
    all.extend(permanent());
    all.extend(too_long());
    all.extend(fixed_by_shrinking());
    all.extend(connections());
    all.extend(streams(api));
    all.extend(routes());
    all
}

/// Faults after which another model or provider takes over (R-PROV-4, -5).
fn routes() -> Vec<Case> {
    let times = |n: usize, reply: fn() -> Reply| (0..n).map(|_| reply()).collect::<Vec<_>>();
    let overloaded = || Reply::error(529, "overloaded_error", "Overloaded");
    let unavailable = || Reply::error(503, "api_error", "down");
    let insufficient_credits = || Reply::error(402, "payment_required", "Insufficient credits");
    let instead = || vec![Reply::text("here I am instead")];
    vec![
        Case::new("529-thrice-then-another-model", times(3, overloaded))
            .with("max_retries = 9")
            .or_stand_in(instead()),
        Case::then_next("529-of-the-other-model-too", times(3, overloaded))
            .with("max_retries = 9")
            .or_stand_in(times(2, overloaded)),
        Case::then_next("503-for-ever-then-next", times(4, unavailable)),
        Case::then_next("402-then-next", vec![insufficient_credits()]),
        Case::new("402-of-both", vec![insufficient_credits()]).or_next(vec![insufficient_credits()]),
        Case::new("503-of-both", times(4, unavailable)).or_next(times(4, unavailable)),
        Case::then_next("circuit-opens-then-next", times(5, unavailable)).with("max_retries = 9"),
        Case::new("circuit-opens", times(5, unavailable)).with("max_retries = 9"),
        Case::then_next(
            "429-an-hour-then-next",
            vec![throttled().header("retry-after", "3600")],
        ),
        Case::then_next("refused-then-next", Vec::new()).at(Where::Nobody),
        Case::then_next(
            "no-response-twice-then-next",
            vec![Reply::silent(), Reply::silent()],
        )
        .with(SHORT_TIMEOUTS)
        .takes(4),
        Case::then_next(
            "cut-in-text-then-next",
            vec![Reply::text("half of the an").close()],
        )
        .with("max_retries = 0"),
        // Another provider does not help if the request or the key is wrong.
        Case::new(
            "401-does-not-go-to-the-next",
            vec![Reply::error(401, "authentication_error", "invalid key")],
        )
        .with("fallback = \"case-402-then-next-next\""),
    ]
}

/// Faults that a retry may fix.
fn statuses() -> Vec<Case> {
    let page = |status| {
        Reply::status(status)
            .header("content-type", "text/html")
            .body("<html><head><title>Bad luck</title></head></html>")
    };
    let overloaded = || Reply::error(529, "overloaded_error", "Overloaded");
    vec![
        Case::fails_once("408", Reply::error(408, "timeout", "the request took too long")),
        Case::fails_once("500", Reply::error(500, "api_error", "Internal server error")),
        Case::fails_once("502", page(502)),
        Case::fails_once("503", Reply::status(503)),
        Case::fails_once("504", page(504)),
        Case::fails_once("529", overloaded()),
        Case::new(
            "529-thrice",
            vec![overloaded(), overloaded(), overloaded(), Reply::text("here I am")],
        ),
        Case::new(
            "503-for-ever",
            (0..4).map(|_| Reply::error(503, "api_error", "down")).collect(),
        ),
    ]
}

/// Ways in which a throttled response announces the wait.
fn announced_waits() -> Vec<Case> {
    let asking = |name, header, value: &str| Case::fails_once(name, throttled().header(header, value));
    let until = |name, date| Case::fails_once(name, throttled().late_header("retry-after", date));
    vec![
        Case::fails_once("429", throttled()),
        asking("429-seconds", "retry-after", "1").requests_wait(1_000, 1_000),
        asking("429-ms", "retry-after-ms", "120").requests_wait(120, 120),
        until("429-date-ahead", || date(4)).requests_wait(500, 4_000),
        until("429-date-now", || date(0)),
        until("429-date-past", || date(-3_600)),
        asking("429-negative", "retry-after", "-5"),
        asking("429-huge", "retry-after", "99999999999999999999"),
        asking("429-over-a-month", "retry-after", "2592001"),
        asking("429-garbage", "retry-after", "soon"),
        asking("429-other-headers", "x-ratelimit-reset-requests", "1s"),
        Case::new("429-an-hour", vec![throttled().header("retry-after", "3600")]),
        Case::fails_once(
            "429-in-words",
            Reply::error(
                429,
                "rate_limit_exceeded",
                "Rate limit reached. Please try again in 150ms.",
            ),
        )
        .requests_wait(150, 150),
    ]
}

/// Faults that no retry fixes.
fn permanent() -> Vec<Case> {
    let single_reply = |name, reply| Case::new(name, vec![reply]);
    vec![
        single_reply(
            "429-quota",
            Reply::error(
                429,
                "insufficient_quota",
                "You exceeded your current quota, please check your plan.",
            ),
        ),
        single_reply(
            "402",
            Reply::error(402, "payment_required", "Insufficient credits"),
        ),
        single_reply(
            "400-usage-limit",
            Reply::error(
                400,
                "invalid_request_error",
                "You have reached your specified API usage limits. You will regain access on 2099-12-01 at 00:00 UTC.",
            ),
        ),
        single_reply("401", Reply::error(401, "authentication_error", "invalid key")),
        single_reply("403", Reply::error(403, "permission_error", "not for you")),
        single_reply(
            "404",
            Reply::error(404, "not_found_error", "the model does not exist"),
        ),
        single_reply(
            "400",
            Reply::error(400, "invalid_request_error", "messages: nonsense"),
        ),
        single_reply(
            "400-policy",
            Reply::error(
                400,
                "invalid_prompt",
                "Your prompt was flagged as potentially violating our usage policy.",
            ),
        ),
        single_reply("200-html", Reply::html()),
        single_reply(
            "302",
            Reply::status(302).header("location", "https://elsewhere.example/login?from=here"),
        ),
    ]
}

/// Overflow errors in the words of many servers.
fn too_long() -> Vec<Case> {
    let bodies = [
        (
            "too-long-anthropic",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}"#,
        ),
        (
            "too-long-openai",
            400,
            r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        ),
        (
            "too-long-openrouter",
            400,
            r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens\"}}","provider_name":"X"}}}"#,
        ),
        (
            "too-long-ollama",
            400,
            r#"{"error":"input length exceeds the context length"}"#,
        ),
        (
            "too-long-vllm",
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4500 in the messages, 500 in the completion).","type":"BadRequestError","code":400}"#,
        ),
        (
            "too-long-llamacpp",
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
        ),
        (
            "too-long-bedrock",
            400,
            r#"{"message":"Input is too long for requested model."}"#,
        ),
        ("413", 413, ""),
    ];
    bodies
        .into_iter()
        .map(|(name, status, body)| Case::new(name, vec![json_body(status, body)]))
        .collect()
}

/// Faults that a smaller request fixes.
fn fixed_by_shrinking() -> Vec<Case> {
    let read = |path: &str| Reply::tool("read_file", json!({"path": path}));
    let too_long = || {
        Reply::error(
            400,
            "invalid_request_error",
            "prompt is too long: 208310 tokens > 200000 maximum",
        )
    };
    let image_refused = || Reply::error(400, "invalid_request_error", "Could not process image");
    let steps = |more: Vec<Reply>| {
        let steps = ["large.txt", "a.txt", "b.txt", "c.txt"].map(read);
        steps.into_iter().chain(more).collect()
    };
    let image_case = || {
        let mut case = Case::new("an-image", Vec::new());
        case.prompt = json!([{"type": "image", "mediaType": "image/png", "data": DOT}, {"type": "text", "text": "see"}]);
        case
    };
    vec![
        Case::new("too-long-once", steps(vec![too_long(), Reply::text("here I am")])),
        Case::new(
            "too-long-twice",
            steps(vec![
                too_long(),
                too_long(),
                Reply::text("a short summary"),
                Reply::text("here I am"),
            ]),
        ),
        Case {
            name: "image-refused",
            replies: vec![image_refused(), Reply::text("here I am")],
            ..image_case()
        },
        Case {
            name: "image-refused-twice",
            replies: vec![image_refused(), image_refused()],
            ..image_case()
        },
    ]
}

/// Faults before an answer begins.
fn connections() -> Vec<Case> {
    vec![
        Case::new("refused", Vec::new()).at(Where::Nobody),
        Case::fails_once("reset-before-headers", Reply::hang_up(Cut::Reset)),
        Case::fails_once("closed-before-headers", Reply::hang_up(Cut::Close)),
        Case::new("tls", Vec::new()).at(Where::UnknownCertificate),
        Case::fails_once("no-response", Reply::silent())
            .with(SHORT_TIMEOUTS)
            .takes(4),
        Case::new("no-response-twice", vec![Reply::silent(), Reply::silent()])
            .with(SHORT_TIMEOUTS)
            .takes(4),
        Case::new("no-headers", vec![Reply::text("here I am").without_headers()]),
    ]
}

/// Faults within a running answer.
pub fn streams(api: Api) -> Vec<Case> {
    let write = || Reply::new().call("write_file", json!({"path": "x", "content": "x"}));
    let ping = Duration::from_millis(200);
    let pinged = |reply: Reply| (0..20).fold(reply, |reply, _| reply.ping().delay(ping)).stall();
    let first_event = match api {
        Api::Anthropic => r#"{"type":"message_start","message":{"usage":{"input_tokens":0}}}"#,
        Api::OpenAi => r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
        Api::Responses => r#"{"type":"response.created","response":{"status":"in_progress"}}"#,
        Api::Gemini => r#"{"candidates":[{"content":{"role":"model","parts":[{"text":""}]}}]}"#,
        Api::Ollama => r#"{"message":{"role":"assistant","content":""},"done":false}"#,
    };
    let data = |json: &str| match api {
        Api::Ollama => format!("{json}\n"),
        _ => format!("data: {json}\n\n"),
    };
    let huge = data(&format!(
        "{{\"type\":\"x\",\"padding\":\"{}\"}}",
        "x".repeat(17 << 20)
    ));
    let large = "a large piece ".repeat(4_000);
    vec![
        Case::fails_once("cut-after-nothing", Reply::text("half").cut_after(0)),
        Case::fails_once("cut-after-the-first-event", Reply::text("half").cut_after(1)),
        Case::fails_once("cut-in-text", Reply::text("half of the an").close()),
        Case::fails_once(
            "cut-in-tool",
            Reply::text("I write.")
                .call_raw("write_file", "{\"path\": \"x\", \"con", 9)
                .close(),
        ),
        Case::fails_once("cut-behind-tool", write().close()),
        Case::fails_once(
            "cut-in-reasoning",
            Reply::new().unsigned_reasoning("hm, let me").close(),
        ),
        Case::fails_once("no-stop", Reply::text("half of the an").without_stop()),
        Case::fails_once("no-stop-behind-tool", write().without_stop()),
        Case::fails_once("stall", Reply::text("half of the an").stall())
            .with(SHORT_TIMEOUTS)
            .takes(4),
        Case::fails_once("stall-with-pings", pinged(Reply::text("half of the an")))
            .with(SHORT_TIMEOUTS)
            .takes(4),
        Case::fails_once("pings-alone", pinged(Reply::new()))
            .with(SHORT_TIMEOUTS)
            .takes(4),
        Case::fails_once(
            "malformed-sse",
            Reply::text("half")
                .raw("<<<>>>\n\n\0\n: ???\nfoo\n\n")
                .without_stop(),
        ),
        Case::new(
            "stray-lines",
            vec![
                Reply::text("here ")
                    .raw("<<<>>>\n\n: ???\nfoo: 1\n\n")
                    .with_text("I am"),
            ],
        ),
        Case::fails_once("malformed-json", Reply::text("half").raw(data("{nonsense"))),
        Case::fails_once(
            "error-event",
            Reply::text("half").fail("overloaded_error", "Overloaded"),
        ),
        Case::fails_once("error-event-first", Reply::new().fail("api_error", "broke")),
        Case::new(
            "error-event-permanent",
            vec![Reply::text("half").fail("authentication_error", "who are you?")],
        ),
        Case::fails_once(
            "error-event-throttled",
            Reply::text("half").fail("rate_limit_exceeded", "Please try again in 150ms."),
        )
        .requests_wait(150, 150),
        Case::fails_once("empty", Reply::new()),
        Case::new("empty-for-ever", vec![Reply::new(), Reply::new(), Reply::new()]),
        Case::new(
            "begun-twice",
            vec![Reply::new().raw(data(first_event)).with_text("here I am")],
        ),
        Case::new(
            "unknown-events",
            vec![
                Reply::text("here ")
                    .raw(data(r#"{"type":"brand.new","x":[1]}"#))
                    .with_text("I am"),
            ],
        ),
        Case::fails_once("an-event-too-large", Reply::text("half").raw(huge)).takes(10),
        Case::new("a-large-event", vec![Reply::deltas([large])]).takes(10),
        Case::new(
            "slow-drip",
            vec![Reply::text("here I am").drip(1).every(Duration::from_millis(20))],
        ),
        Case::new("refused-by-the-model", vec![Reply::text("no").stop("refusal")]),
    ]
}
