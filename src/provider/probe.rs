//! Asks servers for their models: finds a local Ollama (R-PROV), and lets the doctor check an address and a key.
//!
//! Spends no tokens and does not affect the circuit. What a server answers is untrusted: lists and names are
//! bounded, and names with hidden characters are dropped.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use serde_json::Value;

use super::account::ProviderAccount;
use super::account_health::AccountHealth;
use super::call::{read_error_response, timed_out};
use super::error::{Failure, ProviderError, TimeoutPhase};
use super::http::{Http, HttpSettings};
use super::list_facts::{ModelList, read_facts};
use super::models::{ModelOverride, is_same_model, parse_day};
use super::ollama::{read_set_window, read_show, without_version};
use super::openai::Flavour;
use super::registry::{ProviderSpec, unusable_provider_error};
use super::request_part::RequestParts;
use crate::base::clock;
use crate::base::text;
use crate::config::ApiKind;
use crate::config::Redactor;
use crate::domain::circuit::CircuitPolicy;

/// The largest list that is read, in bytes. Some gateways list hundreds of models with full descriptions.
const MAX_LIST: usize = 4 << 20;

/// A list with more names counts as missing.
const MAX_NAMES: usize = 2_000;

/// Longer model names are skipped, in bytes.
const MAX_NAME: usize = 200;

/// Returns the models of the Ollama at `base_url`, newest first, without what each can. `None` if it does not answer
/// within `limit`.
pub async fn list_models(name: &str, base_url: &str, limit: Duration) -> Option<ModelList> {
    let base = url::Url::parse(base_url).ok()?;
    let address = super::build_endpoint_url(&without_version(&base), "api/tags");
    let account = ProviderAccount {
        name: name.to_owned(),
        kind: ApiKind::Ollama,
        base,
        secrets: Vec::new(),
        redactor: Redactor::default(),
        health: AccountHealth::new(name, CircuitPolicy::default()),
    };
    let settings = HttpSettings {
        ca_file: None,
        proxy: None,
        connect: limit,
    };
    let http = Http::new(account.into(), settings);
    clock::timeout(limit, fetch_model_list(&http, address))
        .await
        .ok()?
}

/// Returns the provider's own list; `None` if it has none.
///
/// # Errors
///
/// Fails if the settings are unusable, or the provider refuses or does not answer within `limit`.
pub async fn fetch_list(spec: &ProviderSpec, limit: Duration) -> Result<Option<ModelList>, ProviderError> {
    if spec.kind == ApiKind::Script {
        return Ok(None);
    }
    let account = account_of(spec)?;
    let path = list_path(&account);
    let request = clock::timeout(limit, get(spec, &account, path));
    let result = request
        .await
        .unwrap_or_else(|_| Err(timed_out(&account, TimeoutPhase::FirstEvent, limit)));
    result.map_err(|failure| account.build_provider_error("", failure))
}

/// Returns the list of a local engine, with the windows of what it has loaded. LM Studio, and llama.cpp before it had them
/// in its list, report them only in APIs of their own. Also returns whether they answered.
///
/// # Errors
///
/// Fails as [`fetch_list`] does.
pub async fn fetch_engine_list(
    spec: &ProviderSpec,
    limit: Duration,
) -> Result<(ModelList, bool), ProviderError> {
    let started = clock::now();
    let models = fetch_list(spec, limit).await?.unwrap_or_default();
    let has_window = |list: &ModelList| list.facts.values().any(|facts| facts.window.is_some());
    if models.names.is_empty() || has_window(&models) {
        return Ok((models, true));
    }
    let base = url::Url::parse(spec.base_url.as_deref().unwrap_or_default());
    let own_api = ProviderSpec {
        base_url: base.ok().map(|base| without_version(&base).to_string()),
        ..spec.clone()
    };
    let account = account_of(&own_api)?;
    let left = limit.saturating_sub(clock::now().saturating_duration_since(started));
    let answer = clock::timeout(left, async {
        let own = get(&own_api, &account, "api/v0/models").await?;
        let own = own.filter(|own| !own.facts.is_empty());
        let mut models = own.unwrap_or_else(|| models.clone());
        // llama.cpp says of its only model what it was trained with.
        let is_llama = models.facts.values().any(|facts| facts.max_window.is_some()) && !has_window(&models);
        if is_llama && let Some(window) = get_loaded(&own_api, &account).await? {
            let facts = models.facts.values_mut();
            facts.for_each(|facts| facts.window = Some(window));
        }
        Ok::<_, Failure>(models)
    });
    Ok(match answer.await {
        // Other engines do not have these, which is no failure.
        Ok(Ok(models)) => (models, true),
        Ok(Err(_)) | Err(_) => (models, false),
    })
}

