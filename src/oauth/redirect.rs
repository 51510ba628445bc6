//! The end of a login: a listener on this machine that takes the browser's redirect (RFC 8252).

use std::collections::HashMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::OAuthError;
use crate::base::clock;

/// The longest request that is read, in bytes.
const MAX_REQUEST: usize = 16 * 1024;
/// How long a connection may take for its request.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// The path of the redirect.
const PATH: &str = "/callback";

/// Waits on this machine for a redirect.
#[derive(Debug)]
pub(super) struct RedirectListener {
    listener: TcpListener,
    host: &'static str,
    port: u16,
}

/// The parameters of a redirect whose `state` matched.
#[derive(Debug)]
pub(super) struct RedirectAnswer {
    fields: HashMap<String, String>,
}

impl RedirectAnswer {
    /// Returns a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

impl RedirectListener {
    /// Listens on this port of 127.0.0.1, or on a free one.
    ///
    /// # Errors
    /// Fails if the port cannot be opened.
    pub(super) async fn open(fixed: Option<u16>) -> Result<Self, OAuthError> {
        let name = match fixed {
            Some(port) => format!("port {port} (`oauth_callback_port`)"),
            None => "a port".to_owned(),
        };
        let local = |error: std::io::Error| {
            OAuthError::Local(format!("cannot listen on {name} for the login: {error}"))
        };
        let listener = TcpListener::bind(("127.0.0.1", fixed.unwrap_or(0)))
            .await
            .map_err(local)?;
        let port = listener.local_addr().map_err(local)?.port();
        // A fixed port belongs to an address that is registered in advance, which other programs write with `localhost`.
        let host = if fixed.is_some() { "localhost" } else { "127.0.0.1" };
        Ok(Self { listener, host, port })
    }

    /// Returns the address for the redirect.
    pub(super) fn uri(&self) -> String {
        format!("http://{}:{}{PATH}", self.host, self.port)
    }

    /// Waits for the redirect with this `state`. Other requests are refused and change nothing.
    ///
    /// # Errors
    /// Fails if the listener breaks.
    pub(super) async fn wait(self, state: &str) -> Result<RedirectAnswer, OAuthError> {
        loop {
            let accepted = self.listener.accept().await;
            let (mut stream, _) = accepted.map_err(|error| OAuthError::Local(error.to_string()))?;
            // One connection at a time is enough: browsers that open a spare one are cut off by the limit.
            let read = clock::timeout(REQUEST_LIMIT, read_request(&mut stream)).await;
            let answer = read.ok().flatten().and_then(|target| parse_target(&target));
            match answer {
                Some(answer) if answer.get("state") == Some(state) => {
                    let is_error = answer.get("error").is_some();
                    respond(&mut stream, "200 OK", page(is_error)).await;
                    return Ok(answer);
                }
                _ => {
                    respond(
                        &mut stream,
                        "400 Bad Request",
                        "This is not the expected login.\n",
                    )
                    .await
                }
            }
        }
    }
}

/// Reads the head of a request and returns its target.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut buffer = [0; 2048];
        let length = stream.read(&mut buffer).await.ok()?;
        if length == 0 || head.len() + length > MAX_REQUEST {
            return None;
        }
        head.extend_from_slice(&buffer[..length]);
    }
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let target = (words.next() == Some("GET")).then(|| words.next())?;
    target.map(str::to_owned)
}

fn parse_target(target: &str) -> Option<RedirectAnswer> {
    let url = Url::parse("http://127.0.0.1").ok()?.join(target).ok()?;
    if url.path() != PATH {
        return None;
    }
    let fields = url.query_pairs().into_owned().collect();
    Some(RedirectAnswer { fields })
}

fn page(is_error: bool) -> &'static str {
    if is_error {
        "The login was refused. You can close this page.\n"
    } else {
        "agentls has the answer. Your editor or terminal shows the result. You can close this page.\n"
    }
}

async fn respond(stream: &mut TcpStream, status: &str, text: &str) {
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\r\n{text}",
        text.len()
    );
    // The browser may be gone; the login is complete anyway.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn request(uri: &str, text: &str) -> String {
        let url = Url::parse(uri).unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", url.port().unwrap()))
            .await
            .unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn fixed_port_is_part_of_the_address() {
        let free = RedirectListener::open(None).await.unwrap();
        assert_eq!(free.uri(), format!("http://127.0.0.1:{}/callback", free.port));
        let taken = RedirectListener::open(Some(free.port)).await.unwrap_err();
        assert!(
            taken
                .to_string()
                .contains(&format!("port {} (`oauth_callback_port`)", free.port)),
            "{taken}"
        );
        let port = free.port;
        drop(free);
        let fixed = RedirectListener::open(Some(port)).await.unwrap();
        assert_eq!(fixed.uri(), format!("http://localhost:{port}/callback"));
    }

    #[tokio::test]
    async fn only_the_right_state_ends_the_wait() {
        let listener = RedirectListener::open(None).await.unwrap();
        let uri = listener.uri();
        let waiting = crate::base::spawn::spawn(async move { listener.wait("right").await });
        for target in [
            "GET /callback?code=a&state=wrong HTTP/1.1",
            "GET /callback?code=a HTTP/1.1",
            "GET /other?state=right HTTP/1.1",
            "POST /callback?state=right HTTP/1.1",
            "nonsense",
        ] {
            let answer = request(&uri, &format!("{target}\r\n\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 400"), "{target}: {answer}");
        }
        let answer = request(
            &uri,
            "GET /callback?code=a%20b&state=right HTTP/1.1\r\nHost: x\r\n\r\n",
        )
        .await;
        assert!(answer.contains("agentls has the answer"), "{answer}");
        assert_eq!(waiting.await.unwrap().unwrap().get("code"), Some("a b"));
    }
}
