//! The sizes of what a request contains, derived from the model's window in one place.
//!
//! Pure. Tools, compaction, and what shortens a request ask here, so that they agree about what fits. Tokens are estimated
//! ones unless a name says otherwise.

/// The longest tool result in bytes, however large the window is.
const MAX_RESULT_BYTES: u64 = 64 << 10;

/// The longest result of a tiny window in bytes. Less would not show a function.
const MIN_RESULT_BYTES: u64 = 4 << 10;

/// The bytes of ASCII text that are estimated as a token.
const BYTES_PER_TOKEN: u64 = 4;

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
}
