//! The slash commands that query or change the session, the model and the grants.
//!
//! `slash` parses the commands. `changes`, `mcp`, `queue` and `trust` hold the longer ones.

use std::path::Path;

use super::{Chat, ChatStep};
use crate::base::clock;
use crate::base::text;
use crate::cli::client::ClientError;
use crate::cli::models::{describe_model, describe_unhealthy_providers, format_price};
use crate::cli::session_lookup::find_session;
use crate::cli::slash::{COMMANDS, MODES, Slash, describe_unknown_command, mode_name};
use crate::cli::style::{
    Color, clean_line, cost_of_use, fit_line, format_age, format_path, format_tokens,
    measure_width as columns,
};
use crate::protocol::table::method;
use crate::protocol::{
    Effort, EmptyResult, GrantScope, ListGrantsParams, ListGrantsResult, ListModelsParams, ListModelsResult,
    ListSessionsParams, ListSessionsResult, ListToolsParams, ListToolsResult, Mode, ModelInfo, Pricing,
    ReloadConfigParams, ReloadConfigResult, RenameSessionParams, RevokeGrantParams, SetModeParams,
    SetModelParams,
};

/// How many models `/model` lists.
const SHOWN_MODELS: usize = 60;

/// Describes a model's price and its source; `None` if there is no price to show.
fn describe_price(model: &ModelInfo) -> Option<String> {
    let dollars = model.price.map(format_price);
    match model.pricing {
        Some(Pricing::Free) => Some("free".to_owned()),
        Some(Pricing::Unknown) => Some("price unknown".to_owned()),
        Some(Pricing::Configured) => dollars.map(|dollars| format!("{dollars} as configured")),
        Some(Pricing::List) | None => dollars,
    }
}

impl Chat {
    pub(super) async fn run_slash_command(&mut self, command: Slash) -> Result<ChatStep, ClientError> {
        match command {
            Slash::Help => {
                self.list_own().await?;
                self.show_help();
            }
            // `run_custom_command` handles these before they get here.
            Slash::Own(name) => self.show_warning(describe_unknown_command(&name)),
            Slash::Model(None, _) => self.show_models().await?,
            Slash::Model(Some(model), effort) => self.set_model(model, effort).await?,
            Slash::Mode(None) => self.show_modes(),
            Slash::Mode(Some(mode)) => self.set_mode(mode).await?,
            Slash::Sessions(words) => self.show_sessions(words).await?,
            Slash::Load(which) => {
                let Some(id) = resolve_list_number(&self.listed, which) else {
                    self.show_warning("no session with that number; see /sessions");
                    return Ok(ChatStep::GoOn);
                };
                let id = find_session(&mut self.client, &id).await?;
                self.switch_session(id).await?;
            }
            Slash::New => self.create_session().await?,
            Slash::Resume => return self.resume_turn().await,
            Slash::Compact(instructions) => return self.compact_session(instructions).await,
            Slash::Cost => self.show_cost(),
            Slash::Tools => self.show_tools().await?,
            Slash::Grants => self.show_grants().await?,
            Slash::Revoke(which) => {
                let Some(grant_id) = resolve_list_number(&self.granted, which) else {
                    self.show_warning("no grant with that number; see /grants");
                    return Ok(ChatStep::GoOn);
                };
                let _: EmptyResult = self
                    .request(method::REVOKE_GRANT, &RevokeGrantParams { grant_id })
                    .await?;
                self.show_success("revoked");
            }
            Slash::Title(title) => {
                let session_id = self.session.clone();
                let params = RenameSessionParams { session_id, title };
                let _: EmptyResult = self.request(method::RENAME_SESSION, &params).await?;
                self.show_success("renamed the session");
            }
            Slash::Trust(true) => return self.ask_for_trust().await,
            Slash::Trust(false) => self.set_trust(false, Vec::new()).await?,
            Slash::Reload => self.reload_config().await?,
            Slash::Revert(turns) => self.revert_changes(turns).await?,
            Slash::Redo => self.redo_changes().await?,
            Slash::Diff(turns) => self.show_diff(turns),
            Slash::Output(number) => self.show_output(number).await?,
            Slash::Queue(queue_command) => return self.handle_queue_command(queue_command).await,
            Slash::Mcp(mcp_command) => self.handle_mcp_command(mcp_command).await?,
            Slash::Fork => self.fork_session().await?,
            Slash::Export(file) => self.export_session(file).await?,
            Slash::Quit => return Ok(ChatStep::Leave),
        }
        Ok(ChatStep::GoOn)
    }

