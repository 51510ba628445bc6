//! Resolves settings to a provider and a model that can be called.
//!
//! It owns the built providers of one configuration, and chooses among them. Accounts, learned windows, editor keys and
//! model lists outlive the configuration and are shared. It must not know sessions or turns beyond [`ModelChoice`].
//! Names are checked in `check`, keys in `credentials`, lists in `lists`.

mod check;
mod credentials;
mod engines;
mod keys;
mod learnt;
mod lists;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use secrecy::{ExposeSecret, SecretString};

pub use self::check::ModelVerdict;
use self::keys::{explain_missing_key, is_same_key};
pub(super) use self::learnt::LearntFacts;
pub(super) use self::lists::ModelLists;
use super::editor_credentials::EditorKeys;
use crate::base::hash::sha256;
use crate::config::{
    AgentSettings, DefaultChoice, EditTool, Env, ModelPrefix, ProviderSettings, ReasoningEffort, Settings,
    follow_prefix, missing_key_hint, provider_prefix, strip_provider,
};
use crate::domain::circuit::CircuitPolicy;
use crate::domain::{AgentError, CircuitState, ErrorCode};
use crate::provider::{
    self, Accounts, ApiKind, CircuitView, Effort, Health, ModelInfo, PriceSource, ProviderSpec,
    WatchedProvider,
    models::{self, current_day},
};
use crate::store::{ModelKey, NamedWindow};
use crate::turn::{Fallbacks, ModelChoice, ModelSource, ResolvedModel};

/// A smaller `num_ctx` leaves hardly any room besides the system prompt and the tools, and Ollama cuts prompts silently.
const LEAST_NUM_CTX: u64 = 16_384;

/// How long a local Ollama may take to answer (R-PROV).
const PROBE: Duration = Duration::from_millis(300);

/// How many days before a model's retirement to warn.
const RETIREMENT_NOTICE: i64 = 30;

/// The models of a provider's own list that are offered at most.
const LISTED: usize = 1_000;

/// The three ways to continue when nothing is configured, one per line (R-PROV).
const WAYS: &str = "run `agentls login`, or set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, or put a key into the \
configuration file\nstart Ollama with a model (`ollama pull qwen3`); it is detected automatically\ntry it without a key: `agentls demo`";

/// The providers of one configuration.
pub struct Models {
    settings: Arc<Settings>,
    env: Env,
    accounts: Arc<Accounts>,
    learnt: Arc<LearntFacts>,
    keys: Arc<EditorKeys>,
    lists: Arc<ModelLists>,
    built: Mutex<HashMap<String, BuiltProvider>>,
}

/// A provider, with the key that it was built with.
struct BuiltProvider {
    key: Option<SecretString>,
    provider: Arc<WatchedProvider>,
}

/// The models and providers that can be chosen.
pub struct ModelListing {
    pub models: Vec<ListedModel>,
    pub providers: Vec<ListedProvider>,
}

/// A model that can be chosen.
pub struct ListedModel {
    pub provider: String,
    pub model: String,
    /// It is the one in use.
    pub current: bool,
    /// Whether the provider's own list contains it; `None` while that list was not read.
    pub listed: Option<bool>,
    pub info: Option<ModelInfo>,
    pub price_source: PriceSource,
}

/// A provider and its health.
pub struct ListedProvider {
    pub name: String,
    pub kind: String,
    /// `None` if it cannot be called.
    pub health: Option<Health>,
    pub circuit: CircuitView,
    /// What is missing, or the last failure.
    pub message: Option<String>,
}

impl ListedProvider {
    /// Describes a provider whose settings are invalid.
    fn from_broken_settings(name: &str, reason: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: String::new(),
            health: None,
            circuit: CircuitView {
                state: CircuitState::Closed,
                until: None,
            },
            message: Some(reason.to_owned()),
        }
    }
}

impl Models {
    /// Creates the providers, none of which is built before it is needed. The shared arguments outlive this
    /// configuration.
    pub fn new(
        settings: Arc<Settings>,
        env: Env,
        accounts: Arc<Accounts>,
        learnt: Arc<LearntFacts>,
        keys: Arc<EditorKeys>,
        lists: Arc<ModelLists>,
    ) -> Self {
        Self {
            settings,
            env,
            accounts,
            learnt,
            keys,
            lists,
            built: Mutex::default(),
        }
    }

