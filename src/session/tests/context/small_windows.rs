//! Long tasks in small windows, where every local engine runs.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::mock_llm::{Api, RecordedRequest, Reply};
use super::scenario::{Scenario, TestTool, picture, read_file};
use super::*;
use crate::tool::ToolOutput;

/// The steps of a task.
const STEPS: usize = 60;

/// What the mock has counted during a task.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// Steps that were answered.
    steps: usize,
    /// Requests that exceed the window, by four characters per token.
    beyond: Vec<u64>,
    /// The longest result, in bytes.
    longest_result: usize,
}

/// An engine with a window. It counts four characters per token.
#[derive(Clone)]
struct Engine {
    api: Api,
    window: u64,
    counts: Arc<Mutex<Counts>>,
}

impl Engine {
    fn new(api: Api, window: u64) -> Self {
        let counts = Arc::default();
        Self { api, window, counts }
    }

    /// Returns the model of the engine.
    fn model(&self) -> &'static str {
        match self.api {
            Api::Ollama => "ollama/qwen3:8b",
            _ => "other/other-model",
        }
    }

    /// Creates a scenario with the engine and extra lines of the agent.
    fn scenario(&self, agent: &str) -> Scenario {
        let window = self.window;
        let tables = format!("[model.\"other-model\"]\ncontext_window = {window}\n");
        let scenario = configured(&tables, &format!("max_steps = 100\n{agent}"));
        if self.api == Api::Ollama {
            let url = scenario.mock().anthropic_url();
            let provider = format!("[provider.ollama]\nbase_url = \"{url}\"\napi_key = \"none\"\n");
            scenario.edit_config(|text| format!("{text}\n{provider}"));
            scenario.mock().list_models(&["qwen3:8b"]);
            let facts = json!({"model_info": {"qwen3.context_length": window}, "capabilities": ["tools"]});
            scenario.mock().show_model("qwen3:8b", facts);
        }
        scenario.mock().allow_rewrites();
        scenario
    }

    /// Makes the mock of `scenario` work through a task: `answer` gets the number of each step from 0.
    fn serve(&self, scenario: &Scenario, answer: impl Fn(usize) -> Reply + Send + 'static) {
        let engine = self.clone();
        scenario
            .mock()
            .respond_with(move |request| Some(engine.respond(request, &answer)));
    }

    fn respond(&self, request: &RecordedRequest, answer: &dyn Fn(usize) -> Reply) -> Reply {
        let tokens = request.raw.len() as u64 / 4;
        let mut counts = self.counts.lock().unwrap();
        counts.longest_result = counts.longest_result.max(longest_result(request));
        if tokens > self.window {
            counts.beyond.push(tokens);
            // Ollama truncates a prompt that is too long unless the request forbids it, and counts the rest.
            let is_truncated = self.api == Api::Ollama && request.body["truncate"] != json!(false);
            if !is_truncated {
                return self.refuse(tokens);
            }
        }
        let counted = tokens.min(self.window);
        if asks_for_notes(request) {
            let words = "the user wants all files to be read; ".repeat(20);
            return Reply::text(words).tokens(counted, 200);
        }
        let step = counts.steps;
        counts.steps += 1;
        answer(step).tokens(counted, 40)
    }

    fn refuse(&self, tokens: u64) -> Reply {
        let message = match self.api {
            Api::Ollama => json!("input length exceeds the context length"),
            _ => json!({"type": "invalid_request_error", "message": format!(
                "This model's maximum context length is {} tokens. However, your messages resulted in {tokens} tokens.",
                self.window
            )}),
        };
        Reply::status(400)
            .header("content-type", "application/json")
            .body(json!({"error": message}).to_string())
    }

    fn counts(&self) -> Counts {
        self.counts.lock().unwrap().clone()
    }
}

/// Returns the length of the longest tool result in a request.
fn longest_result(request: &RecordedRequest) -> usize {
    let results = request
        .messages()
        .iter()
        .filter(|message| message["role"] == "tool");
    let lengths = results.filter_map(|message| message["content"].as_str().map(str::len));
    lengths.max().unwrap_or(0)
}

/// Writes `count` files of 64 KiB and more.
fn write_files(scenario: &Scenario, count: usize) {
    for file in 0..count {
        let lines =
            (0..1_200).map(|line| format!("{file} {line}: the quick brown fox jumps over the lazy dog\n"));
        scenario.write(&format!("f{file}.txt"), lines.collect::<String>().repeat(2));
    }
}

