//! The layers of a configuration and how they become one: user file, `.agentls/config.toml`,
//! `.agentls/config.local.toml`, `initializationOptions` and what the editor said later, environment, flags (R-CONF). [`load`] is pure;
//! [`ConfigSource`] reads the files.
//!
//! Variables: `AGENTLS_CONFIG` (another user file), `AGENTLS_PROVIDER`, `AGENTLS_MODEL`, `AGENTLS_MODE` (of the agent
//! `default`), `AGENTLS_LOG` (a level, or a filter such as `info,agentls::provider=debug`). Flags say the same.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::domain::Mode;

use super::check::check;
use super::diagnostics::Diagnostic;
use super::expand::expand;
use super::resolve::{self, resolve};
use super::settings::Settings;
use super::tree::{At, Node, Origin, Tree, keys_of, parse_toml, path_of};
use super::trust;
use super::{Env, Places};

/// The largest config file that is read.
const MAX_FILE: u64 = 1024 * 1024;

/// A file as it was read.
#[derive(Clone, Debug)]
pub struct FileText {
    /// Its path.
    pub path: PathBuf,
    /// Its bytes, or why they could not be read.
    pub bytes: Result<Vec<u8>, String>,
}

/// What the command line says. All of it goes before everything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--provider`, of the agent `default`.
    pub provider: Option<String>,
    /// `--model`, of the agent `default`.
    pub model: Option<String>,
    /// `--mode`, of the agent `default`.
    pub mode: Option<String>,
    /// `--log`: a level or a filter.
    pub log: Option<String>,
}

/// All that a configuration is made of.
#[derive(Clone, Debug)]
pub struct LoadInputs<'a> {
    /// The environment.
    pub env: &'a Env,
    /// Where things are kept; `None` without a home folder.
    pub places: Option<&'a Places>,
    /// The user's file.
    pub user: Option<FileText>,
    /// The workspace root whose files these are.
    pub root: Option<&'a Path>,
    /// The root's `.agentls/config.toml`.
    pub workspace: Option<FileText>,
    /// The root's `.agentls/config.local.toml`.
    pub local: Option<FileText>,
    /// `initializationOptions`: the same shape as a config file.
    pub options: Option<&'a Value>,
    /// What the editor said later, over the options; a `null` takes the option away.
    pub editor: Option<&'a Value>,
    /// The command line.
    pub flags: &'a Flags,
    /// Folders that the user has trusted, as the store keeps them.
    pub trusted: &'a BTreeSet<PathBuf>,
    /// Where a path leads when its links are followed: a folder may be spelled in several ways.
    pub real: fn(&Path) -> PathBuf,
    /// Names of the tools there are, so that a misspelt one is noticed; empty: not checked.
    pub tools: &'a [String],
}

/// A configuration and what is wrong with it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What to go by.
    pub settings: Arc<Settings>,
    /// What is wrong, layer by layer, each from the top.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the root's own files were trusted (or there is no root).
    pub trusted: bool,
}

