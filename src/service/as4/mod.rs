//! `POST /as4`: from HTTP to the decisions of `exchange`, to the store and back.
//!
//! Guarantees: nothing is answered with a receipt before it is durable; a repeat gets the stored bytes and
//! costs no private-key operation; whatever fails gives the id back; a fault of ours is HTTP 503 and never
//! an `eb:Error`, because peers take that for final; memory does not depend on the size of a message; a
//! message goes on to its end when its connection is lost after its last byte.

mod documents;
mod gate;
mod held;
mod intake;
mod outcome;
mod reception;

use std::{
    convert::Infallible,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
};
use tokio::{sync::oneshot, time::timeout};

use super::{
    budget::{Budget, Grown},
    clock::Clock,
    config::PeerAddress,
    observe::{MessageLine, Observe, log},
    pool::{Pool, PoolError},
    tasks::Tasks,
};
use crate::{
    exchange::{Refusal, Site},
    net::{
        body::{BodyError, BodyLimits, Upload},
        server::Peer,
    },
    store::{AcceptError, Acceptance, Fence, Store},
};
use outcome::{Arrived, Ending};
use reception::{Input, Reception, Step};

/// Most bytes of a body that are collected before they are worked on.
const BATCH_BYTES: usize = 256 * 1024;

/// What all messages share.
pub(super) struct Shared {
    pub(super) path: String,
    pub(super) host: String,
    pub(super) peer: PeerAddress,
    pub(super) body: BodyLimits,
    pub(super) site: RwLock<Arc<Site>>,
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) pool: Pool,
    pub(super) budget: Budget,
    pub(super) observe: Arc<Observe>,
    pub(super) tasks: Tasks,
}

