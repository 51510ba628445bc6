//! Typed settings: layers, trust, diagnostics with file and line.
