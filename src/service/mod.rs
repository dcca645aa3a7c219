//! The shell around the decisions: endpoint, connector, sweeper, clock.

mod as4;
pub mod budget;
pub mod clock;
pub mod config;
pub mod connector;
pub mod observe;
pub mod pool;
mod readiness;
pub mod running;
mod sweep;
pub mod tasks;
