//! What is known of models: window, output limit, prices, abilities (R-PROV-7).
//!
//! Prices are list prices per million tokens, in the band of short prompts where there are several.
//! What a provider reports as cost wins over them, and the configuration may override every number.

use super::request::Effort;
use crate::domain::Price;

/// The window of a model of which nothing is known, in tokens (R-CTX-1).
pub const DEFAULT_WINDOW: u64 = 200_000;

/// The output limit of a model of which nothing is known, in tokens.
pub const DEFAULT_MAX_OUTPUT: u32 = 8_192;

const FREE: Price = Price {
    input: 0.0,
    output: 0.0,
    cache_read: 0.0,
    cache_write: 0.0,
};

/// What is known of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelInfo {
    /// Tokens that fit into a prompt with its answer.
    pub window: u64,
    /// Tokens that it may write in one answer.
    pub max_output: u32,
    /// Whether `max_output` is known, not assumed.
    pub knows_max_output: bool,
    /// What its tokens cost; none when that is not known.
    pub price: Option<Price>,
    /// It can be asked to think.
    pub reasoning: bool,
    /// It can see pictures.
    pub images: bool,
    /// It can use tools.
    pub tools: bool,
}

/// What the configuration says of a model; each set field wins over the table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelOverride {
    /// Tokens that fit into a prompt with its answer.
    pub window: Option<u64>,
    /// Tokens that it may write in one answer.
    pub max_output: Option<u32>,
    /// What its tokens cost.
    pub price: Option<Price>,
    /// It can be asked to think.
    pub reasoning: Option<bool>,
    /// It can see pictures.
    pub images: Option<bool>,
    /// It can use tools.
    pub tools: Option<bool>,
}

impl ModelOverride {
    /// `info` with what is set here.
    pub fn apply(&self, info: ModelInfo) -> ModelInfo {
        ModelInfo {
            window: self.window.unwrap_or(info.window),
            max_output: self.max_output.unwrap_or(info.max_output),
            knows_max_output: info.knows_max_output || self.max_output.is_some(),
            price: self.price.or(info.price),
            reasoning: self.reasoning.unwrap_or(info.reasoning),
            images: self.images.unwrap_or(info.images),
            tools: self.tools.unwrap_or(info.tools),
        }
    }
}

/// What the table knows of `model`, with or without a vendor before it and a date behind it.
pub fn lookup(model: &str) -> ModelInfo {
    let name = plain_name(model);
    let free = model.ends_with(":free");
    if let Some(row) = TABLE.iter().find(|row| row.name == name) {
        let info = row.info();
        return ModelInfo {
            price: if free { Some(FREE) } else { info.price },
            ..info
        };
    }
    // A sibling's abilities are a good guess, its price is not.
    let family = TABLE
        .iter()
        .filter(|row| {
            name.strip_prefix(row.name)
                .is_some_and(|rest| rest.starts_with('-'))
        })
        .max_by_key(|row| row.name.len());
    match family {
        Some(row) => ModelInfo {
            price: free.then_some(FREE),
            ..row.info()
        },
        None => ModelInfo {
            window: DEFAULT_WINDOW,
            max_output: DEFAULT_MAX_OUTPUT,
            knows_max_output: false,
            price: free.then_some(FREE),
            reasoning: false,
            images: true,
            tools: true,
        },
    }
}

/// Whether `model` thinks before it answers, when asked with `effort`. Old Claudes cannot, later ones do when
/// they are asked to, those from 5 on always do; of the others, those that can think always do.
pub fn thinks(model: &str, effort: Option<Effort>) -> bool {
    match claude_version(model) {
        Some((5.., _)) => true,
        Some(version) => effort.is_some() && version >= (3, 7),
        None => effort.is_some() || lookup(model).reasoning,
    }
}

/// What is known of a model on the person's own machine: it costs nothing.
pub fn lookup_local(model: &str) -> ModelInfo {
    ModelInfo {
        price: Some(FREE),
        ..lookup(model)
    }
}

