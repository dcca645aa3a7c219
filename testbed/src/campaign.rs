//! What the crash campaign of `../shared/crash` needs: a site on disk and a store of composed messages that
//! its Python adapter can read (`testbed/crash/adapter.py`).

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
};

use crate::{
    Fault,
    composer::Draft,
    load::compose,
    pki::{Credentials, Pki},
    product::{Site, Transport},
    scene::{RECEIVER, SENDER},
};

/// Messages composed at a time, so that memory stays bounded.
const BATCH: usize = 1000;

/// Writes a site into `folder`: `oncepoint.toml`, `pki/`, and the sender's `pki/sender.pem` and `.key`. The
/// journal segments are small, so that crashes meet their ends; nothing waits for windows.
///
/// # Errors
/// When it cannot be written.
pub fn site(folder: &Path) -> Result<Site, Fault> {
    let pki = Pki::new()?;
    let receiver = pki.access_point(RECEIVER)?;
    let site = Site::new(folder, &pki, &receiver, Transport::Plain, &[("store", "segment = \"256KiB\"")])?;
    pki.access_point(SENDER)?.write(&folder.join("pki"), "sender")?;
    receiver.write(&folder.join("pki"), "receiver")?;
    Ok(site)
}

/// Composes `count` messages from the sender of a site into `out`: all bodies in `messages.bin`, and in
/// `messages.tsv` a line each with MessageId, Content-Type, offset, length and the SHA-256 of the SBD.
///
/// # Errors
/// When the site is none or `out` cannot be written.
pub fn pool(site: &Path, count: usize, bytes: u64, out: &Path) -> Result<(), Fault> {
    let keys = site.join("pki");
    let sender = Credentials::read(&keys.join("sender.pem"), &keys.join("sender.key"))?;
    let receiver = Credentials::read(&keys.join("receiver.pem"), &keys.join("receiver.key"))?;
    fs::create_dir_all(out)?;
    let mut bodies = BufWriter::new(File::create(out.join("messages.bin"))?);
    let mut index = BufWriter::new(File::create(out.join("messages.tsv"))?);
    let (mut offset, mut left) = (0, count);
    while left > 0 {
        let batch = left.min(BATCH);
        left -= batch;
        for package in compose(batch, &|| Draft::invoice(&sender, &receiver.certificate, bytes).compose())? {
            bodies.write_all(&package.body)?;
            writeln!(
                index,
                "{}\t{}\t{offset}\t{}\t{}",
                package.claim.message_id,
                package.content_type,
                package.body.len(),
                package.claim.sbd_sha256
            )?;
            offset += package.body.len();
        }
    }
    bodies.flush()?;
    index.flush()?;
    Ok(())
}
