//! Pacing (R-PROV-6): reads the rate-limit headers, and computes how long the next call waits so that the remaining
//! quota lasts until the reset. Pure: the caller passes both clocks in and does the waiting.
//!
//! Anthropic: `anthropic-ratelimit-{requests,tokens,…}-{limit,remaining,reset}`. OpenAI and compatible APIs:
//! `x-ratelimit-{limit,remaining,reset}[-requests|-tokens]`. No header names the window of its limit, so the longest
//! reset seen so far is used instead.

use std::time::{Duration, UNIX_EPOCH};

use reqwest::header::HeaderMap;

use super::classify::days_since_epoch;
use crate::base::clock::Instant;
use crate::domain::words::word_enum;

/// The assumed window of a limit until a longer reset is seen (R-PROV-6).
const WINDOW: Duration = Duration::from_secs(60);

/// The longest single wait (R-PROV-6).
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A reset further away counts as absent, as with `Retry-After` (R-PROV-1).
const LONGEST_RESET: Duration = Duration::from_secs(30 * 86_400);

word_enum! {
    /// What a rate limit counts, in words for people.
    pub enum LimitedResource {
        Requests = "requests",
        /// Prompt and answer tokens together.
        Tokens = "tokens",
        /// Prompt tokens.
        InputTokens = "input tokens",
        /// Answer tokens.
        OutputTokens = "output tokens",
        /// The provider does not say.
        Unnamed = "calls",
    }
}

impl LimitedResource {
    /// Returns the header names for limit, remaining and reset, one triple for each vendor's spelling.
    fn header_names(self) -> Vec<[String; 3]> {
        const PARTS: [&str; 3] = ["limit", "remaining", "reset"];
        let anthropic = |resource: &str| PARTS.map(|part| format!("anthropic-ratelimit-{resource}-{part}"));
        let plain = |resource: &str| PARTS.map(|part| format!("x-ratelimit-{part}{resource}"));
        match self {
            Self::Requests => vec![anthropic("requests"), plain("-requests")],
            Self::Tokens => vec![anthropic("tokens"), plain("-tokens")],
            Self::InputTokens => vec![anthropic("input-tokens")],
            Self::OutputTokens => vec![anthropic("output-tokens")],
            Self::Unnamed => vec![plain("")],
        }
    }
}

/// What the headers of one response say about one resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimitSnapshot {
    pub resource: LimitedResource,
    /// The amount allowed in one window.
    pub limit: f64,
    pub remaining: f64,
    /// Time from now until the full limit is available again.
    pub reset: Duration,
}

/// Parses the rate-limit headers. Skips a resource whose headers are incomplete or implausible. `now_ms` is wall
/// time in ms since the epoch.
pub fn parse_rate_limits(headers: &HeaderMap, now_ms: i64) -> Vec<RateLimitSnapshot> {
    let header_value = |name: &String| headers.get(name)?.to_str().ok().map(str::trim);
    let reading = |resource: LimitedResource, [limit, remaining, reset]: &[String; 3]| {
        Some(RateLimitSnapshot {
            resource,
            // A limit of 0 would make the remaining share undefined.
            limit: parse_amount(header_value(limit)?).filter(|limit| *limit > 0.0)?,
            remaining: parse_amount(header_value(remaining)?)?,
            reset: parse_reset(header_value(reset)?, now_ms)?,
        })
    };
    LimitedResource::ALL
        .into_iter()
        .filter_map(|resource| {
            let mut names = resource.header_names().into_iter();
            names.find_map(|names| reading(resource, &names))
        })
        .collect()
}

/// Parses a plain decimal number; a sign or an exponent makes it invalid.
fn parse_amount(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plain.then(|| text.parse::<f64>().ok()).flatten()
}

/// Returns the time from now until a reset, written as seconds, an epoch (in s or ms), a date, or a duration (`6m0s`,
/// `20ms`). `None` if it is past, unreadable, or over 30 days away.
pub fn parse_reset(text: &str, now_ms: i64) -> Option<Duration> {
    let reset = match parse_amount(text) {
        // The units cannot be confused: 1e9 s is a date in 2001 as an epoch but 31 years as a wait, far over 30 days.
        Some(number) if number >= 1e11 => duration_until(number, now_ms),
        Some(number) if number >= 1e9 => duration_until(number * 1_000.0, now_ms),
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => parse_go_duration(text).or_else(|| duration_until(date_ms(text)?, now_ms)),
    };
    reset.filter(|reset| *reset <= LONGEST_RESET)
}

