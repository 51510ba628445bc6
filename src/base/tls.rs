//! TLS as all of our HTTP speaks it: ring, the system's roots and a file of others, refusals that name the issuer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::tls_verifier::NamingVerifier;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Nothing that both sides could speak.
    #[error("TLS: {0}")]
    Versions(rustls::Error),
    /// The system's certificate authorities.
    #[error("the system's certificates cannot be used: {0}")]
    Roots(rustls::Error),
    /// The file of further ones.
    #[error("ca_file {} cannot be used: {why}", .path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// Trusts the system's certificate authorities and those of `ca_file` (PEM). Reads for some milliseconds.
pub fn build_client_config(ca_file: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let extra = match ca_file {
        Some(path) => read_roots(path)?,
        None => Vec::new(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        rustls_platform_verifier::Verifier::new_with_extra_roots(extra, provider).map_err(TlsError::Roots)?;
    let verifier = Arc::new(NamingVerifier::new(Arc::new(verifier)));
    let mut config = config_builder()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Trusts nobody, for where nothing will be encrypted.
pub fn without_roots() -> Result<ClientConfig, TlsError> {
    let none = rustls::RootCertStore::empty();
    Ok(config_builder()?
        .with_root_certificates(none)
        .with_no_client_auth())
}

fn config_builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, TlsError> {
    // Loses against a provider that is already there, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Versions)
}

fn read_roots(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError::CaFile {
        path: path.to_owned(),
        why,
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
