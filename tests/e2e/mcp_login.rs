//! Logins at MCP servers over HTTP: the tokens, their refresh, and where they go (R-MCP, OAuth).

use std::net::TcpStream;

use serde_json::{Value, json};

use crate::harness::{Client, Config, World};
use crate::mcp::{call_tool, servers};
use crate::mcp_peer::{HttpPeer, log_in_by_browser, visit};
use crate::mock_llm::Reply;

/// Returns a world whose server `peer` is at the address of the scripted one.
pub(crate) fn world_at(peer: &HttpPeer, more: &str) -> World {
    World::with(Config {
        tables: format!(
            "[mcp.peer]\nurl = \"{}\"\n{more}\n[approvals]\nallow = [\"mcp:*\"]",
            peer.url
        ),
        ..Config::default()
    })
}

fn start_turn(world: &World, client: &Client, session: &str) {
    world.mock().push(Reply::text("nothing"));
    client.ask(session, "go");
}

pub(crate) fn login(client: &Client) -> String {
    let begun: Value = client.call("agent/loginMcpServer", json!({"name": "peer"}));
    begun["url"].as_str().unwrap().to_owned()
}

/// Returns the states that the client was notified of, with the reason and whether a login waits.
fn updates(client: &Client) -> Vec<String> {
    let notes = client.notes().into_iter();
    let updates = notes.filter(|note| note.method == "agent/mcpServerUpdated");
    updates
        .map(|update| {
            let server = &update.params["server"];
            let waits = if server["loginUrl"].is_string() {
                " waits"
            } else {
                ""
            };
            let reason = server["reason"].as_str().unwrap_or_default();
            format!("{}{waits} {reason}", server["state"].as_str().unwrap())
                .trim()
                .to_owned()
        })
        .collect()
}

fn wait_for_update(world: &World, client: &Client, last: &str) {
    world.wait_until(|| updates(client).last().is_some_and(|update| update == last));
}

/// Makes the peer forget its tokens.
fn revoke(peer: &HttpPeer, what: &str) {
    let url = peer.url.join(&format!("/revoke?{what}")).unwrap();
    visit(url.as_str());
}

#[test]
fn a_server_is_ready_after_a_login() {
    let peer = HttpPeer::start(&["--oauth"]);
    let world = world_at(&peer, "");
    // The tools come with the login.
    world.mock().allow_rewrites();
    let client = world.start();
    let session = client.session();
    start_turn(&world, &client, &session);
    wait_for_update(&world, &client, "needsLogin");
    let warning = &client.all(&session, "agent/warning")[0];
    let command = "run `agentls mcp login peer`";
    assert!(warning.text("message").contains(command), "{warning:?}");
    let refused = crate::mcp_prompts::refusal(&client, &session, "/mcp__peer__plain");
    assert!(refused.contains(command), "{refused}");
    assert!(servers(&client)[0]["loggedIn"].is_null());
    let url = login(&client);
    wait_for_update(&world, &client, "needsLogin waits");
    assert_eq!(servers(&client)[0]["loginUrl"], json!(url));
    let page = log_in_by_browser(&url);
    assert!(page.contains("agentls has the answer"), "{page}");
    wait_for_update(&world, &client, "ready");
    let echo = call_tool(&world, &client, &session, "echo", json!({"text": "hello"}));
    assert!(echo.contains("hello"), "{echo}");
    assert_eq!(servers(&client)[0]["loggedIn"], true);
    // Only the server itself gets the token.
    for request in peer.oauth_steps("request") {
        assert!(request["authorization"].is_null(), "{request}");
    }
    let ended: Value = client.call("agent/logoutMcpServer", json!({"name": "peer"}));
    assert_eq!(ended, json!({"wasLoggedIn": true}));
    let again: Value = client.call("agent/logoutMcpServer", json!({"name": "peer"}));
    assert_eq!(again, json!({}));
    wait_for_update(&world, &client, "needsLogin");
    assert!(servers(&client)[0]["loggedIn"].is_null());
    let revoked = peer.oauth_steps("revocation");
    assert_eq!(
        revoked,
        [json!({"step": "revocation", "kind": "refresh_token", "known": true})]
    );
}

