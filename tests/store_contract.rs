//! The contract of the store, on every backend (`storage` §6, `duplicates` §5).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

mod store_support;

use std::sync::Arc;

use oncepoint::{
    model::{Answer, Scope, Span},
    store::{
        AcceptError, Ack, AckResult, AnswerError, Authentication, CLAIMED_RECORDS_KEPT, Claim, Delivery,
        DeliveryEvent, EventKind, Extend, ExtendResult, INLINE_BYTES_MAX, InboxClaim, InboxFilter, ItemQuery,
        ItemState, Nack, NackResult, NackThen, Notice, PAGE_MAX, Purge, PurgePreview,
        RECORDS_PER_MESSAGE_MAX, RecordQuery, RecordState, Redelivery, RequeueResult, Store, StoreError,
        journal::Work,
        vfs::{Cut, Directories, FaultyVfs, Vfs},
    },
};
use store_support::{
    model::{Mutant, Run, Stop},
    *,
};

/// Runs each scenario on each backend.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod memory {
            $(#[test] fn $name() { super::run(super::$name(&super::Store::memory())); })*
        }
        mod embedded {
            $(#[test] fn $name() { super::run(super::$name(&super::embedded_store())); })*
        }
    };
}

on_both! {
    an_accepted_message_is_found_with_its_answer_and_its_payload
    an_id_that_is_given_back_is_claimed_again
    whoever_waits_is_told_of_the_end_and_then_finds_the_answer
    a_claim_with_old_knowledge_is_turned_away
    the_old_owner_is_fenced_after_a_takeover
    a_signature_is_accepted_once_per_sender
    scope_id_sees_other_senders
    reused_ids_with_other_content_live_beside_each_other
    a_ping_is_answered_and_never_delivered
    leases_hide_items_and_end
    acknowledging_is_idempotent_and_keeps_the_reference
    giving_back_delays_and_parks_and_ends_dead
    a_requeue_brings_an_acknowledged_item_back_marked
    one_batch_may_name_an_item_twice
    workers_share_the_inbox_without_overlap
    filters_choose_what_is_leased
    a_long_poll_is_woken_by_an_acceptance
    lists_page_through_everything_in_order
    the_timeline_tells_the_whole_story
    repeats_are_recorded_up_to_the_limit_and_then_counted
    refusals_of_strangers_are_kept_for_a_month
    purge_spares_what_is_in_its_window_or_not_taken
    a_purge_is_not_scheduled_by_a_clock_that_runs_ahead
    large_payloads_do_not_mix
    a_spool_gives_back_what_it_took
    evidence_is_what_was_received
    verification_finds_nothing_in_a_healthy_store
    a_thousand_repeats_share_one_claim
}

fn embedded_store() -> Store {
    let vfs: Arc<dyn Vfs> = Arc::new(FaultyVfs::new(1, Cut::Nothing, Directories::Strict));
    open(&vfs, Work::Threads).unwrap()
}

fn ack(leased: &oncepoint::store::Leased) -> Ack {
    Ack { item: leased.item.id, lease: leased.lease, external_ref: Some("ERP-7".to_owned()) }
}

fn nack(leased: &oncepoint::store::Leased, then: NackThen) -> Nack {
    let reason = "not now".to_owned();
    Nack { item: leased.item.id, lease: leased.lease, reason, then, deliveries_max: 3 }
}

async fn an_accepted_message_is_found_with_its_answer_and_its_payload(store: &Store) {
    let asked = key("A", 1);
    assert_eq!(store.seen(&asked, Scope::PartyId), Ok(Vec::new()));
    accept(store, 1, second(5)).await.unwrap();
    let seen = store.seen(&asked, Scope::PartyId).unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].item, &seen[0].key, seen[0].accepted_at), (item(1), &asked, second(5)));
    assert_eq!(seen[0].content, content(1, 1));
    assert_eq!(store.answer(item(1)), Ok(acceptance(1, second(5), None).answer));
    assert_eq!(stored_payload(store, 1), payload_bytes(1, 100));
    assert_eq!(store.answer(item(2)), Err(AnswerError::Gone));
    assert_eq!(store.seen(&key("B", 1), Scope::PartyId), Ok(Vec::new()), "the sender is part of the key");
}

