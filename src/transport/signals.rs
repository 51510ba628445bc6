//! Signals to the process that end serving in an orderly way. Knows nothing of what is served.

use crate::base::CancellationToken;

/// Cancels `root`, which ends serving in an orderly way, on SIGTERM, SIGINT or SIGHUP.
pub async fn end_on_signal(root: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let listen =
        |kind| signal(kind).inspect_err(|error| tracing::warn!(%error, "a signal is not listened to"));
    let (Ok(mut term), Ok(mut int), Ok(mut hup)) = (
        listen(SignalKind::terminate()),
        listen(SignalKind::interrupt()),
        listen(SignalKind::hangup()),
    ) else {
        return;
    };
    tokio::select! { biased;
        _ = term.recv() => {}
        _ = int.recv() => {}
        _ = hup.recv() => {}
    }
    root.cancel();
}