/// Returns the window that llama.cpp has loaded.
async fn get_loaded(spec: &ProviderSpec, account: &Arc<ProviderAccount>) -> Result<Option<u64>, Failure> {
    let client = ProbeClient::new(spec, account).await?;
    let response = client
        .get(super::build_endpoint_url(&client.base, "props"))
        .await?;
    let answer = read_json(response).await.unwrap_or_default();
    let window = answer["default_generation_settings"]["n_ctx"].as_u64();
    Ok(window.filter(|window| *window > 0))
}

/// What a probe has confirmed.
#[derive(Clone, Debug, PartialEq)]
pub enum ProbeResult {
    /// The address and the key work; the provider lists these models.
    Models(ModelList),
    /// The address and the key work.
    Key,
    /// The address works. No free call checks the key.
    Address,
}

/// Makes the cheapest call that checks the address and the key: it requests the list of models. Where that list is
/// public, it requests the state of the key instead. No tokens are spent.
///
/// # Errors
///
/// Fails if the settings are unusable, or the provider refuses or does not answer within `limit`.
pub async fn probe_provider(spec: &ProviderSpec, limit: Duration) -> Result<ProbeResult, ProviderError> {
    if spec.kind == ApiKind::Script {
        return Ok(ProbeResult::Address);
    }
    let account = account_of(spec)?;
    let path = choose_probe_path(&account);
    let request = clock::timeout(limit, get(spec, &account, path));
    let result = request
        .await
        .unwrap_or_else(|_| Err(timed_out(&account, TimeoutPhase::FirstEvent, limit)));
    let model_list = result.map_err(|failure| account.build_provider_error("", failure))?;
    Ok(match model_list {
        _ if path == KEY_PATH => ProbeResult::Key,
        Some(list) => ProbeResult::Models(list),
        None => ProbeResult::Address,
    })
}

/// Builds the account of `spec` for one probe.
fn account_of(spec: &ProviderSpec) -> Result<Arc<ProviderAccount>, ProviderError> {
    let secrets = spec.api_key.iter().chain(spec.headers.values());
    Ok(Arc::new(ProviderAccount {
        name: spec.name.clone(),
        kind: spec.kind,
        base: spec
            .resolve_base_url()
            .map_err(|failure| unusable_provider_error(spec, "", failure))?,
        secrets: secrets.cloned().collect(),
        redactor: spec.redactor.clone(),
        health: spec.account_health.clone(),
    }))
}

/// Sends the requests of one probe.
struct ProbeClient {
    http: Arc<Http>,
    client: reqwest::Client,
    base: url::Url,
    headers: HeaderMap,
}

impl ProbeClient {
    async fn new(spec: &ProviderSpec, account: &Arc<ProviderAccount>) -> Result<Self, Failure> {
        let mut headers = spec.build_headers()?;
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let settings = HttpSettings {
            ca_file: spec.ca_file.clone(),
            proxy: spec.proxy.clone(),
            connect: spec.limits.connect_or_default(),
        };
        let http = Http::new(account.clone(), settings);
        let base = if spec.kind == ApiKind::Ollama {
            without_version(&account.base)
        } else {
            account.base.clone()
        };
        let client = http.get_or_build_client().await?;
        Ok(Self {
            http,
            client,
            base,
            headers,
        })
    }

    async fn get(&self, address: url::Url) -> Result<reqwest::Response, Failure> {
        let request = self.client.get(address).headers(self.headers.clone());
        match self.http.send(request).await {
            Ok(response) => Ok(response),
            Err(error) => Err(self.http.explain_no_response(&error).await),
        }
    }
}

/// Fetches the list at `path`; `None` if the answer is not a list.
async fn get(
    spec: &ProviderSpec,
    account: &Arc<ProviderAccount>,
    path: &str,
) -> Result<Option<ModelList>, Failure> {
    let client = ProbeClient::new(spec, account).await?;
    let mut address = super::build_endpoint_url(&client.base, path);
    // Pages have only 20 or 50 models by default.
    let page = match spec.kind {
        ApiKind::Anthropic => Some("limit"),
        ApiKind::Gemini => Some("pageSize"),
        _ => None,
    };
    if let Some(page) = page {
        address.query_pairs_mut().append_pair(page, "1000");
    }
    let response = client.get(address).await?;
    let status = response.status().as_u16();
    match status {
        200..300 if spec.kind == ApiKind::Ollama => Ok(match read_list_response(response).await {
            Some(list) => Some(with_ollama_facts(list, spec.model.as_deref(), &client).await),
            None => None,
        }),
        200..300 => Ok(read_list_response(response).await),
        // Not every server with this API has a list.
        404 | 405 => Ok(None),
        _ => Err(read_error_response(account, "", &RequestParts::new(), status, response).await),
    }
}

