//! Resolves the merged tree to typed settings: defaults by provider name, URLs, paths, references between settings.
//!
//! Runs after validation, so types and ranges are right; it checks what a schema cannot. Reads no files. Fails
//! closed: a setting that matters for safety and cannot be read disables its owner instead of falling back to a
//! default.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use url::{Host, Url};

use crate::approval::Rule;
use crate::domain::{Cost, Price};

use super::Env;
use super::diagnostics::{Diagnostic, nearest_name};
use super::file::{
    AgentTable, ApprovalsTable, ConfigFile, FormatName, KindSetting, LevelName, LoggingTable, ModelTable,
    NetworkTable, ProviderTable, RetryName, StringOrList,
};
use super::hooks::{self, HookSettings, HookTable};
use super::layers::LoadInputs;
use super::names::{PROVIDER_PRESETS, find_preset};
use super::paths::home_expanded;
use super::settings::{
    AgentSettings, ApprovalSettings, LogFormat, LogLevel, LoggingSettings, ModelSettings, NetworkSettings,
    ProviderKind, ProviderSettings, RetryProfile, RetrySettings, RouteStep, ServerSettings, Settings,
    TimeLimits,
};
use super::tree::{ConfigLocation, Node, SpannedValue, ValueSource, join_keys};
use super::validate::shorten_for_message;
use agents::merge_agent_table;

mod agents;
mod tools;

/// How many tool calls pass between progress checks when reflection is on without a number (R-LOOP-3).
const REFLECTION: u32 = 3;

/// Facts about the layers that the merged values no longer show.
pub(super) struct StatedAgent<'a> {
    /// Settings that were stated but could not be used.
    pub(super) failed: &'a BTreeSet<String>,
    /// Providers that count as configured. An untrusted folder does not configure one by naming it.
    pub(super) chosen: &'a BTreeSet<String>,
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
    let file: ConfigFile = match serde_json::from_value(merged.to_json()) {
        Ok(file) => file,
        // Each layer was validated against the schema of this type, so this is a bug of ours.
        Err(error) => {
            resolver.problems.push(Diagnostic::new_error(
                &merged.at,
                "",
                format!("internal: {error}"),
            ));
            ConfigFile::default()
        }
    };
    let (mut providers, broken_providers) = resolver.resolve_providers(file.provider);
    resolver.prune_fallbacks(&mut providers, &broken_providers);
    let agents = resolver.resolve_agents(file.agent, &providers, &broken_providers);
    let own_tools: Vec<String> = file.tool.others.keys().cloned().collect();
    let settings = Settings {
        providers,
        broken_providers,
        models: resolver.resolve_models(file.model),
        agents,
        approvals: resolver.resolve_approvals(file.approvals, unreadable, &own_tools),
        tools: resolver.resolve_tools(file.tool),
        hooks: resolver.resolve_hooks(file.hook),
        network: resolver.resolve_network(file.network),
        server: file
            .server
            .delta_frame_ms
            .map_or_else(ServerSettings::default, |ms| ServerSettings {
                delta_frame: Duration::from_millis(ms),
            }),
        logging: resolver.resolve_logging(file.logging),
        trusted: resolver.resolve_trusted_folders(),
        named_variables,
    };
    resolver
        .problems
        .sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    (settings, resolver.problems)
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

struct Resolver<'a> {
    merged: &'a SpannedValue,
    failed: &'a BTreeSet<String>,
    chosen: &'a BTreeSet<String>,
    inputs: &'a LoadInputs<'a>,
    problems: Vec<Diagnostic>,
}