impl Shared {
    /// The site as it is now; a message keeps the one it began with.
    pub(super) fn site(&self) -> Arc<Site> {
        Arc::clone(&self.site.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another site from the next message on.
    pub(super) fn replace_site(&self, site: Site) {
        *self.site.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(site);
    }
}

type Answered = Response<Full<Bytes>>;

/// Answers one request.
pub(super) async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answered, Infallible> {
    let peer = peer(&request, shared.peer);
    if let Some(rejection) = rejection(&request, &shared.path) {
        shared.observe.rejected(peer, rejection.status().as_u16());
        return Ok(rejection);
    }
    let arrived = Arrived { peer, headers: recorded(request.headers()) };
    let (tell, hear) = oneshot::channel();
    // A task of its own: it does not end with the connection.
    let tasks = shared.tasks.clone();
    tasks.spawn(message(shared, request, arrived, tell));
    Ok(hear.await.unwrap_or_else(|_| text(StatusCode::SERVICE_UNAVAILABLE, "try again later\n")))
}

/// What is answered without looking at the body.
fn rejection(request: &Request<Incoming>, path: &str) -> Option<Answered> {
    if request.uri().path() != path {
        return Some(text(StatusCode::NOT_FOUND, "there is no such path\n"));
    }
    if request.method() != Method::POST {
        let mut rejection = text(StatusCode::METHOD_NOT_ALLOWED, "only POST\n");
        rejection.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return Some(rejection);
    }
    let coding = request.headers().get(header::CONTENT_ENCODING);
    if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Some(text(StatusCode::UNSUPPORTED_MEDIA_TYPE, "no Content-Encoding is taken\n"));
    }
    None
}

/// One message to its end: answer, then log line and record.
async fn message(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    arrived: Arrived,
    tell: oneshot::Sender<Answered>,
) {
    let in_flight = shared.observe.begin();
    let began = shared.clock.monotonic();
    let (ending, bytes) = receive(&shared, request, &arrived).await;
    let took = shared.clock.monotonic().saturating_sub(began);
    let line = MessageLine {
        counted: ending.counted,
        message_id: ending.known.message_id.as_ref().map(|id| id.as_str()),
        sender: ending.known.from.as_ref().map(|id| id.as_str()),
        peer: arrived.peer,
        status: ending.answer.status,
        answer: ending.answer.digest(),
        item: ending.item,
        detail: &ending.detail,
        bytes,
        took,
    };
    shared.observe.count(&line);
    drop(in_flight);
    // Nobody listens any more when the connection is gone.
    let _ = tell.send(response(&ending));
    log(&line);
    if let Some(record) = ending.record {
        let store = shared.store.clone();
        if shared.pool.run(move || store.note(*record)).await.is_err() {
            shared.observe.note_lost();
        }
    }
}

/// The outcome of a message, and how many bytes it had. The body is read to its end, so that a sender that
/// reads late hears the answer.
async fn receive(shared: &Arc<Shared>, request: Request<Incoming>, arrived: &Arrived) -> (Ending, u64) {
    let content_type = content_type(request.headers());
    let mut upload = match Upload::begin(request, shared.body) {
        Ok(upload) => upload,
        Err(error) => return (unread(error, shared, arrived), 0),
    };
    let reception = match Reception::begin(shared, arrived.clone(), content_type.as_deref()) {
        Ok(reception) => reception,
        Err(error) => {
            let text = "neither a SOAP 1.2 message nor a package of one\n";
            return (Ending::http(400, text, &error.to_string(), &shared.clock, arrived), 0);
        }
    };
    match run(shared, reception, &mut upload).await {
        Ok(ending) => {
            // The answer stands, whatever becomes of the rest.
            let _ = upload.drain().await;
            (ending, upload.taken())
        }
        Err(error) => (unread(error, shared, arrived), upload.taken()),
    }
}

fn unread(error: BodyError, shared: &Shared, arrived: &Arrived) -> Ending {
    let cause = error.to_string();
    let http = |status, text| Ending::http(status, text, &cause, &shared.clock, arrived);
    match error {
        BodyError::TooLarge(_) => http(413, "the message is too large\n"),
        BodyError::Idle | BodyError::Slow => http(408, "the message came too slowly\n"),
        BodyError::Broken => Ending::broken(&cause),
    }
}

/// Moves a reception to its end. Fails only when the body does.
async fn run(
    shared: &Arc<Shared>,
    mut reception: Box<Reception>,
    upload: &mut Upload,
) -> Result<Ending, BodyError> {
    let mut grant = shared.budget.grant();
    let mut input = batch(upload, &mut grant).await?;
    loop {
        let turn = shared.pool.run(move || {
            let step = reception.step(input);
            (reception, step)
        });
        let step;
        (reception, step) = match turn.await {
            Ok(turn) => turn,
            Err(error) => return Ok(overload(error)),
        };
        grant.release();
        input = Input::default();
        match step {
            Step::Turn => {}
            Step::More => input = batch(upload, &mut grant).await?,
            Step::Wait(busy) => {
                if timeout(reception.in_progress_wait(), busy.ended()).await.is_err() {
                    return Ok(refused(shared, reception, Refusal::in_progress()).await);
                }
            }
            Step::Commit(commit) => return Ok(commit_and_answer(shared, reception, *commit).await),
            Step::Rebuild(first, answer) => return Ok(rebuild(shared, reception, first, answer).await),
            Step::Done(ending) => return Ok(ending),
        }
    }
}

/// Some of the body: up to [`BATCH_BYTES`] while the budget lasts, at least one piece.
async fn batch(upload: &mut Upload, grant: &mut super::budget::Grant) -> Result<Input, BodyError> {
    let mut input = Input::default();
    let mut bytes = 0_usize;
    while bytes < BATCH_BYTES {
        let Some(piece) = upload.chunk().await? else {
            input.ended = true;
            break;
        };
        bytes = bytes.saturating_add(piece.len());
        let grown = grant.grow(piece.len());
        input.pieces.push(piece);
        if grown == Grown::No {
            break;
        }
    }
    Ok(input)
}

/// The one durable step; only then the answer.
async fn commit_and_answer(
    shared: &Arc<Shared>,
    reception: Box<Reception>,
    (fence, acceptance): (Fence, Acceptance),
) -> Ending {
    let answer = acceptance.answer.clone();
    let refusal = match fence.accept(acceptance).await {
        Ok(()) => return reception.accepted(answer),
        // Somebody else has it by now: the retry finds their answer.
        Err(AcceptError::Fenced) => Refusal::in_progress(),
        Err(AcceptError::SignatureUsed(item)) => reception.signature_used(item),
        Err(AcceptError::Store(error)) => Refusal::ours(error.to_string()),
    };
    refused(shared, reception, refusal).await
}

async fn rebuild(
    shared: &Arc<Shared>,
    mut reception: Box<Reception>,
    first: crate::model::ItemId,
    answer: crate::model::Answer,
) -> Ending {
    match shared.store.replace_answer(first, answer, shared.clock.now()).await {
        Ok(answer) => reception.rebuilt(first, answer),
        Err(error) => refused(shared, reception, Refusal::ours(error.to_string())).await,
    }
}

async fn refused(shared: &Arc<Shared>, reception: Box<Reception>, refusal: Refusal) -> Ending {
    match shared.pool.run(move || reception.refused(&refusal)).await {
        Ok(ending) => ending,
        Err(error) => overload(error),
    }
}

/// The pool is full, or a step panicked: that costs this message a 503, and its claim is given back.
fn overload(error: PoolError) -> Ending {
    if error == PoolError::Panicked {
        tracing::error!("a message made us panic; it was answered with 503");
    }
    Ending::unavailable(&Refusal::ours(error.to_string()))
}

fn response(ending: &Ending) -> Answered {
    let mut response = Response::new(Full::new(ending.answer.body.clone()));
    *response.status_mut() =
        StatusCode::from_u16(ending.answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Some(content_type) = ending.answer.content_type.as_deref()
        && let Ok(value) = HeaderValue::from_str(content_type)
    {
        headers.insert(header::CONTENT_TYPE, value);
    }
    if let Some(after) = ending.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_millis().div_ceil(1000)));
    }
    if matches!(ending.answer.status, 400 | 408 | 413) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn text(status: StatusCode, text: &'static str) -> Answered {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=UTF-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    headers.get(header::CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// The headers as they are kept for evidence: all but those that carry secrets.
fn recorded(headers: &HeaderMap) -> Vec<(String, String)> {
    let secret = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION, header::COOKIE];
    headers
        .iter()
        .filter(|(name, _)| !secret.contains(name))
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}

fn peer(request: &Request<Incoming>, from: PeerAddress) -> IpAddr {
    let connection = request.extensions().get::<Peer>().map(|peer| peer.0.ip());
    let forwarded = || {
        let value = request.headers().get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
        value.rsplit(',').next()?.trim().parse().ok()
    };
    let forwarded = (from == PeerAddress::Forwarded).then(forwarded).flatten();
    forwarded.or(connection).unwrap_or_else(|| IpAddr::from([0, 0, 0, 0]))
}
