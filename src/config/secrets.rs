//! Known secrets, and their removal from everything that leaves the program (R-SEC, I15).
//!
//! Logs and reports lose every secret. Content loses only credentials of MCP servers, provider keys, and secret headers,
//! and of the latter two only long words, because short ones are ordinary text.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::Url;
use url::form_urlencoded::parse as parse_form;

use super::Settings;
use crate::base::hash;
use crate::base::web_address::{hidden_parts, secrets_in};

/// Shorter texts are not redacted: they would match everywhere.
const SHORTEST: usize = 6;

/// Shorter keys stay in content. A placeholder key for a local server ("ollama") is a common word, and no provider's
/// real key is so short.
const SHORTEST_IN_CONTENT: usize = 16;

/// The replacement for a secret.
const MASK: &[u8] = b"***";

/// The mark around a key's hash, in stored bytes that later get the key back.
const HIDDEN: (&str, &str) = ("\0agentls key ", "\0");

/// The secrets known so far, shared by all clones. Logs and reports pass through it.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a secret that contains another is replaced as a whole.
    known: Arc<RwLock<Vec<SecretString>>>,
    /// Those that content must not contain either, in the same order.
    keys: Arc<RwLock<Vec<SecretString>>>,
}

/// Redacts content that arrives in pieces. Holds back an end that may be the start of a key.
#[derive(Debug)]
pub struct RedactedPieces {
    redactor: Redactor,
    pending: String,
}

impl Redactor {
    /// Creates a redactor that knows every secret of a configuration.
    pub fn from_settings(settings: &Settings) -> Self {
        let redactor = Self::default();
        redactor.learn_all(settings);
        redactor
    }

    /// Redacts this text from now on, also in its forms in URLs and in JSON. In a header value (`Bearer …`), each long
    /// word also counts on its own.
    pub fn learn_secret(&self, secret: &SecretString) {
        add_secret(&self.known, secret.expose_secret(), SHORTEST);
        for word in long_words(secret) {
            add_secret(&self.known, word, SHORTEST_IN_CONTENT);
        }
    }

    /// Redacts this key from content too. Only its long words count.
    fn learn_key(&self, key: &SecretString) {
        for word in long_words(key) {
            add_secret(&self.keys, word, SHORTEST_IN_CONTENT);
        }
    }

    /// Redacts a provider's key from everything from now on, including content.
    pub fn learn_provider_key(&self, key: &SecretString) {
        self.learn_secret(key);
        self.learn_key(key);
    }

    /// Redacts a credential of an MCP server from everything from now on. In content, one with blanks counts as a whole
    /// too.
    pub fn learn_credential(&self, credential: &SecretString) {
        self.learn_provider_key(credential);
        add_secret(&self.keys, credential.expose_secret(), SHORTEST_IN_CONTENT);
        self.learn_long_parts(credential.expose_secret());
    }

    /// Redacts the parts of an address that people do not see. Short ones may be ordinary words.
    fn learn_long_parts(&self, address: &str) {
        let is_long = |part: &String| part.len() >= SHORTEST_IN_CONTENT;
        for part in hidden_parts(address).into_iter().filter(is_long) {
            add_secret(&self.known, &part, SHORTEST);
            add_secret(&self.keys, &part, SHORTEST_IN_CONTENT);
        }
    }

    /// Learns every secret of a configuration.
    pub fn learn_all(&self, settings: &Settings) {
        settings.iter_secrets().for_each(|key| self.learn_secret(key));
        settings.iter_provider_keys().for_each(|key| self.learn_key(key));
        let credentials = settings.iter_mcp_credentials();
        credentials.for_each(|credential| self.learn_credential(credential));
        let addresses = settings.mcp.values().filter_map(|server| server.url.as_deref());
        for address in addresses {
            let secrets = secrets_in(address).into_iter().map(SecretString::from);
            secrets.for_each(|secret| self.learn_secret(&secret));
            self.learn_long_parts(address);
        }
    }

