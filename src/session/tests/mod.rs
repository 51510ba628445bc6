//! Sessions over a real store: loading and leaving them, turns with a scripted model, forks of them.

mod ends;
mod forks;
mod loading;
mod subagents;
mod turns;
mod waiting;
