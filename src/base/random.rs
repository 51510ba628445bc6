//! Randomness for ids and jitter. Seeded per thread by the simulator, from the system otherwise.
//!
//! Not cryptographically secure: never use it for secrets.

use std::cell::RefCell;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

thread_local! {
    // Per thread, so that a seed decides everything on the simulator's thread.
    static RNG: RefCell<SmallRng> = RefCell::new(rand::make_rng());
}

/// Makes this thread's randomness repeatable (simulator and tests).
pub fn seed_thread(seed: u64) {
    RNG.with_borrow_mut(|rng| *rng = SmallRng::seed_from_u64(seed));
}

/// Returns a number that is uniform in `0.0..1.0`.
pub fn random_unit() -> f64 {
    RNG.with_borrow_mut(|rng| rng.random::<f64>())
}

/// Returns a number that is uniform over all values.
pub fn next_u64() -> u64 {
    RNG.with_borrow_mut(|rng| rng.random())
}

/// Returns `len` characters of lower-case base 32 (5 random bits each), for ids.
pub fn random_token(len: usize) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    (0..len)
        .map(|_| ALPHABET[(next_u64() >> 59) as usize] as char)
        .collect()
}