/// Reads a file at each of `steps` steps, then ends.
fn read_files(steps: usize) -> impl Fn(usize) -> Reply {
    move |step| match step {
        step if step < steps => read_file(&format!("f{step}.txt")),
        _ => Reply::text("done"),
    }
}

/// Returns what went wrong in a task of `steps` steps. It ends, each request fits, and at most one step in five needs a
/// summary, none of which fails.
fn find_problems(
    engine: &Engine,
    client: &Client,
    session: &SessionId,
    steps: usize,
    outcome: &TurnOutcome,
) -> Vec<String> {
    let counts = engine.counts();
    let reductions = compactions(client, session);
    let summaries = reductions.iter().filter(|one| one.summary.is_some()).count();
    println!(
        "{:?} {}: {} of {steps} steps, {summaries} summaries, {} other reductions, {} of {} requests beyond the window, \
         results up to {} bytes: {}",
        engine.api,
        engine.window,
        counts.steps.saturating_sub(1),
        reductions.len() - summaries,
        counts.beyond.len(),
        client.scenario.requests(),
        counts.longest_result,
        describe_end(outcome)
    );
    let warnings = ["compaction_failed", "compaction_rests"].map(|code| client.warnings(session, code));
    let fits = |one: &Arc<Compaction>| one.tokens_after < one.tokens_before.min(engine.window);
    let checks = [
        (
            "it does not end",
            describe_end(outcome) == DONE && counts.steps == steps + 1,
        ),
        ("a request does not fit", counts.beyond.is_empty()),
        ("there are too many summaries", summaries <= steps / 5),
        ("a summary fails", warnings.iter().all(Vec::is_empty)),
        ("a reduction is none", reductions.iter().all(fits)),
    ];
    let problems = checks.into_iter().filter(|(_, is_right)| !is_right);
    problems
        .map(|(problem, _)| format!("{:?} {}: {problem}", engine.api, engine.window))
        .collect()
}

#[test]
fn a_long_task_of_large_files_ends_in_every_small_window() {
    let mut problems = Vec::new();
    for window in [16_384, 32_768, 40_960] {
        for api in [Api::OpenAi, Api::Ollama] {
            let engine = Engine::new(api, window);
            let scenario = engine.scenario("");
            write_files(&scenario, STEPS);
            engine.serve(&scenario, read_files(STEPS));
            let client = scenario.start();
            let session = client.session_of_model(engine.model());
            let outcome = client.ask(&session, "read all files");
            problems.extend(find_problems(&engine, &client, &session, STEPS, &outcome));
            // About an eighth of the window.
            let longest = engine.counts().longest_result as u64;
            if !(window / 4..=window / 2).contains(&longest) {
                problems.push(format!("{api:?} {window}: a result of {longest} bytes"));
            }
        }
    }
    assert_eq!(problems, [""; 0]);
}

#[test]
fn a_large_window_with_a_low_threshold_is_not_summarized_at_each_step() {
    let engine = Engine::new(Api::OpenAi, 200_000);
    let scenario = engine.scenario("compaction_threshold = 0.2");
    write_files(&scenario, 30);
    engine.serve(&scenario, read_files(30));
    let client = scenario.start();
    let session = client.session_of_model(engine.model());
    let outcome = client.ask(&session, "read all files");
    assert_eq!(find_problems(&engine, &client, &session, 30, &outcome), [""; 0]);
}

#[test]
fn commands_with_much_output_do_not_need_a_summary_at_each_step() {
    let engine = Engine::new(Api::OpenAi, 32_768);
    let scenario = engine.scenario("");
    engine.serve(&scenario, |step| match step {
        step if step < 30 => Reply::tool("build", json!({"target": step})),
        _ => Reply::text("done"),
    });
    let build = TestTool::new("build", |input: Value, _| async move {
        Ok(ToolOutput::text(format!("{input} compiled\n").repeat(400)))
    });
    let client = scenario.start_with_tools([Arc::new(build) as _]);
    let session = client.session_of_model(engine.model());
    let outcome = client.ask(&session, "build all");
    assert_eq!(find_problems(&engine, &client, &session, 30, &outcome), [""; 0]);
}

