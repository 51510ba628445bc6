//! The sizes of what a request contains, derived from the model's window in one place.
//!
//! Pure. Tools, compaction, and what shortens a request ask here, so that they agree about what fits. Tokens are estimated
//! ones unless a name says otherwise.

/// The most of the last messages that always stay.
pub(super) const RETAINED_MESSAGES: usize = 6;

/// The most tokens of the user's own messages that stay word for word.
const MAX_KEPT_TOKENS: u64 = 20_000;

/// The longest tool result in bytes, however large the window is.
const MAX_RESULT_BYTES: u64 = 64 << 10;

/// The longest result of a tiny window in bytes. Less would not show a function.
const MIN_RESULT_BYTES: u64 = 4 << 10;

/// The lengths in bytes above which a tool result counts as large.
const LARGE_RESULT_BYTES: std::ops::RangeInclusive<u64> = 500..=2_000;

/// The bytes of ASCII text that are estimated as a token.
const BYTES_PER_TOKEN: u64 = 4;

/// A conversation that may use less than this is small: a few results fill it, and summaries would follow each other. In
/// a larger one, a summary frees more than stubs do, and what a provider has cached lasts longer.
const SMALL_TOKENS: u64 = 100_000;

/// Returns how many tokens of `window` a conversation may use if it is compacted at `limit`, which is three quarters of
/// that unless the user wants less.
pub fn usable_tokens(window: u64, limit: u64) -> u64 {
    window.min(limit.saturating_mul(4) / 3)
}

/// Returns the longest result of one tool call in bytes: about an eighth of what is usable.
pub fn max_result_bytes(usable: u64) -> usize {
    let share = usable.saturating_mul(BYTES_PER_TOKEN) / 8;
    // The clamped value fits.
    share.clamp(MIN_RESULT_BYTES, MAX_RESULT_BYTES) as usize
}

/// The sizes for one model and its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextSizes {
    /// The tokens of messages above which a history becomes smaller.
    pub room: u64,
    /// The tokens of messages that stay when results become stubs, if there are enough of them. The next reduction is
    /// far away then.
    pub goal: u64,
    /// The most tokens of the last messages that always stay.
    pub retained: u64,
    /// The most tokens of the user's own messages that stay word for word.
    pub kept: u64,
    /// The most tokens of a prompt in progress. A longer one is shortened if it belongs to what is summarized.
    pub prompt: u64,
    /// The most tokens of the notes in a summary.
    pub notes: u64,
    /// The length in bytes above which a tool result counts as large.
    pub large_result: usize,
    /// Old results become stubs before anything is summarized.
    pub stubs_first: bool,
}

impl ContextSizes {
    /// Derives the sizes for requests that are compacted at `limit` tokens of `window`, both as the provider counts
    /// them. `prefix` are the tokens of the system prompt and the tools; `correction` is what the provider counts per
    /// estimated token.
    pub fn new(window: u64, limit: u64, prefix: u64, correction: f64) -> Self {
        let estimate = |counted: u64| (counted as f64 / correction) as u64;
        let usable = usable_tokens(window, limit);
        // The prompt of a tiny window leaves nothing, but the history must have some room.
        let room = estimate(limit).saturating_sub(prefix).max(estimate(usable / 4));
        let large_result = usable.saturating_mul(BYTES_PER_TOKEN) / 64;
        let large_result = large_result.clamp(*LARGE_RESULT_BYTES.start(), *LARGE_RESULT_BYTES.end());
        Self {
            room,
            goal: room / 2,
            // After a summary, they leave room for many steps.
            retained: estimate(usable / 3).min(room / 2),
            kept: MAX_KEPT_TOKENS.min(window / 8).min(room / 3),
            prompt: room / 3,
            notes: room / 4,
            large_result: large_result as usize,
            stubs_first: usable < SMALL_TOKENS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_a_share_of_the_window() {
        for (window, limit, bytes) in [
            (200_000, 143_856, 64 << 10),
            (1_000_000, 200_000, 64 << 10),
            (128_000, 89_856, 59_904),
            (40_960, 24_576, 16_384),
            (32_768, 18_432, 12_288),
            (16_384, 9_216, 6_144),
            (4_096, 2_304, 4_096),
            // The user wants less.
            (200_000, 38_361, 25_574),
            (0, 0, 4_096),
        ] {
            assert_eq!(
                max_result_bytes(usable_tokens(window, limit)),
                bytes,
                "{window} {limit}"
            );
        }
    }

    #[test]
    fn what_stays_leaves_room_for_more() {
        for (window, limit) in [
            (200_000, 143_856),
            (200_000, 38_361),
            (40_960, 24_576),
            (16_384, 9_216),
        ] {
            for correction in [0.5, 1.0, 1.5] {
                let sizes = ContextSizes::new(window, limit, 4_000, correction);
                let result = max_result_bytes(usable_tokens(window, limit)) as u64 / BYTES_PER_TOKEN;
                assert!(sizes.retained <= window / 3 || correction < 1.0, "{sizes:?}");
                assert!(
                    sizes.retained <= sizes.room / 2 && sizes.goal < sizes.room,
                    "{sizes:?}"
                );
                assert!(correction > 1.0 || sizes.room > 2 * result, "{sizes:?}");
            }
        }
        let default = ContextSizes::new(200_000, 143_856, 4_000, 1.0);
        assert_eq!((default.kept, default.large_result), (20_000, 2_000));
        assert!(!default.stubs_first && default.retained > 60_000);
        assert_eq!(ContextSizes::new(8_192, 4_608, 5_000, 1.0).room, 1_536);
    }
}
