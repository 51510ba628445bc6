//! Refusals in the words of gateways, engines, and validators, each with the parts that its request has.

use serde_json::{Value, json};

use super::tests::{classify, classify_parts, classify_with};
use crate::provider::error::ProviderFault;
use crate::provider::request_part::{RequestPart, ToolPointer};

/// The optional parts of a request with an effort, a temperature, and a field of `extra_body`.
fn parts() -> Vec<RequestPart> {
    vec![
        RequestPart::Effort,
        RequestPart::Thinking,
        RequestPart::TokenCounts,
        RequestPart::CostReport,
        RequestPart::CacheMarks,
        RequestPart::CacheKey,
        RequestPart::NoStorage,
        RequestPart::Temperature,
        RequestPart::ExtraField("top_p".into()),
    ]
}

fn error(message: &str) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error"}})
}

#[test]
fn a_field_of_the_request_that_an_error_names_is_refused() {
    let validation =
        json!([{"code": "unrecognized_keys", "keys": ["stream_options"], "path": [], "message": "x"}])
            .to_string();
    for (body, part) in [
        (
            error(
                "litellm.UnsupportedParamsError: bedrock does not support parameters: ['reasoning_effort'], for model=m-1.",
            ),
            RequestPart::Effort,
        ),
        (
            error("O-series models don't support temperature=0.2. Only temperature=1 is supported."),
            RequestPart::Temperature,
        ),
        (
            error(
                "Malformed input request: #: extraneous key [stream_options] is not permitted, please reformat",
            ),
            RequestPart::TokenCounts,
        ),
        (
            error("#: extraneous key [thinking] is not permitted"),
            RequestPart::Thinking,
        ),
        (
            error("Extra inputs are not permitted, field: 'stream_options', value: {'include_usage': True}"),
            RequestPart::TokenCounts,
        ),
        (
            error(
                "Extra parameters ['stream_options'] are not allowed when extra-parameters is not set or 'error'.",
            ),
            RequestPart::TokenCounts,
        ),
        (
            error("Unrecognized request arguments supplied: stream_options, temperature"),
            RequestPart::TokenCounts,
        ),
        (
            error("Unrecognized key(s) in object: 'usage'"),
            RequestPart::CostReport,
        ),
        (
            json!({"error": {"name": "ZodError", "message": validation}}),
            RequestPart::TokenCounts,
        ),
        (
            json!({"error": "Unrecognized field \"stream_options\" (class com.x.Request), not marked as ignorable"}),
            RequestPart::TokenCounts,
        ),
        (
            json!({"message": "unrecognized field: temperature"}),
            RequestPart::Temperature,
        ),
        (
            json!({"status": 400, "detail": "Inference error: Unsupported parameter(s): `reasoning_effort`"}),
            RequestPart::Effort,
        ),
        (
            json!({"message": "invalid request: parameter 'stream_options' is not a valid field"}),
            RequestPart::TokenCounts,
        ),
        (
            json!({"error": "must NOT have additional properties: stream_options"}),
            RequestPart::TokenCounts,
        ),
        (
            json!({"error": ["Error in `stream_options`: unexpected field"], "error_type": "validation"}),
            RequestPart::TokenCounts,
        ),
        (
            json!({"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"],
                "msg": "Extra inputs are not permitted", "input": {"include_usage": true}}]}}),
            RequestPart::TokenCounts,
        ),
        (
            error("`reasoning_effort` must be one of `none` or `default`"),
            RequestPart::Effort,
        ),
        (
            error(
                "[{'type': 'literal_error', 'loc': ('body', 'reasoning_effort'), 'msg': \"Input should be 'low' or \
                   'high'\", 'input': 'medium'}]",
            ),
            RequestPart::Effort,
        ),
        (
            error(
                "<400> InternalError.Algo.InvalidParameter: The value of the reasoning_effort parameter is invalid.",
            ),
            RequestPart::Effort,
        ),
        (
            error("reasoning_effort is not enabled for this model"),
            RequestPart::Effort,
        ),
        (
            error(
                "Failed to deserialize the JSON body into the target type: thinking: unknown variant `enabled`, \
                   expected `disabled` at line 1 column 30",
            ),
            RequestPart::Thinking,
        ),
        (
            error("The thinking budget 10240 is invalid. Please choose a value between 512 and 8192."),
            RequestPart::Effort,
        ),
        (
            error(
                "Unable to submit request because thinking_budget is out of range; supported values are integers.",
            ),
            RequestPart::Effort,
        ),
        (
            error(
                "Unable to submit request because Thinking_config.include_thoughts is only enabled when thinking is \
                   enabled.",
            ),
            RequestPart::Thinking,
        ),
        (
            error(
                "thinking.type: Input tag 'adaptive' found using 'type' does not match any of the expected tags: \
                   'disabled', 'enabled'",
            ),
            RequestPart::Thinking,
        ),
        (
            error("adaptive thinking is not supported on this model"),
            RequestPart::Thinking,
        ),
        (
            error("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."),
            RequestPart::ExtraField("top_p".into()),
        ),
        (
            error("You invoked an unsupported model or your request did not allow prompt caching."),
            RequestPart::CacheMarks,
        ),
        (
            error("Invalid 'messages[0].content[0].cache_control': unsupported"),
            RequestPart::CacheMarks,
        ),
        (error("store must be true"), RequestPart::NoStorage),
        (
            error("prompt_cache_key: Field required to be absent; unknown"),
            RequestPart::CacheKey,
        ),
        (
            json!({"error": "option \"temperature\" must be of type float32"}),
            RequestPart::Temperature,
        ),
    ] {
        let body = body.to_string();
        assert_eq!(
            classify_with(&parts(), &body).fault,
            ProviderFault::PartRefused(part),
            "{body}"
        );
    }
}