#[test]
fn many_results_of_one_step_are_shortened_before_they_are_sent() {
    for api in [Api::OpenAi, Api::Ollama] {
        let engine = Engine::new(api, 16_384);
        let scenario = engine.scenario("");
        write_files(&scenario, 12);
        engine.serve(&scenario, |step| match step {
            0 => (0..12).fold(Reply::new(), |reply, file| {
                reply.call("read_file", json!({"path": format!("f{file}.txt")}))
            }),
            _ => Reply::text("done"),
        });
        let client = scenario.start();
        let session = client.session_of_model(engine.model());
        let outcome = client.ask(&session, "read them at once");
        assert_eq!(
            client.course(&session, &outcome),
            ["next_turn", "collapse_drain_retry", "completed", DONE],
            "{api:?}"
        );
        assert_eq!(engine.counts().beyond, [0; 0], "{api:?}");
        // Every result still says something, and where the rest is.
        let sent = last_request(&scenario);
        let results: Vec<&str> = sent
            .messages()
            .iter()
            .filter(|message| message["role"] == "tool")
            .filter_map(|message| message["content"].as_str())
            .collect();
        assert_eq!(results.len(), 12);
        assert!(
            results.iter().all(|result| result.contains("quick brown fox")),
            "{results:?}"
        );
    }
}

#[test]
fn a_long_first_prompt_leaves_little_to_summarize_which_is_no_failure() {
    let engine = Engine::new(Api::OpenAi, 16_384);
    let scenario = engine.scenario("");
    write_files(&scenario, 20);
    engine.serve(&scenario, read_files(20));
    let client = scenario.start();
    let session = client.session_of_model(engine.model());
    let outcome = client.ask(&session, format!("read all files {}", "and so on ".repeat(2_400)));
    assert_eq!(find_problems(&engine, &client, &session, 20, &outcome), [""; 0]);
}

#[test]
fn an_overflow_removes_no_more_than_it_must() {
    let engine = Engine::new(Api::OpenAi, 1_000_000);
    let scenario = engine.scenario("");
    write_files(&scenario, 8);
    let refusals = Arc::new(Mutex::new(vec![engine.clone()]));
    engine.serve(&scenario, move |step| match step {
        step if step < 8 => read_file(&format!("f{step}.txt")),
        // Its window is smaller than it says.
        8 if let Some(engine) = refusals.lock().unwrap().pop() => Engine {
            window: 128_000,
            ..engine
        }
        .refuse(140_000),
        _ => Reply::text("done"),
    });
    let client = scenario.start();
    let session = client.session_of_model(engine.model());
    let outcome = client.ask(&session, "read all files");
    assert_eq!(describe_end(&outcome), DONE);
    let [compaction] = &compactions(&client, &session)[..] else {
        panic!("{:?}", compactions(&client, &session));
    };
    // It is just short enough not to be compacted at once.
    assert_eq!(compaction.trigger, CompactTrigger::Overflow);
    assert!(compaction.tokens_before > 128_000, "{compaction:?}");
    assert!(
        (70_000..=89_856).contains(&compaction.tokens_after),
        "{compaction:?}"
    );
}

/// Makes the mock refuse requests beyond the window, in which each picture takes 1,600 tokens.
fn serve_pictures(scenario: &Scenario, engine: &Engine) {
    let engine = engine.clone();
    scenario.mock().respond_with(move |request| {
        let pictures = count_pictures(request) as u64;
        let tokens = request.raw.len() as u64 / 4 + 1_600 * pictures;
        Some(if tokens > engine.window {
            engine.counts.lock().unwrap().beyond.push(tokens);
            engine.refuse(tokens)
        } else {
            uncounted_ok()
        })
    });
}

fn count_pictures(request: &RecordedRequest) -> usize {
    String::from_utf8_lossy(&request.raw).matches("iVBOR").count()
}

