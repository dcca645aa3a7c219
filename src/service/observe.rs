//! What an operator sees of messages: one log line each, and counters.
//!
//! Guarantees: texts of peers are escaped and cut before they reach a line; payloads, keys and tokens never
//! do. Labels come from closed lists, so no peer can make the counters grow.

use std::{fmt::Write as _, net::IpAddr, time::Duration};

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder as _};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::{
    model::{Digest, ItemId, Timestamp},
    store::{Health, journal::IndexState},
};

/// Longest text of a peer in a log line, in characters (`as4-wire` §10.15).
pub const LOGGED_CHARS_MAX: usize = 255;
/// Upper bounds of the classes of the time to an answer, in seconds.
const SECONDS: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0, 20.0];

const METADATA: Metadata<'static> = Metadata::new("oncepoint", Level::INFO, Some("oncepoint"));

/// What became of a message, for counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Receipted and in the inbox (or a ping).
    Accepted,
    /// A repeat; which kind.
    Repeat(RepeatKind),
    /// Other content under a known MessageId.
    Conflict,
    /// Refused for good; the `@errorCode` or a name of ours, from a closed list.
    Refused(&'static str),
    /// Answered with 503.
    Unavailable,
    /// The sender went away in the middle.
    Broken,
}

/// Kinds of repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatKind {
    /// The same bytes, or encrypted anew.
    Identical,
    /// Signed anew.
    Resigned,
    /// Compressed or wrapped anew.
    Rewrapped,
}

impl RepeatKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Identical => "identical",
            Self::Resigned => "resigned",
            Self::Rewrapped => "rewrapped",
        }
    }
}

impl Counted {
    /// The name in log lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Repeat(_) => "duplicate",
            Self::Conflict => "conflict",
            Self::Refused(_) => "refused",
            Self::Unavailable => "unavailable",
            Self::Broken => "broken",
        }
    }
}

/// One line about one message.
#[derive(Debug)]
pub struct MessageLine<'a> {
    /// What became of it.
    pub counted: Counted,
    /// Its MessageId, as far as it was read.
    pub message_id: Option<&'a str>,
    /// The sending access point, as far as it was read.
    pub sender: Option<&'a str>,
    /// Where the connection came from.
    pub peer: IpAddr,
    /// HTTP status of the answer.
    pub status: u16,
    /// SHA-256 of the answer.
    pub answer: Digest,
    /// The accepted item, or the first message of a repeat.
    pub item: Option<ItemId>,
    /// Flags and cause.
    pub detail: &'a str,
    /// Bytes on the wire.
    pub bytes: u64,
    /// From head to answer.
    pub took: Duration,
}

/// Counters and lines of one service.
pub struct Observe {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    received: Counter,
    received_bytes: Counter,
    in_flight: Gauge,
    seconds: Histogram,
}

impl std::fmt::Debug for Observe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observe").finish_non_exhaustive()
    }
}

impl Default for Observe {
    fn default() -> Self {
        // Fixed, non-empty bounds cannot be refused; without them the exporter falls back to quantiles.
        let builder = PrometheusBuilder::new();
        let builder = builder.set_buckets(&SECONDS).unwrap_or_default();
        let recorder = builder.build_recorder();
        let key = |name| Key::from_static_name(name);
        Self {
            handle: recorder.handle(),
            received: recorder.register_counter(&key("oncepoint_received_total"), &METADATA),
            received_bytes: recorder.register_counter(&key("oncepoint_received_bytes_total"), &METADATA),
            in_flight: recorder.register_gauge(&key("oncepoint_in_flight"), &METADATA),
            seconds: recorder.register_histogram(&key("oncepoint_receive_seconds"), &METADATA),
            recorder,
        }
    }
}

impl Observe {
    /// A message began; the guard counts it as in flight.
    pub fn begin(&self) -> InFlight {
        self.received.increment(1);
        self.in_flight.increment(1.0);
        InFlight(self.in_flight.clone())
    }

    /// A message has its answer.
    pub fn count(&self, line: &MessageLine<'_>) {
        self.received_bytes.increment(line.bytes);
        self.seconds.record(line.took.as_secs_f64());
        self.outcome(line.counted);
    }

    /// A request that was no message at all.
    pub fn rejected(&self, peer: IpAddr, status: u16) {
        self.labelled("oncepoint_rejected_total", "status", http_code(status));
        tracing::info!(%peer, status, "request rejected");
    }

    /// A note about a message that could not be kept.
    pub fn note_lost(&self) {
        self.plain("oncepoint_notes_lost_total");
    }

    fn outcome(&self, counted: Counted) {
        match counted {
            Counted::Accepted => self.plain("oncepoint_accepted_total"),
            Counted::Repeat(kind) => self.labelled("oncepoint_duplicates_total", "kind", kind.as_str()),
            Counted::Conflict => self.plain("oncepoint_conflicts_total"),
            Counted::Refused(code) => self.labelled("oncepoint_refused_total", "code", code),
            Counted::Unavailable => self.plain("oncepoint_unavailable_total"),
            Counted::Broken => self.plain("oncepoint_broken_total"),
        }
    }

    fn plain(&self, name: &'static str) {
        self.recorder.register_counter(&Key::from_static_name(name), &METADATA).increment(1);
    }

    fn labelled(&self, name: &'static str, label: &'static str, value: &'static str) {
        let key = Key::from_parts(name, vec![Label::from_static_parts(label, value)]);
        self.recorder.register_counter(&key, &METADATA).increment(1);
    }

    fn gauge(&self, name: &'static str, value: f64) {
        self.recorder.register_gauge(&Key::from_static_name(name), &METADATA).set(value);
    }

