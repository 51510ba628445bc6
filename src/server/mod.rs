//! The edge: the tower-lsp service, the method table, thin handlers, converters.
