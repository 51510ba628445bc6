//! The layers of a configuration and how they merge (R-CONF). From lowest to highest: user file,
//! `.mcp.json`, `.vscode/mcp.json`, `.agentls/config.toml`, `.agentls/config.local.toml`, `initializationOptions`, the editor's later settings,
//! environment, flags.
//!
//! [`load_settings`] is pure; [`ConfigSource`] reads the files. Invariant: loading never fails. Each problem becomes a
//! diagnostic, and a broken rule or mode makes the result stricter, never looser.
//!
//! Variables: `AGENTLS_CONFIG` (another user file), `AGENTLS_PROVIDER`, `AGENTLS_MODEL`, `AGENTLS_MODE` (of the agent
//! `default`), `AGENTLS_LOG` (a level, or a filter such as `info,agentls::provider=debug`). Flags set the same values.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::base::nofollow;
use crate::domain::Mode;

use super::diagnostics::{Diagnostic, HOW_TO_TRUST};
use super::expand::{ExpandedSecrets, InputVariable, UnsetVariables, expand_variables};
use super::folder_items::{
    FolderItem, FolderMcpServer, compute_fingerprint, folder_items, folder_mcp_servers,
};
use super::foreign_mcp::{self, read_foreign_servers};
use super::inputs::{FileText, Flags, LoadInputs, Trust};
use super::location::{ConfigLocation, ValueSource};
use super::model_name::update_prefixes;
use super::redirect::{self, FolderRedirects, MergedConfig, ProviderRedirect};
use super::resolve::{self, StatedAgent, resolve_settings};
use super::settings::{McpServerSettings, ModelPrefix, SandboxSettings, Settings};
use super::tree::{Node, SpannedValue, join_keys, parse_toml, split_keys};
use super::trust;
use super::validate::validate_tree;
use super::{ConfigPaths, Env, LoginKeys};

/// The largest config file that is read, in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// What a folder's own files would do if the folder were trusted.
#[derive(Clone, Debug)]
pub struct FolderDescription {
    pub trusted: bool,
    /// Changes with what the files activate.
    pub fingerprint: String,
    pub items: Vec<FolderItem>,
    /// Where the files would send the user's keys.
    pub redirects: Vec<ProviderRedirect>,
}

/// A configuration and its problems.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    pub settings: Arc<Settings>,
    /// The sandbox of the user's own hooks, which the root's own files do not change: hooks may guard the user against
    /// these files, and a stricter sandbox could stop them.
    pub own_sandbox: SandboxSettings,
    /// Problems, layer by layer, each from top to bottom.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the root's own files were trusted. True without a root.
    pub trusted: bool,
    /// A number that differs if a file is another.
    pub files_hash: u64,
    /// What the user's own settings say about MCP servers that others name.
    pub mcp_adjustments: BTreeMap<String, McpServerSettings>,
    /// The MCP servers that the files of an untrusted root name.
    pub(super) untrusted_mcp: Vec<FolderMcpServer>,
}

/// Merges all layers into one configuration. Never fails: it reports what is wrong and leaves that out.
pub fn load_settings(inputs: &LoadInputs<'_>) -> LoadedConfig {
    let trusted = is_trusted(inputs);
    let mut assembled = if trusted {
        let redirects = find_redirects(inputs);
        assemble_layers(inputs, FolderUse::Trusted(&redirects))
    } else {
        assemble_layers(inputs, FolderUse::Restrained)
    };
    let root = inputs
        .root
        .filter(|root| !trusted && inputs.trust.folders.contains_key(*root));
    assembled.diagnostics.extend(root.map(build_change_warning));
    let files = (
        &inputs.user,
        &inputs.workspace,
        &inputs.local,
        &inputs.foreign_mcp,
    );
    // Even a trusted folder decides nothing about the user's own hooks, nor about servers that a client names.
    let has_folder_files = read_folder_files(inputs).next().is_some();
    let own = has_folder_files.then(|| assemble_layers(inputs, FolderUse::Ignored).settings);
    let own = own.as_ref().unwrap_or(&assembled.settings);
    LoadedConfig {
        own_sandbox: own.sandbox.clone(),
        mcp_adjustments: own.unusable_mcp.clone(),
        settings: Arc::new(assembled.settings),
        diagnostics: assembled.diagnostics,
        trusted,
        untrusted_mcp: match inputs.root {
            Some(root) if !trusted => {
                let folder = FolderLayer::read(inputs, UnsetVariables::Keep);
                folder_mcp_servers(&folder.tree, root)
            }
            _ => Vec::new(),
        },
        files_hash: BuildHasherDefault::<DefaultHasher>::new().hash_one(files),
    }
}