/// Makes one configuration of all layers. Never fails: what is wrong is reported and left out.
pub fn load(inputs: &LoadInputs<'_>) -> Loaded {
    let user_file = inputs.user.as_ref().map(|file| Layer::file(file, inputs.env));
    let options = inputs.options.map(|options| match inputs.editor {
        Some(editor) => without_nulls_of(options, editor),
        None => options.clone(),
    });
    let options = options.and_then(|value| Layer::said_by_editor(&value, Origin::Options, inputs.env));
    let editor = inputs.editor;
    let editor = editor.and_then(|value| Layer::said_by_editor(value, Origin::Editor, inputs.env));
    let trusts = |layer: &Option<Layer>, root: &Path| {
        let folders = layer
            .as_ref()
            .map(|layer| resolve::trusted_folders(&layer.tree, inputs.env));
        let real = (inputs.real)(root);
        folders
            .into_iter()
            .flatten()
            .any(|folder| (inputs.real)(&folder) == real)
    };
    let trusted = inputs
        .root
        .is_none_or(|root| inputs.trusted.contains(root) || trusts(&user_file, root));

    let mut stack = Stack::new();
    stack.lay(user_file);
    let user = stack.merged.clone();
    for file in [&inputs.workspace, &inputs.local].into_iter().flatten() {
        let root = inputs.root.filter(|_| !trusted);
        stack.lay(Some(Layer::workspace_file(file, inputs.env, root, &user)));
    }
    stack.lay(options);
    stack.lay(editor);
    stack.lay(Layer::environment(inputs.env));
    stack.lay(Layer::flags(inputs.flags));

    let Stack {
        merged,
        mut diagnostics,
        failed,
        named,
    } = stack;
    let unreadable = diagnostics.iter().filter_map(Diagnostic::lost_rules).collect();
    let (settings, problems) = resolve(&merged, &failed, named, unreadable, inputs);
    diagnostics.extend(problems);
    Loaded {
        settings: Arc::new(settings),
        diagnostics,
        trusted,
    }
}

/// The options less those that the editor takes away.
fn without_nulls_of(options: &Value, editor: &Value) -> Value {
    let (Value::Object(options), Value::Object(editor)) = (options, editor) else {
        return options.clone();
    };
    let kept = options.iter().filter_map(|(key, value)| match editor.get(key) {
        Some(Value::Null) => None,
        Some(said) => Some((key.clone(), without_nulls_of(value, said))),
        None => Some((key.clone(), value.clone())),
    });
    Value::Object(kept.collect())
}

/// The layers laid so far.
struct Stack {
    merged: Tree,
    diagnostics: Vec<Diagnostic>,
    failed: BTreeSet<String>,
    named: BTreeSet<String>,
}

impl Stack {
    fn new() -> Self {
        Self {
            merged: Tree::table(At::nowhere(Origin::Options)),
            diagnostics: Vec::new(),
            failed: BTreeSet::new(),
            named: BTreeSet::new(),
        }
    }

    fn lay(&mut self, layer: Option<Layer>) {
        let Some(mut layer) = layer else { return };
        layer
            .problems
            .sort_by_key(|problem| (problem.line, problem.column));
        self.diagnostics.append(&mut layer.problems);
        self.named.append(&mut layer.named);
        let joined = |path: &str| {
            matches!(
                path,
                "approvals.allow" | "approvals.deny" | "approvals.require_approval" | "trusted"
            )
        };
        // A later layer mends what an earlier one got wrong.
        self.failed.retain(|path| {
            let keys = keys_of(path);
            layer
                .tree
                .find(&keys.iter().map(String::as_str).collect::<Vec<_>>())
                .is_none()
        });
        self.drop_foreign_models(&layer.tree);
        self.merged.overlay(layer.tree, "", &joined);
        for path in &layer.failed {
            // A mode that cannot be read must not leave a loose one in force.
            if let Some(agent) = trust::agent_key(path, "mode")
                && trust::looser(trust::mode_of(&self.merged, &agent), Mode::Ask)
            {
                let ask = Tree::new(self.merged.at.clone(), Node::Text(Mode::Ask.name().to_owned()));
                self.merged.put(&["agent", &agent, "mode"], ask);
            }
        }
        self.failed.append(&mut layer.failed);
    }

