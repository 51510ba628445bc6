//! The parts of a request that it works without: how providers refuse each, and what the user learns.
//!
//! `classify` finds a refused part by this table. The encoders leave out what a request omits, and note what it has.
//! `turn` remembers refusals for the session.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A part of a request that a later request can leave out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestPart {
    /// Encrypted or signed reasoning, which the provider cannot verify, for example after a change of the key.
    Reasoning,
    Verbosity,
    ReasoningSummary,
    /// The request for encrypted reasoning in the answer.
    EncryptedReasoning,
    /// The beta feature of Claude 4 to 4.5.
    InterleavedThinking,
    Effort,
    /// The switch of reasoning, or its budget.
    Thinking,
    /// Tool calls without `reasoning_content`. Requests that omit them have one with each call.
    BareCalls,
    /// The `reasoning_content` of earlier answers.
    ReasoningContent,
    CacheMarks,
    /// How long the prompt cache is kept, in each of its marks.
    CacheTtl,
    CacheKey,
    /// The request for token counts in the stream.
    TokenCounts,
    /// The request for the cost of the call.
    CostReport,
    /// The request to store nothing.
    NoStorage,
    OutputLimit,
    /// The usual name of the output limit. Requests that omit it have the limit under the other name.
    OutputLimitName,
    /// The system prompt as a list of blocks. Requests that omit it have plain text.
    SystemBlocks,
    /// Neighboring messages of one role. Requests that omit them have the messages joined.
    RepeatedRoles,
    /// A message with the role of the system. Requests that omit it have its text in the first message of the user.
    SystemRole,
    /// The request to refuse a prompt that is too long, and to end an answer that is, instead of dropping the start.
    NoTruncation,
    /// `strict: false` in the definitions of tools.
    StrictFlag,
    Temperature,
    /// A field of `extra_body`, by its path: `top_k`, `options.top_k`.
    ExtraField(Arc<str>),
}

/// A set of parts.
pub type RequestParts = BTreeSet<RequestPart>;

/// An optional field of a request: what it is, its key, and its value.
pub(super) type OptionalField = (RequestPart, &'static str, serde_json::Value);

/// How a part is refused. The texts are in lower case.
pub(super) struct RefusalRule {
    pub(super) part: RequestPart,
    /// The name of the fault in a cassette.
    pub(super) fault_name: &'static str,
    /// The fields that an error names. See `ErrorBody::refuses_parameter` for the words around them.
    pub(super) fields: &'static [&'static str],
    /// Texts that refuse the part in other words.
    pub(super) phrases: &'static [&'static str],
    /// What the user calls it, and what follows from its absence; `None` if that makes no difference to them.
    warning: Option<(&'static str, &'static str)>,
}

const fn rule(
    part: RequestPart,
    fault_name: &'static str,
    fields: &'static [&'static str],
    phrases: &'static [&'static str],
    warning: Option<(&'static str, &'static str)>,
) -> RefusalRule {
    RefusalRule {
        part,
        fault_name,
        fields,
        phrases,
        warning,
    }
}

