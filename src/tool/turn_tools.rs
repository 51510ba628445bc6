//! The tools of a turn: fixed ones, and those of a source that change from step to step.
//!
//! Within a step nothing changes: [`TurnTools::refresh`] is called between steps. Whether definitions are deferred is
//! the caller's decision, because it depends on the model's window.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::apply_patch::ApplyPatch;
use super::edit_file::EditFile;
use super::search_tools::SearchTools;
use super::web_search::WebSearch;
use super::{CurrentModel, DynTool, Registry, Tool as _, ToolSource};
use crate::config::EditTool;
use crate::domain::ToolSpec;

/// What some models put before the names of tools.
const PREFIXES: [&str; 4] = ["functions.", "default_api.", "default_api:", "tools."];

/// Names of other agents' tools, and ours that do the same.
const OTHER_NAMES: [(&str, &str); 13] = [
    ("shell", "bash"),
    ("run_shell_command", "bash"),
    ("run_terminal_cmd", "bash"),
    ("execute_command", "bash"),
    ("read", "read_file"),
    ("write", "write_file"),
    ("write_to_file", "write_file"),
    ("edit", "edit_file"),
    ("multiedit", "edit_file"),
    ("str_replace", "edit_file"),
    ("ls", "list_dir"),
    ("list", "list_dir"),
    ("list_directory", "list_dir"),
];

/// Which of the source's tools a turn has.
pub type ToolFilter = Arc<dyn Fn(&dyn DynTool) -> bool + Send + Sync>;

/// The tools of a turn. Clones share the current ones.
#[derive(Clone)]
pub struct TurnTools {
    fixed: Arc<Registry>,
    /// The fixed tools for a model that cannot search the web.
    without_search: Arc<Registry>,
    source: Option<Arc<dyn ToolSource>>,
    filter: ToolFilter,
    current: Arc<Mutex<CurrentTools>>,
}

/// The tools of the current step.
struct CurrentTools {
    /// What the model sees.
    visible: Arc<Registry>,
    /// What it can call although it does not see the definition.
    deferred: Option<Arc<Registry>>,
    model: Option<Arc<dyn CurrentModel>>,
}

impl From<Arc<Registry>> for TurnTools {
    fn from(fixed: Arc<Registry>) -> Self {
        Self::new(fixed, None, Arc::new(|_| true))
    }
}

impl TurnTools {
    /// Creates the tools; those of the source and the web search are there after the first
    /// [`TurnTools::refresh`].
    pub fn new(fixed: Arc<Registry>, source: Option<Arc<dyn ToolSource>>, filter: ToolFilter) -> Self {
        let without_search = Arc::new(fixed.filter_by_name(|tool| tool != WebSearch::NAME));
        Self {
            current: Arc::new(Mutex::new(CurrentTools {
                visible: without_search.clone(),
                deferred: None,
                model: None,
            })),
            fixed,
            without_search,
            source,
            filter,
        }
    }

    /// Returns the same tools without the fixed ones that `wanted` rejects.
    #[must_use]
    pub fn filter_fixed(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let fixed = Arc::new(self.fixed.filter_by_name(wanted));
        Self::new(fixed, self.source.clone(), self.filter.clone())
    }

    /// Returns the source of further tools.
    pub fn source(&self) -> Option<&Arc<dyn ToolSource>> {
        self.source.as_ref()
    }

    /// Takes over the model of the next step, and the tools that the source has now. `defers` decides, from all
    /// definitions, whether those of the source are deferred. Returns whether the definitions that the
    /// model sees have changed.
    pub fn refresh(
        &self,
        model: Option<Arc<dyn CurrentModel>>,
        defers: impl FnOnce(&[ToolSpec]) -> bool,
    ) -> bool {
        let fixed = if model.as_ref().is_some_and(|model| model.can_search()) {
            &self.fixed
        } else {
            &self.without_search
        };
        let next = match &self.source {
            Some(source) => self.with_source(fixed, source, model, defers),
            None => CurrentTools {
                visible: fixed.clone(),
                deferred: None,
                model,
            },
        };
        let mut current = self.lock();
        let has_changed = current.visible.tool_specs() != next.visible.tool_specs();
        *current = next;
        has_changed
    }

