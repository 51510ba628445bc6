//! What a sub-agent may do, and which settings it has.

use serde_json::json;

use super::mock_llm::{RecordedRequest, Reply};
use super::scenario::fake_bash;
use super::{delegate, requests_of, start, tool_calls, write};
use crate::domain::*;

#[test]
fn session_grants_apply_to_children() {
    let (scenario, agents) = start("", "");
    let touch = |path: &str| Reply::tool("bash", json!({"command": format!("touch {path}")}));
    agents
        .push_reply("me", touch("x"))
        .push_reply("me", delegate(json!({"prompt": "child: x"})))
        .push_reply("child", touch("y"))
        .push_reply("child", Reply::text("done"))
        .push_reply("me", Reply::text("done"));
    let client = scenario.start_with_tools([fake_bash()]);
    let session = client.session();
    let turn = client.prompt(&session, "me: do it");
    let approval = client.next_approval(&session);
    let decision = Decision {
        rule: Some("bash(touch *)".to_owned()),
        ..Decision::from_kind(DecisionKind::AllowSession)
    };
    client.try_decide(&approval.id, decision).unwrap();
    assert_eq!(client.outcome(turn).text, "done");
    assert_eq!(client.approval_count(&session), 1);
    assert!(scenario.read("y").is_some());
}

#[test]
fn denial_of_a_childs_call_reaches_only_the_child() {
    let (scenario, agents) = start("", "");
    agents
        .push_reply("me", delegate(json!({"prompt": "child: x"})))
        .push_reply("child", write("b.txt"))
        .push_reply("child", Reply::text("I may not"))
        .push_reply("me", Reply::text("done"));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "me: do it");
    let approval = client.next_approval(&session);
    let decision = Decision {
        feedback: Some("not there".to_owned()),
        ..Decision::from_kind(DecisionKind::Deny)
    };
    client.try_decide(&approval.id, decision).unwrap();
    assert_eq!(client.outcome(turn).text, "done");
    let body = requests_of(&scenario, "child")[1].body.to_string();
    assert!(body.contains("Denied by user: not there"), "{body}");
    assert_eq!(scenario.read("b.txt"), None);
}

#[test]
fn invalid_delegations_are_errors_for_the_model() {
    let (scenario, agents) = start("", "[agent.reader]\ndescription = 'reads much'\n");
    let too_many_tasks = vec![json!({"prompt": "x"}); 33];
    for input in [
        json!({"prompt": "x", "agent": "nobody"}),
        json!({"prompt": " "}),
        json!({"prompt": "", "tasks": too_many_tasks}),
        json!({"prompt": "x", "join": "most"}),
    ] {
        agents.push_reply("me", delegate(input));
    }
    agents.push_reply("me", Reply::text("done"));
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "me: do it").text, "done");
    let mut failed = tool_calls(&client, &session);
    failed.retain(|update| update.status == ToolCallStatus::Failed);
    let expected_errors = [
        "the agents are: default, explore, reader",
        "a prompt is empty",
        "1 to 32 tasks, not 33",
        "there is no join \"most\"",
    ];
    assert_eq!(failed.len(), expected_errors.len());
    for (failed, expected) in failed.iter().zip(expected_errors) {
        let output = &failed.result.as_ref().unwrap().text;
        assert!(output.contains(expected), "{output}");
    }
    // The system prompt lists the agents.
    let system = requests_of(&scenario, "me")[0].body["system"].to_string();
    assert!(system.contains("- reader: reads much"), "{system}");
}

#[test]
fn named_subagent_uses_its_own_settings_within_the_parents_limits() {
    let (scenario, agents) = start(
        "mode = \"full\"\ndeny_tools = [\"bash_kill\"]",
        "[agent.reader]\nmode = 'plan'\nmodel = 'wise'\nsystem_prompt = 'Only read.'\nmax_steps = 3\n\
         deny_tools = ['glob']\n[agent.writer]\n",
    );
    let tasks = json!([{"prompt": "read: x", "agent": "reader"}, {"prompt": "write: x", "agent": "writer"}]);
    agents
        .push_reply(
            "me",
            delegate(json!({"prompt": "", "tasks": tasks, "join": "allow_failures"})),
        )
        .push_reply("read", write("r.txt"))
        .push_reply("read", Reply::text("I may not"))
        .push_reply("write", write("w.txt"))
        .push_reply("write", Reply::text("written"))
        .push_reply("me", Reply::text("done"));
    let client = scenario.start();
    let session = client.session();
    client.set_model(&session, "mock/chosen").unwrap();
    assert_eq!(client.ask(&session, "me: do it").text, "done");
    let reader = requests_of(&scenario, "read");
    assert_eq!(reader[0].body["model"], "wise");
    assert!(reader[0].body["system"].to_string().contains("Only read."));
    let names = |request: &RecordedRequest| {
        let tools = request.body["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let tools = names(&reader[0]);
    assert!(
        !tools.contains(&"glob".to_owned()) && !tools.contains(&"bash_kill".to_owned()),
        "{tools:?}"
    );
    assert!(tools.contains(&"delegate".to_owned()));
    assert!(reader[1].body.to_string().contains("plan mode is read only"));
    assert_eq!(scenario.read("r.txt"), None);
    // An agent without a model uses the session's.
    assert_eq!(requests_of(&scenario, "write")[0].body["model"], "chosen");
    assert_eq!(scenario.read("w.txt").as_deref(), Some("b"));
}

#[test]
fn subagent_without_a_model_uses_the_callers() {
    let tables = "[agent.lead]\nmodel = 'wise'\nmode = 'full'\n[agent.plain]\n";
    let (scenario, agents) = start("", tables);
    let to_plain = |prompt: &str| delegate(json!({"prompt": prompt, "agent": "plain"}));
    agents
        .push_reply("me", to_plain("child: look"))
        .push_reply("child", to_plain("grandchild: look"))
        .push_reply("grandchild", Reply::text("seen"))
        .push_reply("child", Reply::text("seen"))
        .push_reply("me", Reply::text("done"));
    let client = scenario.start();
    let session = client.session_of_agent("lead");
    assert_eq!(client.ask(&session, "me: do it").text, "done");
    for name in ["me", "child", "grandchild"] {
        assert_eq!(requests_of(&scenario, name)[0].body["model"], "wise", "{name}");
    }
}