/// All parts except extra fields, whose names the user gives. The first one that an error fits counts.
pub(super) static REFUSAL_RULES: [RefusalRule; 24] = [
    rule(
        RequestPart::Reasoning,
        "reasoning_refused",
        &[],
        &[
            "invalid_encrypted_content",
            "could not decrypt the provided encrypted",
            "invalid `signature` in `thinking`",
            "invalid `data` in `redacted_thinking`",
            "blocks in the latest assistant message cannot be modified",
        ],
        Some(("the reasoning of earlier answers", "")),
    ),
    rule(
        RequestPart::Verbosity,
        "verbosity_refused",
        &["verbosity"],
        &["unknown parameter: 'text'"],
        Some(("the setting `verbosity`", "")),
    ),
    rule(
        RequestPart::ReasoningSummary,
        "reasoning_summary_refused",
        &["reasoning.summary"],
        &["generate reasoning summar"],
        Some(("a summary of its reasoning", "")),
    ),
    rule(
        RequestPart::EncryptedReasoning,
        "encrypted_reasoning_refused",
        &["include"],
        &["encrypted content is not supported"],
        None,
    ),
    rule(
        RequestPart::InterleavedThinking,
        "interleaved_thinking_refused",
        &[],
        &["interleaved-thinking"],
        None,
    ),
    rule(
        RequestPart::BareCalls,
        "bare_calls_refused",
        &[],
        &[
            "missing `reasoning_content`",
            "reasoning_content is missing",
            "`reasoning_content` in the thinking mode must be passed back",
        ],
        None,
    ),
    rule(
        RequestPart::ReasoningContent,
        "reasoning_content_refused",
        &["reasoning_content"],
        &[],
        None,
    ),
    rule(
        RequestPart::Effort,
        "effort_refused",
        &[
            "effort",
            "reasoning_effort",
            "reasoningeffort",
            "reasoning",
            "output_config",
            "thinkinglevel",
            "thinking_level",
            "thinkingbudget",
            "thinking_budget",
        ],
        &[
            "thinking level is not supported",
            "thinking budget is not supported",
            "only works in thinking mode",
        ],
        Some(("the setting `reasoning_effort`", " until you set another effort")),
    ),
    rule(
        RequestPart::Thinking,
        "thinking_refused",
        &[
            "thinking",
            "think",
            "enable_thinking",
            "thinkingconfig",
            "thinking_config",
            // OpenRouter's switch.
            "reasoning",
        ],
        &[
            "thinking is not enabled for",
            "not support thinking",
            "think value",
            "when `thinking` is enabled",
            "adaptive thinking is not",
        ],
        Some(("the switch of its reasoning", " until you set another effort")),
    ),
    // Before the marks, whose name is in the path of this field.
    rule(
        RequestPart::CacheTtl,
        "cache_ttl_refused",
        &["ttl"],
        &["extended-cache-ttl"],
        Some(("the setting `cache_ttl`", "; its prompt cache lasts 5 minutes")),
    ),
    // After the effort: without it, the object has the summary alone.
    rule(
        RequestPart::ReasoningSummary,
        "reasoning_summary_refused",
        &["reasoning"],
        &[],
        Some(("a summary of its reasoning", "")),
    ),
    rule(
        RequestPart::CacheMarks,
        "cache_marks_refused",
        &["cache_control"],
        &["blocks with cache_control", "not allow prompt caching"],
        Some(("the marks for its prompt cache", "; prompts may cost more")),
    ),
    rule(
        RequestPart::CacheKey,
        "cache_key_refused",
        &["prompt_cache_key"],
        &[],
        None,
    ),
    rule(
        RequestPart::TokenCounts,
        "token_counts_refused",
        &["stream_options"],
        &[],
        Some((
            "the request for token counts",
            "; tokens and costs may be estimates",
        )),
    ),
    rule(
        RequestPart::CostReport,
        "cost_report_refused",
        &["usage"],
        &[],
        None,
    ),
    rule(
        RequestPart::NoStorage,
        "no_storage_refused",
        &["store"],
        &[],
        Some((
            "the request to store nothing",
            "; the provider may keep the conversation",
        )),
    ),
    rule(
        RequestPart::OutputLimitName,
        "output_limit_name_refused",
        &["max_tokens", "max_completion_tokens"],
        &[],
        None,
    ),
    rule(
        RequestPart::OutputLimit,
        "output_limit_refused",
        &[
            "max_tokens",
            "max_completion_tokens",
            "max_output_tokens",
            "maxoutputtokens",
        ],
        &[],
        None,
    ),
    rule(
        RequestPart::NoTruncation,
        "no_truncation_refused",
        &["truncate", "shift"],
        &[],
        Some((
            "the request not to truncate prompts",
            "; a prompt that is too long may lose its start",
        )),
    ),
    rule(RequestPart::StrictFlag, "strict_refused", &["strict"], &[], None),
    rule(
        RequestPart::SystemBlocks,
        "system_blocks_refused",
        &[],
        &[
            "system: input should be a valid string",
            "'system'), 'msg': \"input should be a valid string",
        ],
        None,
    ),
    rule(
        RequestPart::RepeatedRoles,
        "repeated_roles_refused",
        &[],
        &["roles must alternate"],
        Some(("messages of one role in a row", "")),
    ),
    rule(
        RequestPart::SystemRole,
        "system_role_refused",
        &[],
        // A template may count the system prompt as one of the roles.
        &[
            "system role not supported",
            "system role is not supported",
            "roles must alternate",
        ],
        Some(("the role of the system prompt", "")),
    ),
    rule(
        RequestPart::Temperature,
        "temperature_refused",
        &["temperature"],
        &[
            "invalid temperature",
            "temperature: range",
            "temperature must be",
            "temperature value of",
            "`temperature` and `top_p` cannot",
        ],
        Some(("the setting `temperature`", "")),
    ),
];

/// What precedes the path of an extra field in the name of its fault in a cassette.
const EXTRA_FIELD_REFUSED: &str = "extra_field_refused:";

impl RequestPart {
    /// Returns the name of its fault in a cassette.
    pub(super) fn fault_name(&self) -> Cow<'static, str> {
        match self {
            Self::ExtraField(path) => format!("{EXTRA_FIELD_REFUSED}{path}").into(),
            _ => self.rule().map_or("", |rule| rule.fault_name).into(),
        }
    }

    /// Returns the part with this name of its fault; `None` if there is none.
    pub(super) fn from_fault_name(name: &str) -> Option<Self> {
        if let Some(path) = name.strip_prefix(EXTRA_FIELD_REFUSED) {
            return Some(Self::ExtraField(path.into()));
        }
        let mut rules = REFUSAL_RULES.iter();
        rules
            .find(|rule| rule.fault_name == name)
            .map(|rule| rule.part.clone())
    }

    /// Returns what the user calls the part, and what follows from its absence. `None` if that makes no difference to
    /// them.
    pub fn warning(&self) -> Option<(Cow<'static, str>, &'static str)> {
        if let Self::ExtraField(path) = self {
            return Some((format!("the setting `extra_body.{path}`").into(), ""));
        }
        let (name, effect) = self.rule()?.warning?;
        Some((name.into(), effect))
    }

    /// Returns what is done without the part, as in `leaving it out in this session`.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::RepeatedRoles => "joining them",
            Self::SystemRole => "putting it in front of the first message",
            _ => "leaving it out",
        }
    }

    /// Returns whether the template of an engine may refuse the part with status 500.
    pub(super) fn is_of_template(&self) -> bool {
        matches!(self, Self::RepeatedRoles | Self::SystemRole)
    }

    fn rule(&self) -> Option<&'static RefusalRule> {
        REFUSAL_RULES.iter().find(|rule| rule.part == *self)
    }
}

/// How an error names a tool of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolPointer {
    /// Its position among the tools.
    Index(usize),
    /// Its name, in lower case.
    Name(String),
    /// Not at all.
    Unnamed,
}
