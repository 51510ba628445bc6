//! The APIs that a provider can speak, by their names in the configuration. Knows none of them.

/// Which API a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiKind {
    Anthropic,
    /// The Chat Completions API.
    OpenAi,
    Responses,
    /// A cassette that is replayed in-process.
    Script,
}

impl ApiKind {
    /// Returns the name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Responses => "openai-responses",
            Self::Script => "script",
        }
    }

    /// Returns the kind with this name in the configuration.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Anthropic, Self::OpenAi, Self::Responses, Self::Script]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}
