//! Adds the issuer to errors about refused certificates (R-PROV-8).
//!
//! "Who signs this traffic?" is the first question behind a company's proxy, and rustls does not answer it. The DER
//! parser here only reads names for the message; it never decides whether a certificate is trusted.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

/// A verifier that delegates to another one, and adds the issuer's name to its refusals.
#[derive(Debug)]
pub(crate) struct NamingVerifier {
    inner: Arc<dyn ServerCertVerifier>,
}

impl NamingVerifier {
    pub(crate) fn new(inner: Arc<dyn ServerCertVerifier>) -> Self {
        Self { inner }
    }
}

impl ServerCertVerifier for NamingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.inner
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        // Only the text changes: a refusal stays a refusal.
        verified.map_err(|error| match issuer_name(end_entity) {
            Some(issuer) => rustls::Error::General(format!("{error} (issued by {issuer})")),
            None => error,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const ORGANISATION: [u8; 3] = [0x55, 0x04, 0x0a];

/// Returns the common name and organization of a certificate's issuer, or `None` if it cannot be parsed.
pub(crate) fn issuer_name(certificate: &[u8]) -> Option<String> {
    let (_, certificate, _) = parse_der_element(certificate)?;
    let (_, mut fields, _) = parse_der_element(certificate)?;
    // Certificates of version 1 have no version field.
    if fields.first() == Some(&VERSION) {
        fields = parse_der_element(fields)?.2;
    }
    let (_, _, after_serial) = parse_der_element(fields)?;
    let (_, _, after_algorithm) = parse_der_element(after_serial)?;
    let (tag, mut names, _) = parse_der_element(after_algorithm)?;
    if tag != SEQUENCE {
        return None;
    }
    let (mut common, mut organisation) = (None, None);
    while let Some((SET, set, rest)) = parse_der_element(names) {
        names = rest;
        let (_, pair, _) = parse_der_element(set)?;
        let (_, oid, value) = parse_der_element(pair)?;
        let (_, text, _) = parse_der_element(value)?;
        let text = String::from_utf8_lossy(text).into_owned();
        if oid == COMMON_NAME {
            common = Some(text);
        } else if oid == ORGANISATION {
            organisation = Some(text);
        }
    }
    match (common, organisation) {
        (Some(common), Some(organisation)) => Some(format!("{common}, {organisation}")),
        (common, organisation) => common.or(organisation),
    }
}

/// Splits off the first DER element: returns its tag, its content, and the rest.
fn parse_der_element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        // Four bytes of length are enough for any certificate and cannot overflow `usize`.
        let count = usize::from(first & 0x7f);
        if count > 4 || count > rest.len() {
            return None;
        }
        length = rest[..count]
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        rest = &rest[count..];
    }
    (rest.len() >= length).then(|| (tag, &rest[..length], &rest[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![tag];
        match content.len() {
            short @ 0..128 => out.push(short as u8),
            long => out.extend_from_slice(&[0x82, (long >> 8) as u8, long as u8]),
        }
        out.extend_from_slice(content);
        out
    }

    fn name(oid: [u8; 3], text: &str) -> Vec<u8> {
        der(
            SET,
            &der(SEQUENCE, &[der(6, &oid), der(12, text.as_bytes())].concat()),
        )
    }

    fn certificate(version: bool) -> Vec<u8> {
        let issuer = [
            name(COMMON_NAME, "Proxy Root"),
            name(ORGANISATION, &"Corp".repeat(40)),
        ]
        .concat();
        let mut fields = Vec::new();
        if version {
            fields.extend(der(VERSION, &der(2, &[2])));
        }
        fields.extend(der(2, &[7]));
        fields.extend(der(SEQUENCE, &[]));
        fields.extend(der(SEQUENCE, &issuer));
        fields.extend(der(SEQUENCE, b"the rest"));
        der(SEQUENCE, &[der(SEQUENCE, &fields), der(SEQUENCE, &[])].concat())
    }

    #[test]
    fn issuer_is_found_with_and_without_a_version_field() {
        let expected = format!("Proxy Root, {}", "Corp".repeat(40));
        assert_eq!(issuer_name(&certificate(true)), Some(expected.clone()));
        assert_eq!(issuer_name(&certificate(false)), Some(expected));
    }

    #[test]
    fn damaged_certificates_do_not_panic() {
        let original = certificate(true);
        for end in 0..original.len() {
            let _ = issuer_name(&original[..end]);
        }
        for at in 0..original.len() {
            let mut bent = original.clone();
            bent[at] ^= 0xff;
            let _ = issuer_name(&bent);
        }
    }
}
