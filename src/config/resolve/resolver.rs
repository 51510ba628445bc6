//! What the resolution of every table needs: the merged values with their locations, and the list of problems.

use std::collections::BTreeSet;

use crate::config::diagnostics::Diagnostic;
use crate::config::inputs::LoadInputs;
use crate::config::tree::{SpannedValue, join_keys};

use crate::config::location::{ConfigLocation, ValueSource};

/// Completes typed settings, table by table, and collects what is wrong.
pub(in crate::config) struct Resolver<'a> {
    pub(super) merged: &'a SpannedValue,
    /// Settings that were stated but could not be used.
    pub(super) failed: &'a BTreeSet<String>,
    /// Providers that count as configured. An untrusted folder does not configure one by naming it.
    pub(super) chosen: &'a BTreeSet<String>,
    pub(super) inputs: &'a LoadInputs<'a>,
    pub(super) problems: Vec<Diagnostic>,
}

impl Resolver<'_> {
    /// Returns where a setting is written, or else the nearest table above it.
    pub(super) fn find_location(&self, path: &[&str]) -> ConfigLocation {
        let found = (0..=path.len())
            .rev()
            .find_map(|len| self.merged.find(&path[..len]));
        found.unwrap_or(self.merged).at.clone()
    }

    /// Returns whether a setting is written in a file of the workspace folder.
    pub(super) fn is_from_folder(&self, path: &[&str]) -> bool {
        let at = self.find_location(path);
        let files = [&self.inputs.workspace, &self.inputs.local];
        let files = files.into_iter().flatten().chain(&self.inputs.foreign_mcp);
        let mut paths = files.map(|file| &file.path);
        matches!(&*at.origin, ValueSource::File(file) if paths.any(|path| path == file))
    }

    /// Returns whether the configuration contains the setting.
    pub(super) fn is_set(&self, path: &[&str]) -> bool {
        self.merged.find(path).is_some()
    }

    /// Returns whether the setting was stated but could not be used.
    pub(super) fn has_failed(&self, path: &[&str]) -> bool {
        self.failed.contains(&join_keys(path))
    }

    pub(super) fn report_error(&mut self, path: &[&str], message: impl Into<String>) {
        self.report_misspelling(path, message, None);
    }

    /// Reports an error, and the name that was probably meant.
    pub(super) fn report_misspelling(
        &mut self,
        path: &[&str],
        message: impl Into<String>,
        suggestion: Option<&str>,
    ) {
        let problem = Diagnostic::new_error(&self.find_location(path), join_keys(path), message);
        self.problems.push(match suggestion {
            Some(suggestion) => problem.with_hint(format!("did you mean `{suggestion}`?")),
            None => problem,
        });
    }
}
