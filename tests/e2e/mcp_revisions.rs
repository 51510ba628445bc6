//! Which revision of MCP a server speaks is found out without a setting: 2026-07-28, older ones, or both.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Config, World};
use crate::mcp::{call_tool, peer_script, peer_table, servers};
use crate::mcp_login::world_at;
use crate::mcp_peer::HttpPeer;
use crate::mcp_real_servers::find_packages;
use crate::mock_llm::Reply;

const ALLOW: &str = "[approvals]\nallow = [\"mcp:*\"]";
/// More than the wait for the answer to `server/discover`.
const PROBE: Duration = Duration::from_secs(6);

/// The server of the official SDK, as the program of the tests or at an address. Dropping it ends it.
struct SdkServer {
    child: Option<Child>,
    table: String,
}

impl SdkServer {
    fn over_stdio(packages: &Path, older: &str) -> Self {
        let script = peer_script().with_file_name("sdk_server.mjs");
        let words = [
            script.to_str().unwrap(),
            packages.to_str().unwrap(),
            "stdio",
            older,
        ];
        Self {
            child: None,
            table: format!("command = \"node\"\nargs = {words:?}"),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the test plays a foreign server")]
    fn over_http(packages: &Path, older: &str) -> Self {
        let mut child = Command::new("node")
            .arg(peer_script().with_file_name("sdk_server.mjs"))
            .arg(packages)
            .args(["http", older])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut url)
            .unwrap();
        Self {
            child: Some(child),
            table: format!("url = {:?}", url.trim()),
        }
    }

    fn world(&self, more: &str) -> World {
        World::with(Config {
            tables: format!(
                "[mcp.peer]\nstartup_timeout_s = 60\n{}\n{more}\n{ALLOW}",
                self.table
            ),
            ..Config::default()
        })
    }
}

impl Drop for SdkServer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a server that refuses older revisions, and one that speaks both, over each transport.
fn sdk_servers() -> Vec<SdkServer> {
    let packages = find_packages().into_iter();
    packages
        .flat_map(|packages| {
            ["reject", "serve"].into_iter().flat_map(move |older| {
                [
                    SdkServer::over_stdio(&packages, older),
                    SdkServer::over_http(&packages, older),
                ]
            })
        })
        .collect()
}

fn answer_form(client: &Client, session: &str, answers: Value) {
    let question = client.next(session, "agent/questionRequested");
    assert_eq!(question.text("text"), "The MCP server peer asks: Who are you?");
    let respond = json!({"questionId": question.text("questionId"), "answers": answers});
    let _: Value = client.call("agent/questionRespond", respond);
}

#[test]
fn servers_of_the_current_revision_get_what_they_need() {
    for server in sdk_servers() {
        let (world, table) = (server.world("sampling = true"), &server.table);
        let client = world.start_asking();
        let session = client.session();
        let call = |tool: &str, input: Value| call_tool(&world, &client, &session, tool, input);
        // A header repeats this argument.
        let echoed = call("echo", json!({"text": "Größe"}));
        assert!(echoed.contains("echo Größe"), "{table}: {echoed}");
        let folders = call("folders", json!({}));
        let workspace = world.workspace().canonicalize().unwrap();
        assert!(
            folders.contains(workspace.to_str().unwrap()),
            "{table}: {folders}"
        );
        world.mock().push(Reply::tool("mcp__peer__ask_model", json!({})));
        world.mock().push(Reply::text("blue"));
        client.ask(&session, "go");
        let told = world.wait_for_request(world.requests() - 1);
        let told = told.messages().last().unwrap().to_string();
        assert!(told.contains("the model says blue"), "{table}: {told}");
        world.mock().push(Reply::tool("mcp__peer__greet", json!({})));
        let prompt = client.prompt(&session, "go");
        answer_form(&client, &session, json!({"name": ["Ada"]}));
        client.prompt_result(&prompt);
        let greeted = world.wait_for_request(world.requests() - 1);
        let greeted = greeted.messages().last().unwrap().to_string();
        assert!(greeted.contains("hello Ada, as agreed"), "{table}: {greeted}");
    }
}

#[test]
fn a_call_that_needs_more_each_time_ends() {
    for server in sdk_servers().into_iter().take(1) {
        let world = server.world("");
        let client = world.start();
        let insisted = call_tool(&world, &client, &client.session(), "insist", json!({}));
        assert!(
            insisted.contains("it needs more each time, also after 10 answers"),
            "{insisted}"
        );
    }
}

#[test]
fn a_server_that_may_not_ask_the_model_says_how_to_allow_it() {
    for server in sdk_servers().into_iter().take(2) {
        let world = server.world("");
        let client = world.start();
        let refused = call_tool(&world, &client, &client.session(), "ask_model", json!({}));
        assert!(refused.contains("sampling = true"), "{}: {refused}", server.table);
    }
}

#[test]
fn a_changed_list_of_the_current_revision_is_noticed() {
    for server in sdk_servers() {
        let (world, table) = (server.world(""), &server.table);
        world.mock().allow_rewrites();
        let client = world.start();
        let session = client.session();
        let grown = call_tool(&world, &client, &session, "grow", json!({}));
        assert!(grown.contains("grown"), "{table}: {grown}");
        // Unlike an answer, the announcement may come later.
        let has_added = || {
            let listed = &servers(&client)[0];
            listed.to_string().contains("added")
        };
        world.wait_until(has_added);
        let added = call_tool(&world, &client, &session, "added", json!({}));
        assert!(added.contains("new"), "{table}: {added}");
    }
}

/// A world whose server over stdio answers `server/discover` in some way, and logs what arrives.
struct OddWorld {
    world: World,
    log: std::path::PathBuf,
}

impl OddWorld {
    fn new(discover: &str) -> Self {
        let world = World::new();
        let log = world.path("peer.log");
        world.configure(Config {
            tables: peer_table(
                &["--discover", discover, "--log", log.to_str().unwrap()],
                &format!("startup_timeout_s = 60\ntimeout_s = 300\n{ALLOW}"),
            ),
            ..Config::default()
        });
        Self { world, log }
    }

