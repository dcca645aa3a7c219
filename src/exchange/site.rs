//! What an access point is: its seats, its agreements, whom it trusts and whom it serves.

use std::sync::Arc;

use crate::{
    model::{PartyId, Tenant},
    peppol::Participants,
    pmode::PModes,
    security::{key::OwnKey, trust::Trust},
};

/// Decompressed bytes of one message at most, unless configured otherwise (`operating`).
pub const PAYLOAD_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// How many times its compressed size a payload may be, counted after the first MiB (`as4-wire` §10.6).
pub const RATIO_MAX: u64 = 200;

/// Everything that decisions depend on besides the message. Replaced as a whole when it is reloaded.
#[derive(Debug, Clone)]
pub struct Site {
    /// Our seats; the first signs what concerns none of them.
    pub identities: Vec<Arc<Identity>>,
    /// The agreements.
    pub pmodes: PModes,
    /// Whom we trust to be an access point.
    pub trust: Trust,
    /// Whom we serve.
    pub participants: Participants,
    /// What is taken of one message at most.
    pub limits: PayloadLimits,
}

/// A seat of ours: certificate and key, and whose backend gets what is addressed to it.
#[derive(Debug)]
pub struct Identity {
    /// Certificate and key.
    pub key: Arc<OwnKey>,
    /// Part of the key of every message to this seat.
    pub tenant: Tenant,
}

/// Limits against decompression bombs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadLimits {
    /// Decompressed bytes of one message.
    pub payload_bytes_max: u64,
    /// Decompressed bytes for each compressed one.
    pub ratio_max: u64,
}

impl Default for PayloadLimits {
    fn default() -> Self {
        Self { payload_bytes_max: PAYLOAD_BYTES_MAX, ratio_max: RATIO_MAX }
    }
}

impl Site {
    /// The seat that a message is addressed to.
    #[must_use]
    pub fn identity(&self, to: &PartyId) -> Option<&Arc<Identity>> {
        self.identities.iter().find(|identity| identity.key.seat() == to)
    }

    /// Every seat.
    #[must_use]
    pub fn seats(&self) -> Vec<&PartyId> {
        self.identities.iter().map(|identity| identity.key.seat()).collect()
    }
}
