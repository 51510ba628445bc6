//! Recognizes an error that refuses a request's output limit, and reads the limit that it names.
//!
//! Pure text matching. Expects texts in lower case.

/// A number outside this range is something else, such as a version.
const PLAUSIBLE: std::ops::Range<u32> = 256..10_000_000;

/// Reports whether `text` refuses the number of output tokens that the request allows.
pub(super) fn is_refused(text: &str) -> bool {
    #[rustfmt::skip]
    const SUBJECTS: [&str; 9] = [
        "max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "maxoutputtokens",
        "max tokens", "maximum tokens", "output tokens", "completion tokens",
    ];
    #[rustfmt::skip]
    const COMPLAINTS: [&str; 15] = [
        "too large", "too high", "too big", "too many", "exceed", "at most", "maximum", "less than",
        "lower than", "no more than", "up to", "range", "<=", " > ", "above",
    ];
    // These concern the name of the parameter, its absence, or a value that is too small.
    #[rustfmt::skip]
    const OTHERS: [&str; 6] = [
        "unsupported parameter", "not supported", "budget_tokens", "field required", "at least",
        "below minimum",
    ];
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    has(&SUBJECTS) && has(&COMPLAINTS) && !has(&OTHERS)
}

/// How much of the window an answer must be able to use. With less room, the history is what is too long.
const LEAST_SHARE: u32 = 8;

/// Returns the tokens that fit next to the prompt, and the window, if a limit is too large for both: vLLM ends with
/// `(64000 > 32768 - 3200)`.
pub(super) fn parse_room(text: &str) -> Option<(u32, u64)> {
    if !is_refused(text) {
        return None;
    }
    let (_, sum) = text.split_once(" > ")?;
    let (window, prompt) = sum.split_once(" - ")?;
    let window: u32 = window.parse().ok()?;
    let digits = prompt.find(|c: char| !c.is_ascii_digit()).unwrap_or(prompt.len());
    let room = window.checked_sub(prompt[..digits].parse().ok()?)?;
    (room >= window / LEAST_SHARE).then_some((room, window.into()))
}

/// Returns the limit that `text` names. The text may also repeat the refused value, which is the larger number.
pub(super) fn parse_output_limit(text: &str) -> Option<u32> {
    let mut numbers = extract_numbers(text);
    numbers.sort_unstable();
    numbers.dedup();
    match numbers.len() {
        0 | 1 => numbers.pop(),
        count => Some(numbers[count - 2]),
    }
}

/// Returns the numbers that are separate words, with exclusive bounds made inclusive.
fn extract_numbers(text: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    // In parentheses at the end: the limit, or the code of the error after the limit.
    let mut last = None;
    let mut rest = text;
    let mut read = String::new();
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        read.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != ',' && c != '_')
            .unwrap_or(rest.len());
        // A comma may also end a clause.
        let digits = rest[..end].trim_end_matches([',', '_']);
        let after = &rest[digits.len()..];
        // DashScope begins with the status: `<400>`.
        let is_status = read.ends_with('<') && after.starts_with('>');
        let is_last = read.ends_with('(') && after.trim_end() == ")";
        // Excludes digits in the name of a model or a version.
        let joined = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '/' | '.');
        let is_word = !read.ends_with(joined) && !after.starts_with(|c: char| c.is_alphabetic() || c == '-');
        let number: String = digits.chars().filter(char::is_ascii_digit).collect();
        if let Some(number) = number.parse::<u32>().ok().filter(|_| is_word && !is_status) {
            let excluded = ["less than ", "lower than ", "below "]
                .iter()
                .any(|words| read.trim_end_matches(['`', '\'', '"']).ends_with(words))
                || after.trim_start().starts_with("(exclusive)");
            let number = number.saturating_sub(u32::from(excluded));
            if is_last {
                last = Some(number);
            } else {
                numbers.push(number);
            }
        }
        read.push_str(digits);
        rest = after;
    }
    numbers.retain(|number| PLAUSIBLE.contains(number));
    if numbers.is_empty() {
        numbers.extend(last.filter(|number| PLAUSIBLE.contains(number)));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_output_limits_are_recognized_and_read() {
        for (text, limit) in [
            (
                "max_tokens is too large: 64000. This model supports at most 16384 completion tokens, whereas you provided 64000.",
                Some(16_384),
            ),
            (
                "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20241022",
                Some(8_192),
            ),
            (
                "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
                Some(8_192),
            ),
            (
                "`max_tokens` must be less than or equal to `32768`, the maximum value for `max_tokens` is less than the `context_window` for this model",
                Some(32_768),
            ),
            (
                "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 16384, but got 64000 instead.",
                Some(16_384),
            ),
            (
                "it has a maxOutputTokens value of 64000 but the supported range is from 1 (inclusive) to 8193 (exclusive).",
                Some(8_192),
            ),
            (
                "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.",
                Some(4_095),
            ),
            (
                "max_tokens 64000 is too large: the maximum is 16384",
                Some(16_384),
            ),
            (
                "max_tokens 64,000 is too large: the maximum is 16,384",
                Some(16_384),
            ),
            ("max_tokens is too large for llama-4096-chat", None),
            (
                "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]",
                Some(8_192),
            ),
            (
                "invalid params, max_tokens must be less than or equal to 40960 (2013)",
                Some(40_960),
            ),
            ("max_tokens is above the maximum (4096)", Some(4_096)),
        ] {
            let text = text.to_lowercase();
            assert!(is_refused(&text), "{text}");
            assert_eq!(parse_output_limit(&text), limit, "{text}");
        }
    }

    #[test]
    fn other_complaints_do_not_refuse_the_output_limit() {
        for text in [
            "unsupported parameter: 'max_tokens' is not supported with this model. use 'max_completion_tokens' instead.",
            "`max_tokens` must be greater than `thinking.budget_tokens`",
            "max_tokens: field required",
            "messages: at least one message is required",
            "temperature is too large",
        ] {
            assert!(!is_refused(text), "{text}");
        }
    }
}
