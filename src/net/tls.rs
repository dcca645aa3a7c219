//! TLS for listeners: rustls with the `ring` provider, TLS 1.2 and 1.3, keys from PEM.

use std::sync::{Arc, RwLock};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

/// Why a certificate and a key make no listener.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate text holds no certificate, or a damaged one.
    #[error("the TLS certificate file holds no readable PEM certificate: {0}")]
    Certificate(String),
    /// The key text holds no private key.
    #[error("the TLS key file holds no readable PEM private key: {0}")]
    Key(String),
    /// The key is of a kind that TLS does not use, or does not belong to the certificate.
    #[error("the TLS key cannot be used with the certificate: {0}")]
    Pair(rustls::Error),
    /// The protocol versions cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

/// The TLS side of a listener. Its certificate can be replaced while connections are open.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    current: Arc<Current>,
}

impl ServerTls {
    /// Takes a chain (leaf first) and its key (PKCS #8, PKCS #1 or SEC1), both PEM.
    ///
    /// # Errors
    /// When either cannot be read or the two do not belong together.
    pub fn from_pem(chain_pem: &[u8], key_pem: &[u8]) -> Result<Self, TlsError> {
        let current = Arc::new(Current(RwLock::new(certified(chain_pem, key_pem)?)));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(TlsError::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), current })
    }

    /// Uses another certificate and key from the next handshake on.
    ///
    /// # Errors
    /// As [`ServerTls::from_pem`]; the pair in use stays.
    pub fn replace(&self, chain_pem: &[u8], key_pem: &[u8]) -> Result<(), TlsError> {
        let fresh = certified(chain_pem, key_pem)?;
        let mut slot = self.current.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        *slot = fresh;
        Ok(())
    }

    /// For the acceptor.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

impl std::fmt::Debug for ServerTls {
    /// Never prints the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

/// The pair in use.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner)))
    }
}

fn certified(chain_pem: &[u8], key_pem: &[u8]) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(chain_pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError::Certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(TlsError::Certificate("no CERTIFICATE section".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|error| TlsError::Key(error.to_string()))?;
    let pair = CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(TlsError::Pair)?;
    Ok(Arc::new(pair))
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::{
        asn1::Asn1Time,
        ec::{EcGroup, EcKey},
        hash::MessageDigest,
        nid::Nid,
        pkey::{PKey, Private},
        x509::{X509Builder, X509NameBuilder},
    };

    fn pair() -> (Vec<u8>, Vec<u8>) {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let key: PKey<Private> = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        let mut name = X509NameBuilder::new().unwrap();
        name.append_entry_by_text("CN", "localhost").unwrap();
        let name = name.build();
        let mut certificate = X509Builder::new().unwrap();
        certificate.set_version(2).unwrap();
        certificate.set_subject_name(&name).unwrap();
        certificate.set_issuer_name(&name).unwrap();
        certificate.set_pubkey(&key).unwrap();
        certificate.set_not_before(&Asn1Time::from_unix(0).unwrap()).unwrap();
        certificate.set_not_after(&Asn1Time::from_unix(4_000_000_000).unwrap()).unwrap();
        certificate.sign(&key, MessageDigest::sha256()).unwrap();
        (certificate.build().to_pem().unwrap(), key.private_key_to_pem_pkcs8().unwrap())
    }

    #[test]
    fn takes_a_pair_and_replaces_it() {
        let (certificate, key) = pair();
        let tls = ServerTls::from_pem(&certificate, &key).unwrap();
        let (next, next_key) = pair();
        assert!(matches!(tls.replace(&next, &key), Err(TlsError::Pair(_))));
        tls.replace(&next, &next_key).unwrap();
        assert_eq!(format!("{tls:?}"), "ServerTls { .. }");
    }

    #[test]
    fn says_which_of_the_two_is_wrong() {
        let (certificate, key) = pair();
        assert!(matches!(ServerTls::from_pem(&key, &key), Err(TlsError::Certificate(_))));
        assert!(matches!(ServerTls::from_pem(b"", &key), Err(TlsError::Certificate(_))));
        assert!(matches!(ServerTls::from_pem(&certificate, b"nothing"), Err(TlsError::Key(_))));
        let (_, other) = pair();
        assert!(matches!(ServerTls::from_pem(&certificate, &other), Err(TlsError::Pair(_))));
    }
}
