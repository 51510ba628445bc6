//! Content of MCP servers in a message of the user: a prompt as a slash command, and resources that it mentions.
//!
//! `/mcp__server__prompt words` adds the prompt's messages, and `@server:uri` the resource. The user's own words stay
//! as they are; what a server sends is a reference that names the server, so that models and people can tell them
//! apart. A server that is needed here is started.

use std::time::Duration;

use crate::base::CancellationToken;
use crate::base::spawn::run_blocking;
use crate::base::text::{escape_hidden_characters, prefix_within};
use crate::config::Redactor;
use crate::domain::{Block, Reference, ReferenceKind};
use crate::mcp::{McpContent, McpFolder, ServedPrompt, ServerLink, match_arguments};
use crate::tool::mcp_content::{RenderedContent, render_contents};
use crate::workspace::prompts::split_quoted_words;

/// The longest wait for a server that is starting.
const STARTING: Duration = Duration::from_secs(15);
/// The longest text of a prompt or a resource, in bytes.
const MAX_TEXT: usize = 64 << 10;
/// The most resources that a message may mention.
const MAX_MENTIONS: usize = 10;
/// The beginning of the name of a server's prompt.
const PROMPT_PREFIX: &str = "mcp__";
/// The most names in an error.
const MAX_NAMES: usize = 20;

/// A resource that a message mentions.
#[derive(Debug, PartialEq, Eq)]
struct Mention<'a> {
    server: &'a str,
    uri: &'a str,
}

/// Returns whether a slash command can be a server's prompt.
pub(super) fn is_server_prompt(name: &str) -> bool {
    name.starts_with(PROMPT_PREFIX)
}

/// Returns whether a text may mention a resource.
pub(super) fn may_mention(text: &str) -> bool {
    find_mentions(text).next().is_some()
}

/// What content of servers is read with.
pub(super) struct ServerReader<'a> {
    pub(super) folder: &'a McpFolder,
    pub(super) redactor: &'a Redactor,
    /// Ends the wait for a server. The server learns that.
    pub(super) cancel: &'a CancellationToken,
}

impl ServerReader<'_> {
    /// Returns the messages of a server's prompt; `None` if no server has this name.
    ///
    /// # Errors
    /// The reason why the prompt cannot be used, for the user.
    pub(super) async fn expand_prompt(&self, name: &str, words: &str) -> Result<Option<Vec<Block>>, String> {
        let has_prefix = |server: &&str| {
            let rest = name
                .strip_prefix(PROMPT_PREFIX)
                .and_then(|rest| rest.strip_prefix(*server));
            rest.is_some_and(|rest| rest.starts_with("__"))
        };
        // The name of a server may begin with that of another one.
        let mut servers: Vec<&str> = self.folder.server_names().filter(has_prefix).collect();
        servers.sort_by_key(|server| std::cmp::Reverse(server.len()));
        let mut problem = None;
        for server in servers {
            match self.find_prompt(server, name).await {
                Ok((link, served)) => return self.fetch_prompt(&link, &served, words).await.map(Some),
                Err(reason) => problem = problem.or(Some(reason)),
            }
        }
        problem.map_or(Ok(None), |reason| {
            Err(format!("the command /{name} cannot be used: {reason}"))
        })
    }

    /// Starts a server if it does not run, and waits until it is ready.
    async fn connect_server(&self, server: &str) -> Result<ServerLink, String> {
        tokio::select! { biased;
            () = self.cancel.cancelled() => Err("canceled".to_owned()),
            connected = self.folder.connect_server(server, STARTING) => connected,
        }
    }

    async fn find_prompt(&self, server: &str, name: &str) -> Result<(ServerLink, ServedPrompt), String> {
        let link = self.connect_server(server).await?;
        let found = link.list_prompts().find(|served| served.name == name);
        match found {
            Some(served) => Ok((link, served)),
            None => {
                let names: Vec<String> = link
                    .list_prompts()
                    .map(|served| served.name)
                    .take(MAX_NAMES)
                    .collect();
                let known = if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                };
                Err(format!(
                    "the MCP server {server} has no such prompt; it has {known}"
                ))
            }
        }
    }

    async fn fetch_prompt(
        &self,
        link: &ServerLink,
        served: &ServedPrompt,
        words: &str,
    ) -> Result<Vec<Block>, String> {
        let refuse = |reason: String| format!("the command /{} cannot be used: {reason}", served.name);
        let arguments = match_arguments(&served.prompt, split_quoted_words(words)).map_err(refuse)?;
        let messages = link.get_prompt(&served.prompt, arguments, self.cancel).await;
        let messages = messages.map_err(|error| refuse(format!("MCP server {}: {error}", served.server)))?;
        // Most prompts have no answers of the model; then the roles say nothing.
        let has_answers = messages.iter().any(|message| message.is_from_assistant);
        let mut contents = Vec::new();
        for message in messages {
            if has_answers {
                let role = if message.is_from_assistant {
                    "[assistant]"
                } else {
                    "[user]"
                };
                contents.push(McpContent::Text(role.to_owned()));
            }
            contents.push(message.content);
        }
        let path = format!("{}/{}", served.server, served.prompt.name);
        let content = self.render_off_thread(contents).await?;
        Ok(to_blocks(ReferenceKind::Prompt, path, content, self.redactor))
    }

    /// Reads the resources that a text mentions. Mentions of other names than those of servers are plain text.
    ///
    /// # Errors
    /// The reason why a resource cannot be read, for the user.
    pub(super) async fn read_mentions(&self, text: &str) -> Result<Vec<Block>, String> {
        let is_known = |mention: &Mention<'_>| self.folder.server_names().any(|name| name == mention.server);
        let mentions: Vec<Mention<'_>> = find_mentions(text).filter(is_known).collect();
        if mentions.len() > MAX_MENTIONS {
            return Err(format!("a prompt can mention at most {MAX_MENTIONS} resources"));
        }
        let mut blocks = Vec::new();
        for Mention { server, uri } in mentions {
            let refuse = |reason: String| format!("@{server}:{uri} cannot be read: {reason}");
            let link = self.connect_server(server).await.map_err(refuse)?;
            let contents = link
                .read_resource(uri, self.cancel)
                .await
                .map_err(|error| refuse(error.to_string()))?;
            // The reference names its resource already.
            let contents = contents.into_iter().map(|content| match content {
                McpContent::Document { text, .. } => McpContent::Text(text),
                other => other,
            });
            let path = format!("{server}:{uri}");
            let content = self.render_off_thread(contents.collect()).await?;
            blocks.extend(to_blocks(ReferenceKind::Resource, path, content, self.redactor));
        }
        Ok(blocks)
    }

    /// Renders contents on a thread that may take its time, because large pictures are scaled down.
    async fn render_off_thread(&self, contents: Vec<McpContent>) -> Result<RenderedContent, String> {
        let cancel = self.cancel.clone();
        run_blocking(move || render_contents(contents, &cancel))
            .await
            .map_err(|error| error.to_string())
    }
}

