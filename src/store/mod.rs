//! SQLite: durable events, partial text, search; one writer, many readers.