    /// Returns `fixed` with the tools that the source has now.
    fn with_source(
        &self,
        fixed: &Registry,
        source: &Arc<dyn ToolSource>,
        model: Option<Arc<dyn CurrentModel>>,
        defers: impl FnOnce(&[ToolSpec]) -> bool,
    ) -> CurrentTools {
        let mut extra = source.list_tools();
        extra.retain(|tool| (self.filter)(tool.as_ref()));
        let all = fixed.with_tools(&extra);
        if extra.is_empty() || !defers(all.tool_specs()) {
            CurrentTools {
                visible: Arc::new(all),
                deferred: None,
                model,
            }
        } else {
            let specs: Arc<[ToolSpec]> = extra.iter().map(|tool| tool.spec()).collect();
            let search = SearchTools::new(specs, source.loaded().clone());
            let mut shown: Vec<Arc<dyn DynTool>> = vec![Arc::new(search)];
            // In the order of loading, so that what comes before stays in the provider's cache.
            for name in source.loaded().names() {
                shown.extend(extra.iter().find(|tool| tool.name() == name).cloned());
            }
            CurrentTools {
                visible: Arc::new(fixed.with_tools(&shown)),
                deferred: Some(Arc::new(Registry::new(extra))),
                model,
            }
        }
    }

    /// Returns how the tools of the current step are to be used, by the name of what provides them.
    pub fn list_instructions(&self) -> Vec<(String, String)> {
        let Some(source) = &self.source else {
            return Vec::new();
        };
        let current = self.lock();
        let deferred = current.deferred.iter().flat_map(|tools| tools.as_slice());
        let names: Vec<&str> = (current.visible.as_slice().iter().chain(deferred))
            .map(|tool| tool.rule_name())
            .collect();
        let has_tools = |server: &str| {
            let prefix = format!("mcp:{server}/");
            names.iter().any(|name| name.starts_with(&prefix))
        };
        let mut instructions = source.list_instructions();
        instructions.retain(|(server, _)| has_tools(server));
        instructions
    }

    /// Returns the model of the current step; `None` before the first one.
    pub fn current_model(&self) -> Option<Arc<dyn CurrentModel>> {
        self.lock().model.clone()
    }

    /// Returns the tool of that name. One whose definition was deferred is loaded by that.
    pub fn get(&self, name: &str) -> Option<Arc<dyn DynTool>> {
        let (tool, is_deferred) = self.find(name)?;
        if let Some(source) = self.source.as_ref().filter(|_| is_deferred) {
            source.loaded().add(name);
        }
        Some(tool)
    }

    /// Returns the tool of that name, and whether its definition was deferred.
    fn find(&self, name: &str) -> Option<(Arc<dyn DynTool>, bool)> {
        let current = self.lock();
        // A model that took over may call the `web_search` of the one before it, which then says what to do.
        if let Some(tool) = current.visible.get(name).or_else(|| self.fixed.get(name)) {
            return Some((tool.clone(), false));
        }
        Some((current.deferred.as_ref()?.get(name)?.clone(), true))
    }

    /// Returns the name of the tool that a call means: `name`, or else the only tool that the model sees by it, without a
    /// usual prefix, in other capitals, or by its name in another agent.
    pub fn resolve_name(&self, name: String) -> String {
        if self.find(&name).is_some() {
            return name;
        }
        let bare = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
        let bare = bare.unwrap_or(&name).to_ascii_lowercase();
        let mut meant = self.tool_names();
        meant.retain(|known| known.eq_ignore_ascii_case(&bare));
        if meant.is_empty() && !self.has_tool_of_others(&bare) {
            let other = OTHER_NAMES.iter().find(|(other, _)| *other == bare);
            meant = self.tool_names();
            meant.retain(|known| other.is_some_and(|(_, ours)| ours == known));
        }
        if meant.len() == 1 { meant.remove(0) } else { name }
    }

    /// Returns whether a server or the user has a tool whose name ends with this one.
    fn has_tool_of_others(&self, bare: &str) -> bool {
        let current = self.lock();
        let all = [Some(&current.visible), current.deferred.as_ref()]
            .into_iter()
            .flatten();
        let mut names = all.flat_map(|tools| tools.tool_names());
        names.any(|name| {
            name.to_ascii_lowercase()
                .strip_suffix(bare)
                .is_some_and(|rest| rest.ends_with('_'))
        })
    }

    /// Returns the names of all tools that the model of the step sees, in order.
    pub fn tool_names(&self) -> Vec<String> {
        let edit_tool = self.current_model().map(|model| model.edit_tool());
        let specs = self.specs_for(edit_tool.unwrap_or_default());
        specs.iter().map(|spec| spec.name.clone()).collect()
    }

