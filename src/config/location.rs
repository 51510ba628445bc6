//! Where a value of the configuration is written: its layer, line and column.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The layer that a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueSource {
    File(PathBuf),
    Options,
    Editor,
    Variable(&'static str),
    Flag(&'static str),
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Options => f.write_str("initializationOptions"),
            Self::Editor => f.write_str("workspace/didChangeConfiguration"),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Where a value is written. Line and column count from 1; both are 0 in a source without lines.
#[derive(Clone, Debug)]
pub(super) struct ConfigLocation {
    pub(super) origin: Arc<ValueSource>,
    pub(super) line: u32,
    pub(super) column: u32,
}

impl ConfigLocation {
    /// Formats the source, without the line. A file inside `root` is relative to it.
    pub(super) fn format_source(&self, root: &Path) -> String {
        match &*self.origin {
            ValueSource::File(file) => file.strip_prefix(root).unwrap_or(file).display().to_string(),
            other => other.to_string(),
        }
    }

    pub(super) fn without_position(origin: ValueSource) -> Self {
        Self {
            origin: Arc::new(origin),
            line: 0,
            column: 0,
        }
    }

    /// Returns the location of the start of a file.
    pub(super) fn start_of_file(path: &Path) -> Self {
        Self {
            origin: Arc::new(ValueSource::File(path.to_path_buf())),
            line: 1,
            column: 1,
        }
    }

    /// Returns the location of a line of the same source.
    pub(super) fn with_line(&self, line: usize) -> Self {
        Self {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            ..self.clone()
        }
    }
}