async fn an_id_that_is_given_back_is_claimed_again(store: &Store) {
    drop(won(claim(store, &key("A", 1), Scope::PartyId, second(0))));
    accept(store, 1, second(1)).await.unwrap();
    assert_eq!(store.health().claims, 0);
}

async fn whoever_waits_is_told_of_the_end_and_then_finds_the_answer(store: &Store) {
    let fence = won(claim(store, &key("A", 1), Scope::PartyId, second(0)));
    let Claim::Busy(busy) = claim(store, &key("A", 1), Scope::PartyId, second(9)) else { panic!("not busy") };
    assert_eq!(busy.since(), second(0));
    let waits = busy.ended();
    fence.accept(acceptance(1, second(9), None)).await.unwrap();
    waits.await;
    assert!(store.answer(item(1)).is_ok());
    let released = won(claim(store, &key("A", 2), Scope::PartyId, second(0)));
    let Claim::Busy(busy) = claim(store, &key("A", 2), Scope::PartyId, second(9)) else { panic!("not busy") };
    drop(released);
    busy.ended().await;
}

async fn a_claim_with_old_knowledge_is_turned_away(store: &Store) {
    accept(store, 1, second(0)).await.unwrap();
    let old = store.claim(&key("A", 1), Scope::PartyId, &[], second(1), PATIENCE).unwrap();
    assert!(matches!(old, Claim::Changed));
    assert!(matches!(claim(store, &key("A", 1), Scope::PartyId, second(1)), Claim::Won(_)));
}

async fn the_old_owner_is_fenced_after_a_takeover(store: &Store) {
    let old = won(claim(store, &key("A", 1), Scope::PartyId, second(0)));
    let late = second(0).plus(PATIENCE);
    assert!(matches!(
        claim(store, &key("A", 1), Scope::PartyId, late.minus(Span::millis(1))),
        Claim::Busy(_)
    ));
    let new = won(claim(store, &key("A", 1), Scope::PartyId, late));
    assert_eq!((old.taken_over(), new.taken_over()), (None, Some(second(0))));
    assert_eq!(old.accept(acceptance(1, late, None)).await, Err(AcceptError::Fenced));
    new.accept(acceptance(2, late, None)).await.unwrap();
    assert_eq!(store.seen(&key("A", 1), Scope::PartyId).unwrap().len(), 1);
    assert_eq!(store.answer(item(1)), Err(AnswerError::Gone));
    assert_eq!(lease(store, 9, late).await.len(), 1);
}

async fn a_signature_is_accepted_once_per_sender(store: &Store) {
    accept(store, 1, second(0)).await.unwrap();
    let mut replayed = acceptance(2, second(1), None);
    replayed.content = content(2, 1);
    let signature = replayed.content.signature;
    assert_eq!(store.signature_used(&key("A", 2), &signature, second(1)), Ok(Some(item(1))));
    assert_eq!(store.signature_used(&key("A", 1), &signature, second(1)), Ok(None), "its own key");
    assert_eq!(store.signature_used(&key("B", 2), &signature, second(1)), Ok(None), "another sender");
    let fence = won(claim(store, &key("A", 2), Scope::PartyId, second(1)));
    assert_eq!(fence.accept(replayed).await, Err(AcceptError::SignatureUsed(item(1))));
    accept(store, 2, second(2)).await.unwrap();

    let mut expired = acceptance(3, day(91), None);
    expired.content = content(3, 1);
    assert_eq!(store.signature_used(&key("A", 3), &signature, day(91)), Ok(None));
    won(claim(store, &key("A", 3), Scope::PartyId, day(91))).accept(expired).await.unwrap();
}

