//! Takes names of models apart: vendor, version, variant, date. Knows no model's facts.

/// Returns the name of a model without vendor, date, variant and region. Claude's versions get dashes, as in the
/// table.
pub(crate) fn plain_name(model: &str) -> String {
    let lower = model.to_ascii_lowercase();
    // Gateways add a vendor (`openai/`), Bedrock a region (`us.anthropic.`), Vertex a date (`@20250805`), OpenRouter
    // and Ollama a variant (`:beta`, `:8b`), and users a window (`[1m]`).
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

/// Reports whether `name` begins with `family` and a digit.
pub(super) fn is_digit_after(name: &str, family: &str) -> bool {
    let rest = name.strip_prefix(family);
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// Removes a date like `-20250514` or `-2025-05-14` at the end.
pub fn strip_date(name: &str) -> &str {
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

/// Returns the version in the name of a Claude model: `claude-sonnet-4-5` → (4, 5), `claude-3-7-sonnet` → (3, 7).
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