    /// Returns the methods of the requests that have opened connections, in order.
    fn openings(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let events = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let methods = events.filter_map(|event| Some(event["received"]["method"].as_str()?.to_owned()));
        let is_opening = |method: &String| ["server/discover", "initialize"].contains(&method.as_str());
        methods.filter(is_opening).collect()
    }

    fn works(&self, client: &Client, session: &str) {
        let echoed = call_tool(&self.world, client, session, "echo", json!({"text": "hello"}));
        assert!(
            echoed.contains("hello") && !echoed.contains("\"is_error\":true"),
            "{echoed}"
        );
    }

    /// Ends the program, which starts again by itself, and returns by which requests.
    fn restart(&self, client: &Client, session: &str) -> Vec<String> {
        let known = self.openings().len();
        call_tool(&self.world, client, session, "crash", json!({}));
        self.works(client, session);
        self.openings().split_off(known)
    }
}

#[test]
fn an_old_server_that_ends_at_an_unknown_request_starts_again_without_it() {
    let odd = OddWorld::new("exit");
    let client = odd.world.start();
    let session = client.session();
    odd.works(&client, &session);
    assert_eq!(odd.openings(), ["server/discover", "initialize"]);
    assert_eq!(odd.restart(&client, &session), ["initialize"]);
}

#[test]
fn an_old_server_that_answers_an_unknown_request_oddly_goes_on() {
    for (discover, again) in [
        ("garbage", vec!["server/discover", "initialize"]),
        ("refuse", vec!["server/discover", "initialize"]),
    ] {
        let odd = OddWorld::new(discover);
        let client = odd.world.start();
        let session = client.session();
        odd.works(&client, &session);
        assert_eq!(odd.openings(), ["server/discover", "initialize"], "{discover}");
        assert_eq!(odd.restart(&client, &session), again, "{discover}");
    }
}

#[test]
fn a_server_that_knows_only_the_current_revision_gets_nothing_else() {
    let odd = OddWorld::new("only");
    let client = odd.world.start();
    let session = client.session();
    odd.works(&client, &session);
    assert_eq!(odd.openings(), ["server/discover"]);
    assert_eq!(odd.restart(&client, &session), ["server/discover"]);
}

#[test]
fn a_list_is_read_again_once_it_is_older_than_the_server_allows() {
    // Also if the server refuses to announce the changes that it promises.
    for discover in ["only", "unsubscribed"] {
        let odd = OddWorld::new(discover);
        odd.world.mock().allow_rewrites();
        let client = odd.world.start();
        let session = client.session();
        call_tool(&odd.world, &client, &session, "change", json!({}));
        let early = call_tool(&odd.world, &client, &session, "added", json!({}));
        assert!(!early.contains("added ran"), "{discover}: {early}");
        client.advance(Duration::from_secs(61));
        let added = call_tool(&odd.world, &client, &session, "added", json!({}));
        assert!(added.contains("added ran"), "{discover}: {added}");
    }
}

#[test]
fn prompts_are_listed_again_once_their_list_is_older_than_the_server_allows() {
    let odd = OddWorld::new("unsubscribed");
    odd.world.mock().allow_rewrites();
    let client = odd.world.start();
    let session = client.session();
    let lists_added = || {
        let listed: Value = client.call("agent/listCommands", json!({"sessionId": session}));
        listed.to_string().contains("mcp__peer__added")
    };
    call_tool(&odd.world, &client, &session, "change_prompts", json!({}));
    odd.works(&client, &session);
    assert!(!lists_added());
    client.advance(Duration::from_secs(61));
    odd.works(&client, &session);
    assert!(lists_added());
}

#[test]
fn a_server_that_needs_only_time_is_called_again_until_the_limit_of_the_call() {
    let odd = OddWorld::new("only");
    let client = odd.world.start();
    let session = client.session();
    let call_later = |count: usize| {
        odd.world
            .mock()
            .push(Reply::tool("mcp__peer__later", json!({"count": count})));
        let requests = odd.world.requests();
        let prompt = client.prompt(&session, "go");
        // In small steps, so that each call has its time.
        odd.world.wait_until(|| {
            client.advance(Duration::from_millis(500));
            odd.world.requests() == requests + 2
        });
        client.prompt_result(&prompt);
        let request = odd.world.wait_for_request(requests + 1);
        request.messages().last().unwrap()["content"][0].to_string()
    };
    odd.works(&client, &session);
    let done = call_later(12);
    assert!(done.contains("called again 12 times"), "{done}");
    let expired = call_later(100_000);
    assert!(expired.contains("timed out after 300 s"), "{expired}");
}

#[test]
fn an_old_server_that_its_first_request_blocks_gets_the_other_one_at_the_next_start() {
    let odd = OddWorld::new("block");
    odd.world.mock().allow_rewrites();
    let client = odd.world.start();
    let session = client.session();
    odd.world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "go");
    odd.world.wait_until(|| odd.openings() == ["server/discover"]);
    client.advance(PROBE);
    client.advance(Duration::from_secs(60));
    client.prompt_result(&prompt);
    odd.works(&client, &session);
    assert_eq!(odd.openings(), ["server/discover", "initialize"]);
    assert_eq!(odd.restart(&client, &session), ["initialize"]);
}

