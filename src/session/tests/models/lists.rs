//! Lists of models: those of providers, and prices.

use std::sync::Arc;
use std::time::Duration;

use super::mock_llm::Reply;
use super::scenario::Scenario;
use super::{configure, list_models, listed_by, of_provider, vendor};
use crate::base::clock;
use crate::domain::*;
use crate::provider::PriceSource;
use crate::provider::testing::{ClientStream, InProcessServer};

#[test]
fn paid_model_at_a_local_address_costs_its_list_price() {
    let scenario = vendor("model = \"claude-sonnet-5\"", "max_session_cost = 1.0");
    scenario.push(Reply::text("dear").tokens(0, 200_000));
    let client = scenario.start();
    let session = client.session();
    let first = client.ask(&session, "one");
    assert_eq!(first.end.cost.map(Cost::to_usd), Some(2.0));
    let second = client.ask(&session, "two");
    assert_eq!(second.end.reason, TerminalReason::BudgetExceeded, "{second:?}");
    assert_eq!(scenario.requests(), 1);
    // A model that only a local engine can have is free; the list shows both kinds.
    let session = client.session_of_model("work/qwen3:8b");
    scenario.push(Reply::text("free").tokens(0, 900_000));
    assert_eq!(client.ask(&session, "three").end.cost, Some(Cost(0)));
    let listed = list_models(&client, false);
    let paid = of_provider(&listed, "anthropic", |model| model.price_source);
    assert!(
        paid.iter().all(|(_, source)| *source == PriceSource::List) && paid.len() > 2,
        "{paid:?}"
    );
    assert_eq!(
        of_provider(&listed, "work", |model| model.price_source),
        [("ours".to_owned(), PriceSource::Free)]
    );
}

/// Registers a server at `host` that accepts connections and never answers.
fn start_silent_server(host: &str) -> InProcessServer {
    let connect = || {
        let (client, server) = tokio::io::duplex(1024);
        // The connection stays open as long as the test.
        std::mem::forget(server);
        Box::new(client) as Box<dyn ClientStream>
    };
    InProcessServer::register(vec![host.to_owned()], Arc::new(connect))
}

#[test]
fn live_model_lists_are_fetched_in_parallel_and_kept() {
    let scenario = vendor("", "");
    scenario.mock().list_models(&[
        "claude-sonnet-5",
        "claude-sonnet-99",
        "text-embedding-3-large",
        "claude-opus-98",
    ]);
    let hosts = ["127.100.0.1", "127.100.0.2"];
    let _silent = hosts.map(start_silent_server);
    let tables = hosts.iter().enumerate().map(|(n, host)| {
        format!("[provider.silent{n}]\nkind = \"openai\"\nbase_url = \"http://{host}/v1\"\nmodel = \"s\"\n")
    });
    configure(&scenario, "", "", &tables.collect::<String>());
    let client = scenario.start();
    let before = list_models(&client, false);
    assert!(
        listed_by(&before, "anthropic")
            .iter()
            .all(|(_, listed)| listed.is_none())
    );
    assert_eq!(scenario.mock().lists(), 0);
    let started = scenario.block_on(async { clock::now() });
    let live = list_models(&client, true);
    // Both silent servers were asked, at the same time.
    let took = scenario.block_on(async { clock::now() }) - started;
    assert_eq!(took, Duration::from_secs(5));
    let listed = |name: &str| (name.to_owned(), Some(true));
    assert_eq!(
        listed_by(&live, "anthropic"),
        [
            listed("claude-sonnet-99"),
            listed("claude-opus-98"),
            listed("claude-sonnet-5")
        ]
    );
    assert_eq!(listed_by(&live, "silent0"), [("s".to_owned(), None)]);
    assert_eq!(listed_by(&live, "work")[0], ("ours".to_owned(), Some(false)));
    // Later lists keep the result without asking again, and the default is the newest model of its family.
    let list_count = scenario.mock().lists();
    let second = list_models(&client, false);
    assert_eq!(listed_by(&second, "anthropic"), listed_by(&live, "anthropic"));
    let current = of_provider(&second, "anthropic", |model| model.current);
    assert_eq!(current[0], ("claude-sonnet-99".to_owned(), true));
    assert_eq!(scenario.mock().lists(), list_count);
    client.ask(&client.session(), "hello");
    assert_eq!(scenario.requested_models(), ["claude-sonnet-99"]);
}

#[test]
fn conversation_keeps_its_first_model() {
    for lists_old in [false, true] {
        let scenario = vendor("", "");
        let client = scenario.start();
        let session = client.session();
        client.ask(&session, "one");
        let old = scenario.requested_models().swap_remove(0);
        let newest = "claude-sonnet-99";
        let names = [newest, old.as_str()];
        scenario
            .mock()
            .list_models(if lists_old { &names } else { &names[..1] });
        let read_list = |client: &super::Client| {
            let listed = listed_by(&list_models(client, true), "anthropic");
            assert!(listed.contains(&(newest.to_owned(), Some(true))), "{listed:?}");
        };
        let last_model = |scenario: &Scenario| scenario.requested_models().pop().unwrap();
        read_list(&client);
        client.ask(&session, "two");
        assert_eq!(last_model(&scenario), old, "{lists_old}");
        // The default stays while the server runs, unless the provider no longer lists it.
        client.ask(&client.session(), "three");
        let default = if lists_old { old.as_str() } else { newest };
        assert_eq!(last_model(&scenario), default, "{lists_old}");
        drop(client);
        // A restarted server keeps it, too; a new conversation starts with the newest model.
        let client = scenario.start();
        read_list(&client);
        client.load(&session);
        client.ask(&session, "four");
        assert_eq!(last_model(&scenario), old, "{lists_old}");
        client.ask(&client.session(), "five");
        assert_eq!(last_model(&scenario), newest, "{lists_old}");
    }
}