    /// Lists what can be chosen, and what is in use. With `live`, the providers are asked for their own lists first.
    pub async fn list_models(&self, current: &ModelChoice, live: bool) -> ModelListing {
        self.learnt.read_stored().await;
        let (agent, model) = (current.agent.as_deref(), self.existing_model(current));
        self.gather_credentials(agent, model).await;
        if live {
            self.read_lists().await;
        }
        let now = self.current_settings();
        let chosen = match self.choose_model(agent, model) {
            Ok(ChosenModel::Probe { model }) if live => self.probe_model(model).await,
            known => known,
        };
        if live && let Ok(chosen) = &chosen {
            self.read_local_facts(chosen).await;
        }
        let in_use = match &chosen {
            Ok(ChosenModel::Known {
                provider,
                model: Some(model),
                ..
            }) => Some((provider.as_str(), model.as_str())),
            _ => None,
        };
        let mut models = Vec::new();
        let mut providers = Vec::new();
        for settings in now
            .providers
            .values()
            // A list that was read shows that its provider can be called: an Ollama without any setting.
            .filter(|p| p.configured || p.api_key.is_some() || self.find_list(p).is_some())
        {
            providers.push(self.to_listed_provider(settings));
            let in_use = in_use.filter(|(provider, _)| *provider == settings.name);
            models.extend(self.list_provider_models(settings, in_use.map(|(_, model)| model)));
        }
        let broken = self.settings.broken_providers.iter();
        providers.extend(broken.map(|(name, reason)| ListedProvider::from_broken_settings(name, reason)));
        ModelListing { models, providers }
    }