async fn scope_id_sees_other_senders(store: &Store) {
    accept(store, 1, second(0)).await.unwrap();
    let others = store.seen_from_others(&key("B", 1)).unwrap();
    assert_eq!(others.iter().map(|seen| seen.item).collect::<Vec<_>>(), [item(1)]);
    assert_eq!(store.seen_from_others(&key("A", 1)), Ok(Vec::new()));
    assert_eq!(store.seen(&key("B", 1), Scope::Id).unwrap().len(), 1);
    assert_eq!(store.seen(&key("B", 1), Scope::PartyId), Ok(Vec::new()));
    let fence = won(claim(store, &key("B", 1), Scope::PartyId, second(1)));
    fence.accept(acceptance(2, second(1), None)).await.unwrap();
    assert_eq!(store.seen(&key("B", 1), Scope::Id).unwrap().len(), 2);
}

async fn reused_ids_with_other_content_live_beside_each_other(store: &Store) {
    for n in 1..=3 {
        let fence = won(claim(store, &key("A", 1), Scope::PartyIdPayload, second(n)));
        fence.accept(acceptance(n, second(n), None)).await.unwrap();
    }
    let seen = store.seen(&key("A", 1), Scope::PartyIdPayload).unwrap();
    assert_eq!(seen.iter().map(|seen| seen.item).collect::<Vec<_>>(), [item(1), item(2), item(3)]);
    assert_eq!(lease(store, 9, second(9)).await.len(), 3);
}

async fn a_ping_is_answered_and_never_delivered(store: &Store) {
    let mut ping = acceptance(1, second(0), None);
    ping.delivery = Delivery::Never;
    won(claim(store, &key("A", 1), Scope::PartyId, second(0))).accept(ping).await.unwrap();
    assert!(store.answer(item(1)).is_ok());
    assert!(lease(store, 9, second(1)).await.is_empty());
    assert_eq!(shown(store, 1).state, ItemState::Undelivered);
    assert_eq!(store.requeue(item(1), second(1)).await, Ok(RequeueResult::NeverDelivered));
    assert!(matches!(store.payload(item(1)), Ok(None)));
}

async fn leases_hide_items_and_end(store: &Store) {
    for n in 1..=3 {
        accept(store, n, second(n)).await.unwrap();
    }
    let first = lease(store, 2, second(10)).await;
    assert_eq!(first.iter().map(|l| l.item.id).collect::<Vec<_>>(), [item(1), item(2)], "oldest first");
    assert_eq!(first[0].lease_until, second(70));
    assert_eq!((first[0].item.delivery_count, first[0].item.state), (1, ItemState::Leased));
    assert_eq!(lease(store, 9, second(69)).await.len(), 1, "what is leased is hidden");
    assert_eq!(store.next_due(), Some(second(70)));
    let again = lease(store, 9, second(70)).await;
    assert_eq!(again.iter().map(|l| l.item.id).collect::<Vec<_>>(), [item(1), item(2)]);
    assert_eq!(again[0].item.delivery_count, 2);
    let wish = |leased: &oncepoint::store::Leased| Extend {
        item: leased.item.id,
        lease: leased.lease,
        length: Span::seconds(300),
    };
    let results = store.extend(&[wish(&first[0]), wish(&again[0])], second(100)).await.unwrap();
    assert_eq!(results, [ExtendResult::LeaseSuperseded, ExtendResult::Extended { lease_until: second(400) }]);
    assert_eq!(shown(store, 1).lease_until, Some(second(400)));
}

async fn acknowledging_is_idempotent_and_keeps_the_reference(store: &Store) {
    for n in 1..=2 {
        accept(store, n, second(0)).await.unwrap();
    }
    let old = lease(store, 1, second(0)).await.remove(0);
    let late = store.ack(&[ack(&old)], second(1000)).await.unwrap();
    assert_eq!(late, [AckResult::Acked], "an ended lease that nobody else took");
    assert_eq!(store.ack(&[ack(&old)], second(1001)).await.unwrap(), [AckResult::AlreadyAcked]);
    let acked = shown(store, 1);
    assert_eq!((acked.state, acked.external_ref.as_deref()), (ItemState::Acked, Some("ERP-7")));

    let first = lease(store, 1, second(2000)).await.remove(0);
    let second_lease = lease(store, 1, second(3000)).await.remove(0);
    let mut unknown = ack(&first);
    unknown.item = item(99);
    let results = store.ack(&[ack(&first), ack(&second_lease), unknown], second(3001)).await.unwrap();
    assert_eq!(results, [AckResult::LeaseSuperseded, AckResult::Acked, AckResult::Unknown]);
    assert!(lease(store, 9, second(9000)).await.is_empty());
}

