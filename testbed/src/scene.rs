//! What most runs need: a scratch folder, a PKI, a site of the product and an access point that sends to it.

use std::{env, fs, path::PathBuf};

use tempfile::TempDir;

use crate::{
    Fault,
    composer::Draft,
    pki::{Credentials, Pki},
    product::{Site, Transport, checkout},
    sbd::Document,
};

/// The access point that sends.
pub const SENDER: &str = "POP000001";
/// The access point under test.
pub const RECEIVER: &str = "PGB000002";

/// A folder of its own below `target/testbed` of the checkout (on a real disk, unlike many a `/tmp`), removed
/// with the value; kept when `TESTBED_KEEP=1`.
///
/// # Errors
/// When it cannot be made.
pub fn scratch(name: &str) -> Result<TempDir, Fault> {
    let parent = output()?;
    let mut folder = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(parent)?;
    folder.disable_cleanup(env::var_os("TESTBED_KEEP").is_some_and(|value| value == "1"));
    Ok(folder)
}

/// `target/testbed` of the checkout.
///
/// # Errors
/// When it cannot be made.
pub fn output() -> Result<PathBuf, Fault> {
    let folder = checkout().join("target/testbed");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// A site of the product with a sender that it trusts.
#[derive(Debug)]
pub struct Scene {
    /// The hierarchy.
    pub pki: Pki,
    /// Who sends.
    pub sender: Credentials,
    /// Who receives: the product.
    pub receiver: Credentials,
    /// The product's folder and endpoints.
    pub site: Site,
    folder: TempDir,
}

impl Scene {
    /// Sets the scene; nothing runs yet.
    ///
    /// # Errors
    /// When keys or files cannot be made.
    pub fn set(name: &str, transport: Transport, settings: &[(&str, &str)]) -> Result<Self, Fault> {
        let folder = scratch(name)?;
        let pki = Pki::new()?;
        let sender = pki.access_point(SENDER)?;
        let receiver = pki.access_point(RECEIVER)?;
        let site = Site::new(folder.path(), &pki, &receiver, transport, settings)?;
        Ok(Self { pki, sender, receiver, site, folder })
    }

    /// The scratch folder.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// An invoice of about that size from the sender to the product.
    #[must_use]
    pub fn invoice(&self, bytes: u64) -> Draft {
        Draft::invoice(&self.sender, &self.receiver.certificate, bytes)
    }

    /// That document from the sender to the product.
    #[must_use]
    pub fn message(&self, document: Document) -> Draft {
        Draft::with(&self.sender, &self.receiver.certificate, document)
    }
}
