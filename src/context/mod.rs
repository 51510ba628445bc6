//! What the model sees: history, prompt assembly, token estimates.
