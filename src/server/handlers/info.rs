//! Read-only methods: models, agents, commands, tools, kept content, metrics; also circuits and the configuration.

use std::collections::BTreeMap;

use serde_json::Value;
use tower_lsp::jsonrpc::Result;

use super::super::error::RequestError;
use super::super::service::Service;
use super::super::state::session_param;
use super::super::to_wire::content::{ContentPointer, extract_field, read_piece};
use super::super::{from_wire, to_wire};
use super::store_failed;
use crate::config::{AgentSettings, ConfigSeverity, Diagnostic};
use crate::domain::SessionId;
use crate::protocol::{self as wire, *};
use crate::provider::{Effort, PriceSource};
use crate::session::{SessionCommand, SessionInfo, SessionSnapshot};
use crate::tool::DynTool;
use crate::tool::mcp_tool::McpServerTool;

impl Service {
    pub(in crate::server) async fn list_models(&self, params: Value) -> Result<ListModelsResult> {
        let params: ListModelsParams = self.parse_params(params)?;
        let (folder, current) = match params.session_id {
            Some(session) => {
                let session = session_param(&session);
                let snapshot = self
                    .ask_session(&session, |reply| SessionCommand::Inspect { reply })
                    .await?;
                let current = snapshot.choice.to_model_choice(&snapshot.info);
                (snapshot.info.folder, current)
            }
            None => (self.state.folders().swap_remove(0), Default::default()),
        };
        let models = self.state.configured.folder_config(&folder).models.clone();
        let mut listed = models.list_models(&current, params.live).await;
        if let Some(name) = params.check {
            let checked = models.check_provider(&name).await;
            let checked = checked
                .ok_or_else(|| RequestError::invalid_param("check", format!("unknown provider {name:?}")))?;
            listed.providers.retain(|provider| provider.name != name);
            listed.providers.push(checked);
        }
        Ok(ListModelsResult {
            models: listed.models.into_iter().map(model_to_wire).collect(),
            providers: listed.providers.into_iter().map(provider_to_wire).collect(),
        })
    }

    pub(in crate::server) async fn list_agents(&self, params: Value) -> Result<ListAgentsResult> {
        let params: ListAgentsParams = self.parse_params(params)?;
        let (folder, current) = match params.session_id {
            Some(session) => {
                let session = session_param(&session);
                let info = self
                    .ask_session(&session, |reply| SessionCommand::Inspect { reply })
                    .await?
                    .info;
                let agent = info.agent.unwrap_or_else(|| "default".to_owned());
                (info.folder, Some(agent))
            }
            None => (self.state.folders().swap_remove(0), None),
        };
        let configured = self.state.configured.folder_config(&folder);
        let tools = self.state.sessions.client_tools(&configured.tools);
        let tools = tools.tool_names();
        let mut agents: Vec<AgentInfo> = configured
            .loaded
            .settings
            .agents
            .values()
            .map(|agent| to_wire::agent_info(agent, &tools, current.as_deref()))
            .collect();
        // A stable sort of names in order: `default` first, the others by name.
        agents.sort_by_key(|agent| agent.name != "default");
        Ok(ListAgentsResult { agents })
    }

    pub(in crate::server) async fn list_commands(&self, params: Value) -> Result<ListCommandsResult> {
        let params: ListCommandsParams = self.parse_params(params)?;
        let info = match params.session_id {
            Some(session) => {
                let session = session_param(&session);
                self.ask_session(&session, |reply| SessionCommand::Inspect { reply })
                    .await?
                    .info
            }
            None => {
                let folder = self.state.folders().swap_remove(0);
                SessionInfo {
                    id: SessionId::new_random(),
                    cwd: folder.clone(),
                    folder,
                    agent: None,
                }
            }
        };
        let commands = self.state.configured.list_commands(&info).await;
        Ok(ListCommandsResult {
            commands: commands.iter().map(to_wire::command_info).collect(),
        })
    }

