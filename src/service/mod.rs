//! The shell around the decisions: endpoint, connector, sweeper, clock.

pub mod connector;
