//! What a user can choose for a session: its mode, model, effort and agent.
//!
//! The mode is offered twice, because older clients know modes only, and newer ones show options only.

use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Error, Id};

use super::context::AcpContext;
use super::error::{command_refusal, invalid_param};
use super::open_prompts::ChangeKind;
use super::params::SetOptionParams;
use super::updates;
use crate::domain::{Mode, SessionId};
use crate::provider::Effort;
use crate::session::{EffortChoice, ListedModel, ModelListing, SessionCommand, SessionSnapshot};
use crate::transport::cancel_token;
use crate::transport::message::cancelled_error;

/// The name of the agent that is used when none is named.
const DEFAULT_AGENT: &str = "default";

const MODES: [(Mode, &str, &str); 4] = [
    (
        Mode::Ask,
        "Ask",
        "Reads freely; edits, commands and the network need approval",
    ),
    (
        Mode::AutoEdit,
        "Auto-edit",
        "Edits inside the workspace are free too, as are commands that the sandbox confines in full",
    ),
    (Mode::Plan, "Plan", "Reads only"),
    (
        Mode::Full,
        "Full",
        "Everything is free, except what your rules catch",
    ),
];

/// Returns the modes, and which one applies.
pub(super) fn mode_state(mode: Mode) -> Value {
    let modes: Vec<Value> = MODES
        .iter()
        .map(|(mode, name, description)| json!({"id": mode.name(), "name": name, "description": description}))
        .collect();
    json!({"currentModeId": mode.name(), "availableModes": modes})
}

/// Returns the options of a session with their current values.
pub(super) async fn config_options(state: &AcpContext, session: &SessionId) -> Result<Vec<Value>, Error> {
    let snapshot = inspect(state, session).await?;
    Ok(describe_options(state, &snapshot).await)
}

/// Returns a session's state.
pub(super) async fn inspect(state: &AcpContext, session: &SessionId) -> Result<SessionSnapshot, Error> {
    let command = |reply| SessionCommand::Inspect { reply };
    let snapshot = state.sessions.send_request(session, command).await;
    snapshot.map_err(command_refusal)
}

/// Returns the options of a session with their current values, by its state.
pub(super) async fn describe_options(state: &AcpContext, snapshot: &SessionSnapshot) -> Vec<Value> {
    let configured = state.configured.folder_config(&snapshot.info.folder);
    let mut options = vec![select(
        ("mode", "Mode", "mode"),
        snapshot.choice.mode.name(),
        MODES
            .iter()
            .map(|(mode, name, description)| json!({"value": mode.name(), "name": name, "description": description})),
    )];
    let agent = snapshot.info.agent.as_deref();
    let listed = list_models(state, snapshot).await;
    let in_use = listed.models.iter().find(|model| model.current);
    if let Some(current) = in_use.map(name_model).or_else(|| snapshot.choice.model.clone()) {
        let mut names: Vec<String> = listed.models.iter().map(name_model).collect();
        if !names.contains(&current) {
            names.insert(0, current.clone());
        }
        let values = names.iter().map(|name| json!({"value": name, "name": name}));
        options.push(select(("model", "Model", "model"), &current, values));
    }
    let efforts = list_efforts(state, snapshot, in_use);
    options.push(describe_effort_option(&efforts, snapshot.choice.effort));
    let settings = &configured.loaded.settings;
    if settings.agents.len() > 1 && !snapshot.has_begun {
        let values = settings
            .agents
            .keys()
            .map(|name| json!({"value": name, "name": name}));
        options.push(select(
            ("agent", "Agent", "_agentls_agent"),
            agent
                .filter(|name| settings.agents.contains_key(*name))
                .unwrap_or(DEFAULT_AGENT),
            values,
        ));
    }
    options
}

/// Returns the efforts that a session's model takes.
fn list_efforts(state: &AcpContext, snapshot: &SessionSnapshot, in_use: Option<&ListedModel>) -> Vec<Effort> {
    let configured = state.configured.folder_config(&snapshot.info.folder);
    in_use.map_or_else(
        || Effort::ALL.to_vec(),
        |model| configured.models.list_efforts(&model.provider, &model.model),
    )
}

/// Describes the option of the effort. A chosen one that the model does not take is sent as the nearest one.
fn describe_effort_option(efforts: &[Effort], chosen: Option<Effort>) -> Value {
    let distance = |effort: &&Effort| chosen.map(|chosen| (**effort as u8).abs_diff(chosen as u8));
    let current = chosen.and_then(|_| efforts.iter().min_by_key(distance));
    let configured = json!({"value": EffortChoice::CONFIGURED, "name": "as configured"});
    let values = efforts
        .iter()
        .map(|effort| json!({"value": effort.name(), "name": effort.name()}));
    select(
        ("effort", "Reasoning effort", "thought_level"),
        current.map_or(EffortChoice::CONFIGURED, |effort| effort.name()),
        std::iter::once(configured).chain(values),
    )
}

