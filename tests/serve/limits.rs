//! What the AS4 endpoint takes of a connection and of a message: at each limit, and beyond.

use std::time::Duration;

use super::{
    client::{Client, ask, connect, connect_tls, get, post, post_body},
    house::{service, tls},
};
use oncepoint::service::config::ServiceConfig;

const SOAP: (&str, &str) = ("Content-Type", "application/soap+xml; charset=UTF-8");
const NO_SOAP: &[u8] = b"<a/>";

fn small(config: &mut ServiceConfig) {
    config.as4.body.bytes_max = 1000;
}

#[tokio::test]
async fn only_post_to_the_one_path_is_taken() {
    let running = service(|_| {}).await;
    let reply = get(running.as4_addr(), "/as4", &[]).await;
    assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")));
    let reply = ask(running.as4_addr(), post_body("/other", &[SOAP], NO_SOAP)).await;
    assert_eq!(reply.status, 404);
}

#[tokio::test]
async fn a_coded_body_is_not_taken() {
    let running = service(|_| {}).await;
    let coded = [SOAP, ("Content-Encoding", "gzip")];
    assert_eq!(ask(running.as4_addr(), post_body("/as4", &coded, NO_SOAP)).await.status, 415);
    let plain = [SOAP, ("Content-Encoding", "identity")];
    assert_eq!(ask(running.as4_addr(), post_body("/as4", &plain, NO_SOAP)).await.status, 400);
}

#[tokio::test]
async fn what_is_no_soap_gets_400_with_a_short_text() {
    let running = service(|_| {}).await;
    for content_type in ["text/xml", "application/json", "multipart/related", "multipart/related; boundary=a"]
    {
        let request = post_body("/as4", &[("Content-Type", content_type)], NO_SOAP);
        let reply = ask(running.as4_addr(), request).await;
        assert_eq!(reply.status, 400, "{content_type}");
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=UTF-8"));
    }
    let reply = ask(running.as4_addr(), post_body("/as4", &[], NO_SOAP)).await;
    assert_eq!(reply.status, 400, "without Content-Type");
}

#[tokio::test]
async fn a_message_fits_at_the_limit_and_not_beyond() {
    let running = service(small).await;
    let status = async |length: usize| {
        ask(running.as4_addr(), post_body("/as4", &[SOAP], &vec![b' '; length])).await.status
    };
    assert_ne!(status(1000).await, 413);
    assert_eq!(status(1001).await, 413);
}

