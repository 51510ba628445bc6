//! Permissions for more than one call: how far they reach, how long they count, and how they end.

use super::scenario::{Client, Scenario, write_file};
use crate::domain::*;

/// Returns the grants of the workspace folder, with those of `session`.
fn grants(client: &Client, session: Option<&SessionId>) -> Vec<Grant> {
    client.settle();
    let folder = client.scenario.workspace();
    client
        .wait_for(client.sessions.list_grants(&folder, session))
        .unwrap()
}

fn revoke(client: &Client, grant: &Grant) -> bool {
    client.wait_for(client.sessions.revoke_grant(&grant.id)).unwrap()
}

#[test]
fn allow_session_applies_to_that_session_only() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let (session, other) = (client.session(), client.session());
    let approval = client.call_asking(&session, write_file("out/1", "1"), DecisionKind::AllowSession);
    assert!(approval.rule.is_some(), "{approval:?}");
    client.call_freely(&session, write_file("out/2", "2"));
    assert_eq!(scenario.read("out/2").unwrap(), "2");
    assert_eq!(grants(&client, Some(&session))[0].scope, GrantScope::Session);
    client.call_asking(&other, write_file("out/3", "3"), DecisionKind::Deny);
    assert_eq!(scenario.read("out/3"), None);
}

#[test]
fn grant_of_an_unloaded_session_can_be_revoked() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    client.call_asking(&session, write_file("out/1", "1"), DecisionKind::AllowSession);
    drop(client);
    let client = scenario.start();
    let grant = &grants(&client, Some(&session))[0];
    assert!(revoke(&client, grant));
    assert_eq!(grants(&client, Some(&session)), []);
    assert!(!revoke(&client, grant), "there is none any more");
    client.call_asking(&session, write_file("out/2", "2"), DecisionKind::Deny);
    assert_eq!(scenario.read("out/2"), None);
}

#[test]
fn allow_always_outlives_the_server_and_can_be_revoked() {
    let scenario = Scenario::new();
    let client = scenario.start();
    client.call_asking(
        &client.session(),
        write_file("out/1", "1"),
        DecisionKind::AllowAlways,
    );
    drop(client);
    let client = scenario.start();
    let session = client.session();
    client.call_freely(&session, write_file("out/2", "2"));
    assert_eq!(scenario.read("out/2").unwrap(), "2");
    let grants = grants(&client, None);
    assert_eq!((grants[0].scope, grants.len()), (GrantScope::Workspace, 1));
    assert!(revoke(&client, &grants[0]));
    assert!(!revoke(&client, &grants[0]), "there is none any more");
    client.call_asking(&session, write_file("out/3", "3"), DecisionKind::Deny);
    assert_eq!(scenario.read("out/3"), None);
    // The grant is not written into the repository.
    assert_eq!(scenario.read(".agentls/config.toml"), None);
}