    pub(super) fn show_success(&mut self, message: &str) {
        self.show_note(Color::Green, &format!("✓ {message}"));
    }

    fn show_help(&mut self) {
        let styler = self.view.screen.styler;
        for builtin in &COMMANDS {
            let usage = styler.paint_text(Color::Cyan, &format!("  {:<32} ", builtin.usage));
            self.show_row(&usage, 35, builtin.does);
        }
        // Taken, because `show_row` borrows `self`. Each command that needs the list fetches it again.
        for command in std::mem::take(&mut self.own) {
            let hint = command.argument_hint.as_deref().unwrap_or_default();
            let usage = clean_line(&format!("/{} {hint}", command.name), 60);
            let usage = styler.paint_text(Color::Cyan, &format!("  {usage:<32} "));
            let description = command.problem.as_ref().or(command.description.as_ref());
            let description =
                description.map(|description| text::strip_control_characters(description).into_owned());
            self.show_row(
                &usage,
                35,
                description.as_deref().unwrap_or(if command.server.is_some() {
                    "of an MCP server"
                } else {
                    "your own"
                }),
            );
        }
        for line in [
            "",
            "@path refers to a file, @path:10-20 to some of its lines; Tab completes.",
            "@server:uri refers to a resource of an MCP server.",
            "End a line with \\ to continue on the next. Answer a question with y, n, s or a; e edits.",
        ] {
            self.show_hint(line);
        }
    }

    /// Shows a name and its description: side by side, or one below the other on a narrow screen.
    fn show_row(&mut self, name: &str, columns: usize, description: &str) {
        let screen = &mut self.view.screen;
        if screen.width() >= columns + 24 {
            return screen.write_entry(name, columns, description);
        }
        screen.write_line(name.trim_end_matches(' '));
        if !description.is_empty() {
            screen.write_entry("      ", 6, description);
        }
    }

    async fn show_models(&mut self) -> Result<(), ClientError> {
        let params = ListModelsParams {
            session_id: Some(self.session.clone()),
            live: true,
            ..ListModelsParams::default()
        };
        self.view
            .screen
            .set_status("asking the providers for their models …");
        let listed: ListModelsResult = self.request(method::LIST_MODELS, &params).await?;
        self.view.screen.set_status("");
        let styler = self.view.screen.styler;
        for model in listed.models.iter().take(SHOWN_MODELS) {
            let mark = styler.current_mark(model.current);
            let name = format!("{mark} {:<48} ", fit_line(&model.model, 48));
            self.show_row(&name, 51, &describe_model(model, describe_price(model)));
        }
        let more = listed.models.len().saturating_sub(SHOWN_MODELS);
        if more > 0 {
            let hint = format!("… and {more} more; /model takes any name");
            self.show_hint(hint);
        }
        for problem in describe_unhealthy_providers(&listed) {
            self.show_warning(problem);
        }
        if listed.models.is_empty() {
            self.show_warning("no model is configured; run `agentls doctor`");
        }
        Ok(())
    }

    async fn set_model(&mut self, model: String, effort: Option<Effort>) -> Result<(), ClientError> {
        let params = SetModelParams {
            session_id: self.session.clone(),
            model: model.clone(),
            effort,
        };
        let _: EmptyResult = self.request(method::SET_MODEL, &params).await?;
        self.view.set_known_model(Some(&model));
        self.show_success(&format!("now using {model}"));
        self.launch.model = Some(model);
        Ok(())
    }

    fn show_modes(&mut self) {
        let styler = self.view.screen.styler;
        for (mode, name, means) in MODES {
            let mark = styler.current_mark(mode == self.mode);
            self.show_row(&format!("{mark} {name:<9} "), 12, means);
        }
    }

    async fn set_mode(&mut self, mode: Mode) -> Result<(), ClientError> {
        let session_id = self.session.clone();
        let _: EmptyResult = self
            .request(method::SET_MODE, &SetModeParams { session_id, mode })
            .await?;
        self.note_mode(mode);
        self.show_success(&format!("mode {}", mode_name(mode)));
        Ok(())
    }

