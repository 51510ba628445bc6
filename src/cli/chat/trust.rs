//! `/trust`: shows what a folder's own files would activate, then asks.
//!
//! Invariants: nothing is trusted that was not shown first. Each redirect of a provider with a key is a question of its
//! own. The server stores the decision.

use std::time::Duration;

use super::{Chat, ChatStep};
use crate::base::clock;
use crate::base::text;
use crate::cli::client::ClientError;
use crate::cli::held_key::HeldKey;
use crate::cli::keys::{Key, RawKeys};
use crate::cli::style::{Color, wrap_text};
use crate::protocol::table::method;
use crate::protocol::{
    AcceptedRedirect, DescribeTrustParams, DescribeTrustResult, EmptyResult, ProviderRedirect,
    SetTrustParams, TrustItem, TrustItemKind,
};

/// How long after an answer another key still belongs to it.
const REST_OF_WORD: Duration = Duration::from_millis(300);

impl Chat {
    /// Shows what trust would activate, and asks.
    pub(super) async fn ask_for_trust(&mut self) -> Result<ChatStep, ClientError> {
        let folder = self.launch.folder.display().to_string();
        let params = DescribeTrustParams { folder };
        let described: DescribeTrustResult = self.request(method::DESCRIBE_TRUST, &params).await?;
        self.show_items(&described.activates);
        // The redirects below stay a question of their own, even in a trusted folder.
        if described.trusted {
            self.show_hint("this folder is trusted");
        } else if !self
            .ask_confirmation("Trust this folder and activate its settings?")
            .await?
        {
            self.show_hint("nothing was changed");
            return Ok(ChatStep::GoOn);
        }
        let mut accepted = Vec::new();
        for redirect in described
            .redirects
            .into_iter()
            .filter(|redirect| !redirect.accepted)
        {
            self.show_redirect(&redirect);
            if self
                .ask_confirmation(&format!("Redirect {}?", redirect.provider))
                .await?
            {
                let ProviderRedirect { provider, to, .. } = redirect;
                accepted.push(AcceptedRedirect { provider, to });
            } else {
                self.show_hint("not redirected");
            }
        }
        if !described.trusted || !accepted.is_empty() {
            self.set_trust(true, accepted).await?;
        }
        Ok(ChatStep::GoOn)
    }

    pub(super) async fn set_trust(
        &mut self,
        trusted: bool,
        accept_redirects: Vec<AcceptedRedirect>,
    ) -> Result<(), ClientError> {
        let redirected = accept_redirects.len();
        let params = SetTrustParams {
            folder: self.launch.folder.display().to_string(),
            trusted,
            accept_redirects,
        };
        let _: EmptyResult = self.request(method::SET_TRUST, &params).await?;
        match (trusted, redirected) {
            (false, _) => self.show_success("this folder is not trusted"),
            (true, 0) => self.show_success("this folder is trusted"),
            (true, _) => self.show_success("this folder is trusted, and redirects what you accepted"),
        }
        Ok(())
    }

    fn show_items(&mut self, items: &[TrustItem]) {
        let (styler, width) = (self.view.screen.styler, self.view.screen.width());
        self.view.screen.write_gap();
        let head = match items {
            [] => "Nothing in this folder needs trust.",
            _ => "Trusting this folder activates:",
        };
        self.view.screen.write_line(head);
        for item in items {
            let kind = match item.kind {
                TrustItemKind::Hook => "hook",
                TrustItemKind::Tool => "tool",
                TrustItemKind::McpServer => "mcp",
                TrustItemKind::Setting => "setting",
                TrustItemKind::GitSetting => "git",
            };
            let text = format!("{}: {}", one_line(&item.name), one_line(&item.detail));
            self.view.screen.write_entry(&format!("  {kind:<8}"), 10, &text);
            let command = item.command.iter().flat_map(|command| command.lines());
            for line in command
                .flat_map(|line| wrap_text(&text::reveal_hidden_characters(line), width.saturating_sub(12)))
            {
                let line = styler.paint_text(Color::Cyan, &line);
                self.view.screen.write_line(&format!("          {line}"));
            }
        }
        self.view.screen.write_gap();
    }

    fn show_redirect(&mut self, redirect: &ProviderRedirect) {
        let sends = match redirect.sends.as_slice() {
            [] => "your requests".to_owned(),
            sends => sends.join(", "),
        };
        let from = match &redirect.from {
            Some(from) => format!(" instead of {from}"),
            None => String::new(),
        };
        let line = format!(
            "! this folder redirects the provider {}, with {sends}, to {}{from}",
            redirect.provider, redirect.to
        );
        self.view.screen.write_gap();
        self.show_warning(one_line(&line));
    }

    /// Asks for a key: `y` means yes.
    async fn ask_confirmation(&mut self, question: &str) -> Result<bool, ClientError> {
        self.show_note(Color::Bold, &one_line(&format!("{question} y yes   n no")));
        let Ok(mut keys) = RawKeys::open(self.view.screen.styler.dumb) else {
            return Ok(false);
        };
        let mut held_key = HeldKey::default();
        held_key.require_rest(clock::now());
        let answer = loop {
            tokio::select! { biased;
                _ = self.signals.next() => break false,
                key = keys.next() => match key {
                    // It may have been down when the question appeared.
                    Some(key @ Key::Char(_)) if !held_key.note_key(&key, clock::now(), None) => {}
                    Some(Key::Char('y' | 'Y')) => break true,
                    None | Some(Key::Char('n' | 'N') | Key::Esc | Key::Enter | Key::CtrlC | Key::CtrlD) => break false,
                    // Typed or pasted words are no answer.
                    Some(_) => {}
                },
            }
        };
        // The rest of a typed word belongs to the answer, not to the next prompt.
        while clock::timeout(REST_OF_WORD, keys.next())
            .await
            .is_ok_and(|key| key.is_some())
        {}
        drop(keys);
        self.show_hint(if answer { "yes" } else { "no" });
        Ok(answer)
    }
}

/// Makes hidden characters visible and keeps the text on one line, however long.
fn one_line(text: &str) -> String {
    text::reveal_hidden_characters(text).replace(['\n', '\t'], " ")
}
