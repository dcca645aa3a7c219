//! The end: what is in flight is finished, nothing new is taken.

use std::time::Duration;

use tokio::net::TcpStream;

use super::{
    client::{connect, post, post_body},
    house::service,
};
use oncepoint::service::running::InFlightAtEnd;

const SOAP: (&str, &str) = ("Content-Type", "application/soap+xml");

#[tokio::test]
async fn a_message_in_flight_is_finished_and_idle_connections_are_closed() {
    let running = service(|_| {}).await;
    let address = running.as4_addr();
    let mut idle = connect(address).await;
    idle.send(post_body("/as4", &[SOAP, ("Content-Encoding", "x")], b"")).await;
    assert_eq!(idle.reply().await.unwrap().status, 415);
    let mut busy = connect(address).await;
    busy.send(post("/as4", &[SOAP, ("Content-Length", "4"), ("Expect", "100-continue")])).await;
    assert_eq!(busy.reply().await.unwrap().status, 100, "the message is being received");

    let ended = tokio::spawn(running.shutdown());
    assert!(idle.is_closed().await);
    assert!(TcpStream::connect(address).await.is_err(), "nothing new is taken");
    busy.send("<a/>").await;
    assert_eq!(busy.reply().await.unwrap().status, 400);
    assert!(busy.is_closed().await);

    let stopped = ended.await.unwrap();
    assert_eq!((stopped.cut, stopped.messages, stopped.store), (0, InFlightAtEnd::Finished, Ok(())));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_within_the_grace_is_cut() {
    let running = service(|config| config.shutdown_grace = Duration::from_secs(5)).await;
    let mut busy = connect(running.as4_addr()).await;
    busy.send(post("/as4", &[SOAP, ("Content-Length", "4"), ("Expect", "100-continue")])).await;
    assert_eq!(busy.reply().await.unwrap().status, 100);
    let stopped = running.shutdown().await;
    assert_eq!(stopped.cut, 1);
    assert!(busy.is_closed().await);
}
