//! Error bodies as the APIs send them, and their classification.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::config::ApiKind;
use crate::provider::account::tests::build_account;
use crate::provider::error::Disposition;
use crate::provider::request_part::ToolPointer;

pub(super) fn classify(status: u16, body: &str) -> Failure {
    classify_at("https://api.example.com/v1", status, &[], body)
}

pub(super) fn classify_with(parts: &[RequestPart], body: &str) -> Failure {
    classify_parts(400, parts, body)
}

pub(super) fn classify_parts(status: u16, parts: &[RequestPart], body: &str) -> Failure {
    let account = build_account("work", ApiKind::OpenAi, "https://api.example.com/v1");
    classify_response(&RefusedResponse {
        account: &account,
        model: "the-model",
        status,
        headers: &HeaderMap::new(),
        body,
        parts: Some(&parts.iter().cloned().collect()),
    })
}

fn classify_at(base: &str, status: u16, headers: &[(&str, &str)], body: &str) -> Failure {
    let account = build_account("work", ApiKind::OpenAi, base);
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| {
            (
                name.parse::<HeaderName>().unwrap(),
                value.parse::<HeaderValue>().unwrap(),
            )
        })
        .collect();
    classify_response(&RefusedResponse {
        account: &account,
        model: "the-model",
        status,
        headers: &headers,
        body,
        parts: None,
    })
}

fn openai(message: &str, code: &str) -> String {
    serde_json::json!({"error": {"message": message, "type": "invalid_request_error", "code": code}})
        .to_string()
}

fn anthropic(kind: &str, message: &str) -> String {
    serde_json::json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
        .to_string()
}

#[test]
fn overlong_prompts_are_recognized_with_their_limit() {
    let ollama = r#"{"error":"input length exceeds the context length"}"#.to_owned();
    let llama = r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#;
    let openrouter = r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"This endpoint's maximum context length is 131,072 tokens. However, you requested about 140000 tokens\"}}","provider_name":"X"}}}"#;
    let vllm = r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4500 in the messages, 500 in the completion).","type":"BadRequestError","code":400}"#;
    let gemini = r#"[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#;
    for (status, body, limit) in [
        (400, anthropic("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"), Some(200_000)),
        (
            400,
            anthropic(
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 198000 + 8192 > 200000, decrease input length or `max_tokens` and try again",
            ),
            Some(200_000),
        ),
        (413, anthropic("request_too_large", "Request exceeds the maximum size"), None),
        (
            400,
            openai(
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
                "context_length_exceeded",
            ),
            Some(128_000),
        ),
        (400, openai("Your input exceeds the context window of this model.", "context_length_exceeded"), None),
        (
            400,
            openai("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000.", "x"),
            Some(272_000),
        ),
        (429, openai("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 41000.", "rate_limit_exceeded"), Some(30_000)),
        (400, ollama, None),
        (400, llama.to_owned(), Some(4_096)),
        (500, openai("request (5000 tokens) exceeds the available context size (4096 tokens)", "x"), Some(4_096)),
        (400, openrouter.to_owned(), Some(131_072)),
        (400, vllm.to_owned(), Some(4_096)),
        (400, openai("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", "x"), Some(4_096)),
        (400, gemini.to_owned(), Some(1_048_576)),
        (400, r#"{"message":"Input is too long for requested model."}"#.to_owned(), None),
        (
            400,
            r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error"}"#.to_owned(),
            Some(32_768),
        ),
        (
            400,
            openai("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", "x"),
            Some(131_072),
        ),
        (422, r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000"}"#.to_owned(), Some(4_097)),
        (400, r#"{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}"#.to_owned(), Some(4_096)),
        (400, openai("prompt token count of 140000 exceeds the limit of 128000", "model_max_prompt_tokens_exceeded"), Some(128_000)),
        (400, openai("Invalid request: Your request exceeded model token limit: 262144", "x"), Some(262_144)),
        (400, openai("The total length of the messages is too long.", "x"), None),
        (400, r#"{"message":"total length 70000 too long"}"#.to_owned(), None),
        (400, openai("Input length 70000 exceeds what this model takes", "x"), None),
        (413, String::new(), None),
    ] {
        let failure = classify(status, &body);
        assert_eq!(failure.fault, ProviderFault::PromptTooLong { limit }, "{body}");
        assert!(!failure.message.is_empty());
    }
}

#[test]
fn throttling_is_not_an_overlong_prompt() {
    for body in [
        openai("Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.", "rate_limit_exceeded"),
        r#"{"message":"Too many tokens, please wait before trying again."}"#.to_owned(),
        anthropic("rate_limit_error", "This request would exceed your organization's rate limit of 40,000 input tokens per minute"),
        openai("Rate limit exceeded: free-models-per-min.", "429"),
        r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"quotaId":"GenerateRequestsPerMinutePerProject"},{"retryDelay":"32s"}]}}]"#.to_owned(),
    ] {
        let failure = classify(429, &body);
        assert_eq!(failure.fault, ProviderFault::Throttled, "{body}");
        let google = body.contains("retryDelay");
        assert_eq!(failure.retry_after, google.then(|| Duration::from_secs(32)));
    }
}

