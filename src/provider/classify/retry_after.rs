//! Parses the waits and dates that providers name: `Retry-After`, `retry-after-ms`, and times in error texts.
//!
//! Pure: the caller passes the wall time in. Everything implausible counts as absent (R-PROV-1).

use std::time::{Duration, UNIX_EPOCH};

use reqwest::header::HeaderMap;

/// Longer waits count as absent (R-PROV-1).
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// Returns how long the provider asks to wait. A wait that is past, zero, negative, unreadable or over 30 days counts
/// as absent. `now_ms` is wall time in ms since the epoch.
pub(crate) fn retry_after(headers: &HeaderMap, now_ms: i64) -> Option<Duration> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let ms =
        header("retry-after-ms").and_then(|text| parse_duration(text, 1.0).filter(|wait| !wait.is_zero()));
    let wait = ms.or_else(|| {
        let text = header("retry-after")?;
        parse_duration(text, 1_000.0).or_else(|| duration_until_http_date(text, now_ms))
    })?;
    (wait <= LONGEST && !wait.is_zero()).then_some(wait)
}

/// Parses a plain decimal number of units that last `ms_each` ms.
fn parse_duration(text: &str, ms_each: f64) -> Option<Duration> {
    // `f64` would also parse `1e3`, `inf` and `NaN`.
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let ms = text.parse::<f64>().ok().filter(|_| plain)? * ms_each;
    (ms <= LONGEST.as_millis() as f64).then(|| Duration::from_millis(ms.round() as u64))
}

fn duration_until_http_date(date: &str, now_ms: i64) -> Option<Duration> {
    let at = httpdate::parse_http_date(date).ok()?;
    let at_ms = i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
    let wait = u64::try_from(at_ms.checked_sub(now_ms)?)
        .ok()
        .filter(|wait| *wait > 0)?;
    Some(Duration::from_millis(wait))
}

/// Returns the wait in Google's errors: `"retryDelay": "32s"`.
pub(super) fn parse_google_delay(body: &str) -> Option<Duration> {
    let after = body.split("\"retryDelay\"").nth(1)?;
    let value = after.trim_start_matches([' ', ':', '"']);
    parse_duration(value.split('s').next()?, 1_000.0).filter(|wait| !wait.is_zero())
}

/// Returns the wait in a lower-case text: `please try again in 1m6.5s`, `retry after 2 seconds`. Errors inside a
/// stream have no header for it.
pub(super) fn parse_delay_text(text: &str) -> Option<Duration> {
    const BEFORE: [&str; 6] = [
        "try again in ",
        "try again after ",
        "retry after ",
        "retry-after: ",
        "retry in ",
        "wait ",
    ];
    BEFORE
        .iter()
        .find_map(|words| text.split(words).skip(1).find_map(leading_delay))
        .filter(|wait| !wait.is_zero())
}

fn leading_delay(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut wait = None;
    loop {
        let digits = rest
            .bytes()
            .take_while(|b| b.is_ascii_digit() || *b == b'.')
            .count();
        let unit = rest[digits..].trim_start();
        let letters = unit.bytes().take_while(u8::is_ascii_lowercase).count();
        let ms_each = match &unit[..letters] {
            "ms" | "milliseconds" => 1.0,
            "s" | "second" | "seconds" => 1_000.0,
            "m" | "minute" | "minutes" => 60_000.0,
            "h" | "hour" | "hours" => 3_600_000.0,
            _ => return wait.filter(|wait| *wait <= LONGEST),
        };
        // A period after the last unit ends the sentence.
        let Some(part) = parse_duration(&rest[..digits], ms_each) else {
            return wait.filter(|wait| *wait <= LONGEST);
        };
        wait = Some(wait.unwrap_or_default() + part);
        rest = unit[letters..].trim_start();
    }
}

/// Returns the UTC date and time in a lower-case text, in ms since the epoch: `2026-12-01 at 00:00 utc`,
/// `2026-12-01t00:00:00z`.
pub(super) fn parse_date(text: &str) -> Option<i64> {
    let at = text.as_bytes().windows(10).position(is_date)?;
    let part = |from: usize, to: usize| text[at + from..at + to].parse::<i64>().ok();
    let days = days_since_epoch(part(0, 4)?, part(5, 7)?, part(8, 10)?)?;
    let rest = text[at + 10..].trim_start_matches([' ', 't', 'a', ',']);
    let clock = rest
        .as_bytes()
        .get(..5)
        .filter(|clock| clock[2] == b':' && [0, 1, 3, 4].iter().all(|i| clock[*i].is_ascii_digit()));
    let minutes = clock.map_or(0, |clock| {
        let digit = |i: usize| i64::from(clock[i] - b'0');
        (digit(0) * 10 + digit(1)) * 60 + digit(3) * 10 + digit(4)
    });
    Some((days * 1_440 + minutes) * 60_000)
}