#[test]
fn a_field_that_an_error_only_mentions_is_not_refused() {
    for message in [
        // The error quotes the conversation.
        "Invalid user message: \"please set temperature: 0.2 and stream_options too\"",
        "Invalid content near 'I said thinking: and reasoning_effort twice'",
        "messages.2.content: Input should be a valid string, got `temperature`",
        "'messages[1].content' is invalid: [temperature] is no string",
        "Missing required field `model`; the request has `temperature`",
        // Two fields, of which either may be meant.
        "`temperature` conflicts with the other field, which is `stream_options`",
        // Words that are no fields here.
        "the store is closed; thinking about it, usage is low",
        "restore_options is not supported",
        // What the request does not have.
        "verbosity: Extra inputs are not permitted",
    ] {
        let body = error(message).to_string();
        assert_eq!(
            classify_with(&parts(), &body).fault,
            ProviderFault::InvalidRequest,
            "{body}"
        );
    }
    // The error says what it is about, and repeats a word of it.
    let error_of = |parameter: &str| {
        json!({"error": {"message": "Invalid value: 'temperature'. Supported values are: 'text'.", "param": parameter}})
            .to_string()
    };
    for (parameter, fault) in [
        ("messages[0].content[0].type", ProviderFault::InvalidRequest),
        ("model", ProviderFault::InvalidRequest),
        (
            "validation_error",
            ProviderFault::PartRefused(RequestPart::Temperature),
        ),
    ] {
        assert_eq!(
            classify_with(&parts(), &error_of(parameter)).fault,
            fault,
            "{parameter}"
        );
    }
    // Nobody knows what the request has.
    let body = error("`reasoning_effort` must be one of `none` or `default`").to_string();
    assert_eq!(classify(400, &body).fault, ProviderFault::InvalidRequest);
    // A refused key or a missing model is not about a field.
    let body = error("Invalid API key for `temperature`").to_string();
    assert_eq!(classify_with(&parts(), &body).fault, ProviderFault::Unauthorized);
}

#[test]
fn the_whole_reasoning_object_is_refused_with_and_without_an_effort() {
    let body = error("Unknown parameter: 'reasoning'.").to_string();
    let both = [RequestPart::ReasoningSummary, RequestPart::Effort];
    for (parts, part) in [
        (&both[..], RequestPart::Effort),
        (&[RequestPart::ReasoningSummary], RequestPart::ReasoningSummary),
    ] {
        assert_eq!(
            classify_with(parts, &body).fault,
            ProviderFault::PartRefused(part)
        );
    }
    let body = error("Unknown parameter: 'text'.").to_string();
    let fault = classify_with(&[RequestPart::Verbosity], &body).fault;
    assert_eq!(fault, ProviderFault::PartRefused(RequestPart::Verbosity));
}

