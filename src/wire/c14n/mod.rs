//! Exclusive XML canonicalization 1.0, without comments.
//!
//! [`exclusive`] canonicalises a node of a [`super::xml::Document`]; [`StreamCanonicalizer`] a document of any
//! length while it passes by. Both keep the prefixes that were received: a canonical form cannot be had from an
//! object model that chose its own. libxml2 is the judge in `tests/c14n_oracle.rs`.
//!
//! <https://www.w3.org/TR/xml-exc-c14n/>

mod escape;
mod stream;
mod tree;

#[cfg(test)]
mod tests;

pub use stream::StreamCanonicalizer;
pub use tree::{exclusive, exclusive_children};