/// Describes what the root's own files would do if it were trusted. Loads the same way, but activates nothing.
pub fn describe_folder(inputs: &LoadInputs<'_>) -> FolderDescription {
    let user = inputs
        .user
        .as_ref()
        .map(|file| ConfigLayer::from_file(file, inputs.env));
    let user = user.map_or_else(
        || SpannedValue::new_table(ConfigLocation::without_position(ValueSource::Options)),
        |layer| layer.tree,
    );
    let mut folder = FolderLayer::read(inputs, UnsetVariables::Keep);
    let fingerprint = compute_fingerprint(&folder.tree);
    // Not even trust activates these.
    trust::drop_weaker_sandboxes(&mut folder.tree, &user);
    let root = inputs.root.unwrap_or(Path::new(""));
    FolderDescription {
        trusted: is_trusted(inputs),
        fingerprint,
        redirects: find_redirects(inputs),
        items: folder_items(folder.tree, &folder.failed, &user, root),
    }
}

/// Warns that a trusted folder activates something else now.
fn build_change_warning(root: &Path) -> Diagnostic {
    let at = ConfigLocation::start_of_file(&root.join(".agentls/config.toml"));
    let message =
        "what the folder's files activate has changed since you trusted it, so it is not trusted now";
    Diagnostic::new_warning(&at, "", message).with_hint(format!(
        "to see it and trust the folder again, use {HOW_TO_TRUST}"
    ))
}

/// Returns whether the root is trusted: by the store, unless its files activate something else now, or by the user
/// file's list.
fn is_trusted(inputs: &LoadInputs<'_>) -> bool {
    let Some(root) = inputs.root else { return true };
    let is_accepted = |accepted: &Option<String>| {
        let current = || compute_fingerprint(&FolderLayer::read(inputs, UnsetVariables::Keep).tree);
        accepted.as_ref().is_none_or(|accepted| *accepted == current())
    };
    if inputs.trust.folders.get(root).is_some_and(is_accepted) {
        return true;
    }
    let Some(user) = inputs
        .user
        .as_ref()
        .map(|file| ConfigLayer::from_file(file, inputs.env))
    else {
        return false;
    };
    // Both sides resolve their links, because a trusted folder may be spelled with one.
    let real = (inputs.canonicalize)(root);
    resolve::trusted_folders(&user.tree, inputs.env)
        .iter()
        .any(|folder| (inputs.canonicalize)(folder) == real)
}

/// Finds where the root's own files would send the user's keys.
fn find_redirects(inputs: &LoadInputs<'_>) -> Vec<ProviderRedirect> {
    let Some(root) = inputs.root else {
        return Vec::new();
    };
    let folder = FolderLayer::read(inputs, UnsetVariables::Remove);
    // Only these tables can redirect a request.
    let tables = ["provider", "model", "network"];
    if tables.iter().all(|table| folder.tree.find(&[table]).is_none()) {
        return Vec::new();
    }
    // A redirect is a difference between these two, so both use all other layers.
    let own = assemble_layers(inputs, FolderUse::Ignored);
    let full = assemble_layers(inputs, FolderUse::Trusted(&[]));
    redirect::find_redirects(
        &own.as_merged(),
        &full.as_merged(),
        &FolderRedirects {
            tree: &folder.tree,
            variables: &folder.named,
        },
        &|provider, to| {
            let accepted = (root.to_path_buf(), provider.to_owned(), to.to_owned());
            inputs.trust.redirects.contains(&accepted)
        },
    )
}

/// How the files of the workspace root are used.
#[derive(Clone, Copy)]
enum FolderUse<'a> {
    /// Ignored, as if they did not exist.
    Ignored,
    /// They may only restrict.
    Restrained,
    /// Everything counts, except redirects that were not accepted.
    Trusted(&'a [ProviderRedirect]),
}