    /// Returns the models of a provider: the one in use, the configured one, the offered ones, then its own list.
    fn list_provider_models(&self, settings: &ProviderSettings, in_use: Option<&str>) -> Vec<ListedModel> {
        let (list, today) = (self.find_list(settings), models::current_day());
        let chat = list.as_ref().map(|list| list.current_chat_models(today));
        let chat = chat.as_deref();
        let mut names: Vec<String> = in_use.map(str::to_owned).into_iter().collect();
        names.extend(
            settings
                .model
                .as_ref()
                .map(|named| self.strip_provider(settings, named)),
        );
        names.extend(models::list_offered_models(&settings.name, chat, today));
        names.extend(chat.unwrap_or_default().iter().take(LISTED).cloned());
        let spec = self.provider_spec(settings);
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(models::strip_latest(name).to_owned()));
        let listed = |name: String| ListedModel {
            provider: settings.name.clone(),
            current: in_use == Some(name.as_str()),
            listed: list.as_ref().map(|list| list.contains(&name)),
            info: Some(self.model_info(&spec, &name)),
            price_source: spec.price_source(&name),
            model: name,
        };
        names.into_iter().map(listed).collect()
    }

    fn to_listed_provider(&self, settings: &ProviderSettings) -> ListedProvider {
        let missing = settings.needs_key() && settings.api_key.is_none();
        let health = self
            .lock()
            .get(&settings.name)
            .map_or(Health::Unknown, |built| built.provider.health());
        let spec = self.provider_spec(settings);
        ListedProvider {
            name: settings.name.clone(),
            kind: spec.kind.name().to_owned(),
            health: (!missing).then_some(health),
            circuit: spec.account_health.circuit_view(),
            message: if missing {
                Some("an API key is missing".to_owned())
            } else {
                spec.account_health.last_failure()
            },
        }
    }

    /// Chooses the provider and model of a session from its own choice, its agent's, and the configuration.
    fn choose_model(&self, agent: Option<&str>, model: Option<&str>) -> Result<ChosenModel, AgentError> {
        let agent = self.agent_settings(agent);
        if let Some(named) = model {
            return self.choose_by_name(named, agent);
        }
        match self.default_choice(agent) {
            DefaultChoice::Configured { provider, model } => Ok(ChosenModel::Known {
                provider,
                model,
                reason: None,
            }),
            DefaultChoice::ByKey {
                provider,
                model,
                reason,
            } => Ok(ChosenModel::Known {
                provider,
                model: Some(model),
                reason: Some(reason),
            }),
            DefaultChoice::ProbeOllama { model } => Ok(ChosenModel::Probe { model }),
            DefaultChoice::NotConfigured { reason } => Err(AgentError::new(ErrorCode::Config, reason)),
        }
    }

    /// Resolves a name that was chosen for a session or a task.
    fn choose_by_name(&self, named: &str, agent: &AgentSettings) -> Result<ChosenModel, AgentError> {
        if let Some(reason) = self.settings.broken_providers.get(provider_prefix(named)) {
            // A broken provider is named: do not look for a model of that name elsewhere.
            return Err(not_configured(reason.clone()));
        }
        let mut own = AgentSettings {
            model: Some(named.to_owned()),
            model_prefix: ModelPrefix::Selects,
            ..agent.clone()
        };
        // The editor may have the key of a provider that is not set up otherwise. A provider's own name can mean nothing
        // else.
        follow_prefix(&mut own, &self.settings, |provider| {
            provider.name == named || provider.takes_editor_key() && self.keys.can_ask()
        });
        match self.default_choice(&own) {
            DefaultChoice::Configured { provider, model } => Ok(ChosenModel::Known {
                provider,
                model,
                reason: None,
            }),
            DefaultChoice::ByKey { provider, model, .. } => Ok(ChosenModel::Known {
                provider,
                model: Some(model),
                reason: None,
            }),
            DefaultChoice::ProbeOllama { model } => Ok(ChosenModel::Probe { model }),
            DefaultChoice::NotConfigured { reason } => Err(AgentError::new(ErrorCode::Config, reason)),
        }
    }

    fn strip_provider(&self, settings: &ProviderSettings, named: &str) -> String {
        let has_model = |provider: &str, model: &str| self.has_model(provider, model);
        strip_provider(&settings.name, named, &has_model).to_owned()
    }

    /// Returns whether a provider has a model of exactly this name; `None` if that is not known.
    pub(super) fn has_model(&self, provider: &str, model: &str) -> Option<bool> {
        let settings = self.settings.providers.get(provider)?;
        self.provider_spec(settings).has_model(model)
    }

    fn open_provider(&self, settings: &ProviderSettings) -> Result<Arc<WatchedProvider>, AgentError> {
        if settings.needs_key() && settings.api_key.is_none() {
            let message = format!("the provider {:?} has no API key", settings.name);
            return Err(AgentError {
                needs_login: true,
                ..not_configured(message).with_user_action(missing_key_hint(&settings.name))
            });
        }
        // Locked over the build, so that parallel turns share one provider.
        let mut built = self.lock();
        if let Some(known) = built.get(&settings.name)
            && is_same_key(known.key.as_ref(), settings.api_key.as_ref())
        {
            return Ok(known.provider.clone());
        }
        let spec = self.provider_spec(settings);
        let provider = provider::build(&spec).map_err(|error| error.to_agent_error())?;
        let provider = Arc::new(WatchedProvider::new(provider, spec.account_health));
        let now = BuiltProvider {
            key: settings.api_key.clone(),
            provider: provider.clone(),
        };
        built.insert(settings.name.clone(), now);
        Ok(provider)
    }

    fn provider_spec(&self, settings: &ProviderSettings) -> ProviderSpec {
        let policy = CircuitPolicy {
            rest: settings.circuit_cooldown_s.0,
            ..CircuitPolicy::default()
        };
        let key = settings.api_key.as_ref().map(ExposeSecret::expose_secret);
        ProviderSpec {
            account_health: self
                .accounts
                .get_or_create(&settings.name, &settings.base_url, key, policy),
            list: self.find_list(settings),
            // This redactor also knows the editor's keys.
            ..provider::build_spec(&self.settings, settings, self.keys.redactor().clone())
        }
    }

    fn model_info(&self, spec: &ProviderSpec, model: &str) -> ModelInfo {
        let mut info = spec.model_info(model);
        let engine = self.find_engine_facts(spec, model);
        if let Some(facts) = engine {
            info.window = facts.apply(info).window;
        }
        let key = self.model_key(&spec.name, model);
        if let Some(reported) = self.reported_window(spec, model) {
            self.learnt.record_report(&key, reported);
        }
        let learnt = self.learnt.find(&key);
        let is_set = spec.has_configured_window(model);
        if let Some(window) = learnt.window.filter(|_| !(learnt.is_old && is_set)) {
            // R-CTX-3: an overflow has named the real window, which is never larger than the known one.
            info.window = info.window.min(window.tokens);
        }
        info
    }

    /// Returns the key of what was learned about a model. It is stored, and an address may contain a password.
    pub(super) fn model_key(&self, provider: &str, model: &str) -> ModelKey {
        let settings = self.settings.providers.get(provider);
        let address = settings.map_or("", |settings| &settings.base_url);
        ModelKey {
            provider: provider.to_owned(),
            address: sha256(address.as_bytes()),
            model: model.to_owned(),
        }
    }

    /// Returns the cheapest current model of the same vendor and line, if it is known to be cheaper than `model`.
    fn find_cheaper_model(&self, settings: &ProviderSettings, model: &str) -> Option<String> {
        let spec = self.provider_spec(settings);
        let price = |name: &str| self.model_info(&spec, name).price.map(|price| price.output);
        let today = models::current_day();
        let chat = (self.find_list(settings)).map(|list| list.current_chat_models(today));
        let own = price(model)?;
        models::list_sibling_models(&settings.name, model, chat.as_deref(), today)
            .into_iter()
            .filter(|name| !self.learnt.find(&self.model_key(&settings.name, name)).is_missing)
            .filter_map(|name| Some((price(&name).filter(|price| *price < own)?, name)))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, name)| name)
    }

    /// Returns the tool with which a model changes files: the configured one, or the one that it is trained on.
    fn find_edit_tool(&self, settings: &ProviderSettings, model: &str) -> EditTool {
        let configured = self.settings.models.get(model).and_then(|model| model.edit_tool);
        let is_trained = settings.kind == ApiKind::Responses && models::gpt_version(model) >= Some(5);
        configured.unwrap_or(if is_trained {
            EditTool::ApplyPatch
        } else {
            EditTool::EditFile
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, BuiltProvider>> {
        // The map is consistent after every statement, so a panic elsewhere does not spoil it.
        self.built.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn to_resolved_model(
        &self,
        chosen: ChosenModel,
        choice: &ModelChoice,
    ) -> Result<ResolvedModel, AgentError> {
        let ChosenModel::Known {
            provider: name,
            model,
            reason,
        } = chosen
        else {
            return Err(nothing_found());
        };
        let settings = self.settings.providers.get(&name).ok_or_else(|| {
            let reason = self.settings.broken_providers.get(&name).cloned();
            not_configured(reason.unwrap_or_else(|| format!("the provider {name:?} is not configured")))
        })?;
        let settings = &self.with_editor_key(settings);
        let model = model.ok_or_else(|| {
            not_configured(format!("no model is set for the provider {name:?}")).with_user_action(format!(
                "set `model` under [provider.{name}], or choose one with agent/setModel"
            ))
        })?;
        let cheaper = choice.cheap.then(|| self.find_cheaper_model(settings, &model));
        let (model, if_missing) = match cheaper.flatten() {
            Some(cheaper) => (cheaper, Some(model)),
            None => (model, None),
        };
        let agent = self.agent_settings(choice.agent.as_deref());
        let spec = self.provider_spec(settings);
        let wanted = choice.effort.or(configured_effort(agent.reasoning_effort));
        let effort = wanted.and_then(|wanted| spec.nearest_effort(&model, wanted));
        let info = self.model_info(&spec, &model);
        let notes = [
            self.describe_gone(choice),
            reason,
            describe_effort(&model, info.reasoning, wanted, effort),
            describe_end(&spec, &model),
            describe_small_window(&spec, &model),
        ];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        Ok(ResolvedModel {
            provider: self.open_provider(settings)?,
            info,
            edit_tool: self.find_edit_tool(settings, &model),
            model,
            retry: spec.retry,
            effort,
            choice_reason: (!notes.is_empty()).then(|| notes.join("; ")),
            fallbacks: Fallbacks {
                model: settings
                    .fallback_model
                    .as_ref()
                    .map(|named| self.strip_provider(settings, named)),
                providers: self.resolve_route(self.agent_settings(choice.model_agent()), settings),
                if_missing,
                is_default: self.is_default(choice, settings),
            },
        })
    }
}

fn configured_effort(effort: ReasoningEffort) -> Option<Effort> {
    Some(match effort {
        ReasoningEffort::Off => return None,
        ReasoningEffort::None => Effort::None,
        ReasoningEffort::Minimal => Effort::Minimal,
        ReasoningEffort::Low => Effort::Low,
        ReasoningEffort::Medium => Effort::Medium,
        ReasoningEffort::High => Effort::High,
        ReasoningEffort::Xhigh => Effort::XHigh,
        ReasoningEffort::Max => Effort::Max,
    })
}

/// Warns about an effort that the model lacks.
fn describe_effort(
    model: &str,
    reasons: bool,
    wanted: Option<Effort>,
    sent: Option<Effort>,
) -> Option<String> {
    let wanted = wanted.filter(|wanted| sent != Some(*wanted))?;
    match sent {
        Some(sent) => Some(format!(
            "{model} has no reasoning effort {}; using {}",
            wanted.name(),
            sent.name()
        )),
        None if reasons => Some(format!(
            "{model} always reasons in the same way; the reasoning effort {} is not used",
            wanted.name()
        )),
        None if wanted == Effort::None => None,
        None => Some(format!(
            "{model} does not reason; the reasoning effort {} is not used",
            wanted.name()
        )),
    }
}

/// Says that the user has set a window that is too small.
fn describe_small_window(spec: &ProviderSpec, model: &str) -> Option<String> {
    let num_ctx = spec
        .num_ctx_for(model)
        .filter(|num_ctx| *num_ctx < LEAST_NUM_CTX)?;
    Some(format!(
        "num_ctx = {num_ctx} is too small for the system prompt and the tools; set num_ctx = 65536 in [provider.{}] or in \
         the Modelfile, or at least {LEAST_NUM_CTX}",
        spec.name
    ))
}

/// Warns about a model that its vendor has retired, or will retire within [`RETIREMENT_NOTICE`] days.
fn describe_end(spec: &ProviderSpec, model: &str) -> Option<String> {
    let end = spec.retirement(model)?;
    match end.day - current_day() {
        ..=0 => Some(format!(
            "{model} was retired on {}; choose another model",
            end.date
        )),
        1..=RETIREMENT_NOTICE => Some(format!("{model} will be retired on {}", end.date)),
        _ => None,
    }
}

impl Models {
    /// Returns the fallbacks of `first` for this agent: its own route, or the provider's.
    fn resolve_route(&self, agent: &AgentSettings, first: &ProviderSettings) -> Vec<String> {
        if agent.route.is_none() {
            return self.fallback_route(first);
        }
        let names = agent.iter_route().map(|(provider, _)| provider.to_owned());
        names.filter(|name| *name != first.name).collect()
    }

    /// Returns whether neither the choice nor the configuration names a model of the provider.
    fn is_default(&self, choice: &ModelChoice, provider: &ProviderSettings) -> bool {
        let is_named = match self.existing_model(choice) {
            // A provider's own name means its default model.
            Some(named) => !self.settings.providers.contains_key(named),
            None => {
                let named = self.agent_settings(choice.model_agent()).model.as_ref();
                named.is_some_and(|named| !self.settings.providers.contains_key(named))
            }
        };
        !is_named && provider.model.is_none()
    }

    /// Returns the settings of an agent, or of the default agent if there is none of this name.
    pub(super) fn agent_settings(&self, name: Option<&str>) -> &AgentSettings {
        name.and_then(|name| self.settings.find_agent(name))
            .unwrap_or_else(|| self.settings.default_agent())
    }

    /// Returns the fallbacks in order: the provider's own list, then the lists of those, each name once.
    fn fallback_route(&self, first: &ProviderSettings) -> Vec<String> {
        let mut route: Vec<String> = first.fallback.0.clone();
        let mut at = 0;
        // Each name enters once, so that fallbacks which name each other end.
        while let Some(name) = route.get(at) {
            let further = self
                .settings
                .providers
                .get(name)
                .map(|provider| provider.fallback.iter());
            let new = |name: &&String| **name != first.name && !route.contains(name);
            let further: Vec<String> = further.into_iter().flatten().filter(new).cloned().collect();
            route.extend(further);
            at += 1;
        }
        route
    }
}

/// A choice that may need a network probe.
enum ChosenModel {
    Known {
        provider: String,
        model: Option<String>,
        reason: Option<String>,
    },
    Probe {
        model: Option<String>,
    },
}

impl ChosenModel {
    /// Returns the model with its provider, if it is known.
    fn full_name(self) -> Option<String> {
        match self {
            Self::Known { provider, model, .. } => Some(format!("{provider}/{}", model?)),
            Self::Probe { model } => Some(format!("ollama/{}", model?)),
        }
    }
}

impl ModelSource for Arc<Models> {
    fn resolve_model(&self, choice: &ModelChoice) -> BoxFuture<'static, Result<ResolvedModel, AgentError>> {
        let (models, choice) = (self.clone(), choice.clone());
        async move {
            models.learnt.read_stored().await;
            let (agent, model) = (choice.model_agent(), models.existing_model(&choice));
            let unanswered = models.gather_credentials(agent, model).await;
            let chosen = match models.choose_model(agent, model) {
                Ok(ChosenModel::Probe { model }) => models.probe_model(model).await,
                known => known,
            };
            let chosen = chosen.map_err(|error| explain_missing_key(error, &unanswered))?;
            // `take_over` cannot wait for the editor, so the fallbacks' keys are requested now.
            models.gather_route(models.agent_settings(agent), &chosen).await;
            models.read_local_facts(&chosen).await;
            let resolved = models.to_resolved_model(chosen, &choice);
            resolved.map_err(|error| explain_missing_key(error, &unanswered))
        }
        .boxed()
    }

    fn take_over(
        &self,
        choice: &ModelChoice,
        provider: &str,
        model: Option<&str>,
    ) -> Result<ResolvedModel, AgentError> {
        let agent = self.agent_settings(choice.agent.as_deref());
        let mut chosen = self.choose_by_name(provider, agent)?;
        // The agent's own route may name a model for this provider.
        let of_route = agent
            .iter_route()
            .filter(|(named, _)| *named == provider)
            .find_map(|(_, model)| model);
        if let (ChosenModel::Known { model: its, .. }, Some(other)) = (&mut chosen, model.or(of_route)) {
            *its = Some(other.to_owned());
        }
        let choice = ModelChoice {
            // A named model is taken as it is.
            cheap: choice.cheap && model.is_none(),
            ..choice.clone()
        };
        let mut resolved = self.to_resolved_model(chosen, &choice)?;
        if model.is_some() {
            // It is the overload model itself.
            resolved.fallbacks.model = None;
        }
        resolved.fallbacks.is_default &= model.or(of_route).is_none();
        Ok(resolved)
    }

    fn learn_window(&self, model: &ResolvedModel, window: u64) {
        tracing::info!(model = %model.label(), window, "an overflow named the window");
        let provider = model.provider.name();
        let spec = self
            .settings
            .providers
            .get(provider)
            .map(|settings| self.provider_spec(settings));
        let window = NamedWindow {
            tokens: window,
            reported: spec.and_then(|spec| self.reported_window(&spec, &model.model)),
        };
        self.learnt
            .record_window(self.model_key(provider, &model.model), window);
    }

    fn confirm_window(&self, model: &ResolvedModel, tokens: u64) {
        let key = self.model_key(model.provider.name(), &model.model);
        self.learnt.record_success(key, tokens);
    }

    fn learn_missing(&self, model: &ResolvedModel) {
        let key = self.model_key(model.provider.name(), &model.model);
        self.learnt.record_missing(key);
    }

    fn find_other_default(&self, missing: &ResolvedModel) -> BoxFuture<'static, Option<String>> {
        let (models, provider) = (self.clone(), missing.provider.name().to_owned());
        let missing = missing.model.clone();
        async move { models.replace_default(&provider, &missing).await }.boxed()
    }
}

impl Models {
    /// Reads what a local server says about its models, unless that is known. Only Ollama says it, and only it must be
    /// told the window. Its failures show when the model is called.
    async fn read_local_facts(&self, chosen: &ChosenModel) {
        let ChosenModel::Known { provider, model, .. } = chosen else {
            return;
        };
        let Some(settings) = self.settings.providers.get(provider) else {
            return;
        };
        if settings.kind == ApiKind::Ollama {
            let model = model.clone();
            self.read_list(&ProviderSettings {
                model,
                ..settings.clone()
            })
            .await;
        }
        self.read_engine_windows(settings, model.as_deref()).await;
    }

    async fn probe_model(&self, wanted: Option<String>) -> Result<ChosenModel, AgentError> {
        let ollama = self.settings.providers.get("ollama").ok_or_else(nothing_found)?;
        let found = provider::list_models("ollama", &ollama.base_url, PROBE)
            .await
            .ok_or_else(nothing_found)?;
        // What each model can is one request more for each.
        let list = self.read_list(ollama).await.unwrap_or_else(|| Arc::new(found));
        let model = wanted
            .or_else(|| list.first_agent_model().cloned())
            .ok_or_else(|| {
                not_configured("Ollama is running, but has no model that can call tools".to_owned())
                    .with_user_action("get one: `ollama pull qwen3`")
            })?;
        let reason = format!("using Ollama with {model}: no API key is set and Ollama is running");
        Ok(ChosenModel::Known {
            provider: "ollama".to_owned(),
            model: Some(model),
            reason: Some(reason),
        })
    }
}

fn nothing_found() -> AgentError {
    let message = "no provider is configured: no API key is set and no Ollama is running";
    AgentError {
        needs_login: true,
        ..not_configured(message.to_owned())
    }
}

fn not_configured(message: String) -> AgentError {
    AgentError::new(ErrorCode::Config, message).with_user_action(WAYS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{ApiKind, ModelList};

    #[test]
    fn an_effort_that_is_not_used_is_reported() {
        let high = Some(Effort::High);
        assert_eq!(describe_effort("m", true, high, high), None);
        assert_eq!(describe_effort("m", true, None, None), None);
        let told = |reasons, wanted| describe_effort("m", reasons, Some(wanted), None);
        assert_eq!(
            told(false, Effort::High).unwrap(),
            "m does not reason; the reasoning effort high is not used"
        );
        assert_eq!(told(false, Effort::None), None);
        assert_eq!(
            told(true, Effort::None).unwrap(),
            "m always reasons in the same way; the reasoning effort none is not used"
        );
    }

    #[test]
    fn a_model_that_has_ended_or_ends_within_a_month_is_reported() {
        let notice = |days: i64| {
            let day = chrono::DateTime::from_timestamp((current_day() + days) * 86_400, 0).unwrap();
            let date = day.format("%Y-%m-%d").to_string();
            let list = ModelList {
                retirements: [("gpt-6-luna".to_owned(), date.clone())].into(),
                ..ModelList::default()
            };
            let spec = ProviderSpec {
                list: Some(Arc::new(list)),
                ..ProviderSpec::new("openai", ApiKind::Responses)
            };
            (
                describe_end(&spec, "gpt-6-luna"),
                format!("gpt-6-luna will be retired on {date}"),
            )
        };
        for days in [1, 30] {
            let (told, expected) = notice(days);
            assert_eq!(told, Some(expected));
        }
        for days in [-1, 0] {
            let told = notice(days).0.unwrap();
            assert!(told.starts_with("gpt-6-luna was retired on "), "{told}");
        }
        assert_eq!(notice(31).0, None);
    }
}
