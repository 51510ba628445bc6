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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// Input that no prompt cache is involved in.
    pub input: f64,
    pub output: f64,
    /// Input read from the prompt cache.
    pub cache_read: f64,
    /// Input written to the prompt cache.
    pub cache_write: f64,
    /// The prices of calls with long prompts, the shortest first.
    pub tiers: [Option<PriceTier>; 2],
}

/// The price of a call whose prompt is long, in US dollars per million. It applies to all of the call's tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriceTier {
    /// The prompt has more tokens than this, cached ones included.
    pub above: u64,
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
}

impl Price {
    /// Returns the price of the call that used `usage`, rounded to whole nano-dollars.
    pub fn calculate_cost(&self, usage: &Usage) -> Cost {
        let prompt = usage.input + usage.cache_read + usage.cache_write;
        let mut tiers = self.tiers.iter().flatten();
        match tiers.rfind(|tier| prompt > tier.above) {
            Some(tier) => tier.to_price().calculate_flat_cost(usage),
            None => self.calculate_flat_cost(usage),
        }
    }

    fn calculate_flat_cost(&self, usage: &Usage) -> Cost {
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

impl PriceTier {
    fn to_price(self) -> Price {
        Price {
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            tiers: [None; 2],
        }
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
            ..Price::default()
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

    #[test]
    fn a_long_prompt_costs_the_higher_tier_for_all_its_tokens() {
        let tier = PriceTier {
            above: 272_000,
            input: 4.0,
            output: 15.0,
            cache_read: 0.4,
            cache_write: 5.0,
        };
        let sol = Price {
            input: 2.0,
            output: 10.0,
            cache_read: 0.2,
            cache_write: 2.5,
            tiers: [Some(tier), None],
        };
        let cost = |input, cache_read| {
            sol.calculate_cost(&Usage {
                input,
                cache_read,
                output: 1_000_000,
                ..Usage::default()
            })
        };
        assert_eq!(cost(72_000, 200_000).to_usd(), 10.0 + 0.144 + 0.04);
        // Cached tokens count towards the size of the prompt.
        assert_eq!(
            cost(72_001, 200_000),
            Cost(15_000_000_000 + 288_004_000 + 80_000_000)
        );
    }
}
