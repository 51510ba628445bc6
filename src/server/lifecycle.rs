//! Sits in front of the library's service: the parts of LSP's life cycle that it leaves open, in our error texts.
//!
//! `agent/*` starts with `initialized`, which an LSP client sends before any other request. No notification may leave
//! before it, so an earlier prompt's answer would overtake its notifications (R-WIRE). Also accepts a `shutdown` with
//! params. The texts come from the one table in [`super::error`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt};
use tower_lsp::jsonrpc::{self, ErrorCode, Request, Response};
use tower_service::Service;

use super::error::{NOT_INITIALIZED, RequestError};

/// A service that enforces the life cycle.
#[derive(Debug)]
pub(super) struct LifecycleGate<S> {
    inner: S,
    /// Whether `initialize` succeeded.
    is_initialized: Arc<AtomicBool>,
    /// Whether the client sent `initialized` after that.
    open: bool,
    /// Whether the client requested `shutdown` after that.
    shut: bool,
}

impl<S> LifecycleGate<S> {
    pub(super) fn new(inner: S) -> Self {
        Self {
            inner,
            is_initialized: Arc::default(),
            open: false,
            shut: false,
        }
    }
}

impl<S> Service<Request> for LifecycleGate<S>
where
    S: Service<Request, Response = Option<Response>>,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Option<Response>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Option<Response>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Some(id) = request.id().cloned() else {
            // An `initialized` before the answer to `initialize` does not open the gate.
            self.open |= request.method() == "initialized" && self.is_initialized.load(Ordering::Relaxed);
            return self.inner.call(request).boxed();
        };
        let initialize = request.method() == "initialize";
        let shutdown = request.method() == "shutdown";
        // After `shutdown` the library refuses by itself.
        if request.method().starts_with("agent/") && !self.open && !self.shut {
            let refused = Response::from_error(id, RequestError::NotInitialized.into());
            return futures::future::ready(Ok(Some(refused))).boxed();
        }
        self.shut |= shutdown && self.is_initialized.load(Ordering::Relaxed);
        let request = if shutdown {
            Request::build("shutdown").id(id).finish()
        } else {
            request
        };
        // The library answers `InvalidRequest` to a second `initialize` and to anything after `shutdown`.
        let is_repeated = initialize && !self.shut;
        let is_initialized = self.is_initialized.clone();
        let answering = self.inner.call(request);
        async move {
            let response = answering.await?;
            let well = response.as_ref().is_some_and(Response::is_ok);
            if initialize && well {
                is_initialized.store(true, Ordering::Relaxed);
            }
            Ok(response.map(|response| replace_library_error(response, is_repeated)))
        }
        .boxed()
    }
}

/// Replaces the library's two kinds of refusals, which carry no `data`, by ours.
fn replace_library_error(response: Response, is_repeated: bool) -> Response {
    let code = match response.error() {
        Some(error) if error.data.is_none() => error.code,
        _ => return response,
    };
    let ours = if code.code() == NOT_INITIALIZED {
        RequestError::NotInitialized
    } else if code == ErrorCode::InvalidRequest && is_repeated {
        RequestError::AlreadyInitialized
    } else if code == ErrorCode::InvalidRequest {
        RequestError::ShuttingDown
    } else {
        return response;
    };
    Response::from_error(response.id().clone(), jsonrpc::Error::from(ours))
}
