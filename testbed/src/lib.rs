//! Black-box test machinery for OncePoint: a throw-away PKI, an access point of its own that composes
//! messages, a client, a way to start and crash the real binary, and the demo and load tools made of them.
//!
//! Nothing here uses the product's own wire or security code. What the composer writes and what the product
//! reads are two opinions on the same standards, so that they can judge each other.

pub mod campaign;
pub mod client;
pub mod clock;
pub mod composer;
pub mod connector;
pub mod demo;
pub mod fault;
pub mod load;
pub mod peers;
pub mod pki;
pub mod process;
pub mod product;
pub mod receipt;
pub mod sbd;
pub mod scene;
pub mod xml;

pub use fault::Fault;
