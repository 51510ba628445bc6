//! The names that were probably meant where one is misspelled.

/// The name among `names` that `given` was probably meant to be. Case, `-` and `_` do not count.
pub fn nearest_name<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = normalize_name(given).len();
    // Letters are swapped more often than left out, so the same length wins a tie.
    near_names(given, names)
        .into_iter()
        .min_by_key(|(distance, name)| (*distance, length.abs_diff(normalize_name(name).len()), *name))
        .map(|(_, name)| name)
}

/// At most `count` of the names that `given` was perhaps meant to be, the nearest first. Of names that are equally near,
/// those that come first in `names` do so here too.
pub fn nearest_few<'a>(given: &str, names: impl IntoIterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    let mut near = near_names(given, names);
    near.sort_by_key(|(distance, _)| *distance);
    near.into_iter().take(count).map(|(_, name)| name).collect()
}

fn normalize_name(name: &str) -> String {
    name.to_lowercase().replace(['-', '_'], "")
}

/// The names that are near enough to be meant, with how far they are.
fn near_names<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<(usize, &'a str)> {
    // A name of a kilobyte is no typing error, and comparing it costs its square.
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
    fn finds_what_was_meant() {
        let names = ["max_retries", "mode", "model", "base_url", "delta_frame_ms"];
        for (given, meant) in [
            ("max_retrys", Some("max_retries")),
            ("modle", Some("model")),
            ("baseUrl", Some("base_url")),
            ("deltaFrameMs", Some("delta_frame_ms")),
            ("frobnicate", None),
            ("", None),
        ] {
            assert_eq!(nearest_name(given, names), meant, "{given}");
        }
        assert_eq!(nearest_name(&"m".repeat(100_000), names), None);
    }
}
