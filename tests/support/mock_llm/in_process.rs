//! A mock without sockets: connections are pipes in memory, served on the runtime of the test.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, WriteHalf};

use super::{MockLlm, ServerWrite, Shared, serve_connection};

/// How many bytes may be on their way, like the buffer of a socket.
const PIPE_BYTES: usize = 64 * 1024;

static MOCKS: AtomicU16 = AtomicU16::new(0);

impl MockLlm {
    /// Creates a mock that only [`MockLlm::connector`] reaches, under addresses that no other mock of the process has.
    pub fn in_process() -> Self {
        let [high, low] = MOCKS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        Self {
            address: SocketAddr::from((Ipv4Addr::new(127, 200, high, low), 80)),
            shared: Shared::new(),
            runtime: None,
        }
    }

    /// Returns `http://IP`, the `base_url` for kind `anthropic` under an address outside the local network.
    pub fn far_url(&self) -> String {
        format!("http://{}", self.hosts()[1])
    }

    /// Returns the hosts of an in-process mock: its address, and one outside the local network.
    pub fn hosts(&self) -> [String; 2] {
        let local = self.address.ip().to_string();
        let far = local.replacen("127.", "198.", 1);
        [local, far]
    }

    /// Returns what opens connections to the mock.
    pub fn connector(&self) -> Connector {
        Connector(self.shared.clone())
    }
}

/// Opens connections to an in-process mock.
#[derive(Clone)]
pub struct Connector(Arc<Shared>);

impl Connector {
    /// Opens a connection. Returns the client's end, and the task that serves it.
    pub fn connect(&self) -> (ClientEnd, impl Future<Output = ()> + Send + 'static) {
        let (client, server) = tokio::io::duplex(PIPE_BYTES);
        let was_reset = Arc::new(AtomicBool::new(false));
        let (read, write) = tokio::io::split(server);
        let write = ServerEnd {
            write,
            was_reset: was_reset.clone(),
        };
        let number = self.0.connections.fetch_add(1, Ordering::AcqRel);
        let serving = serve_connection(read, write, number, self.0.clone());
        (ClientEnd { client, was_reset }, serving)
    }
}

/// The client's end of a connection. Its reads fail once the server has reset it.
#[derive(Debug)]
pub struct ClientEnd {
    client: DuplexStream,
    was_reset: Arc<AtomicBool>,
}

struct ServerEnd {
    write: WriteHalf<DuplexStream>,
    was_reset: Arc<AtomicBool>,
}

impl ServerWrite for ServerEnd {
    fn reset(&mut self) {
        self.was_reset.store(true, Ordering::Relaxed);
    }
}

impl AsyncRead for ClientEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let known = buf.filled().len();
        ready!(Pin::new(&mut self.client).poll_read(cx, buf))?;
        if buf.filled().len() == known && self.was_reset.load(Ordering::Relaxed) {
            return Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientEnd {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.client).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.client).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.client).poll_shutdown(cx)
    }
}

impl AsyncWrite for ServerEnd {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.write).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.write).poll_shutdown(cx)
    }
}
