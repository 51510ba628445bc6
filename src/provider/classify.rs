//! Interprets what providers say about failures: status, headers and body in, a [`Failure`] out. No other code
//! decides by the text of a message.
//!
//! Knows the texts that APIs and servers are known to send, and matches them in lower case. The order of the checks
//! matters: a prompt that is too long comes first, because its status differs between servers. It decides no
//! retries: see `error` and `retry`. `tests/e2e/faults/cases.rs` pins every case.

mod error_body;
mod named_field;
mod output_limit;
mod refusal;
mod refused_tools;
mod retry_after;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wording_tests;

pub(crate) use retry_after::{days_since_epoch, retry_after};

use error_body::ErrorBody;
use named_field::find_named_part;
use refusal::choose_refusal;

use reqwest::header::HeaderMap;

use super::account::{ProviderAccount, naming_at};
use super::error::{Failure, ProviderFault};
use super::models::{KnownList, current_day, suggest_model_names};
use super::request_part::{RequestPart, RequestParts};
use crate::base::clock;

/// A response that is not an event stream.
pub(crate) struct RefusedResponse<'a> {
    pub(crate) account: &'a ProviderAccount,
    pub(crate) model: &'a str,
    pub(crate) status: u16,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a str,
    /// The optional parts that the request has; `None` if nobody knows.
    pub(crate) parts: Option<&'a RequestParts>,
}

/// Returns the id that the provider gave a request.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    [
        "request-id",
        "x-request-id",
        "x-amzn-requestid",
        "x-generation-id",
        "cf-ray",
    ]
    .iter()
    .find_map(|name| headers.get(*name)?.to_str().ok())
    .map(str::to_owned)
}

/// Classifies a response with an error status, or with a body that is not a stream.
pub(crate) fn classify_response(refusal: &RefusedResponse<'_>) -> Failure {
    let body = ErrorBody::read(refusal.body);
    let after = retry_after(refusal.headers, clock::wall_ms());
    let fault = match refusal.status {
        // Some gateways send errors with status 200.
        200..300 if body.is_error => choose_fault(None, &body, refusal),
        // Neither an error nor an event stream, so something other than the API answered.
        200..400 => ProviderFault::NotTheApi,
        status => choose_fault(Some(status), &body, refusal),
    };
    let message = match (&fault, body.message.is_empty()) {
        (ProviderFault::NotTheApi, _) => not_the_api(refusal, &body),
        (_, false) => body.message.clone(),
        (_, true) => format!("status {} without a message", refusal.status),
    };
    let is_page = fault == ProviderFault::NotTheApi && is_refusal_page(Some(refusal.status), refusal);
    let user_action = if is_page {
        let name = &refusal.account.name;
        Some(format!(
            "log in to the network in a browser, or check the proxy and [provider.{name}] base_url"
        ))
    } else {
        suggest_user_action(&fault, refusal.account, refusal.model, &body)
    };
    Failure {
        user_action,
        request_id: request_id(refusal.headers).or(body.request_id),
        status: Some(refusal.status),
        should_retry: should_retry(refusal.headers),
        retry_after: after.or(body.retry_after),
        message,
        fault,
    }
}

/// Returns the provider's own advice on whether to retry.
fn should_retry(headers: &HeaderMap) -> Option<bool> {
    headers.get("x-should-retry")?.to_str().ok()?.trim().parse().ok()
}

/// Reports whether text in a stream contains an error message.
pub(crate) fn has_message(data: &str) -> bool {
    !ErrorBody::read(data).message.is_empty()
}

/// Classifies an error inside a stream; `data` is the whole event.
pub(crate) fn classify_stream_error(account: &ProviderAccount, model: &str, data: &str) -> Failure {
    let body = ErrorBody::read(data);
    let response = RefusedResponse {
        account,
        model,
        status: 200,
        headers: &HeaderMap::new(),
        body: data,
        parts: None,
    };
    let fault = choose_fault(body.status, &body, &response);
    let message = if body.message.is_empty() {
        "the provider sent an error without a message".to_owned()
    } else {
        body.message.clone()
    };
    Failure {
        user_action: suggest_user_action(&fault, account, model, &body),
        status: body.status,
        should_retry: None,
        request_id: body.request_id,
        retry_after: body.retry_after,
        message,
        fault,
    }
}

