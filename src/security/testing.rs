//! A small PKI for the tests of this floor, made anew in each run.

pub(crate) mod message;

use std::sync::OnceLock;

use openssl::{
    asn1::Asn1Time,
    bn::BigNum,
    ec::{EcGroup, EcKey},
    hash::MessageDigest,
    nid::Nid,
    pkey::{PKey, Private},
    rsa::Rsa,
    x509::{
        X509, X509Builder, X509Name, X509NameBuilder,
        extension::{BasicConstraints, KeyUsage, SubjectKeyIdentifier},
    },
};

use crate::model::Timestamp;

use super::key::OwnKey;

/// 2026-12-01T00:00:00Z, when all certificates here are valid unless they are made otherwise.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_796_083_200_000);
pub(crate) const DAY: i64 = 86_400;

pub(crate) fn seconds(at: Timestamp) -> i64 {
    i64::try_from(at.as_millis() / 1000).unwrap()
}

/// What a certificate may be used for.
pub(crate) enum Usage {
    Sign,
    EncryptOnly,
    Ca,
}

/// What a certificate is made of.
pub(crate) struct Recipe<'a> {
    pub(crate) cn: &'a str,
    pub(crate) key: &'a PKey<Private>,
    pub(crate) issuer: Option<(&'a X509, &'a PKey<Private>)>,
    pub(crate) serial: u32,
    pub(crate) days: (i64, i64),
    pub(crate) usage: Usage,
    pub(crate) digest: MessageDigest,
}

impl<'a> Recipe<'a> {
    pub(crate) fn leaf(cn: &'a str, key: &'a PKey<Private>, issuer: (&'a X509, &'a PKey<Private>)) -> Self {
        Self {
            cn,
            key,
            issuer: Some(issuer),
            serial: 77,
            days: (-30, 700),
            usage: Usage::Sign,
            digest: MessageDigest::sha256(),
        }
    }

    pub(crate) fn ca(
        cn: &'a str,
        key: &'a PKey<Private>,
        issuer: Option<(&'a X509, &'a PKey<Private>)>,
    ) -> Self {
        Self {
            cn,
            key,
            issuer,
            serial: 5,
            days: (-300, 3000),
            usage: Usage::Ca,
            digest: MessageDigest::sha256(),
        }
    }

    pub(crate) fn make(&self) -> X509 {
        let name = name(self.cn);
        let mut builder = X509Builder::new().unwrap();
        builder.set_version(2).unwrap();
        builder
            .set_serial_number(&BigNum::from_u32(self.serial).unwrap().to_asn1_integer().unwrap())
            .unwrap();
        builder.set_subject_name(&name).unwrap();
        builder.set_issuer_name(self.issuer.map_or(&name, |(issuer, _)| issuer.subject_name())).unwrap();
        builder.set_pubkey(self.key).unwrap();
        let at = |days: i64| Asn1Time::from_unix(seconds(NOW) + days * DAY).unwrap();
        builder.set_not_before(&at(self.days.0)).unwrap();
        builder.set_not_after(&at(self.days.1)).unwrap();
        self.extend(&mut builder);
        builder.sign(self.issuer.map_or(self.key, |(_, key)| key), self.digest).unwrap();
        builder.build()
    }

    fn extend(&self, builder: &mut X509Builder) {
        let mut constraints = BasicConstraints::new();
        constraints.critical();
        let mut usage = KeyUsage::new();
        usage.critical();
        match self.usage {
            Usage::Sign => usage.digital_signature().key_encipherment(),
            Usage::EncryptOnly => usage.key_encipherment(),
            Usage::Ca => {
                constraints.ca();
                usage.digital_signature().key_cert_sign().crl_sign()
            }
        };
        builder.append_extension(constraints.build().unwrap()).unwrap();
        builder.append_extension(usage.build().unwrap()).unwrap();
        let identifier = {
            let context = builder.x509v3_context(None, None);
            SubjectKeyIdentifier::new().build(&context).unwrap()
        };
        builder.append_extension(identifier).unwrap();
    }
}

fn name(cn: &str) -> X509Name {
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("C", "BE").unwrap();
    name.append_entry_by_text("O", "Test, Inc.").unwrap();
    name.append_entry_by_text("CN", cn).unwrap();
    name.build()
}

/// Root, access point CA, SMP CA and two access points.
pub(crate) struct Pki {
    pub(crate) root: X509,
    pub(crate) root_key: PKey<Private>,
    pub(crate) ap_ca: X509,
    pub(crate) ap_ca_key: PKey<Private>,
    pub(crate) smp_ca: X509,
    pub(crate) smp_ca_key: PKey<Private>,
    pub(crate) sender: X509,
    pub(crate) sender_key: PKey<Private>,
    pub(crate) receiver: X509,
    pub(crate) receiver_key: PKey<Private>,
}

pub(crate) fn rsa(bits: u32) -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(bits).unwrap()).unwrap()
}

