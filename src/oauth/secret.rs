//! Random secrets of a login, and the PKCE challenge.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::OAuthError;

/// Returns 256 random bits as 43 characters that need no escaping in a URL.
///
/// # Errors
/// Fails if the system provides no randomness.
pub(super) fn random_secret() -> Result<String, OAuthError> {
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| OAuthError::Local("the system provides no randomness".to_owned()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns the S256 challenge of a verifier (RFC 7636).
pub(super) fn challenge_of(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenge_matches_the_example_of_the_standard() {
        let challenge = challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        let secrets = [random_secret().unwrap(), random_secret().unwrap()];
        assert_eq!(secrets[0].len(), 43);
        assert_ne!(secrets[0], secrets[1]);
    }
}
