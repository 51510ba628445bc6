//! Days as dates. Pure; does not know which day it is.

use time::UtcDateTime;

/// Formats a day, counted from 1970-01-01, as `YYYY-MM-DD`.
pub fn format_date(day: i64) -> String {
    UtcDateTime::UNIX_EPOCH
        .date()
        .saturating_add(time::Duration::days(day.max(0)))
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_format_as_dates() {
        for (day, text) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (19_782, "2024-02-29"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ] {
            assert_eq!(format_date(day), text);
        }
    }
}
