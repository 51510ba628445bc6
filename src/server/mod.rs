//! The edge: the tower-lsp service, the method table, thin handlers, converters.

pub mod error;
pub mod from_wire;
pub mod to_wire;