/// The path of OpenRouter's key check. Its list of models is public, so that list proves nothing about a key.
const KEY_PATH: &str = "key";

/// Returns the path that the probe requests.
fn choose_probe_path(account: &ProviderAccount) -> &'static str {
    let is_openai = account.kind != ApiKind::Anthropic;
    if is_openai && Flavour::from_account(account) == Flavour::OpenRouter {
        KEY_PATH
    } else {
        list_path(account)
    }
}

/// Returns the path of the list of models.
fn list_path(account: &ProviderAccount) -> &'static str {
    match account.kind {
        ApiKind::Anthropic => "v1/models",
        ApiKind::Ollama => "api/tags",
        _ => "models",
    }
}

/// The most models of an Ollama whose facts are read: the configured one, then the newest. Each takes a request.
const MAX_SHOWN: usize = 64;
/// How many of these requests run at once.
const SHOWN_AT_ONCE: usize = 8;

/// Adds what each model says about itself: its window and its abilities.
async fn with_ollama_facts(mut list: ModelList, configured: Option<&str>, client: &ProbeClient) -> ModelList {
    let ProbeClient { http, headers, .. } = client;
    let address = super::build_endpoint_url(&client.base, "api/show");
    let is_configured = |name: &&String| configured.is_some_and(|model| is_same_model(name, model));
    let (first, others): (Vec<_>, Vec<_>) = list.names.iter().partition(is_configured);
    let names: Vec<String> = first.into_iter().chain(others).take(MAX_SHOWN).cloned().collect();
    let answers = futures::stream::iter(names).map(|name| {
        let request = client.client.post(address.clone()).headers(headers.clone());
        let body = serde_json::json!({"model": name}).to_string();
        async move {
            let response = http.send(request.body(body)).await.ok()?;
            Some((name, read_json(response).await))
        }
    });
    let mut answers = std::pin::pin!(answers.buffered(SHOWN_AT_ONCE));
    // Without an answer, the catalogue decides.
    while let Some(Some((name, answer))) = answers.next().await {
        let Some(answer) = answer else {
            continue;
        };
        let facts = read_show(&answer);
        if facts != ModelOverride::default() {
            list.facts.insert(name.clone(), facts);
        }
        if let Some(window) = read_set_window(&answer) {
            list.windows_set.insert(name.clone(), window);
        }
    }
    list
}

async fn fetch_model_list(http: &Http, address: url::Url) -> Option<ModelList> {
    let request = http.get_or_build_client().await.ok()?.get(address);
    let response = http.send(request).await.ok()?;
    read_list_response(response.error_for_status().ok()?).await
}

/// Reads a list. `None` if the answer is not a list, is too long, or is only one page of several.
async fn read_list_response(response: reqwest::Response) -> Option<ModelList> {
    read_list(&read_json(response).await?)
}

/// Reads an answer; `None` if it is not JSON, or too long.
async fn read_json(mut response: reqwest::Response) -> Option<Value> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.ok()? {
        body.extend_from_slice(&piece);
        if body.len() > MAX_LIST {
            return None;
        }
    }
    serde_json::from_slice(&body).ok()
}

fn read_list(answer: &Value) -> Option<ModelList> {
    // A partial list would make existing models look missing.
    if answer["has_more"] == true
        || answer["nextPageToken"]
            .as_str()
            .is_some_and(|token| !token.is_empty())
    {
        return None;
    }
    let lists = [answer, &answer["data"], &answer["models"]];
    let entries = lists.into_iter().find_map(Value::as_array)?;
    let mut list = ModelList::default();
    for entry in entries {
        // Google's own API has only `name`.
        let id = entry["id"].as_str().or_else(|| entry["name"].as_str());
        let Some(id) = id else { continue };
        // Google puts the kind of the resource before the name.
        let name = id.strip_prefix("models/").unwrap_or(id);
        let is_plain = !name.contains(char::is_whitespace) && text::reveal_hidden_characters(name) == name;
        // Names reach terminals, so those with control or hidden characters are skipped.
        if name.is_empty() || name.len() > MAX_NAME || !is_plain {
            continue;
        }
        if list.names.len() == MAX_NAMES {
            // Like a single page, a cut list would make existing models look missing.
            return None;
        }
        if is_chat(name, entry) {
            list.chat.push(name.to_owned());
        }
        let facts = read_facts(entry);
        if facts != ModelOverride::default() {
            list.facts.insert(name.to_owned(), facts);
        }
        // OpenAI's field.
        if let Some(date) = entry["shutdown_date"].as_str()
            && parse_day(date).is_some()
        {
            list.retirements.insert(name.to_owned(), date.to_owned());
        }
        list.names.push(name.to_owned());
    }
    Some(list)
}