    /// Returns the definitions that a model with this edit tool sees, in order. It has the other one only if an agent or
    /// a hook excludes its own.
    pub fn specs_for(&self, edit_tool: EditTool) -> Arc<[ToolSpec]> {
        let visible = self.lock().visible.clone();
        let specs = visible.tool_specs();
        // A tool of the user's own with this name is like any other.
        let is_patch_tool = |spec: &ToolSpec| spec.name == ApplyPatch::NAME && spec.freeform.is_some();
        if !specs.iter().any(is_patch_tool) {
            return specs.clone();
        }
        let is_hidden = |spec: &&ToolSpec| match edit_tool {
            EditTool::EditFile => is_patch_tool(spec),
            EditTool::ApplyPatch => spec.name == EditFile::NAME,
        };
        specs.iter().filter(|spec| !is_hidden(spec)).cloned().collect()
    }

    /// Returns whether there are no tools.
    pub fn is_empty(&self) -> bool {
        self.lock().visible.as_slice().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, CurrentTools> {
        // It is replaced as a whole, so a panic elsewhere leaves it valid.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Effect;
    use crate::tool::{ToolContext, ToolError, ToolOutput, create_builtin_tools};

    #[test]
    fn a_name_with_a_prefix_or_capitals_means_the_only_tool_of_that_name() {
        let tools = TurnTools::from(Arc::new(Registry::new(create_builtin_tools())));
        for (name, meant) in [
            ("bash", "bash"),
            ("Bash", "bash"),
            ("functions.bash", "bash"),
            ("default_api.READ_FILE", "read_file"),
            ("default_api:grep", "grep"),
            // Known, but not to a model that has another edit tool.
            ("apply_patch", "apply_patch"),
            ("Apply_Patch", "Apply_Patch"),
            ("other.bash", "other.bash"),
            ("functions.functions.bash", "functions.functions.bash"),
            ("ReadFile", "ReadFile"),
            // Names in other agents.
            ("shell", "bash"),
            ("functions.Read", "read_file"),
            ("str_replace", "edit_file"),
            ("ls", "list_dir"),
            ("python", "python"),
            ("shells", "shells"),
            ("", ""),
        ] {
            assert_eq!(tools.resolve_name(name.to_owned()), meant);
        }
    }

    /// A tool of a server.
    struct ServerRead;

    impl crate::tool::Tool for ServerRead {
        type Input = Empty;

        const NAME: &'static str = "mcp__files__Read";

        const DESCRIPTION: &'static str = "";

        fn call_title(&self, _: &Empty) -> String {
            String::new()
        }

        fn predict_effect(&self, _: &Empty, _: &ToolContext) -> Result<Effect, ToolError> {
            Err(ToolError::Cancelled)
        }

        async fn run(&self, _: Empty, _: ToolContext) -> Result<ToolOutput, ToolError> {
            Err(ToolError::Cancelled)
        }
    }

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Empty {}

    #[test]
    fn a_name_of_another_agent_means_only_what_the_model_sees() {
        let all = Registry::new(create_builtin_tools());
        let resolve = |registry: Registry, name: &str| {
            TurnTools::from(Arc::new(registry)).resolve_name(name.to_owned())
        };
        assert_eq!(
            resolve(all.filter_by_name(|name| name != "bash"), "shell"),
            "shell"
        );
        // A tool of a server may be meant.
        let of_server: Arc<dyn DynTool> = Arc::new(ServerRead);
        assert_eq!(
            resolve(all.with_tools(std::slice::from_ref(&of_server)), "read"),
            "read"
        );
        assert_eq!(resolve(all.with_tools(&[of_server]), "shell"), "bash");
    }

    #[test]
    fn a_model_sees_one_of_the_two_edit_tools() {
        let all = Registry::new(create_builtin_tools());
        let names = |registry: &Registry, edit_tool| {
            let tools = TurnTools::from(Arc::new(registry.clone()));
            let specs = tools.specs_for(edit_tool);
            specs[..3]
                .iter()
                .map(|spec| spec.name.clone())
                .collect::<Vec<_>>()
        };
        let usual = ["read_file", "write_file", "edit_file"];
        assert_eq!(names(&all, EditTool::EditFile), usual);
        assert_eq!(
            names(&all, EditTool::ApplyPatch),
            ["read_file", "write_file", "apply_patch"]
        );
        // An agent without patches edits, whatever its model is trained on.
        let without = all.filter_by_name(|name| name != ApplyPatch::NAME);
        assert_eq!(names(&without, EditTool::ApplyPatch), usual);
    }
}
