//! The TLS configuration of all our HTTP clients: ring, the system's root certificates, and those of `ca_file`.
//!
//! Knows no hosts and no providers. Refused certificates are reported with their issuer; see `tls_verifier`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::tls_verifier::NamingVerifier;

/// Why no TLS configuration could be built.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The crypto provider supports no protocol version that rustls accepts.
    #[error("TLS: {0}")]
    Versions(rustls::Error),
    /// The system's certificate authorities cannot be used.
    #[error("the system's certificates cannot be used: {0}")]
    Roots(rustls::Error),
    /// Variables replace the system's certificate authorities by nothing.
    #[error("no certificate authority was found at {0}: correct or unset the variable")]
    RootVariables(String),
    /// The file of additional certificate authorities cannot be used.
    #[error("ca_file {} cannot be used: {why}", .path.display())]
    CaFile {
        path: PathBuf,
        /// What is wrong with the file.
        why: String,
    },
}

/// Builds a configuration that trusts the system's certificate authorities and those of `ca_file` (PEM).
///
/// Reads files for some milliseconds.
///
/// # Errors
/// Fails if `ca_file` cannot be read or contains no certificate, or if the system's certificates cannot be used.
pub fn build_client_config(ca_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let extra = match ca_file {
        Some(path) => read_roots(path)?,
        None => Vec::new(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        rustls_platform_verifier::Verifier::new_with_extra_roots(extra, provider).map_err(explain_roots)?;
    let verifier = Arc::new(NamingVerifier::new(Arc::new(verifier)));
    // `dangerous` is how rustls accepts a custom verifier; this one delegates to the platform's.
    let mut config = config_builder()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    // HTTP/1.1 only, so that a call owns its connection and dropping it ends the call (docs/architecture.md).
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Says which variables replace the system's certificate authorities, if any do.
#[expect(
    clippy::disallowed_methods,
    reason = "the verifier read them from the process, not from the configuration"
)]
fn explain_roots(error: rustls::Error) -> TlsError {
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"]
        .into_iter()
        .filter_map(|variable| {
            let path = std::env::var_os(variable)?;
            let path = Path::new(&path).display().to_string();
            let path = if path.is_empty() { "an empty path" } else { &path };
            Some(format!("{path} ({variable})"))
        });
    let named: Vec<String> = named.collect();
    if named.is_empty() {
        TlsError::Roots(error)
    } else {
        TlsError::RootVariables(named.join(" and "))
    }
}

/// Builds a configuration that trusts no one, for connections that are not encrypted.
///
/// # Errors
/// Fails if the crypto provider supports no protocol version that rustls accepts.
pub fn without_roots() -> Result<ClientConfig, TlsError> {
    let none = rustls::RootCertStore::empty();
    Ok(config_builder()?
        .with_root_certificates(none)
        .with_no_client_auth())
}

fn config_builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, TlsError> {
    // Fails if a default provider is installed already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Versions)
}

fn read_roots(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |reason: String| TlsError::CaFile {
        path: path.to_owned(),
        why: reason,
    };
    let roots = CertificateDer::pem_file_iter(path)
        .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
        .map_err(|error| wrong(error.to_string()))?;
    if roots.is_empty() {
        Err(wrong("it contains no certificate".to_owned()))
    } else {
        Ok(roots)
    }
}