async fn giving_back_delays_and_parks_and_ends_dead(store: &Store) {
    accept(store, 1, second(0)).await.unwrap();
    let mut now = 0;
    for delivery in 1..=3 {
        let leased = lease(store, 1, second(now)).await.remove(0);
        let delay = NackThen::Retry(Span::seconds(30));
        let expected = if delivery == 3 { NackResult::Dead } else { NackResult::Released };
        assert_eq!(store.nack(&[nack(&leased, delay)], second(now)).await.unwrap(), [expected]);
        assert!(lease(store, 1, second(now + 29)).await.is_empty(), "the delay is kept");
        now += 30;
    }
    assert_eq!(shown(store, 1).state, ItemState::Dead);
    assert!(lease(store, 1, second(now)).await.is_empty());

    accept(store, 2, second(now)).await.unwrap();
    let leased = lease(store, 1, second(now)).await.remove(0);
    let parked = store.nack(&[nack(&leased, NackThen::Park)], second(now)).await.unwrap();
    assert_eq!(parked, [NackResult::Parked]);
    assert_eq!(shown(store, 2).state, ItemState::Dead);
    let dead = store.list(&ItemQuery { state: Some(ItemState::Dead), limit: 9, ..ItemQuery::default() });
    assert_eq!(dead.unwrap().items.len(), 2, "nothing is dropped");
}

async fn a_requeue_brings_an_acknowledged_item_back_marked(store: &Store) {
    accept(store, 1, second(0)).await.unwrap();
    let leased = lease(store, 1, second(0)).await.remove(0);
    store.ack(&[ack(&leased)], second(1)).await.unwrap();
    assert_eq!(store.requeue(item(1), second(2)).await, Ok(RequeueResult::Requeued));
    assert_eq!(store.requeue(item(9), second(2)).await, Ok(RequeueResult::Unknown));
    let again = lease(store, 1, second(3)).await.remove(0);
    assert_eq!((again.item.redelivery, again.item.delivery_count), (Redelivery::Requested, 2));
    assert_eq!(store.ack(&[ack(&leased)], second(4)).await.unwrap(), [AckResult::LeaseSuperseded]);
    assert_eq!(store.ack(&[ack(&again)], second(4)).await.unwrap(), [AckResult::Acked]);
}

async fn one_batch_may_name_an_item_twice(store: &Store) {
    accept(store, 1, second(0)).await.unwrap();
    let leased = lease(store, 1, second(0)).await.remove(0);
    let results = store.ack(&[ack(&leased), ack(&leased)], second(1)).await.unwrap();
    assert_eq!(results, [AckResult::Acked, AckResult::AlreadyAcked]);
}

async fn workers_share_the_inbox_without_overlap(store: &Store) {
    for n in 0..60 {
        accept(store, n, second(0)).await.unwrap();
    }
    let workers: Vec<_> = (0..6)
        .map(|_| {
            let store = store.clone();
            std::thread::spawn(move || {
                run(async {
                    let mut got = Vec::new();
                    loop {
                        let leased = lease(&store, 3, second(1)).await;
                        if leased.is_empty() {
                            return got;
                        }
                        let acks: Vec<Ack> = leased.iter().map(ack).collect();
                        assert!(
                            store.ack(&acks, second(2)).await.unwrap().iter().all(|r| *r == AckResult::Acked)
                        );
                        got.extend(leased.into_iter().map(|leased| leased.item.id));
                    }
                })
            })
        })
        .collect();
    let mut got: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    got.sort_unstable();
    assert_eq!(got, (0..60).map(item).collect::<Vec<_>>(), "each once");
}