#[test]
fn an_output_limit_that_does_not_fit_next_to_the_prompt_is_lowered() {
    let message = |prompt: u32| {
        format!(
            "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context length is 32768 \
             tokens and your request has {prompt} input tokens (64000 > 32768 - {prompt})."
        )
    };
    for (prompt, fault) in [
        (
            3_200,
            ProviderFault::OutputLimit {
                limit: Some(29_568),
                window: Some(32_768),
            },
        ),
        // Little would be left for the answer.
        (32_000, ProviderFault::PromptTooLong { limit: Some(32_768) }),
        (40_000, ProviderFault::PromptTooLong { limit: Some(32_768) }),
    ] {
        assert_eq!(
            classify(400, &error(&message(prompt)).to_string()).fault,
            fault,
            "{prompt}"
        );
    }
}

#[test]
fn refused_tools_are_found_in_the_words_of_every_server() {
    let named = |name: &str| vec![ToolPointer::Name(name.to_owned())];
    let name = "mcp__srv__evil";
    for (message, tools) in [
        (
            "1 validation error detected: Value 'mcp__srv__evil' at 'toolConfig.tools.13.member.toolSpec.name' failed to \
             satisfy constraint: Member must have length less than or equal to 64",
            named(name),
        ),
        (
            "Value at 'toolConfig.tools.13.member.toolSpec.description' failed to satisfy constraint",
            vec![ToolPointer::Index(12)],
        ),
        (
            "invalid JSON schema for tool mcp__srv__evil: `/properties/a`: unsupported keyword",
            named(name),
        ),
        (
            "Unable to submit request because function declaration `mcp__srv__evil` schema is wrong",
            named(name),
        ),
        (
            "The function mcp__srv__evil has an invalid parameters schema",
            named(name),
        ),
        (
            "Failed to parse grammar / parse error near mcp__srv__evil",
            named(name),
        ),
    ] {
        let fault = classify(400, &error(message).to_string()).fault;
        assert_eq!(fault, ProviderFault::ToolsRefused(tools), "{message}");
    }
    let nested = json!({"object": "error", "message": {"detail": [{"type": "dict_type",
        "loc": ["body", "tools", 12, "function", "parameters"], "msg": "Input should be a valid dictionary"}]}});
    let fault = classify(422, &nested.to_string()).fault;
    assert_eq!(fault, ProviderFault::ToolsRefused(vec![ToolPointer::Index(12)]));
    // A call of a tool is the model's mistake.
    for message in [
        "The tool call of mcp__srv__evil does not fit its schema",
        "messages.3: the result of mcp__srv__evil is missing",
        "messages[3].content: mcp__srv__evil does not fit its schema",
        "'messages', 3, 'content': mcp__srv__evil has no such parameters",
        "Invalid tool result of mcp__srv__evil: no description",
        "The arguments for mcp__srv__evil do not match its schema",
        "The function response of mcp__srv__evil does not match the declaration",
        "input[7]: parameters of mcp__srv__evil are missing",
    ] {
        let fault = classify(400, &error(message).to_string()).fault;
        assert_eq!(fault, ProviderFault::InvalidRequest, "{message}");
    }
}

#[test]
fn a_refused_tool_without_a_name_is_recognized() {
    let unnamed = ProviderFault::ToolsRefused(vec![ToolPointer::Unnamed]);
    for (status, body) in [
        (
            400,
            error(
                "Invalid request: tools.function.parameters is not a valid moonshot flavored json schema, details: <At path \
                   'properties.a': type is not defined>",
            ),
        ),
        (
            400,
            error("Invalid request: function name is invalid, must start with a letter"),
        ),
        (
            500,
            error("JSON schema conversion failed:\nUnrecognized schema: {\"not\":{}}"),
        ),
        (
            400,
            json!({"error": "json: cannot unmarshal array into Go struct field ToolFunction.tools.function.parameters of \
                   type api.Property"}),
        ),
    ] {
        let body = body.to_string();
        assert_eq!(classify(status, &body).fault, unnamed, "{body}");
    }
    let named = error("Failed to parse grammar near mcp__srv__evil").to_string();
    let fault = ProviderFault::ToolsRefused(vec![ToolPointer::Name("mcp__srv__evil".to_owned())]);
    assert_eq!(classify(500, &named).fault, fault);
}

