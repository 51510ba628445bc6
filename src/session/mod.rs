//! One task per session, the only writer of its state.
