//! Transport only: TLS, HTTP/1.1, sizes and times. Knows no AS4.

pub mod body;
mod pace;
pub mod server;
pub mod tls;
