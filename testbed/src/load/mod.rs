//! Load: throughput, CPU per message as a ratio to the crypto floor measured in the same run, memory.

pub mod big;
pub mod floor;
pub mod storm;

use std::{
    io::Write,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    Fault,
    client::Endpoint,
    clock::Stopwatch,
    composer::Package,
    demand,
    process::reset_peak,
    product::{Product, Transport},
    receipt::{self, Kind},
    scene::Scene,
};

/// How large a load.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// First messages.
    pub messages: usize,
    /// About the size of each document, in bytes.
    pub bytes: u64,
    /// Connections, each kept alive.
    pub connections: usize,
    /// Repeats after the first messages, in percent of them.
    pub repeats: usize,
    /// Plain or TLS.
    pub transport: Transport,
}

/// How a burst went.
#[derive(Debug, Clone, Default)]
pub struct Burst {
    /// From the first byte to the last answer.
    pub wall: Duration,
    /// Time to each answer, sorted.
    pub latencies: Vec<Duration>,
}

impl Burst {
    /// The latency that so many percent stay below.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Duration {
        let at = self.latencies.len().saturating_sub(1) * percent / 100;
        self.latencies.get(at).copied().unwrap_or_default()
    }

    /// Messages in a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.wall.as_secs_f64().max(1e-9)
    }
}

/// Signs and encrypts `count` messages in parallel.
///
/// # Errors
/// When OpenSSL fails.
pub fn compose(
    count: usize,
    make: &(dyn Fn() -> Result<Package, Fault> + Sync),
) -> Result<Vec<Package>, Fault> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    let workers = thread::available_parallelism().map_or(1, usize::from);
    on_threads(workers, &|_| {
        while next.fetch_add(1, Ordering::Relaxed) < count {
            let package = make()?;
            done.lock().map_err(|_| Fault::setup("a composing thread panicked"))?.push(package);
        }
        Ok(())
    })?;
    done.into_inner().map_err(|_| Fault::setup("a composing thread panicked"))
}

/// Runs `work` on so many threads; the first fault of any.
pub(crate) fn on_threads(
    count: usize,
    work: &(dyn Fn(usize) -> Result<(), Fault> + Sync),
) -> Result<(), Fault> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(Fault::setup("a thread of the load panicked")))
        })
    })
}

/// Sends every package once over that many connections; each answer must be a receipt.
///
/// # Errors
/// When one is not.
pub fn burst(endpoint: &Endpoint, packages: &[Package], connections: usize) -> Result<Burst, Fault> {
    let next = AtomicUsize::new(0);
    let latencies = Mutex::new(Vec::with_capacity(packages.len()));
    let watch = Stopwatch::start();
    on_threads(connections, &|_| {
        let mut connection = endpoint.connect()?;
        let mut own = Vec::new();
        while let Some(package) = packages.get(next.fetch_add(1, Ordering::Relaxed)) {
            let sent = Stopwatch::start();
            let answer = connection.post(&endpoint.path, package)?;
            own.push(sent.elapsed());
            let kind = receipt::kind(&answer);
            demand!(kind == Kind::Receipt, "{}: {kind:?}", package.claim.message_id);
        }
        latencies.lock().map_err(|_| Fault::setup("a thread of the load panicked"))?.extend(own);
        Ok(())
    })?;
    let wall = watch.elapsed();
    let mut latencies = latencies.into_inner().map_err(|_| Fault::setup("a thread of the load panicked"))?;
    latencies.sort_unstable();
    Ok(Burst { wall, latencies })
}

/// A burst together with what the server spent on it.
fn measured(product: &Product, packages: &[Package], connections: usize) -> Result<(Burst, Duration), Fault> {
    let before = product.usage()?.cpu;
    let burst = burst(product.site().as4(), packages, connections)?;
    Ok((burst, product.usage()?.cpu.saturating_sub(before)))
}

/// Messages sent before anything is measured.
const WARM_UP: usize = 64;

/// Starts the product, sends the load, prints what it cost.
///
/// # Errors
/// When an answer is no receipt or a message is not delivered exactly once.
pub fn run(load: &Load, out: &mut dyn Write) -> Result<(), Fault> {
    let scene = Scene::set("load", load.transport, &[])?;
    let make = || scene.invoice(load.bytes).compose();
    let packages = compose(load.messages, &make)?;
    let repeats: Vec<Package> =
        packages.iter().cycle().take(load.messages * load.repeats / 100).cloned().collect();
    let floor_before = floor::measure()?;
    let product = scene.site.start()?;
    let idle = product.usage()?.resident;
    burst(scene.site.as4(), &compose(WARM_UP, &make)?, load.connections)?;
    reset_peak(product.pid())?;
    let (first, first_cpu) = measured(&product, &packages, load.connections)?;
    let (again, again_cpu) = measured(&product, &repeats, load.connections)?;
    let usage = product.usage()?;
    let floor = (floor_before + floor::measure()?) / 2;
    let size = packages.first().map_or(0, |package| package.body.len());
    writeln!(
        out,
        "load: {} messages of {size} bytes, {} repeats, {} connections",
        packages.len(),
        repeats.len(),
        load.connections
    )?;
    writeln!(out, "crypto floor (2 RSA-2048 private operations, 1 verification): {:.3} ms", millis(floor))?;
    report(out, "first message", &first, first_cpu, floor)?;
    report(out, "repeat", &again, again_cpu, floor)?;
    writeln!(
        out,
        "memory: {:.1} MiB idle after start, {:.1} MiB at the peak, {:.1} MiB at the end",
        mebibytes(idle),
        mebibytes(usage.peak),
        mebibytes(usage.resident)
    )?;
    let delivered = scene.site.connector().drain()?.len();
    demand!(delivered == load.messages + WARM_UP, "{delivered} deliveries of {}", load.messages + WARM_UP);
    writeln!(out, "delivered once each: {delivered}")?;
    Ok(())
}

fn report(
    out: &mut dyn Write,
    what: &str,
    burst: &Burst,
    cpu: Duration,
    floor: Duration,
) -> Result<(), Fault> {
    if burst.latencies.is_empty() {
        return Ok(());
    }
    let each = cpu.as_secs_f64() / burst.latencies.len() as f64;
    writeln!(
        out,
        "{what}: {:.0}/s, CPU {:.3} ms each = {:.2} floors; latency p50 {:.1} ms, p95 {:.1} ms, max {:.1} ms",
        burst.rate(),
        each * 1000.0,
        each / floor.as_secs_f64(),
        millis(burst.percentile(50)),
        millis(burst.percentile(95)),
        millis(burst.percentile(100)),
    )?;
    Ok(())
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
