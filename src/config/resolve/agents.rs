//! Resolves agents: the built-in one, what a named one inherits from `default`, and the providers that they name.

use std::collections::BTreeMap;

use serde_json::json;

use super::resolver::Resolver;
use crate::config::diagnostics::nearest_name;
use crate::config::settings::{AgentSettings, ModelPrefix, ProviderSettings, Settings, parse_route_step};
use crate::config::tree::{Node, SpannedValue};

/// The built-in agent that reads for others.
const EXPLORE: &str = "explore";

/// Adds the built-in agent. The configuration may override each of its settings.
pub(super) fn add_built_in_agent(tree: &mut SpannedValue) {
    let built_in = json!({
        "description": "searches and reads the workspace, changes nothing, and answers with places; for questions that \
                        need many searches",
        "mode": "plan",
        "cheap_model": true,
        "tools": ["read_file", "grep", "glob", "list_dir", "bash", "find_symbol", "find_references", "go_to_definition"],
        "system_prompt": include_str!("../explore.md"),
    });
    let Some(Node::Table(values)) = SpannedValue::from_json(&built_in, &tree.at).map(|tree| tree.node) else {
        return;
    };
    let is_own = |key: &str| tree.find(&["agent", EXPLORE, key]).is_some();
    // An own prompt in a file replaces the built-in one.
    let file = tree.find(&["agent", EXPLORE, "prompt_file"]);
    let has_prompt = file
        .and_then(SpannedValue::text)
        .is_some_and(|file| !file.is_empty());
    let missing: Vec<_> = values
        .into_iter()
        .filter(|(key, _)| !(is_own(key) || key == "system_prompt" && has_prompt))
        .collect();
    for (key, value) in missing {
        tree.insert_at(&["agent", EXPLORE, &key], value);
    }
}

/// Copies to each named agent what it inherits from `default`.
pub(super) fn inherit_from_default(tree: &mut SpannedValue) {
    let Some(mut agents) = tree.take(&["agent"]) else {
        return;
    };
    if let Node::Table(tables) = &mut agents.node {
        for agent in tables.values_mut() {
            if agent.find(&["prompt_file"]).and_then(SpannedValue::text) == Some("") {
                agent.take(&["prompt_file"]);
            }
        }
        if let Some(Node::Table(base)) = tables.get("default").map(|base| base.node.clone()) {
            let named = tables.iter_mut().filter(|(name, _)| *name != "default");
            for (_, agent) in named {
                inherit_values(agent, &base);
            }
        }
    }
    tree.insert_at(&["agent"], agents);
}

fn inherit_values(agent: &mut SpannedValue, base: &BTreeMap<String, SpannedValue>) {
    let Node::Table(own) = &mut agent.node else { return };
    let provider_of = |table: &BTreeMap<String, SpannedValue>| {
        let provider = table.get("provider").and_then(SpannedValue::text);
        provider.map(str::to_owned)
    };
    let is_elsewhere = own.contains_key("provider") && provider_of(own) != provider_of(base);
    let has_prompt = own.contains_key("system_prompt");
    for (key, value) in base {
        let is_inherited = match key.as_str() {
            // It says what one agent is for.
            "description" => false,
            // They mean nothing at another provider.
            "model" | "route" => !is_elsewhere,
            // The agent's own prompt overrides the default agent's file.
            "prompt_file" => !has_prompt,
            _ => true,
        };
        if is_inherited {
            own.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

impl Resolver<'_> {
    pub(super) fn resolve_agents(
        &mut self,
        settings: &mut Settings,
        prefixes: &BTreeMap<String, ModelPrefix>,
    ) {
        let mut agents = std::mem::take(&mut settings.agents);
        agents.entry("default".to_owned()).or_default();
        for (name, agent) in &mut agents {
            agent.name.clone_from(name);
            agent.names_model =
                self.is_set(&["agent", name, "provider"]) || self.is_set(&["agent", name, "model"]);
            agent.model_prefix = self.find_model_prefix(name, prefixes);
            agent.names_max_steps =
                self.is_set(&["agent", name, "max_steps"]) || self.is_set(&["agent", "default", "max_steps"]);
            let path = ["agent", name, "provider"];
            if let Some(provider) = agent.provider.as_deref().filter(|_| self.is_set(&path))
                && !settings.providers.contains_key(provider)
                && !settings.broken_providers.contains_key(provider)
            {
                let suggestion = nearest_name(provider, settings.providers.keys().map(String::as_str));
                self.report_misspelling(&path, "unknown provider", suggestion);
            }
            self.complete_model(agent);
            self.prune_route(agent, &settings.providers);
        }
        settings.agents = agents;
    }

    /// Takes `provider/` for the default model of the provider: no other may answer instead.
    fn complete_model(&mut self, agent: &mut AgentSettings) {
        let named = agent.model.as_deref().unwrap_or_default().trim_end();
        let Some(provider) = named.strip_suffix('/').filter(|provider| !provider.contains('/')) else {
            return;
        };
        let path = ["agent", &agent.name, "model"];
        if self.is_set(&path) {
            let message =
                format!("names no model; write {provider}/MODEL, or {provider} for its default model");
            self.report_error(&path, message);
        }
        agent.model = Some(provider.to_owned());
    }

    /// Returns what an agent's model may select. A named agent inherits a model, a provider, or both from `default`.
    fn find_model_prefix(&self, name: &str, prefixes: &BTreeMap<String, ModelPrefix>) -> ModelPrefix {
        let has = |key: &str| self.is_set(&["agent", name, key]);
        let prefix = |name: &str| prefixes.get(name).copied().unwrap_or_default();
        match (has("model"), has("provider"), prefix("default")) {
            (true, _, _) => prefix(name),
            (false, true, ModelPrefix::Selects) => ModelPrefix::Agrees,
            (false, _, inherited) => inherited,
        }
    }

    /// Removes unknown and repeated providers from an agent's route.
    fn prune_route(&mut self, agent: &mut AgentSettings, providers: &BTreeMap<String, ProviderSettings>) {
        let Some(route) = &mut agent.route else { return };
        let path = ["agent", &agent.name, "route"];
        // A route that is inherited is reported where it is written.
        let is_own = self.is_set(&path);
        let mut known: Vec<String> = Vec::new();
        for step in std::mem::take(&mut route.0) {
            let (provider, _) = parse_route_step(&step);
            if providers.contains_key(provider) {
                let is_repeated = known.iter().any(|known| parse_route_step(known).0 == provider);
                if !is_repeated {
                    known.push(step);
                }
            } else if is_own {
                let suggestion = nearest_name(provider, providers.keys().map(String::as_str));
                self.report_misspelling(&path, format!("unknown provider `{provider}`"), suggestion);
            }
        }
        route.0 = known;
    }
}
