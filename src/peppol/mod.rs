//! Rules of the Peppol network.
//!
//! [`Check`] is the list of what a receiving access point checks, in its order; [`header`] and [`envelope`]
//! hold the functions of those that need neither keys nor storage. Each refusal is a [`Violation`] with a
//! stable name.

mod checks;
pub mod envelope;
pub mod header;
pub mod identifiers;
pub mod participants;
mod violation;

pub use checks::Check;
pub use envelope::{Business, Warning};
pub use participants::{Participant, Participants, ParticipantsError};
pub use violation::{Fault, Violation};
