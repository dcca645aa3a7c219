//! One test for each row of the table in `duplicates` §2 and for each rule under it that the decision holds.

use super::*;
use crate::model::{Addressing, Digest, MessageId, PartDigest, PartyId, Service, Tenant};

const WINDOW: Span = Span::days(90);
const TRANSFORM: &str =
    "http://docs.oasis-open.org/wss/oasis-wss-SwAProfile-1.1#Attachment-Content-Signature-Transform";

fn digest(of: &str) -> Digest {
    Digest::of(of.as_bytes())
}

fn item(n: u128) -> ItemId {
    ItemId::from_uuid(uuid::Uuid::from_u128(n))
}

fn start() -> Timestamp {
    Timestamp::parse("2026-12-01T00:00:00Z").unwrap()
}

fn key(sender: &str, id: &str) -> MessageKey {
    MessageKey {
        tenant: Tenant::default_tenant(),
        sender: PartyId::parse(sender).unwrap(),
        message_id: MessageId::parse(id).unwrap(),
    }
}

/// Content before opening, of a payload that is known by one word.
fn content(payload: &str, envelope: &str) -> ContentRecord {
    ContentRecord {
        attachments: vec![PartDigest { transform: TRANSFORM.to_owned(), digest: digest(envelope) }],
        body_children: digest(""),
        addressing: Addressing {
            to: PartyId::parse("POP000002").unwrap(),
            to_type: Some("urn:fdc:peppol.eu:2017:identifiers:ap".to_owned()),
            service: Service { value: "urn:process".to_owned(), service_type: Some("s".to_owned()) },
            action: "busdox-docid-qns::x".to_owned(),
            original_sender: Some((Some("iso6523-actorid-upis".to_owned()), "0088:abc".to_owned())),
            final_recipient: Some((Some("iso6523-actorid-upis".to_owned()), "0192:974760673".to_owned())),
        },
        messaging: digest("messaging"),
        signature: digest("signature"),
        signer: digest("signer"),
        document: Some(digest(payload)),
        envelope: Some(digest(envelope)),
    }
}

fn first() -> Seen {
    Seen {
        item: item(1),
        key: key("POP000001", "m1@c2"),
        accepted_at: start(),
        expires_at: start().plus(WINDOW),
        content: content("invoice", "sbd"),
    }
}

/// What comes, and what is known when it comes.
struct Case {
    key: MessageKey,
    content: ContentRecord,
    scope: Scope,
    window: Span,
    timestamp: Timestamp,
    seen: Vec<Seen>,
    others: Vec<MessageKey>,
    signature: Option<ItemId>,
    after: Span,
}

/// The first message once more, an hour later.
fn repeat() -> Case {
    Case {
        key: first().key,
        content: first().content,
        scope: Scope::PartyId,
        window: WINDOW,
        timestamp: start(),
        seen: vec![first()],
        others: Vec::new(),
        signature: None,
        after: Span::minutes(60),
    }
}

/// A message that was signed anew: everything that a signature covers differs, but no content.
fn resigned() -> Case {
    let mut case = repeat();
    case.content.messaging = digest("messaging, signed anew");
    case.content.signature = digest("signature, signed anew");
    case.timestamp = start().plus(Span::minutes(59));
    case
}

impl Case {
    fn with(self, change: impl FnOnce(&mut Self)) -> Self {
        let mut case = self;
        change(&mut case);
        case
    }

    fn run(&self, judge: fn(&Arrival<'_>, &Memory<'_>, Timestamp) -> Decision) -> Decision {
        let arrival = Arrival {
            key: &self.key,
            content: &self.content,
            timestamp: self.timestamp,
            scope: self.scope,
            window: self.window,
        };
        let memory = Memory { seen: &self.seen, others: &self.others, signature_used_by: self.signature };
        judge(&arrival, &memory, start().plus(self.after))
    }

    /// The decision before decryption and, where it asks for that, the one after.
    fn check(&self, before: &Decision, opened: Option<&Decision>) {
        assert_eq!(&self.run(judge), before);
        if let Some(opened) = opened {
            assert_eq!(&self.run(judge_opened), opened);
        }
    }
}

fn new() -> Decision {
    Decision::Process(Vec::new())
}

fn replayed(notices: &[Notice]) -> Decision {
    Decision::Replay { index: 0, notices: notices.to_vec() }
}

const CONFLICT: Decision = Decision::Conflict { index: 0 };
const CLOSER: Decision = Decision::LookCloser { index: 0 };

// The rows of the table.