fn is_date(window: &[u8]) -> bool {
    window.iter().enumerate().all(|(i, b)| match i {
        4 | 7 => *b == b'-',
        _ => b.is_ascii_digit(),
    })
}

/// Returns the days from 1970-01-01 to a date in the Gregorian calendar; `None` for an invalid date.
pub(crate) fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years start in March here, so that the leap day comes last.
    let shifted = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let leaps = shifted / 4 - shifted / 100 + shifted / 400;
    Some(shifted * 365 + leaps + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21 00:00:00 UTC.
    const NOW: i64 = 1_795_219_200_000;

    #[test]
    fn only_plausible_waits_are_read() {
        for (name, value, expected) in [
            ("retry-after", "7", Some(7_000)),
            ("retry-after", " 7 ", Some(7_000)),
            ("retry-after", "1.5", Some(1_500)),
            ("retry-after", "2592000", Some(2_592_000_000)),
            ("retry-after", "2592001", None),
            ("retry-after", "-1", None),
            ("retry-after", "soon", None),
            ("retry-after", "", None),
            ("retry-after", "1e3", None),
            ("retry-after", "inf", None),
            ("retry-after", "NaN", None),
            ("retry-after", "99999999999999999999999", None),
            ("retry-after", "Sat, 21 Nov 2026 00:00:30 GMT", Some(30_000)),
            ("retry-after", "Fri, 20 Nov 2026 23:59:59 GMT", None),
            ("retry-after", "Sat, 21 Nov 2026 00:00:00 GMT", None),
            ("retry-after", "Sat, 21 Nov 2036 00:00:00 GMT", None),
            ("retry-after-ms", "250", Some(250)),
            ("retry-after-ms", "-250", None),
            ("retry-after-ms", "0", None),
            ("retry-after-ms", "0.2", None),
            ("retry-after", "0", None),
            ("retry-after", "0.0", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            let wait = retry_after(&headers, NOW).map(|wait| wait.as_millis() as i64);
            assert_eq!(wait, expected, "{name}: {value}");
        }
    }

    #[test]
    fn readable_milliseconds_win_over_seconds() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "7".parse().unwrap());
        headers.insert("retry-after-ms", "1234".parse().unwrap());
        assert_eq!(retry_after(&headers, NOW), Some(Duration::from_millis(1234)));
        headers.insert("retry-after-ms", "x".parse().unwrap());
        assert_eq!(retry_after(&headers, NOW), Some(Duration::from_secs(7)));
        headers.insert("retry-after-ms", "0".parse().unwrap());
        assert_eq!(retry_after(&headers, NOW), Some(Duration::from_secs(7)));
    }

    #[test]
    fn google_retry_delay_is_read() {
        assert_eq!(
            parse_google_delay(r#"{"retryDelay": "32s"}"#),
            Some(Duration::from_secs(32))
        );
        assert_eq!(
            parse_google_delay(r#"{"retryDelay":"0.5s"}"#),
            Some(Duration::from_millis(500))
        );
        assert_eq!(parse_google_delay("{}"), None);
    }

    #[test]
    fn waits_in_texts_are_read() {
        for (text, expected) in [
            ("limit reached. please try again in 11.054s. visit", Some(11_054)),
            ("please try again in 20ms.", Some(20)),
            ("try again in 1m6.5s", Some(66_500)),
            ("try again in 2 hours 3 minutes", Some(7_380_000)),
            ("try again in a moment", None),
            ("try again in 99999h", None),
            ("try again in .s", None),
            ("try again in ", None),
            ("try again in 5", None),
            ("again in 5s", None),
            ("rate limited, retry after 2s", Some(2_000)),
            ("rate limited: retry after 2 seconds.", Some(2_000)),
            ("retry in 1m", Some(60_000)),
            ("try again after 3 s", Some(3_000)),
            ("please wait 4 seconds and retry", Some(4_000)),
            ("retry after a while, then retry after 5s", Some(5_000)),
            ("try again in 0s", None),
            ("try again in 0h0m3s", Some(3_000)),
        ] {
            let wait = parse_delay_text(text).map(|wait| wait.as_millis() as u64);
            assert_eq!(wait, expected, "{text}");
        }
    }

    #[test]
    fn dates_in_texts_are_found() {
        let midnight = 1_796_083_200_000;
        for (text, expected) in [
            ("regain access on 2026-12-01 at 00:00 utc.", Some(midnight)),
            ("resets 2026-12-01t00:30:00z", Some(midnight + 30 * 60_000)),
            ("until 2026-12-01", Some(midnight)),
            ("on 1970-01-01", Some(0)),
            ("on 2024-02-29", Some(1_709_164_800_000)),
            ("on 2026-13-01", None),
            ("no date", None),
        ] {
            assert_eq!(parse_date(text), expected, "{text}");
        }
    }
}