/// Returns whether a refusal is a web page. An API refuses with JSON or plain text; a page is from a firewall, a proxy, or
/// the login of a network.
fn is_refusal_page(status: Option<u16>, refusal: &RefusedResponse<'_>) -> bool {
    // A server that asks for a login by HTTP's own means is meant, whatever it shows.
    let asks_for_key = status == Some(401) && refusal.headers.contains_key("www-authenticate");
    matches!(status, Some(401 | 403 | 451 | 511)) && !asks_for_key && is_web_page(refusal)
}

fn is_web_page(refusal: &RefusedResponse<'_>) -> bool {
    let start: String = refusal.body.trim_start().chars().take(14).collect();
    let start = start.to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

fn not_the_api(refusal: &RefusedResponse<'_>, body: &ErrorBody) -> String {
    let host = refusal.account.host_and_port();
    let header = |name: &str| refusal.headers.get(name).and_then(|value| value.to_str().ok());
    if is_refusal_page(Some(refusal.status), refusal) {
        let title = match body.message.as_str() {
            "" => String::new(),
            title => format!(" ({title:?})"),
        };
        return format!(
            "a web page{title} answered for {host} with status {}: that is not the API but a proxy, a firewall, or the \
             login of a network",
            refusal.status
        );
    }
    match (refusal.status, header("location"), header("content-type")) {
        (300..400, Some(to), _) => {
            // The query of a login page may contain a token, so it stays out of the message.
            let to = to.split(['?', '#']).next().unwrap_or(to);
            format!("{host} redirects to {to} instead of answering")
        }
        (_, _, Some(kind)) => format!("{host} answered with {kind} instead of an event stream"),
        _ => format!("{host} did not answer with an event stream"),
    }
}

/// Chooses the fault. Checks by text come before the status, because one status covers several faults. `status` may
/// also come from the body.
fn choose_fault(status: Option<u16>, body: &ErrorBody, response: &RefusedResponse<'_>) -> ProviderFault {
    let throttled = status == Some(429);
    let refusal = choose_refusal(status, body, response.parts);
    // Before the length of the prompt: the description of a tool may be too long.
    if body.parameter.starts_with("tools")
        && let Some(refusal) = &refusal
    {
        return refusal.clone();
    }
    if let Some((limit, window)) = output_limit::parse_room(&body.text) {
        return ProviderFault::OutputLimit {
            limit: Some(limit),
            window: Some(window),
        };
    }
    if is_prompt_too_long(body, throttled) {
        return ProviderFault::PromptTooLong {
            limit: body.window.or_else(|| parse_context_limit(&body.text)),
        };
    }
    // Before the status: a used-up quota often comes with 429, but waiting would not help (R-PROV-2).
    if is_quota_exhausted(status, body) {
        return ProviderFault::QuotaExhausted {
            reset_at: reset_at(&body.text, response.headers),
        };
    }
    if image_refused(status, body) {
        return ProviderFault::ImageRefused;
    }
    if content_policy(status, body) {
        return ProviderFault::ContentPolicy;
    }
    if let Some(refusal) = refusal {
        return refusal;
    }
    if status == Some(413) {
        // After the image check: some servers send 413 for an image that is too large.
        return ProviderFault::PromptTooLong { limit: None };
    }
    if body.contains_any(&["overloaded", "slow_down", "insufficient_system_resource"]) || status == Some(529)
    {
        return ProviderFault::Overloaded;
    }
    if matches!(status, Some(400 | 422)) && output_limit::is_refused(&body.text) {
        return ProviderFault::OutputLimit {
            limit: output_limit::parse_output_limit(&body.text),
            window: None,
        };
    }
    let fault = choose_fault_by_status(status, body, response);
    let named = response.parts.filter(|_| matches!(status, Some(400 | 422)));
    match named.and_then(|parts| find_named_part(&body.statement, &body.parameter, parts)) {
        Some(part) if fault == ProviderFault::InvalidRequest => ProviderFault::PartRefused(part),
        _ => fault,
    }
}

/// Chooses the fault for an error whose words say nothing more.
fn choose_fault_by_status(
    status: Option<u16>,
    body: &ErrorBody,
    response: &RefusedResponse<'_>,
) -> ProviderFault {
    match status {
        status if is_refusal_page(status, response) => ProviderFault::NotTheApi,
        Some(400 | 401 | 403 | 422) | None if is_model_missing(body, response.model) => {
            ProviderFault::NotFound
        }
        Some(401 | 403) => ProviderFault::Unauthorized,
        Some(400) | None if key_refused(body) => ProviderFault::Unauthorized,
        Some(404 | 405 | 410) => ProviderFault::NotFound,
        Some(408 | 409 | 429) => ProviderFault::Throttled,
        Some(500..600) if missing_option(body).is_none() => ProviderFault::Server,
        Some(_) => ProviderFault::InvalidRequest,
        None => fault_of_code(&body.code),
    }
}

/// Returns the options that an engine must be started with, if it says that it cannot call tools without them.
fn missing_option(body: &ErrorBody) -> Option<&'static str> {
    const OPTIONS: [(&str, &str); 2] = [
        (
            "requires --enable-auto-tool-choice",
            "vLLM with --enable-auto-tool-choice --tool-call-parser NAME",
        ),
        ("requires --jinja", "llama.cpp with --jinja"),
    ];
    let mut options = OPTIONS.iter();
    options
        .find(|(words, _)| body.text.contains(words))
        .map(|(_, option)| *option)
}