    /// Removes known keys from all strings of a JSON value; names of members stay.
    pub fn redact_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(clean) = self.redact_content(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.redact_json(member)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Replaces every key in the content with `***`; `None` if it contains no key.
    pub fn redact_content(&self, text: &str) -> Option<String> {
        let clean = self.redact_bytes(text.as_bytes())?;
        Some(String::from_utf8_lossy(&clean).into_owned())
    }

    /// Does the same for bytes, such as a request in JSON; `None` if they contain no key.
    pub fn redact_bytes(&self, content: &[u8]) -> Option<Vec<u8>> {
        // A poisoned lock still holds valid secrets, and a redactor that stops working would leak them.
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        match replace_secrets(&keys, content) {
            Cow::Borrowed(_) => None,
            Cow::Owned(clean) => Some(clean),
        }
    }

    /// Starts to redact content that arrives in pieces.
    pub fn redact_pieces(&self) -> RedactedPieces {
        RedactedPieces {
            redactor: self.clone(),
            pending: String::new(),
        }
    }

    /// Replaces every key with a mark that [`Redactor::unmask_keys`] can reverse.
    pub fn mask_keys<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().fold(Cow::Borrowed(bytes), |bytes, key| {
            match replace_all(
                &bytes,
                key.expose_secret().as_bytes(),
                format_key_mark(key).as_bytes(),
            ) {
                Some(masked) => Cow::Owned(masked),
                None => bytes,
            }
        })
    }

    /// Restores every known key from its mark. Marks of unknown keys stay.
    pub fn unmask_keys(&self, bytes: Vec<u8>) -> Vec<u8> {
        if memchr::memmem::find(&bytes, HIDDEN.0.as_bytes()).is_none() {
            return bytes;
        }
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().fold(bytes, |bytes, key| {
            replace_all(
                &bytes,
                format_key_mark(key).as_bytes(),
                key.expose_secret().as_bytes(),
            )
            .unwrap_or(bytes)
        })
    }

    /// Returns where the end of `text` starts that may be the beginning of a key.
    fn may_begin(&self, text: &str) -> usize {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let prefix_lengths = keys.iter().map(|key| {
            let key = key.expose_secret().as_bytes();
            let most = (key.len() - 1).min(text.len());
            let length = (1..=most)
                .rev()
                .find(|length| text.as_bytes().ends_with(&key[..*length]));
            length.unwrap_or(0)
        });
        let mut from = text.len() - prefix_lengths.max().unwrap_or(0);
        // Do not split a complete key, because its end may be the start of another.
        for key in keys.iter().map(|key| key.expose_secret().as_bytes()) {
            let start = from.saturating_sub(key.len() - 1);
            let around = &text.as_bytes()[start..];
            let cut = memchr::memmem::find_iter(around, key).map(|at| start + at);
            from = cut
                .filter(|at| *at < from && at + key.len() > from)
                .min()
                .unwrap_or(from);
        }
        text.floor_char_boundary(from)
    }

    /// Replaces every known secret in the bytes with `***`.
    pub fn redact_secrets<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        replace_secrets(&known, bytes)
    }

    /// Replaces every known secret in the text with `***`.
    pub fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact_secrets(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(clean) => Cow::Owned(String::from_utf8_lossy(&clean).into_owned()),
        }
    }
}

impl RedactedPieces {
    /// Adds a piece and returns what can be passed on.
    pub fn push(&mut self, piece: &str) -> String {
        self.pending.push_str(piece);
        let from = self.redactor.may_begin(&self.pending);
        let later = self.pending.split_off(from);
        let now = std::mem::replace(&mut self.pending, later);
        self.redactor.redact_content(&now).unwrap_or(now)
    }

    /// Ends the content and returns the held-back rest.
    pub fn flush_held(&mut self) -> String {
        let rest = std::mem::take(&mut self.pending);
        self.redactor.redact_content(&rest).unwrap_or(rest)
    }
}