#[test]
fn exhausted_quotas_are_recognized_with_their_reset() {
    let december = Some(1_796_083_200_000);
    for (status, body, reset_at) in [
        (
            429,
            openai(
                "You exceeded your current quota, please check your plan.",
                "insufficient_quota",
            ),
            None,
        ),
        (
            400,
            anthropic(
                "invalid_request_error",
                "Your credit balance is too low to access the Anthropic API.",
            ),
            None,
        ),
        (
            400,
            anthropic(
                "invalid_request_error",
                "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
            ),
            december,
        ),
        (
            402,
            r#"{"error":{"message":"Insufficient credits. Add more.","code":402}}"#.to_owned(),
            None,
        ),
        (402, openai("Insufficient Balance", "invalid_request_error"), None),
        (402, String::new(), None),
        (
            403,
            r#"{"error":{"message":"Key limit exceeded","code":403}}"#.to_owned(),
            None,
        ),
        (
            429,
            r#"{"error":{"message":"Rate limit exceeded: free-models-per-day","code":429}}"#.to_owned(),
            None,
        ),
        (
            429,
            r#"{"error":"you've reached your hourly usage limit, please upgrade to continue"}"#.to_owned(),
            None,
        ),
    ] {
        let failure = classify(status, &body);
        assert_eq!(
            failure.fault,
            ProviderFault::QuotaExhausted { reset_at },
            "{body}"
        );
        assert!(failure.user_action.unwrap().contains("add credit"));
    }
    let body = r#"{"error":{"message":"Rate limit exceeded: free-models-per-day","code":429}}"#;
    for (header, expected) in [
        ("1796083200000", december),
        ("1796083200", december),
        ("60", None),
    ] {
        let failure = classify_at("https://x.example", 429, &[("x-ratelimit-reset", header)], body);
        assert_eq!(
            failure.fault,
            ProviderFault::QuotaExhausted { reset_at: expected },
            "{header}"
        );
    }
}