/// Chooses the fault by code, for errors inside a stream that have no status.
fn fault_of_code(code: &str) -> ProviderFault {
    let has = |any: &[&str]| any.iter().any(|word| code.contains(word));
    if has(&["rate_limit", "too_many_requests", "resource_exhausted", "throttl"]) {
        ProviderFault::Throttled
    } else if has(&["authentication", "permission", "invalid_api_key", "unauthorized"]) {
        ProviderFault::Unauthorized
    } else if has(&["not_found"]) {
        ProviderFault::NotFound
    } else if has(&["api_error", "server_error", "internal", "unavailable", "timeout"]) {
        ProviderFault::Server
    } else if has(&["invalid_request"]) {
        ProviderFault::InvalidRequest
    } else {
        ProviderFault::ErrorEvent
    }
}

fn is_prompt_too_long(body: &ErrorBody, throttled: bool) -> bool {
    const CODES: [&str; 4] = [
        "context_length_exceeded",
        "exceed_context_size",
        "request_too_large",
        "string_above_max_length",
    ];
    const TEXTS: [&str; 27] = [
        "prompt is too long",
        "prompt too long",
        "input is too long",
        "input too long",
        "exceed context limit",
        "exceeds context limit",
        "maximum context length",
        "maximum model length",
        "maximum prompt length",
        "exceeds the context window",
        "exceeds the available context size",
        "exceed the context window",
        "exceeds the model's context",
        "exceeds the model's maximum context",
        "exceeds maximum context",
        "exceeds the context length",
        "longer than the model's context length",
        "longer than the context length",
        "greater than the context length",
        "exceeds the maximum number of tokens allowed",
        "input tokens exceed the configured limit",
        "reduce the length of the messages",
        "too large for model with",
        "request too large for",
        "prompt token count of",
        "context the overflows",
        "exceeded model token limit",
    ];
    // Throttling errors mention tokens too. Only the texts above mean that waiting would not help.
    let by_code = !throttled && CODES.iter().any(|code| body.code.contains(code));
    by_code
        || TEXTS.iter().any(|words| body.text.contains(words))
        || hugging_face(&body.text)
        || (!throttled && length_refused(&body.text))
}

/// Reports whether a text complains about the length of the prompt in any words: `total length 5000 of the messages
/// is too long`. Excludes the length of a tool's name and limits per minute.
fn length_refused(text: &str) -> bool {
    const LENGTHS: [&str; 6] = [
        "total length",
        "input length",
        "prompt length",
        "context length",
        "total tokens",
        "number of tokens",
    ];
    const COMPLAINTS: [&str; 6] = [
        "too long",
        "too large",
        "too many",
        "exceed",
        "longer than",
        "greater than",
    ];
    let names = |words: &[&str]| words.iter().any(|words| text.contains(words));
    names(&LENGTHS) && names(&COMPLAINTS) && !names(&["per min", "per day", "tool name", "function name"])
}

/// Reports whether the text refuses the key. Google and xAI do so with status 400, others inside a stream.
fn key_refused(body: &ErrorBody) -> bool {
    const TEXTS: [&str; 18] = [
        "api key not valid",
        "api_key_invalid",
        "api key not found",
        "invalid api key",
        "invalid_api_key",
        "invalid api-key",
        "invalid x-api-key",
        "invalid apikey",
        "incorrect api key",
        "wrong api key",
        "api key is invalid",
        "api key is missing",
        "api key expired",
        "api key has expired",
        "missing api key",
        "no api key",
        "invalid authentication",
        "authentication_error",
    ];
    body.contains_any(&TEXTS)
}