#[tokio::test]
async fn a_length_beyond_the_limit_is_refused_before_the_body_is_asked_for() {
    let running = service(small).await;
    let mut client = connect(running.as4_addr()).await;
    let headers = [SOAP, ("Content-Length", "1001"), ("Expect", "100-continue")];
    client.send(post("/as4", &headers)).await;
    let reply = client.reply().await.unwrap();
    assert_eq!((reply.status, reply.header("connection")), (413, Some("close")));
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_sender_that_waits_is_told_to_continue() {
    let running = service(small).await;
    let mut client = connect(running.as4_addr()).await;
    let headers = [SOAP, ("Content-Length", "4"), ("Expect", "100-continue")];
    client.send(post("/as4", &headers)).await;
    assert_eq!(client.reply().await.unwrap().status, 100);
    client.send(NO_SOAP).await;
    assert_eq!(client.reply().await.unwrap().status, 400);
}

#[tokio::test]
async fn a_chunked_message_is_cut_off_where_it_passes_the_limit() {
    let running = service(small).await;
    let head = post("/as4", &[SOAP, ("Transfer-Encoding", "chunked")]);
    let chunks = |count: usize| {
        format!("{head}{}0\r\n\r\n", "64\r\n".to_owned() + &" ".repeat(100) + "\r\n").replacen(
            &("64\r\n".to_owned() + &" ".repeat(100) + "\r\n"),
            &("64\r\n".to_owned() + &" ".repeat(100) + "\r\n").repeat(count),
            1,
        )
    };
    assert_ne!(ask(running.as4_addr(), chunks(10)).await.status, 413);
    let mut client = connect(running.as4_addr()).await;
    client.send(chunks(11)).await;
    let reply = client.reply().await.unwrap();
    assert_eq!((reply.status, reply.header("connection")), (413, Some("close")));
}

#[tokio::test]
async fn a_sender_that_sends_on_still_hears_that_it_is_too_much() {
    let running = service(small).await;
    let mut client = connect(running.as4_addr()).await;
    let body = vec![b' '; 4 * 1024 * 1024];
    client.send(post_body("/as4", &[SOAP], &body)).await;
    assert_eq!(client.reply().await.unwrap().status, 413);
}

#[tokio::test]
async fn connections_are_used_again() {
    let running = service(|_| {}).await;
    let mut client = connect(running.as4_addr()).await;
    for _ in 0..3 {
        client.send(post_body("/as4", &[SOAP, ("Content-Encoding", "x")], b"")).await;
        assert_eq!(client.reply().await.unwrap().status, 415);
    }
}

#[tokio::test]
async fn a_head_fits_at_the_limit_and_not_beyond() {
    let running = service(|config| config.as4.server.header_bytes_max = 8192).await;
    let status = async |length: usize| {
        let bare = post("/as4", &[("X", "")]).len();
        let head = post("/as4", &[("X", &"y".repeat(length - bare))]).replacen("POST", "PUTS", 1);
        ask(running.as4_addr(), head).await.status
    };
    assert_eq!(status(8192).await, 405);
    assert_eq!(status(8193).await, 431);
}

#[tokio::test]
async fn tls_of_both_versions_is_spoken() {
    let (tls, certificate) = tls();
    let running = service(|config| config.as4.tls = Some(tls)).await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut client = connect_tls(running.as4_addr(), &certificate, version).await;
        client.send(post_body("/as4", &[SOAP], NO_SOAP)).await;
        assert_eq!(client.reply().await.unwrap().status, 400);
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_ends_the_connection() {
    let running = service(|config| config.as4.server.header_timeout = Duration::from_secs(10)).await;
    let began = tokio::time::Instant::now();
    let mut silent = connect(running.as4_addr()).await;
    assert!(silent.is_closed().await);
    let mut slow = connect(running.as4_addr()).await;
    slow.send("POST /as4 HTTP/1.1\r\nHost: loc").await;
    assert!(slow.is_closed().await);
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(20) && waited < Duration::from_secs(21), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_after_its_time() {
    let running = service(|config| config.as4.server.keep_alive_idle = Duration::from_secs(60)).await;
    let mut client = connect(running.as4_addr()).await;
    client.send(post_body("/as4", &[SOAP, ("Content-Encoding", "x")], b"")).await;
    assert_eq!(client.reply().await.unwrap().status, 415);
    let began = tokio::time::Instant::now();
    assert!(client.is_closed().await);
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(59) && waited < Duration::from_secs(61), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_ends_with_408() {
    let running = service(|config| config.as4.body.idle = Duration::from_secs(20)).await;
    let mut client = connect(running.as4_addr()).await;
    client.send(post("/as4", &[SOAP, ("Content-Length", "10")])).await;
    client.send("12345").await;
    let began = tokio::time::Instant::now();
    assert_eq!(client.reply().await.unwrap().status, 408);
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(19) && waited < Duration::from_secs(21), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_drips_ends_when_its_whole_time_is_over() {
    let running = service(|config| config.as4.body.total = Duration::from_secs(60)).await;
    let mut client = connect(running.as4_addr()).await;
    client.send(post("/as4", &[SOAP, ("Content-Length", "100")])).await;
    let began = tokio::time::Instant::now();
    for _ in 0..10 {
        client.send(" ").await;
        tokio::time::advance(Duration::from_secs(10)).await;
    }
    assert_eq!(client.reply().await.unwrap().status, 408);
    assert!(began.elapsed() <= Duration::from_secs(101));
}

#[tokio::test]
async fn beyond_the_most_connections_a_newcomer_waits_and_is_served_later() {
    let running = service(|config| config.as4.server.connections_max = 2).await;
    let request = post_body("/as4", &[SOAP, ("Content-Encoding", "x")], b"");
    let mut first = connect(running.as4_addr()).await;
    let mut second = connect(running.as4_addr()).await;
    for client in [&mut first, &mut second] {
        client.send(&request).await;
        assert_eq!(client.reply().await.unwrap().status, 415);
    }
    let mut third: Client<_> = connect(running.as4_addr()).await;
    third.send(&request).await;
    tokio::select! {
        biased;
        _ = third.reply() => panic!("the third was served while two are open"),
        reply = async { first.send(&request).await; first.reply().await } => {
            assert_eq!(reply.unwrap().status, 415);
        }
    }
    drop(second);
    assert_eq!(third.reply().await.unwrap().status, 415);
}