/// The merged layers and the settings they resolve to.
struct MergedLayers {
    tree: SpannedValue,
    settings: Settings,
    diagnostics: Vec<Diagnostic>,
}

impl MergedLayers {
    fn as_merged(&self) -> MergedConfig<'_> {
        MergedConfig {
            tree: &self.tree,
            settings: &self.settings,
        }
    }
}

fn assemble_layers(inputs: &LoadInputs<'_>, folder: FolderUse<'_>) -> MergedLayers {
    let options = inputs.options.map(|options| match inputs.editor {
        Some(editor) => remove_reset_options(options, editor),
        None => options.clone(),
    });
    let options =
        options.and_then(|value| ConfigLayer::from_editor(&value, ValueSource::Options, inputs.env));
    let editor = inputs.editor;
    let editor = editor.and_then(|value| ConfigLayer::from_editor(value, ValueSource::Editor, inputs.env));

    let mut stack = LayerStack::new();
    stack.push_layer(
        inputs
            .user
            .as_ref()
            .map(|file| ConfigLayer::from_file(file, inputs.env)),
    );
    // Trust compares the folder's values with the user's own file, before other layers are merged.
    let user = stack.merged.clone();
    let root = inputs.root.unwrap_or(Path::new(""));
    for layer in read_folder_files(inputs) {
        let layer = match folder {
            FolderUse::Ignored => continue,
            FolderUse::Trusted(redirects) => {
                let mut layer = layer.into_trusted(inputs.env, UnsetVariables::Remove, redirects);
                let problems = trust::drop_weaker_sandboxes(&mut layer.tree, &user);
                layer.problems.extend(problems);
                layer
            }
            FolderUse::Restrained => layer.into_restrained(inputs.env, root, &user),
        };
        stack.push_layer(Some(layer));
    }
    stack.push_layer(options);
    stack.push_layer(editor);
    stack.push_layer(ConfigLayer::from_env(inputs.env));
    stack.push_layer(ConfigLayer::from_flags(inputs.flags));

    let LayerStack {
        merged,
        mut diagnostics,
        failed,
        named,
        secrets,
        chosen,
        prefixes,
    } = stack;
    let stated = StatedAgent {
        failed: &failed,
        chosen: &chosen,
        prefixes: &prefixes,
    };
    let unreadable = diagnostics.iter().filter_map(Diagnostic::lost_rules).collect();
    let (mut settings, problems) = resolve_settings(&merged, stated, named, unreadable, inputs);
    settings.expanded = secrets;
    diagnostics.extend(problems);
    MergedLayers {
        tree: merged,
        settings,
        diagnostics,
    }
}

/// Reads the root's own files, from lowest to highest. Nothing in them is expanded or checked yet.
fn read_folder_files(inputs: &LoadInputs<'_>) -> impl Iterator<Item = ConfigLayer> {
    let root = inputs.root.unwrap_or(Path::new(""));
    let foreign = inputs.foreign_mcp.iter();
    let foreign = foreign.map(move |file| ConfigLayer::from_foreign_servers(file, root));
    let own = [&inputs.workspace, &inputs.local].into_iter().flatten();
    foreign.chain(own.map(ConfigLayer::read))
}

/// The root's own files, merged; the later overrides the earlier.
struct FolderLayer {
    tree: SpannedValue,
    named: BTreeSet<String>,
    failed: BTreeSet<String>,
}

impl FolderLayer {
    fn read(inputs: &LoadInputs<'_>, unset: UnsetVariables) -> Self {
        let mut stack = LayerStack::new();
        for layer in read_folder_files(inputs) {
            // As if everything were accepted: the description must show all that trust could activate.
            stack.push_layer(Some(layer.into_trusted(inputs.env, unset, &[])));
        }
        Self {
            tree: stack.merged,
            named: stack.named,
            failed: stack.failed,
        }
    }
}

/// Returns the options without those that the editor removes with `null`.
fn remove_reset_options(options: &Value, editor: &Value) -> Value {
    let (Value::Object(options), Value::Object(editor)) = (options, editor) else {
        return options.clone();
    };
    let kept = options.iter().filter_map(|(key, value)| match editor.get(key) {
        Some(Value::Null) => None,
        Some(editor_value) => Some((key.clone(), remove_reset_options(value, editor_value))),
        None => Some((key.clone(), value.clone())),
    });
    Value::Object(kept.collect())
}

