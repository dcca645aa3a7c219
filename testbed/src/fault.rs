//! What goes wrong in a test run: either the set-up did, or the product broke a promise.

use std::{fmt::Display, io};

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The product did not do what it promises.
    #[error("broken promise: {0}")]
    Broken(String),
    /// The run could not be made, so nothing was found out.
    #[error("{0}")]
    Setup(String),
    /// A file or a socket.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// OpenSSL.
    #[error(transparent)]
    Crypto(#[from] openssl::error::ErrorStack),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// An answer that is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl Fault {
    /// A failed set-up, in words.
    pub fn setup(what: impl Display) -> Self {
        Self::Setup(what.to_string())
    }

    /// A broken promise, in words.
    pub fn broken(what: impl Display) -> Self {
        Self::Broken(what.to_string())
    }
}

/// Returns [`Fault::Broken`] from the calling function, with the words that follow, unless the condition holds.
#[macro_export]
macro_rules! demand {
    ($held:expr, $($words:tt)+) => {
        if !$held {
            return Err($crate::Fault::Broken(format!($($words)+)));
        }
    };
}