async fn filters_choose_what_is_leased(store: &Store) {
    for n in 1..=4 {
        let mut other = acceptance(n, second(0), None);
        other.meta = meta(if n % 2 == 0 { "9999:EVEN" } else { "9999:odd" });
        won(claim(store, &key("A", n), Scope::PartyId, second(0))).accept(other).await.unwrap();
    }
    let wish = |filter: InboxFilter| InboxClaim { filter, ..wish(9) };
    let sender = meta("9999:even").sender;
    let even =
        store.claim_deliveries(&wish(InboxFilter { sender, ..InboxFilter::default() }), second(1)).await;
    assert_eq!(even.unwrap().iter().map(|l| l.item.id).collect::<Vec<_>>(), [item(2), item(4)]);
    let ids = vec![item(3), item(2), item(77)];
    let named = store.claim_deliveries(&wish(InboxFilter { ids, ..InboxFilter::default() }), second(1)).await;
    assert_eq!(named.unwrap().iter().map(|l| l.item.id).collect::<Vec<_>>(), [item(3)]);
    let tenant = Some(oncepoint::model::Tenant::parse("other").unwrap());
    let other =
        store.claim_deliveries(&wish(InboxFilter { tenant, ..InboxFilter::default() }), second(1)).await;
    assert!(other.unwrap().is_empty());
}

async fn a_long_poll_is_woken_by_an_acceptance(store: &Store) {
    let mut changes = store.changes();
    assert!(lease(store, 1, second(0)).await.is_empty());
    accept(store, 1, second(0)).await.unwrap();
    changes.changed().await.unwrap();
    assert_eq!(lease(store, 1, second(0)).await.len(), 1);
}

async fn lists_page_through_everything_in_order(store: &Store) {
    for n in 0..25 {
        accept(store, n, second(n)).await.unwrap();
    }
    let leased = lease(store, 10, second(30)).await;
    store.ack(&leased[..5].iter().map(ack).collect::<Vec<_>>(), second(31)).await.unwrap();
    let mut found = Vec::new();
    let mut query = ItemQuery { limit: 7, ..ItemQuery::default() };
    loop {
        let page = store.list(&query).unwrap();
        assert!(page.items.len() <= 7);
        found.extend(page.items.iter().map(|item| item.id));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(found, (0..25).map(item).collect::<Vec<_>>());
    let count =
        |query: ItemQuery| store.list(&ItemQuery { limit: PAGE_MAX + 1, ..query }).unwrap().items.len();
    let state = |state| ItemQuery { state: Some(state), ..ItemQuery::default() };
    assert_eq!(count(state(ItemState::Acked)), 5);
    assert_eq!(count(state(ItemState::Leased)), 5);
    assert_eq!(count(state(ItemState::Available)), 15);
    let times = ItemQuery { from: Some(second(3)), before: Some(second(6)), ..ItemQuery::default() };
    assert_eq!(count(times), 3);
    assert_eq!(count(ItemQuery { sender: meta("9999:C1").sender, ..ItemQuery::default() }), 25);
    assert_eq!(count(ItemQuery { receiver: meta("9999:c1").sender, ..ItemQuery::default() }), 0);
}

async fn the_timeline_tells_the_whole_story(store: &Store) {
    accept(store, 1, second(0)).await.unwrap();
    store.note(record(100, second(1), RecordState::RefusedDuplicate, Some(1)));
    store.note(record(101, second(2), RecordState::Conflict, Some(1)));
    let leased = lease(store, 1, second(3)).await.remove(0);
    store.ack(&[ack(&leased)], second(4)).await.unwrap();
    store.requeue(item(1), second(5)).await.unwrap();
    let kinds: Vec<_> = store.events(item(1)).unwrap().into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds.len(), 6);
    assert_eq!(kinds[0], EventKind::Received(vec![Notice::new("test")]));
    assert!(matches!(&kinds[1], EventKind::DuplicateReceived(record) if record.id == item(100)));
    assert!(matches!(&kinds[2], EventKind::Conflict(record) if record.id == item(101)));
    assert_eq!(kinds[3], EventKind::Delivery(DeliveryEvent::Leased { until: second(63) }));
    assert!(matches!(&kinds[4], EventKind::Delivery(DeliveryEvent::Acked { external_ref: Some(_) })));
    assert_eq!(kinds[5], EventKind::Delivery(DeliveryEvent::Requeued));
    assert_eq!(store.events(item(2)), Ok(Vec::new()));
}

