//! Checks whether a name from a user or a client can be a model (R-CAT), and suggests what was meant if not.
//!
//! [`Models::judge_model`] never contacts a provider, because commands of a session must not wait for the network.

use super::{ChosenModel, Models};
use crate::base::nearest::nearest_name;
use crate::base::text::prefix_within;
use crate::config::{AgentSettings, DefaultChoice, ProviderSettings};
use crate::provider::models::{KnownList, ModelNaming, NameVerdict, check_model_name, current_day};
use crate::provider::{ApiKind, Effort, ProviderSpec};
use crate::turn::ModelChoice;

/// The verdict on a model name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelVerdict {
    /// It can be a model, as far as is known here.
    Accept,
    /// It cannot; says why and what to do.
    Refuse(String),
    /// Only the provider's own list can decide, and it was not read: see [`Models::check_model`].
    NeedsList,
}

impl Models {
    /// Judges whether `named` can be a model for an agent, without contacting a provider.
    pub fn judge_model(&self, agent: Option<&str>, named: &str) -> ModelVerdict {
        match self.find_target(self.agent_settings(agent), named) {
            Ok(Some((provider, model))) => {
                let list = self.find_list(&provider);
                let list = list.as_ref();
                let known = list.map_or(KnownList::NotAsked, |list| KnownList::Names(&list.names));
                self.judge_at(&provider, &model, known)
            }
            // What is missing is reported when the model is called.
            Ok(None) => ModelVerdict::Accept,
            Err(unknown) => ModelVerdict::Refuse(unknown),
        }
    }

    /// Checks a name, and reads the provider's list if that decides. May take 5 s, so commands of a session must not
    /// call it.
    ///
    /// # Errors
    /// It cannot be a model; the text says why and what to do.
    pub async fn check_model(&self, agent: Option<&str>, named: &str) -> Result<(), String> {
        match self.judge_model(agent, named) {
            ModelVerdict::Accept => return Ok(()),
            ModelVerdict::Refuse(reason) => return Err(reason),
            ModelVerdict::NeedsList => {}
        }
        let Ok(Some((provider, model))) = self.find_target(self.agent_settings(agent), named) else {
            return Ok(());
        };
        let list = self.read_list(&provider).await;
        let list = list.as_ref();
        let known = list.map_or(KnownList::Missing, |list| KnownList::Names(&list.names));
        match self.judge_at(&provider, &model, known) {
            ModelVerdict::Refuse(reason) => Err(reason),
            ModelVerdict::Accept | ModelVerdict::NeedsList => Ok(()),
        }
    }

    /// Returns the efforts that a model takes: all, if that is not known.
    pub fn list_efforts(&self, provider: &str, model: &str) -> Vec<Effort> {
        let Some(settings) = self.settings.providers.get(provider) else {
            return Effort::ALL.to_vec();
        };
        let spec = self.provider_spec(settings);
        let takes = |effort: &Effort| spec.nearest_effort(model, *effort) == Some(*effort);
        Effort::ALL.into_iter().filter(takes).collect()
    }

    /// Returns `named` with its provider, so that it keeps its meaning if the default provider changes. A provider's
    /// own name becomes its default model. Returns it unchanged if nothing is configured.
    pub fn full_name(&self, agent: Option<&str>, named: &str) -> String {
        let chosen = self.choose_by_name(named, self.agent_settings(agent)).ok();
        chosen
            .and_then(ChosenModel::full_name)
            .unwrap_or_else(|| named.to_owned())
    }