#[test]
fn a_failed_revocation_is_reported_and_the_tokens_are_gone() {
    let peer = HttpPeer::start(&["--oauth", "--oauth-fault", "refuse_revocation"]);
    let world = world_at(&peer, "");
    let client = world.start();
    log_in_by_browser(&login(&client));
    wait_for_update(&world, &client, "ready");
    assert_eq!(servers(&client)[0]["loggedIn"], true);
    let ended: Value = client.call("agent/logoutMcpServer", json!({"name": "peer"}));
    assert_eq!(
        ended["revocationProblem"],
        "the authorization server refused: temporarily_unavailable"
    );
    assert!(servers(&client)[0]["loggedIn"].is_null());
}

#[test]
fn a_login_needs_no_turn_before_it() {
    let peer = HttpPeer::start(&["--oauth"]);
    let world = world_at(&peer, "oauth_scopes = [\"notes\", \"more\"]");
    let client = world.start();
    let url = login(&client);
    wait_for_update(&world, &client, "needsLogin waits");
    log_in_by_browser(&url);
    wait_for_update(&world, &client, "ready");
    assert_eq!(peer.oauth_steps("authorize")[0]["scope"], "notes more");
    let session = client.session();
    let echo = call_tool(&world, &client, &session, "echo", json!({"text": "hello"}));
    assert!(echo.contains("hello"), "{echo}");
}

#[test]
fn the_turn_after_a_login_in_another_process_has_the_tools() {
    let peer = HttpPeer::start(&["--oauth"]);
    let world = world_at(&peer, "");
    world.mock().allow_rewrites();
    let client = world.start();
    let session = client.session();
    start_turn(&world, &client, &session);
    wait_for_update(&world, &client, "needsLogin");
    // A turn before the login waits for nothing, and changes nothing.
    let known = updates(&client);
    start_turn(&world, &client, &session);
    assert_eq!(updates(&client), known);
    let other = world.start();
    log_in_by_browser(&login(&other));
    wait_for_update(&world, &other, "ready");
    let echo = call_tool(&world, &client, &session, "echo", json!({"text": "hello"}));
    assert!(echo.contains("hello"), "{echo}");
}

#[test]
fn a_refused_token_is_refreshed_once_and_the_request_repeated() {
    let peer = HttpPeer::start(&["--oauth"]);
    let world = world_at(&peer, "");
    world.mock().allow_rewrites();
    let client = world.start();
    let session = client.session();
    log_in_by_browser(&login(&client));
    wait_for_update(&world, &client, "ready");
    revoke(&peer, "access");
    let echo = call_tool(&world, &client, &session, "echo", json!({"text": "again"}));
    assert!(echo.contains("again"), "{echo}");
    let grants = |peer: &HttpPeer| -> Vec<Value> {
        let steps = peer.oauth_steps("token").into_iter();
        steps.map(|step| step["grant"].clone()).collect()
    };
    assert_eq!(grants(&peer), ["authorization_code", "refresh_token"]);
    // Without a usable token, the call fails, and the server waits for a login.
    revoke(&peer, "all");
    let refused = call_tool(&world, &client, &session, "echo", json!({"text": "third"}));
    assert!(refused.contains("needs a login"), "{refused}");
    wait_for_update(&world, &client, "needsLogin");
    assert_eq!(grants(&peer).len(), 3);
    let listed = servers(&client).remove(0);
    assert_eq!(listed["reason"], "the last login is no longer valid");
    assert!(listed["loggedIn"].is_null(), "{listed}");
    log_in_by_browser(&login(&client));
    wait_for_update(&world, &client, "ready");
    let echo = call_tool(&world, &client, &session, "echo", json!({"text": "fourth"}));
    assert!(echo.contains("fourth"), "{echo}");
}