/// Reports whether the provider lacks the model, or does not give it to this key. A key that it refuses for all models is
/// another fault.
fn is_model_missing(body: &ErrorBody, model: &str) -> bool {
    const CODES: [&str; 4] = [
        "model_not_found",
        "model_access_denied",
        "model_not_supported",
        "model_decommissioned",
    ];
    const TEXTS: [&str; 5] = [
        "access to model",
        "invalid model name",
        "is not a valid model",
        "permission_error",
        "unsupported model",
    ];
    let names = |name: &str| body.text.contains(name);
    let is_named = names("the specified model") || names(&model.to_ascii_lowercase());
    CODES.iter().any(|code| body.code.contains(code)) || is_named && body.contains_any(&TEXTS)
}

/// Recognizes Hugging Face's error: `inputs tokens + max_new_tokens must be <= 4097`.
fn hugging_face(text: &str) -> bool {
    text.contains("tokens") && text.contains("must be <=")
}

/// Returns the context window that an overflow error names (R-CTX-3).
fn parse_context_limit(text: &str) -> Option<u64> {
    // From specific to general, because the first match wins.
    const BEFORE: [&str; 19] = [
        "maximum context length is",
        "maximum context length of",
        "maximum model length of",
        "maximum prompt length is",
        "maximum prompt length of",
        "context length of only",
        "context length is",
        "context length of",
        "context length (",
        "context size (",
        "context window of",
        "context window (",
        "configured limit of",
        "tokens allowed",
        "exceeds the limit of",
        "token limit:",
        "too large for model with",
        "must be <=",
        "limit ",
    ];
    // Anthropic: "… 208310 tokens > 200000 maximum", "198000 + 8192 > 200000".
    let compared = text.split(" > ").nth(1).and_then(leading_number);
    compared.or_else(|| {
        BEFORE.iter().find_map(|words| {
            let at = text.find(words)?;
            leading_number(&text[at + words.len()..])
        })
    })
}

/// Returns the number at the beginning of `text`, after at most three other characters. Values that cannot be a
/// context window count as absent.
fn leading_number(text: &str) -> Option<u64> {
    let start = text.bytes().take(4).position(|b| b.is_ascii_digit())?;
    let digits: String = text[start..]
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '_'))
        .filter(char::is_ascii_digit)
        .collect();
    digits
        .parse()
        .ok()
        .filter(|limit| (256..1_000_000_000).contains(limit))
}

fn is_quota_exhausted(status: Option<u16>, body: &ErrorBody) -> bool {
    const TEXTS: [&str; 24] = [
        "insufficient_quota",
        "usage_limit_reached",
        "usage_not_included",
        "exceeded your current quota",
        "credit balance is too low",
        "insufficient credits",
        "insufficient balance",
        "insufficient funds",
        "requires more credits",
        "out of credits",
        "no credits",
        "specified api usage limits",
        "usage limit reached",
        "reached your usage limit",
        "hourly usage limit",
        "weekly usage limit",
        "monthly usage limit",
        "spending limit",
        "billing_hard_limit",
        "billing hard limit",
        "key limit exceeded",
        "free-models-per-day",
        "quota exceeded for the day",
        "payment required",
    ];
    match status {
        Some(402) => true,
        // A limit per minute passes by itself, so it is a throttle.
        None | Some(400 | 403 | 429) => body.contains_any(&TEXTS) && !body.per_minute,
        Some(_) => false,
    }
}

/// Returns when a quota refills, from a text (`… regain access on 2026-12-01 at 00:00 UTC`) or a header.
fn reset_at(text: &str, headers: &HeaderMap) -> Option<i64> {
    retry_after::parse_date(text).or_else(|| {
        let header = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<i64>().ok();
        let reset = header("x-ratelimit-reset")?;
        // Both seconds and milliseconds since the epoch are in use; a small number is neither.
        match reset {
            1_000_000_000..=9_999_999_999 => Some(reset * 1_000),
            1_000_000_000_000.. => Some(reset),
            _ => None,
        }
    })
}

fn image_refused(status: Option<u16>, body: &ErrorBody) -> bool {
    const TEXTS: &[&str] = &[
        "base64 image",
        "could not process image",
        "identify image",
        "image data you provided",
        "image is not valid",
        "image: unknown format",
        "load image",
        "could not process pdf",
        "invalid pdf",
        "not a valid pdf",
        "pdf input",
        "pdf is invalid",
        "pdf is not valid",
        "pdf pages may be provided",
        "support pdf",
        "the pdf specified",
        "file_data",
        "input_file",
        "invalid_file",
        "unsupported_file",
        "document has no pages",
        "image_too_large",
        "image_too_small",
        "invalid_image",
        "image exceeds",
        "image dimensions exceed",
        "image size exceeds",
        "image is too large",
        "image too large",
        "invalid image",
        "unable to process input image",
        "unsupported image",
        "does not support image",
        "support image input",
        "image input is not supported",
        "image_url is only supported",
        "missing data required for image input",
        "not a multimodal model",
        "image_parse_error",
    ];
    let possible = status.is_none_or(|status| matches!(status, 400 | 404 | 413 | 415 | 422 | 500));
    possible
        && (body.contains_any(TEXTS)
            || body.contains_any(&["image_url"])
                && body.contains_any(&["invalid content type", "unknown variant"]))
}

