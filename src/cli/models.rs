//! `agentls models`: lists the available models and reports unhealthy providers.
//!
//! Prints the result of `agent/listModels` for people or as JSON; the server decides what is available.

use std::io::IsTerminal;

use super::client::{ClientError, Launch, ServerClient};
use super::screen::{Screen, print_json};
use super::style::{Color, Styler, fit_line, format_tokens};
use crate::config::Env;
use crate::protocol::table::method;
use crate::protocol::{ListModelsParams, ListModelsResult, ModelInfo, Price, ProviderHealth};
use crate::provider::models::{DownloadState, catalog_source, current_day, parse_day};

/// How to get a working provider.
pub(super) const PROVIDER_HINT: &str = "run `agentls login`; or set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY; or start Ollama with a model \
(`ollama pull qwen3`); or try it without a key: `agentls demo`";

/// Lists the models. Returns the exit code: 1 if there are none.
pub(super) async fn list_models(
    json: bool,
    offline: bool,
    launch: &Launch,
    env: &Env,
) -> Result<i32, ClientError> {
    let mut client = ServerClient::start(launch).await?;
    let params = ListModelsParams {
        live: !offline,
        ..ListModelsParams::default()
    };
    let listed: Result<ListModelsResult, ClientError> = client.request(method::LIST_MODELS, &params).await;
    // Before the error returns: dropping the client would kill the server instead of ending it in order.
    client.close().await;
    let listed = listed?;
    let code = i32::from(listed.models.is_empty());
    if json {
        let text = serde_json::to_string_pretty(&listed).unwrap_or_default();
        let _ = print_json(&format!("{text}\n"));
        return Ok(code);
    }
    let terminal = std::io::stdout().is_terminal();
    let mut screen = Screen::with_stdout(terminal, Styler::from_env(env, terminal));
    let styler = screen.styler;
    for model in &listed.models {
        let mark = styler.current_mark(model.current);
        let name = format!("{mark} {:<44} ", fit_line(&model.model, 44));
        screen.write_entry(&name, 47, &describe_model(model, model.price.map(format_price)));
    }
    for problem in describe_unhealthy_providers(&listed) {
        screen.write_line(&styler.paint_text(Color::Yellow, &problem));
    }
    if listed.models.is_empty() {
        screen
            .write_line(&styler.paint_text(Color::Yellow, "! no model is configured; run `agentls doctor`"));
    }
    screen.write_line(&styler.paint_text(Color::Dim, &describe_catalog(current_day())));
    Ok(code)
}

/// Describes the providers that cannot be called, one line each.
pub(super) fn describe_unhealthy_providers(listed: &ListModelsResult) -> impl Iterator<Item = String> {
    let is_unhealthy = |health| matches!(health, ProviderHealth::Failing | ProviderHealth::NotConfigured);
    let unhealthy = listed
        .providers
        .iter()
        .filter(move |provider| is_unhealthy(provider.health));
    unhealthy.filter_map(|provider| {
        let message = provider.message.as_ref()?;
        Some(format!("! {}: {message}", provider.provider))
    })
}

/// Says where the windows and prices come from, and how old they are. `today` is in days since the epoch.
pub(super) fn describe_catalog(today: i64) -> String {
    let (date, download) = catalog_source();
    let age = parse_day(date).map_or(0, |day| (today - day).max(0));
    let source = match download {
        DownloadState::Used { fetched, from } => format!("fetched on {fetched} from {from}"),
        DownloadState::Absent => "built in".to_owned(),
        DownloadState::Older { date } => format!("built in; the downloaded ones of {date} are older"),
        DownloadState::Unreadable(_) => "built in; the downloaded ones cannot be read".to_owned(),
    };
    format!("windows and prices as of {date} ({age} days old), {source}")
}

pub(super) fn format_price(price: Price) -> String {
    format!("${}/${} per million", price.input, price.output)
}

/// Describes a model by its window, the given price, and whether its provider lists it.
pub(super) fn describe_model(model: &ModelInfo, price: Option<String>) -> String {
    let window = model
        .context_window
        .map(|window| format!("{} window", format_tokens(window)));
    let unlisted = (model.listed == Some(false)).then(|| "not in the provider's list".to_owned());
    let parts: Vec<String> = window.into_iter().chain(price).chain(unlisted).collect();
    parts.join(", ")
}