/// Returns the words of a secret that are long enough to be secrets on their own.
pub fn long_words(secret: &SecretString) -> impl Iterator<Item = &str> {
    let words = secret.expose_secret().split_whitespace();
    words.filter(|word| word.len() >= SHORTEST_IN_CONTENT)
}

/// Adds a text of at least `shortest` bytes, also in the forms that it has in URLs and in JSON.
fn add_secret(known: &RwLock<Vec<SecretString>>, plain: &str, shortest: usize) {
    if plain.len() < shortest {
        return;
    }
    let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
    // People see addresses without their queries.
    let start = plain.split_once('?').map(|(start, _)| start.to_owned());
    let start = start.filter(|start| start.len() >= SHORTEST_IN_CONTENT);
    let forms = forms_in_urls(plain).chain(decode_forms(plain)).chain(start);
    let forms = forms.filter(|form| form.len() >= shortest);
    for form in std::iter::once(plain.to_owned()).chain(forms) {
        // Logs and requests contain JSON, where a secret with quotes looks different.
        let quoted = Value::from(&*form).to_string();
        for form in [&form, quoted.trim_matches('"')] {
            if !known.iter().any(|have| have.expose_secret() == form) {
                known.push(form.into());
            }
        }
    }
    known.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
}

/// Returns what a server reads in a text of an address, also if `+` is a blank there, as in queries.
fn decode_forms(plain: &str) -> impl Iterator<Item = String> {
    let one_name = plain.replace('&', "%26").replace('=', "%3D");
    let decode = |text: String| parse_form(text.as_bytes()).map(|pair| pair.0).collect();
    [one_name.replace('+', "%2B"), one_name].into_iter().map(decode)
}

/// Returns what the parser of URLs makes of a text in a path, in a query, as user info, as a password, and as a host.
fn forms_in_urls(plain: &str) -> impl Iterator<Item = String> {
    [
        ("http://h/", ""),
        ("http://h/?", ""),
        ("http://", "@h/"),
        ("http://u:", "@h/"),
        ("http://", "/"),
    ]
    .into_iter()
    .filter_map(move |(before, after)| {
        let url = Url::parse(&format!("{before}{plain}{after}")).ok()?;
        // A number as a host becomes an IP address, which may be anybody's.
        url.domain()?;
        let form = url.as_str().strip_prefix(before)?.strip_suffix(after)?;
        // These may be common words: a path without its dots, and a short name in lower case.
        let is_path = plain.contains("./") && plain.contains(form);
        let is_name = form.len() < SHORTEST_IN_CONTENT && plain.to_lowercase() == form;
        (!is_path && !is_name).then(|| form.to_owned())
    })
}

fn replace_secrets<'a>(known: &[SecretString], bytes: &'a [u8]) -> Cow<'a, [u8]> {
    known.iter().fold(Cow::Borrowed(bytes), |bytes, secret| {
        match replace_all(&bytes, secret.expose_secret().as_bytes(), MASK) {
            Some(clean) => Cow::Owned(clean),
            None => bytes,
        }
    })
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor")
    }
}

fn format_key_mark(key: &SecretString) -> String {
    let (before, after) = HIDDEN;
    format!("{before}{}{after}", hash::sha256(key.expose_secret().as_bytes()))
}

