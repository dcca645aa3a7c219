//! OncePoint: an AS4 / Peppol Access Point message service handler.
//!
//! A document enters the backend once; whoever asks again gets the first receipt, byte for byte; nothing
//! that failed is ever taken for something that arrived.
//!
//! The crate is built in floors; a module imports only from lower ones (`tests/tidy.rs` holds the table).
//! The lower half is pure: no clock, disk, network, randomness or async.

pub mod cli;
pub mod config;
pub mod exchange;
pub mod model;
pub mod net;
pub mod peppol;
pub mod pmode;
pub mod security;
pub mod service;
pub mod store;
pub mod wire;