    /// Everything in Prometheus' text form, with the state of the store as it is now.
    #[must_use]
    pub fn render(&self, health: &Health, now: Timestamp) -> String {
        self.gauge("oncepoint_store_accepting", if health.accepting.is_ok() { 1.0 } else { 0.0 });
        self.gauge("oncepoint_inbox_open", float(health.open_items));
        let oldest = health.oldest_open.map_or(Duration::ZERO, |at| now.since(at).as_duration());
        self.gauge("oncepoint_inbox_oldest_seconds", oldest.as_secs_f64());
        self.gauge("oncepoint_claims", float(health.claims));
        self.gauge("oncepoint_records_not_kept", float(health.records_not_kept));
        if let Some(journal) = &health.journal {
            self.gauge("oncepoint_fdatasync_seconds_p50", journal.sync_p50.as_secs_f64());
            self.gauge("oncepoint_fdatasync_seconds_p99", journal.sync_p99.as_secs_f64());
            self.gauge("oncepoint_journal_bytes", float(journal.octets));
            self.gauge("oncepoint_journal_segments", float(journal.segments));
            self.gauge("oncepoint_disk_free_bytes", float(journal.free_octets));
            self.gauge("oncepoint_index_faults", float(journal.index_faults));
            self.gauge("oncepoint_index_state", index_state(&journal.index));
        }
        self.handle.render()
    }

    /// Folds measured times into their classes; called now and then, so that they do not pile up.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

/// Writes the line of a message.
pub fn log(line: &MessageLine<'_>) {
    let millis = u64::try_from(line.took.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(
        message_id = line.message_id.map(escaped).as_deref(),
        sender = line.sender.map(escaped).as_deref(),
        peer = %line.peer,
        outcome = line.counted.as_str(),
        status = line.status,
        item = line.item.map(tracing::field::display),
        detail = %escaped(line.detail),
        bytes = line.bytes,
        ms = millis,
        answer_sha256 = %line.answer,
        "message"
    );
}

/// Counts a message as in flight until it is dropped.
#[derive(Debug)]
pub struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// 0 off, 1 building, 2 ready, 3 dead.
const fn index_state(state: &IndexState) -> f64 {
    match state {
        IndexState::Off => 0.0,
        IndexState::Building => 1.0,
        IndexState::Ready => 2.0,
        IndexState::Dead => 3.0,
    }
}

fn float(number: impl TryInto<u64>) -> f64 {
    let number: u64 = number.try_into().unwrap_or(u64::MAX);
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float by its format")]
    let float = number as f64;
    float
}

/// The label of an HTTP status that we answer with.
#[must_use]
pub const fn http_code(status: u16) -> &'static str {
    match status {
        400 => "http_400",
        404 => "http_404",
        405 => "http_405",
        408 => "http_408",
        413 => "http_413",
        415 => "http_415",
        500 => "http_500",
        503 => "http_503",
        _ => "http_other",
    }
}

/// A text of a peer, safe to print: control characters escaped, cut to [`LOGGED_CHARS_MAX`].
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars().take(LOGGED_CHARS_MAX) {
        if c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
        {
            // Writing to a string cannot fail.
            let _ = write!(safe, "{}", c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    fn line(counted: Counted) -> MessageLine<'static> {
        MessageLine {
            counted,
            message_id: Some("a@b"),
            sender: Some("POP000001"),
            peer: IpAddr::from([127, 0, 0, 1]),
            status: 200,
            answer: Digest::of(b""),
            item: None,
            detail: "",
            bytes: 10,
            took: Duration::from_millis(3),
        }
    }

    #[test]
    fn a_text_of_a_peer_cannot_begin_a_line_of_its_own() {
        assert_eq!(escaped("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(escaped("a\u{202e}b"), "a\\u{202e}b");
        assert_eq!(escaped(&"x".repeat(LOGGED_CHARS_MAX)).len(), LOGGED_CHARS_MAX);
        assert_eq!(escaped(&"x".repeat(LOGGED_CHARS_MAX + 1)).len(), LOGGED_CHARS_MAX);
    }

    #[test]
    fn each_outcome_is_counted_under_its_name() {
        let observe = Observe::default();
        let guard = observe.begin();
        for counted in [
            Counted::Accepted,
            Counted::Repeat(RepeatKind::Resigned),
            Counted::Conflict,
            Counted::Refused("EBMS:0101"),
            Counted::Unavailable,
            Counted::Broken,
        ] {
            observe.count(&line(counted));
        }
        observe.rejected(IpAddr::from([127, 0, 0, 1]), 405);
        let text = observe.render(&Store::memory().health(), Timestamp::from_millis(0));
        for expected in [
            "oncepoint_received_total 1",
            "oncepoint_received_bytes_total 60",
            "oncepoint_accepted_total 1",
            "oncepoint_duplicates_total{kind=\"resigned\"} 1",
            "oncepoint_conflicts_total 1",
            "oncepoint_refused_total{code=\"EBMS:0101\"} 1",
            "oncepoint_unavailable_total 1",
            "oncepoint_broken_total 1",
            "oncepoint_rejected_total{status=\"http_405\"} 1",
            "oncepoint_in_flight 1",
            "oncepoint_store_accepting 1",
            "oncepoint_receive_seconds_count 6",
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected} in\n{text}");
        }
        drop(guard);
        let text = observe.render(&Store::memory().health(), Timestamp::from_millis(0));
        assert!(text.lines().any(|line| line == "oncepoint_in_flight 0"));
    }

    #[test]
    fn two_services_in_one_process_count_apart() {
        let (one, other) = (Observe::default(), Observe::default());
        one.count(&line(Counted::Accepted));
        let text = other.render(&Store::memory().health(), Timestamp::from_millis(0));
        assert!(!text.contains("oncepoint_accepted_total"));
    }
}
