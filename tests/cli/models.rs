//! `agentls models update`: where the data may come from, and that wrong data changes nothing.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use crate::World;

/// A copy of models.dev's list with two models of Anthropic, one of them new.
fn list(date: &str) -> String {
    format!(
        r#"{{"anthropic":{{"models":{{
            "claude-sonnet-5-5":{{"tool_call":true,"reasoning":true,"release_date":"2026-09-28","last_updated":"{date}",
                "modalities":{{"input":["text"],"output":["text"]}},"limit":{{"context":777000,"output":64000}},
                "cost":{{"input":7,"output":70}}}},
            "claude-sonnet-9":{{"tool_call":true,"reasoning":true,"release_date":"{date}","last_updated":"{date}",
                "modalities":{{"input":["text"],"output":["text"]}},"limit":{{"context":900000,"output":64000}},
                "cost":{{"input":3,"output":12}}}}}}}}}}"#
    )
}

impl World {
    fn models_file(&self) -> PathBuf {
        self.path("home/.local/share/agentls/models.json")
    }

    fn list_file(&self, text: &str) -> String {
        let path = self.path("api.json");
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

#[test]
fn downloaded_models_are_used_and_their_source_is_shown() {
    let world = World::new();
    world.configure("[provider.anthropic]\napi_key = \"sk-canary-012345\"\n");
    world
        .run(&["models", "--offline"])
        .assert_exit_code(0)
        .assert_stdout("anthropic/claude-sonnet-5-5".trim_start_matches("anthropic/"))
        .assert_stdout("windows and prices as of ")
        .assert_stdout("built in");
    let from = world.list_file(&list("2026-11-20"));
    let saved = UNIX_EPOCH + Duration::from_hours(20_778 * 24);
    fs::File::open(&from).unwrap().set_modified(saved).unwrap();
    world
        .run(&["models", "update", "--from", &from])
        .assert_exit_code(0)
        .assert_stdout("1 new:\n  anthropic/claude-sonnet-9\n")
        .assert_stdout("1 changed:\n  anthropic/claude-sonnet-5-5\n")
        .assert_stdout("no longer listed; the built-in data stays:")
        .assert_stdout("2 models as of 2026-11-20 are in ");
    let shown = world.run(&["models", "--offline"]);
    shown
        .assert_exit_code(0)
        .assert_stdout("claude-sonnet-9")
        .assert_stdout("900k window, $3/$12 per million")
        .assert_stdout("as of 2026-11-20")
        .assert_stdout(&format!("fetched on 2026-11-21 from {from}"));
    // The file of another machine works too, and an old list does not replace a newer one.
    let copy = world.path("copy.json");
    fs::copy(world.models_file(), &copy).unwrap();
    world
        .run(&["models", "update", "--from", copy.to_str().unwrap()])
        .assert_exit_code(0)
        .assert_stdout("2 models as of 2026-11-20");
    let copied = copy.display();
    world
        .run(&["models", "--offline"])
        .assert_stdout(&format!("fetched on 2026-11-21 from {copied}"));
    // What only the replaced data lists is named; what is built in stays.
    let partial = world.list_file(&list("2026-11-20").replace("claude-sonnet-9", "claude-sonnet-10"));
    let result = world.run(&["models", "update", "--from", &partial]);
    result
        .assert_exit_code(0)
        .assert_stdout("1 no longer known, because only the data in use until now lists them:\n  anthropic/claude-sonnet-9\n");
    let shown = world.run(&["models", "--offline"]);
    shown
        .assert_stdout("claude-haiku-5-5")
        .assert_stdout("claude-sonnet-10");
    let stored = fs::read(world.models_file()).unwrap();
    let old = world.list_file(&list("2026-10-05"));
    let refused = world.run(&["models", "update", "--from", &old]);
    assert!(
        refused.err.contains("the data in use is newer: 2026-11-20"),
        "{}",
        refused.err
    );
    assert_eq!(fs::read(world.models_file()).unwrap(), stored);
}

#[test]
fn wrong_data_changes_nothing() {
    let world = World::new();
    let fails = |from: &str, reason: &str| {
        let result = world.run(&["models", "update", "--from", from]);
        result.assert_exit_code(1);
        assert!(result.err.contains(reason), "{from}: {}", result.err);
        assert!(result.err.contains("nothing was changed"), "{}", result.err);
        assert!(!world.models_file().exists());
    };
    fails(&world.list_file("<html>"), "it is not JSON");
    fails(
        &world.list_file("{\"openai\":{}}"),
        "it is not a list of models.dev",
    );
    fails("no/such/file", "no/such/file: ");
    fails("http://example.com/api.json", "is not an https:// address");
    fails("ftp://example.com/api.json", "is not an https:// address");
    // Nothing listens there.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    fails(
        &format!("http://127.0.0.1:{port}/api.json"),
        "refused the connection",
    );
    world.configure(&format!("[network]\nproxy = \"http://127.0.0.1:{port}\"\n"));
    let unreachable = world.run(&["models", "update"]);
    unreachable
        .assert_exit_code(1)
        .assert_stderr("https://models.dev/api.json was not fetched")
        .assert_stderr("name it with --from")
        .assert_stderr("nothing was changed");
    let huge = world.path("huge.json");
    fs::File::create(&huge).unwrap().set_len(33 << 20).unwrap();
    fails(huge.to_str().unwrap(), "it is larger than 32 MB");
}

/// Serves one request: the head, then `body` as often as the client reads it.
fn serve(head: &'static str, body: Vec<u8>, times: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let _ = std::io::Read::read(&mut stream, &mut request);
        let _ = stream.write_all(head.as_bytes());
        for _ in 0..times {
            // The client hangs up once it has read enough.
            if stream.write_all(&body).is_err() {
                return;
            }
        }
    });
    format!("http://{address}/api.json")
}

