//! What to do with a message: values in, a decision out.
//!
//! A UserMessage comes in as `read` → `admit` → `duplicate::decide` → `open` → `accept` → `receipt`; each step
//! takes what only the step before can make. A [`Refusal`] keeps apart what the log and what the peer is told.

mod admitted;
pub mod duplicate;
mod notice;
pub mod open;
pub mod receipt;
pub mod receive;
mod refusal;
mod site;

pub use admitted::Admitted;
pub use notice::Notice;
pub use open::{Opened, OpenedPart};
pub use receive::{Accepted, Delivery};
pub use refusal::{
    FaultCode, NOT_SERVICED, RETRY_AFTER_FAULT, RETRY_AFTER_IN_PROGRESS, Refusal, RefusalAnswer,
    RefusalCause, Stage,
};
pub use site::{Identity, PAYLOAD_BYTES_MAX, PayloadLimits, RATIO_MAX, Site};

#[cfg(test)]
mod tests;
