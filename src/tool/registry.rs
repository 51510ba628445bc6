//! The registry of tools: one line per built-in tool, and the selection of a session.
//!
//! The order never changes, so that providers' prompt caches hit. Must not know what a tool does.

use std::collections::HashMap;
use std::sync::Arc;

use super::DynTool;
use super::apply_patch::ApplyPatch;
use super::ask_user::AskUser;
use super::bash::Bash;
use super::bash_kill::BashKill;
use super::bash_output::BashOutput;
use super::delegate::Delegate;
use super::diagnostics::Diagnostics;
use super::edit_file::EditFile;
use super::find_references::FindReferences;
use super::find_symbol::FindSymbol;
use super::fix_code::FixCode;
use super::glob::Glob;
use super::go_to_definition::GoToDefinition;
use super::grep::Grep;
use super::list_dir::ListDir;
use super::present_plan::PresentPlan;
use super::read_file::ReadFile;
use super::read_skill::ReadSkill;
use super::rename_symbol::RenameSymbol;
use super::update_plan::UpdatePlan;
use super::web_fetch::WebFetch;
use super::web_search::WebSearch;
use super::write_file::WriteFile;
use crate::domain::ToolSpec;

/// Returns the tools that every session can have.
pub fn create_builtin_tools() -> Vec<Arc<dyn DynTool>> {
    vec![
        Arc::new(ReadFile),
        Arc::new(WriteFile),
        Arc::new(EditFile),
        Arc::new(ApplyPatch),
        Arc::new(ListDir),
        Arc::new(Glob),
        Arc::new(Grep),
        Arc::new(Bash),
        Arc::new(BashOutput),
        Arc::new(BashKill),
        Arc::new(UpdatePlan),
        Arc::new(ReadSkill),
        Arc::new(AskUser),
        Arc::new(PresentPlan),
        Arc::new(Delegate),
        Arc::new(WebFetch::default()),
        Arc::new(WebSearch),
        Arc::new(Diagnostics),
        Arc::new(FindSymbol),
        Arc::new(FindReferences),
        Arc::new(GoToDefinition),
        Arc::new(RenameSymbol),
        Arc::new(FixCode),
    ]
}

/// The tools of a session. Cheap to clone; never changes.
#[derive(Clone)]
pub struct Registry {
    tools: Arc<[Arc<dyn DynTool>]>,
    by_name: Arc<HashMap<String, usize>>,
    specs: Arc<[ToolSpec]>,
}

impl Registry {
    /// Creates a registry of the given tools, in this order. Of two with the same name, the first stays.
    pub fn new(tools: Vec<Arc<dyn DynTool>>) -> Self {
        let mut by_name = HashMap::new();
        let mut unique = Vec::with_capacity(tools.len());
        for tool in tools {
            if !by_name.contains_key(tool.name()) {
                by_name.insert(tool.name().to_owned(), unique.len());
                unique.push(tool);
            }
        }
        Self {
            specs: unique.iter().map(|tool| tool.spec()).collect(),
            tools: unique.into(),
            by_name: Arc::new(by_name),
        }
    }

    /// Returns a registry with `more` added; a tool with an existing name replaces that one.
    #[must_use]
    pub fn with_tools(&self, more: &[Arc<dyn DynTool>]) -> Self {
        let mut tools = self.tools.to_vec();
        let mut by_name = HashMap::clone(&self.by_name);
        let mut specs = self.specs.to_vec();
        for tool in more {
            match by_name.get(tool.name()) {
                // In the same position, so that the prompt up to here stays cached.
                Some(at) => {
                    tools[*at] = tool.clone();
                    specs[*at] = tool.spec();
                }
                None => {
                    by_name.insert(tool.name().to_owned(), tools.len());
                    tools.push(tool.clone());
                    specs.push(tool.spec());
                }
            }
        }
        Self {
            tools: tools.into(),
            by_name: Arc::new(by_name),
            specs: specs.into(),
        }
    }

    /// Returns a registry of the tools whose name `wanted` accepts, in the same order.
    #[must_use]
    pub fn filter_by_name(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let (tools, specs): (Vec<_>, Vec<_>) = (self.tools.iter().cloned().zip(self.specs.iter().cloned()))
            .filter(|(tool, _)| wanted(tool.name()))
            .unzip();
        let by_name = (0..).zip(&tools).map(|(at, tool)| (tool.name().to_owned(), at));
        Self {
            by_name: Arc::new(by_name.collect()),
            specs: specs.into(),
            tools: tools.into(),
        }
    }

    /// Returns the tool of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn DynTool>> {
        self.tools.get(*self.by_name.get(name)?)
    }

    /// Returns all tools, in order.
    pub fn as_slice(&self) -> &[Arc<dyn DynTool>] {
        &self.tools
    }

    /// Returns all names, in order.
    pub fn tool_names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool.name()).collect()
    }

    /// Returns the specifications for models, in order; they are computed once.
    pub fn tool_specs(&self) -> &Arc<[ToolSpec]> {
        &self.specs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_tools_are_found_by_name() {
        let registry = Registry::new([create_builtin_tools(), create_builtin_tools()].concat());
        assert_eq!(registry.as_slice().len(), create_builtin_tools().len());
        let names: Vec<&str> = registry
            .tool_specs()
            .iter()
            .map(|spec| spec.name.as_str())
            .collect();
        assert_eq!(names[..3], ["read_file", "write_file", "edit_file"]);
        assert!(registry.get("grep").is_some() && registry.get("nothing").is_none());
        let some = registry.filter_by_name(|name| name != "read_file");
        assert_eq!(some.tool_specs()[0].name, "write_file");
    }
}