fn duration_until(at_ms: f64, now_ms: i64) -> Option<Duration> {
    let ms = at_ms - now_ms as f64;
    (ms >= 0.0 && ms <= LONGEST_RESET.as_millis() as f64).then(|| Duration::from_millis(ms as u64))
}

/// Parses a duration as Go writes it: `1h2m3.5s`, `6m0s`, `20ms`.
fn parse_go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number = parse_amount(&rest[..end])?;
        let unit = &rest[end..];
        let (seconds, len) = [
            // `ms` comes before `m`, because the first match wins.
            ("ms", 1e-3),
            ("us", 1e-6),
            ("µs", 1e-6),
            ("ns", 1e-9),
            ("d", 86_400.0),
            ("h", 3_600.0),
            ("m", 60.0),
            ("s", 1.0),
        ]
        .into_iter()
        .find_map(|(name, seconds)| unit.starts_with(name).then_some((seconds, name.len())))?;
        sum += number * seconds;
        rest = &unit[len..];
    }
    (!text.is_empty())
        .then(|| Duration::try_from_secs_f64(sum).ok())
        .flatten()
}

/// Parses a date in the form of HTTP or RFC 3339, in ms since the epoch.
fn date_ms(text: &str) -> Option<f64> {
    if let Ok(at) = httpdate::parse_http_date(text) {
        return Some(at.duration_since(UNIX_EPOCH).ok()?.as_millis() as f64);
    }
    let (day, time) = text.split_once(['T', 't', ' '])?;
    let mut day = day.split('-').map(|part| part.parse::<i64>().ok());
    let days = days_since_epoch(day.next()??, day.next()??, day.next()??)?;
    let zone_at = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone_at);
    let mut clock = clock.split(':').map(parse_amount);
    let (hours, minutes) = (clock.next()??, clock.next()??);
    let seconds = clock.next().unwrap_or(Some(0.0))?;
    let offset_minutes = match zone {
        "" | "Z" | "z" => 0.0,
        offset => {
            let (h, m) = offset.get(1..)?.split_once(':')?;
            let minutes = parse_amount(h)? * 60.0 + parse_amount(m)?;
            if offset.starts_with('-') {
                -minutes
            } else {
                minutes
            }
        }
    };
    let minutes = days as f64 * 1_440.0 + hours * 60.0 + minutes - offset_minutes;
    Some(minutes * 60_000.0 + seconds * 1_000.0)
}

/// The latest known state of one resource of an account.
#[derive(Clone, Copy, Debug)]
struct ResourceState {
    resource: LimitedResource,
    limit: f64,
    remaining: f64,
    /// On the monotonic clock, so that a change of the wall time cannot stretch a wait.
    reset_at: Instant,
    /// The longest reset seen so far.
    window: Duration,
}

impl ResourceState {
    /// Returns how long a call waits. At the pace that the limit allows, the remaining share lasts that share of the
    /// window. The call waits for the part of the reset that lies beyond.
    fn wait(&self, now: Instant) -> Duration {
        let until_reset = self.reset_at.saturating_duration_since(now);
        let share = (self.remaining / self.limit).clamp(0.0, 1.0);
        // Bursts are fine while half remains (R-PROV-6).
        if share >= 0.5 {
            return Duration::ZERO;
        }
        until_reset
            .saturating_sub(self.window.mul_f64(share))
            .min(LONGEST_WAIT)
    }
}

/// A wait that pacing imposes on the next call.
#[derive(Clone, Debug, PartialEq)]
pub struct PacingDelay {
    /// At most 5 s; the caller asks again afterwards.
    pub wait: Duration,
    /// The reason, for the user.
    pub reason: String,
}

/// The rate limits of one account, and the waits that follow from them.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    gauges: Vec<ResourceState>,
}

impl Pacer {
    /// Records the rate limits of a response. The last response wins, except that a window never shrinks.
    pub fn observe_rate_limits(&mut self, readings: &[RateLimitSnapshot], now: Instant) {
        for reading in readings {
            let known = self
                .gauges
                .iter()
                .position(|gauge| gauge.resource == reading.resource);
            let window = known.map_or(WINDOW, |at| self.gauges[at].window);
            let gauge = ResourceState {
                resource: reading.resource,
                limit: reading.limit,
                remaining: reading.remaining,
                reset_at: now + reading.reset,
                window: window.max(reading.reset),
            };
            match known {
                Some(at) => self.gauges[at] = gauge,
                None => self.gauges.push(gauge),
            }
        }
    }