#[test]
fn a_first_message_is_processed() {
    repeat().with(|case| case.seen.clear()).check(&new(), Some(&new()));
}

#[test]
fn a_repeat_with_identical_messaging_gets_the_stored_answer() {
    repeat().check(&replayed(&[]), Some(&replayed(&[])));
}

#[test]
fn a_resigned_repeat_gets_the_stored_answer_and_is_flagged() {
    resigned().check(&replayed(&[Notice::RepeatResigned]), Some(&replayed(&[Notice::RepeatResigned])));
}

#[test]
fn a_reencrypted_repeat_is_a_repeat_because_no_ciphertext_is_compared() {
    // Content key and IV are in EncryptedKey and in the parts; neither is signed and neither is in the record.
    repeat().check(&replayed(&[]), None);
}

#[test]
fn a_repeat_by_a_renewed_certificate_gets_the_stored_answer() {
    resigned()
        .with(|case| case.content.signer = digest("renewed"))
        .check(&replayed(&[Notice::RepeatResigned]), None);
}

#[test]
fn a_repeat_compressed_anew_is_looked_at_closer_and_gets_the_stored_answer() {
    resigned()
        .with(|case| case.content.attachments[0].digest = digest("gzip with another time"))
        .check(&CLOSER, Some(&replayed(&[Notice::RepeatResigned, Notice::RepeatRewrapped])));
}

#[test]
fn a_repeat_with_the_same_messaging_but_compressed_anew_is_flagged_as_rewrapped_only() {
    repeat()
        .with(|case| case.content.attachments[0].digest = digest("gzip with another time"))
        .check(&CLOSER, Some(&replayed(&[Notice::RepeatRewrapped])));
}

#[test]
fn other_content_is_a_conflict_once_it_was_looked_at() {
    resigned().with(|case| case.content = content("order", "other sbd")).check(&CLOSER, Some(&CONFLICT));
}

#[test]
fn the_same_document_in_another_envelope_is_a_conflict() {
    // Another InstanceIdentifier: the envelope without CreationDateAndTime differs.
    resigned().with(|case| case.content = content("invoice", "other sbd")).check(&CLOSER, Some(&CONFLICT));
}

#[test]
fn an_equal_envelope_around_another_document_is_a_conflict() {
    resigned()
        .with(|case| {
            case.content = content("order", "sbd");
            case.content.attachments[0].digest = digest("other");
        })
        .check(&CLOSER, Some(&CONFLICT));
}

#[test]
fn what_could_not_be_opened_then_or_now_is_never_the_same_after_a_closer_look() {
    let unknown = |record: &mut ContentRecord| (record.document, record.envelope) = (None, None);
    resigned()
        .with(|case| {
            case.content.attachments.clear();
            unknown(&mut case.content);
            unknown(&mut case.seen[0].content);
        })
        .check(&CLOSER, Some(&CONFLICT));
}

#[test]
fn each_part_of_the_addressing_and_the_body_makes_other_content() {
    let changes: [fn(&mut ContentRecord); 9] = [
        |c| c.body_children = digest("child"),
        |c| c.addressing.to = PartyId::parse("POP000003").unwrap(),
        |c| c.addressing.to_type = None,
        |c| c.addressing.service.value.push('x'),
        |c| c.addressing.service.service_type = None,
        |c| c.addressing.action.push('x'),
        |c| c.addressing.original_sender.as_mut().unwrap().1.push('x'),
        |c| c.addressing.final_recipient = None,
        |c| c.addressing.final_recipient.as_mut().unwrap().0 = None,
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let case = resigned().with(|case| change(&mut case.content));
        assert_eq!(case.run(judge), CONFLICT, "change {n}");
        assert_eq!(case.run(judge_opened), CONFLICT, "change {n}");
    }
}

#[test]
fn participants_compare_without_case_and_other_properties_with_it() {
    let upper = |corner: &mut Option<(Option<String>, String)>| {
        let value = &mut corner.as_mut().unwrap().1;
        *value = value.to_ascii_uppercase();
    };
    resigned()
        .with(|case| upper(&mut case.content.addressing.original_sender))
        .check(&replayed(&[Notice::RepeatResigned]), None);
    let plain = |corner: &mut Option<(Option<String>, String)>| corner.as_mut().unwrap().0 = None;
    resigned()
        .with(|case| {
            plain(&mut case.content.addressing.original_sender);
            plain(&mut case.seen[0].content.addressing.original_sender);
            upper(&mut case.content.addressing.original_sender);
        })
        .check(&CONFLICT, None);
}