#[test]
fn a_login_that_waits_ends_by_a_cancel_or_another_login() {
    let peer = HttpPeer::start(&["--oauth"]);
    let world = world_at(&peer, "");
    let client = world.start();
    let is_open = |url: &str| {
        let (_, location, _) = visit(url);
        let redirect = url::Url::parse(&location.unwrap()).unwrap();
        TcpStream::connect(("127.0.0.1", redirect.port().unwrap())).is_ok()
    };
    let first = login(&client);
    let second = login(&client);
    world.wait_until(|| !is_open(&first));
    assert!(is_open(&second));
    let _: Value = client.call("agent/cancelMcpLogin", json!({"name": "peer"}));
    wait_for_update(&world, &client, "needsLogin the login was canceled");
    world.wait_until(|| !is_open(&second));
    assert!(peer.oauth_steps("token").is_empty());
    // A cancel of nothing is no error.
    let _: Value = client.call("agent/cancelMcpLogin", json!({"name": "peer"}));
}

#[test]
fn what_refuses_a_login_is_reported() {
    let peer = HttpPeer::start(&["--oauth", "--oauth-fault", "deny"]);
    let world = world_at(&peer, "[mcp.program]\ncommand = \"true\"");
    let client = world.start();
    log_in_by_browser(&login(&client));
    wait_for_update(
        &world,
        &client,
        "needsLogin the authorization server refused: access_denied (The user said no.)",
    );
    let refused = |name: &str| {
        client
            .refused("agent/loginMcpServer", json!({"name": name}))
            .message
    };
    assert!(refused("none").contains("not an enabled MCP server"));
    assert!(refused("program").contains("it is a program"));
    let peer = HttpPeer::start(&["--oauth", "--oauth-fault", "no_pkce"]);
    let world = world_at(&peer, "");
    let client = world.start();
    let refused = client.refused("agent/loginMcpServer", json!({"name": "peer"}));
    assert!(refused.message.contains("PKCE"), "{}", refused.message);
}

#[test]
fn a_login_whose_token_the_server_refuses_has_failed() {
    let peer = HttpPeer::start(&["--oauth", "--oauth-fault", "rejecting"]);
    let world = world_at(&peer, "");
    let client = world.start();
    log_in_by_browser(&login(&client));
    let failed = "needsLogin the server refuses the token of the last login";
    wait_for_update(&world, &client, failed);
    assert!(servers(&client)[0]["loggedIn"].is_null());
    // The next login is not stuck either.
    log_in_by_browser(&login(&client));
    wait_for_update(&world, &client, failed);
}

#[test]
fn a_refused_token_of_the_settings_is_a_failure_and_tried_again() {
    for (setting, sent, named) in [
        (
            "bearer_token_env = \"E2E_SECRET_KEY\"",
            None,
            "bearer_token_env E2E_SECRET_KEY",
        ),
        (
            "headers = {authorization = \"Bearer expired\"}",
            Some("expired"),
            "the header Authorization",
        ),
    ] {
        let peer = HttpPeer::start(&["--oauth"]);
        let world = world_at(&peer, setting);
        let client = world.start();
        let session = client.session();
        let sent = format!("Bearer {}", sent.unwrap_or(&world.secrets()[0]));
        start_turn(&world, &client, &session);
        let reason = format!("the server refuses the token of {named} (HTTP 401)");
        wait_for_update(&world, &client, &format!("failed {reason}"));
        let warning = &client.all(&session, "agent/warning")[0];
        assert!(
            warning.text("message").ends_with(&format!("peer: {reason}")),
            "{warning:?}"
        );
        let requests = || {
            let events = peer.events().into_iter();
            let headers =
                events.filter_map(|event| event["headers"]["authorization"].as_str().map(str::to_owned));
            headers.collect::<Vec<String>>()
        };
        let before = requests();
        assert!(
            !before.is_empty() && before.iter().all(|header| *header == sent),
            "{before:?}"
        );
        start_turn(&world, &client, &session);
        world.wait_until(|| requests().len() > before.len());
        let refused = client.refused("agent/loginMcpServer", json!({"name": "peer"}));
        assert!(
            refused.message.contains("its settings state a token"),
            "{}",
            refused.message
        );
    }
}