fn to_blocks(kind: ReferenceKind, path: String, content: RenderedContent, redactor: &Redactor) -> Vec<Block> {
    let RenderedContent { text, images } = content;
    // A known key must reach no model and no store (I15).
    let text = redactor.redact_content(&text).unwrap_or(text);
    let mut shown = prefix_within(&text, MAX_TEXT).to_owned();
    if shown.len() < text.len() {
        shown.push_str("\n[… truncated …]");
    }
    if shown.is_empty() {
        shown.push_str(if images.is_empty() {
            "(empty)"
        } else {
            "(images only)"
        });
    }
    let reference = Reference {
        kind,
        path,
        lines: None,
        // Characters that only a model would read become visible escapes.
        text: escape_hidden_characters(&shown).into_owned(),
    };
    let images = images.into_iter().map(Block::Image);
    std::iter::once(Block::Reference(reference))
        .chain(images)
        .collect()
}

/// Finds `@server:scheme:rest` and `@server:"scheme:rest"` at the beginnings of words.
fn find_mentions(text: &str) -> impl Iterator<Item = Mention<'_>> {
    text.match_indices('@').filter_map(|(at, _)| {
        let is_start = text[..at]
            .chars()
            .next_back()
            .is_none_or(|c| c.is_whitespace() || "([{".contains(c));
        let (server, rest) = text[at + 1..].split_once(':').filter(|_| is_start)?;
        let is_name = !server.is_empty() && server.chars().all(|c| c.is_alphanumeric() || "-_".contains(c));
        let uri = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split(['"', '\n']).next()?,
            // Punctuation after an address belongs to the sentence.
            None => {
                let word = rest.split(char::is_whitespace).next()?;
                word.trim_end_matches([',', ';', '.', ')', ']', '}', '?', '!', '"', '\''])
            }
        };
        (is_name && has_scheme(uri)).then_some(Mention { server, uri })
    })
}

/// Returns whether a text begins with a scheme: `@file:12` mentions no resource.
fn has_scheme(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once(':') else {
        return false;
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme && !rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mentions(text: &str) -> Vec<(&str, &str)> {
        find_mentions(text)
            .map(|mention| (mention.server, mention.uri))
            .collect()
    }

    #[test]
    fn resources_are_mentioned_at_the_beginning_of_a_word() {
        for (text, expected) in [
            ("see @peer:note://one.", &[("peer", "note://one")][..]),
            (
                "@a:x:1 and (@b-c:demo://y/z?q=1), ok",
                &[("a", "x:1"), ("b-c", "demo://y/z?q=1")],
            ),
            ("@peer:\"note://two words\" end", &[("peer", "note://two words")]),
            ("ada@peer:note://one", &[]),
            ("@src/a.rs:3-5 @peer:12 @peer: @:x:y @peer", &[]),
            ("@peer:note:", &[]),
        ] {
            assert_eq!(mentions(text), expected, "{text}");
        }
        assert!(may_mention("@peer:note://one") && !may_mention("a@b.example: hello"));
    }

    #[test]
    fn long_and_empty_content_is_bounded() {
        let blocks = |text: &str| {
            let content = RenderedContent {
                text: text.to_owned(),
                images: Vec::new(),
            };
            to_blocks(
                ReferenceKind::Resource,
                "peer:note://x".to_owned(),
                content,
                &Redactor::default(),
            )
        };
        let text_of = |blocks: Vec<Block>| match blocks.into_iter().next() {
            Some(Block::Reference(reference)) => reference.text,
            other => panic!("{other:?}"),
        };
        let long = text_of(blocks(&"x".repeat(MAX_TEXT + 1)));
        assert!(long.len() < MAX_TEXT + 100 && long.ends_with("[… truncated …]"));
        assert_eq!(text_of(blocks("")), "(empty)");
        assert!(!text_of(blocks("a\u{e0041}b")).contains('\u{e0041}'));
    }
}
