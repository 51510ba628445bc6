//! The model table: one row for each model, the retirement dates, and which vendors keep their weights closed.
//!
//! Compact on purpose: it lists the models that agents use today. Sources: the vendors' own pages and models.dev.
//! Only data and lookups by plain name; see the parent module for fallbacks.

use super::info::ModelInfo;
use super::name::{is_digit_after, plain_name};
use crate::domain::Price;
use crate::provider::classify::days_since_epoch;

/// One row of the table: the facts about a model under its plain name.
pub(super) struct ModelRow {
    pub(super) name: &'static str,
    window: u64,
    max_output: u32,
    /// Input, output, cache read and cache write, in US dollars per million tokens. `None` if unknown or if it depends
    /// on the time of day.
    price: Option<[f64; 4]>,
    reasoning: bool,
    images: bool,
}

impl ModelRow {
    /// Converts the row to the facts. Every model in the table can use tools.
    pub(super) fn to_model_info(&self) -> ModelInfo {
        ModelInfo {
            window: self.window,
            max_output: self.max_output,
            knows_max_output: true,
            price: self.price.map(|[input, output, cache_read, cache_write]| Price {
                input,
                output,
                cache_read,
                cache_write,
            }),
            reasoning: self.reasoning,
            images: self.images,
            tools: true,
        }
    }
}

const THINKS: bool = true;
const PLAIN: bool = false;
const SEES: bool = true;
const BLIND: bool = false;

const fn priced_row(
    name: &'static str,
    window: u64,
    max_output: u32,
    price: [f64; 4],
    reasoning: bool,
    images: bool,
) -> ModelRow {
    ModelRow {
        name,
        window,
        max_output,
        price: Some(price),
        reasoning,
        images,
    }
}

const fn unpriced_row(
    name: &'static str,
    window: u64,
    max_output: u32,
    reasoning: bool,
    images: bool,
) -> ModelRow {
    ModelRow {
        name,
        window,
        max_output,
        price: None,
        reasoning,
        images,
    }
}

const M: u64 = 1_000_000;
const K: u64 = 1_000;

