//! The tools that there are, in a stable order.

use std::sync::Arc;

use super::DynTool;
use crate::domain::ToolSpec;

/// The tools that there are.
pub struct Registry {
    tools: Vec<Arc<dyn DynTool>>,
    specs: Arc<[ToolSpec]>,
}

impl Registry {
    /// A registry of `tools`, in that order.
    pub fn new(tools: Vec<Arc<dyn DynTool>>) -> Self {
        let specs = tools.iter().map(|tool| tool.spec()).collect();
        Self { tools, specs }
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn DynTool>> {
        self.tools.iter().find(|tool| tool.name() == name).cloned()
    }

    /// All names.
    pub fn names(&self) -> Vec<&str> {
        self.tools.iter().map(|tool| tool.name()).collect()
    }

    /// All tools as a model is told of them.
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        self.specs.clone()
    }
}
