//! A bounded memory of certificates that were found to be issued by the right CA.

use std::{collections::HashMap, sync::Arc};

use crate::{model::Digest, security::certificate::PeerCertificate};

/// How many certificates are remembered; each takes some 10 KB. Peppol has a few hundred access points.
pub const CACHE_CERTIFICATES_MAX: usize = 1024;

/// A certificate whose verdict only the time can change.
pub(super) struct Known {
    pub(super) certificate: Arc<PeerCertificate>,
    /// The access point CAs that issued it: indices into the anchors.
    pub(super) issuers: Vec<usize>,
}

/// Least recently used goes first.
#[derive(Default)]
pub(super) struct Cache {
    entries: HashMap<Digest, (u64, Arc<Known>)>,
    clock: u64,
}

impl Cache {
    /// The key is SHA-256 of the DER form.
    pub(super) fn find(&mut self, digest: Digest) -> Option<Arc<Known>> {
        self.clock += 1;
        let (used, known) = self.entries.get_mut(&digest)?;
        *used = self.clock;
        Some(Arc::clone(known))
    }

    pub(super) fn insert(&mut self, known: Arc<Known>) {
        self.insert_as(known.certificate.digest(), known);
    }

    pub(super) fn insert_as(&mut self, digest: Digest, known: Arc<Known>) {
        if self.entries.len() >= CACHE_CERTIFICATES_MAX {
            let oldest = self.entries.iter().min_by_key(|(_, (used, _))| *used).map(|(digest, _)| *digest);
            oldest.map(|digest| self.entries.remove(&digest));
        }
        self.clock += 1;
        self.entries.insert(digest, (self.clock, known));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
