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

/// Returns the name without the tag `latest`, which Ollama adds to a name without a tag.
pub fn strip_latest(name: &str) -> &str {
    name.strip_suffix(":latest").unwrap_or(name)
}

/// Reports whether two names mean the same model of a provider.
pub(crate) fn is_same_model(a: &str, b: &str) -> bool {
    strip_latest(a) == strip_latest(b)
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

/// Returns the major version in the name of a GPT model: `gpt-6.1-sol` → 6.
pub(crate) fn gpt_version(model: &str) -> Option<u32> {
    major_version(&plain_name(model), "gpt-")
}

/// Returns the number that follows `prefix` at the start of a plain name.
pub(crate) fn major_version(name: &str, prefix: &str) -> Option<u32> {
    let rest = name.strip_prefix(prefix)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Returns the plain names under which `model` may be listed, the most specific first. Ollama puts the size after a
/// colon (`gpt-oss:20b`), where others use a dash.
pub(super) fn lookup_names(model: &str) -> Vec<String> {
    let plain = plain_name(model);
    let tagged = model.rsplit('/').next().and_then(|name| name.split_once(':'));
    let tagged = tagged.filter(|(_, tag)| !tag.is_empty() && *tag != "latest");
    let sized = tagged.map(|(name, tag)| plain_name(&format!("{name}-{tag}")));
    let mut names: Vec<String> = sized.into_iter().chain([plain]).collect();
    names.dedup();
    names
}

/// Splits a name into its family, with `*` for the version, and the version: `gpt-6.1-sol` → (`gpt-*-sol`, [6, 1]).
/// A name without a version is its own family. A date at the end does not count.
pub(super) fn version_pattern(name: &str) -> (String, Vec<u32>) {
    let name = strip_date(name);
    let parts: Vec<&str> = name.split('-').collect();
    for (at, part) in parts.iter().enumerate() {
        let Some((letters, mut version)) = split_version(part) else {
            continue;
        };
        let following = parts[at + 1..].iter();
        // More digits than that are a date.
        let more = following.map_while(|part| (part.len() <= 3).then(|| part.parse().ok()).flatten());
        version.extend(more.collect::<Vec<u32>>());
        let minors = version.len() - part[letters.len()..].split('.').count();
        let mut rest = &parts[at + 1 + minors..];
        if let [before @ .., last] = rest
            && last.len() == 4
            && last.bytes().all(|b| b.is_ascii_digit())
        {
            // A month and a day.
            rest = before;
        }
        let family = format!("{letters}*");
        let family: Vec<&str> = parts[..at]
            .iter()
            .copied()
            .chain([family.as_str()])
            .chain(rest.iter().copied())
            .collect();
        return (family.join("-"), version);
    }
    (name.to_owned(), Vec::new())
}

/// Splits `k2.6` into `k` and [2, 6]; `None` for a part that does not end with a version, such as `120b`.
fn split_version(part: &str) -> Option<(&str, Vec<u32>)> {
    let at = part.find(|c: char| c.is_ascii_digit())?;
    let numbers = part[at..].split('.');
    let version: Option<Vec<u32>> = numbers
        .map(|number| (number.len() <= 4).then(|| number.parse().ok()).flatten())
        .collect();
    Some((&part[..at], version?))
}