    /// Returns how long a call that is due now waits, and why: the longest wait of all resources. `None`: no wait.
    pub fn current_pace(&self, provider: &str, now: Instant) -> Option<PacingDelay> {
        let waits = self.gauges.iter().map(|gauge| (gauge.wait(now), gauge));
        let (wait, gauge) = waits
            .filter(|(wait, _)| *wait >= Duration::from_millis(1))
            .max_by_key(|(wait, _)| *wait)?;
        let seconds_left = gauge.reset_at.saturating_duration_since(now).as_secs_f64();
        let reason = format!(
            "{provider} has {} of {} {} left for {seconds_left:.0} s: calls are spaced out",
            gauge.remaining,
            gauge.limit,
            gauge.resource.name(),
        );
        Some(PacingDelay { wait, reason })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::clock;

    /// 2026-11-21 00:00:00 UTC.
    const NOW: i64 = 1_795_219_200_000;

    #[test]
    fn resets_parse_in_every_notation() {
        for (text, ms) in [
            ("12", Some(12_000)),
            ("0", Some(0)),
            ("1.5", Some(1_500)),
            ("2592000", Some(2_592_000_000)),
            ("2592001", None),
            ("1795219230", Some(30_000)),
            ("1795219230.5", Some(30_500)),
            ("1795219230250", Some(30_250)),
            ("1795219100", None),
            ("1899999999", None),
            ("6m0s", Some(360_000)),
            ("20ms", Some(20)),
            ("1h2m3.5s", Some(3_723_500)),
            ("1d", Some(86_400_000)),
            ("7.66s", Some(7_660)),
            ("250us", Some(0)),
            ("2026-11-21T00:00:30Z", Some(30_000)),
            ("2026-11-21T00:00:30.250Z", Some(30_250)),
            ("2026-11-21T01:00:30+01:00", Some(30_000)),
            ("2026-11-20T23:00:30-01:00", Some(30_000)),
            ("2026-11-20T23:59:59Z", None),
            ("Sat, 21 Nov 2026 00:00:30 GMT", Some(30_000)),
            ("Fri, 20 Nov 2026 00:00:30 GMT", None),
            ("", None),
            ("-1", None),
            ("soon", None),
            ("6m0", None),
            ("m", None),
            ("1e3", None),
            ("2026-13-01T00:00:00Z", None),
            ("99999999999999999999999999", None),
        ] {
            let read = parse_reset(text, NOW).map(|reset| reset.as_millis() as i64);
            assert_eq!(read, ms, "{text}");
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn headers_of_every_vendor_are_parsed() {
        let vendor_headers = headers(&[
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "49"),
            ("anthropic-ratelimit-requests-reset", "2026-11-21T00:00:01Z"),
            ("anthropic-ratelimit-input-tokens-limit", "30000"),
            ("anthropic-ratelimit-input-tokens-remaining", "1000"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-11-21T00:00:40Z"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-tokens", "6m0s"),
            ("x-ratelimit-limit", "20"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1795219260000"),
        ]);
        let reading = |resource, limit: u32, remaining: u32, reset| RateLimitSnapshot {
            resource,
            limit: limit.into(),
            remaining: remaining.into(),
            reset: Duration::from_secs(reset),
        };
        assert_eq!(
            parse_rate_limits(&vendor_headers, NOW),
            [
                reading(LimitedResource::Requests, 50, 49, 1),
                reading(LimitedResource::Tokens, 150_000, 149_984, 360),
                reading(LimitedResource::InputTokens, 30_000, 1_000, 40),
                reading(LimitedResource::Unnamed, 20, 0, 60),
            ]
        );
        for broken in [
            vec![("x-ratelimit-limit", "20"), ("x-ratelimit-remaining", "3")],
            vec![
                ("x-ratelimit-limit", "0"),
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "1"),
            ],
            vec![
                ("x-ratelimit-limit", "20"),
                ("x-ratelimit-remaining", "-1"),
                ("x-ratelimit-reset", "1"),
            ],
        ] {
            assert_eq!(parse_rate_limits(&headers(&broken), NOW), []);
        }
    }

    /// Returns the wait in ms after these responses: (seconds since the first, remaining of 100, reset in seconds).
    fn wait(responses: &[(u64, u32, u64)], asked_at: u64) -> u64 {
        let start = clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pacer = Pacer::default();
        for (seconds, remaining, reset) in responses {
            let reading = RateLimitSnapshot {
                resource: LimitedResource::Requests,
                limit: 100.0,
                remaining: (*remaining).into(),
                reset: Duration::from_secs(*reset),
            };
            pacer.observe_rate_limits(&[reading], at(*seconds));
        }
        let pace = pacer.current_pace("p", at(asked_at));
        pace.map_or(0, |pace| pace.wait.as_millis() as u64)
    }

    #[test]
    fn calls_wait_so_that_the_remaining_quota_lasts() {
        for (name, responses, asked_at, ms) in [
            ("nothing is known", &[][..], 0, 0),
            ("half remains", &[(0, 50, 60)], 0, 0),
            ("under half, as the clock goes", &[(0, 40, 24)], 0, 0),
            ("under half, ahead of the clock", &[(0, 40, 27)], 0, 3_000),
            ("far ahead: 5 s at a time", &[(0, 40, 60)], 0, 5_000),
            ("time has passed since", &[(0, 40, 27)], 2, 1_000),
            ("nothing remains, the reset is near", &[(0, 0, 2)], 0, 2_000),
            ("the reset has passed", &[(0, 0, 2)], 3, 0),
            // A reset of 300 s was seen once; 40 % of that window lasts 120 s.
            (
                "a longer window was seen",
                &[(0, 90, 300), (200, 40, 122)],
                200,
                2_000,
            ),
            ("the window does not shrink", &[(0, 90, 300), (1, 40, 100)], 1, 0),
            ("it is full again", &[(0, 0, 60), (60, 100, 60)], 60, 0),
        ] {
            assert_eq!(wait(responses, asked_at), ms, "{name}");
        }
    }

    #[test]
    fn the_longest_of_several_waits_applies_with_its_reason() {
        let now = clock::now();
        let reading = |resource, remaining, reset| RateLimitSnapshot {
            resource,
            limit: 1_000.0,
            remaining,
            reset: Duration::from_secs(reset),
        };
        let mut pacer = Pacer::default();
        pacer.observe_rate_limits(
            &[
                reading(LimitedResource::Requests, 0.0, 1),
                reading(LimitedResource::Tokens, 100.0, 10),
            ],
            now,
        );
        assert_eq!(
            pacer.current_pace("work", now),
            Some(PacingDelay {
                wait: Duration::from_secs(4),
                reason: "work has 100 of 1000 tokens left for 10 s: calls are spaced out".to_owned()
            })
        );
    }

    proptest! {
        /// A wait never exceeds 5 s or the reset, and is zero while half remains.
        #[test]
        fn waits_are_bounded(limit in 1_u32..1_000_000, remaining in 0_u32..1_000_000, reset in 0_u64..100_000, later in 0_u64..100_000) {
            let now = clock::now();
            let mut pacer = Pacer::default();
            let reading = RateLimitSnapshot {
                resource: LimitedResource::Tokens,
                limit: limit.into(),
                remaining: remaining.into(),
                reset: Duration::from_millis(reset),
            };
            pacer.observe_rate_limits(&[reading], now);
            let wait = pacer.current_pace("p", now + Duration::from_millis(later)).map_or(Duration::ZERO, |pace| pace.wait);
            prop_assert!(wait <= LONGEST_WAIT.min(Duration::from_millis(reset.saturating_sub(later))));
            prop_assert!(wait.is_zero() || remaining * 2 < limit);
        }

        #[test]
        /// Any header value either parses within bounds or is ignored; none panics.
        fn no_header_value_panics_or_exceeds_the_longest_reset(text in "[0-9a-zA-Z:+. -]{0,24}|\\PC{0,8}", now_ms in 0_i64..4_000_000_000_000) {
            if let Some(reset) = parse_reset(&text, now_ms) {
                prop_assert!(reset <= LONGEST_RESET);
            }
        }

        #[test]
        /// A duration in Go's notation parses to the same duration.
        fn go_durations_round_trip(h in 0_u64..700, m in 0_u64..60, ms in 0_u64..60_000) {
            let text = format!("{h}h{m}m{}s", ms as f64 / 1_000.0);
            let expected = (h * 60 + m) * 60_000 + ms;
            let read = parse_reset(&text, NOW).map(|reset| reset.as_millis() as u64);
            prop_assert!(read.is_some_and(|read| read.abs_diff(expected) <= 1), "{} {:?}", text, read);
        }
    }
}
