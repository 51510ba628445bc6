//! Parts of the product with real sockets, processes and kernels, without a server around them.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that fails says so by a panic")]

#[path = "../support/frozen_clock.rs"]
mod frozen_clock;
#[path = "../support/mcp_peer.rs"]
mod mcp_peer;
mod mock_llm;
mod oauth;
mod provider_http;
#[cfg(target_os = "linux")]
mod sandbox;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/tls_server.rs"]
mod tls_server;
