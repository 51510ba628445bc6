//! Logs in at a real authorization server on this machine, which behaves well or badly (tests/peers/oauth_server.py).

use crate::mcp_peer::{HttpPeer, log_in_by_browser};
use agentls::config::NetworkSettings;
use agentls::oauth::{OAuthClient, OAuthError, OAuthServer, PendingLogin, TokenSource, TokenStore};
use secrecy::ExposeSecret as _;

struct LoginWorld {
    peer: HttpPeer,
    folder: tempfile::TempDir,
    client_id: Option<String>,
    secret: Option<&'static str>,
}

impl LoginWorld {
    fn new(arguments: &[&str]) -> Self {
        let peer = HttpPeer::start(&[&["--oauth"], arguments].concat());
        Self {
            peer,
            folder: tempfile::TempDir::new().unwrap(),
            client_id: None,
            secret: None,
        }
    }

    fn client(&self) -> OAuthClient {
        let client = OAuthClient::new(&self.peer.url, NetworkSettings::default()).unwrap();
        let secret = self.secret.map(Into::into);
        client.with_credentials(self.client_id.clone().zip(secret))
    }

    fn store(&self) -> TokenStore {
        TokenStore::new(self.folder.path())
    }

    fn tokens(&self) -> TokenSource {
        TokenSource::new(self.client(), self.store())
    }

    async fn begin(&self) -> Result<PendingLogin, OAuthError> {
        let server = OAuthServer {
            name: "peer".to_owned(),
            url: self.peer.url.clone(),
            client_id: self.client_id.clone(),
            scopes: Vec::new(),
            extra_scopes: self.store().load_extra_scopes(&self.peer.url).await,
            callback_port: None,
        };
        PendingLogin::begin(self.client(), &server).await
    }

    /// Logs in as a user would; returns the last page of the browser.
    async fn complete(&self) -> Result<String, OAuthError> {
        let login = self.begin().await?;
        let url = login.url.to_string();
        let browser = tokio::task::spawn_blocking(move || log_in_by_browser(&url));
        login.finish(&self.store()).await?;
        Ok(browser.await.unwrap())
    }

    /// Returns what the server says to a token.
    async fn accepts(&self, token: &str) -> bool {
        let before = self.peer.oauth_steps("access").len();
        let url = self.peer.url.clone();
        let token = token.to_owned();
        tokio::task::spawn_blocking(move || {
            use std::io::{Read as _, Write as _};
            let port = url.port().unwrap();
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
            write!(
                stream,
                "GET /mcp HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
            )
            .unwrap();
            stream.read_to_string(&mut String::new()).unwrap();
        })
        .await
        .unwrap();
        self.peer.oauth_steps("access")[before]["accepted"] == true
    }
}

