//! Rules about the repository itself: the shape of the code, the documentation, and generated files.

#![expect(clippy::unwrap_used, reason = "a test")]

mod architecture;
mod docs;
mod generated;
mod measure;
mod waiting;