#[test]
fn pictures_that_the_window_has_no_room_for_are_left_out() {
    let engine = Engine::new(Api::OpenAi, 12_000);
    let scenario = engine.scenario("");
    serve_pictures(&scenario, &engine);
    let client = scenario.start();
    let session = client.session_of_model(engine.model());
    let ask = |pictures: usize, text: &str| {
        let mut prompt = vec![picture(); pictures];
        prompt.push(Block::Text(text.to_owned()));
        client.outcome(client.prompt_blocks(&session, prompt))
    };
    let outcome = ask(5, "compare them");
    assert_eq!(
        client.course(&session, &outcome),
        ["collapse_drain_retry", "completed", DONE]
    );
    let sent = last_request(&scenario);
    let kept = count_pictures(&sent);
    let stubs = String::from_utf8_lossy(&sent.raw)
        .matches("has no room for it")
        .count();
    assert!((1..5).contains(&kept) && kept + stubs == 5, "{kept} {stubs}");
    let warnings = client.warnings(&session, "pictures_left_out");
    assert!(
        warnings.len() == 1 && warnings[0].contains(&format!("no room for {stubs} of the pictures")),
        "{warnings:?}"
    );
    // The turn goes on, and so do later ones, with more pictures, and after a restart.
    for more in 0..4 {
        let outcome = ask(more, "and now?");
        assert_eq!(describe_end(&outcome), DONE, "{more}: {outcome:?}");
    }
    assert_eq!(engine.counts().beyond, [0; 0]);
    drop(client);
    let client = scenario.start();
    client.load(&session);
    assert_eq!(describe_end(&client.ask(&session, "still?")), DONE);
}

#[test]
fn a_document_that_the_model_cannot_read_takes_no_place_of_a_picture() {
    let engine = Engine::new(Api::OpenAi, 12_000);
    let scenario = engine.scenario("");
    serve_pictures(&scenario, &engine);
    let client = scenario.start();
    let session = client.session_of_model(engine.model());
    let mut prompt = vec![picture(); 5];
    prompt.push(Block::Image(MediaData {
        media_type: "application/pdf".to_owned(),
        data: "JVBERi0xLjQK".into(),
    }));
    let outcome = client.outcome(client.prompt_blocks(&session, prompt));
    assert_eq!(describe_end(&outcome), DONE);
    let sent = String::from_utf8_lossy(&last_request(&scenario).raw).into_owned();
    assert!(!sent.contains("JVBERi0"), "{sent}");
    let stubs = sent.matches("a picture was here; the context window").count();
    let warnings = client.warnings(&session, "pictures_left_out");
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains(&format!("no room for {stubs} of the pictures"))),
        "{stubs} {warnings:?}"
    );
}

#[test]
fn a_prompt_that_cannot_fit_costs_no_pictures() {
    let engine = Engine::new(Api::OpenAi, 12_000);
    let scenario = engine.scenario("");
    serve_pictures(&scenario, &engine);
    let client = scenario.start();
    let session = client.session_of_model(engine.model());
    let first = client.prompt_blocks(&session, vec![picture(), Block::Text("see".to_owned())]);
    assert_eq!(describe_end(&client.outcome(first)), DONE);
    let outcome = client.ask(&session, "and so on ".repeat(8_000));
    assert_eq!(
        client.course(&session, &outcome).split_off(1),
        ["prompt_too_long", "prompt_too_long / failed / context_limit"]
    );
    assert_eq!(compactions(&client, &session), []);
    // Without that prompt, nothing is missing.
    assert_eq!(client.warnings(&session, "pictures_left_out"), [""; 0]);
}

#[test]
fn a_summary_comes_before_pictures_that_would_go_in_vain() {
    let engine = Engine::new(Api::OpenAi, 200_000);
    let scenario = engine.scenario("");
    scenario.mock().respond_with(move |request| {
        let tokens = request.raw.len() as u64 / 4 + 1_600 * count_pictures(request) as u64;
        Some(if asks_for_notes(request) {
            notes()
        } else if tokens > 30_000 {
            let error = json!({"error": {"message": "input length exceeds the context length"}});
            Reply::status(400)
                .header("content-type", "application/json")
                .body(error.to_string())
        } else {
            Reply::text("lorem ipsum ".repeat(1_700)).tokens(0, 0)
        })
    });
    let client = scenario.start();
    let session = client.session_of_model(engine.model());
    let mut courses = Vec::new();
    for _ in 0..7 {
        let from = courses.len();
        let outcome = client.outcome(client.prompt_blocks(&session, vec![picture()]));
        courses.push(client.course(&session, &outcome).split_off(from));
        if compactions(&client, &session).len() == 1 {
            break;
        }
    }
    assert_eq!(
        courses.last().unwrap(),
        &["reactive_compact_retry", "completed", DONE],
        "{courses:?}"
    );
    assert_eq!(client.warnings(&session, "pictures_left_out"), [""; 0]);
    assert!(count_pictures(&last_request(&scenario)) > 0);
}
