//! A retry storm: one message thousands of times from many connections at once, while other senders go on.

use std::{
    io::Write,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::{Burst, compose, mebibytes, millis, on_threads};
use crate::{
    Fault,
    client::{Answer, Connection, Endpoint},
    clock::Stopwatch,
    composer::{Draft, Package},
    demand,
    process::reset_peak,
    product::Transport,
    receipt,
    scene::Scene,
};

/// How large a storm.
#[derive(Debug, Clone, Copy)]
pub struct Storm {
    /// How often the one message is sent.
    pub repeats: usize,
    /// From how many connections.
    pub connections: usize,
    /// Messages of other senders meanwhile.
    pub fresh: usize,
    /// About the size of each document, in bytes.
    pub bytes: u64,
}

/// Memory that a storm may take above what the server had before it, in bytes.
const GROWTH_MAX: u64 = 64 << 20;
/// How often a sender tries when it is asked to come later.
const TRIES: usize = 100;

/// Raises the storm against a fresh server and judges it.
///
/// # Errors
/// When an answer differs, a message is delivered twice or not at all, or memory grows.
pub fn run(storm: &Storm, out: &mut dyn Write) -> Result<(), Fault> {
    let scene = Scene::set("storm", Transport::Plain, &[])?;
    let one = scene.invoice(storm.bytes).compose()?;
    let others = ["PDE000003", "PNO000004", "PFR000005", "PIT000006"];
    let others = others.iter().map(|seat| scene.pki.access_point(seat)).collect::<Result<Vec<_>, _>>()?;
    let turn = AtomicUsize::new(0);
    let fresh = compose(storm.fresh, &|| {
        let index = turn.fetch_add(1, Ordering::Relaxed) % others.len().max(1);
        let sender = others.get(index).unwrap_or(&scene.sender);
        Draft::invoice(sender, &scene.receiver.certificate, storm.bytes).compose()
    })?;
    let product = scene.site.start()?;
    reset_peak(product.pid())?;
    let idle = product.usage()?.resident;
    let endpoint = scene.site.as4();
    let (repeats, flow) = thread::scope(|scope| {
        let flow = scope.spawn(|| flow(endpoint, &fresh));
        let repeats = rage(endpoint, &one, storm);
        let flow = flow.join().unwrap_or_else(|_| Err(Fault::setup("the other senders panicked")));
        Ok::<_, Fault>((repeats?, flow?))
    })?;
    receipt::prove(&repeats.answer, &one.claim, &scene.receiver.certificate)?;
    let usage = product.usage()?;
    say(out, "repeats of one message", &repeats.burst)?;
    say(out, "messages of other senders meanwhile", &flow)?;
    writeln!(
        out,
        "memory: {:.1} MiB before, {:.1} MiB at the peak; asked to come later {} times",
        mebibytes(idle),
        mebibytes(usage.peak),
        repeats.later
    )?;
    demand!(usage.peak <= idle + GROWTH_MAX, "memory grew by {:.1} MiB", mebibytes(usage.peak - idle));
    let delivered = scene.site.connector().drain()?;
    let once = delivered.iter().filter(|item| item.message_id == one.claim.message_id).count();
    demand!(once == 1, "the message of the storm was delivered {once} times");
    demand!(delivered.len() == fresh.len() + 1, "{} deliveries of {}", delivered.len(), fresh.len() + 1);
    writeln!(out, "one delivery, {} identical answers, {} other deliveries", storm.repeats, fresh.len())?;
    Ok(())
}

fn say(out: &mut dyn Write, what: &str, burst: &Burst) -> Result<(), Fault> {
    writeln!(
        out,
        "{what}: {} in {:.1} s, {:.0}/s; p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
        burst.latencies.len(),
        burst.wall.as_secs_f64(),
        burst.rate(),
        millis(burst.percentile(50)),
        millis(burst.percentile(99)),
        millis(burst.percentile(100)),
    )?;
    Ok(())
}

/// What came of the repeats.
struct Raged {
    burst: Burst,
    answer: Answer,
    later: usize,
}

/// Sends until it is not asked to come later; the answer and how often it was.
fn insist(
    endpoint: &Endpoint,
    connection: &mut Connection,
    package: &Package,
) -> Result<(Answer, usize), Fault> {
    for later in 0..TRIES {
        let answer = connection.post(&endpoint.path, package)?;
        if answer.status != 503 {
            return Ok((answer, later));
        }
        demand!(answer.header("retry-after").is_some(), "HTTP 503 without Retry-After");
        demand!(!String::from_utf8_lossy(&answer.body).contains("Envelope"), "HTTP 503 with SOAP");
        if answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            *connection = endpoint.connect()?;
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err(Fault::broken("asked to come later for ever"))
}

fn rage(endpoint: &Endpoint, one: &Package, storm: &Storm) -> Result<Raged, Fault> {
    let (left, later) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let seen: Mutex<(Option<Answer>, Vec<Duration>)> = Mutex::new((None, Vec::new()));
    let watch = Stopwatch::start();
    on_threads(storm.connections, &|_| {
        let mut connection = endpoint.connect()?;
        while left.fetch_add(1, Ordering::Relaxed) < storm.repeats {
            let sent = Stopwatch::start();
            let (answer, times) = insist(endpoint, &mut connection, one)?;
            later.fetch_add(times, Ordering::Relaxed);
            let mut seen = seen.lock().map_err(|_| Fault::setup("a thread of the storm panicked"))?;
            seen.1.push(sent.elapsed());
            let first = seen.0.get_or_insert_with(|| answer.clone());
            demand!(answer.is_same(first), "two answers to one message: {answer:?} and {first:?}");
        }
        Ok(())
    })?;
    let wall = watch.elapsed();
    let (answer, mut latencies) =
        seen.into_inner().map_err(|_| Fault::setup("a thread of the storm panicked"))?;
    latencies.sort_unstable();
    let answer = answer.ok_or_else(|| Fault::setup("a storm without a message"))?;
    Ok(Raged { burst: Burst { wall, latencies }, answer, later: later.into_inner() })
}

/// The other senders, one connection each in turn.
fn flow(endpoint: &Endpoint, packages: &[Package]) -> Result<Burst, Fault> {
    let watch = Stopwatch::start();
    let mut latencies = Vec::new();
    let mut connection = endpoint.connect()?;
    for package in packages {
        let sent = Stopwatch::start();
        let (answer, _) = insist(endpoint, &mut connection, package)?;
        latencies.push(sent.elapsed());
        let kind = receipt::kind(&answer);
        demand!(kind == receipt::Kind::Receipt, "another sender's message: {kind:?}");
    }
    latencies.sort_unstable();
    Ok(Burst { wall: watch.elapsed(), latencies })
}