fn replace_all(bytes: &[u8], secret: &[u8], with: &[u8]) -> Option<Vec<u8>> {
    let mut found = memchr::memmem::find_iter(bytes, secret).peekable();
    found.peek()?;
    let mut clean = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for at in found {
        clean.extend_from_slice(&bytes[from..at]);
        clean.extend_from_slice(with);
        from = at + secret.len();
    }
    clean.extend_from_slice(&bytes[from..]);
    Some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masked_key_is_restored_unless_unknown() {
        let redactor = Redactor::default();
        for key in ["sk-0123456789abcdef", "sk-0123456789abcdef-longer"] {
            redactor.learn_key(&key.into());
        }
        let bytes = b"\xff sk-0123456789abcdef-longer sk-0123456789abcdef\0 and sk-short";
        let masked = redactor.mask_keys(bytes);
        assert!(memchr::memmem::find(&masked, b"sk-0123456789abcdef").is_none());
        assert!(masked.ends_with(b"\0 and sk-short") && masked.starts_with(b"\xff "));
        assert_eq!(redactor.unmask_keys(masked.to_vec()), bytes);
        assert_eq!(Redactor::default().unmask_keys(masked.to_vec()), masked.to_vec());
        assert!(matches!(redactor.mask_keys(b"nothing"), Cow::Borrowed(_)));
    }

    #[test]
    fn content_keeps_common_words_and_loses_keys() {
        let redactor = Redactor::default();
        for key in [
            "ollama",
            "Bearer sk-0123456789abcdef",
            "sk-0123456789abcdef-longer",
        ] {
            redactor.learn_key(&key.into());
        }
        assert_eq!(redactor.redact_content("ollama Bearer sk-0123456789abcde"), None);
        assert_eq!(
            redactor
                .redact_content("a sk-0123456789abcdef b sk-0123456789abcdef-longer")
                .unwrap(),
            "a *** b ***"
        );
    }

    #[test]
    fn start_of_a_secret_is_redacted_from_addresses_without_queries() {
        let redactor = Redactor::default();
        redactor.learn_secret(&"tok-0123456789ab?cdef".into());
        redactor.learn_secret(&"search?key=0123456789".into());
        let text = "http://h/tok-0123456789ab?hidden and a search";
        assert_eq!(redactor.redact_text(text), "http://h/***?hidden and a search");
    }

    #[test]
    fn secrets_in_addresses_are_redacted_by_themselves() {
        let redactor = Redactor::default();
        let database = "postgres://u:s3cret-password-0123@h/db";
        redactor.learn_credential(&database.into());
        redactor.learn_credential(&"postgres://postgres:postgres@h/db".into());
        let text = "postgres: s3cret-password-0123";
        assert_eq!(redactor.redact_content(text).as_deref(), Some("postgres: ***"));
        assert_eq!(redactor.redact_text(text), "postgres: ***");
        let server = crate::config::McpServerSettings {
            url: Some(
                "http://u:short-pw@h/?k=plain-value-0123456&api_key=a%2Bb%20cdefghijklmnop&mode=fast"
                    .to_owned(),
            ),
            ..Default::default()
        };
        redactor.learn_all(&Settings {
            mcp: [("s".to_owned(), server)].into(),
            ..Settings::default()
        });
        let text = "short-pw plain-value-0123456 a+b cdefghijklmnop fast";
        assert_eq!(redactor.redact_text(text), "*** *** *** fast");
        assert_eq!(
            redactor.redact_content(text).as_deref(),
            Some("short-pw *** *** fast")
        );
    }

    #[test]
    fn credential_with_blanks_is_redacted_as_a_whole_from_content() {
        let redactor = Redactor::default();
        redactor.learn_credential(&"correct horse battery staple".into());
        redactor.learn_credential(&"too short here".into());
        redactor.learn_provider_key(&"Bearer of common words here".into());
        let text = "a horse; too short here; Bearer of common words here";
        assert_eq!(redactor.redact_content(text), None);
        let (text, clean) = ("x correct horse battery staple correct", "x *** correct");
        assert_eq!(redactor.redact_content(text).as_deref(), Some(clean));
        let mut pieces = redactor.redact_pieces();
        let pushed: String = text
            .split_inclusive(' ')
            .map(|piece| pieces.push(piece))
            .collect();
        assert_eq!(pushed + &pieces.flush_held(), clean);
    }

    #[test]
    fn key_split_across_pieces_is_redacted() {
        let redactor = Redactor::default();
        redactor.learn_key(&"sk-0123456789abcdef".into());
        redactor.learn_key(&"sk-0123456789abcdef-longer".into());
        let text = "é sk-0 sk-0123456789abcdef sk-0123456789abcdef-longer sk-sk-0123456789abcdef-longe sk-";
        let clean = "é sk-0 *** *** sk-***-longe sk-";
        for size in 1..text.len() {
            let mut pieces = redactor.redact_pieces();
            let mut output = String::new();
            let mut rest = text;
            while !rest.is_empty() {
                let (piece, later) = rest.split_at(rest.ceil_char_boundary(size.min(rest.len())));
                output.push_str(&pieces.push(piece));
                rest = later;
            }
            output.push_str(&pieces.flush_held());
            assert_eq!(output, clean, "in pieces of {size}");
        }
        // The end of one key is the start of another.
        redactor.learn_key(&"abcdef-and-so-on-it-goes".into());
        let mut pieces = redactor.redact_pieces();
        let output = pieces.push("sk-0123456789abcdef") + &pieces.push(" ") + &pieces.flush_held();
        assert_eq!(output, "*** ");
        // Text that cannot be a key does not wait.
        assert_eq!(redactor.redact_pieces().push("started\n"), "started\n");
    }

    #[test]
    fn secret_is_redacted_in_every_form_that_it_has_in_urls() {
        let redactor = Redactor::default();
        for secret in [
            "Sécret \"1\" %41",
            "user-Name:pass|w",
            "2130706433",
            "a/../bc",
            "pass%2Fw+rd=é&",
        ] {
            redactor.learn_secret(&secret.into());
        }
        for (given, clean) in [
            ("http://h/Sécret \"1\" %41/x", "http://h/***/x"),
            ("http://h/S%C3%A9cret%20%221%22%20%41/x", "http://h/***/x"),
            ("http://user-Name:pass%7Cw@h/", "http://***@h/"),
            ("http://ada:user-Name%3Apass%7Cw@h/", "http://ada:***@h/"),
            ("pass/w+rd=é&, pass/w rd=é&", "***, ***"),
            ("http://2130706433/", "http://***/"),
            ("http://127.0.0.1/bc", "http://127.0.0.1/bc"),
        ] {
            assert_eq!(redactor.redact_text(given), clean);
        }
        for (name, word) in [
            ("./config/service.json", "config/service.json"),
            ("Production", "production"),
        ] {
            redactor.learn_secret(&name.into());
            assert_eq!(
                (redactor.redact_text(name), redactor.redact_text(word)),
                ("***".into(), word.into())
            );
        }
        redactor.learn_secret(&"Tenant-ABC.example".into());
        let parsed = Url::parse("https://Tenant-ABC.example/mcp").unwrap();
        assert_eq!(redactor.redact_text(parsed.as_str()), "https://***/mcp");
    }

    #[test]
    fn known_secrets_are_redacted() {
        let redactor = Redactor::default();
        for secret in [
            "sk-12345",
            "sk-12345-longer",
            "quote\"d-key",
            "ab",
            "Bearer 0123456789abcdef",
        ] {
            redactor.learn_secret(&secret.into());
        }
        for (given, clean) in [
            ("nothing here", "nothing here"),
            ("Bearer sk-12345, again sk-12345.", "Bearer ***, again ***."),
            ("sk-12345-longer", "***"),
            (r#"{"key":"quote\"d-key"}"#, r#"{"key":"***"}"#),
            ("ab stays", "ab stays"),
            ("Bearer 0123456789abcdef", "***"),
            ("the Bearer of 0123456789abcdef", "the Bearer of ***"),
        ] {
            assert_eq!(redactor.redact_text(given), clean);
        }
        assert!(matches!(redactor.redact_secrets(b"clean"), Cow::Borrowed(_)));
    }
}
