//! The inbox: what the backend has not yet taken.
//!
//! States: available → leased → acked, or dead after too many deliveries. Every change is a frame and is
//! durable before anybody hears of it; an item stays in memory only until it is acked.

mod board;
mod delivery;
mod operations;

pub(crate) use board::Board;
pub use delivery::{
    AckResult, DeliveryEvent, ExtendResult, ItemState, Lease, NackResult, Redelivery, RequeueResult,
};
pub(crate) use delivery::{DeliveryHead, DeliveryState, Phase};
pub use operations::{Ack, DELIVERIES_MAX, Extend, InboxClaim, InboxFilter, Leased, Nack, NackThen};
