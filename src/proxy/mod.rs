//! The proxy of a sandboxed command: connects it to allowed hosts, and to nothing else (R-BOX).
//!
//! The command is in a network of its own. The helper listens there, and passes the listening socket to the server: a
//! socket stays in the network in which it was made. So [`CommandProxy::serve`] accepts inside, connects outside, and
//! is the only way between them. It speaks HTTP: `CONNECT`, and requests that name a whole URL.
//!
//! - [`gate`] decides about a host: the settings, then what was answered in the session, then a question.
//! - [`dial`] resolves a name once, checks the addresses, and connects to one of these.
//! - [`serve`](mod@serve) accepts connections, within bounds, and [`forward`] answers their requests.
//!
//! Must not know tools, sessions, or settings. Nothing is resolved before its host is allowed: a lookup already sends
//! the name out.

mod command_proxy;
mod dial;
mod forward;
mod gate;
mod idle;
mod prompt;
mod report;
mod serve;

pub use command_proxy::CommandProxy;
pub use gate::SessionHosts;
pub use prompt::{HostPrompt, NoPrompt};
pub use report::ProxyReport;

#[cfg(test)]
mod tests;