/// List prices as of November 2026, the newest of a family first.
#[rustfmt::skip]
pub(super) const TABLE: &[ModelRow] = &[
    // Anthropic. Cache writes are those that last five minutes.
    priced_row("claude-fable-5-1",  M,       128_000, [10.0, 50.0, 0.25, 12.5],  THINKS, SEES),
    priced_row("claude-fable-5",    M,       128_000, [10.0, 50.0, 1.0, 12.5],   THINKS, SEES),
    priced_row("claude-opus-5-5",   M,       128_000, [4.0, 20.0, 0.2, 5.0],     THINKS, SEES),
    priced_row("claude-opus-5",     M,       128_000, [5.0, 25.0, 0.5, 6.25],    THINKS, SEES),
    priced_row("claude-opus-4-8",   M,       128_000, [5.0, 25.0, 0.5, 6.25],    THINKS, SEES),
    priced_row("claude-opus-4-7",   M,       128_000, [5.0, 25.0, 0.5, 6.25],    THINKS, SEES),
    priced_row("claude-opus-4-6",   M,       128_000, [5.0, 25.0, 0.5, 6.25],    THINKS, SEES),
    priced_row("claude-opus-4-5",   200 * K,  64_000, [5.0, 25.0, 0.5, 6.25],    THINKS, SEES),
    priced_row("claude-opus-4-1",   200 * K,  32_000, [15.0, 75.0, 1.5, 18.75],  THINKS, SEES),
    priced_row("claude-opus-4",     200 * K,  32_000, [15.0, 75.0, 1.5, 18.75],  THINKS, SEES),
    priced_row("claude-sonnet-5-5", M,       128_000, [2.0, 10.0, 0.1, 2.5],     THINKS, SEES),
    priced_row("claude-sonnet-5",   M,       128_000, [2.0, 10.0, 0.2, 2.5],     THINKS, SEES),
    priced_row("claude-sonnet-4-6", M,        64_000, [3.0, 15.0, 0.3, 3.75],    THINKS, SEES),
    priced_row("claude-sonnet-4-5", 200 * K,  64_000, [3.0, 15.0, 0.3, 3.75],    THINKS, SEES),
    priced_row("claude-sonnet-4",   200 * K,  64_000, [3.0, 15.0, 0.3, 3.75],    THINKS, SEES),
    priced_row("claude-3-7-sonnet", 200 * K,  64_000, [3.0, 15.0, 0.3, 3.75],    THINKS, SEES),
    priced_row("claude-3-5-sonnet", 200 * K,   8_192, [3.0, 15.0, 0.3, 3.75],    PLAIN,  SEES),
    // More expensive for prompts above 100,000 tokens.
    priced_row("claude-haiku-5-5",  M,       128_000, [0.1, 0.5, 0.01, 0.125],   THINKS, SEES),
    priced_row("claude-haiku-4-5",  200 * K,  64_000, [1.0, 5.0, 0.1, 1.25],     THINKS, SEES),
    priced_row("claude-3-5-haiku",  200 * K,   8_192, [0.8, 4.0, 0.08, 1.0],     PLAIN,  SEES),
    priced_row("claude-3-opus",     200 * K,   4_096, [15.0, 75.0, 1.5, 18.75],  PLAIN,  SEES),
    priced_row("claude-3-haiku",    200 * K,   4_096, [0.25, 1.25, 0.03, 0.3],   PLAIN,  SEES),
    // OpenAI. GPT-5.4 and later are more expensive for prompts above 272,000 tokens.
    priced_row("gpt-6-astra",       M,       128_000, [10.0, 50.0, 1.0, 12.5],   THINKS, SEES),
    priced_row("gpt-6.1-sol",       M,       128_000, [2.0, 10.0, 0.1, 2.5],     THINKS, SEES),
    priced_row("gpt-6.1-terra",     M,       128_000, [1.0, 5.0, 0.05, 1.25],    THINKS, SEES),
    priced_row("gpt-6-sol",         M,       128_000, [2.0, 10.0, 0.2, 2.5],     THINKS, SEES),
    priced_row("gpt-6-luna",        M,       128_000, [0.1, 0.5, 0.01, 0.125],   THINKS, SEES),
    priced_row("gpt-5.6-sol",       M,       128_000, [4.0, 20.0, 0.4, 4.0],     THINKS, SEES),
    priced_row("gpt-5.6-terra",     M,       128_000, [2.0, 12.0, 0.2, 2.0],     THINKS, SEES),
    priced_row("gpt-5.6-luna",      M,       128_000, [0.2, 1.2, 0.02, 0.2],     THINKS, SEES),
    priced_row("gpt-5.5-pro",       M,       128_000, [30.0, 180.0, 30.0, 30.0], THINKS, SEES),
    priced_row("gpt-5.5",           M,       128_000, [5.0, 30.0, 0.5, 5.0],     THINKS, SEES),
    priced_row("gpt-5.4-mini",      400 * K, 128_000, [0.75, 4.5, 0.075, 0.75],  THINKS, SEES),
    priced_row("gpt-5.4-nano",      400 * K, 128_000, [0.2, 1.25, 0.02, 0.2],    THINKS, SEES),
    priced_row("gpt-5.4",           M,       128_000, [2.5, 15.0, 0.25, 2.5],    THINKS, SEES),
    priced_row("gpt-5.3-codex",     400 * K, 128_000, [1.75, 14.0, 0.175, 1.75], THINKS, SEES),
    priced_row("gpt-5.2-codex",     400 * K, 128_000, [1.75, 14.0, 0.175, 1.75], THINKS, SEES),
    priced_row("gpt-5.4-pro",       M,       128_000, [30.0, 180.0, 30.0, 30.0], THINKS, SEES),
    priced_row("gpt-5.2-pro",       400 * K, 128_000, [21.0, 168.0, 21.0, 21.0], THINKS, SEES),
    priced_row("gpt-5.2",           400 * K, 128_000, [1.75, 14.0, 0.175, 1.75], THINKS, SEES),
    priced_row("gpt-5.1",           400 * K, 128_000, [1.25, 10.0, 0.125, 1.25], THINKS, SEES),
    priced_row("gpt-5-codex",       400 * K, 128_000, [1.25, 10.0, 0.125, 1.25], THINKS, SEES),
    priced_row("gpt-5-mini",        400 * K, 128_000, [0.25, 2.0, 0.025, 0.25],  THINKS, SEES),
    priced_row("gpt-5-nano",        400 * K, 128_000, [0.05, 0.4, 0.005, 0.05],  THINKS, SEES),
    priced_row("gpt-5",             400 * K, 128_000, [1.25, 10.0, 0.125, 1.25], THINKS, SEES),
    priced_row("gpt-4.1-mini",      1_047_576, 32_768, [0.4, 1.6, 0.1, 0.4],     PLAIN,  SEES),
    priced_row("gpt-4.1-nano",      1_047_576, 32_768, [0.1, 0.4, 0.025, 0.1],   PLAIN,  SEES),
    priced_row("gpt-4.1",           1_047_576, 32_768, [2.0, 8.0, 0.5, 2.0],     PLAIN,  SEES),
    priced_row("gpt-4o-mini",       128 * K,  16_384, [0.15, 0.6, 0.075, 0.15],  PLAIN,  SEES),
    priced_row("gpt-4o",            128 * K,  16_384, [2.5, 10.0, 1.25, 2.5],    PLAIN,  SEES),
    priced_row("o4-mini",           200 * K, 100_000, [1.1, 4.4, 0.275, 1.1],    THINKS, SEES),
    priced_row("o3-mini",           200 * K, 100_000, [1.1, 4.4, 0.55, 1.1],     THINKS, BLIND),
    priced_row("o3-pro",            200 * K, 100_000, [20.0, 80.0, 20.0, 20.0],  THINKS, SEES),
    priced_row("o3",                200 * K, 100_000, [2.0, 8.0, 0.5, 2.0],      THINKS, SEES),
    priced_row("o1",                200 * K, 100_000, [15.0, 60.0, 7.5, 15.0],   THINKS, SEES),
    unpriced_row("gpt-oss-120b", 131_072,  32_768, THINKS, BLIND),
    unpriced_row("gpt-oss-20b",  131_072,  32_768, THINKS, BLIND),
    // DeepSeek. The prices of the newest models depend on the time of day.
    priced_row("deepseek-chat",     128 * K,   8_192, [0.14, 0.28, 0.0028, 0.14], PLAIN,  BLIND),
    priced_row("deepseek-reasoner", 128 * K,  64_000, [0.14, 0.28, 0.0028, 0.14], THINKS, BLIND),
    unpriced_row("deepseek-flash",    M,  384_000, THINKS, SEES),
    unpriced_row("deepseek-v4.1-flash", M, 384_000, THINKS, SEES),
    unpriced_row("deepseek-v4-flash", M,  384_000, THINKS, SEES),
    unpriced_row("deepseek-v4-pro",   M,  384_000, THINKS, BLIND),
    // Google, through its compatible API or OpenRouter. More expensive for prompts above 200,000 tokens.
    priced_row("gemini-3.8-flash",      1_048_576, 65_536, [0.75, 3.75, 0.075, 0.75], THINKS, SEES),
    priced_row("gemini-3.7-flash",      1_048_576, 65_536, [0.75, 3.75, 0.075, 0.75], THINKS, SEES),
    priced_row("gemini-3.5-flash",      1_048_576, 65_536, [1.5, 9.0, 0.15, 1.5],     THINKS, SEES),
    priced_row("gemini-3.1-pro",        1_048_576, 65_536, [2.0, 12.0, 0.2, 2.0],     THINKS, SEES),
    priced_row("gemini-3.1-flash-lite", 1_048_576, 65_536, [0.25, 1.5, 0.025, 0.25],  THINKS, SEES),
    priced_row("gemini-2.5-pro",        1_048_576, 65_536, [1.25, 10.0, 0.125, 1.25], THINKS, SEES),
    priced_row("gemini-2.5-flash-lite", 1_048_576, 65_536, [0.1, 0.4, 0.01, 0.1],     THINKS, SEES),
    priced_row("gemini-2.5-flash",      1_048_576, 65_536, [0.3, 2.5, 0.03, 0.3],     THINKS, SEES),
    unpriced_row("gemini-3",         1_048_576, 65_536, THINKS, SEES),
    // Other models that agents use.
    priced_row("mistral-large",   128 * K, 32_768, [2.0, 6.0, 2.0, 2.0],   PLAIN,  SEES),
    priced_row("mistral-medium",  128 * K, 32_768, [0.4, 2.0, 0.4, 0.4],   PLAIN,  SEES),
    priced_row("codestral",       256 * K, 32_768, [0.3, 0.9, 0.3, 0.3],   PLAIN,  BLIND),
    unpriced_row("devstral",   128 * K, 32_768, PLAIN,  BLIND),
    priced_row("grok-code-fast-1", 256 * K, 32_768, [0.2, 1.5, 0.02, 0.2], THINKS, BLIND),
    priced_row("grok-4.3",        M,       30_000, [1.25, 2.5, 0.2, 1.25], THINKS, SEES),
    priced_row("grok-4",          256 * K, 64_000, [3.0, 15.0, 0.75, 3.0], THINKS, SEES),
    unpriced_row("kimi-k2",    256 * K, 32_768, THINKS, BLIND),
    priced_row("kimi-k2.7-code",  256 * K, 32_768, [0.95, 4.0, 0.19, 0.95], THINKS, BLIND),
    priced_row("glm-5.2",         200 * K, 64_000, [1.4, 4.4, 0.26, 1.4],   THINKS, BLIND),
    priced_row("minimax-m3",      524_288, 65_536, [0.3, 1.2, 0.06, 0.3],   THINKS, BLIND),
    unpriced_row("glm-4.6",    200 * K, 64_000, THINKS, BLIND),
    unpriced_row("qwen3-coder", 256 * K, 65_536, PLAIN, BLIND),
    unpriced_row("qwen3",      128 * K, 32_768, THINKS, BLIND),
    unpriced_row("llama3.1",   128 * K,  8_192, PLAIN,  BLIND),
    unpriced_row("llama3.3",   128 * K,  8_192, PLAIN,  BLIND),
];

