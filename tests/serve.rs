//! The service as its peers and backends meet it: black box over loopback, with real sockets and real TLS.
//!
//! No test sleeps. Where a time limit is looked at, the runtime's clock is paused: it jumps to the next
//! deadline as soon as nothing else can happen.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops where the answer is not one, and says what it skips"
)]

#[path = "serve/client.rs"]
mod client;
#[path = "serve/connector.rs"]
mod connector;
#[path = "serve/house.rs"]
mod house;
#[path = "serve/limits.rs"]
mod limits;
#[path = "serve/repeats.rs"]
mod repeats;
#[path = "serve/shutdown.rs"]
mod shutdown;
#[path = "serve/vectors.rs"]
mod vectors;
