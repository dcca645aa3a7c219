//! Rules of the Peppol network.

pub mod identifiers;
pub mod participants;

pub use participants::{Participant, Participants, ParticipantsError};