/// The layers merged so far.
struct LayerStack {
    merged: SpannedValue,
    diagnostics: Vec<Diagnostic>,
    failed: BTreeSet<String>,
    named: BTreeSet<String>,
    /// The values of credentials in settings of MCP servers.
    secrets: ExpandedSecrets,
    /// Providers that a trusted layer configured, so that they may be selected.
    chosen: BTreeSet<String>,
    /// What the models of agents may select, by agent.
    prefixes: BTreeMap<String, ModelPrefix>,
}

impl LayerStack {
    fn new() -> Self {
        Self {
            merged: SpannedValue::new_table(ConfigLocation::without_position(ValueSource::Options)),
            diagnostics: Vec::new(),
            failed: BTreeSet::new(),
            named: BTreeSet::new(),
            secrets: ExpandedSecrets::default(),
            chosen: BTreeSet::new(),
            prefixes: BTreeMap::new(),
        }
    }

    fn push_layer(&mut self, layer: Option<ConfigLayer>) {
        let Some(mut layer) = layer else { return };
        // The checks report in the order of their rules; people read a file from the top.
        layer
            .problems
            .sort_by_key(|problem| (problem.line, problem.column));
        self.diagnostics.append(&mut layer.problems);
        self.named.append(&mut layer.named);
        self.secrets.append(std::mem::take(&mut layer.secrets));
        if let Some(Node::Table(providers)) = layer.tree.find(&["provider"]).map(|tree| &tree.node)
            // An untrusted folder must not select a provider by naming it.
            && !layer.restrained
        {
            self.chosen.extend(providers.keys().cloned());
        }
        // Rules and trusted folders add up: a higher layer must not drop a lower layer's denial.
        let joined = |path: &str| {
            matches!(
                path,
                "approvals.allow"
                    | "approvals.deny"
                    | "approvals.require_approval"
                    | "sandbox.allow_hosts"
                    | "sandbox.read_deny"
                    | "trusted"
            )
        };
        // A later layer repairs what an earlier one got wrong.
        self.failed.retain(|path| {
            let keys = split_keys(path);
            layer
                .tree
                .find(&keys.iter().map(String::as_str).collect::<Vec<_>>())
                .is_none()
        });
        self.drop_foreign_models(&layer.tree);
        update_prefixes(&mut self.prefixes, &layer.tree, layer.restrained);
        self.drop_replaced_servers(&layer.tree);
        self.merged.merge_overlay(layer.tree, "", &joined);
        for path in &layer.failed {
            // An unreadable mode must not leave a looser one in force.
            if let Some(agent) = trust::agent_key(path, "mode")
                && trust::is_looser(trust::read_mode(&self.merged, &agent), Mode::Ask)
            {
                let ask = SpannedValue::new(self.merged.at.clone(), Node::Text(Mode::Ask.name().to_owned()));
                self.merged.insert_at(&["agent", &agent, "mode"], ask);
            }
        }
        self.failed.append(&mut layer.failed);
    }

    /// Drops an agent's model when a layer moves the agent to another provider without naming a model: the old name
    /// means nothing there.
    fn drop_foreign_models(&mut self, upper: &SpannedValue) {
        let Some(Node::Table(agents)) = upper.find(&["agent"]).map(|agents| &agents.node) else {
            return;
        };
        for name in agents.keys() {
            let provider = |tree: &SpannedValue| {
                tree.find(&["agent", name, "provider"])
                    .and_then(SpannedValue::text)
                    .map(str::to_owned)
            };
            let new = provider(upper);
            if new.is_some()
                && new != provider(&self.merged)
                && upper.find(&["agent", name, "model"]).is_none()
            {
                self.merged.take(&["agent", name, "model"]);
            }
        }
    }
}