/// Guesses whether a model can chat, from its name and the usual fields.
fn is_chat(name: &str, entry: &Value) -> bool {
    // These match whole words only, so that "live" does not match `olive`.
    const KINDS: [&str; 14] = [
        "tts", "image", "images", "audio", "live", "ocr", "realtime", "video", "sora", "veo", "imagen",
        "dall", "guard", "speech",
    ];
    const PARTS: [&str; 7] = [
        "embed",
        "whisper",
        "moderation",
        "transcri",
        "rerank",
        "davinci",
        "babbage",
    ];
    let name = name.to_ascii_lowercase();
    let other_kind = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .any(|word| KINDS.contains(&word))
        || PARTS.iter().any(|part| name.contains(part));
    let says_no = match &entry["architecture"]["output_modalities"] {
        Value::Array(kinds) => !kinds.iter().any(|kind| kind == "text"),
        _ => false,
    };
    let is_chat = &entry["capabilities"]["completion_chat"];
    let cannot_generate = entry["supportedGenerationMethods"]
        .as_array()
        .is_some_and(|methods| !methods.iter().any(|method| method == "generateContent"));
    let other_type = entry["type"].as_str().is_some_and(|kind| {
        [
            "embedding",
            "image",
            "audio",
            "rerank",
            "moderation",
            "transcribe",
            "video",
        ]
        .contains(&kind)
    });
    !(other_kind || says_no || other_type || cannot_generate || *is_chat == false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::account::tests::build_account;

    #[test]
    fn the_day_on_which_a_model_ends_is_read() {
        let answer = r#"{"data":[{"id":"a","shutdown_date":"2026-12-11"},{"id":"b","shutdown_date":null},
            {"id":"c","shutdown_date":"soon"}]}"#;
        let list = read_list(&serde_json::from_str(answer).unwrap()).unwrap();
        assert_eq!(list.names, ["a", "b", "c"]);
        assert_eq!(
            list.retirements,
            [("a".to_owned(), "2026-12-11".to_owned())].into()
        );
    }

    #[test]
    fn model_lists_are_read_in_every_usual_form() {
        let read = |text: &str| read_list(&serde_json::from_str(text).unwrap());
        let names = |text: &str| read(text).map(|list| (list.names.join(" "), list.chat.join(" ")));
        let found = |names: &str, chat: &str| Some((names.to_owned(), chat.to_owned()));
        for (answer, list) in [
            (r#"{"data":[{"id":"a"},{"id":"b"}]}"#, found("a b", "a b")),
            (r#"[{"id":"a"}]"#, found("a", "a")),
            (
                r#"{"data":[{"id":"models/gemini-3.8-flash"}]}"#,
                found("gemini-3.8-flash", "gemini-3.8-flash"),
            ),
            (
                r#"{"data":[{"id":null},{},3,"x",{"id":""},{"id":"a\u001b[31m"},{"id":"b"}]}"#,
                found("b", "b"),
            ),
            (
                r#"{"data":[{"id":"text-embedding-3-large"},{"id":"gpt-4o-mini-tts"},{"id":"olive-7b"}]}"#,
                found("text-embedding-3-large gpt-4o-mini-tts olive-7b", "olive-7b"),
            ),
            (
                r#"{"data":[{"id":"p","architecture":{"output_modalities":["image"]}},
                {"id":"q","architecture":{"output_modalities":["text","image"]}}]}"#,
                found("p q", "q"),
            ),
            (
                r#"{"data":[{"id":"e","type":"embedding"},{"id":"m","capabilities":{"completion_chat":false}}]}"#,
                found("e m", ""),
            ),
            (r#"{"data":[{"id":"a"}],"has_more":true}"#, None),
            (r#"{"data":[{"id":"a"}],"has_more":false}"#, found("a", "a")),
            (r#"{"data":{"id":"a"}}"#, None),
            ("{}", None),
            ("null", None),
        ] {
            assert_eq!(names(answer), list, "{answer}");
        }
        let entries: Vec<_> = (0..MAX_NAMES + 1)
            .map(|n| serde_json::json!({"id": format!("m{n}")}))
            .collect();
        assert_eq!(read_list(&Value::Array(entries)), None);
    }

    #[test]
    fn openrouter_is_probed_by_its_key_not_its_public_list() {
        for (kind, base, path) in [
            (ApiKind::Anthropic, "https://api.anthropic.com", "v1/models"),
            (ApiKind::OpenAi, "https://api.openai.com/v1", "models"),
            (ApiKind::OpenAi, "https://openrouter.ai/api/v1", "key"),
            (ApiKind::Responses, "https://openrouter.ai/api/v1", "key"),
        ] {
            assert_eq!(choose_probe_path(&build_account("p", kind, base)), path, "{base}");
        }
    }
}