impl Resolver<'_> {
    /// Returns where a setting is written, or else the nearest table above it.
    fn find_location(&self, path: &[&str]) -> ConfigLocation {
        let found = (0..=path.len())
            .rev()
            .find_map(|len| self.merged.find(&path[..len]));
        found.unwrap_or(self.merged).at.clone()
    }

    fn report_error(&mut self, path: &[&str], message: impl Into<String>) {
        self.error_hinted(path, message, None);
    }

    fn error_hinted(&mut self, path: &[&str], message: impl Into<String>, meant: Option<&str>) {
        let problem = Diagnostic::new_error(&self.find_location(path), join_keys(path), message);
        self.problems.push(match meant {
            Some(meant) => problem.with_hint(format!("did you mean `{meant}`?")),
            None => problem,
        });
    }

    /// Resolves a path from a config file: `~` is the home folder, and a relative path starts at the file's folder.
    fn path(&self, keys: &[&str], text: &str) -> PathBuf {
        let path = home_expanded(text, self.inputs.env);
        match &*self.find_location(keys).origin {
            ValueSource::File(file) if path.is_relative() => {
                file.parent().map_or(path.clone(), |dir| dir.join(&path))
            }
            _ => path,
        }
    }

    fn resolve_providers(
        &mut self,
        mut tables: BTreeMap<String, ProviderTable>,
    ) -> (BTreeMap<String, ProviderSettings>, BTreeMap<String, String>) {
        let mut good = BTreeMap::new();
        let mut broken = BTreeMap::new();
        let names: BTreeSet<String> = tables
            .keys()
            .cloned()
            .chain(
                PROVIDER_PRESETS
                    .iter()
                    .filter(|known| known.offered)
                    .map(|known| known.name.to_owned()),
            )
            .collect();
        for name in names {
            let configured = self.chosen.contains(&name);
            match self.resolve_provider(&name, tables.remove(&name).unwrap_or_default(), configured) {
                Ok(provider) => _ = good.insert(name, provider),
                Err(why) => _ = broken.insert(name, why),
            }
        }
        (good, broken)
    }

    /// Resolves one provider. `Err` says why it cannot be used.
    ///
    /// A broken address must not fall back to the default one: it would send one company's data to another.
    fn resolve_provider(
        &mut self,
        name: &str,
        table: ProviderTable,
        configured: bool,
    ) -> Result<ProviderSettings, String> {
        let of = |key| ["provider", name, key];
        for key in ["kind", "base_url", "cassette"] {
            let path = join_keys(&of(key));
            if self.failed.contains(&path) {
                return Err(format!("could not use `{path}`"));
            }
        }
        let known = find_preset(name);
        let usual_kind = known.map(|known| match (known.name, &table.base_url) {
            // OpenAI's current models call tools only through this API; most gateways speak the older one.
            ("openai", None) => KindSetting::Responses,
            _ => known.kind,
        });
        let Some(kind) = table.kind.or(usual_kind) else {
            let message = "has no `kind`, and its name is not a known provider";
            let at = self.find_location(&["provider", name]);
            let names = PROVIDER_PRESETS.iter().map(|known| known.name);
            let hint = match nearest_name(name, names) {
                Some(meant) => format!("did you mean `{meant}`? else add kind = \"openai\" or \"anthropic\""),
                None => "add kind = \"openai\" or \"anthropic\"".to_owned(),
            };
            self.problems
                .push(Diagnostic::new_error(&at, join_keys(&["provider", name]), message).with_hint(hint));
            return Err("it has no `kind`".to_owned());
        };
        let usual = known
            .filter(|known| {
                // OpenAI serves both of its APIs at one address.
                known.kind == kind || (known.kind, kind) == (KindSetting::OpenAi, KindSetting::Responses)
            })
            .map(|known| known.base_url);
        let (base_url, local) = match kind {
            KindSetting::Script => (String::new(), true),
            KindSetting::Anthropic | KindSetting::OpenAi | KindSetting::Responses => {
                self.base_url(name, table.base_url.as_deref().or(usual))?
            }
        };
        let cassette = table
            .cassette
            .as_deref()
            .map(|text| self.path(&of("cassette"), text));
        let record = table.record.as_deref().map(|text| self.path(&of("record"), text));
        if kind == KindSetting::Script && cassette.is_none() {
            self.report_error(
                &["provider", name],
                "a provider of kind `script` needs a `cassette`",
            );
            return Err("it has no `cassette`".to_owned());
        }
        let key_variable = known.and_then(|known| known.key_variable);
        let retry = resolve_retry(&table);
        let api_key = match table.api_key {
            Some(key) => Some(key).filter(|key| !key.is_empty()),
            // Never replace a key that was named but is missing by the key of another account.
            None if self.failed.contains(&join_keys(&of("api_key"))) => None,
            None => key_variable
                .and_then(|variable| self.inputs.env.non_empty(variable))
                .map(str::to_owned),
        };
        // A key becomes an HTTP header, where a line end would start another one.
        if api_key.as_ref().is_some_and(|key| !header_value(key)) {
            self.report_error(&of("api_key"), "contains invalid characters, such as a line end");
            return Err("its key cannot be sent".to_owned());
        }
        Ok(ProviderSettings {
            name: name.to_owned(),
            configured,
            kind: match kind {
                KindSetting::Anthropic => ProviderKind::Anthropic,
                KindSetting::OpenAi => ProviderKind::OpenAi,
                KindSetting::Responses => ProviderKind::Responses,
                KindSetting::Script => ProviderKind::Script,
            },
            base_url,
            local,
            api_key: api_key.map(SecretString::from),
            needs_key: kind != KindSetting::Script && key_variable.is_some(),
            retry,
            limits: TimeLimits {
                connect: table
                    .connect_timeout_s
                    .map_or(TimeLimits::default().connect, duration_from_secs),
                first_event: table.first_event_timeout_s.map(duration_from_secs),
                event_gap: table.event_gap_timeout_s.map(duration_from_secs),
            },
            headers: self.resolve_headers(name, table.headers),
            max_day_cost: table.max_day_cost.map(Cost::from_usd),
            fallback: table.fallback.map(StringOrList::into_vec).unwrap_or_default(),
            fallback_model: table.fallback_model.filter(|model| !model.is_empty()),
            circuit_cooldown: table
                .circuit_cooldown_s
                .map_or(Duration::from_secs(30), duration_from_secs),
            model: table.model.filter(|model| !model.is_empty()),
            cassette,
            record,
        })
    }

    /// Returns the address without a trailing `/`, and whether it is local.
    fn base_url(&mut self, name: &str, text: Option<&str>) -> Result<(String, bool), String> {
        let path = ["provider", name, "base_url"];
        let Some(text) = text else {
            self.report_error(&["provider", name], "needs a `base_url`");
            return Err("it has no `base_url`".to_owned());
        };
        let good = Url::parse(text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
        let Some(url) = good else {
            self.report_error(&path, "must be an address such as https://llm.example.com/v1");
            return Err("its `base_url` is not an address".to_owned());
        };
        Ok((text.trim_end_matches('/').to_owned(), is_near(&url)))
    }

    fn resolve_headers(
        &mut self,
        provider: &str,
        headers: BTreeMap<String, String>,
    ) -> BTreeMap<String, SecretString> {
        let mut good = BTreeMap::new();
        for (name, value) in headers {
            if header_name(&name) && header_value(&value) {
                good.insert(name, SecretString::from(value));
            } else {
                self.report_error(
                    &["provider", provider, "headers", &name],
                    "is not an HTTP header; ignored",
                );
            }
        }
        good
    }

    /// Removes unknown names and cycles from the fallback routes.
    fn prune_fallbacks(
        &mut self,
        providers: &mut BTreeMap<String, ProviderSettings>,
        broken: &BTreeMap<String, String>,
    ) {
        let names: BTreeSet<String> = providers.keys().chain(broken.keys()).cloned().collect();
        // In the order of names, so that each load drops the same edge of a cycle.
        let mut routes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, provider) in providers.iter() {
            let mut known = Vec::new();
            for target in &provider.fallback {
                if names.contains(target) {
                    known.push(target.clone());
                } else {
                    let meant = nearest_name(target, names.iter().map(String::as_str)).map(str::to_owned);
                    let message = format!("unknown provider `{target}`");
                    self.error_hinted(&["provider", name, "fallback"], message, meant.as_deref());
                }
            }
            // Skip an edge that would lead back, so the kept routes never contain a cycle.
            let mut kept = Vec::new();
            for target in known {
                match find_fallback_path(&routes, &target, name) {
                    Some(cycle) => {
                        let message = format!("is a cycle: {name} → {}", cycle.join(" → "));
                        self.report_error(&["provider", name, "fallback"], message);
                    }
                    None if !kept.contains(&target) => kept.push(target),
                    None => {}
                }
            }
            routes.insert(name.clone(), kept);
        }
        // A broken provider is a known name, so nothing above reports it; but it cannot take over.
        for (name, provider) in providers.iter_mut() {
            provider.fallback = routes.remove(name).unwrap_or_default();
            provider.fallback.retain(|target| !broken.contains_key(target));
        }
    }

    fn resolve_agents(
        &mut self,
        mut tables: BTreeMap<String, AgentTable>,
        providers: &BTreeMap<String, ProviderSettings>,
        broken: &BTreeMap<String, String>,
    ) -> BTreeMap<String, AgentSettings> {
        for (name, table) in &tables {
            let Some(provider) = &table.provider else { continue };
            if !providers.contains_key(provider) && !broken.contains_key(provider) {
                let meant = nearest_name(provider, providers.keys().map(String::as_str));
                let message = "unknown provider";
                self.error_hinted(&["agent", name, "provider"], message, meant);
            }
        }
        let base = tables.remove("default").unwrap_or_default();
        let base = self.resolve_agent("default", base, &AgentSettings::default(), providers);
        let mut agents = BTreeMap::new();
        for (name, table) in tables {
            let made = self.resolve_agent(&name, table, &base, providers);
            agents.insert(name, made);
        }
        agents.insert("default".to_owned(), base);
        agents
    }

    fn resolve_agent(
        &mut self,
        name: &str,
        mut table: AgentTable,
        base: &AgentSettings,
        providers: &BTreeMap<String, ProviderSettings>,
    ) -> AgentSettings {
        let prompt_file = table.prompt_file.take().filter(|path| !path.is_empty());
        let prompt_file = prompt_file.map(|path| self.path(&["agent", name, "prompt_file"], &path));
        // The agent's own prompt overrides the default agent's file.
        let prompt_file = match table.system_prompt {
            Some(_) => prompt_file,
            None => prompt_file.or_else(|| base.prompt_file.clone()),
        };
        let route = table
            .route
            .take()
            .map(|route| self.agent_route(name, route.into_vec(), providers));
        AgentSettings {
            prompt_file,
            // The default's route belongs to another provider.
            route: match &table.provider {
                Some(provider) if base.provider.as_ref() != Some(provider) => route,
                _ => route.or_else(|| base.route.clone()),
            },
            ..merge_agent_table(name, table, base)
        }
    }

    /// Returns the steps of an agent's route, without unknown providers.
    fn agent_route(
        &mut self,
        name: &str,
        route: Vec<String>,
        providers: &BTreeMap<String, ProviderSettings>,
    ) -> Vec<RouteStep> {
        let mut steps: Vec<RouteStep> = Vec::new();
        for step in route {
            let (provider, model) = match step.split_once('/') {
                Some((provider, model)) => (provider, Some(model.to_owned())),
                None => (step.as_str(), None),
            };
            if !providers.contains_key(provider) {
                let meant = nearest_name(provider, providers.keys().map(String::as_str));
                let message = format!("unknown provider `{provider}`");
                self.error_hinted(&["agent", name, "route"], message, meant);
            } else if !steps.iter().any(|known| known.provider == provider) {
                steps.push(RouteStep {
                    provider: provider.to_owned(),
                    model,
                });
            }
        }
        steps
    }

    fn resolve_models(&mut self, tables: BTreeMap<String, ModelTable>) -> BTreeMap<String, ModelSettings> {
        let mut models = BTreeMap::new();
        for (name, table) in tables {
            let price = match (table.input, table.output) {
                (Some(input), Some(output)) => Some(Price {
                    input,
                    output,
                    cache_read: table.cache_read.unwrap_or(input),
                    cache_write: table.cache_write.unwrap_or(input),
                }),
                (None, None) if table.cache_read.is_none() && table.cache_write.is_none() => None,
                _ => {
                    self.report_error(
                        &["model", &name],
                        "a price needs both `input` and `output`; ignored",
                    );
                    None
                }
            };
            let settings = ModelSettings {
                price,
                context_window: table.context_window,
                max_output_tokens: table.max_output_tokens,
                images: table.images,
                tools: table.tools,
            };
            models.insert(name, settings);
        }
        models
    }

    fn resolve_approvals(
        &mut self,
        table: ApprovalsTable,
        unreadable: Vec<String>,
        own_tools: &[String],
    ) -> ApprovalSettings {
        let mut settings = ApprovalSettings {
            unreadable,
            timeout: table.timeout_s.map(duration_from_secs),
            ..ApprovalSettings::default()
        };
        // An unreadable `allow` rule is only reported: without it, more is asked, not less.
        (settings.allow, _) = self.resolve_rules("allow", table.allow, own_tools);
        for (list, rules) in [("deny", table.deny), ("require_approval", table.require_approval)] {
            let (good, mut bad) = self.resolve_rules(list, rules, own_tools);
            settings.unreadable.append(&mut bad);
            match list {
                "deny" => settings.deny = good,
                _ => settings.require_approval = good,
            }
        }
        settings
    }

    /// Returns the rules of a list that can match, and descriptions of the others for people.
    fn resolve_rules(
        &mut self,
        list: &str,
        rules: Option<StringOrList>,
        own_tools: &[String],
    ) -> (Vec<String>, Vec<String>) {
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        let key = join_keys(&["approvals", list]);
        for rule in rules.map(StringOrList::into_vec).unwrap_or_default() {
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
                    if let Some(clear) = read.suggest_rewrite().filter(|_| list == "allow" && is_public) {
                        let message = format!("`*` ends the word before it: `{rule}` allows no longer word");
                        let problem = Diagnostic::new_warning(&at, &key, message);
                        self.problems
                            .push(problem.with_hint(format!("to say so, write `{clear}`")));
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
                    let asks = "until it is fixed, everything except plain reading asks";
                    self.problems.push(if list == "allow" {
                        problem
                    } else {
                        problem.with_hint(asks)
                    });
                }
            }
        }
        (good, bad)
    }

    fn resolve_hooks(&mut self, tables: BTreeMap<String, HookTable>) -> Vec<HookSettings> {
        let failed = |name: &str, key: &str| self.failed.contains(&join_keys(&["hook", name, key]));
        let (hooks, wrong) = hooks::build_hooks(tables, &failed);
        for (name, key, why) in wrong {
            self.report_error(&["hook", &name, key], why);
        }
        hooks
    }

    fn resolve_network(&mut self, table: NetworkTable) -> NetworkSettings {
        let env = self.inputs.env;
        let variable = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| env.non_empty(name))
                .map(str::to_owned)
        };
        let configured = table.proxy.filter(|proxy| {
            let good = Url::parse(proxy).is_ok_and(|url| {
                matches!(url.scheme(), "http" | "https" | "socks5" | "socks5h") && url.host().is_some()
            });
            if !good {
                self.report_error(
                    &["network", "proxy"],
                    "must be an address such as http://proxy.example.com:3128",
                );
            }
            good
        });
        let proxy = |names: &[&str]| {
            configured
                .clone()
                .or_else(|| variable(names))
                .map(SecretString::from)
        };
        NetworkSettings {
            https_proxy: proxy(&["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]),
            // Only the lower-case name: CGI servers set HTTP_PROXY from a request header.
            http_proxy: proxy(&["http_proxy", "ALL_PROXY", "all_proxy"]),
            no_proxy: table.no_proxy.or_else(|| variable(&["NO_PROXY", "no_proxy"])),
            ca_file: table
                .ca_file
                .map(|text| self.path(&["network", "ca_file"], &text)),
        }
    }

    fn resolve_logging(&mut self, table: LoggingTable) -> LoggingSettings {
        let filter = table.filter.filter(|filter| !filter.is_empty()).filter(|filter| {
            let good = tracing_subscriber::EnvFilter::try_new(filter).is_ok();
            if !good {
                let message = "is not a filter; using `level`";
                let at = self.find_location(&["logging", "filter"]);
                self.problems.push(
                    Diagnostic::new_error(&at, "logging.filter", message)
                        .with_hint("as in `info,agentls::provider=debug`"),
                );
            }
            good
        });
        LoggingSettings {
            level: match table.level {
                None | Some(LevelName::Info) => LogLevel::Info,
                Some(LevelName::Off) => LogLevel::Off,
                Some(LevelName::Error) => LogLevel::Error,
                Some(LevelName::Warn) => LogLevel::Warn,
                Some(LevelName::Debug) => LogLevel::Debug,
                Some(LevelName::Trace) => LogLevel::Trace,
            },
            filter,
            file: match table.file.filter(|file| !file.is_empty()) {
                Some(file) => Some(self.path(&["logging", "file"], &file)),
                None => self.inputs.places.map(super::ConfigPaths::log_file),
            },
            format: match table.format {
                Some(FormatName::Json) => LogFormat::Json,
                Some(FormatName::Text) | None => LogFormat::Text,
            },
        }
    }

    fn resolve_trusted_folders(&mut self) -> BTreeSet<PathBuf> {
        let merged = self.merged;
        for (item, text) in trust_entries(merged) {
            if parse_folder_path(text, self.inputs.env).is_none() {
                let message = "is not an absolute path; ignored";
                self.problems
                    .push(Diagnostic::new_error(&item.at, "trusted", message));
            }
        }
        trusted_folders(merged, self.inputs.env)
    }
}