/// Lists the models of a session, without a request.
async fn list_models(state: &AcpContext, snapshot: &SessionSnapshot) -> ModelListing {
    let configured = state.configured.folder_config(&snapshot.info.folder);
    let current = snapshot.choice.to_model_choice(&snapshot.info);
    configured.models.list_models(&current, false).await
}

fn name_model(model: &ListedModel) -> String {
    format!("{}/{}", model.provider, model.model)
}

fn select(
    (id, name, category): (&str, &str, &str),
    current: &str,
    values: impl Iterator<Item = Value>,
) -> Value {
    json!({
        "id": id, "name": name, "category": category, "type": "select",
        "currentValue": current, "options": values.collect::<Vec<_>>(),
    })
}

/// Changes the mode of a session.
pub(super) async fn set_mode(state: &AcpContext, session: &SessionId, mode: &str) -> Result<(), Error> {
    let mode = Mode::from_name(mode).ok_or_else(|| {
        invalid_param(format!(
            "unknown mode {mode:?}; the modes are ask, autoEdit, plan, full"
        ))
    })?;
    let set = |reply| SessionCommand::SetMode { mode, reply };
    let done = state.sessions.send_request(session, set).await;
    done.map_err(command_refusal)
}

/// Changes an option of a session, and returns all of them.
pub(super) async fn set_option(
    state: &AcpContext,
    request: &Id,
    params: SetOptionParams,
) -> Result<Vec<Value>, Error> {
    let Some(value) = params.value.as_str() else {
        return Err(invalid_param("the value of this option is a string"));
    };
    let (session, option) = (&SessionId::from(params.session_id), params.config_id.as_str());
    if option == "mode" {
        // It applies at once, and only the answers keep their order.
        let turn = state.begin_change(request, session, ChangeKind::Mode);
        set_mode(state, session, value).await?;
        turn.await;
        return config_options(state, session).await;
    }
    // The turn of a prompt that came first begins without the choice.
    let canceled = cancel_token();
    tokio::select! { biased;
        () = canceled.cancelled() => return Err(cancelled_error()),
        () = state.begin_change(request, session, ChangeKind::Other) => {}
    }
    let choose = |model, effort| {
        state
            .sessions
            .choose_model(&state.configured, session, model, effort)
    };
    match option {
        "model" => {
            check_model(state, session, value).await?;
            choose(Some(value.to_owned()), None)
                .await
                .map_err(command_refusal)
        }
        "effort" => {
            let effort = read_effort(state, session, value).await?;
            choose(None, Some(effort)).await.map_err(command_refusal)
        }
        "agent" => set_agent(state, session, value).await,
        _ => Err(invalid_param(format!("unknown option {option:?}"))),
    }?;
    config_options(state, session).await
}

/// Reads an effort. Refuses one that the option does not offer.
async fn read_effort(state: &AcpContext, session: &SessionId, value: &str) -> Result<EffortChoice, Error> {
    let snapshot = inspect(state, session).await?;
    let listed = list_models(state, &snapshot).await;
    let in_use = listed.models.iter().find(|model| model.current);
    let efforts = list_efforts(state, &snapshot, in_use);
    let is_offered = value == EffortChoice::CONFIGURED || efforts.iter().any(|effort| effort.name() == value);
    EffortChoice::from_name(value)
        .filter(|_| is_offered)
        .ok_or_else(|| {
            let names: Vec<&str> = efforts.iter().map(|effort| effort.name()).collect();
            invalid_param(match names.as_slice() {
                [] => "the model takes no effort; the only value is configured".to_owned(),
                names => format!("the efforts of this model are configured, {}", names.join(", ")),
            })
        })
}

/// Refuses a model without its provider, unless it is on the list: every value of the option has one. A list may lack
/// models, so of others the provider decides.
async fn check_model(state: &AcpContext, session: &SessionId, model: &str) -> Result<(), Error> {
    let snapshot = inspect(state, session).await?;
    let listed = list_models(state, &snapshot).await;
    let is_listed = listed.models.iter().any(|listed| name_model(listed) == model);
    let provider = model.split_once('/').map(|(provider, _)| provider);
    if is_listed
        || listed
            .providers
            .iter()
            .any(|listed| provider == Some(&*listed.name))
    {
        return Ok(());
    }
    Err(invalid_param(format!(
        "there is no model {model:?}; choose one of the option's values"
    )))
}

/// Gives a session without a turn to another agent. A history belongs to the agent that made it.
async fn set_agent(state: &AcpContext, session: &SessionId, agent: &str) -> Result<(), Error> {
    let set = |reply| SessionCommand::SetAgent {
        agent: (agent != DEFAULT_AGENT).then(|| agent.to_owned()),
        reply,
    };
    let done = state.sessions.send_request(session, set).await;
    done.map_err(command_refusal)?;
    // It may be another one now.
    let mode = inspect(state, session).await?.choice.mode;
    state.feeds.send(session, updates::current_mode(mode));
    Ok(())
}