#[test]
fn each_status_has_its_fault() {
    for (status, fault) in [
        (400, ProviderFault::InvalidRequest),
        (401, ProviderFault::Unauthorized),
        (403, ProviderFault::Unauthorized),
        (404, ProviderFault::NotFound),
        (405, ProviderFault::NotFound),
        (408, ProviderFault::Throttled),
        (409, ProviderFault::Throttled),
        (422, ProviderFault::InvalidRequest),
        (429, ProviderFault::Throttled),
        (500, ProviderFault::Server),
        (502, ProviderFault::Server),
        (503, ProviderFault::Server),
        (504, ProviderFault::Server),
        (524, ProviderFault::Server),
        (529, ProviderFault::Overloaded),
        (302, ProviderFault::NotTheApi),
    ] {
        let failure = classify(status, r#"{"error":{"message":"no"}}"#);
        assert_eq!((failure.fault, failure.status), (fault, Some(status)));
    }
}

#[test]
fn a_missing_model_is_told_from_a_refused_key() {
    let litellm = |kind: &str, message: &str| {
        serde_json::json!({"error": {"message": message, "type": kind, "param": "model", "code": "401"}})
            .to_string()
    };
    let openrouter = r#"{"error":{"message":"the-model is not a valid model ID","code":400}}"#.to_owned();
    let (missing, key, invalid) = (
        ProviderFault::NotFound,
        ProviderFault::Unauthorized,
        ProviderFault::InvalidRequest,
    );
    for (status, body, fault) in [
        (
            403,
            openai(
                "Project `p` does not have access to model `the-model`",
                "model_not_found",
            ),
            &missing,
        ),
        (
            403,
            openai("Project `p` does not have access to model `The-Model`", "x"),
            &missing,
        ),
        (
            403,
            openai("Project `p` does not have access to the API", "x"),
            &key,
        ),
        (
            403,
            openai(
                "You do not have access to the organization tied to the API key.",
                "x",
            ),
            &key,
        ),
        (
            400,
            litellm(
                "x",
                "/chat/completions: Invalid model name passed in model=the-model.",
            ),
            &missing,
        ),
        (
            401,
            litellm(
                "key_model_access_denied",
                "key not allowed to access model. Tried to access x",
            ),
            &missing,
        ),
        (
            403,
            litellm("team_model_access_denied", "team not allowed to access model."),
            &missing,
        ),
        (
            401,
            litellm("auth_error", "Authentication Error, the-model: expired key"),
            &key,
        ),
        (400, openrouter, &missing),
        (
            400,
            openai("The requested model is not supported.", "model_not_supported"),
            &missing,
        ),
        (
            400,
            anthropic("invalid_request_error", "Unsupported model: the-model"),
            &missing,
        ),
        (
            400,
            anthropic("invalid_request_error", "the-model: unsupported value"),
            &invalid,
        ),
        (
            400,
            anthropic("invalid_request_error", "an unsupported model of the tool `x`"),
            &invalid,
        ),
        (
            403,
            anthropic(
                "permission_error",
                "Your API key does not have permission to use the specified model",
            ),
            &missing,
        ),
        (
            403,
            anthropic(
                "permission_error",
                "Your API key does not have permission to use the specified resource",
            ),
            &key,
        ),
        (
            401,
            anthropic("authentication_error", "invalid x-api-key for the-model"),
            &key,
        ),
        (
            500,
            openai("unsupported model: the-model", "x"),
            &ProviderFault::Server,
        ),
    ] {
        assert_eq!(&classify(status, &body).fault, fault, "{body}");
    }
    let action = classify(403, &openai("no access to model the-model", "model_not_found")).user_action;
    assert!(action.unwrap().starts_with("choose a model other than the-model"));
}

#[test]
fn overloads_refused_images_and_policies_are_recognized() {
    for (status, body, fault) in [
        (529, anthropic("overloaded_error", "Overloaded"), ProviderFault::Overloaded),
        (503, r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#.to_owned(), ProviderFault::Overloaded),
        (400, anthropic("invalid_request_error", "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes"), ProviderFault::ImageRefused),
        (400, anthropic("invalid_request_error", "Could not process image"), ProviderFault::ImageRefused),
        (400, openai("The image data you provided does not represent a valid image. Please check your input.", "invalid_request_error"), ProviderFault::ImageRefused),
        (400, openai("cannot identify image file <_io.BytesIO object at 0x7f>", "BadRequestError"), ProviderFault::ImageRefused),
        (500, r#"{"error":"failed to process inputs: image: unknown format"}"#.to_owned(), ProviderFault::ImageRefused),
        (400, r#"{"error":{"code":400,"message":"Provided image is not valid.","status":"INVALID_ARGUMENT"}}"#.to_owned(), ProviderFault::ImageRefused),
        (400, anthropic("invalid_request_error", "messages.2.content.0.tool_result.content.1.pdf.source.base64.data: The PDF specified was not valid."), ProviderFault::ImageRefused),
        (400, anthropic("invalid_request_error", "tool_choice: unexpected field of report.pdf"), ProviderFault::InvalidRequest),
        (400, anthropic("invalid_request_error", "A maximum of 100 PDF pages may be provided."), ProviderFault::ImageRefused),
        (400, r#"{"error":{"message":"Invalid value.","type":"invalid_request_error","param":"input[0].content[1].file_data"}}"#.to_owned(), ProviderFault::ImageRefused),
        (400, r#"{"error":{"code":400,"message":"The document has no pages.","status":"INVALID_ARGUMENT"}}"#.to_owned(), ProviderFault::ImageRefused),
        (404, r#"{"error":{"message":"No endpoints found that support image input","code":404}}"#.to_owned(), ProviderFault::ImageRefused),
        (500, openai("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", "x"), ProviderFault::ImageRefused),
        (400, openai("Invalid content type. image_url is only supported by certain models.", "x"), ProviderFault::ImageRefused),
        (500, r#"{"error":"this model is missing data required for image input"}"#.to_owned(), ProviderFault::ImageRefused),
        (400, anthropic("invalid_request_error", "Output blocked by content filtering policy"), ProviderFault::ContentPolicy),
        (400, openai("The response was filtered", "content_filter"), ProviderFault::ContentPolicy),
        (403, r#"{"error":{"message":"X requires moderation on Y. Your input was flagged","code":403,"metadata":{"reasons":["violence"]}}}"#.to_owned(), ProviderFault::ContentPolicy),
        (400, openai("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", "invalid_prompt"), ProviderFault::ContentPolicy),
    ] {
        assert_eq!(classify(status, &body).fault, fault, "{body}");
    }
}

#[test]
fn parts_that_a_request_works_without_are_recognized() {
    let reasoning = ProviderFault::PartRefused(RequestPart::Reasoning);
    let verbosity = ProviderFault::PartRefused(RequestPart::Verbosity);
    let refused = |parameter: &str| {
        let error = serde_json::json!({"message": "Unsupported value: 'x'", "code": "unsupported_value", "param": parameter});
        serde_json::json!({ "error": error }).to_string()
    };
    for (status, body, fault) in [
        (
            400,
            openai("could not be verified", "invalid_encrypted_content"),
            reasoning.clone(),
        ),
        (
            400,
            anthropic(
                "invalid_request_error",
                "messages.1.content.0: Invalid `signature` in `thinking` block",
            ),
            reasoning.clone(),
        ),
        (
            400,
            anthropic(
                "invalid_request_error",
                "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
            ),
            reasoning.clone(),
        ),
        (
            400,
            anthropic(
                "invalid_request_error",
                "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot \
                 be modified.",
            ),
            reasoning,
        ),
        (400, refused("text.verbosity"), verbosity.clone()),
        (
            400,
            openai("Unknown parameter: 'verbosity'", "x"),
            verbosity.clone(),
        ),
        (
            400,
            openai("text.verbosity: Extra inputs are not permitted", "x"),
            verbosity,
        ),
        (
            400,
            openai("messages[2]: `verbosity.md` is invalid", "x"),
            ProviderFault::InvalidRequest,
        ),
        (
            400,
            refused("tools[0].parameters.verbosity"),
            ProviderFault::ToolsRefused(vec![ToolPointer::Index(0)]),
        ),
        (500, refused("text.verbosity"), ProviderFault::Server),
        (
            400,
            refused("reasoning.effort"),
            ProviderFault::PartRefused(RequestPart::Effort),
        ),
    ] {
        assert_eq!(classify(status, &body).fault, fault, "{body}");
    }
    for (body, is_effort) in [
        (refused("reasoning.effort"), true),
        (
            openai("This model does not support the effort parameter.", "x"),
            true,
        ),
        (
            openai("`reasoning_effort` is not supported with this model", "x"),
            true,
        ),
        (
            openai("Argument not supported on this model: reasoningEffort", "x"),
            true,
        ),
        (
            anthropic("x", "output_config.effort: Input should be 'low' or 'high'"),
            true,
        ),
        (
            anthropic("x", "tools.0.input_schema.effort: Input should be a string"),
            false,
        ),
        (
            openai("messages[2]: 'in an effort to help' is invalid", "x"),
            false,
        ),
    ] {
        let advice = classify(400, &body).user_action.unwrap();
        assert_eq!(advice.contains("reasoning_effort"), is_effort, "{body}: {advice}");
    }
}

#[test]
fn refused_parts_are_recognized_in_the_words_of_every_server() {
    let error = |message: &str| openai(message, "x");
    let parameter =
        |name: &str| serde_json::json!({"error": {"message": "Invalid.", "param": name}}).to_string();
    for (body, part) in [
        (error("thinking: Extra inputs are not permitted"), RequestPart::Thinking),
        (error("thinking.enabled.budget_tokens: Input should be greater than 1024"), RequestPart::Thinking),
        (error("Thinking is not enabled for models/x"), RequestPart::Thinking),
        (error("\"m\" does not support thinking"), RequestPart::Thinking),
        (error("registry.ollama.ai/x think value \"low\" is not supported for this model"), RequestPart::Thinking),
        (error("Invalid JSON payload received. Unknown name \"thinkingConfig\" at 'generation_config': Cannot find field."), RequestPart::Thinking),
        (error("Thinking level is not supported for this model."), RequestPart::Effort),
        (error("Budget 0 is invalid. This model only works in thinking mode."), RequestPart::Effort),
        (error("property 'reasoning_effort' is unsupported"), RequestPart::Effort),
        (parameter("reasoning.summary"), RequestPart::ReasoningSummary),
        (parameter("include[0]"), RequestPart::EncryptedReasoning),
        (error("Unexpected value(s) `interleaved-thinking-2025-05-14` for the `anthropic-beta` header."), RequestPart::InterleavedThinking),
        (error("system.0.cache_control: Extra inputs are not permitted"), RequestPart::CacheMarks),
        (error("tools.3.custom.cache_control.ephemeral.ttl: Extra inputs are not permitted"), RequestPart::CacheTtl),
        (error("cache_control.ttl: Input should be '5m'"), RequestPart::CacheTtl),
        (error("Unexpected value(s) `extended-cache-ttl-2025-04-11` for the `anthropic-beta` header."), RequestPart::CacheTtl),
        (error("Unknown parameter: 'prompt_cache_key'."), RequestPart::CacheKey),
        (error("Usage is not supported"), RequestPart::CostReport),
        (error("this model: thinking is not allowed"), RequestPart::Thinking),
        (error("The parameter verbosity is not supported"), RequestPart::Verbosity),
        (error("1 validation error for Request\nstore\n  Extra inputs are not permitted [type=extra_forbidden]"), RequestPart::NoStorage),
        (error("temperature: Input should be less than 1; store: Extra inputs are not permitted"), RequestPart::NoStorage),
        (error("For this model, stream_options is not supported."), RequestPart::TokenCounts),
        (error("Unrecognized request argument supplied: stream_options"), RequestPart::TokenCounts),
        (r#"{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}"#.to_owned(), RequestPart::TokenCounts),
        (error("[{'type': 'extra_forbidden', 'loc': ('body', 'store'), 'msg': 'Extra inputs are not permitted', 'input': False}]"), RequestPart::NoStorage),
        (error("Additional properties are not allowed ('store' was unexpected) - 'store'"), RequestPart::NoStorage),
        (error("json: unknown field \"shift\""), RequestPart::NoTruncation),
        (parameter("tools[0].strict"), RequestPart::StrictFlag),
        (error("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."), RequestPart::OutputLimit),
        (error("'messages.2' : property 'reasoning_content' is unsupported"), RequestPart::ReasoningContent),
        (error("thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"), RequestPart::BareCalls),
        (error("The `reasoning_content` in the thinking mode must be passed back to the API."), RequestPart::BareCalls),
    ] {
        assert_eq!(classify(400, &body).fault, ProviderFault::PartRefused(part.clone()), "{body}");
        assert_ne!(classify(500, &body).fault, ProviderFault::PartRefused(part), "{body}");
    }
    for body in [
        error("messages.1.content.0.tool_use.input.store: Extra inputs are not permitted"),
        error("Please store is_include in the file"),
        error("messages: I am thinking about 'store'"),
        error("restore is not supported"),
        error("Tool usage is not supported by this model."),
        error("Vector store is not supported"),
        error("With tools, thinking is not allowed."),
        parameter("messages[0].content[0].text"),
        // A limit that is too low is a known parameter.
        r#"{"error":{"message":"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead.","param":"max_output_tokens"}}"#.to_owned(),
    ] {
        assert_eq!(
            classify(400, &body).fault,
            ProviderFault::InvalidRequest,
            "{body}"
        );
    }
}

#[test]
fn refused_tools_are_found_by_position_or_name() {
    let at = ToolPointer::Index;
    let named = |name: &str| vec![ToolPointer::Name(name.to_owned())];
    for (message, tools) in [
        (
            "tools.13.custom.input_schema: JSON schema is invalid.",
            vec![at(13)],
        ),
        (
            "tools.2.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'",
            vec![at(2)],
        ),
        (
            "Invalid schema for function 'mcp__A__x': array schema missing items.",
            named("mcp__a__x"),
        ),
        (
            "Unable to submit request because `mcp__a__x` functionDeclaration `parameters` schema is wrong",
            named("mcp__a__x"),
        ),
        (
            "Unknown name \"type\" at 'tools[0].function_declarations[4].parameters': x. Unknown name \"type\" at \
             'tools[0].function_declarations[8].parameters': x. And 'tools.function_declarations[4]'",
            vec![at(4), at(8)],
        ),
        (
            "The value at toolConfig.tools.7.toolSpec.inputSchema.json is invalid",
            vec![at(7)],
        ),
        (
            "[{'loc': ('body', 'tools', 3, 'function', 'parameters'), 'msg': 'Input should be a dict'}]",
            vec![at(3)],
        ),
    ] {
        let fault = classify(400, &openai(message, "x")).fault;
        assert_eq!(fault, ProviderFault::ToolsRefused(tools), "{message}");
    }
    let long = r#"{"error":{"message":"Invalid 'tools[13].function.description': string too long.","code":"string_above_max_length","param":"tools[13].function.description"}}"#;
    assert_eq!(
        classify(400, long).fault,
        ProviderFault::ToolsRefused(vec![at(13)])
    );
    for message in [
        "tools: Tool names must be unique.",
        "Tool call validation failed: the tool 'x' was not in request.tools",
        "Invalid 'tools': array too long. Expected an array with maximum length 128",
    ] {
        assert_eq!(
            classify(400, &openai(message, "x")).fault,
            ProviderFault::InvalidRequest,
            "{message}"
        );
    }
}

/// Nothing can be left out of a request that does not have it, and no such part hides another one.
#[test]
fn only_parts_of_the_request_are_refused() {
    let effort = openai("`reasoning_effort` is not supported with this model", "x");
    let failure = classify_with(&[RequestPart::NoStorage], &effort);
    assert_eq!(failure.fault, ProviderFault::InvalidRequest);
    let action = failure.user_action.unwrap();
    assert!(action.starts_with("choose a model other than"), "{action}");
    let both = openai(
        "thinking: Extra inputs are not permitted; store: Extra inputs are not permitted",
        "x",
    );
    for (parts, part) in [
        (&[RequestPart::NoStorage][..], RequestPart::NoStorage),
        (
            &[RequestPart::NoStorage, RequestPart::Thinking],
            RequestPart::Thinking,
        ),
    ] {
        assert_eq!(
            classify_with(parts, &both).fault,
            ProviderFault::PartRefused(part)
        );
    }
}

/// What an error repeats of the conversation refuses nothing.
#[test]
fn repeated_requests_refuse_nothing() {
    let words = "Unknown parameter: 'store'. thinking is not enabled for it. tools[3].function, function 'first': schema";
    for message in [
        format!(
            "[{{'type': 'string_type', 'loc': ('body', 'messages', 1, 'content'), 'msg': 'Input should be a valid \
             string', 'input': [{{'text': \"{words}\"}}]}}]"
        ),
        format!(
            "1 validation error for ChatCompletionRequest\nmessages.1\n  Input should be a valid string \
             [type=string_type, input_value=\"{words}\", input_type=str]"
        ),
        format!("Invalid user message passed in {{'role': 'user', 'content': \"{words}\"}}"),
        format!("Failed to parse messages: Missing 'content'; messages = [{{\"content\": \"{words}\"}}]"),
        format!("Failed to parse tools: Missing 'name'; tools = [{{\"description\": \"{words}\"}}]"),
        format!("the body is malformed: {{\"input\": \"{words}\"}}"),
        format!("the body is malformed: {{\\\"input\\\": \"{words}\"}}"),
    ] {
        let behind = serde_json::json!({"message": "Provider returned error", "metadata": {"raw": message}});
        for body in [
            openai(&message, "x"),
            serde_json::json!({ "error": behind }).to_string(),
            message.clone(),
        ] {
            assert_eq!(
                classify(400, &body).fault,
                ProviderFault::InvalidRequest,
                "{body}"
            );
        }
    }
    // It still refuses what it says before.
    let store = "[{'loc': ('body', 'store'), 'msg': 'Extra inputs are not permitted', 'input': \"Unknown parameter: \
                 'verbosity'\"}]";
    assert_eq!(
        classify(400, &openai(store, "x")).fault,
        ProviderFault::PartRefused(RequestPart::NoStorage)
    );
}

#[test]
fn messages_are_found_in_every_body_format() {
    for (body, message) in [
        (openai("one", "c"), "one"),
        (anthropic("x", "two"), "two"),
        (r#"{"error":"three"}"#.to_owned(), "three"),
        (r#"{"message":"four"}"#.to_owned(), "four"),
        (r#"{"detail":"five"}"#.to_owned(), "five"),
        (
            r#"{"detail":[{"msg":"six","loc":["body"]},{"msg":"seven"}]}"#.to_owned(),
            "six; seven",
        ),
        (r#"[{"error":{"message":"eight"}}]"#.to_owned(), "eight"),
        ("plain  nine\n".to_owned(), "plain nine"),
        (
            "<html><head><TITLE>502 Bad Gateway</TITLE></head></html>".to_owned(),
            "502 Bad Gateway",
        ),
        (String::new(), "status 502 without a message"),
        ("{}".to_owned(), "status 502 without a message"),
        ("null".to_owned(), "status 502 without a message"),
        (
            r#"{"error":{"message":"Provider returned error","metadata":{"raw":"down"}}}"#.to_owned(),
            "Provider returned error: down",
        ),
    ] {
        assert_eq!(classify(502, &body).message, message, "{body}");
    }
}

#[test]
fn a_refusal_that_is_a_web_page_is_not_a_wrong_key() {
    for status in [401, 403, 451, 511] {
        let page = "\n<!DOCTYPE html>\n<html><head><title>Guest Wi-Fi login</title></head></html>";
        let failure = classify_at(
            "https://x.example/v1",
            status,
            &[("content-type", "text/html")],
            page,
        );
        assert_eq!(failure.fault, ProviderFault::NotTheApi);
        assert_eq!(
            failure.message,
            format!(
                "a web page (\"Guest Wi-Fi login\") answered for x.example with status {status}: that is not the API but a \
                 proxy, a firewall, or the login of a network"
            )
        );
        let action = failure.user_action.unwrap();
        assert!(
            action.starts_with("log in to the network in a browser, or check the proxy"),
            "{action}"
        );
    }
    for refusal in ["invalid key", r#"{"error":{"message":"<html>"}}"#, ""] {
        assert_eq!(
            classify(401, refusal).fault,
            ProviderFault::Unauthorized,
            "{refusal}"
        );
    }
}

#[test]
fn a_response_from_something_else_is_described() {
    let page = [("content-type", "text/html")];
    let failure = classify_at(
        "https://x.example/v1",
        200,
        &page,
        "<html><title>Login</title></html>",
    );
    assert_eq!(failure.fault, ProviderFault::NotTheApi);
    assert_eq!(
        failure.message,
        "x.example answered with text/html instead of an event stream"
    );
    assert_eq!(
        failure.user_action.as_deref(),
        Some("check [provider.work] base_url")
    );
    let moved = [("location", "https://login.example/?token=secret")];
    let failure = classify_at("https://x.example/v1", 302, &moved, "");
    assert_eq!(
        failure.message,
        "x.example redirects to https://login.example/ instead of answering"
    );
    let json = [("content-type", "application/json")];
    let failure = classify_at(
        "https://x.example/v1",
        200,
        &json,
        r#"{"error":{"message":"Overloaded","code":503}}"#,
    );
    assert_eq!(failure.fault, ProviderFault::Overloaded);
}

#[test]
fn user_actions_name_what_to_change() {
    let action =
        |base: &str, status: u16, body: &str| classify_at(base, status, &[], body).user_action.unwrap();
    let model = r#"{"error":{"message":"model not found"}}"#;
    assert_eq!(
        action("http://localhost:11434/v1", 404, model),
        "run `ollama pull the-model`"
    );
    let other = action("https://x.example/v1", 404, model);
    assert_eq!(
        other,
        "choose a model other than the-model with /model, agent/setModel or [provider.work] model"
    );
    assert_eq!(
        action("https://x.example/v1", 404, "nope"),
        "check [provider.work] base_url"
    );
    let openrouter = action("https://openrouter.ai/api/v1", 401, "");
    assert_eq!(
        openrouter,
        "check the key in OPENROUTER_API_KEY or [provider.work] api_key, or renew that of `agentls login work`"
    );
    let tools = action(
        "http://localhost:11434/v1",
        400,
        r#"{"error":"gemma does not support tools"}"#,
    );
    assert!(tools.contains("call tools"), "{tools}");
}

#[test]
fn errors_inside_a_stream_are_classified() {
    let account = build_account("work", ApiKind::Anthropic, "https://api.example.com");
    for (data, fault) in [
        (
            anthropic("overloaded_error", "Overloaded"),
            ProviderFault::Overloaded,
        ),
        (
            anthropic("api_error", "Internal server error"),
            ProviderFault::Server,
        ),
        (
            anthropic("rate_limit_error", "slow down"),
            ProviderFault::Throttled,
        ),
        (
            anthropic("authentication_error", "no"),
            ProviderFault::Unauthorized,
        ),
        (
            anthropic(
                "invalid_request_error",
                "prompt is too long: 300000 tokens > 200000 maximum",
            ),
            ProviderFault::PromptTooLong { limit: Some(200_000) },
        ),
        (
            anthropic("invalid_request_error", "bad"),
            ProviderFault::InvalidRequest,
        ),
        (anthropic("mystery", "?"), ProviderFault::ErrorEvent),
        (
            r#"{"error":{"code":502,"message":"Provider disconnected"}}"#.to_owned(),
            ProviderFault::Server,
        ),
        (
            r#"{"error":"model runner has unexpectedly stopped"}"#.to_owned(),
            ProviderFault::ErrorEvent,
        ),
    ] {
        assert_eq!(classify_stream_error(&account, "m", &data).fault, fault, "{data}");
    }
}

#[test]
fn a_refused_key_is_recognized_without_status_401() {
    let google = r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]"#;
    let xai = r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: x***. You can obtain one at the console."}"#;
    for body in [google, xai, &openai("no", "invalid_api_key")] {
        let failure = classify(400, body);
        assert_eq!(failure.fault, ProviderFault::Unauthorized, "{body}");
        assert!(failure.user_action.unwrap().contains("check the key"), "{body}");
    }
    let other = classify(400, &openai("tool name too long: 80 > 64", "x"));
    assert_eq!(other.fault, ProviderFault::InvalidRequest);
}

#[test]
fn errors_in_unknown_formats_keep_their_text() {
    let account = build_account("work", ApiKind::OpenAi, "https://x.example");
    for body in [
        r#"{"error":{"reason":"the pump is broken"}}"#,
        r#"{"errors":["the pump is broken"]}"#,
        "the pump is broken",
    ] {
        assert!(
            classify_stream_error(&account, "m", body)
                .message
                .contains("pump"),
            "{body}"
        );
        assert!(classify(500, body).message.contains("pump"), "{body}");
    }
}

#[test]
fn should_retry_header_overrides_the_status() {
    for (status, word, expected) in [
        (500, "false", Disposition::NextOnRoute),
        (429, "false", Disposition::NextOnRoute),
        (500, "true", Disposition::Retry),
        (400, "true", Disposition::Retry),
        (400, "false", Disposition::Fail),
        (500, "perhaps", Disposition::Retry),
        (409, "", Disposition::Retry),
    ] {
        let body = openai("no", "x");
        let failure = classify_at("https://x.example", status, &[("x-should-retry", word)], &body);
        let account = build_account("work", ApiKind::OpenAi, "https://x.example");
        assert_eq!(
            account.build_provider_error("m", failure).disposition(),
            expected,
            "{status} {word}"
        );
    }
}

#[test]
fn the_request_id_is_kept() {
    let failure = classify_at("https://x.example", 500, &[("x-request-id", "r-7")], "");
    assert_eq!(failure.request_id.as_deref(), Some("r-7"));
    assert_eq!(
        classify(500, &anthropic("api_error", "x")).request_id.as_deref(),
        Some("req_1")
    );
}