#[test]
fn the_other_name_of_an_output_limit_comes_before_none() {
    let body = |words: &str| error(words).to_string();
    let refused = |parts: &[RequestPart], words: &str| classify_with(parts, &body(words)).fault;
    let both = [RequestPart::OutputLimit, RequestPart::OutputLimitName];
    for words in [
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "max_completion_tokens is not supported, use max_tokens",
        "Unrecognized request argument supplied: max_completion_tokens",
    ] {
        let name = ProviderFault::PartRefused(RequestPart::OutputLimitName);
        assert_eq!(refused(&both, words), name, "{words}");
        let limit = ProviderFault::PartRefused(RequestPart::OutputLimit);
        assert_eq!(refused(&both[..1], words), limit, "{words}");
    }
}

#[test]
fn roles_that_a_template_does_not_know_are_recognized() {
    let (repeated, system) = (RequestPart::RepeatedRoles, RequestPart::SystemRole);
    let alternate = "Conversation roles must alternate user/assistant/user/assistant/...";
    for (message, parts, part) in [
        (alternate, vec![repeated.clone(), system.clone()], &repeated),
        (alternate, vec![system.clone()], &system),
        (
            "System role not supported",
            vec![repeated.clone(), system.clone()],
            &system,
        ),
    ] {
        for status in [400, 500] {
            let fault = classify_parts(status, &parts, &error(message).to_string()).fault;
            assert_eq!(
                fault,
                ProviderFault::PartRefused(part.clone()),
                "{status} {message}"
            );
        }
    }
    // A server that fails is no template that refuses.
    let body = error("Unknown parameter: 'store'").to_string();
    let fault = classify_parts(500, &[RequestPart::NoStorage], &body).fault;
    assert_eq!(fault, ProviderFault::Server);
}

#[test]
fn a_system_prompt_in_blocks_is_refused() {
    let body = error("system: Input should be a valid string").to_string();
    let fault = classify_with(&[RequestPart::SystemBlocks, RequestPart::CacheMarks], &body).fault;
    assert_eq!(fault, ProviderFault::PartRefused(RequestPart::SystemBlocks));
}

#[test]
fn an_option_that_the_engine_lacks_is_named() {
    for (status, message, words) in [
        (
            400,
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
            "--enable-auto-tool-choice",
        ),
        (500, "tools param requires --jinja flag", "--jinja"),
    ] {
        let failure = classify(status, &error(message).to_string());
        assert_eq!(failure.fault, ProviderFault::InvalidRequest, "{message}");
        let action = failure.user_action.unwrap();
        assert!(
            action.starts_with("restart") && action.contains(words),
            "{action}"
        );
    }
    let failure = classify(
        404,
        &error("No endpoints found that support tool use.").to_string(),
    );
    let action = failure.user_action.unwrap();
    assert!(action.contains("can call tools"), "{action}");
}

/// The fields that a server knows are not those that it refuses, nor what the error is about.
#[test]
fn a_list_of_allowed_fields_refuses_none_of_them() {
    let refused = |message: &str| classify_parts(400, &parts(), &error(message).to_string()).fault;
    for message in [
        "Invalid body. Allowed fields: stream_options, store, temperature.",
        "Invalid body (allowed: stream_options, store).",
        "unknown field `foo`, expected one of `stream_options`, `store`",
        "Invalid body; the supported top level parameters are stream_options and store",
    ] {
        assert_eq!(refused(message), ProviderFault::InvalidRequest, "{message}");
    }
    for message in [
        "Problem with 'stream_options'. Allowed fields: model, messages, tools, store.",
        "Bad key 'stream_options'; valid keys are model, messages, tools",
        "Not allowed fields: 'stream_options'",
        "Allowed fields: model, tools. Problem with 'stream_options'",
    ] {
        assert_eq!(
            refused(message),
            ProviderFault::PartRefused(RequestPart::TokenCounts),
            "{message}"
        );
    }
}