#[test]
fn a_demanded_scope_needs_a_login_that_requests_it_too() {
    let peer = HttpPeer::start(&["--oauth", "--oauth-fault", "step_up"]);
    let world = world_at(&peer, "");
    world.mock().allow_rewrites();
    let client = world.start();
    log_in_by_browser(&login(&client));
    wait_for_update(&world, &client, "ready");
    let session = client.session();
    let refused = call_tool(&world, &client, &session, "echo", json!({"text": "hello"}));
    assert!(
        refused.contains("a login with the scope") && refused.contains("admin"),
        "{refused}"
    );
    let state = "needsLogin the server needs a login with the scope \"admin\"";
    wait_for_update(&world, &client, state);
    start_turn(&world, &client, &session);
    let warnings = client.all(&session, "agent/warning");
    let message = warnings.last().unwrap().text("message");
    assert!(
        message.contains("admin") && message.contains("agentls mcp login peer"),
        "{message}"
    );
    log_in_by_browser(&login(&client));
    assert_eq!(peer.oauth_steps("authorize")[1]["scope"], "notes admin");
    wait_for_update(&world, &client, "ready");
    let echo = call_tool(&world, &client, &session, "echo", json!({"text": "hello"}));
    assert!(echo.contains("hello") && !echo.contains("scope"), "{echo}");
}

#[test]
fn a_missing_scope_is_a_clear_error() {
    let peer = HttpPeer::start(&["--oauth", "--oauth-fault", "insufficient_scope"]);
    // No other login would help.
    let world = world_at(&peer, "oauth_scopes = [\"notes\", \"admin\"]");
    let client = world.start();
    log_in_by_browser(&login(&client));
    wait_for_update(&world, &client, "ready");
    let session = client.session();
    let refused = call_tool(&world, &client, &session, "echo", json!({"text": "hello"}));
    assert!(
        refused.contains("the scope") && refused.contains("admin") && refused.contains("does not cover"),
        "{refused}"
    );
    assert_eq!(servers(&client)[0]["state"], "ready");
}

#[test]
fn a_token_reaches_no_other_server() {
    let peer = HttpPeer::start(&["--oauth"]);
    let other = HttpPeer::start(&["--oauth"]);
    let world = world_at(&peer, "oauth_client_id = \"known-client\"");
    world.mock().allow_rewrites();
    let client = world.start();
    let session = client.session();
    log_in_by_browser(&login(&client));
    wait_for_update(&world, &client, "ready");
    // A project gives the same name another address, and adds a server of its own.
    world.write(
        ".agentls/config.toml",
        format!(
            "[mcp.peer]\nurl = \"{}\"\n[mcp.more]\nurl = \"{}x\"\n",
            other.url, other.url
        ),
    );
    let _: Value = client.call(
        "agent/setTrust",
        json!({"folder": world.workspace(), "trusted": true}),
    );
    let _: Value = client.call("agent/reloadConfig", json!({}));
    start_turn(&world, &client, &session);
    world.wait_until(|| {
        servers(&client)
            .iter()
            .any(|server| server["state"] == "needsLogin")
    });
    let requests = other.events();
    assert!(!requests.is_empty());
    assert!(!json!(requests).to_string().contains("token-"), "{requests:?}");
    // Nor does the client id of the user.
    let url = login(&client);
    assert!(!url.contains("known-client"), "{url}");
}