    /// Checks whether a model that the user chose earlier, by its full name, can still be called.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn is_still_there(&self, named: &str) -> Result<(), String> {
        let now = self.current_settings();
        let (name, model) = named.split_once('/').unwrap_or((named, ""));
        let Some(provider) = now.providers.get(name) else {
            return Err(format!("the provider {name} is not configured"));
        };
        let can_ask = provider.takes_editor_key() && self.keys.can_ask();
        if provider.needs_key() && provider.api_key.is_none() && !can_ask {
            return Err(format!("the provider {name} no longer has an API key"));
        }
        let spec = self.provider_spec(provider);
        match retirement_date(&spec, model) {
            Some(date) => Err(format!("{named} was retired on {date}")),
            None => Ok(()),
        }
    }

    /// Returns the chosen model, unless it is a session's and its provider is gone.
    pub(super) fn existing_model<'c>(&self, choice: &'c ModelChoice) -> Option<&'c str> {
        let (known, broken) = (&self.settings.providers, &self.settings.broken_providers);
        let is_known = |named: &&str| {
            let provider = named.split_once('/').map(|(provider, _)| provider);
            provider.is_none_or(|name| known.contains_key(name) || broken.contains_key(name))
        };
        let model = choice.model.as_deref();
        model.filter(|named| !choice.has_provider || is_known(named))
    }

    /// Says which agent and model of a session are gone from the configuration, and what is used instead.
    pub fn describe_gone(&self, choice: &ModelChoice) -> Option<String> {
        let agent = choice.agent.as_deref();
        let gone_agent = agent.filter(|name| self.settings.find_agent(name).is_none());
        let model = choice.model.as_deref();
        let gone_model = model.filter(|_| self.existing_model(choice).is_none());
        let instead = gone_model.and_then(|_| self.choose_model(choice.model_agent(), None).ok());
        let instead = instead.and_then(ChosenModel::full_name);
        let instead = instead.as_deref().unwrap_or("the configured model");
        let notes = [
            gone_agent.map(|name| {
                format!(
                    "the agent of this session, {name}, is not configured: the agent default is used, and asks \
                     before each change"
                )
            }),
            gone_model.map(|named| {
                format!(
                    "the model of this session, {named}, is not used, because its provider is not configured: \
                     {instead} is used"
                )
            }),
        ];
        notes.into_iter().flatten().reduce(|all, note| all + "; " + &note)
    }

    /// Returns the provider and model that `named` means, or `None` if no configured provider can be called.
    fn find_target(
        &self,
        agent: &AgentSettings,
        named: &str,
    ) -> Result<Option<(ProviderSettings, String)>, String> {
        let (prefix, rest) = named
            .split_once('/')
            .map_or((None, named), |(at, rest)| (Some(at), rest));
        let now = self.current_settings();
        let prefixed = prefix.and_then(|prefix| now.providers.get(prefix));
        if named.contains(char::is_control) || (prefixed.is_some() && rest.trim().is_empty()) {
            let named = prefix_within(named, 200);
            return Err(format!(
                "{named:?} names no model; give provider/model, as agent/listModels shows it"
            ));
        }
        let is_broken = self
            .settings
            .broken_providers
            .contains_key(prefix.unwrap_or(named));
        // A provider's own name means its default model. A broken provider is reported when it is called.
        if is_broken || now.providers.contains_key(named) {
            return Ok(None);
        }
        let (provider, model) = match self.choose_by_name(named, agent) {
            Ok(ChosenModel::Known { provider, model, .. }) => (now.providers.get(&provider), model),
            Ok(ChosenModel::Probe { model }) => (now.providers.get("ollama"), model),
            Err(_) => (None, None),
        };
        if let Some(prefix) = prefix
            && prefixed.is_none()
        {
            self.check_prefix(prefix, named, provider)?;
        }
        Ok(provider.cloned().zip(model))
    }

    /// Checks a prefix that is not a provider, in a name for the default provider, if there is one. Model names may contain
    /// slashes where names are free, but no vendor's do.
    fn check_prefix(
        &self,
        prefix: &str,
        named: &str,
        provider: Option<&ProviderSettings>,
    ) -> Result<(), String> {
        let names = self.settings.providers.keys().map(String::as_str);
        let suggestion = nearest_name(prefix, names.clone());
        // A prefix this close to a provider is taken for a typo, even where model names are free.
        let is_misspelled = suggestion.is_some_and(|suggestion| suggestion.len().abs_diff(prefix.len()) <= 1);
        let naming = provider.map(|provider| self.provider_spec(provider).model_naming());
        let is_free = naming == Some(ModelNaming::Free);
        if is_free && !is_misspelled {
            return Ok(());
        }
        let now = self.current_settings();
        let usable = now.providers.values();
        let usable = usable.filter(|provider| provider.configured || provider.api_key.is_some());
        let usable: Vec<&str> = usable.map(|provider| provider.name.as_str()).collect();
        let all: Vec<&str> = if usable.is_empty() {
            names.collect()
        } else {
            usable
        };
        let perhaps =
            suggestion.map_or_else(String::new, |suggestion| format!(", did you mean {suggestion}?"));
        let end = if suggestion.is_some() { "" } else { ";" };
        Err(format!(
            "unknown provider {prefix} in {named}{perhaps}{end} the providers are {}",
            all.join(", ")
        ))
    }

    fn judge_at(&self, provider: &ProviderSettings, model: &str, list: KnownList<'_>) -> ModelVerdict {
        let spec = self.provider_spec(provider);
        let naming = match list {
            // An engine of one's own has what it lists, and nothing else.
            KnownList::Names(_) if spec.kind == ApiKind::Ollama => ModelNaming::Gateway,
            _ => spec.model_naming(),
        };
        let suggestions = match check_model_name(model, &provider.name, naming, list, current_day()) {
            NameVerdict::Accept => return ModelVerdict::Accept,
            NameVerdict::NeedsList => return ModelVerdict::NeedsList,
            NameVerdict::Refuse(suggestions) => suggestions,
        };
        let name = &provider.name;
        let suggestions: Vec<String> = suggestions
            .iter()
            .map(|suggestion| format!("{name}/{suggestion}"))
            .collect();
        let hint = if suggestions.is_empty() {
            String::new()
        } else {
            format!(", did you mean {}?", suggestions.join(" or "))
        };
        let problem = match retirement_date(&spec, model) {
            Some(date) => format!("model {name}/{model} was retired on {date}"),
            None => format!("unknown model {name}/{model}"),
        };
        let end = if hint.is_empty() { ";" } else { "" };
        ModelVerdict::Refuse(format!("{problem}{hint}{end} see agent/listModels"))
    }

    pub(super) fn default_choice(&self, agent: &AgentSettings) -> DefaultChoice {
        let default_model = |name: &str| self.default_model(name);
        let has_model = |provider: &str, model: &str| self.has_model(provider, model);
        crate::config::select_for(
            &self.current_settings(),
            agent,
            &self.env,
            &default_model,
            &has_model,
        )
    }
}

/// Returns the date on which the called vendor retired `model`.
fn retirement_date<'s>(spec: &'s ProviderSpec, model: &str) -> Option<&'s str> {
    let end = spec.retirement(model)?;
    (end.day <= current_day()).then_some(end.date)
}
