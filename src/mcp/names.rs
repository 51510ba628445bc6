//! The names of MCP tools: for models `mcp__server__tool`, for rules `mcp:server/tool`.
//!
//! A name for models has at most 64 of the characters that all providers accept. It depends only on the names of server
//! and tool, so that it is the same in every session.

use std::hash::Hasher;

/// The longest name that all providers accept.
const MAX_NAME: usize = 64;
/// Characters of the digest that keeps shortened names apart.
const DIGEST: usize = 8;

/// Returns the name of a tool for models.
pub(super) fn name_for_models(server: &str, tool: &str) -> String {
    let is_usable = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let clean: String = tool.chars().map(|c| if is_usable(c) { c } else { '_' }).collect();
    let full = format!("mcp__{server}__{clean}");
    if full.len() <= MAX_NAME && clean == tool {
        return full;
    }
    // Two tools that differ only in what is lost here get different names.
    let mut hasher = Fnv::default();
    hasher.write(tool.as_bytes());
    let kept = full.len().min(MAX_NAME - DIGEST - 1);
    format!("{}_{:08x}", &full[..kept], hasher.finish() as u32)
}

/// Returns the server of a tool with this name for models. `None` for other tools, and if another server could have the
/// same name for one of its tools.
pub fn server_of_tool(name: &str) -> Option<&str> {
    let (server, tool) = name.strip_prefix("mcp__")?.split_once("__")?;
    // Names of servers contain no `__`, but may end in `_`.
    (!server.is_empty() && !tool.starts_with('_')).then_some(server)
}

/// Returns the name of a tool for rules.
pub(super) fn name_for_rules(server: &str, tool: &str) -> String {
    format!("mcp:{server}/{tool}")
}

/// FNV-1a, because names must not change with the standard library.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_a_tool_is_known_if_no_other_could_be_meant() {
        for (server, tool, found) in [
            ("docs", "read__page", Some("docs")),
            ("my_docs-2", "a b", Some("my_docs-2")),
            ("a", "_b", None),
            ("a_", "b", None),
        ] {
            assert_eq!(
                server_of_tool(&name_for_models(server, tool)),
                found,
                "{server} {tool}"
            );
        }
        assert_eq!(server_of_tool("web_fetch"), None);
        assert_eq!(server_of_tool("mcp__docs"), None);
    }

    #[test]
    fn names_are_short_usable_and_distinct() {
        assert_eq!(name_for_models("docs", "read_page"), "mcp__docs__read_page");
        assert_eq!(name_for_rules("docs", "read_page"), "mcp:docs/read_page");
        let long = |end: char| format!("long_{}{end}", "x".repeat(200));
        let tools = [
            long('x'),
            long('y'),
            "../../etc/passwd".to_owned(),
            "a b".to_owned(),
            "a_b".to_owned(),
            "a.b".to_owned(),
            "emoji_\u{1f600}".to_owned(),
        ];
        let names: Vec<String> = tools.iter().map(|tool| name_for_models("s", tool)).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(name.len() <= MAX_NAME && name.starts_with("mcp__s__"), "{name}");
            assert!(
                name.chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'),
                "{name}"
            );
            assert!(!names[..at].contains(name), "{name}");
        }
        // Never changes, because stored sessions contain it.
        assert_eq!(name_for_models("s", "a b"), "mcp__s__a_b_e2bca18b");
    }
}
