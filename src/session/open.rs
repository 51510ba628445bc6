//! New sessions, and the choice of a session's model: what both edges do alike.
//!
//! Checks names, fills gaps with the last choice, and asks the session. Knows no wire shapes; trust of the folder is
//! settled before.

use std::path::PathBuf;

use super::SessionManager;
use super::command::{CommandError, EffortChoice, SessionCommand, SessionInfo, SessionSnapshot};
use super::config_store::ConfigStore;
use super::services::SettingsSource;
use crate::domain::{Mode, SessionId};
use crate::provider::Effort;
use crate::store::ContentChoice;

/// What a client asks of a new session.
#[derive(Clone, Debug, Default)]
pub struct NewSession {
    /// The workspace folder that determines settings, grants and trust.
    pub folder: PathBuf,
    /// The working directory.
    pub cwd: PathBuf,
    /// The agent's name in the configuration.
    pub agent: Option<String>,
    /// The user's own choice, which is remembered.
    pub choice: ContentChoice,
    /// Whether gaps in the choice are filled with the last one.
    pub remembered: bool,
}

/// A session that was created.
#[derive(Clone, Debug)]
pub struct CreatedSession {
    pub id: SessionId,
    pub mode: Mode,
    pub model: Option<String>,
    pub effort: Option<Effort>,
    /// Why the remembered model is not used, for the user.
    pub model_gone: Option<String>,
}

/// Why a session was not created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NewSessionError {
    #[error("unknown agent {0}; the configuration has no [agent.{0}]")]
    UnknownAgent(String),
    #[error("{0}")]
    UnknownModel(String),
}

impl SessionManager {
    /// Creates a session as a client asks for it.
    ///
    /// # Errors
    /// The agent or the model does not exist.
    pub async fn open_new_session(
        &self,
        configured: &ConfigStore,
        wanted: NewSession,
    ) -> Result<CreatedSession, NewSessionError> {
        let NewSession {
            folder,
            cwd,
            agent,
            choice: mut chosen,
            remembered,
        } = wanted;
        if let Some(agent) = &agent {
            let known = configured.folder_config(&folder);
            if known.loaded.settings.find_agent(agent).is_none() {
                return Err(NewSessionError::UnknownAgent(agent.clone()));
            }
        }
        let info = SessionInfo {
            id: SessionId::new_random(),
            folder,
            cwd,
            agent,
        };
        if let Some(model) = &mut chosen.model {
            let checked = configured.check_model(&info, model).await;
            checked.map_err(NewSessionError::UnknownModel)?;
            *model = configured.full_model_name(&info, model);
        }
        let mut model_gone = None;
        // A remembered model is checked there, and causes a warning instead of an error.
        let choice = if remembered {
            let mut last = self.last_choice(&info).await;
            last.model = last.model.filter(|_| chosen.model.is_none());
            (last, model_gone) = configured.recall_choice(&info.folder, info.agent.as_deref(), last);
            ContentChoice {
                model: chosen.model.clone().or(last.model),
                effort: chosen.effort.clone().or(last.effort),
                mode: chosen.mode.or(last.mode),
            }
        } else {
            chosen.clone()
        };
        // Only the user's own choice is remembered, not the values filled in from the last one.
        self.remember_choice(&info, chosen);
        let (model, effort) = (choice.model.clone(), choice.effort.clone());
        let (id, mode) = self.create_session(info, choice);
        Ok(CreatedSession {
            id,
            mode,
            model,
            effort: effort.as_deref().and_then(Effort::from_name),
            model_gone,
        })
    }

    /// Changes the model or the effort for future turns. Queries the provider's list of models if that decides.
    ///
    /// # Errors
    /// Those of [`SessionCommand::SetModel`], and [`CommandError::UnknownModel`].
    pub async fn choose_model(
        &self,
        configured: &ConfigStore,
        id: &SessionId,
        model: Option<String>,
        effort: Option<EffortChoice>,
    ) -> Result<(), CommandError> {
        let set = |model: Option<String>, refused| {
            self.send_request(id, move |reply| SessionCommand::SetModel {
                model,
                effort,
                refused,
                reply,
            })
        };
        // The query of a provider's list takes a while, so it runs here and not in the session.
        match set(model.clone(), None).await {
            Err(CommandError::NeedsModelList(info, number)) => {
                let checked = configured
                    .check_model(&info, model.as_deref().unwrap_or_default())
                    .await;
                checked.map_err(CommandError::UnknownModel)?;
                set(model, Some(number)).await
            }
            done => done,
        }
    }
}

impl ConfigStore {
    /// Refuses a name that cannot be a model. Queries the provider's list if that decides.
    async fn check_model(&self, info: &SessionInfo, model: &str) -> Result<(), String> {
        let models = self.folder_config(&info.folder).models.clone();
        models.check_model(info.agent.as_deref(), model).await
    }

    /// Says which agent and model of a session are gone, and what is used instead.
    pub fn describe_gone(&self, snapshot: &SessionSnapshot) -> Option<String> {
        let models = self.folder_config(&snapshot.info.folder).models.clone();
        models.describe_gone(&snapshot.choice.to_model_choice(&snapshot.info))
    }
}
