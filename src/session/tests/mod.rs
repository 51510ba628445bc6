//! Sessions over a real store: loading and leaving them, and turns with a scripted model.

mod loading;
mod turns;
