//! `go_to_definition`: where a symbol, its type, or its implementations are defined, by the editor's language servers
//! (R-LANG).
//!
//! Must not search texts itself; that is what `grep` is for.

use schemars::JsonSchema;
use serde::Deserialize;

use super::language;
use super::locate_symbol::locate_symbol;
use super::{LanguageQuery, LanguageQueryKind, Tool, ToolContext, ToolError, ToolOutput, files};
use crate::domain::{Effect, EffectKind};

/// The `go_to_definition` tool.
pub struct GoToDefinition;

/// The arguments of `go_to_definition`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GoToDefinitionInput {
    /// The symbol's name as it stands in the file, such as `total` or `Cart.total`.
    symbol: String,
    /// A file that uses the symbol.
    path: String,
    /// The line in that file where the symbol is meant. Needed only if the file has several of this name.
    line: Option<u32>,
    /// What to find. Default: definition.
    find: Option<DefinitionKind>,
}

/// What `go_to_definition` finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum DefinitionKind {
    /// The definition of the symbol.
    #[default]
    Definition,
    /// The definition of the symbol's type.
    Type,
    /// What implements the symbol: an interface's classes, a method's bodies.
    Implementations,
}

impl Tool for GoToDefinition {
    type Input = GoToDefinitionInput;

    const NAME: &'static str = "go_to_definition";

    const READS_WORKSPACE: bool = true;

    const DESCRIPTION: &'static str = "Finds where a symbol that a file uses is defined, through the editor's language \
        servers: its definition with signature and documentation, the definition of its type, or its implementations. \
        It follows imports, also into libraries.";

    fn call_title(&self, input: &GoToDefinitionInput) -> String {
        let verb = match input.find.unwrap_or_default() {
            DefinitionKind::Definition => "Definition of",
            DefinitionKind::Type => "Type of",
            DefinitionKind::Implementations => "Implementations of",
        };
        files::format_title(verb, &input.symbol)
    }

    fn predict_effect(&self, input: &GoToDefinitionInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        let target = cx.resolve_path(&input.path)?;
        Ok(files::build_effect(EffectKind::Read, &[target]))
    }

    async fn run(&self, input: GoToDefinitionInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let target = language::open_target(&cx, &input.path).await?;
        let (at, _) = locate_symbol(&cx, &target, &input.symbol, input.line).await?;
        let find = input.find.unwrap_or_default();
        let kind = match find {
            DefinitionKind::Definition => LanguageQueryKind::Definition,
            DefinitionKind::Type => LanguageQueryKind::TypeDefinition,
            DefinitionKind::Implementations => LanguageQueryKind::Implementation,
        };
        let limit = u32::try_from(language::MAX_PLACES).unwrap_or(u32::MAX);
        let query = LanguageQuery::new(kind, target.uri.clone(), Some(at), limit);
        let found = language::query(&cx, query).await?.locations;
        let (mut text, places, _) = language::list_locations(&cx, found.clone()).await?;
        if places == 0 {
            text.push_str("The language servers report none; try grep.\n");
        }
        if find == DefinitionKind::Definition {
            language::add_hover(&cx, &mut text, (target.uri, at), &found).await?;
        }
        Ok(ToolOutput::text(text))
    }
}
