//! Finds out who logs people in for a server: resource metadata (RFC 9728), then the authorization server's (RFC 8414).

use serde::Deserialize;
use url::Url;

use super::OAuthError;
use super::client::OAuthClient;

/// The authorization server of one MCP server, checked.
#[derive(Clone, Debug)]
pub struct Authorization {
    pub(super) issuer: String,
    pub(super) authorize: Url,
    pub(super) token: Url,
    pub(super) register: Option<Url>,
    /// Where tokens are revoked (RFC 7009).
    pub(super) revoke: Option<Url>,
    /// The resource that tokens are requested for.
    pub(super) resource: String,
    /// The scopes to request if the user configured none.
    pub(super) scopes: Vec<String>,
    /// Redirects must name the issuer.
    pub(super) names_issuer: bool,
    /// How clients may identify themselves at the token endpoint.
    pub(super) auth_methods: Vec<String>,
    /// Nothing names the endpoints: they are where the first version of the standard expects them.
    pub(super) is_assumed: bool,
}

#[derive(Deserialize)]
struct ResourceMetadata {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

#[derive(Deserialize)]
struct ServerMetadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    /// The default is that of the standard.
    #[serde(default = "basic_only")]
    token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(skip)]
    is_assumed: bool,
}

impl ServerMetadata {
    /// Returns what holds for a server without metadata in the first version of the standard.
    fn assume(origin: String) -> Self {
        Self {
            authorization_endpoint: format!("{origin}/authorize"),
            token_endpoint: format!("{origin}/token"),
            registration_endpoint: Some(format!("{origin}/register")),
            revocation_endpoint: None,
            scopes_supported: Vec::new(),
            code_challenge_methods_supported: vec![PKCE.to_owned()],
            authorization_response_iss_parameter_supported: false,
            token_endpoint_auth_methods_supported: basic_only(),
            issuer: origin,
            is_assumed: true,
        }
    }
}

/// How codes are bound to the client that has requested them.
const PKCE: &str = "S256";

/// A client secret in the header.
const BASIC: &str = "client_secret_basic";
/// A client secret in the body.
const POST: &str = "client_secret_post";

fn basic_only() -> Vec<String> {
    vec![BASIC.to_owned()]
}

/// The scope that asks for refresh tokens.
const OFFLINE: &str = "offline_access";

impl Authorization {
    /// Discovers the authorization server of the client's server.
    ///
    /// # Errors
    /// Fails if there is no metadata, or if any of it is not acceptable.
    pub async fn discover(client: &OAuthClient) -> Result<Self, OAuthError> {
        let challenge = client.probe_challenge().await?.unwrap_or_default();
        let Some(resource) = find_resource(client, &challenge).await? else {
            return Self::discover_without_resource(client).await;
        };
        check_resource(client.policy.server(), &resource.resource)?;
        let Some(issuer) = resource.authorization_servers.first() else {
            return Err(OAuthError::NoMetadata(client.policy.server().clone()));
        };
        let metadata = find_server(client, issuer).await?;
        let scopes = match read_parameter(&challenge, "scope") {
            Some(scopes) => scopes.split_whitespace().map(str::to_owned).collect(),
            None => resource.scopes_supported,
        };
        Self::check(client, metadata, resource.resource, scopes)
    }

    /// The first version of the standard had no resource metadata: the server's origin logged people in, if need be at
    /// paths that nothing names.
    async fn discover_without_resource(client: &OAuthClient) -> Result<Self, OAuthError> {
        let server = client.policy.server();
        let origin = server.origin().ascii_serialization();
        let metadata = match find_server(client, &origin).await {
            Err(OAuthError::NoMetadata(_)) => ServerMetadata::assume(origin),
            found => found?,
        };
        Self::check(client, metadata, server.to_string(), Vec::new())
    }

    fn check(
        client: &OAuthClient,
        metadata: ServerMetadata,
        resource: String,
        mut scopes: Vec<String>,
    ) -> Result<Self, OAuthError> {
        let supports_pkce = metadata
            .code_challenge_methods_supported
            .iter()
            .any(|method| method == PKCE);
        if !supports_pkce {
            return Err(OAuthError::Unsupported {
                issuer: metadata.issuer,
                lacks: "does not support PKCE with S256",
            });
        }
        let is_offered = metadata.scopes_supported.iter().any(|scope| scope == OFFLINE);
        if is_offered && !scopes.iter().any(|scope| scope == OFFLINE) {
            scopes.push(OFFLINE.to_owned());
        }
        let policy = &client.policy;
        let register = metadata.registration_endpoint.as_deref();
        let revoke = metadata.revocation_endpoint.as_deref();
        Ok(Self {
            authorize: policy.parse("authorization endpoint", &metadata.authorization_endpoint)?,
            token: policy.parse("token endpoint", &metadata.token_endpoint)?,
            register: register
                .map(|url| policy.parse("registration endpoint", url))
                .transpose()?,
            // A login works without it.
            revoke: revoke.and_then(|url| policy.parse("revocation endpoint", url).ok()),
            issuer: metadata.issuer,
            resource,
            scopes,
            names_issuer: metadata.authorization_response_iss_parameter_supported,
            auth_methods: metadata.token_endpoint_auth_methods_supported,
            is_assumed: metadata.is_assumed,
        })
    }

    /// Returns whether a client secret is sent in the header instead of the body, which more servers read.
    ///
    /// # Errors
    /// The authorization server takes it in neither.
    pub(super) fn sends_secret_in_header(&self) -> Result<bool, OAuthError> {
        let accepts = |method: &str| self.auth_methods.iter().any(|known| known == method);
        if accepts(BASIC) || accepts(POST) {
            return Ok(!accepts(POST));
        }
        Err(OAuthError::Unsupported {
            issuer: self.issuer.clone(),
            lacks: "does not accept client secrets; remove oauth_client_secret_env",
        })
    }
}

