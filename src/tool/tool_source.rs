//! Tools that come and go while a session lives, and the source of those of MCP servers.
//!
//! A turn has one source. The tools that the model has loaded with `search_tools` are those of its session.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, FutureExt};

use super::DynTool;
use super::mcp_tool::McpServerTool;
use crate::mcp::{McpFolder, ReportedFailures};

/// A source of tools that are not always there.
pub trait ToolSource: Send + Sync {
    /// Starts what provides the tools, without waiting.
    fn start(&self);

    /// Returns what is starting, by name.
    fn names_of_starting(&self) -> Vec<String>;

    /// Returns the names of the programs that the sandbox must confine.
    fn names_of_confined(&self) -> Vec<String>;

    /// Waits until nothing is starting any more. Every start has a time limit.
    fn wait_until_started(&self) -> BoxFuture<'_, ()>;

    /// Waits until all changes of the tools that were announced up to now can be listed. It may take long.
    fn wait_until_current(&self) -> BoxFuture<'_, ()>;

    /// Returns the failures that the turn has not reported, as name and reason.
    fn take_new_failures(&self) -> Vec<(String, String)>;

    /// Returns something that failed although the settings require it, as name and reason.
    fn find_missing_required(&self) -> Option<(String, String)>;

    /// Returns how the tools are to be used, by the name of what provides them.
    fn list_instructions(&self) -> Vec<(String, String)>;

    /// Returns the tools that are there now, in a stable order.
    fn list_tools(&self) -> Vec<Arc<dyn DynTool>>;

    /// Returns why the tool with this name is missing now, if its provider is known.
    fn explain_missing_tool(&self, name: &str) -> Option<String>;

    /// Returns the tools that the model has loaded.
    fn loaded(&self) -> &Arc<LoadedTools>;
}

/// The names of deferred tools that the model has loaded, in the order of loading.
#[derive(Debug, Default)]
pub struct LoadedTools(Mutex<Vec<String>>);

impl LoadedTools {
    /// Adds a tool, unless it is there.
    pub fn add(&self, name: &str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }

    /// Returns the names.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What is recorded about tools that come and go, for a turn and its sub-agents together.
#[derive(Clone, Default)]
pub struct ToolRecords {
    /// The deferred tools that the session's model has loaded.
    pub loaded: Arc<LoadedTools>,
    /// The failures that the turn has reported.
    pub reported: Arc<ReportedFailures>,
}

/// The tools of a folder's MCP servers.
pub struct McpToolSource {
    folder: Arc<McpFolder>,
    records: ToolRecords,
}

impl McpToolSource {
    /// Creates a source for a turn or one of its sub-agents.
    pub fn new(folder: Arc<McpFolder>, records: ToolRecords) -> Self {
        Self { folder, records }
    }

    /// Returns the servers.
    pub fn folder(&self) -> &Arc<McpFolder> {
        &self.folder
    }
}

impl ToolSource for McpToolSource {
    fn start(&self) {
        self.folder.need_servers();
    }

    fn names_of_starting(&self) -> Vec<String> {
        self.folder.names_of_starting()
    }

    fn names_of_confined(&self) -> Vec<String> {
        self.folder.names_of_confined()
    }

    fn wait_until_started(&self) -> BoxFuture<'_, ()> {
        self.folder.wait_until_started().boxed()
    }

    fn wait_until_current(&self) -> BoxFuture<'_, ()> {
        self.folder.wait_until_lists_current().boxed()
    }

    fn take_new_failures(&self) -> Vec<(String, String)> {
        self.folder.take_new_failures(&self.records.reported)
    }

    fn list_instructions(&self) -> Vec<(String, String)> {
        self.folder.list_instructions()
    }

    fn find_missing_required(&self) -> Option<(String, String)> {
        self.folder.find_missing_required()
    }

    fn list_tools(&self) -> Vec<Arc<dyn DynTool>> {
        let served = self.folder.list_tools().into_iter();
        served
            .map(|served| Arc::new(McpServerTool::new(served)) as Arc<dyn DynTool>)
            .collect()
    }

    fn explain_missing_tool(&self, name: &str) -> Option<String> {
        self.folder.explain_missing_tool(name)
    }

    fn loaded(&self) -> &Arc<LoadedTools> {
        &self.records.loaded
    }
}
