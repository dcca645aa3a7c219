//! What to do with a message: values in, a decision out.

pub mod duplicate;
mod notice;

pub use notice::Notice;