    pub(in crate::server) async fn list_tools(&self, params: Value) -> Result<ListToolsResult> {
        let params: ListToolsParams = self.parse_params(params)?;
        let info = match params.session_id {
            Some(session) => {
                let session = session_param(&session);
                Some(
                    self.ask_session(&session, |reply| SessionCommand::Inspect { reply })
                        .await?
                        .info,
                )
            }
            None => None,
        };
        let folder = match &info {
            Some(info) => info.folder.clone(),
            None => self.state.folders().swap_remove(0),
        };
        let configured = self.state.configured.folder_config(&folder);
        let settings = &configured.loaded.settings;
        let agent = info.map(|info| {
            let named = info.agent.as_deref().and_then(|name| settings.find_agent(name));
            named.unwrap_or_else(|| settings.default_agent())
        });
        let tools = self.state.sessions.client_tools(&configured.tools);
        let choice = agent.map(AgentSettings::tool_choice);
        let has = |name: &str| choice.as_ref().is_none_or(|choice| choice.is_allowed(name));
        let specs = tools.tool_specs().iter().filter(|spec| has(&spec.name));
        let servers = self.state.configured.mcp().find_folder(&folder);
        let served = servers.iter().flat_map(|servers| servers.list_tools());
        let served = served.map(McpServerTool::new).filter(|tool| {
            (choice.as_ref()).is_none_or(|choice| choice.is_allowed_by_either(tool.name(), tool.rule_name()))
        });
        Ok(ListToolsResult {
            tools: specs
                .map(to_wire::tool_info)
                .chain(served.map(|tool| to_wire::tool_info(&tool.spec())))
                .collect(),
        })
    }

    pub(in crate::server) async fn read_content(&self, params: Value) -> Result<ReadContentResult> {
        let params: ReadContentParams = self.parse_params(params)?;
        let session = session_param(&params.session_id);
        let sessions = &self.state.sessions;
        let (pointer, limit) = from_wire::parse_content_request(&params)?;
        let unknown = || RequestError::UnknownContent(params.reference.clone());
        match pointer {
            ContentPointer::Event { seq, path } => {
                let stored = sessions.read_event(&session, seq).await;
                let stored = stored.map_err(store_failed)?.ok_or_else(unknown)?;
                let full_text = extract_field(&stored.event, &path).ok_or_else(unknown)?;
                Ok(read_piece(&full_text, params.offset, limit))
            }
            ContentPointer::Kept(name) => {
                let piece = sessions
                    .read_content(&session, &name, params.offset, limit as usize)
                    .await;
                let piece = piece.map_err(store_failed)?.ok_or_else(unknown)?;
                Ok(ReadContentResult {
                    // Kept content is raw output: a terminal must not obey it (R-SEC).
                    text: crate::base::text::strip_control_characters(&piece.text).into_owned(),
                    next_offset: (piece.next < piece.total).then_some(piece.next),
                    bytes: piece.total,
                })
            }
        }
    }

    pub(in crate::server) async fn read_metrics(&self, params: Value) -> Result<MetricsResult> {
        let params: MetricsParams = self.parse_params(params)?;
        let session = match params.session_id {
            Some(session) => {
                let session = session_param(&session);
                Some(
                    self.ask_session(&session, |reply| SessionCommand::Measure { reply })
                        .await?,
                )
            }
            None => None,
        };
        let totals = self.state.sessions.totals();
        let providers = self.state.configured.accounts().circuit_views();
        let tools = session.as_ref().map(|session| session.circuits.clone());
        let tools = tools.unwrap_or_default();
        let circuits = to_wire::to_circuits(CircuitSubject::Provider, &providers);
        let session = session.as_ref().map(session_metrics);
        Ok(MetricsResult {
            circuits: circuits
                .chain(to_wire::to_circuits(CircuitSubject::Tool, &tools))
                .collect(),
            ..to_wire::to_metrics(totals, session)
        })
    }

    pub(in crate::server) async fn reset_circuit(&self, params: Value) -> Result<ResetCircuitResult> {
        let ResetCircuitParams {
            subject,
            name,
            session_id,
        } = self.parse_params(params)?;
        let was_open = match subject {
            wire::CircuitSubject::Provider => {
                let reset = self.state.configured.accounts().reset_circuits(&name);
                reset.ok_or(RequestError::UnknownCircuit(name))?
            }
            wire::CircuitSubject::Tool => {
                let sessions = &self.state.sessions;
                let configured = &self.state.configured;
                let is_known = sessions.has_tool(&name)
                    || configured.names_tool(&name)
                    || configured.mcp().has_tool(&name);
                if !is_known {
                    return Err(RequestError::UnknownCircuit(name).into());
                }
                match session_id {
                    Some(id) => {
                        let reset = |reply| SessionCommand::ResetCircuit { tool: name, reply };
                        self.ask_session(&session_param(&id), reset).await?
                    }
                    None => sessions.reset_circuits(&name).await,
                }
            }
        };
        Ok(ResetCircuitResult { was_open })
    }