#[test]
fn models_are_fetched_from_an_address_within_bounds() {
    const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    let world = World::new();
    let from = serve(OK, list("2026-11-20").into_bytes(), 1);
    world
        .run(&["models", "update", "--from", &from])
        .assert_exit_code(0)
        .assert_stdout("2 models as of 2026-11-20")
        .assert_stdout(&format!("from {from}, sha256 "));
    let stored = fs::read(world.models_file()).unwrap();
    for (head, body, times, reason) in [
        (OK, vec![b' '; 1 << 20], 64, "sent more than 32 MB"),
        // An address that the user did not name is not asked.
        (
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
            Vec::new(),
            0,
            "answered 302",
        ),
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            Vec::new(),
            0,
            "answered 404",
        ),
    ] {
        let result = world.run(&["models", "update", "--from", &serve(head, body, times)]);
        result.assert_exit_code(1);
        assert!(result.err.contains(reason), "{}", result.err);
    }
    assert_eq!(fs::read(world.models_file()).unwrap(), stored);
}

#[test]
fn doctor_reports_the_model_that_takes_the_place_of_a_default() {
    const OK: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    let list = br#"{"data":[{"id":"gpt-6.1-sol","shutdown_date":"2026-01-01"},{"id":"gpt-6-sol"}]}"#;
    let world = World::new();
    let base = || serve(OK, list.to_vec(), 1).replace("/api.json", "/v1");
    let configure = |model: &str| {
        let base = base();
        world.configure(&format!(
            "[provider.openai]\nbase_url = \"{base}\"\napi_key = \"sk-canary-012345\"\n{model}"
        ));
    };
    configure("");
    world
        .run(&["doctor"])
        .assert_exit_code(0)
        .assert_stdout("! model")
        .assert_stdout("openai no longer offers gpt-6.1-sol; prompts go to gpt-6-sol");
    // A model that is named is not replaced.
    configure("model = \"gpt-6.1\"\n");
    world
        .run(&["doctor"])
        .assert_exit_code(1)
        .assert_stdout("openai lists 2 models, but not gpt-6.1");
}

#[test]
fn doctor_warns_of_downloaded_models_that_it_cannot_read() {
    let world = World::new();
    world.configure(
        "[provider.anthropic]\napi_key = \"sk-canary-012345\"\nmodel = \"claude-opus-4-1\"\n\
         [provider.openai]\napi_key = \"sk-canary-543210\"\nfallback_model = \"o3-mini\"\n",
    );
    let file = world.models_file();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "{").unwrap();
    world
        .run(&["doctor", "--offline"])
        .assert_stdout("! model data")
        .assert_stdout("run `agentls models update`")
        .assert_stdout("claude-opus-4-1 was retired on 2026-08-05")
        // Not only the model that is used.
        .assert_stdout("o3-mini was retired on 2026-10-23");
}