/// Logs in at a server with a fault, which must not give a token.
async fn refusal(fault: &str) -> String {
    let world = LoginWorld::new(&["--oauth-fault", fault]);
    let error = world.complete().await.unwrap_err();
    assert!(!world.store().has_tokens(&world.peer.url), "{fault}");
    assert!(world.tokens().get_access_token().await.unwrap().is_none());
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_logs_in_and_the_token_works() {
    let world = LoginWorld::new(&[]);
    assert!(world.tokens().get_access_token().await.unwrap().is_none());
    let page = world.complete().await.unwrap();
    assert!(page.contains("agentls has the answer"), "{page}");
    let token = world.tokens().get_access_token().await.unwrap().unwrap();
    assert!(world.accepts(token.expose_secret()).await);
    assert_eq!(world.peer.oauth_steps("authorize")[0]["scope"], "notes");
    assert_eq!(world.peer.oauth_steps("token").len(), 1);
    assert!(world.store().remove(&world.peer.url).unwrap());
    assert!(world.tokens().get_access_token().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_places_of_metadata_are_passed_over() {
    for fault in ["relative_metadata", "page_metadata", "other_metadata"] {
        let world = LoginWorld::new(&["--oauth-fault", fault]);
        let page = world.complete().await.unwrap();
        assert!(page.contains("agentls has the answer"), "{fault}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn relative_addresses_in_metadata_are_completed() {
    let world = LoginWorld::new(&["--oauth-fault", "relative_endpoints"]);
    world.complete().await.unwrap();
    let token = world.tokens().get_access_token().await.unwrap().unwrap();
    assert!(world.accepts(token.expose_secret()).await);
    assert_eq!(world.peer.oauth_steps("register").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registered_client_id_needs_no_registration() {
    let mut world = LoginWorld::new(&["--oauth-fault", "no_registration"]);
    let error = world.begin().await.unwrap_err().to_string();
    assert!(error.contains("oauth_client_id"), "{error}");
    world.client_id = Some("known-client".to_owned());
    world.complete().await.unwrap();
    assert!(world.peer.oauth_steps("register").is_empty());
    assert!(world.tokens().get_access_token().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_secret_is_sent_as_the_server_wants_and_never_stored() {
    for fault in ["secret_basic", "secret_post"] {
        let mut world = LoginWorld::new(&["--oauth-fault", fault]);
        world.client_id = Some("known-client".to_owned());
        let error = world.complete().await.unwrap_err().to_string();
        assert!(error.contains("invalid_grant"), "{fault}: {error}");
        world.secret = Some("pass:word+1");
        world.complete().await.unwrap();
        let token = world.tokens().get_access_token().await.unwrap().unwrap();
        let fresh = world.tokens().replace_refused(&token).await.unwrap();
        assert!(world.accepts(fresh.expose_secret()).await, "{fault}");
        let folder = std::fs::read_dir(world.folder.path().join("mcp-tokens")).unwrap();
        for file in folder {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            assert!(!text.contains("pass"), "{text}");
        }
        let removed = world
            .store()
            .forget_tokens(&world.peer.url)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(removed.revoke(&world.client()).await, None);
        assert_eq!(world.peer.oauth_steps("revocation")[0]["known"], true, "{fault}");
    }
    let mut world = LoginWorld::new(&["--oauth-fault", "other_secret"]);
    (world.client_id, world.secret) = (Some("known-client".to_owned()), Some("pass:word+1"));
    let error = world.begin().await.unwrap_err().to_string();
    assert!(error.contains("does not accept client secrets"), "{error}");
}

/// The MCP SDK for Python demands the field.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_revoked_where_the_field_for_a_secret_is_demanded() {
    let world = LoginWorld::new(&["--oauth-fault", "secret_field"]);
    world.complete().await.unwrap();
    let removed = world.store().forget_tokens(&world.peer.url).await;
    let refusal = removed.unwrap().unwrap().revoke(&world.client()).await;
    assert_eq!(refusal, None);
    assert_eq!(world.peer.oauth_steps("revocation")[0]["known"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_metadata_logs_in_at_the_paths_of_the_first_standard() {
    let mut world = LoginWorld::new(&["--oauth-fault", "no_paths"]);
    world.complete().await.unwrap();
    let token = world.tokens().get_access_token().await.unwrap().unwrap();
    assert!(world.accepts(token.expose_secret()).await);
    // Nothing shows that the paths exist if no client registers.
    world.client_id = Some("known-client".to_owned());
    let error = world.begin().await.unwrap_err().to_string();
    assert!(error.contains("does not say how to log in"), "{error}");
}

/// GitHub's token endpoint answers with JSON only if the client asks for that, and its errors have the status 200.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_endpoint_like_that_of_github_gives_tokens_and_clear_refusals() {
    let mut world = LoginWorld::new(&["--oauth-fault", "github"]);
    world.complete().await.unwrap();
    let token = world.tokens().get_access_token().await.unwrap().unwrap();
    let fresh = world.tokens().replace_refused(&token).await.unwrap();
    assert!(world.accepts(fresh.expose_secret()).await);
    let requests = world.peer.oauth_steps("request").into_iter();
    let requests: Vec<_> = requests.filter(|step| step["path"] != "/authorize").collect();
    assert!(
        requests.len() >= 5 && requests.iter().all(|step| step["accept"] == "application/json"),
        "{requests:?}"
    );
    // The peer refuses secrets that it does not expect.
    (world.client_id, world.secret) = (Some("known-client".to_owned()), Some("pass:word+1"));
    let error = world.complete().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the authorization server refused: invalid_grant (as the request deserves)"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secret_of_another_client_id_is_not_sent() {
    let mut world = LoginWorld::new(&[]);
    world.complete().await.unwrap();
    (world.client_id, world.secret) = (Some("known-client".to_owned()), Some("pass:word+1"));
    let token = world.tokens().get_access_token().await.unwrap().unwrap();
    // The client registered itself, and the peer refuses secrets that it does not expect.
    assert!(world.tokens().replace_refused(&token).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demanded_scope_is_requested_by_the_next_login_and_after_it() {
    let world = LoginWorld::new(&["--oauth-fault", "step_up"]);
    let tokens = world.tokens();
    assert!(
        !tokens.note_demanded_scopes("admin").await.unwrap(),
        "nobody has logged in"
    );
    world.complete().await.unwrap();
    assert!(tokens.note_demanded_scopes("admin notes").await.unwrap());
    assert!(!tokens.note_demanded_scopes("notes").await.unwrap());
    for bad in ["a\u{7f}", "a\"b", &"long ".repeat(300)] {
        assert!(!tokens.note_demanded_scopes(bad).await.unwrap(), "{bad}");
    }
    for _ in 0..2 {
        world.complete().await.unwrap();
        assert!(!tokens.note_demanded_scopes("admin").await.unwrap());
    }
    let requested: Vec<_> = world.peer.oauth_steps("authorize");
    let requested: Vec<&str> = requested
        .iter()
        .map(|step| step["scope"].as_str().unwrap())
        .collect();
    assert_eq!(requested, ["notes", "notes admin", "notes admin"]);
    world.store().remove(&world.peer.url).unwrap();
    assert!(world.store().load_extra_scopes(&world.peer.url).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expiring_token_is_refreshed_once_by_all_who_need_it() {
    // The second half of a lifetime of two seconds counts as expired.
    let world = LoginWorld::new(&["--oauth-lifetime", "2"]);
    world.complete().await.unwrap();
    let first = world.tokens().get_access_token().await.unwrap().unwrap();
    let expired = async {
        while world.peer.oauth_steps("token").len() < 2 {
            // Two processes and two tasks of one process, which share a refresh token that is valid once.
            let (one, other) = (world.tokens(), world.tokens());
            let (a, b, c) = tokio::join!(
                one.get_access_token(),
                one.get_access_token(),
                other.get_access_token()
            );
            for token in [a, b, c] {
                assert!(token.unwrap().is_some());
            }
            agentls::base::clock::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    agentls::base::clock::timeout(std::time::Duration::from_secs(60), expired)
        .await
        .unwrap();
    let steps = world.peer.oauth_steps("token");
    assert!(steps.iter().all(|step| step["problem"].is_null()), "{steps:?}");
    let second = world.tokens().get_access_token().await.unwrap().unwrap();
    assert_ne!(first.expose_secret(), second.expose_secret());
    // A refusal by the server refreshes too, even before the token's end.
    let third = world.tokens().replace_refused(&second).await.unwrap();
    assert_ne!(second.expose_secret(), third.expose_secret());
    assert!(world.accepts(third.expose_secret()).await);
    // Whoever comes late with the old token gets the new one without another refresh.
    let again = world.tokens().replace_refused(&second).await.unwrap();
    assert_eq!(third.expose_secret(), again.expose_secret());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_refresh_needs_a_new_login() {
    let world = LoginWorld::new(&["--oauth-lifetime", "0", "--oauth-fault", "refuse_refresh"]);
    world.complete().await.unwrap();
    let error = world.tokens().get_access_token().await.unwrap_err();
    assert!(matches!(error, OAuthError::LoginNeeded), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_reaches_the_caller() {
    let error = refusal("deny").await;
    assert_eq!(
        error,
        "the authorization server refused: access_denied (The user said no.)"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_that_does_not_match_is_refused() {
    for (fault, expected) in [
        ("no_pkce", "PKCE"),
        ("plain_pkce", "PKCE"),
        (
            "wrong_issuer",
            "authorization server metadata names \"https://other.example\"",
        ),
        (
            "wrong_resource",
            "resource metadata names \"https://other.example/mcp\"",
        ),
        ("wrong_iss", "redirect names \"https://other.example\""),
        (
            "plain_http",
            "token endpoint http://peer.example/token is refused: it is not https",
        ),
        ("metadata_address", "169.254.169.254"),
        ("private_issuer", "https://10.1.2.3/ is refused"),
        ("huge_metadata", "longer than 256 KiB"),
        ("redirecting_token", "redirects, which is not followed"),
        ("other_token", "not a bearer token"),
        ("no_metadata", "does not say how to log in"),
    ] {
        let error = refusal(fault).await;
        assert!(error.contains(expected), "{fault}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_with_another_state_changes_nothing() {
    let world = LoginWorld::new(&["--oauth-fault", "wrong_state"]);
    let login = world.begin().await.unwrap();
    let url = login.url.to_string();
    let store = world.store();
    let waiting = agentls::base::spawn::spawn(async move { login.finish(&store).await });
    let page = tokio::task::spawn_blocking(move || log_in_by_browser(&url))
        .await
        .unwrap();
    assert!(page.contains("not the expected login"), "{page}");
    assert!(!waiting.is_finished());
    waiting.abort();
    assert!(world.peer.oauth_steps("token").is_empty());
}
