//! Limits how much of a call's output is sent while it runs: pure, no clock of its own.
//!
//! A person reads the tail, and the result contains more. So a flood is sent in part: its first bytes as they come, then
//! the newest ones once per interval. Must know neither the tool nor the client.

use std::time::Duration;

use crate::base::clock::Instant;

/// What may be sent at once, in bytes.
const BURST: usize = 256 << 10;
/// How often the newest output of a flood is sent.
const INTERVAL: Duration = Duration::from_secs(1);
/// What may be sent in each interval, in bytes.
const SHARE: usize = 16 << 10;

/// The live output of one call.
#[derive(Debug)]
pub(super) struct LiveOutput {
    /// The bytes that may be sent now.
    budget: usize,
    /// When the budget was last increased.
    counted_at: Instant,
    /// The newest output that was not sent.
    held: String,
    /// The bytes before it that were left out.
    left_out: usize,
    due: Option<Instant>,
}

impl LiveOutput {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            budget: BURST,
            counted_at: now,
            held: String::new(),
            left_out: 0,
            due: None,
        }
    }

    /// Takes a piece of output. Returns it if it may be sent now.
    pub(super) fn push(&mut self, text: String, now: Instant) -> Option<String> {
        self.refill(now);
        if self.due.is_none() && text.len() <= self.budget {
            self.budget -= text.len();
            return Some(text);
        }
        self.held.push_str(&text);
        // Not for each small piece.
        if self.held.len() > 4 * SHARE {
            self.cut();
        }
        self.due.get_or_insert(now + INTERVAL);
        None
    }

    /// Returns when the held output is to be sent.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the held output, with a line about what was left out before it.
    pub(super) fn take_held(&mut self, now: Instant) -> String {
        self.refill(now);
        self.cut();
        self.due = None;
        let held = std::mem::take(&mut self.held);
        self.budget = self.budget.saturating_sub(held.len());
        match std::mem::take(&mut self.left_out) {
            0 => held,
            bytes => format!("\n[… {bytes} bytes of output are not shown here …]\n{held}"),
        }
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.counted_at);
        let earned = elapsed.as_millis() as usize * SHARE / INTERVAL.as_millis() as usize;
        if earned > 0 {
            self.budget = self.budget.saturating_add(earned).min(BURST);
            self.counted_at = now;
        }
    }

    /// Leaves out all but the newest output, from a line's start if one is near.
    fn cut(&mut self) {
        const NEAR: usize = 1_024;
        let Some(extra) = self.held.len().checked_sub(SHARE).filter(|extra| *extra > 0) else {
            return;
        };
        let start = self.held.ceil_char_boundary(extra);
        let near = self.held.as_bytes()[start..].iter().take(NEAR);
        let line = near.copied().position(|byte| byte == b'\n');
        let start = line.map_or(start, |length| start + length + 1);
        self.held.drain(..start);
        self.left_out += start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_sent_in_part_and_its_end_in_full() {
        let start = clock::now();
        let mut live = LiveOutput::new(start);
        let (mut sent, mut whole) = (String::new(), String::new());
        // 50 MB in three seconds.
        for number in 0..3_000_u32 {
            let now = start + Duration::from_millis(number.into());
            if live.due_at().is_some_and(|due| due <= now) {
                sent.push_str(&live.take_held(now));
            }
            let piece = format!("{number} é {}\n", "x".repeat(16_800));
            whole.push_str(&piece);
            sent.extend(live.push(piece, now));
        }
        sent.push_str(&live.take_held(start + Duration::from_secs(3)));
        assert!(
            whole.len() > 50_000_000 && sent.len() < BURST + 5 * SHARE,
            "{}",
            sent.len()
        );
        assert!(whole.starts_with(&sent[..BURST / 2]));
        let tail = &sent[sent.len() - SHARE / 2..];
        assert!(whole.ends_with(tail));
        assert!(sent.contains("\n[… ") && sent.contains(" bytes of output are not shown here …]\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn output_that_a_person_can_follow_is_sent_at_once() {
        let mut now = clock::now();
        let mut live = LiveOutput::new(now);
        for _ in 0..100_000 {
            now += Duration::from_millis(10);
            assert_eq!(live.push("a line of output\n".to_owned(), now).unwrap().len(), 17);
        }
        // After a flood too: what was held comes first.
        assert_eq!(live.push("x".repeat(BURST + 1), now), None);
        assert_eq!(live.push("last\n".to_owned(), now), None);
        now = live.due_at().unwrap();
        assert!(live.take_held(now).ends_with("xlast\n"));
        now += Duration::from_secs(60);
        assert_eq!(live.push("more\n".to_owned(), now).unwrap(), "more\n");
    }
}