/// The announced days on which vendors end models at their own address. Gateways and clouds have their own dates.
#[rustfmt::skip]
const RETIREMENTS: &[(&str, &str)] = &[
    ("claude-3-opus",     "2026-01-05"),
    ("claude-3-5-sonnet", "2025-10-28"),
    ("claude-3-5-haiku",  "2026-02-19"),
    ("claude-3-7-sonnet", "2026-02-19"),
    ("claude-sonnet-4",   "2026-06-15"),
    ("claude-opus-4",     "2026-06-15"),
    ("claude-opus-4-1",   "2026-08-05"),
    ("deepseek-chat",     "2026-07-24"),
    ("deepseek-reasoner", "2026-07-24"),
    ("gpt-4.1-nano",      "2026-10-23"),
    ("o1",                "2026-10-23"),
    ("o3-mini",           "2026-10-23"),
    ("o4-mini",           "2026-10-23"),
    ("gpt-5",             "2026-12-11"),
    ("gpt-5-mini",        "2026-12-11"),
    ("gpt-5-nano",        "2026-12-11"),
    ("o3",                "2026-12-11"),
    ("o3-pro",            "2026-12-11"),
    ("gpt-4o",            "2027-01-14"),
    ("gpt-4o-mini",       "2027-01-14"),
    ("gpt-4.1",           "2027-01-14"),
    ("gpt-4.1-mini",      "2027-01-14"),
    ("gpt-5.1",           "2027-04-01"),
];

