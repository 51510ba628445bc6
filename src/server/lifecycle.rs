//! Before the library's service: what it leaves open of LSP's life cycle, and its refusals in our words.
//!
//! `agent/*` begins with `initialized`, which an LSP client sends before any other request: a prompt's answer
//! would otherwise overtake its notifications, of which none may leave before (R-WIRE). Takes a `shutdown`
//! with params. The words come from the one table of errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt};
use tower_lsp::jsonrpc::{self, ErrorCode, Request, Response};
use tower_service::Service;

use super::error::{NOT_INITIALIZED, RequestError};

/// A service behind the gate.
#[derive(Debug)]
pub(super) struct LifecycleGate<S> {
    inner: S,
    /// `initialize` was answered well.
    answered: Arc<AtomicBool>,
    /// The client said `initialized` after that.
    open: bool,
    /// The client asked for `shutdown`.
    shut: bool,
}

impl<S> LifecycleGate<S> {
    pub(super) fn new(inner: S) -> Self {
        Self {
            inner,
            answered: Arc::default(),
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
            self.open |= request.method() == "initialized" && self.answered.load(Ordering::Relaxed);
            return self.inner.call(request).boxed();
        };
        let initialize = request.method() == "initialize";
        let shutdown = request.method() == "shutdown";
        if request.method().starts_with("agent/") && !self.open && !self.shut {
            let refused = Response::from_error(id, RequestError::NotInitialized.into());
            return futures::future::ready(Ok(Some(refused))).boxed();
        }
        self.shut |= shutdown && self.answered.load(Ordering::Relaxed);
        let request = if shutdown {
            Request::build("shutdown").id(id).finish()
        } else {
            request
        };
        let again = initialize && !self.shut;
        let answered = self.answered.clone();
        let answering = self.inner.call(request);
        async move {
            let response = answering.await?;
            let well = response.as_ref().is_some_and(Response::is_ok);
            if initialize && well {
                answered.store(true, Ordering::Relaxed);
            }
            Ok(response.map(|response| in_our_words(response, again)))
        }
        .boxed()
    }
}

/// The library refuses without `data`, in one of two ways.
fn in_our_words(response: Response, again: bool) -> Response {
    let said = match response.error() {
        Some(error) if error.data.is_none() => error.code,
        _ => return response,
    };
    let ours = if said.code() == NOT_INITIALIZED {
        RequestError::NotInitialized
    } else if said == ErrorCode::InvalidRequest && again {
        RequestError::AlreadyInitialized
    } else if said == ErrorCode::InvalidRequest {
        RequestError::ShuttingDown
    } else {
        return response;
    };
    Response::from_error(response.id().clone(), jsonrpc::Error::from(ours))
}
