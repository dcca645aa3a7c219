//! Bytes to nouns and back. Limits, no policy.
//!
//! Everything that came from outside passes here first, so every reader is bounded in memory and time and
//! none of them panics. Readers of unbounded input are fed piece by piece and hand out pieces.

pub mod c14n;
pub mod ebms;
pub mod gzip;
pub mod mime;
pub mod sbdh;
pub mod scan;
pub mod soap;
pub mod xml;