#[test]
fn attachments_compare_as_a_multiset_of_transform_and_digest() {
    let pair = |transform: &str, of: &str| PartDigest { transform: transform.to_owned(), digest: digest(of) };
    let two = vec![pair("t", "a"), pair("t", "b")];
    let case = |now: Vec<PartDigest>| {
        repeat().with(|case| {
            case.seen[0].content.attachments = two.clone();
            case.content.attachments = now;
        })
    };
    case(vec![pair("t", "b"), pair("t", "a")]).check(&replayed(&[]), None);
    case(vec![pair("t", "a"), pair("t", "a")]).check(&CLOSER, None);
    case(vec![pair("t", "a")]).check(&CLOSER, None);
    case(vec![pair("u", "a"), pair("t", "b")]).check(&CLOSER, None);
}

#[test]
fn a_message_without_payload_is_repeated_like_any_other() {
    resigned()
        .with(|case| {
            for record in [&mut case.content, &mut case.seen[0].content] {
                record.attachments.clear();
                (record.document, record.envelope) = (None, None);
            }
        })
        .check(&replayed(&[Notice::RepeatResigned]), Some(&replayed(&[Notice::RepeatResigned])));
}

#[test]
fn a_refused_or_failed_first_leaves_no_record_so_its_retry_is_new() {
    resigned().with(|case| case.seen.clear()).check(&new(), None);
}

#[test]
fn another_party_with_the_same_id_is_new_in_scope_party_and_id_and_raises_an_alert() {
    let notice = Decision::Process(vec![Notice::IdSeenFromOtherParty]);
    let other_index = repeat().with(|case| {
        case.key = key("POP000009", "m1@c2");
        case.seen.clear();
        case.others = vec![first().key];
    });
    other_index.check(&notice, Some(&notice));
    // A store that hands out more than the key changes nothing.
    repeat().with(|case| case.key = key("POP000009", "m1@c2")).check(&notice, None);
    assert!(Notice::IdSeenFromOtherParty.is_alert());
}

#[test]
fn one_s_own_key_in_the_index_of_others_raises_no_alert() {
    repeat()
        .with(|case| {
            case.seen.clear();
            case.others = vec![first().key];
        })
        .check(&new(), None);
}

#[test]
fn another_party_with_the_same_id_is_a_conflict_in_scope_id_even_with_the_same_content() {
    let case = repeat().with(|case| {
        case.scope = Scope::Id;
        case.key = key("POP000009", "m1@c2");
    });
    case.check(&CONFLICT, Some(&CONFLICT));
}

#[test]
fn in_scope_id_one_s_own_repeat_gets_its_own_answer_beside_another_party_s_record() {
    let mut foreign = first();
    (foreign.item, foreign.key) = (item(2), key("POP000009", "m1@c2"));
    repeat()
        .with(|case| {
            case.scope = Scope::Id;
            case.seen.insert(0, foreign);
        })
        .check(&Decision::Replay { index: 1, notices: Vec::new() }, None);
}

#[test]
fn in_scope_id_another_tenant_s_record_does_not_count() {
    repeat()
        .with(|case| {
            case.scope = Scope::Id;
            case.seen[0].key.tenant = Tenant::parse("other").unwrap();
            case.key.sender = PartyId::parse("POP000009").unwrap();
        })
        .check(&new(), None);
}

#[test]
fn in_scope_payload_other_content_under_the_same_id_is_new() {
    let case = repeat().with(|case| {
        case.scope = Scope::PartyIdPayload;
        case.content = content("order", "other sbd");
    });
    case.check(&CLOSER, Some(&new()));
    let addressed = repeat().with(|case| {
        case.scope = Scope::PartyIdPayload;
        case.content.addressing.action.push('x');
    });
    addressed.check(&new(), Some(&new()));
}

#[test]
fn in_scope_payload_a_message_repeats_the_one_with_its_content() {
    let mut second = first();
    (second.item, second.content) = (item(2), content("order", "other sbd"));
    let both = |case: &mut Case| {
        case.scope = Scope::PartyIdPayload;
        case.seen.push(second.clone());
    };
    repeat().with(both).check(&replayed(&[]), None);
    let of_second = repeat().with(both).with(|case| case.content = content("order", "other sbd"));
    of_second.check(&Decision::Replay { index: 1, notices: Vec::new() }, None);
    let rewrapped = of_second.with(|case| case.content.attachments[0].digest = digest("gzip anew"));
    let second = Decision::Replay { index: 1, notices: vec![Notice::RepeatRewrapped] };
    rewrapped.check(&CLOSER, Some(&second));
}

