//! Terminal clients of the server: demo, chat, run, sessions, doctor, config.
