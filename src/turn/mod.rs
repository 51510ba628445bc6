//! The agent loop: pure transitions, and the driver that does the I/O.
