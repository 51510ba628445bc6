//! Tokens and money.
//!
//! Money is counted in whole nano-dollars, so sums are exact. Sums saturate, because providers may report any number.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Tokens of one or several model calls. Sums saturate, because a provider may report any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(default)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to a prompt cache.
    pub input: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// Input tokens read from the provider's prompt cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's prompt cache.
    pub cache_write: u64,
}

impl Usage {
    /// Returns all tokens that the model read, cached or not.
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

/// An amount of money in nano-dollars (billionths of a US dollar).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Cost(pub u64);

impl Cost {
    /// Converts from dollars. Negative amounts become 0; amounts beyond the range saturate.
    pub fn from_usd(usd: f64) -> Self {
        // The cast saturates. `max` also turns NaN into 0.
        Self((usd.max(0.0) * 1e9).round() as u64)
    }

    /// Converts to dollars; amounts above 2^53 nano-dollars (about 9 million dollars) lose precision.
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

/// The price of a model's tokens, in US dollars per million (R-PROV-7).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Input that no prompt cache is involved in.
    pub input: f64,
    pub output: f64,
    /// Input read from the prompt cache.
    pub cache_read: f64,
    /// Input written to the prompt cache.
    pub cache_write: f64,
}

impl Price {
    /// Returns the price of `usage`, rounded to whole nano-dollars.
    pub fn calculate_cost(&self, usage: &Usage) -> Cost {
        // One dollar per million tokens is 1,000 nano-dollars per token.
        let nanos = |tokens: u64, price: f64| tokens as f64 * price * 1_000.0;
        let sum = nanos(usage.input, self.input)
            + nanos(usage.output, self.output)
            + nanos(usage.cache_read, self.cache_read)
            + nanos(usage.cache_write, self.cache_write);
        // A negative price from a user's table must not reduce the sum below 0.
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
