//! A TLS server whose certificate no system trusts.

#![expect(unreachable_pub, reason = "each test crate has its own copy")]
#![expect(clippy::unwrap_used, reason = "a test")]

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Starts a TLS server whose certificate `tls/root.pem` has signed (a root created for this test, whose key was
/// deleted). It answers every connection with one short stream.
pub fn start() -> std::net::SocketAddr {
    let chain = CertificateDer::pem_slice_iter(include_bytes!("tls/leaf.pem"));
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/leaf.key")).unwrap();
    let crypto = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let tls = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut stream = rustls::StreamOwned::new(tls, socket.unwrap());
            let mut buffer = [0; 4096];
            // A client that rejects the certificate leaves before it sends a request.
            if !stream.read(&mut buffer).is_ok_and(|n| n > 0) {
                continue;
            }
            let body =
                "data: {\"choices\":[{\"delta\":{\"content\":\"safe\"},\"finish_reason\":\"stop\"}]}\n\n";
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    address
}