fn content_policy(status: Option<u16>, body: &ErrorBody) -> bool {
    const TEXTS: [&str; 11] = [
        "content_policy_violation",
        "content filtering policy",
        "content management policy",
        "content_filter",
        "responsibleaipolicyviolation",
        "usage policy",
        "usage policies",
        "requires moderation",
        "flagged",
        "data_inspection_failed",
        "prohibited_content",
    ];
    status.is_none_or(|status| matches!(status, 400 | 403 | 422)) && body.contains_any(&TEXTS)
}

/// Suggests how to choose another model, with similar names that the provider may have.
fn suggest_other_model(account: &ProviderAccount, model: &str) -> String {
    let naming = naming_at(account.kind, &account.base);
    let suggestions = suggest_model_names(model, &account.name, naming, KnownList::NotAsked, current_day());
    let perhaps = if suggestions.is_empty() {
        String::new()
    } else {
        format!(", such as {}", suggestions.join(" or "))
    };
    format!(
        "choose a model other than {model}{perhaps} with /model, agent/setModel or [provider.{}] model",
        account.name
    )
}

/// Returns what the user can do about a fault.
fn suggest_user_action(
    fault: &ProviderFault,
    account: &ProviderAccount,
    model: &str,
    body: &ErrorBody,
) -> Option<String> {
    let name = &account.name;
    match fault {
        ProviderFault::InvalidRequest | ProviderFault::NotFound
            if body.contains_any(&["does not support tools", "support tool use"]) =>
        {
            Some(format!("choose a model that can call tools: {model} cannot"))
        }
        ProviderFault::Unauthorized => Some(account.key_hint()),
        ProviderFault::QuotaExhausted { .. } => Some(format!(
            "add credit at {}, or choose another provider",
            account.host_and_port()
        )),
        ProviderFault::NotFound if account.is_ollama() => Some(format!("run `ollama pull {model}`")),
        ProviderFault::NotFound if body.contains_any(&["model"]) => Some(suggest_other_model(account, model)),
        ProviderFault::NotFound | ProviderFault::NotTheApi => {
            Some(format!("check [provider.{name}] base_url"))
        }
        // OpenAI names the endpoint that the model needs.
        ProviderFault::InvalidRequest if body.contains_any(&["/v1/responses"]) => {
            Some(format!("set kind = \"openai-responses\" under [provider.{name}]"))
        }
        ProviderFault::PartRefused(RequestPart::Effort | RequestPart::Thinking) => Some(format!(
            "set another reasoning_effort under [agent.…], or with /model {model} EFFORT; see the provider's message"
        )),
        ProviderFault::ToolsRefused(_) => Some(format!(
            "take the tool from the agent with deny_tools, or choose a model other than {model}; see the provider's message"
        )),
        ProviderFault::InvalidRequest if missing_option(body).is_some() => {
            missing_option(body).map(|option| format!("restart {option}: without, it cannot call tools"))
        }
        ProviderFault::PartRefused(_) | ProviderFault::InvalidRequest => Some(format!(
            "choose a model other than {model}, or start a new session; see the provider's message"
        )),
        ProviderFault::OutputLimit { .. } => Some(format!(
            "set [model.{model:?}] max_output_tokens to what the provider allows"
        )),
        ProviderFault::ImageRefused => Some(format!(
            "choose a model that can see pictures and PDFs, or leave them out for {model}"
        )),
        ProviderFault::ContentPolicy => Some("rephrase the request, or choose another model".to_owned()),
        ProviderFault::PromptTooLong { .. } => {
            Some("compact the session, or choose a model with a larger window".to_owned())
        }
        ProviderFault::Throttled
        | ProviderFault::Overloaded
        | ProviderFault::Server
        | ProviderFault::TimedOut(_)
        | ProviderFault::Connection
        | ProviderFault::Tls
        | ProviderFault::BrokenStream
        | ProviderFault::ErrorEvent
        | ProviderFault::Local => None,
    }
}
