//! `agentls models`: lists the available models and reports unhealthy providers.
//!
//! Prints the result of `agent/listModels` for people or as JSON; the server decides what is available.

use std::io::IsTerminal;

use super::client::{ClientError, Launch, ServerClient};
use super::screen::{Screen, print_json};
use super::style::{Color, Styler, fit_line, format_tokens};
use crate::config::Env;
use crate::protocol::table::method;
use crate::protocol::{ListModelsParams, ListModelsResult, ModelInfo, ProviderHealth};

/// How to get a working provider.
pub(super) const PROVIDER_HINT: &str = "set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY; or start Ollama with a model \
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
        let mark = if model.current {
            styler.paint_text(Color::Green, "●")
        } else {
            " ".to_owned()
        };
        screen.write_entry(
            &format!("{mark} {:<44} ", fit_line(&model.model, 44)),
            47,
            &describe_model(model),
        );
    }
    for provider in &listed.providers {
        let is_ill = matches!(
            provider.health,
            ProviderHealth::Failing | ProviderHealth::NotConfigured
        );
        if let (true, Some(message)) = (is_ill, &provider.message) {
            screen.write_line(
                &styler.paint_text(Color::Yellow, &format!("! {}: {message}", provider.provider)),
            );
        }
    }
    if listed.models.is_empty() {
        screen
            .write_line(&styler.paint_text(Color::Yellow, "! no model is configured; run `agentls doctor`"));
    }
    Ok(code)
}

fn describe_model(model: &ModelInfo) -> String {
    let mut parts = Vec::new();
    parts.extend(
        model
            .context_window
            .map(|window| format!("{} window", format_tokens(window))),
    );
    parts.extend(
        model
            .price
            .map(|price| format!("${}/${} per million", price.input, price.output)),
    );
    if model.listed == Some(false) {
        parts.push("not in the provider's list".to_owned());
    }
    parts.join(", ")
}
