//! The name that was probably meant where one is misspelled.

/// The name among `names` that `given` was probably meant to be. Case, `-` and `_` do not count.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    // A name of a kilobyte is no typing error, and comparing it costs its square.
    if given.len() > 64 {
        return None;
    }
    let given = plain(given);
    let allowed = (given.chars().count() / 3).max(1);
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&given, &plain(name)), name))
        .filter(|(distance, _)| *distance <= allowed)
        // Letters are swapped more often than left out, so the same length wins a tie.
        .min_by_key(|(distance, name)| (*distance, given.len().abs_diff(plain(name).len()), *name))
        .map(|(_, name)| name)
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
            assert_eq!(nearest(given, names), meant, "{given}");
        }
        assert_eq!(nearest(&"m".repeat(100_000), names), None);
    }
}