async fn repeats_are_recorded_up_to_the_limit_and_then_counted(store: &Store) {
    accept(store, 1, second(0)).await.unwrap();
    let repeats = RECORDS_PER_MESSAGE_MAX + 5;
    for n in 0..repeats {
        store.note(record(1000 + n, second(n), RecordState::RefusedDuplicate, Some(1)));
    }
    settle(store).await;
    let query =
        RecordQuery { state: Some(RecordState::RefusedDuplicate), limit: PAGE_MAX, ..RecordQuery::default() };
    let page = store.records(&query).unwrap();
    assert_eq!(page.items.len() as u64, RECORDS_PER_MESSAGE_MAX);
    assert!(page.next.is_none_or(|next| {
        store.records(&RecordQuery { after: Some(next), ..query }).unwrap().items.is_empty()
    }));
    let count = store.repeats(item(1)).unwrap().unwrap();
    assert_eq!((count.count, count.first_at, count.last_at), (repeats, second(0), second(repeats - 1)));
    assert_eq!(store.repeats(item(2)), Ok(None));
}

/// Everything noted so far is durable once a later frame is.
async fn settle(store: &Store) {
    accept(store, 99_999_999, second(0)).await.unwrap();
}

async fn refusals_of_strangers_are_kept_for_a_month(store: &Store) {
    let mut stranger = record(1, day(0), RecordState::Refused, None);
    stranger.authentication = Authentication::Claimed;
    store.note(stranger);
    settle(store).await;
    assert_eq!(store.record(item(1)).unwrap().unwrap().expires_at, day(0).plus(CLAIMED_RECORDS_KEPT));
    assert_eq!(store.health().records_not_kept, 0);
}

async fn purge_spares_what_is_in_its_window_or_not_taken(store: &Store) {
    for n in 1..=3 {
        accept(store, n, day(0)).await.unwrap();
    }
    let leased = lease(store, 2, day(0)).await;
    store.ack(&[ack(&leased[0])], day(0)).await.unwrap();
    accept(store, 4, day(80)).await.unwrap();
    let early = store.purge(&purge_order(day(89), Purge::Forced)).unwrap();
    assert_eq!(early.dropped, 0);
    let mut order = purge_order(day(91), Purge::Forced);
    let due = store.purge_preview(&order).unwrap();
    assert_eq!(due, PurgePreview { messages: 1, records: 0, not_taken: 2 });
    order.window_min = Span::days(100);
    assert_eq!(store.purge_preview(&order), Ok(PurgePreview::default()), "the window of now is longer");
    assert_eq!(store.purge(&order).unwrap().dropped, 0);
    store.purge(&purge_order(day(91), Purge::Forced)).unwrap();
    assert!(store.answer(item(2)).is_ok() && store.answer(item(3)).is_ok(), "not taken by the backend");
    assert!(store.answer(item(4)).is_ok(), "in its window");
    assert_eq!(lease(store, 9, day(91)).await.len(), 3, "an acknowledged item does not come back");
    assert_eq!(store.verify().unwrap().findings, Vec::<String>::new());
}

async fn a_purge_is_not_scheduled_by_a_clock_that_runs_ahead(store: &Store) {
    accept(store, 1, day(0)).await.unwrap();
    let ahead = day(1).plus(Span::millis(1));
    assert!(store.purge(&purge_order(ahead, Purge::Scheduled)).unwrap().clock_ahead);
    assert!(!store.purge(&purge_order(day(1), Purge::Scheduled)).unwrap().clock_ahead);
    assert!(!store.purge(&purge_order(ahead, Purge::Forced)).unwrap().clock_ahead);
}