pub(crate) fn pki() -> &'static Pki {
    static PKI: OnceLock<Pki> = OnceLock::new();
    PKI.get_or_init(|| {
        let (root_key, ap_ca_key, smp_ca_key) = (rsa(2048), rsa(2048), rsa(2048));
        let (sender_key, receiver_key) = (rsa(2048), rsa(2048));
        let root = Recipe::ca("TEST ROOT", &root_key, None).make();
        let ap_ca = Recipe::ca("TEST AP CA", &ap_ca_key, Some((&root, &root_key))).make();
        let smp_ca =
            Recipe { serial: 6, ..Recipe::ca("TEST SMP CA", &smp_ca_key, Some((&root, &root_key))) }.make();
        let sender = Recipe::leaf("POP000001", &sender_key, (&ap_ca, &ap_ca_key)).make();
        let receiver =
            Recipe { serial: 78, ..Recipe::leaf("POP000002", &receiver_key, (&ap_ca, &ap_ca_key)) }.make();
        Pki {
            root,
            root_key,
            ap_ca,
            ap_ca_key,
            smp_ca,
            smp_ca_key,
            sender,
            sender_key,
            receiver,
            receiver_key,
        }
    })
}

/// Certificate and key in PEM.
pub(crate) type Pem = (Vec<u8>, Vec<u8>);

fn pem(certificate: &X509, key: &PKey<Private>) -> Pem {
    (certificate.to_pem().unwrap(), key.private_key_to_pem_pkcs8().unwrap())
}

pub(crate) fn sender_pem() -> Pem {
    pem(&pki().sender, &pki().sender_key)
}

pub(crate) fn receiver_pem() -> Pem {
    pem(&pki().receiver, &pki().receiver_key)
}

pub(crate) fn pem_with_rsa(bits: u32) -> Pem {
    let key = rsa(bits);
    pem(&Recipe::leaf("POP000009", &key, (&pki().ap_ca, &pki().ap_ca_key)).make(), &key)
}

pub(crate) fn pem_with_curve() -> Pem {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
    pem(&Recipe::leaf("POP000009", &key, (&pki().ap_ca, &pki().ap_ca_key)).make(), &key)
}

pub(crate) fn sender() -> &'static OwnKey {
    static KEY: OnceLock<OwnKey> = OnceLock::new();
    KEY.get_or_init(|| OwnKey::from_pem(&sender_pem().0, &sender_pem().1).unwrap())
}

pub(crate) fn receiver() -> &'static OwnKey {
    static KEY: OnceLock<OwnKey> = OnceLock::new();
    KEY.get_or_init(|| OwnKey::from_pem(&receiver_pem().0, &receiver_pem().1).unwrap())
}

/// DER: one tag-length-value.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[tag, 0x82], length.as_slice(), &content].concat()
}

/// What a revocation list is made of; the bindings cannot make one.
pub(crate) struct CrlRecipe<'a> {
    pub(crate) issuer: (&'a X509, &'a PKey<Private>),
    /// Days before and after [`NOW`].
    pub(crate) days: (i64, i64),
    pub(crate) revoked: &'a [u8],
    /// An extension: the last octet of its OID below 2.5.29, whether it is critical, its value.
    pub(crate) extension: Option<(u8, bool, &'a [u8])>,
}

impl CrlRecipe<'_> {
    pub(crate) fn make(&self) -> Vec<u8> {
        // sha256WithRSAEncryption, 1.2.840.113549.1.1.11
        let algorithm = der(0x30, &[&[0x06, 9, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 1, 11], &[0x05, 0]]);
        let time = |days: i64| {
            let at = Timestamp::from_millis(u64::try_from(seconds(NOW) + days * DAY).unwrap() * 1000);
            let digits: String = at.to_string().chars().filter(char::is_ascii_digit).take(14).collect();
            der(0x18, &[digits.as_bytes(), b"Z"])
        };
        let entry = |serial: &u8| der(0x30, &[&[0x02, 1, *serial], &time(-10)]);
        let entries: Vec<u8> = self.revoked.iter().flat_map(entry).collect();
        let revoked = if entries.is_empty() { Vec::new() } else { der(0x30, &[&entries]) };
        let extensions = self.extension.map_or_else(Vec::new, |(id, critical, value)| {
            let critical: &[u8] = if critical { &[0x01, 1, 0xFF] } else { &[] };
            let extension = der(0x30, &[&[0x06, 3, 0x55, 0x1D, id], critical, &der(0x04, &[value])]);
            der(0xA0, &[&der(0x30, &[&extension])])
        });
        let issuer = self.issuer.0.subject_name().to_der().unwrap();
        let (from, to) = (time(self.days.0), time(self.days.1));
        let list = der(0x30, &[&[0x02, 1, 1], &algorithm, &issuer, &from, &to, &revoked, &extensions]);
        let mut signer = openssl::sign::Signer::new(MessageDigest::sha256(), self.issuer.1).unwrap();
        let signature = signer.sign_oneshot_to_vec(&list).unwrap();
        der(0x30, &[&list, &algorithm, &der(0x03, &[&[0], &signature])])
    }
}