// The window.

#[test]
fn the_last_instant_of_the_window_is_inside_and_the_next_is_outside() {
    let at = |after: Span| repeat().with(|case| case.after = after);
    at(WINDOW).check(&replayed(&[]), None);
    let outside = Decision::Process(vec![Notice::RepeatOutsideWindow]);
    at(Span::millis(WINDOW.as_millis() + 1)).check(&outside, Some(&outside));
}

#[test]
fn outside_the_window_other_content_is_new_too() {
    let outside = Decision::Process(vec![Notice::RepeatOutsideWindow]);
    resigned()
        .with(|case| {
            case.after = Span::days(91);
            case.content = content("order", "other sbd");
        })
        .check(&outside, Some(&outside));
}

#[test]
fn of_the_window_then_and_the_window_now_the_longer_holds() {
    let then_longer = repeat().with(|case| {
        case.seen[0].expires_at = start().plus(Span::days(180));
        case.window = Span::days(30);
        case.after = Span::days(179);
    });
    then_longer.check(&replayed(&[]), None);
    let now_longer = repeat().with(|case| {
        case.seen[0].expires_at = start().plus(Span::days(30));
        case.window = Span::days(180);
        case.after = Span::days(179);
    });
    now_longer.check(&replayed(&[]), None);
}

#[test]
fn the_window_counts_from_the_first_and_not_from_the_last_repeat() {
    // A repeat changes no record: the same record, a repeat on day 89, another on day 91.
    repeat().with(|case| case.after = Span::days(89)).check(&replayed(&[]), None);
    repeat()
        .with(|case| case.after = Span::days(91))
        .check(&Decision::Process(vec![Notice::RepeatOutsideWindow]), None);
}

#[test]
fn a_message_older_than_the_window_is_new_with_a_warning_when_the_record_is_gone() {
    let old = |age: Span| {
        repeat().with(|case| {
            case.seen.clear();
            case.after = age;
        })
    };
    old(WINDOW).check(&new(), None);
    let warned = Decision::Process(vec![Notice::RepeatOutsideWindow]);
    old(Span::millis(WINDOW.as_millis() + 1)).check(&warned, Some(&warned));
}

#[test]
fn an_old_message_is_still_a_repeat_when_the_first_came_late() {
    repeat()
        .with(|case| {
            case.seen[0].accepted_at = start().plus(Span::days(80));
            case.seen[0].expires_at = start().plus(Span::days(170));
            case.after = Span::days(120);
        })
        .check(&replayed(&[]), None);
}

#[test]
fn an_expired_record_of_another_party_does_not_hold_an_id_in_scope_id() {
    let both = Decision::Process(vec![Notice::RepeatOutsideWindow, Notice::IdSeenFromOtherParty]);
    repeat()
        .with(|case| {
            case.scope = Scope::Id;
            case.key = key("POP000009", "m1@c2");
            case.after = Span::days(91);
            case.timestamp = start().plus(Span::days(91));
        })
        .check(&both, None);
}

#[test]
fn a_window_for_ever_never_ends() {
    repeat()
        .with(|case| {
            case.window = Span::millis(u64::MAX);
            case.after = Span::days(40_000);
        })
        .check(&replayed(&[]), None);
}

#[test]
fn a_clock_that_fell_back_ends_no_window() {
    let mut case = repeat();
    case.seen[0].accepted_at = start().plus(Span::days(2));
    case.seen[0].expires_at = start().plus(Span::days(92));
    case.check(&replayed(&[]), None);
}

// Replayed signatures.

#[test]
fn a_signature_that_another_message_was_accepted_with_is_refused() {
    let stolen = Decision::ReplayedSignature { item: item(7) };
    repeat()
        .with(|case| {
            case.key = key("POP000001", "m2@c2");
            case.seen.clear();
            case.signature = Some(item(7));
        })
        .check(&stolen, Some(&stolen));
    // Even where the key is known: the record that has the signature is not one of this key.
    repeat().with(|case| case.signature = Some(item(7))).check(&stolen, Some(&stolen));
}

#[test]
fn the_signature_of_the_first_message_is_no_offence_in_its_repeat() {
    repeat().with(|case| case.signature = Some(item(1))).check(&replayed(&[]), None);
}

#[test]
fn the_record_of_a_signature_ends_with_the_window_of_its_message() {
    repeat()
        .with(|case| {
            case.signature = Some(item(1));
            case.after = Span::days(91);
        })
        .check(&Decision::Process(vec![Notice::RepeatOutsideWindow]), None);
}
