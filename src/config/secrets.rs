//! Known secrets, and taking them out of what leaves the program (R-SEC, I15).

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use secrecy::{ExposeSecret, SecretString};

use super::Settings;

/// Shorter texts are not taken out: they would be found everywhere.
const SHORTEST: usize = 6;

/// What stands in a secret's place.
const MASK: &[u8] = b"***";

/// The secrets known so far, shared by all clones. Logs and reports go through it.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a secret that holds another is taken out whole.
    known: Arc<RwLock<Vec<SecretString>>>,
}

impl Redactor {
    /// From now on this text is taken out, also as JSON writes it.
    pub fn learn(&self, secret: &SecretString) {
        let plain = secret.expose_secret();
        if plain.len() < SHORTEST {
            return;
        }
        let quoted = serde_json::Value::from(plain).to_string();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for form in [plain, quoted.trim_matches('"')] {
            if !known.iter().any(|have| have.expose_secret() == form) {
                known.push(form.into());
            }
        }
        known.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
    }

    /// Learns every secret of a configuration.
    pub fn learn_all(&self, settings: &Settings) {
        settings.secrets().for_each(|secret| self.learn(secret));
    }

    /// The bytes with `***` for every known secret.
    pub fn redact<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().fold(Cow::Borrowed(bytes), |bytes, secret| {
            match replaced(&bytes, secret.expose_secret().as_bytes()) {
                Some(clean) => Cow::Owned(clean),
                None => bytes,
            }
        })
    }

    /// The text with `***` for every known secret.
    pub fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(clean) => Cow::Owned(String::from_utf8_lossy(&clean).into_owned()),
        }
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor")
    }
}

fn replaced(bytes: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
    let mut found = memchr::memmem::find_iter(bytes, secret).peekable();
    found.peek()?;
    let mut clean = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for at in found {
        clean.extend_from_slice(&bytes[from..at]);
        clean.extend_from_slice(MASK);
        from = at + secret.len();
    }
    clean.extend_from_slice(&bytes[from..]);
    Some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_out_what_it_knows() {
        let redactor = Redactor::default();
        for secret in ["sk-12345", "sk-12345-longer", "quote\"d-key", "ab"] {
            redactor.learn(&secret.into());
        }
        for (given, clean) in [
            ("nothing here", "nothing here"),
            ("Bearer sk-12345, again sk-12345.", "Bearer ***, again ***."),
            ("sk-12345-longer", "***"),
            (r#"{"key":"quote\"d-key"}"#, r#"{"key":"***"}"#),
            ("ab stays", "ab stays"),
        ] {
            assert_eq!(redactor.redact_text(given), clean);
        }
        assert!(matches!(redactor.redact(b"clean"), Cow::Borrowed(_)));
    }
}
