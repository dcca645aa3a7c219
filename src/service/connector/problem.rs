//! Errors of the connector: RFC 9457 `application/problem+json` with a stable `code` and `retryable`.

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
    response::IntoResponse,
};
use serde_json::json;

use crate::store::{AnswerError, StoreError};

/// How long a caller should wait after a fault of ours, in seconds.
const RETRY_AFTER_S: u32 = 5;

tokio::task_local! {
    /// The trace id of the request that is being answered.
    pub(super) static TRACE: String;
}

/// Whether the same call may work later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// No: change the call.
    Never,
    /// Yes, after so many seconds.
    After(u32),
}

/// An error for the caller. Its texts never carry more than the caller sent or may see.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    retry: Retry,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), retry: Retry::Never }
    }

    /// A call that can never work as it is.
    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", detail)
    }

    /// No such item, or none that this key may see.
    pub(super) fn unknown_item() -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown_item", "there is no such item here")
    }

    /// The stored bytes do not read back as they were written.
    pub(super) fn damaged() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "stored_item_damaged",
            "the stored bytes fail their checksum; an operator must look at the store",
        )
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store could not serve the connector");
        let problem =
            Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", "the store is not available");
        Self { retry: Retry::After(RETRY_AFTER_S), ..problem }
    }
}

impl From<AnswerError> for Problem {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Unreadable => Self::damaged(),
            AnswerError::Gone => Self::unknown_item(),
            AnswerError::Store(error) => error.into(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let trace = TRACE.try_with(Clone::clone).ok();
        let (retryable, retry_after_s) = match self.retry {
            Retry::Never => (false, None),
            Retry::After(seconds) => (true, Some(seconds)),
        };
        let body = json!({
            "type": format!("urn:oncepoint:problem:{}", self.code),
            "title": self.status.canonical_reason(),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
            "retryable": retryable,
            "retry_after_s": retry_after_s,
            "trace_id": trace,
        });
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