    async fn show_sessions(&mut self, words: Option<String>) -> Result<(), ClientError> {
        let params = ListSessionsParams {
            query: words,
            limit: Some(20),
            ..ListSessionsParams::default()
        };
        let listed: ListSessionsResult = self.request(method::LIST_SESSIONS, &params).await?;
        let styler = self.view.screen.styler;
        let now = clock::wall_ms();
        let width = self.view.screen.width();
        for (number, session) in listed.sessions.iter().enumerate() {
            let is_here = session.session_id == self.session;
            let here = if is_here { "●" } else { " " };
            let title = session.title.as_deref().unwrap_or("(no prompt yet)");
            let wide = width >= 70;
            let title = fit_line(title, width.saturating_sub(if wide { 46 } else { 8 }));
            let folder = format_path(Path::new(&session.cwd), self.home.as_deref());
            let about = format!("{} · {folder}", format_age(session.updated_at, now));
            let about = styler.dim_text(&fit_line(&about, if wide { 38 } else { width.saturating_sub(8) }));
            let between = if wide {
                " ".repeat(width - 44 - columns(&title))
            } else {
                "\n      ".to_owned()
            };
            let number = number + 1;
            let line = format!("{number:>3} {here} {title}{between}{about}");
            self.view.screen.write_line(&line);
            if let Some(snippet) = &session.snippet {
                let snippet = styler.dim_text(&fit_line(snippet, width.saturating_sub(8)));
                self.view.screen.write_line(&format!("      {snippet}"));
            }
        }
        let none = listed.sessions.is_empty();
        self.show_hint(if none { "none" } else { "/load NUMBER opens one" });
        let ids = listed.sessions.into_iter().map(|session| session.session_id);
        self.listed = ids.collect();
        Ok(())
    }

    fn show_cost(&mut self) {
        let line = match self.view.usage() {
            None => "no request yet".to_owned(),
            Some(usage) => {
                let spent = &usage.session;
                let tokens = &spent.tokens;
                let tokens_in = tokens.input_tokens + tokens.cache_read_tokens + tokens.cache_write_tokens;
                let cost = cost_of_use(spent.cost_usd);
                format!(
                    "{cost} · {} tokens in ({} from the cache), {} out · context {} of {}",
                    format_tokens(tokens_in),
                    format_tokens(tokens.cache_read_tokens),
                    format_tokens(tokens.output_tokens),
                    format_tokens(usage.context_used),
                    format_tokens(usage.context_window),
                )
            }
        };
        self.show_hint(line);
    }

    async fn show_tools(&mut self) -> Result<(), ClientError> {
        let params = ListToolsParams {
            session_id: Some(self.session.clone()),
        };
        let listed: ListToolsResult = self.request(method::LIST_TOOLS, &params).await?;
        let styler = self.view.screen.styler;
        let available = self.view.screen.width().saturating_sub(16);
        for tool in &listed.tools {
            let first = tool.description.split(". ").next().unwrap_or_default();
            let first = styler.dim_text(&fit_line(first, available));
            self.view
                .screen
                .write_line(&format!("  {:<13} {first}", tool.name));
        }
        Ok(())
    }

    async fn show_grants(&mut self) -> Result<(), ClientError> {
        let params = ListGrantsParams {
            session_id: Some(self.session.clone()),
        };
        let listed: ListGrantsResult = self.request(method::LIST_GRANTS, &params).await?;
        let styler = self.view.screen.styler;
        for (number, grant) in listed.grants.iter().enumerate() {
            let scope = match grant.scope {
                GrantScope::Session => "this session",
                GrantScope::Workspace => "this folder, always",
            };
            // Never cut a rule: a user must see all of what it allows.
            let rule = text::reveal_hidden_characters(&grant.rule).replace(['\n', '\t'], " ");
            let screen = &mut self.view.screen;
            screen.write_entry(&format!("{:>3}  ", number + 1), 5, &rule);
            screen.write_line(&format!("     {}", styler.dim_text(scope)));
        }
        self.show_hint(if listed.grants.is_empty() {
            "nothing is allowed beyond single calls"
        } else {
            "/grants revoke NUMBER revokes one"
        });
        self.granted = listed.grants.into_iter().map(|grant| grant.grant_id).collect();
        Ok(())
    }

    async fn reload_config(&mut self) -> Result<(), ClientError> {
        let result: ReloadConfigResult = self
            .request(method::RELOAD_CONFIG, &ReloadConfigParams {})
            .await?;
        // A warning of the server has named each problem.
        if result.problems.is_empty() {
            self.show_success("reloaded the configuration; no problems");
        }
        Ok(())
    }
}

/// Resolves a number of the last list to its id; `None` if the list has no such number. Other text is already an id.
fn resolve_list_number(listed: &[String], which: String) -> Option<String> {
    match which.parse::<usize>() {
        Ok(number) => listed.get(number.checked_sub(1)?).cloned(),
        Err(_) => Some(which),
    }
}
