//! Resolves the merged tree to typed settings: inheritance, paths, URLs, keys, references between settings.
//!
//! Runs after validation, so types and ranges are right; it checks what a schema cannot. Reads no files. Fails
//! closed: a setting that matters for safety and cannot be read disables its owner instead of falling back to a
//! default.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;

use crate::approval::Rule;

use super::Env;
use super::diagnostics::Diagnostic;
use super::inputs::LoadInputs;
use super::location::{ConfigLocation, ValueSource};
use super::paths::home_expanded;
use super::schema::{annotated_schema, find_property};
use super::settings::{
    ApprovalSettings, LoggingSettings, ModelPrefix, NetworkSettings, ProxyAddress, Settings,
    take_own_body_fields,
};
use super::tree::{Node, SpannedValue, join_keys};
use super::validate::shorten_for_message;
use super::values::StringList;
use resolver::Resolver;

mod agents;
mod mcp;
mod providers;
mod resolver;
mod tools;

/// Facts about the layers that the merged values no longer show.
pub(super) struct StatedAgent<'a> {
    /// Settings that were stated but could not be used.
    pub(super) failed: &'a BTreeSet<String>,
    /// Providers that count as configured. An untrusted folder does not configure one by naming it.
    pub(super) chosen: &'a BTreeSet<String>,
    /// What the agents' models may select.
    pub(super) prefixes: &'a BTreeMap<String, ModelPrefix>,
}

/// Resolves the merged layers to settings, and reports what is wrong.
pub(super) fn resolve_settings(
    merged: &SpannedValue,
    stated: StatedAgent<'_>,
    named_variables: BTreeSet<String>,
    unreadable: Vec<String>,
    inputs: &LoadInputs<'_>,
) -> (Settings, Vec<Diagnostic>) {
    let mut resolver = Resolver {
        merged,
        failed: stated.failed,
        chosen: stated.chosen,
        inputs,
        problems: Vec::new(),
    };
    let mut complete = merged.clone();
    resolve_paths(&mut complete, annotated_schema(), inputs);
    agents::add_built_in_agent(&mut complete);
    agents::inherit_from_default(&mut complete);
    let mut settings: Settings = serde_json::from_value(complete.to_json()).unwrap_or_else(|error| {
        // Each layer was validated against the schema of this type, so this is a bug of ours.
        let problem = Diagnostic::new_error(&merged.at, "", format!("internal: {error}"));
        resolver.problems.push(problem);
        Settings::default()
    });
    settings.named_variables = named_variables;
    settings.approvals.unreadable = unreadable;
    resolver.check_login_keys();
    resolver.resolve_providers(&mut settings);
    resolver.resolve_agents(&mut settings, stated.prefixes);
    resolver.check_prices(&settings);
    resolver.resolve_extra_bodies(&mut settings);
    let own_tools: Vec<String> = settings.tools.others.keys().cloned().collect();
    resolver.resolve_approvals(&mut settings.approvals, &own_tools);
    resolver.resolve_tools(&mut settings.tools);
    resolver.resolve_hooks(&mut settings.hooks);
    settings.unusable_mcp = resolver.resolve_mcp(&mut settings.mcp);
    resolver.check_sandbox(&settings.sandbox);
    resolver.resolve_network(&mut settings.network);
    resolver.resolve_logging(&mut settings.logging);
    resolver.check_trusted_folders();
    resolver
        .problems
        .sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    (settings, resolver.problems)
}

/// Makes the paths in config files absolute: `~` is the home folder, and a relative path starts at the file's folder. In
/// a file of another program it starts at the workspace folder.
fn resolve_paths(tree: &mut SpannedValue, schema: &Value, inputs: &LoadInputs<'_>) {
    match &mut tree.node {
        Node::Table(entries) => {
            for (key, value) in entries {
                if let Some(schema) = find_property(schema, key) {
                    resolve_paths(value, schema, inputs);
                }
            }
        }
        Node::List(items) if schema.get("x-path").is_some() => {
            for item in items {
                resolve_paths(item, schema, inputs);
            }
        }
        Node::Text(text) if schema.get("x-path").is_some() && !text.is_empty() => {
            let mut path = home_expanded(text, inputs.env);
            let is_foreign = |file: &PathBuf| inputs.foreign_mcp.iter().any(|foreign| foreign.path == *file);
            let folder = match &*tree.at.origin {
                ValueSource::File(file) if is_foreign(file) => inputs.root,
                ValueSource::File(file) => file.parent(),
                _ => None,
            };
            if path.is_relative()
                && let Some(folder) = folder
            {
                path = folder.join(path);
            }
            *text = path.to_string_lossy().into_owned();
        }
        _ => {}
    }
}

