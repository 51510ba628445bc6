//! The settings of MCP servers: how each is reached, and what of it the agent may use (R-MCP).
//!
//! `resolve` decides which of them are usable; `foreign_mcp` reads the files of other programs into the same form.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use crate::config::settings::tool::SandboxPolicySchema;
use crate::config::values::{Seconds, StringList};
use crate::domain::SandboxPolicy;

/// An MCP server, whose tools the agent can use. It is a program that runs as long as the server does (`command`), or
/// an address (`url`).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerSettings {
    /// The NAME of `[mcp.NAME]`.
    #[serde(skip)]
    pub name: String,
    /// The program to run. It speaks MCP on its standard input and output.
    pub command: Option<String>,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Environment variables of the program, in addition to those that commands get.
    #[schemars(with = "BTreeMap<String, String>")]
    pub env: BTreeMap<String, SecretString>,
    /// A file with more environment variables of the program: `NAME=value` in each line; `#` begins a comment. `env` goes
    /// first. It is read when the program starts. A relative path starts at the config file's folder. The file of a
    /// server that a project's file names must be in the workspace folder.
    #[schemars(extend("x-path" = true))]
    pub env_file: Option<PathBuf>,
    /// The folder in which the program runs. A relative path starts at the config file's folder. Default: a folder of its
    /// own, so that no repository decides what `npx` or `python -m` run; the workspace folder if a project's file names
    /// the server, or if it runs in the sandbox.
    #[schemars(extend("x-path" = true))]
    pub cwd: Option<PathBuf>,
    /// `true` runs the program in the workspace folder: only if you trust the folder, and in the sandbox unless `sandbox`
    /// says otherwise. Default: false.
    pub in_workspace: bool,
    /// The address of a server that speaks MCP over streamable HTTP.
    pub url: Option<String>,
    /// Extra HTTP headers for every request.
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, SecretString>,
    /// The environment variable that contains a bearer token for the server.
    pub bearer_token_env: Option<String>,
    /// The client id for a login, if the authorization server does not let clients register themselves.
    pub oauth_client_id: Option<String>,
    /// The environment variable that contains the secret of `oauth_client_id`. A project's file cannot name it.
    pub oauth_client_secret_env: Option<String>,
    /// The scopes that a login requests. Default: those that the server asks for.
    pub oauth_scopes: StringList,
    /// The port on which a login waits for the browser, if the client id is registered with the redirect address
    /// `http://localhost:PORT/callback`. Default: any free port.
    #[schemars(range(min = 1_024, max = 65_535))]
    pub oauth_callback_port: Option<u16>,
    /// `false` disables the server. Default: true.
    pub enabled: bool,
    /// Only the tools whose name matches one of these; `*` matches any characters. Default: all tools.
    pub tools: Option<StringList>,
    /// None of the tools whose name matches one of these.
    pub deny_tools: StringList,
    /// How long the server may take to start, in seconds. Default: 10.
    #[schemars(range(min = 0.001, max = 3_600))]
    pub startup_timeout_s: Seconds,
    /// How long a call may run, in seconds, without the time it waits for a user. Default: 60.
    #[schemars(range(min = 0.001, max = 86_400))]
    pub timeout_s: Seconds,
    /// `true` fails the turn if the server does not start. Default: false.
    pub required: bool,
    /// `true` believes the server if it says that a tool only reads. Such a call then needs no approval. Default: false.
    pub trust_annotations: bool,
    /// `true` lets the server ask the model of the session during a call (sampling), within your limits on costs. A
    /// project's file cannot allow it. Default: false.
    pub sampling: bool,
    /// What the program may do while the sandbox is enabled. Default: `off`; `workspace` if a project's file names it
    /// or it runs `in_workspace`.
    #[schemars(with = "Option<SandboxPolicySchema>")]
    pub sandbox: Option<SandboxPolicy>,
    /// A file of the workspace folder names the server.
    #[serde(skip)]
    pub is_from_folder: bool,
    /// Where its command or address is written, for people.
    #[serde(skip)]
    pub source: Option<String>,
    /// The value of the variable that `bearer_token_env` names.
    #[serde(skip)]
    pub bearer_token: Option<SecretString>,
    /// The value of the variable that `oauth_client_secret_env` names.
    #[serde(skip)]
    pub oauth_client_secret: Option<SecretString>,
}

impl Default for McpServerSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            env_file: None,
            cwd: None,
            in_workspace: false,
            url: None,
            headers: BTreeMap::new(),
            bearer_token_env: None,
            oauth_client_id: None,
            oauth_client_secret_env: None,
            oauth_scopes: StringList::default(),
            oauth_callback_port: None,
            enabled: true,
            tools: None,
            deny_tools: StringList::default(),
            startup_timeout_s: Seconds::from(10.0),
            timeout_s: Seconds::from(60.0),
            required: false,
            trust_annotations: false,
            sampling: false,
            sandbox: None,
            is_from_folder: false,
            source: None,
            bearer_token: None,
            oauth_client_secret: None,
        }
    }
}

