//! Large payloads: memory must not depend on their size.

use std::io::Write;

use super::{mebibytes, millis};
use crate::{
    Fault,
    client::Body,
    clock::Stopwatch,
    composer::{Compression, Draft},
    demand,
    process::reset_peak,
    product::Transport,
    receipt,
    sbd::{Document, Filler},
    scene::Scene,
};

/// Memory that one large message may take above an idle server, in bytes.
pub const ABOVE_IDLE_MAX: u64 = 96 << 20;
/// zlib's level for large payloads: the sender is not what is measured.
const LEVEL: u32 = 1;

/// Sends each kind of large payload to a fresh server and judges memory and delivery.
///
/// # Errors
/// When one is not accepted, is delivered otherwise than sent, or takes too much memory.
pub fn run(bytes: u64, out: &mut dyn Write) -> Result<(), Fault> {
    let mut worst = 0;
    for filler in [Filler::Plain, Filler::Random] {
        for compression in [Compression::Gzip { level: LEVEL, modified: 0 }, Compression::None] {
            for binary in [Shape::Invoice, Shape::Binary] {
                worst = worst.max(one(bytes, filler, compression, binary, out)?);
            }
        }
    }
    demand!(
        worst <= ABOVE_IDLE_MAX,
        "{:.1} MiB above idle, more than {:.0}",
        mebibytes(worst),
        mebibytes(ABOVE_IDLE_MAX)
    );
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    Invoice,
    Binary,
}

fn draft(scene: &Scene, bytes: u64, filler: Filler, shape: Shape) -> Draft {
    let number = "BIG-1".to_owned();
    scene.message(match shape {
        Shape::Invoice => Document::Invoice { number, bytes, filler },
        // In base64 it becomes that large.
        Shape::Binary => Document::Binary { number, bytes: bytes / 4 * 3, filler },
    })
}

fn one(
    bytes: u64,
    filler: Filler,
    compression: Compression,
    shape: Shape,
    out: &mut dyn Write,
) -> Result<u64, Fault> {
    let scene = Scene::set("big", Transport::Plain, &[])?;
    let sealed = Draft { compression, ..draft(&scene, bytes, filler, shape) }.sign()?.seal()?;
    let product = scene.site.start()?;
    let before = product.usage()?;
    reset_peak(product.pid())?;
    let endpoint = scene.site.as4();
    let watch = Stopwatch::start();
    let content_type = sealed.content_type();
    let answer = endpoint.connect()?.request(
        "POST",
        &endpoint.path,
        &[("Content-Type", &content_type)],
        Body::Stream(sealed.length(), &mut |sink| sealed.write(sink)),
    )?;
    let received = watch.elapsed();
    receipt::prove(&answer, &sealed.claim(), &scene.receiver.certificate)?;
    let usage = product.usage()?;
    delivered(&scene, &sealed.claim())?;
    let above = product.usage()?.peak.max(usage.peak).saturating_sub(before.resident);
    writeln!(
        out,
        "{:7} {:6} {:5}: {:6.0} MiB on the wire, {:6.0} MiB SBD; {:.0} s, server CPU {:.1} s; \
         {:.1} MiB above {:.1} MiB idle",
        format!("{shape:?}").to_lowercase(),
        format!("{filler:?}").to_lowercase(),
        if compression == Compression::None { "raw" } else { "gzip" },
        mebibytes(sealed.length()),
        mebibytes(sealed.facts().sbd_bytes),
        millis(received) / 1000.0,
        usage.cpu.saturating_sub(before.cpu).as_secs_f64(),
        mebibytes(above),
        mebibytes(before.resident),
    )?;
    Ok(above)
}

/// The backend gets it whole, as a stream, once.
fn delivered(scene: &Scene, claim: &crate::composer::Claim) -> Result<(), Fault> {
    let connector = scene.site.connector();
    let items = connector.claim(10)?;
    demand!(items.len() == 1, "{} deliveries, not one", items.len());
    for item in &items {
        demand!(item.sha256 == claim.document_sha256, "the item says sha256 {}", item.sha256);
        let (document, _) = connector.digest(&item.id, "document")?;
        demand!(document == claim.document_sha256, "another document: {document}");
        let (sbd, _) = connector.digest(&item.id, "sbd")?;
        demand!(sbd == claim.sbd_sha256, "another envelope: {sbd}");
    }
    connector.ack(&items)?;
    Ok(())
}
