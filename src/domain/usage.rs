//! Tokens and money. Money is counted in whole nano-dollars, so that sums are exact.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// Tokens of one or several model calls. What providers tell is not ours to trust: sums stop at the top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to a prompt cache.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from the provider's prompt cache.
    pub cache_read: u64,
    /// Input tokens written to it.
    pub cache_write: u64,
}

impl Usage {
    /// All tokens that the model read.
    pub fn total_input_tokens(&self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// An amount of money in billionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(pub u64);

impl Cost {
    /// From dollars; negative or absurd amounts become nothing.
    pub fn from_usd(usd: f64) -> Self {
        Self((usd.max(0.0) * 1e9).round() as u64)
    }

    /// In dollars.
    pub fn to_usd(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::default(), Add::add)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.2}", self.to_usd())
    }
}

/// What a model's tokens cost, in US dollars per million (R-PROV-7).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Plain input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache.
    pub cache_write: f64,
}

impl Price {
    /// What `usage` costs.
    pub fn calculate_cost(&self, usage: &Usage) -> Cost {
        // One dollar per million tokens is a thousand nano-dollars a token.
        let nanos = |tokens: u64, price: f64| tokens as f64 * price * 1_000.0;
        let sum = nanos(usage.input, self.input)
            + nanos(usage.output, self.output)
            + nanos(usage.cache_read, self.cache_read)
            + nanos(usage.cache_write, self.cache_write);
        Cost(sum.max(0.0).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_per_million_tokens() {
        let sonnet = Price {
            input: 3.0,
            output: 15.0,
            cache_read: 0.3,
            cache_write: 3.75,
        };
        let usage = Usage {
            input: 1_000_000,
            output: 100_000,
            cache_read: 10,
            cache_write: 0,
        };
        assert_eq!(sonnet.calculate_cost(&usage), Cost(4_500_003_000));
        assert_eq!(sonnet.calculate_cost(&usage).to_string(), "$4.50");
    }
}