impl LayerStack {
    /// Drops the MCP servers that a layer redefines: a program must not start with the variables of another one.
    fn drop_replaced_servers(&mut self, upper: &SpannedValue) {
        let Some(Node::Table(servers)) = upper.find(&["mcp"]).map(|servers| &servers.node) else {
            return;
        };
        for (name, server) in servers {
            let connects = |server: &SpannedValue| {
                server.find(&["command"]).is_some() || server.find(&["url"]).is_some()
            };
            if connects(server) && self.merged.find(&["mcp", name]).is_some_and(connects) {
                self.merged.take(&["mcp", name]);
            }
        }
    }
}

/// One layer, validated, with variables expanded.
struct ConfigLayer {
    tree: SpannedValue,
    problems: Vec<Diagnostic>,
    failed: BTreeSet<String>,
    named: BTreeSet<String>,
    secrets: ExpandedSecrets,
    /// The variables that stand for inputs, by their names.
    inputs: BTreeMap<String, InputVariable>,
    /// A file of an untrusted folder.
    restrained: bool,
}

impl ConfigLayer {
    fn from_file(file: &FileText, env: &Env) -> Self {
        let mut layer = Self::read(file);
        layer.expand_and_validate(env, UnsetVariables::Remove);
        layer
    }

    /// Reads the MCP servers in a file of another program.
    fn from_foreign_servers(file: &FileText, root: &Path) -> Self {
        let read = read_foreign_servers(file, root);
        Self {
            problems: read.problems,
            inputs: read.variables,
            ..Self::from_tree(read.tree)
        }
    }

    /// Completes a file of a folder that the user has not trusted.
    fn into_restrained(mut self, env: &Env, root: &Path, user: &SpannedValue) -> Self {
        let layer = &mut self;
        layer.restrained = true;
        // Before the expansion: an untrusted file must not read any variable.
        layer
            .problems
            .extend(trust::hold_back_variables(&mut layer.tree, root));
        layer.expand_and_validate(env, UnsetVariables::Remove);
        layer.problems.extend(trust::drop_own_trust(&mut layer.tree));
        layer
            .problems
            .extend(trust::drop_refused_settings(&mut layer.tree, user, root));
        trust::keep_questions(&mut layer.tree, user);
        // A setting that the folder may not set cannot fail either, or the folder could disable the user's own.
        layer.failed.retain(|path| !trust::is_forbidden(path));
        self
    }

    /// Completes a file of a trusted folder, without the redirects that were not accepted.
    fn into_trusted(mut self, env: &Env, unset: UnsetVariables, redirects: &[ProviderRedirect]) -> Self {
        self.expand_and_validate(env, unset);
        self.problems.extend(trust::drop_own_trust(&mut self.tree));
        let (problems, failed) = redirect::hold_back(&mut self.tree, redirects);
        self.problems.extend(problems);
        self.failed.extend(failed);
        self
    }

    fn from_editor(value: &Value, origin: ValueSource, env: &Env) -> Option<Self> {
        let at = ConfigLocation::without_position(origin);
        let tree = SpannedValue::from_json(value, &at)?;
        let mut layer = Self::from_tree(tree);
        if !matches!(layer.tree.node, Node::Table(_)) {
            layer
                .problems
                .push(Diagnostic::new_error(&at, "", "must be an object; ignored"));
            layer.tree = SpannedValue::new_table(at);
        }
        layer.drop_trust();
        layer.drop_keys();
        layer.expand_and_validate(env, UnsetVariables::Remove);
        Some(layer)
    }

    /// Removes `trusted` when it is not a boolean: the server handles `true` and `false` before they get here.
    fn drop_trust(&mut self) {
        if let Some(value) = self.tree.take(&["trusted"]) {
            let problem = match *value.at.origin {
                ValueSource::Options => {
                    Diagnostic::new_error(&value.at, "trusted", "must be true or false; ignored")
                }
                _ => Diagnostic::new_warning(&value.at, "trusted", "has no effect here; ignored"),
            };
            self.problems
                .push(problem.with_hint(format!("to trust a folder later, use {HOW_TO_TRUST}")));
        }
    }

    /// Removes API keys. Editors pass keys with `agent/getCredential`; here they would appear in logs (R-SEC).
    fn drop_keys(&mut self) {
        let Node::Table(top) = &mut self.tree.node else {
            return;
        };
        let Some(Node::Table(providers)) = top.get_mut("provider").map(|tree| &mut tree.node) else {
            return;
        };
        for (name, provider) in providers {
            let Node::Table(entries) = &mut provider.node else {
                continue;
            };
            if let Some(key) = entries.remove("api_key") {
                let path = join_keys(&["provider", name, "api_key"]);
                self.problems.push(
                    Diagnostic::new_error(&key.at, path, "keys are not accepted here; ignored")
                        .with_hint("put it in the environment, or name its variable in your own config file"),
                );
            }
        }
    }

