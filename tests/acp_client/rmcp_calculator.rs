//! The test server of the MCP SDK itself, from its package: on standard input and output, or with `http` on a free port
//! of the loopback interface, whose address it prints.

use rmcp::ServiceExt;
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

include!(concat!(env!("OUT_DIR"), "/calculator.rs"));

#[tokio::main]
async fn main() {
    if std::env::args().nth(1).as_deref() != Some("http") {
        let service = Calculator::new().serve(rmcp::transport::stdio()).await;
        service.expect("a client").waiting().await.expect("an end");
        return;
    }
    let service: StreamableHttpService<Calculator, LocalSessionManager> =
        StreamableHttpService::new(|| Ok(Calculator::new()), Default::default(), Default::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    println!("http://{}/mcp", listener.local_addr().expect("an address"));
    let router = axum::Router::new().nest_service("/mcp", service);
    axum::serve(listener, router).await.expect("an end");
}
