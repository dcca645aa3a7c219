//! The shell around the decisions: endpoint, connector, sweeper, clock.

pub mod budget;
pub mod clock;
pub mod config;
pub mod connector;
pub mod pool;