async fn large_payloads_do_not_mix(store: &Store) {
    let sizes = [INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, 3 * INLINE_BYTES_MAX, 10];
    let writers: Vec<_> = sizes
        .into_iter()
        .enumerate()
        .map(|(n, size)| {
            let (store, n) = (store.clone(), n as u64);
            std::thread::spawn(move || {
                let payload = payload(&store, n, size).unwrap();
                let fence = won(claim(&store, &key("A", n), Scope::PartyId, second(0)));
                run(fence.accept(acceptance(n, second(0), Some(payload)))).unwrap();
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    for (n, size) in sizes.into_iter().enumerate() {
        assert!(stored_payload(store, n as u64) == payload_bytes(n as u64, size), "payload {n}");
    }
    assert_eq!(store.verify().unwrap().findings, Vec::<String>::new());
}

async fn a_spool_gives_back_what_it_took(store: &Store) {
    for size in [0, 10, 11, 5000] {
        let mut spool = store.spool(10);
        std::io::Write::write_all(&mut spool, &payload_bytes(7, size)[..size]).unwrap();
        assert_eq!(spool.size(), size as u64);
        let mut back = Vec::new();
        std::io::Read::read_to_end(&mut spool.into_reader(), &mut back).unwrap();
        assert!(back == payload_bytes(7, size)[..size], "{size}");
    }
}

async fn evidence_is_what_was_received(store: &Store) {
    accept(store, 1, second(0)).await.unwrap();
    let evidence = store.evidence(item(1)).unwrap();
    let wanted = acceptance(1, second(0), None);
    assert_eq!(evidence.headers, wanted.headers);
    assert_eq!(evidence.envelope, wanted.envelope);
    assert_eq!(&evidence.certificate[..], wanted.certificate);
    assert_eq!(evidence.answer, Some(wanted.answer));
}

async fn verification_finds_nothing_in_a_healthy_store(store: &Store) {
    for n in 0..5 {
        accept(store, n, second(0)).await.unwrap();
    }
    store.note(record(100, second(1), RecordState::RefusedDuplicate, Some(1)));
    let leased = lease(store, 2, second(3)).await;
    store.ack(&[ack(&leased[0])], second(4)).await.unwrap();
    let report = store.verify().unwrap();
    assert_eq!((report.accepted, report.findings), (5, Vec::new()));
    assert!(store.accepting());
}

async fn a_thousand_repeats_share_one_claim(store: &Store) {
    let fence = won(claim(store, &key("A", 1), Scope::PartyId, second(0)));
    let mut waits = Vec::new();
    for _ in 0..1000 {
        let Claim::Busy(busy) = claim(store, &key("A", 1), Scope::PartyId, second(0)) else {
            panic!("not busy")
        };
        waits.push(busy.ended());
    }
    assert_eq!(store.health().claims, 1);
    fence.accept(acceptance(1, second(0), None)).await.unwrap();
    let first = store.answer(item(1)).unwrap();
    for wait in waits {
        wait.await;
        assert_eq!(store.answer(item(1)), Ok(first.clone()));
    }
    assert_eq!(store.health().claims, 0);
    assert_eq!(lease(store, 9, second(1)).await.len(), 1);
}

#[test]
fn a_damaged_answer_is_replaced_once_and_by_the_first() {
    run(async {
        let store = Store::memory();
        accept(&store, 1, second(0)).await.unwrap();
        let first = store.answer(item(1)).unwrap();
        let early = store.replace_answer(item(1), answer("early"), second(1)).await;
        assert_eq!(early, Ok(first), "a good answer is never replaced");
        store.damage_answer(item(1));
        assert_eq!(store.answer(item(1)), Err(AnswerError::Unreadable));
        assert_eq!(store.seen(&key("A", 1), Scope::PartyId).unwrap().len(), 1, "the key stands");
        assert_eq!(store.verify().unwrap().findings.len(), 1);
        let rebuilt: Answer = store.replace_answer(item(1), answer("rebuilt"), second(2)).await.unwrap();
        assert_eq!(rebuilt, answer("rebuilt"));
        let late = store.replace_answer(item(1), answer("late"), second(3)).await;
        assert_eq!(late, Ok(answer("rebuilt")));
        assert_eq!(store.answer(item(1)), Ok(answer("rebuilt")));
        let gone = store.replace_answer(item(2), answer("x"), second(3)).await;
        assert_eq!(gone, Err(AnswerError::Gone));
    });
}

#[test]
fn a_full_store_takes_no_id_and_still_answers() {
    run(async {
        let store = Store::memory();
        accept(&store, 1, second(0)).await.unwrap();
        let fence = won(claim(&store, &key("A", 2), Scope::PartyId, second(0)));
        store.set_fault(Some(StoreError::Full));
        assert!(!store.accepting());
        let refused = store.claim(&key("A", 3), Scope::PartyId, &[], second(0), PATIENCE);
        assert!(matches!(refused, Err(StoreError::Full)));
        let failed = fence.accept(acceptance(2, second(0), None)).await;
        assert_eq!(failed, Err(AcceptError::Store(StoreError::Full)));
        assert!(store.answer(item(1)).is_ok());
        assert_eq!(store.health().claims, 0, "the id was given back");
        store.set_fault(None);
        accept(&store, 2, second(1)).await.unwrap();
    });
}

#[test]
fn a_caller_who_goes_away_does_not_stop_the_commit() {
    let store = embedded_store();
    run(async {
        let fence = won(claim(&store, &key("A", 1), Scope::PartyId, second(0)));
        let mut accepting = Box::pin(fence.accept(acceptance(1, second(0), None)));
        let poll = std::future::poll_fn(|context| std::task::Poll::Ready(accepting.as_mut().poll(context)));
        let _first_step = poll.await;
        drop(accepting);
        // A later commit is durable after it.
        accept(&store, 2, second(0)).await.unwrap();
        assert!(store.answer(item(1)).is_ok());
        assert_eq!(lease(&store, 9, second(1)).await.len(), 2);
        assert_eq!(store.health().claims, 0);
    });
}

/// Scripts on the memory backend.
const MEMORY_SEEDS: u64 = 20;
/// Scripts on the embedded backend, with a restart between any two legs.
const EMBEDDED_SEEDS: u64 = 8;
const STEPS: usize = 100;
const LEGS: usize = 4;

fn memory_script(seed: u64, mutant: Mutant) -> Result<(), Stop> {
    let mut run = Run::new(Store::memory(), seed, mutant);
    run.steps(STEPS * 2)?;
    run.audit()
}

/// Half of the restarts are orderly, half are power cuts that take all that was not synced.
fn embedded_script(seed: u64) -> Result<(), Stop> {
    let mut vfs = FaultyVfs::new(seed, Cut::Nothing, Directories::Strict);
    let open = |vfs: &FaultyVfs| {
        let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
        open(&vfs, Work::Pumped).map_err(|error| Stop::Broken(error.to_string()))
    };
    let mut run = Run::new(open(&vfs)?, seed, Mutant::None);
    for leg in 0..LEGS {
        run.steps(STEPS)?;
        run.audit()?;
        if (seed as usize + leg).is_multiple_of(2) {
            run.store.close()?;
        } else {
            vfs.set_cut(Cut::All);
        }
        run.store = Store::memory();
        vfs = vfs.reboot();
        run.recovered(open(&vfs)?)?;
    }
    Ok(())
}

#[test]
fn scripts_agree_with_the_model_in_memory() {
    for seed in 0..MEMORY_SEEDS {
        assert_eq!(memory_script(seed, Mutant::None), Ok(()), "seed {seed}");
    }
}

#[test]
fn scripts_agree_with_the_model_over_restarts() {
    for seed in 0..EMBEDDED_SEEDS {
        assert_eq!(embedded_script(seed), Ok(()), "seed {seed}");
    }
}

#[test]
fn the_model_sees_a_lost_release_and_a_fresh_receipt() {
    for mutant in [Mutant::LostRelease, Mutant::FreshReceipt] {
        let seen = (0..MEMORY_SEEDS).any(|seed| matches!(memory_script(seed, mutant), Err(Stop::Broken(_))));
        assert!(seen, "{mutant:?} went unseen");
    }
}