    fn from_env(env: &Env) -> Option<Self> {
        let names = ["AGENTLS_PROVIDER", "AGENTLS_MODEL", "AGENTLS_MODE", "AGENTLS_LOG"];
        Self::from_overrides(&Flags::from_env(env), names.map(ValueSource::Variable))
    }

    fn from_flags(flags: &Flags) -> Option<Self> {
        Self::from_overrides(
            flags,
            ["--provider", "--model", "--mode", "--log"].map(ValueSource::Flag),
        )
    }

    fn from_overrides(overrides: &Flags, origins: [ValueSource; 4]) -> Option<Self> {
        if *overrides == Flags::default() {
            return None;
        }
        let log = match overrides.log.as_deref() {
            Some("off" | "error" | "warn" | "info" | "debug" | "trace") => ["logging", "level"],
            _ => ["logging", "filter"],
        };
        let paths: [&[&str]; 4] = [
            &["agent", "default", "provider"],
            &["agent", "default", "model"],
            &["agent", "default", "mode"],
            &log,
        ];
        let values = [
            &overrides.provider,
            &overrides.model,
            &overrides.mode,
            &overrides.log,
        ];
        let mut layer = Self::from_tree(SpannedValue::new_table(ConfigLocation::without_position(
            ValueSource::Flag("command line"),
        )));
        for ((path, value), origin) in paths.into_iter().zip(values).zip(origins.clone()) {
            if let Some(value) = value {
                layer.tree.insert_at(
                    path,
                    SpannedValue::new(
                        ConfigLocation::without_position(origin),
                        Node::Text(value.clone()),
                    ),
                );
            }
        }
        // A level given here overrides a filter from a file.
        if overrides.log.is_some() && log[1] == "level" {
            let none = SpannedValue::new(
                ConfigLocation::without_position(origins[3].clone()),
                Node::Text(String::new()),
            );
            layer.tree.insert_at(&["logging", "filter"], none);
        }
        layer.validate_settings();
        Some(layer)
    }

    fn from_tree(tree: SpannedValue) -> Self {
        Self {
            tree,
            problems: Vec::new(),
            failed: BTreeSet::new(),
            named: BTreeSet::new(),
            secrets: ExpandedSecrets::default(),
            inputs: BTreeMap::new(),
            restrained: false,
        }
    }

    fn read(file: &FileText) -> Self {
        match &file.bytes {
            Ok(bytes) => {
                let parsed = parse_toml(bytes, &file.path);
                Self {
                    problems: parsed.problems,
                    failed: parsed.failed,
                    ..Self::from_tree(parsed.tree)
                }
            }
            Err(reason) => {
                let at = ConfigLocation::start_of_file(&file.path);
                let mut layer = Self::from_tree(SpannedValue::new_table(at.clone()));
                layer.problems.push(Diagnostic::new_error(
                    &at,
                    "",
                    format!("cannot be read: {reason}"),
                ));
                layer
            }
        }
    }

    fn expand_and_validate(&mut self, env: &Env, unset: UnsetVariables) {
        let expansion = expand_variables(&mut self.tree, env, &self.inputs, unset);
        self.problems.extend(expansion.problems);
        self.failed.extend(expansion.failed);
        self.named.extend(expansion.named);
        self.secrets.append(expansion.secrets);
        self.validate_settings();
    }

    fn validate_settings(&mut self) {
        let checked = validate_tree(&mut self.tree);
        self.problems.extend(checked.problems);
        self.failed.extend(checked.failed);
        for list in ["allow", "deny", "require_approval"] {
            // A single text becomes a list, because layers join lists.
            if let Some(text) = self
                .tree
                .find(&["approvals", list])
                .filter(|tree| tree.text().is_some())
                .cloned()
            {
                let at = text.at.clone();
                self.tree.insert_at(
                    &["approvals", list],
                    SpannedValue::new(at, Node::List(vec![text])),
                );
            }
        }
    }
}

