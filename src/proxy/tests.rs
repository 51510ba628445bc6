//! The proxy without a sandbox: what its gate asks, where it connects, and what it does with requests.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::dial::{DialError, Resolver, connect_target};
use super::gate::HostGate;
use super::report::{Denial, MAX_QUESTIONS};
use super::*;
use crate::base::clock;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::domain::{HostRule, HostTarget};

/// Records questions; each waits for its answer.
#[derive(Default)]
struct Recorder {
    open: Mutex<Vec<(String, oneshot::Sender<Option<bool>>)>>,
    asked: AtomicUsize,
}

impl Recorder {
    /// Answers the only open question, once there is one.
    async fn answer(&self, expected: &str, answer: Option<bool>) {
        loop {
            // In a statement of its own, so that the lock does not last.
            let next = self.open.lock().unwrap().pop();
            if let Some((target, reply)) = next {
                assert_eq!(target, expected);
                assert!(self.open.lock().unwrap().is_empty(), "one question at a time");
                reply.send(answer).unwrap();
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl HostPrompt for Recorder {
    fn ask(&self, target: &HostTarget) -> BoxFuture<'static, Option<bool>> {
        let (reply, answer) = oneshot::channel();
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.open.lock().unwrap().push((target.to_string(), reply));
        async move { answer.await.ok().flatten() }.boxed()
    }
}

/// A gate whose questions are answered in the background.
struct Bench {
    gate: Arc<HostGate>,
    prompt: Arc<Recorder>,
    report: Arc<ProxyReport>,
    _asking: AbortOnDrop<()>,
}

impl Bench {
    fn new(rules: &[&str], session: &Arc<SessionHosts>) -> Self {
        let rules = rules.iter().map(|rule| HostRule::parse(rule).unwrap()).collect();
        let (prompt, report) = (Arc::new(Recorder::default()), Arc::new(ProxyReport::default()));
        let (gate, asking) = HostGate::new(rules, session.clone(), prompt.clone(), report.clone());
        Self {
            gate: Arc::new(gate),
            prompt,
            report,
            _asking: spawn(asking),
        }
    }

    fn request(&self, host: &str) -> AbortOnDrop<Result<(), Denial>> {
        let (gate, target) = (self.gate.clone(), target(host));
        spawn(async move { gate.request_access(&target).await })
    }
}

fn target(text: &str) -> HostTarget {
    HostTarget::parse(text, None).unwrap()
}

#[tokio::test]
async fn a_host_is_asked_about_once_in_a_session() {
    let session = Arc::default();
    let first = Bench::new(&["known.example"], &session);
    assert_eq!(first.request("known.example:443").await.unwrap(), Ok(()));
    let requests = ["new.example:443", "NEW.example.:443", "new.example:80"].map(|host| first.request(host));
    first.prompt.answer("new.example:443", Some(true)).await;
    for request in requests {
        assert_eq!(request.await.unwrap(), Ok(()));
    }
    let denied = first.request("bad.example:443");
    first.prompt.answer("bad.example:443", Some(false)).await;
    assert_eq!(denied.await.unwrap(), Err(Denial::ByUser));
    assert_eq!(first.prompt.asked(), 2);

    let second = Bench::new(&[], &session);
    assert_eq!(second.request("new.example:443").await.unwrap(), Ok(()));
    assert_eq!(
        second.request("bad.example:80").await.unwrap(),
        Err(Denial::ByUser)
    );
    assert_eq!(second.prompt.asked(), 0);
    // Another port was not part of the question.
    let other = second.request("new.example:22");
    second.prompt.answer("new.example:22", None).await;
    assert_eq!(other.await.unwrap(), Err(Denial::Unanswered));
    let refusals = second.report.take_refusals();
    assert_eq!(refusals.len(), 2, "{refusals:?}");
    assert!(
        refusals[0].starts_with("bad.example:80 was refused"),
        "{refusals:?}"
    );
    assert!(refusals[1].contains("\"new.example:22\""), "{refusals:?}");
    assert!(second.report.take_refusals().is_empty());
}

#[tokio::test]
async fn what_nobody_answers_is_not_remembered_for_other_commands() {
    let session = Arc::default();
    let first = Bench::new(&[], &session);
    let request = first.request("a.example:443");
    first.prompt.answer("a.example:443", None).await;
    assert_eq!(request.await.unwrap(), Err(Denial::Unanswered));
    assert_eq!(
        first.request("a.example:443").await.unwrap(),
        Err(Denial::Unanswered)
    );
    assert_eq!(first.prompt.asked(), 1, "the same command does not ask again");
    let second = Bench::new(&[], &session);
    let request = second.request("a.example:443");
    second.prompt.answer("a.example:443", Some(true)).await;
    assert_eq!(request.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_command_cannot_flood_the_user() {
    let bench = Bench::new(&[], &Arc::default());
    let requests: Vec<_> = (0..MAX_QUESTIONS + 5)
        .map(|number| bench.request(&format!("h{number}.example:443")))
        .collect();
    // Those beyond the limit do not wait for the others.
    let mut denied = 0;
    for (number, request) in requests.into_iter().enumerate() {
        if number < MAX_QUESTIONS {
            bench
                .prompt
                .answer(&format!("h{number}.example:443"), Some(false))
                .await;
            assert_eq!(request.await.unwrap(), Err(Denial::ByUser));
        } else {
            assert_eq!(request.await.unwrap(), Err(Denial::TooMany));
            denied += 1;
        }
    }
    assert_eq!((bench.prompt.asked(), denied), (MAX_QUESTIONS, 5));
}

#[tokio::test]
async fn two_commands_of_a_session_ask_one_after_the_other_and_share_the_answer() {
    let session = Arc::default();
    let (first, second) = (Bench::new(&[], &session), Bench::new(&[], &session));
    let of_first = first.request("a.example:443");
    while first.prompt.asked() == 0 {
        tokio::task::yield_now().await;
    }
    let of_second = second.request("a.example:443");
    let mut asking = second.report.subscribe_asking();
    asking.wait_for(|is_asking| *is_asking).await.unwrap();
    first.prompt.answer("a.example:443", Some(true)).await;
    assert_eq!(
        (of_first.await.unwrap(), of_second.await.unwrap()),
        (Ok(()), Ok(()))
    );
    assert_eq!(second.prompt.asked(), 0);
    asking.wait_for(|is_asking| !is_asking).await.unwrap();
}

#[tokio::test]
async fn private_addresses_are_refused_without_a_question_unless_they_are_named() {
    let bench = Bench::new(&["10.0.0.1:8080", "192.168.0.1"], &Arc::default());
    for (host, is_allowed) in [
        ("10.0.0.1:8080", true),
        ("10.0.0.1:22", false),
        ("192.168.0.1:443", true),
        ("127.0.0.1:80", false),
        ("127.1:80", false),
        ("[::ffff:127.0.0.1]:80", false),
        ("[::1]:80", false),
        ("169.254.169.254:80", false),
        ("[fe80::1]:80", false),
        ("0.0.0.0:80", false),
    ] {
        let verdict = bench.request(host).await.unwrap();
        match verdict {
            Ok(()) => assert!(is_allowed, "{host}"),
            Err(denial) => assert!(!is_allowed && matches!(denial, Denial::Private(_)), "{host}"),
        }
    }
    assert_eq!(bench.prompt.asked(), 0);
}

/// Resolves names from a table, whose entries are used up.
struct Table(Mutex<HashMap<String, Vec<Vec<IpAddr>>>>);

impl Table {
    fn new(entries: &[(&str, &[&[&str]])]) -> Self {
        let parse = |addresses: &&[&str]| addresses.iter().map(|text| text.parse().unwrap()).collect();
        let entries = entries
            .iter()
            .map(|(name, answers)| ((*name).to_owned(), answers.iter().map(parse).collect()));
        Self(Mutex::new(entries.collect()))
    }
}

impl Resolver for Table {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut entries = self.0.lock().unwrap();
        let answers = entries.get_mut(name).filter(|answers| !answers.is_empty());
        let found = answers.map(|answers| answers.remove(0));
        Box::pin(std::future::ready(
            found.ok_or_else(|| io::ErrorKind::NotFound.into()),
        ))
    }
}

#[tokio::test]
async fn a_name_leads_to_a_private_address_only_if_an_entry_spells_it_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (named, address, pattern) = (
        format!("named.example:{port}"),
        format!("127.0.0.1:{port}"),
        format!("*.example:{port}"),
    );
    for (rules, is_allowed) in [
        (vec![named.as_str()], true),
        (vec![pattern.as_str()], false),
        (vec![pattern.as_str(), address.as_str()], true),
        (vec![pattern.as_str(), "127.0.0.1:1"], false),
    ] {
        let bench = Bench::new(&rules, &Arc::default());
        let resolver = Table::new(&[("named.example", &[&["127.0.0.1"]])]);
        let connected = connect_target(&bench.gate, &resolver, &target(&named)).await;
        match connected {
            Ok(_) => assert!(is_allowed, "{rules:?}"),
            Err(DialError::Denied(Denial::Private(_))) => {
                assert!(!is_allowed, "{rules:?}");
                assert_eq!(bench.report.take_refusals().len(), 1);
            }
            Err(error) => panic!("{rules:?}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn a_second_lookup_cannot_lead_elsewhere() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let bench = Bench::new(&[&format!("127.0.0.1:{port}"), "*.example"], &Arc::default());
    // The private address of the first answer is left out, and nothing is looked up again.
    let resolver = Table::new(&[("a.example", &[&["10.0.0.1", "127.0.0.1"], &["10.0.0.1"]])]);
    let stream = connect_target(&bench.gate, &resolver, &target(&format!("a.example:{port}")))
        .await
        .unwrap();
    assert_eq!(stream.peer_addr().unwrap().ip(), IpAddr::from([127, 0, 0, 1]));
    assert_eq!(resolver.0.lock().unwrap()["a.example"].len(), 1);
    let unknown = connect_target(&bench.gate, &resolver, &target("b.example:443")).await;
    assert!(matches!(unknown, Err(DialError::Unresolved)), "{unknown:?}");
}

/// A running proxy, and a server that answers every request with what it got.
struct RunningProxy {
    address: std::net::SocketAddr,
    server: u16,
    proxy: Option<AbortOnDrop<()>>,
    _echo: AbortOnDrop<()>,
}

impl RunningProxy {
    async fn start() -> Self {
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = echo.local_addr().unwrap().port();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let rules = vec![HostRule::parse(&format!("127.0.0.1:{server}")).unwrap()];
        let proxy = CommandProxy::new(rules, Arc::default(), Arc::new(NoPrompt));
        Self {
            address,
            server,
            proxy: Some(proxy.serve(listener).unwrap()),
            _echo: spawn(echo_requests(echo)),
        }
    }

    /// Sends a request, and returns all of the response.
    async fn exchange(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = request.replace("SERVER", &format!("127.0.0.1:{}", self.server));
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        let read = stream.read_to_string(&mut response);
        clock::timeout(Duration::from_secs(20), read)
            .await
            .expect("the response ends")
            .unwrap();
        response
    }
}

async fn echo_requests(listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut got = vec![0; 4096];
        let length = stream.read(&mut got).await.unwrap();
        let body = String::from_utf8_lossy(&got[..length]).into_owned();
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nKeep-Alive: 5\r\n";
        let answer = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

#[tokio::test]
async fn requests_are_forwarded_to_the_host_of_their_url() {
    let proxy = RunningProxy::start().await;
    let response = proxy
        .exchange(
            "GET http://SERVER/path?query HTTP/1.1\r\nHost: other.example\r\nAccept: */*\r\nX-Private: 1\r\n\
             Connection: close, X-Private\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n\
             Upgrade: h2c\r\n\r\n",
        )
        .await;
    let (head, got) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{response}");
    assert!(!head.to_lowercase().contains("keep-alive: 5"), "{response}");
    assert!(got.starts_with("GET /path?query HTTP/1.1\r\n"), "{got}");
    let got = got.to_lowercase();
    assert!(
        got.contains(&format!("host: 127.0.0.1:{}\r\n", proxy.server)),
        "{got}"
    );
    assert!(got.contains("accept: */*"), "{got}");
    for absent in ["other.example", "x-private", "proxy-", "upgrade", "connection"] {
        assert!(!got.contains(absent), "{absent}: {got}");
    }
}

#[tokio::test]
async fn tunnels_carry_any_bytes() {
    let proxy = RunningProxy::start().await;
    let response = proxy
        .exchange("CONNECT SERVER HTTP/1.1\r\nHost: SERVER\r\n\r\n\u{1}raw")
        .await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.ends_with("\u{1}raw"), "{response}");
}

#[tokio::test]
async fn other_requests_are_refused_with_one_line() {
    let proxy = RunningProxy::start().await;
    let close = "HTTP/1.1\r\nConnection: close\r\n";
    for (request, status, line) in [
        (
            format!("GET /path {close}Host: SERVER\r\n\r\n"),
            400,
            "takes CONNECT",
        ),
        (format!("GET https://SERVER/ {close}\r\n"), 400, "takes CONNECT"),
        (format!("GET ftp://SERVER/ {close}\r\n"), 400, "takes CONNECT"),
        (format!("GET http://user@SERVER/ {close}\r\n"), 400, "user name"),
        (
            format!("CONNECT SERVER@evil.example:443 {close}\r\n"),
            400,
            "HOST:PORT",
        ),
        (format!("CONNECT evil.example {close}\r\n"), 400, "HOST:PORT"),
        (
            format!("CONNECT evil.example:443 {close}\r\n"),
            403,
            "evil.example:443 was refused",
        ),
        (
            format!("GET http://evil.example/ {close}\r\n"),
            403,
            "\"evil.example\"",
        ),
        (
            format!("GET http://169.254.169.254/ {close}\r\n"),
            403,
            "link-local",
        ),
        (
            format!("GET http://SERVER/ {close}X: {}\r\n\r\n", "x".repeat(70_000)),
            431,
            "",
        ),
        (
            format!("GET http://SERVER/ {close}{}\r\n", "X: y\r\n".repeat(101)),
            431,
            "",
        ),
    ] {
        let response = proxy.exchange(&request).await;
        let request = &request[..request.len().min(80)];
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {response}"
        );
        let body = response.split_once("\r\n\r\n").unwrap().1;
        assert!(body.contains(line), "{request}: {response}");
        assert!(
            body.is_empty() || body.trim_end().lines().count() == 1,
            "{response}"
        );
    }
}

#[tokio::test]
async fn the_end_of_the_proxy_closes_every_connection() {
    let mut proxy = RunningProxy::start().await;
    let mut stream = TcpStream::connect(proxy.address).await.unwrap();
    let connect = format!("CONNECT 127.0.0.1:{} HTTP/1.1\r\n\r\n", proxy.server);
    stream.write_all(connect.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    drop(proxy.proxy.take());
    let mut rest = Vec::new();
    let read = stream.read_to_end(&mut rest);
    // A reset is an end too.
    let _ = clock::timeout(Duration::from_secs(20), read)
        .await
        .expect("the connection ends");
    let again = TcpStream::connect(proxy.address).await;
    assert!(again.is_err(), "nothing listens any more");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let proxy = RunningProxy::start().await;
    let mut held = Vec::new();
    for _ in 0..64 {
        held.push(TcpStream::connect(proxy.address).await.unwrap());
    }
    let mut late = TcpStream::connect(proxy.address).await.unwrap();
    late.write_all(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut response = Vec::new();
    let waits = clock::timeout(Duration::from_millis(300), late.read_to_end(&mut response)).await;
    assert!(waits.is_err(), "{}", String::from_utf8_lossy(&response));
    held.pop();
    clock::timeout(Duration::from_secs(20), late.read_to_end(&mut response))
        .await
        .expect("there is room now")
        .unwrap();
    assert!(response.starts_with(b"HTTP/1.1 400"));
}