#[test]
fn an_old_server_that_ignores_an_unknown_request_is_not_asked_again() {
    let odd = OddWorld::new("never");
    let client = odd.world.start();
    let session = client.session();
    odd.world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "go");
    odd.world.wait_until(|| odd.openings() == ["server/discover"]);
    client.advance(PROBE);
    client.prompt_result(&prompt);
    odd.works(&client, &session);
    assert_eq!(odd.openings(), ["server/discover", "initialize"]);
    assert_eq!(odd.restart(&client, &session), ["initialize"]);
}

#[test]
fn a_server_of_the_current_revision_may_start_slowly() {
    let odd = OddWorld::new("late");
    let client = odd.world.start();
    let session = client.session();
    odd.world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "go");
    odd.world.wait_until(|| odd.openings() == ["server/discover"]);
    client.advance(PROBE);
    client.prompt_result(&prompt);
    odd.works(&client, &session);
    // It answers once it has been asked in the old way, refuses that, and is started for the new way.
    assert_eq!(
        odd.openings(),
        ["server/discover", "initialize", "server/discover"]
    );
    assert_eq!(odd.restart(&client, &session), ["server/discover"]);
}

#[test]
fn a_server_at_an_address_that_ignores_an_unknown_request_is_asked_in_the_old_way() {
    let peer = HttpPeer::start(&["--discover", "never"]);
    let world = world_at(&peer, "startup_timeout_s = 60");
    let client = world.start();
    let session = client.session();
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "go");
    world.wait_until(|| peer.events().iter().any(|event| event["http"] == "POST"));
    client.advance(PROBE);
    client.prompt_result(&prompt);
    let echoed = call_tool(&world, &client, &session, "echo", json!({"text": "hello"}));
    assert!(echoed.contains("hello"), "{echoed}");
}

#[test]
fn a_server_of_the_first_transport_over_http_is_recognized() {
    for status in ["404", "405"] {
        let peer = HttpPeer::start(&["--fail-status", status]);
        let world = world_at(&peer, "");
        let client = world.start();
        let session = client.session();
        world.mock().push(Reply::text("done"));
        client.ask(&session, "go");
        let said = client.all(&session, "agent/warning")[0]
            .text("message")
            .to_owned();
        assert!(
            said.contains(status) && said.contains("the old transport SSE, which agentls does not support"),
            "{said}"
        );
    }
}
