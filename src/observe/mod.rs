//! Logging set-up. Counters live in `base`, so that all may count.
