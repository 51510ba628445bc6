//! Where the content from outside came from that a session's model has read.

/// The source of all content from outside that has reached the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForeignContent {
    /// Nothing has reached it.
    #[default]
    None,
    /// All of it came from this MCP server.
    Server(String),
    /// Other sources: the web, commands, or several servers.
    Elsewhere,
}

impl ForeignContent {
    /// Adds content of an MCP server, or of another source if `server` is `None`.
    pub fn add(&mut self, server: Option<&str>) {
        *self = match (&*self, server) {
            (Self::None, Some(server)) => Self::Server(server.to_owned()),
            (Self::Server(known), Some(server)) if known == server => return,
            _ => Self::Elsewhere,
        };
    }

    /// Returns whether any has reached the model.
    pub fn is_some(&self) -> bool {
        *self != Self::None
    }

    /// Returns whether there is content that came from anything but this MCP server.
    pub fn has_other_source_than(&self, server: &str) -> bool {
        match self {
            Self::None => false,
            Self::Server(source) => source != server,
            Self::Elsewhere => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_is_the_source_until_there_is_another() {
        let mut content = ForeignContent::default();
        assert!(!content.is_some() && !content.has_other_source_than("a"));
        content.add(Some("a"));
        content.add(Some("a"));
        assert!(content.is_some() && !content.has_other_source_than("a"));
        assert!(content.has_other_source_than("b"));
        let mut web = content.clone();
        web.add(None);
        content.add(Some("b"));
        for content in [content, web] {
            assert!(content.has_other_source_than("a") && content.has_other_source_than("b"));
        }
    }
}
