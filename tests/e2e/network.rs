//! The connection to a provider: through a proxy or around it (R-PROV-8).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use serde_json::json;

use crate::harness::{Config, Options, WAIT_LIMIT, World};

/// Starts a proxy that refuses every request and reports its first line.
fn proxy() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, request_lines) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut line = String::new();
            let _ = reader.read_line(&mut line);
            if sender.send(line.trim_end().to_owned()).is_err() {
                return;
            }
            let answer = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = reader.get_mut().write_all(answer);
        }
    });
    (address, request_lines)
}

#[test]
fn proxy_use_follows_settings_and_environment() {
    // An address of this machine that does not look local, so that proxies apply; the mock listens there.
    let here = "0.0.0.0";
    let far = (
        "https://api.example.invalid",
        Some("CONNECT api.example.invalid:443 HTTP/1.1"),
    );
    let (network, none) = ("proxy = \"PROXY\"", "");
    // Base URL, lines of [network], variables, and the request to the proxy; `None` if it is bypassed.
    let cases: Vec<(_, _, Vec<(&str, &str)>, _)> = vec![
        (far.0, none, vec![("HTTPS_PROXY", "PROXY")], far.1),
        (far.0, none, vec![("https_proxy", "PROXY")], far.1),
        (far.0, none, vec![("ALL_PROXY", "PROXY")], far.1),
        (far.0, network, vec![], far.1),
        (far.0, network, vec![("HTTPS_PROXY", "http://127.0.0.1:1")], far.1),
        (far.0, network, vec![("NO_PROXY", "other.invalid")], far.1),
        ("HERE", none, vec![], None),
        ("HERE", none, vec![("HTTPS_PROXY", "PROXY")], None),
        ("HERE", none, vec![("HTTP_PROXY", "PROXY")], None),
        (
            "HERE",
            none,
            vec![("http_proxy", "PROXY")],
            Some("POST HERE/v1/messages HTTP/1.1"),
        ),
        ("HERE", network, vec![], Some("POST HERE/v1/messages HTTP/1.1")),
        ("HERE", network, vec![("NO_PROXY", here)], None),
        (
            "HERE",
            none,
            vec![("http_proxy", "PROXY"), ("no_proxy", here)],
            None,
        ),
        (
            "HERE",
            "proxy = \"PROXY\"\nno_proxy = \"other.invalid, 0.0.0.0\"",
            vec![],
            None,
        ),
        (
            "HERE",
            "no_proxy = \"0.0.0.0\"",
            vec![("http_proxy", "PROXY")],
            None,
        ),
        (
            "HERE",
            "proxy = \"PROXY\"\nno_proxy = \"other.invalid\"",
            vec![("NO_PROXY", here)],
            Some("POST HERE/v1/messages HTTP/1.1"),
        ),
    ];
    let world = World::new();
    let (address, request_lines) = proxy();
    let base = format!("http://{here}:{}", world.mock().address().port());
    let written = |text: &str| text.replace("HERE", &base);
    for (to, network, env, expected) in cases {
        let proxy = format!("http://{address}");
        world.configure(Config {
            tables: format!(
                "[network]\n{}\n[provider.far]\nkind = \"anthropic\"\nbase_url = \"{}\"\napi_key = \"key\"\n\
                 model = \"mock-model\"\nmax_retries = 0\n",
                network.replace("\"PROXY\"", &format!("\"{proxy}\"")),
                written(to),
            ),
            ..Config::default()
        });
        let name = format!("{to} {network} {env:?}");
        let env = env.into_iter().map(|(key, value)| {
            let value = if value == "PROXY" { &proxy } else { value };
            (key.to_owned(), value.to_owned())
        });
        let options = Options {
            env: env.collect(),
            ..Options::default()
        };
        let before = world.requests();
        let client = world.start_with(options);
        let session = client.session_with(json!({"model": "far/mock-model"}));
        let result = client.ask(&session, "hello");
        match expected {
            Some(line) => {
                let request_line = request_lines.recv_timeout(WAIT_LIMIT);
                assert_eq!(request_line.as_deref(), Ok(written(line).as_str()), "{name}");
            }
            None => assert_eq!(
                (result.text.as_str(), world.requests()),
                ("ok", before + 1),
                "{name}"
            ),
        }
        // To explain a refusal, the proxy is asked for its status.
        for line in request_lines.try_iter() {
            assert_eq!(Some(line), expected.map(written), "{name}");
        }
    }
}

/// Starts a SOCKS5 proxy that reports each destination and connects to `to` (RFC 1928).
fn socks_proxy(to: SocketAddr) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, destinations) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut client = stream.unwrap();
            let mut greeting = [0; 2];
            client.read_exact(&mut greeting).unwrap();
            client.read_exact(&mut vec![0; greeting[1].into()]).unwrap();
            client.write_all(&[5, 0]).unwrap();
            let mut request = [0; 5];
            client.read_exact(&mut request).unwrap();
            assert_eq!(request[3], 3, "a name: the proxy looks it up");
            let mut name = vec![0; request[4].into()];
            client.read_exact(&mut name).unwrap();
            client.read_exact(&mut [0; 2]).unwrap();
            client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
            if sender.send(String::from_utf8(name).unwrap()).is_err() {
                return;
            }
            let mut server = TcpStream::connect(to).unwrap();
            let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
            std::thread::spawn(move || std::io::copy(&mut server, &mut client));
        }
    });
    (address, destinations)
}

#[test]
fn socks_proxies_are_used() {
    let world = World::new();
    let (address, destinations) = socks_proxy(world.mock().address());
    world.configure(Config {
        tables: format!(
            "[network]\nproxy = \"socks5h://{address}\"\n[provider.far]\nkind = \"anthropic\"\n\
             base_url = \"http://llm.example.com\"\napi_key = \"key\"\nmodel = \"mock-model\"\n"
        ),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session_with(json!({"model": "far/mock-model"}));
    assert_eq!(client.ask(&session, "hello").text, "ok");
    assert_eq!(
        destinations.recv_timeout(WAIT_LIMIT).as_deref(),
        Ok("llm.example.com")
    );
}

/// Answers every request without encryption, whatever it is.
fn plain_proxy() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    address
}

#[test]
fn a_proxy_without_tls_at_an_https_address_is_named() {
    let proxy = plain_proxy();
    for base in ["https://llm.example.com", "http://llm.example.com"] {
        let world = World::new();
        world.configure(Config {
            tables: format!(
                "[network]\nproxy = \"https://{proxy}\"\n[provider.far]\nkind = \"anthropic\"\n\
                 base_url = \"{base}\"\napi_key = \"key\"\nmodel = \"mock-model\"\nmax_retries = 0\n"
            ),
            ..Config::default()
        });
        let client = world.start();
        let session = client.session_with(json!({"model": "far/mock-model"}));
        let result = json!(client.ask(&session, "hello"));
        let said = result["error"].to_string();
        let expected = format!("the proxy {proxy} ([network] proxy) does not speak TLS");
        assert!(said.contains(&expected), "{base}: {said}");
        assert!(
            said.contains("write http:// in [network] proxy"),
            "{base}: {said}"
        );
    }
}