/// Returns the folders that a layer trusts.
pub(super) fn trusted_folders(layer: &SpannedValue, env: &Env) -> BTreeSet<PathBuf> {
    trust_entries(layer)
        .filter_map(|(_, text)| parse_folder_path(text, env))
        .collect()
}

fn trust_entries(tree: &SpannedValue) -> impl Iterator<Item = (&SpannedValue, &str)> {
    let items = match tree.find(&["trusted"]).map(|list| &list.node) {
        Some(Node::List(items)) => items.as_slice(),
        _ => &[],
    };
    items.iter().filter_map(|item| Some((item, item.text()?)))
}

fn parse_folder_path(text: &str, env: &Env) -> Option<PathBuf> {
    let path = if text.starts_with("file:") {
        Url::parse(text).ok()?.to_file_path().ok()?
    } else {
        home_expanded(text, env)
    };
    path.is_absolute().then_some(path)
}

impl Resolver<'_> {
    fn check_prices(&mut self, settings: &Settings) {
        for (name, model) in &settings.models {
            if model.has_partial_price() {
                let message = "a price needs both `input` and `output`; ignored";
                self.report_error(&["model", name], message);
            }
        }
    }

    fn resolve_extra_bodies(&mut self, settings: &mut Settings) {
        let providers = settings.providers.iter_mut();
        let providers = providers.map(|(name, provider)| ("provider", name, &mut provider.extra_body));
        let models = settings.models.iter_mut();
        let models = models.map(|(name, model)| ("model", name, &mut model.extra_body));
        for (table, name, body) in providers.chain(models) {
            for field in take_own_body_fields(body) {
                let message = format!("agentls always sets `{field}` itself; ignored");
                self.report_error(&[table, name, "extra_body"], &message);
            }
        }
    }

    fn resolve_approvals(&mut self, approvals: &mut ApprovalSettings, own_tools: &[String]) {
        let mut resolve = |list, rules: &mut StringList| {
            let (good, bad) = self.resolve_rules(list, std::mem::take(rules), own_tools);
            *rules = good;
            bad
        };
        // An unreadable `allow` rule is only reported: without it, more is asked, not less.
        resolve("allow", &mut approvals.allow);
        let denials = resolve("deny", &mut approvals.deny);
        let requirements = resolve("require_approval", &mut approvals.require_approval);
        approvals.unreadable.extend(denials);
        approvals.unreadable.extend(requirements);
    }

    /// Returns the rules of a list that can match, and descriptions of the others for people.
    fn resolve_rules(
        &mut self,
        list: &str,
        rules: StringList,
        own_tools: &[String],
    ) -> (StringList, Vec<String>) {
        let (mut good, mut bad) = (StringList::default(), Vec::new());
        let key = join_keys(&["approvals", list]);
        for rule in rules.0 {
            let item = match self.merged.find(&["approvals", list]).map(|tree| &tree.node) {
                Some(Node::List(items)) => items.iter().find(|item| item.text() == Some(&rule)),
                _ => None,
            };
            let at = item.map_or_else(
                || self.find_location(&["approvals", list]),
                |item| item.at.clone(),
            );
            // Expanded variables may be secrets, so such a rule is not quoted.
            let is_public = item.is_none_or(|item| item.raw.is_none());
            match Rule::read(&rule, own_tools) {
                Ok(read) => {
                    if list == "allow" && is_public {
                        self.warn_about_allow_rule(&read, &at);
                    }
                    good.push(rule);
                }
                Err(error) => {
                    let message = if is_public {
                        error.to_string()
                    } else {
                        "invalid rule".to_owned()
                    };
                    let name = if is_public {
                        format!("rule `{}`", shorten_for_message(&rule))
                    } else {
                        "rule".to_owned()
                    };
                    let problem = Diagnostic::new_error(&at, &key, format!("{message}; ignored"));
                    bad.push(format!(
                        "the {list} {name} ({}) is invalid",
                        problem.format_location()
                    ));
                    let hint = "until it is fixed, everything except plain reading asks";
                    self.problems.push(if list == "allow" {
                        problem
                    } else {
                        problem.with_hint(hint)
                    });
                }
            }
        }
        (good, bad)
    }

    /// Warns about a rule that allows less, or much more, than it seems to.
    fn warn_about_allow_rule(&mut self, rule: &Rule, at: &ConfigLocation) {
        if let Some(clear) = rule.suggest_rewrite() {
            let message = format!("`*` ends the word before it: `{rule}` allows no longer word");
            let hint = format!("to say so, write `{clear}`");
            let problem = Diagnostic::new_warning(at, "approvals.allow", message);
            self.problems.push(problem.with_hint(hint));
        }
        if let Some(assignment) = rule.find_open_assignment() {
            let name = assignment.split('=').next().unwrap_or_default();
            let message = format!(
                "`{rule}` allows nothing: it leaves open which value `{name}` has before the command"
            );
            let hint = format!("write one rule for each value, as in `bash({name}=1 make)`");
            let problem = Diagnostic::new_warning(at, "approvals.allow", message);
            self.problems.push(problem.with_hint(hint));
        }
        if rule.allows_every_command() {
            let message =
                format!("`{rule}` allows every command without a question, also outside the sandbox");
            let hint = "name the commands, as in `bash(cargo test *)`";
            let problem = Diagnostic::new_warning(at, "approvals.allow", message);
            self.problems.push(problem.with_hint(hint));
        }
        if let Some(runner) = rule.find_open_runner() {
            let message = format!("`{rule}` allows any program: `{runner}` runs what its arguments say");
            let hint = format!("name what it runs, as in `bash({runner} NAME *)`");
            let problem = Diagnostic::new_warning(at, "approvals.allow", message);
            self.problems.push(problem.with_hint(hint));
        }
    }

    fn resolve_network(&mut self, network: &mut NetworkSettings) {
        let env = self.inputs.env;
        let variable = |names: &[&'static str]| {
            let mut set = names.iter().map(|name| (*name, env.non_empty(name)));
            set.find_map(|(name, value)| Some((name, value?)))
        };
        let is_address = |proxy: &SecretString| {
            Url::parse(proxy.expose_secret()).is_ok_and(|url| {
                matches!(url.scheme(), "http" | "https" | "socks5" | "socks5h") && url.host().is_some()
            })
        };
        if network.proxy.take_if(|proxy| !is_address(proxy)).is_some() {
            self.report_error(
                &["network", "proxy"],
                "must be an address such as http://proxy.example.com:3128",
            );
        }
        let proxy = |names: &[&'static str]| {
            let (set_by, url) = match &network.proxy {
                Some(configured) => ("[network] proxy", configured.clone()),
                None => {
                    let (name, value) = variable(names)?;
                    // As in other programs, a variable may leave out the scheme.
                    let scheme = if value.contains("://") { "" } else { "http://" };
                    (name, SecretString::from(format!("{scheme}{value}")))
                }
            };
            Some(ProxyAddress { url, set_by })
        };
        network.https_proxy = proxy(&["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]);
        // Only the lower-case name: CGI servers set HTTP_PROXY from a request header.
        network.http_proxy = proxy(&["http_proxy", "ALL_PROXY", "all_proxy"]);
        if network.no_proxy.is_none() {
            network.no_proxy = variable(&["NO_PROXY", "no_proxy"]).map(|(_, list)| list.to_owned());
        }
    }

    fn resolve_logging(&mut self, logging: &mut LoggingSettings) {
        logging.filter.take_if(|filter| filter.is_empty());
        let is_filter = |filter: &str| tracing_subscriber::EnvFilter::try_new(filter).is_ok();
        if logging.filter.take_if(|filter| !is_filter(filter)).is_some() {
            let at = self.find_location(&["logging", "filter"]);
            let problem = Diagnostic::new_error(&at, "logging.filter", "is not a filter; using `level`");
            self.problems
                .push(problem.with_hint("as in `info,agentls::provider=debug`"));
        }
        logging.file.take_if(|file| file.as_os_str().is_empty());
        if logging.file.is_none() {
            logging.file = self.inputs.places.map(super::ConfigPaths::log_file);
        }
    }

    fn check_login_keys(&mut self) {
        if let Some((file, problem)) = &self.inputs.keys.problem {
            let at = ConfigLocation::start_of_file(file);
            self.problems
                .push(Diagnostic::new_error(&at, "provider", problem.clone()));
        }
    }

    fn check_trusted_folders(&mut self) {
        for (item, text) in trust_entries(self.merged) {
            if parse_folder_path(text, self.inputs.env).is_none() {
                let message = "is not an absolute path; ignored";
                self.problems
                    .push(Diagnostic::new_error(&item.at, "trusted", message));
            }
        }
    }
}