async fn find_resource(
    client: &OAuthClient,
    challenge: &str,
) -> Result<Option<ResourceMetadata>, OAuthError> {
    const WHAT: &str = "resource metadata";
    let server = client.policy.server();
    let named = read_parameter(challenge, "resource_metadata");
    let mut candidates = Vec::new();
    // A path alone is not allowed there, and says no more than the usual addresses.
    if let Some(named) = named.filter(|named| !is_relative(named)) {
        let url = client.policy.parse(WHAT, &named)?;
        // Only the server itself may say who logs people in for it.
        if url.origin() != server.origin() {
            return Err(OAuthError::Refused {
                what: WHAT,
                url: url.to_string(),
                why: "it is not at the server's own origin",
            });
        }
        candidates.push(url);
    }
    let path = server.path().trim_end_matches('/');
    candidates.extend([path, ""].map(|path| {
        let place = format!("/.well-known/oauth-protected-resource{path}");
        with_path(server, &place)
    }));
    candidates.dedup();
    let mut found: Option<ResourceMetadata> = client.get_first_document(WHAT, &candidates).await?;
    if let Some(found) = &mut found {
        let names = found.authorization_servers.iter_mut();
        names
            .chain([&mut found.resource])
            .for_each(|url| complete(url, server));
    }
    Ok(found)
}

fn is_relative(url: &str) -> bool {
    Url::parse(url) == Err(url::ParseError::RelativeUrlWithoutBase)
}

/// Adds what a relative address lacks. The standards demand complete ones, but some servers know no other.
fn complete(url: &mut String, base: &Url) {
    if is_relative(url)
        && let Ok(complete) = base.join(url)
    {
        *url = complete.into();
    }
}

/// Checks that the metadata is about this server, or about a folder of it.
fn check_resource(server: &Url, resource: &str) -> Result<(), OAuthError> {
    let covers = Url::parse(resource).is_ok_and(|resource| {
        let folder = resource.path().trim_end_matches('/');
        let rest = server.path().strip_prefix(folder);
        resource.origin() == server.origin()
            && resource.query().is_none_or(|query| Some(query) == server.query())
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    if covers {
        return Ok(());
    }
    Err(OAuthError::Mismatch {
        what: "resource metadata",
        expected: server.to_string(),
        found: resource.to_owned(),
    })
}

/// Returns the metadata of an issuer, which must name that issuer.
async fn find_server(client: &OAuthClient, issuer: &str) -> Result<ServerMetadata, OAuthError> {
    const WHAT: &str = "authorization server metadata";
    let url = client.policy.parse("authorization server", issuer)?;
    let path = url.path().trim_end_matches('/');
    let candidates = [
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
        format!("{path}/.well-known/openid-configuration"),
    ];
    let candidates = candidates.map(|candidate| with_path(&url, &candidate));
    let found: Option<ServerMetadata> = client.get_first_document(WHAT, &candidates).await?;
    let Some(mut found) = found else {
        return Err(OAuthError::NoMetadata(client.policy.server().clone()));
    };
    complete(&mut found.issuer, &url);
    // Servers differ in whether an origin ends with a slash.
    if found.issuer.trim_end_matches('/') != issuer.trim_end_matches('/') {
        return Err(OAuthError::Mismatch {
            what: WHAT,
            expected: issuer.to_owned(),
            found: found.issuer,
        });
    }
    let required = [&mut found.authorization_endpoint, &mut found.token_endpoint];
    let optional = [&mut found.registration_endpoint, &mut found.revocation_endpoint];
    let endpoints = required.into_iter().chain(optional.into_iter().flatten());
    endpoints.for_each(|endpoint| complete(endpoint, &url));
    Ok(found)
}

fn with_path(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Returns a parameter of a `WWW-Authenticate` header.
fn read_parameter(header: &str, name: &str) -> Option<String> {
    let mut rest = header;
    while let Some(at) = rest.find(name) {
        let is_start = rest[..at].ends_with([' ', ',', '\t']);
        rest = &rest[at + name.len()..];
        let Some(value) = rest.trim_start().strip_prefix('=') else {
            continue;
        };
        if !is_start {
            continue;
        }
        let value = value.trim_start();
        return match value.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next().map(str::to_owned),
            None => value.split([',', ' ']).next().map(str::to_owned),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_challenge_are_read() {
        let header =
            r#"Bearer error="invalid_token", resource_metadata="https://a.org/x?y=1", scope="a b", max=3"#;
        let read = |name| read_parameter(header, name).unwrap_or_default();
        assert_eq!(read("resource_metadata"), "https://a.org/x?y=1");
        assert_eq!(read("scope"), "a b");
        assert_eq!(read("max"), "3");
        assert_eq!(read("metadata"), "");
        assert_eq!(read_parameter("Bearer scope", "scope"), None);
    }

    #[test]
    fn resource_covers_the_server_or_a_folder_of_it() {
        let server = Url::parse("https://a.org/team/mcp").unwrap();
        for (resource, expected) in [
            ("https://a.org/team/mcp", true),
            ("https://a.org/team/mcp/", true),
            ("https://a.org/team", true),
            ("https://a.org", true),
            ("https://a.org/te", false),
            ("https://a.org/team/mcp/more", false),
            ("https://b.org/team/mcp", false),
            ("http://a.org/team/mcp", false),
            ("https://a.org:444/team/mcp", false),
            ("", false),
        ] {
            assert_eq!(check_resource(&server, resource).is_ok(), expected, "{resource}");
        }
    }
}
