//! Models: listing, prices, which one a session uses, and the remembered choice.

mod choice;
mod engines;
mod lists;
mod ollama;
mod remembered;
mod replacement;

use super::mock_llm;
use super::scenario::{self, Client, Config, Scenario};
use crate::domain::*;
use crate::session::*;
use crate::turn::ModelChoice;

/// A scenario whose provider `anthropic` is the mock, with extra lines for the provider and the agent.
fn vendor(provider: &str, agent: &str) -> Scenario {
    let scenario = Scenario::new();
    configure(&scenario, provider, agent, "");
    scenario
}

fn configure(scenario: &Scenario, provider: &str, agent: &str, tables: &str) {
    let (anthropic, openai) = (scenario.mock().anthropic_url(), scenario.mock().openai_url());
    scenario.configure(Config::from_text(format!(
        "[provider.anthropic]\nbase_url = \"{anthropic}\"\napi_key = \"sk-listed\"\n{provider}\n\
         [provider.work]\nkind = \"openai\"\nbase_url = \"{openai}\"\napi_key = \"sk-listed\"\nmodel = \"ours\"\n\
         [agent.default]\nprovider = \"anthropic\"\n{agent}\n{tables}"
    )));
}

/// Lists the models of the workspace folder.
fn list_models(client: &Client, is_live: bool) -> Vec<ListedModel> {
    let folder = client.configured.folder_config(&client.scenario.workspace());
    let listing = client.wait_for(folder.models.list_models(&ModelChoice::default(), is_live));
    listing.models
}

/// Returns the models of a provider, each with what `read` takes of it.
fn of_provider<T>(
    listed: &[ListedModel],
    provider: &str,
    read: impl Fn(&ListedModel) -> T,
) -> Vec<(String, T)> {
    let models = listed.iter().filter(|model| model.provider == provider);
    models.map(|model| (model.model.clone(), read(model))).collect()
}

/// Returns the models of a provider, each with whether the provider's own list contains it.
fn listed_by(listed: &[ListedModel], provider: &str) -> Vec<(String, Option<bool>)> {
    of_provider(listed, provider, |model| model.listed)
}

/// Changes the model of a session. Returns why it is refused.
fn set_model(client: &Client, session: &SessionId, model: &str) -> Result<(), String> {
    client.set_model(session, model).map_err(|refused| match refused {
        CommandError::UnknownModel(message) => message,
        other => panic!("{other:?}"),
    })
}

/// Returns why a session with this model is refused.
fn refuse_session(client: &Client, model: &str) -> String {
    let wanted = NewSession {
        choice: crate::store::ContentChoice {
            model: Some(model.to_owned()),
            ..Default::default()
        },
        ..NewSession::default()
    };
    client.try_session(wanted).unwrap_err().to_string()
}
