//! What is done on a schedule: purging what is expired, in bounded steps, and looking whether the site has
//! changed.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use super::{
    as4::Shared,
    config::{Reload, SweepConfig},
};
use crate::{
    net::server::Stop,
    store::{Purge, PurgeOrder, PurgeStats},
};

/// Time between two foldings of measured times.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Sweeps until the service stops.
pub(super) async fn sweep(shared: Arc<Shared>, config: SweepConfig, stop: Stop) {
    let mut purge = ticks(config.purge_every);
    let mut reload = ticks(config.reload_every);
    let mut upkeep = ticks(UPKEEP_EVERY);
    loop {
        tokio::select! {
            () = stop.stopping() => return,
            _ = purge.tick() => purge_all(&shared, &config, &stop).await,
            _ = reload.tick() => {
                if let Some(reload) = &config.reload {
                    look_again(&shared, reload.clone()).await;
                }
            }
            _ = upkeep.tick() => shared.observe.upkeep(),
        }
    }
}

fn ticks(every: Duration) -> tokio::time::Interval {
    // A zero period is refused by the timer; a millisecond is as good as none.
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Step after step, until nothing is due or the service stops.
async fn purge_all(shared: &Arc<Shared>, config: &SweepConfig, stop: &Stop) {
    let mut total = PurgeStats::default();
    while !stop.is_stopping() {
        let order = PurgeOrder {
            now: shared.clock.now(),
            budget: config.purge_budget,
            purge: Purge::Scheduled,
            window_min: config.window_min,
        };
        let store = shared.store.clone();
        let Ok(step) = spawn_blocking(move || store.purge(&order)).await else { return };
        match step {
            Ok(stats) => {
                add(&mut total, &stats);
                if stats.left == 0 || stats.segments == 0 {
                    break;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "purging failed; it is tried again at the next time");
                return;
            }
        }
    }
    if total.clock_ahead {
        tracing::warn!("nothing is purged: the clock is far ahead of the newest record");
    } else if total.dropped > 0 || total.segments > 0 {
        let PurgeStats { dropped, forwarded, segments, octets, payload_files, .. } = total;
        tracing::info!(dropped, forwarded, segments, octets, payload_files, "purged");
    }
}

fn add(total: &mut PurgeStats, step: &PurgeStats) {
    total.dropped = total.dropped.saturating_add(step.dropped);
    total.forwarded = total.forwarded.saturating_add(step.forwarded);
    total.segments = total.segments.saturating_add(step.segments);
    total.octets = total.octets.saturating_add(step.octets);
    total.payload_files = total.payload_files.saturating_add(step.payload_files);
    total.left = step.left;
    total.clock_ahead |= step.clock_ahead;
}

async fn look_again(shared: &Shared, reload: Reload) {
    match spawn_blocking(move || (reload.0)()).await {
        Ok(Ok(Some(site))) => shared.replace_site(site),
        Ok(Ok(None)) => {}
        Ok(Err(error)) => tracing::warn!(error, "the site cannot be read anew; the old one stays"),
        Err(_) => tracing::error!("reading the site anew panicked; the old one stays"),
    }
}
