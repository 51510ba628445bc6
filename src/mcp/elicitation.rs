//! What a server asks the user through us: a form, or a visit to an address.
//!
//! Checks what a server asks; who asks the user is `tool::mcp_elicitation`. A server cannot reach the user outside of
//! a call of its tools.

use serde_json::{Map, Value};
use tokio::sync::oneshot;
use url::{Host, Url};

use super::form::Form;
use crate::base::text::{prefix_within, reveal_hidden_characters};

/// The longest message of a server, in bytes. The rest is cut.
const MAX_MESSAGE: usize = 2_000;
/// The longest address, in bytes.
const MAX_URL: usize = 4_000;

/// Something that a server asks the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    /// Why it asks, in the server's words.
    pub message: String,
    pub requested: Requested,
}

/// What the user is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Requested {
    /// Fill in a form.
    Form(Form),
    /// Open an address, which is `https`, or on this machine.
    Visit(Url),
}

/// What became of an elicitation.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationAnswer {
    /// The user has filled in the form, or accepted to visit the address.
    Accept(Option<Map<String, Value>>),
    /// The user does not want to, or nobody can be asked.
    Decline,
    /// The call was canceled.
    Cancel,
}

/// An elicitation that waits for its answer. The reply is closed once nobody waits for it.
#[derive(Debug)]
pub struct ElicitationRequest {
    pub elicitation: Elicitation,
    /// `false` if another session calls the server too, so the question may be about its call.
    pub is_of_this_session: bool,
    pub reply: oneshot::Sender<ElicitationAnswer>,
}

impl Elicitation {
    /// Reads the parameters of `elicitation/create`. `order` has the names of the form's fields, if their order is known.
    ///
    /// # Errors
    /// What is wrong with them, for the server.
    pub fn read(params: &Value, order: Option<&[String]>) -> Result<Self, String> {
        let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
        let message = reveal_hidden_characters(message);
        let requested = match params.get("mode").and_then(Value::as_str) {
            None | Some("form") => {
                let schema = params
                    .get("requestedSchema")
                    .ok_or("requestedSchema is missing")?;
                Requested::Form(Form::read(schema, order)?)
            }
            Some("url") => {
                let url = params
                    .get("url")
                    .and_then(Value::as_str)
                    .ok_or("url is missing")?;
                Requested::Visit(check_url(url)?)
            }
            Some(_) => return Err("the mode must be form or url".to_owned()),
        };
        Ok(Self {
            message: prefix_within(message.trim(), MAX_MESSAGE).to_owned(),
            requested,
        })
    }
}

/// Returns an address that a user may be asked to open.
fn check_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("the url is unusable: {error}"))?;
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if url.as_str().len() > MAX_URL {
        return Err("the url is too long".to_owned());
    }
    if !(url.scheme() == "https" || url.scheme() == "http" && is_local) {
        return Err("the url must be https, or http on this machine".to_owned());
    }
    // `https://bank.example@evil.example` looks like another address than it is.
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the url must not contain a user name".to_owned());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn visit(url: &str) -> Result<String, String> {
        let read = Elicitation::read(&json!({"mode": "url", "message": "Sign in.", "url": url}), None)?;
        match read.requested {
            Requested::Visit(url) => Ok(url.into()),
            Requested::Form(_) => Err("a form".to_owned()),
        }
    }

    #[test]
    fn only_addresses_that_a_person_may_open_count() {
        for url in [
            "https://peer.example/sign-in?id=1",
            "http://127.0.0.1:9/x",
            "http://localhost/",
            "http://[::1]:80/",
        ] {
            assert!(visit(url).is_ok(), "{url}");
        }
        for url in [
            "http://peer.example/",
            "http://127.0.0.1.example/",
            "http://localhost.example/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "vscode://file/x",
            "https://bank.example@evil.example/",
            "not an address",
        ] {
            assert!(visit(url).is_err(), "{url}");
        }
        assert!(visit(&format!("https://a.example/{}", "x".repeat(MAX_URL))).is_err());
        // Letters that only look alike become visible.
        assert_eq!(
            visit("https://b\u{430}nk.example/").unwrap(),
            "https://xn--bnk-6cd.example/"
        );
    }

    #[test]
    fn hidden_characters_in_a_message_become_visible() {
        let params =
            json!({"message": "a\u{202e}b", "requestedSchema": {"type": "object", "properties": {}}});
        let message = Elicitation::read(&params, None).unwrap().message;
        assert!(!message.contains('\u{202e}'), "{message}");
        assert!(Elicitation::read(&json!({"message": "x"}), None).is_err());
        assert!(Elicitation::read(&json!({"message": "x", "mode": "voice"}), None).is_err());
    }
}