/// Models worth offering of a provider known by name, the usual one first.
pub fn usual(provider: &str) -> &'static [&'static str] {
    match provider {
        "anthropic" => &[
            "claude-sonnet-4-20250514",
            "claude-opus-4-20250514",
            "claude-3-5-haiku-20241022",
        ],
        "openai" => &["gpt-4o", "gpt-4o-mini"],
        "openrouter" => &[
            "anthropic/claude-sonnet-4",
            "openai/gpt-4o",
            "deepseek/deepseek-chat",
        ],
        "deepseek" => &["deepseek-chat", "deepseek-reasoner"],
        _ => &[],
    }
}

/// The model's name without vendor, date, variant and region; for Claude with dashes throughout.
pub(crate) fn plain_name(model: &str) -> String {
    let lower = model.to_ascii_lowercase();
    let name = lower.rsplit('/').next().unwrap_or(&lower);
    let name = name.rsplit_once("anthropic.").map_or(name, |(_, name)| name);
    let name = name.split(['[', '@']).next().unwrap_or(name);
    let name = match name.split_once(':') {
        Some((name, _)) => name,
        None => name,
    };
    let mut name = name.to_owned();
    if name.starts_with("claude") {
        name = name.replace('.', "-");
    }
    for suffix in ["-latest", "-v1", "-preview"] {
        name.truncate(name.strip_suffix(suffix).unwrap_or(&name).len());
    }
    let undated = strip_date(&name).len();
    name.truncate(undated);
    name
}

/// Without `-20250514` or `-2025-05-14` at the end.
fn strip_date(name: &str) -> &str {
    let is_date = |text: &str| {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let shaped = text.len() == 8 || text.len() == 10 && text.matches('-').count() == 2;
        shaped && digits.len() == 8 && digits.starts_with("20") && digits.bytes().all(|b| b.is_ascii_digit())
    };
    for length in [8, 10] {
        if let Some(at) = name.len().checked_sub(length + 1)
            && name.is_char_boundary(at)
            && name.as_bytes()[at] == b'-'
            && is_date(&name[at + 1..])
        {
            return &name[..at];
        }
    }
    name
}

/// The version in a Claude model's name: `claude-sonnet-4-5` → (4, 5), `claude-3-7-sonnet` → (3, 7).
pub(crate) fn claude_version(model: &str) -> Option<(u32, u32)> {
    let name = plain_name(model);
    let mut numbers = name
        .strip_prefix("claude-")?
        .split('-')
        .skip_while(|part| part.parse::<u32>().is_err());
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next().and_then(|part| part.parse().ok()).unwrap_or(0);
    Some((major, minor))
}

struct Row {
    name: &'static str,
    window: u64,
    max_output: u32,
    /// Input, output, cache read, cache write; none where they are not known or depend on the hour.
    price: Option<[f64; 4]>,
    reasoning: bool,
    images: bool,
}