fn duration_from_secs(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or(Duration::MAX)
}

fn resolve_retry(table: &ProviderTable) -> RetrySettings {
    let mut retry = RetrySettings::from_profile(match table.retry {
        Some(RetryName::Interactive) | None => RetryProfile::Interactive,
        Some(RetryName::Persistent) => RetryProfile::Persistent,
        Some(RetryName::Patient) => RetryProfile::Patient,
    });
    retry.max_retries = table.max_retries.unwrap_or(retry.max_retries);
    retry.max_timeout_retries = table.max_timeout_retries.unwrap_or(retry.max_timeout_retries);
    retry.backoff.initial = table
        .initial_backoff_ms
        .map_or(retry.backoff.initial, Duration::from_millis);
    retry.backoff.factor = table.backoff_factor.unwrap_or(retry.backoff.factor);
    retry.backoff.max = table
        .max_backoff_ms
        .map_or(retry.backoff.max, Duration::from_millis);
    retry.backoff.jitter = table.backoff_jitter.unwrap_or(retry.backoff.jitter);
    retry.max_retry_after = table
        .max_retry_after_s
        .map_or(retry.max_retry_after, duration_from_secs);
    retry
}

/// Returns a path from `from` to `to` along the routes.
fn find_fallback_path(routes: &BTreeMap<String, Vec<String>>, from: &str, to: &str) -> Option<Vec<String>> {
    let mut seen = BTreeSet::from([from.to_owned()]);
    let mut open = vec![vec![from.to_owned()]];
    while let Some(path) = open.pop() {
        let last = path.last()?;
        if last == to {
            return Some(path);
        }
        for next in routes.get(last).into_iter().flatten() {
            if seen.insert(next.clone()) {
                open.push(path.iter().cloned().chain([next.clone()]).collect());
            }
        }
    }
    None
}

// A `token` of RFC 9110.
fn header_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn header_value(value: &str) -> bool {
    value.bytes().all(|b| (b' '..=b'~').contains(&b) || b == b'\t')
}

/// Returns whether an address is local: this machine or its private network. Local models get longer time limits.
fn is_near(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost"
                || [".localhost", ".local", ".internal"]
                    .iter()
                    .any(|end| name.ends_with(end))
        }
        Some(Host::Ipv4(ip)) => {
            ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified()
        }
        Some(Host::Ipv6(ip)) => {
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local() || ip.is_unspecified()
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_loopback_addresses_are_local() {
        for (url, near) in [
            ("http://localhost:1234/v1", true),
            ("http://127.0.0.1", true),
            ("http://192.168.1.5:8080", true),
            ("http://[::1]:80", true),
            ("http://box.local", true),
            ("http://host.docker.internal:1", true),
            ("https://api.openai.com/v1", false),
            ("https://8.8.8.8", false),
            ("https://localhost.example.com", false),
        ] {
            assert_eq!(is_near(&Url::parse(url).unwrap()), near, "{url}");
        }
    }
}
