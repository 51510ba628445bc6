//! Terminal clients of the server: demo, chat, run, sessions, doctor, config.
//!
//! They start a server of their own and talk to it over its stdin and stdout, as an editor does; they know
//! the protocol and nothing behind it. In reading order: [`client`] is the connection; `turn` sees one turn
//! through; `view` shows it by `blocks` and `markdown` on a `screen`; the commands stand beside them.

mod args;
mod blocks;
mod client;
mod demo;
mod flow;
mod highlight;
mod keys;
mod markdown;
mod screen;
mod style;
mod turn;
mod view;

pub use args::{Arguments, Command, Shared};

use std::io::IsTerminal;

use crate::config::Env;

/// Runs a command that is a client; its exit code.
pub async fn run(command: Command, _shared: &Shared) -> i32 {
    let env = Env::real();
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    match command {
        Command::Serve { .. } => 0,
        Command::Demo { yes } => demo::demo(yes, &env, terminal).await,
    }
}