    pub(in crate::server) async fn reload_config(&self, params: Value) -> Result<ReloadConfigResult> {
        // Parsed only to refuse params of the wrong form.
        let _: ReloadConfigParams = self.parse_params(params)?;
        let problems = self.state.reload_config();
        Ok(ReloadConfigResult {
            problems: problems.iter().map(problem_to_wire).collect(),
        })
    }
}

fn session_metrics(snapshot: &SessionSnapshot) -> SessionMetrics {
    let metrics = &snapshot.metrics;
    let by_name = |(name, count): (&String, &u64)| (name.clone(), *count);
    let by_code = |(code, count): (&&str, &u64)| ((*code).to_owned(), *count);
    let errors: BTreeMap<String, u64> = metrics.errors.iter().map(by_code).collect();
    SessionMetrics {
        session_id: snapshot.info.id.to_string(),
        started_at: metrics.started_at,
        counts: Counts {
            input_tokens: metrics.usage.total_input_tokens(),
            output_tokens: metrics.usage.output,
            requests: metrics.requests,
            errors: metrics.errors.values().sum(),
            tool_calls: metrics.tool_calls.values().sum(),
            retries: metrics.retries,
            compactions: metrics.compactions,
            cancels: metrics.cancels,
            queued_prompts: metrics.queued_prompts,
            reverts: metrics.reverts,
        },
        tool_calls_by_name: metrics.tool_calls.iter().map(by_name).collect(),
        errors_by_code: errors,
    }
}

fn model_to_wire(model: crate::session::ListedModel) -> wire::ModelInfo {
    let known_limit = model.info.as_ref().filter(|info| info.knows_max_output);
    wire::ModelInfo {
        model: format!("{}/{}", model.provider, model.model),
        provider: model.provider,
        current: model.current,
        listed: model.listed,
        context_window: model.info.as_ref().map(|info| info.window),
        max_output_tokens: known_limit.map(|info| u64::from(info.max_output)),
        price: model.info.and_then(|info| info.price).map(|price| wire::Price {
            input: price.input,
            output: price.output,
            cache_read: price.cache_read,
            cache_write: price.cache_write,
        }),
        pricing: Some(match model.price_source {
            PriceSource::List => wire::Pricing::List,
            PriceSource::Configured => wire::Pricing::Configured,
            PriceSource::Free => wire::Pricing::Free,
            PriceSource::Unknown => wire::Pricing::Unknown,
        }),
    }
}

fn provider_to_wire(provider: crate::session::ListedProvider) -> wire::ProviderInfo {
    use crate::provider::Health;
    wire::ProviderInfo {
        kind: provider.kind,
        health: match provider.health {
            Some(Health::Unknown) => ProviderHealth::Unknown,
            Some(Health::Ok) => ProviderHealth::Ok,
            Some(Health::Failing) => ProviderHealth::Failing,
            None => ProviderHealth::NotConfigured,
        },
        circuit: to_wire::to_provider_circuit(&provider.name, &provider.circuit),
        provider: provider.name,
        message: provider.message,
    }
}

fn problem_to_wire(problem: &Diagnostic) -> ConfigProblem {
    let mut message = if problem.key.is_empty() {
        problem.message.clone()
    } else {
        format!("{}: {}", problem.key, problem.message)
    };
    if let Some(hint) = &problem.hint {
        message.push_str(&format!(" ({hint})"));
    }
    ConfigProblem {
        file: problem.file.clone(),
        line: (problem.line > 0).then_some(problem.line),
        severity: match problem.severity {
            ConfigSeverity::Error => wire::Severity::Error,
            ConfigSeverity::Warning => wire::Severity::Warning,
        },
        message,
    }
}

pub(super) fn effort_to_wire(effort: Effort) -> wire::Effort {
    match effort {
        Effort::None => wire::Effort::None,
        Effort::Minimal => wire::Effort::Minimal,
        Effort::Low => wire::Effort::Low,
        Effort::Medium => wire::Effort::Medium,
        Effort::High => wire::Effort::High,
        Effort::XHigh => wire::Effort::Xhigh,
        Effort::Max => wire::Effort::Max,
    }
}

impl From<wire::Effort> for Effort {
    fn from(effort: wire::Effort) -> Self {
        match effort {
            wire::Effort::None => Self::None,
            wire::Effort::Minimal => Self::Minimal,
            wire::Effort::Low => Self::Low,
            wire::Effort::Medium => Self::Medium,
            wire::Effort::High => Self::High,
            wire::Effort::Xhigh => Self::XHigh,
            wire::Effort::Max => Self::Max,
        }
    }
}
