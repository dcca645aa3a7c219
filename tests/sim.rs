//! The promise under a bad network and crashing disks, with the product's own duplicate decision.
//!
//! Each seed draws a world: one node with its own disk or two with a shared store, a scope, a few senders
//! whose messages share ids now and then, retries that are sent again, signed anew or packed anew, forgeries,
//! refused first tries, stuck owners, a purge, a window that changes. What must hold is checked when a receipt
//! leaves and at the end. That the simulation can see is shown by mistakes that are planted in it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a simulation stops where it is wrong, and says which seed"
)]

#[path = "sim/mutant.rs"]
mod mutant;
#[path = "sim/store.rs"]
mod store;
#[path = "sim/words.rs"]
mod words;
#[path = "sim/world.rs"]
mod world;

use mutant::Mutant;
use oncepoint::model::Scope;
use store::Record;
use world::{Rivalry, State, World};

/// Seeds in every run of the tests; the rarest mistake needs a few hundred.
const SEEDS: u64 = 2_500;

fn run(seed: u64, mutant: Mutant) -> Result<(), String> {
    let mut world = World::new(seed, mutant);
    world.run()?;
    delivered_once(&world)?;
    nothing_lost(&world)
}

/// Within a window no document and (but for scope `party+id+payload`) no key is delivered twice.
fn delivered_once(world: &World) -> Result<(), String> {
    let delivered = &world.store.delivered;
    for (n, first) in delivered.iter().enumerate() {
        for again in delivered.iter().skip(n + 1) {
            if again.seen.accepted_at > first.seen.expires_at.max(first.seen.accepted_at) {
                continue;
            }
            if first.payload == again.payload {
                return Err(format!("payload {} delivered twice", first.payload));
            }
            if share_an_id(world.scope, first, again) {
                return Err(format!("{} delivered twice", first.seen.key.message_id));
            }
        }
    }
    Ok(())
}

fn share_an_id(scope: Scope, first: &Record, again: &Record) -> bool {
    match scope {
        Scope::Id => first.seen.key.message_id == again.seen.key.message_id,
        Scope::PartyId => first.seen.key == again.seen.key,
        Scope::PartyIdPayload => false,
    }
}

/// What was acknowledged is with the backend, and every sender that has no rival for its id was acknowledged.
fn nothing_lost(world: &World) -> Result<(), String> {
    for flow in &world.flows {
        let delivered = world.store.delivered.iter().any(|record| record.payload == flow.payload);
        match flow.state {
            State::Acked if !delivered => {
                return Err(format!("payload {} acknowledged and not delivered", flow.payload));
            }
            State::Failed if delivered => {
                return Err(format!("payload {} delivered and called failed", flow.payload));
            }
            State::Failed if flow.rivalry == Rivalry::Alone => {
                return Err(format!("payload {} refused for no reason", flow.payload));
            }
            State::Waiting => return Err(format!("payload {} never ended", flow.payload)),
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn every_seed_holds() {
    for seed in 1..=SEEDS {
        if let Err(error) = run(seed, Mutant::None) {
            panic!("seed {seed}: {error}");
        }
    }
}

#[test]
fn catches_every_mutant() {
    let mut blind = Vec::new();
    for mutant in Mutant::ALL {
        match (1..=SEEDS).find_map(|seed| run(seed, mutant).err().map(|error| (seed, error))) {
            Some((seed, error)) => println!("{mutant:?}: seed {seed}: {error}"),
            None => blind.push(mutant),
        }
    }
    assert!(blind.is_empty(), "not seen: {blind:?}");
}

#[test]
fn a_seed_gives_the_same_run_twice() {
    for seed in 1..50 {
        assert_eq!(
            run(seed, Mutant::DecideOutsideTransaction),
            run(seed, Mutant::DecideOutsideTransaction),
            "{seed}"
        );
    }
}