/// The inputs of a configuration. The owner keeps it, and loads again for each root and on reload.
#[derive(Clone, Debug, Default)]
pub struct ConfigSource {
    pub env: Env,
    /// The user's folders; `None` without a home folder.
    pub places: Option<ConfigPaths>,
    pub flags: Flags,
    /// `initializationOptions`, without `trusted`.
    pub options: Option<Value>,
    /// The editor's later settings (`workspace/didChangeConfiguration`), which override the options.
    pub editor: Option<Value>,
    /// The names of all tools.
    pub tools: Vec<String>,
}

impl ConfigSource {
    /// Reads the files and loads the configuration of `root`. Blocks briefly on the disk.
    pub fn load_settings(&self, root: Option<&Path>, trust: &Trust) -> LoadedConfig {
        self.with_inputs(root, trust, self.login_keys(), load_settings)
    }

    /// Returns what the flags state, or else the variables.
    pub fn stated_overrides(&self) -> Flags {
        let (flags, variables) = (self.flags.clone(), Flags::from_env(&self.env));
        Flags {
            provider: flags.provider.or(variables.provider),
            model: flags.model.or(variables.model),
            mode: flags.mode.or(variables.mode),
            log: flags.log.or(variables.log),
        }
    }

    /// Reads the files and describes what those of `root` would do if it were trusted. Blocks briefly on the disk.
    pub fn describe_folder(&self, root: &Path, trust: &Trust) -> FolderDescription {
        self.with_inputs(Some(root), trust, self.login_keys(), describe_folder)
    }

    /// Returns the settings of the sandbox, with the paths that hold this program's own secrets.
    pub fn sandbox_settings(&self, sandbox: &SandboxSettings) -> SandboxSettings {
        let own = self.places.as_ref();
        SandboxSettings {
            own_secrets: own.map_or_else(Vec::new, ConfigPaths::secret_paths),
            own_folder: own.map(|own| own.config_dir.clone()),
            own_data: own.map(|own| own.data_dir.clone()),
            ..sandbox.clone()
        }
    }

    pub(super) fn with_inputs<T>(
        &self,
        root: Option<&Path>,
        trust: &Trust,
        keys: LoginKeys,
        make: fn(&LoadInputs<'_>) -> T,
    ) -> T {
        let of_root =
            |name: &str| root.and_then(|root| read(&root.join(".agentls").join(name), false, Some(root)));
        make(&LoadInputs {
            env: &self.env,
            places: self.places.as_ref(),
            keys: &keys,
            user: self
                .places
                .as_ref()
                .and_then(|places| read(&places.config_file, places.config_named, None)),
            root,
            workspace: of_root("config.toml"),
            local: of_root("config.local.toml"),
            foreign_mcp: root.map_or_else(Vec::new, |root| {
                let files = foreign_mcp::FILES.iter();
                files
                    .filter_map(|name| read(&root.join(name), false, Some(root)))
                    .collect()
            }),
            options: self.options.as_ref(),
            editor: self.editor.as_ref(),
            flags: &self.flags,
            trust,
            // A folder that does not exist cannot be resolved, so it counts as spelled.
            canonicalize: |path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()),
            tools: &self.tools,
        })
    }
}

/// Reads a file; `None` if it does not exist and need not.
fn read(path: &Path, must_exist: bool, within: Option<&Path>) -> Option<FileText> {
    let result = match real_file(path, within) {
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) && !must_exist =>
        {
            return None;
        }
        Err(error) => Err(error.to_string()),
        Ok(real) => nofollow::read(&real, MAX_FILE).map_err(|error| error.to_string()),
    };
    Some(FileText {
        path: path.to_path_buf(),
        bytes: result,
    })
}

/// Resolves a file's links. A repository's file must not be a link to a file outside the repository.
fn real_file(path: &Path, within: Option<&Path>) -> std::io::Result<PathBuf> {
    let real = std::fs::canonicalize(path)?;
    match within {
        Some(root) if !real.starts_with(std::fs::canonicalize(root)?) => Err(std::io::Error::other(
            "it is a link to a file outside the workspace folder",
        )),
        _ => Ok(real),
    }
}
