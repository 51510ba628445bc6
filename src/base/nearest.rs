//! Suggestions for misspelled names, by edit distance. Pure; knows no list of names.

/// Returns the name that `given` was probably meant to be. Case, `-`, and `_` do not count.
pub fn nearest_name<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = normalize_name(given).len();
    // Letters are swapped more often than left out, so the same length wins a tie.
    similar_names(given, names)
        .into_iter()
        .min_by_key(|(distance, name)| (*distance, length.abs_diff(normalize_name(name).len()), *name))
        .map(|(_, name)| name)
}

/// Returns at most `count` names that `given` was perhaps meant to be, nearest first.
///
/// Names that are equally near keep the order of `names`.
pub fn nearest_few<'a>(given: &str, names: impl IntoIterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    let mut candidates = similar_names(given, names);
    candidates.sort_by_key(|(distance, _)| *distance);
    candidates.into_iter().take(count).map(|(_, name)| name).collect()
}

fn normalize_name(name: &str) -> String {
    name.to_lowercase().replace(['-', '_'], "")
}

/// Returns the names within the allowed distance (a third of the length, at least 1), each with its distance.
fn similar_names<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<(usize, &'a str)> {
    // A name of a kilobyte is not a typing error, and the comparison takes quadratic time.
    if given.len() > 64 {
        return Vec::new();
    }
    let given = normalize_name(given);
    let allowed = (given.chars().count() / 3).max(1);
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&given, &normalize_name(name)), name))
        .filter(|(distance, _)| *distance <= allowed)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_nearest_name_within_a_third_of_its_length() {
        let names = ["max_retries", "mode", "model", "base_url", "delta_frame_ms"];
        for (given, expected) in [
            ("max_retrys", Some("max_retries")),
            ("modle", Some("model")),
            ("baseUrl", Some("base_url")),
            ("deltaFrameMs", Some("delta_frame_ms")),
            ("frobnicate", None),
            ("", None),
        ] {
            assert_eq!(nearest_name(given, names), expected, "{given}");
        }
        assert_eq!(nearest_name(&"m".repeat(100_000), names), None);
    }
}