impl McpServerSettings {
    /// Returns whether the program runs in a folder of its own, outside of the sandbox.
    pub fn has_own_folder(&self) -> bool {
        let is_confined = self.sandbox_policy() != SandboxPolicy::Off;
        self.cwd.is_none() && !self.in_workspace && !self.is_from_folder && !is_confined
    }

    /// Returns whether no workspace folder may decide what the program is: it is the user's own, and not confined.
    pub fn looks_up_outside(&self) -> bool {
        !self.in_workspace && !self.is_from_folder && self.sandbox_policy() == SandboxPolicy::Off
    }

    /// Returns how the program is confined.
    pub fn sandbox_policy(&self) -> SandboxPolicy {
        match self.sandbox {
            Some(stated) => stated,
            None if self.is_from_folder || self.in_workspace => SandboxPolicy::Workspace,
            None => SandboxPolicy::Off,
        }
    }

    /// Returns the address where a login can give tokens for the server; `None` if its requests are authorized in
    /// another way, or if a header could lead a token to another host.
    pub fn login_address(&self) -> Option<Url> {
        let decides = |name: &String| {
            ["authorization", "host"]
                .iter()
                .any(|n| name.eq_ignore_ascii_case(n))
        };
        if self.command.is_some() || self.bearer_token_env.is_some() || self.headers.keys().any(decides) {
            return None;
        }
        self.url.as_deref().and_then(|url| Url::parse(url).ok())
    }

    /// Returns the client id of logins and its secret, if both are configured.
    pub fn client_credentials(&self) -> Option<(String, SecretString)> {
        self.oauth_client_id.clone().zip(self.oauth_client_secret.clone())
    }

    /// Returns whether the agent may use the server's tool with this name.
    pub fn has_tool(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|only| only.matches_name(tool)) && !self.deny_tools.matches_name(tool)
    }

    /// Returns these settings of a server that a client names, with what the user's own settings say about it.
    #[must_use]
    pub fn adjusted_by(&self, own: &Self) -> Self {
        // Only a table without both is about servers that others name, and has a source if it could be read.
        let adjusts = own.command.is_none() && own.url.is_none() && own.source.is_some();
        if !adjusts {
            return self.clone();
        }
        Self {
            enabled: own.enabled,
            tools: own.tools.clone(),
            deny_tools: own.deny_tools.clone(),
            startup_timeout_s: own.startup_timeout_s,
            timeout_s: own.timeout_s,
            required: own.required,
            trust_annotations: own.trust_annotations,
            sampling: own.sampling,
            ..self.clone()
        }
    }

    /// Returns whether nothing differs.
    pub fn is_same(&self, other: &Self) -> bool {
        let names = |settings: &Self| {
            let tools = (settings.tools.clone(), settings.deny_tools.clone());
            let login = (settings.oauth_client_id.clone(), settings.oauth_scopes.clone());
            (tools, login, settings.oauth_callback_port)
        };
        let flags = |settings: &Self| [settings.enabled, settings.required, settings.trust_annotations];
        self.timeout_s == other.timeout_s
            && self.source == other.source
            && names(self) == names(other)
            && flags(self) == flags(other)
            && self.connection_fingerprint() == other.connection_fingerprint()
    }

    /// Returns a number that differs if a connection with other settings is necessary.
    pub fn connection_fingerprint(&self) -> u64 {
        let exposed = |values: &BTreeMap<String, SecretString>| -> Vec<(String, String)> {
            let expose = |value: &SecretString| value.expose_secret().to_owned();
            values
                .iter()
                .map(|(name, value)| (name.clone(), expose(value)))
                .collect()
        };
        let token = self.bearer_token.as_ref().map(ExposeSecret::expose_secret);
        let client = self.client_credentials();
        let client = (client.as_ref()).map(|(id, secret)| (id, secret.expose_secret()));
        let program = (
            &self.command,
            &self.args,
            exposed(&self.env),
            &self.env_file,
            &self.cwd,
            self.in_workspace,
        );
        let address = (&self.url, exposed(&self.headers), token, client);
        // The server learns at its start whether it may ask the model.
        let start = (
            self.startup_timeout_s.0,
            self.sandbox,
            self.is_from_folder,
            self.sampling,
        );
        let mut hasher = DefaultHasher::new();
        (&self.name, program, address, start).hash(&mut hasher);
        hasher.finish()
    }
}
