//! What is done on a schedule.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use oncepoint::service::config::Reload;

use super::house::service;

#[tokio::test(start_paused = true)]
async fn the_site_is_looked_at_on_a_schedule_and_a_fault_leaves_the_old_one() {
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    let reload = Reload(Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Err("the file is damaged".to_owned())
    }));
    let running = service(|config| {
        config.sweep.reload_every = Duration::from_secs(60);
        config.sweep.reload = Some(reload);
    })
    .await;
    // The paused clock jumps from tick to tick.
    tokio::time::sleep(Duration::from_secs(200)).await;
    let looked = looks.load(Ordering::SeqCst);
    assert!((3..=4).contains(&looked), "{looked}");
    let reply = super::client::get(running.connector_addr(), "/health/ready", &[]).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}
