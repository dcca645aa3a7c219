//! Whether the service can do its work, part by part.

use super::connector::{PartHealth, Readiness};
use crate::{
    exchange::Site,
    model::{Span, Timestamp},
    store::{Health, StoreError},
};

/// A clock before this is not set: the year in which this was written.
const CLOCK_MIN: Timestamp = Timestamp::from_millis(1_767_225_600_000);
/// Days before the end of a certificate that are worth a word.
const EXPIRY_NOTICE: Span = Span::days(60);

/// Judges the parts: `store`, `disk`, `certificate`, `clock`.
pub(super) fn readiness(health: &Health, site: &Site, now: Timestamp) -> Readiness {
    let mut parts = vec![store(health), disk(health)];
    parts.extend(site.identities.iter().map(|identity| {
        let (key, seat) = (&identity.key, identity.key.seat());
        certificate(seat.as_str(), key.not_before(), key.not_after(), now)
    }));
    parts.push(clock(now));
    Readiness { parts }
}

fn good(part: &'static str, detail: impl Into<String>) -> PartHealth {
    PartHealth { part, ready: true, detail: detail.into() }
}

fn bad(part: &'static str, detail: impl Into<String>) -> PartHealth {
    PartHealth { part, ready: false, detail: detail.into() }
}

fn store(health: &Health) -> PartHealth {
    match &health.accepting {
        Ok(()) | Err(StoreError::Full) => good("store", "the log takes records"),
        Err(error) => bad("store", error.to_string()),
    }
}

fn disk(health: &Health) -> PartHealth {
    let free = health.journal.as_ref().map(|journal| format!("{} bytes free", journal.free_octets));
    let detail = free.unwrap_or_else(|| "in memory".to_owned());
    if health.accepting == Err(StoreError::Full) { bad("disk", detail) } else { good("disk", detail) }
}

fn certificate(seat: &str, from: Timestamp, to: Timestamp, now: Timestamp) -> PartHealth {
    let name = "certificate";
    if now > to {
        return bad(name, format!("the certificate of {seat} expired at {to}"));
    }
    if now < from {
        return bad(name, format!("the certificate of {seat} is valid from {from} on"));
    }
    let soon = if now.plus(EXPIRY_NOTICE) > to { "; renew it" } else { "" };
    good(name, format!("{seat} until {to}{soon}"))
}

fn clock(now: Timestamp) -> PartHealth {
    if now < CLOCK_MIN { bad("clock", now.to_string()) } else { good("clock", now.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    #[test]
    fn a_certificate_is_good_from_its_first_to_its_last_instant() {
        let (from, to) = (at("2026-01-01T00:00:00Z"), at("2028-01-01T00:00:00Z"));
        let ready = |now| certificate("POP000001", from, to, now).ready;
        assert!(ready(from) && ready(to));
        assert!(!ready(from.minus(Span::millis(1))) && !ready(to.plus(Span::millis(1))));
        assert!(certificate("POP000001", from, to, to.minus(Span::days(59))).detail.ends_with("renew it"));
    }

    #[test]
    fn a_full_disk_and_a_broken_log_are_told_apart() {
        let backend = Store::memory();
        let ready = |backend: &Store| (store(&backend.health()).ready, disk(&backend.health()).ready);
        assert_eq!(ready(&backend), (true, true));
        backend.set_fault(Some(StoreError::Full));
        assert_eq!(ready(&backend), (true, false));
        backend.set_fault(Some(StoreError::Poisoned("EIO".to_owned())));
        assert_eq!(ready(&backend), (false, true));
    }

    #[test]
    fn a_clock_that_was_never_set_is_not_ready() {
        assert!(!clock(Timestamp::from_millis(0)).ready);
        assert!(clock(CLOCK_MIN).ready);
    }
}