impl Row {
    fn info(&self) -> ModelInfo {
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

const fn row(
    name: &'static str,
    window: u64,
    max_output: u32,
    price: [f64; 4],
    reasoning: bool,
    images: bool,
) -> Row {
    Row {
        name,
        window,
        max_output,
        price: Some(price),
        reasoning,
        images,
    }
}

const fn unpriced(name: &'static str, window: u64, max_output: u32, reasoning: bool, images: bool) -> Row {
    Row {
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

/// List prices as of November 2026.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    // Anthropic; cache writes for five minutes.
    row("claude-fable-5-1",  M,       128_000, [10.0, 50.0, 0.25, 12.5],  THINKS, SEES),
    row("claude-fable-5",    M,       128_000, [10.0, 50.0, 1.0, 12.5],   THINKS, SEES),
    row("claude-opus-5-5",   M,       128_000, [4.0, 20.0, 0.2, 5.0],     THINKS, SEES),
    row("claude-opus-5",     M,       128_000, [5.0, 25.0, 0.5, 6.25],    THINKS, SEES),
    row("claude-opus-4-8",   M,       128_000, [5.0, 25.0, 0.5, 6.25],    THINKS, SEES),
    row("claude-opus-4-7",   M,       128_000, [5.0, 25.0, 0.5, 6.25],    THINKS, SEES),
    row("claude-opus-4-6",   M,       128_000, [5.0, 25.0, 0.5, 6.25],    THINKS, SEES),
    row("claude-opus-4-5",   200 * K,  64_000, [5.0, 25.0, 0.5, 6.25],    THINKS, SEES),
    row("claude-opus-4-1",   200 * K,  32_000, [15.0, 75.0, 1.5, 18.75],  THINKS, SEES),
    row("claude-opus-4",     200 * K,  32_000, [15.0, 75.0, 1.5, 18.75],  THINKS, SEES),
    row("claude-sonnet-5-5", M,       128_000, [2.0, 10.0, 0.1, 2.5],     THINKS, SEES),
    row("claude-sonnet-5",   M,       128_000, [2.0, 10.0, 0.2, 2.5],     THINKS, SEES),
    row("claude-sonnet-4-6", M,        64_000, [3.0, 15.0, 0.3, 3.75],    THINKS, SEES),
    row("claude-sonnet-4-5", 200 * K,  64_000, [3.0, 15.0, 0.3, 3.75],    THINKS, SEES),
    row("claude-sonnet-4",   200 * K,  64_000, [3.0, 15.0, 0.3, 3.75],    THINKS, SEES),
    row("claude-3-7-sonnet", 200 * K,  64_000, [3.0, 15.0, 0.3, 3.75],    THINKS, SEES),
    row("claude-3-5-sonnet", 200 * K,   8_192, [3.0, 15.0, 0.3, 3.75],    PLAIN,  SEES),
    // Dearer above 100,000 tokens of prompt.
    row("claude-haiku-5-5",  M,       128_000, [0.1, 0.5, 0.01, 0.125],   THINKS, SEES),
    row("claude-haiku-4-5",  200 * K,  64_000, [1.0, 5.0, 0.1, 1.25],     THINKS, SEES),
    row("claude-3-5-haiku",  200 * K,   8_192, [0.8, 4.0, 0.08, 1.0],     PLAIN,  SEES),
    row("claude-3-opus",     200 * K,   4_096, [15.0, 75.0, 1.5, 18.75],  PLAIN,  SEES),
    row("claude-3-haiku",    200 * K,   4_096, [0.25, 1.25, 0.03, 0.3],   PLAIN,  SEES),
    // OpenAI; GPT-5.4 and later are dearer above 272,000 tokens of prompt.
    row("gpt-6-astra",       M,       128_000, [10.0, 50.0, 1.0, 12.5],   THINKS, SEES),
    row("gpt-6.1-sol",       M,       128_000, [2.0, 10.0, 0.1, 2.5],     THINKS, SEES),
    row("gpt-6.1-terra",     M,       128_000, [1.0, 5.0, 0.05, 1.25],    THINKS, SEES),
    row("gpt-6-sol",         M,       128_000, [2.0, 10.0, 0.2, 2.5],     THINKS, SEES),
    row("gpt-6-luna",        M,       128_000, [0.1, 0.5, 0.01, 0.125],   THINKS, SEES),
    row("gpt-5.6-sol",       M,       128_000, [4.0, 20.0, 0.4, 4.0],     THINKS, SEES),
    row("gpt-5.6-terra",     M,       128_000, [2.0, 12.0, 0.2, 2.0],     THINKS, SEES),
    row("gpt-5.6-luna",      M,       128_000, [0.2, 1.2, 0.02, 0.2],     THINKS, SEES),
    row("gpt-5.5-pro",       M,       128_000, [30.0, 180.0, 30.0, 30.0], THINKS, SEES),
    row("gpt-5.5",           M,       128_000, [5.0, 30.0, 0.5, 5.0],     THINKS, SEES),
    row("gpt-5.4-mini",      400 * K, 128_000, [0.75, 4.5, 0.075, 0.75],  THINKS, SEES),
    row("gpt-5.4-nano",      400 * K, 128_000, [0.2, 1.25, 0.02, 0.2],    THINKS, SEES),
    row("gpt-5.4",           M,       128_000, [2.5, 15.0, 0.25, 2.5],    THINKS, SEES),
    row("gpt-5.3-codex",     400 * K, 128_000, [1.75, 14.0, 0.175, 1.75], THINKS, SEES),
    row("gpt-5.2-codex",     400 * K, 128_000, [1.75, 14.0, 0.175, 1.75], THINKS, SEES),
    row("gpt-5.2",           400 * K, 128_000, [1.75, 14.0, 0.175, 1.75], THINKS, SEES),
    row("gpt-5.1",           400 * K, 128_000, [1.25, 10.0, 0.125, 1.25], THINKS, SEES),
    row("gpt-5-codex",       400 * K, 128_000, [1.25, 10.0, 0.125, 1.25], THINKS, SEES),
    row("gpt-5-mini",        400 * K, 128_000, [0.25, 2.0, 0.025, 0.25],  THINKS, SEES),
    row("gpt-5-nano",        400 * K, 128_000, [0.05, 0.4, 0.005, 0.05],  THINKS, SEES),
    row("gpt-5",             400 * K, 128_000, [1.25, 10.0, 0.125, 1.25], THINKS, SEES),
    row("gpt-4.1-mini",      1_047_576, 32_768, [0.4, 1.6, 0.1, 0.4],     PLAIN,  SEES),
    row("gpt-4.1-nano",      1_047_576, 32_768, [0.1, 0.4, 0.025, 0.1],   PLAIN,  SEES),
    row("gpt-4.1",           1_047_576, 32_768, [2.0, 8.0, 0.5, 2.0],     PLAIN,  SEES),
    row("gpt-4o-mini",       128 * K,  16_384, [0.15, 0.6, 0.075, 0.15],  PLAIN,  SEES),
    row("gpt-4o",            128 * K,  16_384, [2.5, 10.0, 1.25, 2.5],    PLAIN,  SEES),
    row("o4-mini",           200 * K, 100_000, [1.1, 4.4, 0.275, 1.1],    THINKS, SEES),
    row("o3-mini",           200 * K, 100_000, [1.1, 4.4, 0.55, 1.1],     THINKS, BLIND),
    row("o3",                200 * K, 100_000, [2.0, 8.0, 0.5, 2.0],      THINKS, SEES),
    row("o1",                200 * K, 100_000, [15.0, 60.0, 7.5, 15.0],   THINKS, SEES),
    unpriced("gpt-oss-120b", 131_072,  32_768, THINKS, BLIND),
    unpriced("gpt-oss-20b",  131_072,  32_768, THINKS, BLIND),
    // DeepSeek; the prices of the newest depend on the hour.
    row("deepseek-chat",     128 * K,   8_192, [0.14, 0.28, 0.0028, 0.14], PLAIN,  BLIND),
    row("deepseek-reasoner", 128 * K,  64_000, [0.14, 0.28, 0.0028, 0.14], THINKS, BLIND),
    unpriced("deepseek-flash",    M,  384_000, THINKS, SEES),
    unpriced("deepseek-v4-flash", M,  384_000, THINKS, SEES),
    unpriced("deepseek-v4-pro",   M,  384_000, THINKS, BLIND),
    // Google, by its compatible API or OpenRouter; dearer above 200,000 tokens of prompt.
    row("gemini-2.5-pro",        1_048_576, 65_536, [1.25, 10.0, 0.125, 1.25], THINKS, SEES),
    row("gemini-2.5-flash-lite", 1_048_576, 65_536, [0.1, 0.4, 0.01, 0.1],     THINKS, SEES),
    row("gemini-2.5-flash",      1_048_576, 65_536, [0.3, 2.5, 0.03, 0.3],     THINKS, SEES),
    unpriced("gemini-3",         1_048_576, 65_536, THINKS, SEES),
    // Others that agents are run with.
    row("mistral-large",   128 * K, 32_768, [2.0, 6.0, 2.0, 2.0],   PLAIN,  SEES),
    row("mistral-medium",  128 * K, 32_768, [0.4, 2.0, 0.4, 0.4],   PLAIN,  SEES),
    row("codestral",       256 * K, 32_768, [0.3, 0.9, 0.3, 0.3],   PLAIN,  BLIND),
    unpriced("devstral",   128 * K, 32_768, PLAIN,  BLIND),
    row("grok-code-fast-1", 256 * K, 32_768, [0.2, 1.5, 0.02, 0.2], THINKS, BLIND),
    row("grok-4",          256 * K, 64_000, [3.0, 15.0, 0.75, 3.0], THINKS, SEES),
    unpriced("kimi-k2",    256 * K, 32_768, THINKS, BLIND),
    unpriced("glm-4.6",    200 * K, 64_000, THINKS, BLIND),
    unpriced("qwen3-coder", 256 * K, 65_536, PLAIN, BLIND),
    unpriced("qwen3",      128 * K, 32_768, THINKS, BLIND),
    unpriced("llama3.1",   128 * K,  8_192, PLAIN,  BLIND),
    unpriced("llama3.3",   128 * K,  8_192, PLAIN,  BLIND),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specified_prices_are_exact() {
        for (model, input, output) in [
            ("claude-sonnet-4-20250514", 3.0, 15.0),
            ("claude-opus-4-20250514", 15.0, 75.0),
            ("claude-3-5-haiku-20241022", 0.8, 4.0),
            ("openai/gpt-4o", 2.5, 10.0),
            ("deepseek/deepseek-chat", 0.14, 0.28),
        ] {
            let price = lookup(model).price.unwrap();
            assert_eq!((price.input, price.output), (input, output), "{model}");
        }
    }

    #[test]
    fn names_are_found_in_every_dress() {
        for (model, name) in [
            ("claude-sonnet-4-20250514", "claude-sonnet-4"),
            ("anthropic/claude-sonnet-4", "claude-sonnet-4"),
            ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
            ("anthropic/claude-3.5-haiku:beta", "claude-3-5-haiku"),
            (
                "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
                "claude-sonnet-4-5",
            ),
            ("claude-opus-4-1@20250805", "claude-opus-4-1"),
            ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
            ("claude-opus-4-8[1m]", "claude-opus-4-8"),
            ("gpt-4o-2024-11-20", "gpt-4o"),
            ("openai/gpt-4.1-mini", "gpt-4.1-mini"),
            ("qwen3:8b", "qwen3"),
            ("é-20250514", "é"),
            ("20250514", "20250514"),
            ("", ""),
        ] {
            assert_eq!(plain_name(model), name, "{model}");
        }
    }

    #[test]
    fn a_siblings_price_is_not_guessed() {
        let info = lookup("gpt-5-pro");
        assert_eq!((info.price, info.window), (None, 400_000));
        let unknown = lookup("made-up");
        assert_eq!((unknown.price, unknown.window), (None, DEFAULT_WINDOW));
        assert_eq!(lookup("gpt-50").window, DEFAULT_WINDOW);
    }

    #[test]
    fn local_and_free_models_cost_nothing() {
        assert_eq!(lookup_local("made-up").price, Some(FREE));
        assert_eq!(lookup_local("qwen3:8b").window, 128_000);
        assert_eq!(lookup("deepseek/deepseek-chat:free").price, Some(FREE));
    }

    #[test]
    fn the_configuration_wins() {
        let wins = ModelOverride {
            window: Some(7),
            price: Some(FREE),
            ..Default::default()
        };
        let info = wins.apply(lookup("gpt-4o"));
        assert_eq!(
            (info.window, info.price, info.max_output),
            (7, Some(FREE), 16_384)
        );
    }

    #[test]
    fn claude_versions_are_read() {
        for (model, version) in [
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-3-7-sonnet-20250219", Some((3, 7))),
            ("anthropic/claude-opus-4.8", Some((4, 8))),
            ("claude-fable-5-1", Some((5, 1))),
            ("claude-instant", None),
            ("gpt-4o", None),
        ] {
            assert_eq!(claude_version(model), version, "{model}");
        }
    }

    #[test]
    fn every_row_is_reachable_once() {
        for row in TABLE {
            assert_eq!(plain_name(row.name), row.name);
            assert_eq!(
                TABLE.iter().filter(|other| other.name == row.name).count(),
                1,
                "{}",
                row.name
            );
        }
    }
}
