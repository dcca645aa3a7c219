//! A throw-away PKI, a site made of it, and a service on free ports.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use oncepoint::{
    exchange::{Identity, PayloadLimits, Site},
    model::{Tenant, Timestamp},
    net::tls::ServerTls,
    peppol::Participants,
    pmode::{Defaults, DuplicatePolicy, PModes, Stage},
    security::{
        key::OwnKey,
        revocation::{Revocation, RevocationMode},
        trust::{Trust, TrustAnchors},
    },
    service::{
        clock::Clock,
        config::{As4Config, ConnectorConfig, PoolConfig, ServiceConfig, SweepConfig},
        connector::ConnectorKeys,
        running::{self, Running},
    },
    store::Store,
};
use openssl::{
    asn1::Asn1Time,
    bn::BigNum,
    hash::MessageDigest,
    pkey::{PKey, Private},
    rsa::Rsa,
    x509::{
        X509, X509Builder, X509NameBuilder,
        extension::{BasicConstraints, KeyUsage, SubjectAlternativeName},
    },
};

/// A certificate with its key.
pub(crate) struct Pair {
    pub(crate) certificate: X509,
    pub(crate) key: PKey<Private>,
}

impl Pair {
    pub(crate) fn certificate_pem(&self) -> Vec<u8> {
        self.certificate.to_pem().unwrap()
    }

    pub(crate) fn key_pem(&self) -> Vec<u8> {
        self.key.private_key_to_pem_pkcs8().unwrap()
    }
}

/// What a certificate is for.
#[derive(PartialEq, Eq)]
pub(crate) enum Use {
    Authority,
    AccessPoint,
    TlsServer,
}

/// Makes a certificate; without an issuer it signs itself.
pub(crate) fn certify(name: &str, serial: u32, purpose: &Use, issuer: Option<&Pair>) -> Pair {
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut subject = X509NameBuilder::new().unwrap();
    subject.append_entry_by_text("C", "BE").unwrap();
    subject.append_entry_by_text("O", "Throw-away").unwrap();
    subject.append_entry_by_text("CN", name).unwrap();
    let subject = subject.build();
    let mut builder = X509Builder::new().unwrap();
    builder.set_version(2).unwrap();
    let serial = BigNum::from_u32(serial).unwrap().to_asn1_integer().unwrap();
    builder.set_serial_number(&serial).unwrap();
    builder.set_subject_name(&subject).unwrap();
    builder.set_issuer_name(issuer.map_or(&subject, |issuer| issuer.certificate.subject_name())).unwrap();
    builder.set_pubkey(&key).unwrap();
    builder.set_not_before(&Asn1Time::from_unix(1_700_000_000).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::from_unix(2_300_000_000).unwrap()).unwrap();
    let mut constraints = BasicConstraints::new();
    let mut usage = KeyUsage::new();
    match purpose {
        Use::Authority => {
            constraints.critical().ca();
            usage.critical().key_cert_sign().crl_sign();
        }
        Use::AccessPoint => {
            usage.critical().digital_signature().key_encipherment();
        }
        Use::TlsServer => {
            usage.digital_signature();
            let context = builder.x509v3_context(None, None);
            let names = SubjectAlternativeName::new().dns("localhost").build(&context).unwrap();
            builder.append_extension(names).unwrap();
        }
    }
    builder.append_extension(constraints.build().unwrap()).unwrap();
    builder.append_extension(usage.build().unwrap()).unwrap();
    builder.sign(issuer.map_or(&key, |issuer| &issuer.key), MessageDigest::sha256()).unwrap();
    Pair { certificate: builder.build(), key }
}

/// The files that a site is made of, PEM.
pub(crate) struct Material {
    pub(crate) key: Vec<u8>,
    pub(crate) certificate: Vec<u8>,
    pub(crate) root: Vec<u8>,
    pub(crate) ca: Vec<u8>,
    pub(crate) crls: Vec<Vec<u8>>,
}

impl Material {
    /// Of a new PKI.
    pub(crate) fn fresh() -> Self {
        let root = certify("Throw-away Root", 1, &Use::Authority, None);
        let ca = certify("Throw-away AP CA", 2, &Use::Authority, Some(&root));
        let seat = certify("PBE000001", 3, &Use::AccessPoint, Some(&ca));
        Self {
            key: seat.key_pem(),
            certificate: seat.certificate_pem(),
            root: root.certificate_pem(),
            ca: ca.certificate_pem(),
            crls: vec![],
        }
    }

    pub(crate) fn site(&self) -> Site {
        let key = OwnKey::from_pem(&self.certificate, &self.key).unwrap();
        let anchors = TrustAnchors::from_pem([self.root.as_slice()], [self.ca.as_slice()]).unwrap();
        let mode = if self.crls.is_empty() { RevocationMode::Off } else { RevocationMode::Hard };
        let mut revocation = Revocation::new(mode);
        self.crls.iter().for_each(|lists| revocation.add_lists(lists).unwrap());
        Site {
            identities: vec![Arc::new(Identity { key: Arc::new(key), tenant: Tenant::default_tenant() })],
            pmodes: pmodes(),
            trust: Trust::new(anchors, &revocation),
            participants: Participants::Any,
            limits: PayloadLimits::default(),
        }
    }
}

/// The P-Modes that come with the product.
fn pmodes() -> PModes {
    let texts = ["peppol.toml", "ping.toml"].map(|name| {
        let path = format!("{}/pmodes/{name}", env!("CARGO_MANIFEST_DIR"));
        (name, std::fs::read_to_string(path).unwrap())
    });
    let named: Vec<_> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let defaults = Defaults { stage: Stage::Local, duplicates: DuplicatePolicy::default() };
    PModes::from_texts(&named, &defaults).unwrap()
}

pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(crate) fn at(text: &str) -> Clock {
    Clock::manual(Timestamp::parse(text).unwrap())
}

/// A configuration on free ports, in memory, without TLS.
pub(crate) fn config(site: Site) -> ServiceConfig {
    ServiceConfig {
        site: Arc::new(site),
        store: Store::memory(),
        clock: at("2026-12-01T06:00:00Z"),
        as4: As4Config::on(any_port()),
        connector: ConnectorConfig::on(any_port(), ConnectorKeys::Loopback),
        pool: PoolConfig::default(),
        sweep: SweepConfig::default(),
        shutdown_grace: Duration::from_secs(30),
    }
}

/// A service with a fresh PKI, changed as the test wants it.
pub(crate) async fn service(change: impl FnOnce(&mut ServiceConfig)) -> Running {
    let mut config = config(Material::fresh().site());
    change(&mut config);
    running::start(config).await.unwrap()
}

/// A TLS pair for `localhost`, and the certificate that a client trusts.
pub(crate) fn tls() -> (ServerTls, X509) {
    let pair = certify("localhost", 9, &Use::TlsServer, None);
    let tls = ServerTls::from_pem(&pair.certificate_pem(), &pair.key_pem()).unwrap();
    (tls, pair.certificate)
}