    /// Where a layer sends an agent to another provider and names no model, the model of the layers below goes:
    /// it is a name at the other provider.
    fn drop_foreign_models(&mut self, upper: &Tree) {
        let Some(Node::Table(agents)) = upper.find(&["agent"]).map(|agents| &agents.node) else {
            return;
        };
        for name in agents.keys() {
            let provider = |tree: &Tree| {
                tree.find(&["agent", name, "provider"])
                    .and_then(Tree::text)
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

/// One layer, checked, with variables put in.
struct Layer {
    tree: Tree,
    problems: Vec<Diagnostic>,
    failed: BTreeSet<String>,
    named: BTreeSet<String>,
}

impl Layer {
    fn file(file: &FileText, env: &Env) -> Self {
        let mut layer = Self::read(file);
        layer.finish(env);
        layer
    }

    /// A file of the workspace; `untrusted` names its root when the user has not trusted that.
    fn workspace_file(file: &FileText, env: &Env, untrusted: Option<&Path>, user: &Tree) -> Self {
        let mut layer = Self::read(file);
        if let Some(root) = untrusted {
            layer
                .problems
                .extend(trust::hold_back_variables(&mut layer.tree, root));
        }
        layer.finish(env);
        layer.problems.extend(trust::drop_own_trust(&mut layer.tree));
        if let Some(root) = untrusted {
            layer
                .problems
                .extend(trust::restrain(&mut layer.tree, user, root));
            // Nor can it make unusable what it may not set.
            layer.failed.retain(|path| !trust::forbidden(path));
        }
        layer
    }

    fn said_by_editor(value: &Value, origin: Origin, env: &Env) -> Option<Self> {
        let at = At::nowhere(origin);
        let tree = Tree::from_json(value, &at)?;
        let mut layer = Self::of(tree);
        if !matches!(layer.tree.node, Node::Table(_)) {
            layer
                .problems
                .push(Diagnostic::error(&at, "", "must be an object; ignored"));
            layer.tree = Tree::table(at);
        }
        layer.drop_trust();
        layer.drop_keys();
        layer.finish(env);
        Some(layer)
    }

    /// Whether the workspace is trusted is said by `true` or `false`, which never gets here.
    fn drop_trust(&mut self) {
        if let Some(value) = self.tree.take(&["trusted"]) {
            let problem = match *value.at.origin {
                Origin::Options => Diagnostic::error(&value.at, "trusted", "must be true or false; ignored"),
                _ => Diagnostic::warning(&value.at, "trusted", "has no effect here; ignored"),
            };
            self.problems
                .push(problem.hint("to trust a folder later, send `agent/setTrust`"));
        }
    }

    /// The editor hands keys over by `agent/getCredential`, never here, where they would be logged (R-SEC).
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
                let path = path_of(&["provider", name, "api_key"]);
                self.problems.push(
                    Diagnostic::error(&key.at, path, "keys are not accepted here; ignored")
                        .hint("put it in the environment, or name its variable in your own config file"),
                );
            }
        }
    }

    fn environment(env: &Env) -> Option<Self> {
        let value = |name: &str| env.non_empty(name).map(str::to_owned);
        let said = Flags {
            provider: value("AGENTLS_PROVIDER"),
            model: value("AGENTLS_MODEL"),
            mode: value("AGENTLS_MODE"),
            log: value("AGENTLS_LOG"),
        };
        let names = ["AGENTLS_PROVIDER", "AGENTLS_MODEL", "AGENTLS_MODE", "AGENTLS_LOG"];
        Self::said(&said, names.map(Origin::Variable))
    }

    fn flags(flags: &Flags) -> Option<Self> {
        Self::said(
            flags,
            ["--provider", "--model", "--mode", "--log"].map(Origin::Flag),
        )
    }

    fn said(said: &Flags, origins: [Origin; 4]) -> Option<Self> {
        if *said == Flags::default() {
            return None;
        }
        let log = match said.log.as_deref() {
            Some("off" | "error" | "warn" | "info" | "debug" | "trace") => ["logging", "level"],
            _ => ["logging", "filter"],
        };
        let paths: [&[&str]; 4] = [
            &["agent", "default", "provider"],
            &["agent", "default", "model"],
            &["agent", "default", "mode"],
            &log,
        ];
        let values = [&said.provider, &said.model, &said.mode, &said.log];
        let mut layer = Self::of(Tree::table(At::nowhere(Origin::Flag("command line"))));
        for ((path, value), origin) in paths.into_iter().zip(values).zip(origins) {
            if let Some(value) = value {
                layer
                    .tree
                    .put(path, Tree::new(At::nowhere(origin), Node::Text(value.clone())));
            }
        }
        layer.check();
        Some(layer)
    }

    fn of(tree: Tree) -> Self {
        Self {
            tree,
            problems: Vec::new(),
            failed: BTreeSet::new(),
            named: BTreeSet::new(),
        }
    }

    fn read(file: &FileText) -> Self {
        match &file.bytes {
            Ok(bytes) => {
                let parsed = parse_toml(bytes, &file.path);
                Self {
                    problems: parsed.problems,
                    failed: parsed.failed,
                    ..Self::of(parsed.tree)
                }
            }
            Err(why) => {
                let at = At::top(&file.path);
                let mut layer = Self::of(Tree::table(at.clone()));
                layer
                    .problems
                    .push(Diagnostic::error(&at, "", format!("cannot be read: {why}")));
                layer
            }
        }
    }

    fn finish(&mut self, env: &Env) {
        let expansion = expand(&mut self.tree, env);
        self.problems.extend(expansion.problems);
        self.failed.extend(expansion.failed);
        self.named.extend(expansion.named);
        self.check();
    }

    fn check(&mut self) {
        let checked = check(&mut self.tree);
        self.problems.extend(checked.problems);
        self.failed.extend(checked.failed);
        for list in ["allow", "deny", "require_approval"] {
            // One text is a list of one: layers join lists.
            if let Some(text) = self
                .tree
                .find(&["approvals", list])
                .filter(|tree| tree.text().is_some())
                .cloned()
            {
                let at = text.at.clone();
                self.tree
                    .put(&["approvals", list], Tree::new(at, Node::List(vec![text])));
            }
        }
    }
}

/// Where the layers come from: kept by whoever loads, and asked again for every root and on reload.
#[derive(Clone, Debug, Default)]
pub struct ConfigSource {
    /// The environment.
    pub env: Env,
    /// Where things are kept; `None` without a home folder.
    pub places: Option<Places>,
    /// The command line.
    pub flags: Flags,
    /// `initializationOptions`.
    pub options: Option<Value>,
    /// What the editor said later (`workspace/didChangeConfiguration`), over the options.
    pub editor: Option<Value>,
    /// Names of the tools there are.
    pub tools: Vec<String>,
}

impl ConfigSource {
    /// Reads the files and makes the configuration of `root`. Blocks on the disk for a moment.
    pub fn load(&self, root: Option<&Path>, trusted: &BTreeSet<PathBuf>) -> Loaded {
        let of_root = |name: &str| root.and_then(|root| read(&root.join(".agentls").join(name), false));
        load(&LoadInputs {
            env: &self.env,
            places: self.places.as_ref(),
            user: self
                .places
                .as_ref()
                .and_then(|places| read(&places.config_file, places.config_named)),
            root,
            workspace: of_root("config.toml"),
            local: of_root("config.local.toml"),
            options: self.options.as_ref(),
            editor: self.editor.as_ref(),
            flags: &self.flags,
            trusted,
            real: |path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()),
            tools: &self.tools,
        })
    }
}

/// A file's text; `None` when there is no such file and nobody said there is.
fn read(path: &Path, must_exist: bool) -> Option<FileText> {
    let result = read_bytes(path);
    if let Err(error) = &result
        && matches!(
            error.kind(),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
        )
        && !must_exist
    {
        return None;
    }
    Some(FileText {
        path: path.to_path_buf(),
        bytes: result.map_err(|error| error.to_string()),
    })
}

/// A repository may put a pipe, a device, or a giant where its config should be.
fn read_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(std::io::Error::other("larger than 1 MiB"));
    }
    Ok(bytes)
}