/// The provider names that stand for the vendors' own addresses, where [`RETIREMENTS`] apply.
pub(super) const PROVIDERS_WITH_RETIREMENTS: [&str; 4] =
    ["anthropic", "openai", "openai-responses", "deepseek"];

/// The day on which a vendor retires a model. From that day on it counts as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retirement {
    /// As announced: `2026-12-11`.
    pub date: &'static str,
    /// Days since the epoch, UTC.
    pub day: i64,
}

/// Returns when its vendor retires `model`; `None` if no date is known.
pub fn lookup_retirement(model: &str) -> Option<Retirement> {
    let name = plain_name(model);
    let (_, date) = RETIREMENTS.iter().find(|(of, _)| *of == name)?;
    let mut parts = date.splitn(3, '-').map(str::parse);
    let mut part = || parts.next()?.ok();
    Some(Retirement {
        date,
        day: days_since_epoch(part()?, part()?, part()?)?,
    })
}

/// Reports whether the weights of `model` are closed, so that any other server only relays it.
pub(super) fn is_closed(model: &str) -> bool {
    let name = plain_name(model);
    let hosted_only = ["claude", "chatgpt-", "gemini", "grok-", "mistral-medium"];
    // Only numbered GPTs: gpt-oss and gpt-j have open weights.
    let numbered = |family: &str| is_digit_after(&name, family);
    // Qwen hosts only these; its other models are open.
    let qwen = name.starts_with("qwen") && (name.ends_with("-max") || name.ends_with("-plus"));
    hosted_only.iter().any(|family| name.starts_with(family))
        || numbered("gpt-")
        || is_o_series(&name)
        || qwen
}

/// Recognizes `o1`, `o3-mini`, ….
fn is_o_series(name: &str) -> bool {
    let family = name.split('-').next().unwrap_or_default();
    family.len() == 2 && is_digit_after(family, "o")
}
