//! A throw-away certificate hierarchy in the shape of the Peppol one: root, access point CA, SMP CA, leaves
//! named by Seat ID, revocation lists, and leaves that must be refused. Made anew in each run, never stored
//! outside a temporary folder.

use std::{fs, path::Path};

use openssl::{
    asn1::{Asn1Integer, Asn1Time},
    bn::{BigNum, MsbOption},
    hash::MessageDigest,
    nid::Nid,
    pkey::{PKey, Private},
    rsa::Rsa,
    x509::{
        X509, X509Builder, X509CrlBuilder, X509Extension, X509Name, X509NameBuilder, X509RevokedBuilder,
        extension::{
            AuthorityKeyIdentifier, BasicConstraints, CrlNumber, ExtendedKeyUsage, KeyUsage,
            SubjectAlternativeName, SubjectKeyIdentifier,
        },
    },
};

use crate::Fault;

/// Every certificate is valid from this day, unless it is one that must be refused.
const FROM: &str = "20250101000000Z";
/// Every certificate is valid to this day, unless it is one that must be refused.
const UNTIL: &str = "20450101000000Z";
/// The last day of an expired leaf.
const EXPIRED: &str = "20260131235959Z";
/// When the revoked leaf was revoked.
const REVOKED_AT: &str = "20251015000000Z";
/// Key size in bits.
const KEY_BITS: u32 = 2048;

/// A certificate with its private key.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The certificate.
    pub certificate: X509,
    /// Its key.
    pub key: PKey<Private>,
}

impl Credentials {
    /// The certificate, then those of `issuers`, as PEM.
    ///
    /// # Errors
    /// When OpenSSL cannot write them.
    pub fn chain_pem(&self, issuers: &[&Self]) -> Result<Vec<u8>, Fault> {
        let mut pem = self.certificate.to_pem()?;
        for issuer in issuers {
            pem.extend(issuer.certificate.to_pem()?);
        }
        Ok(pem)
    }

    /// The key as PEM (PKCS#8).
    ///
    /// # Errors
    /// When OpenSSL cannot write it.
    pub fn key_pem(&self) -> Result<Vec<u8>, Fault> {
        Ok(self.key.private_key_to_pem_pkcs8()?)
    }

    /// Writes `NAME.pem` (the certificate alone) and `NAME.key`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> Result<(), Fault> {
        fs::write(folder.join(format!("{name}.pem")), self.certificate.to_pem()?)?;
        fs::write(folder.join(format!("{name}.key")), self.key_pem()?)?;
        Ok(())
    }

    /// Reads a certificate and its key from PEM files; of a chain the first certificate.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, Fault> {
        Ok(Self {
            certificate: X509::from_pem(&fs::read(certificate)?)?,
            key: PKey::private_key_from_pem(&fs::read(key)?)?,
        })
    }
}

/// Who issues a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Issuer {
    /// The access point CA.
    AccessPoint,
    /// The SMP CA: its leaves must not sign messages.
    Smp,
    /// A CA nobody trusts.
    Unknown,
}

/// The hierarchy.
#[derive(Debug)]
pub struct Pki {
    root: Credentials,
    access_point_ca: Credentials,
    smp_ca: Credentials,
    unknown_ca: Credentials,
    tls_ca: Credentials,
    revoked: Vec<X509>,
}

impl Pki {
    /// Makes new keys for every CA.
    ///
    /// # Errors
    /// When OpenSSL fails.
    pub fn new() -> Result<Self, Fault> {
        let root = authority("LOCAL ROOT TEST CA", None)?;
        Ok(Self {
            access_point_ca: authority("LOCAL ACCESS POINT TEST CA", Some(&root))?,
            smp_ca: authority("LOCAL SMP TEST CA", Some(&root))?,
            unknown_ca: authority("SOME OTHER CA", None)?,
            tls_ca: authority("LOCAL TLS TEST CA", None)?,
            revoked: Vec::new(),
            root,
        })
    }

    fn issuer(&self, issuer: Issuer) -> &Credentials {
        match issuer {
            Issuer::AccessPoint => &self.access_point_ca,
            Issuer::Smp => &self.smp_ca,
            Issuer::Unknown => &self.unknown_ca,
        }
    }

    /// The access point CA's certificate with its key.
    #[must_use]
    pub fn access_point_ca(&self) -> &Credentials {
        &self.access_point_ca
    }

    /// A leaf that is in order but for its issuer.
    ///
    /// # Errors
    /// When OpenSSL fails.
    pub fn leaf(&self, seat: &str, issuer: Issuer) -> Result<Credentials, Fault> {
        leaf(self.issuer(issuer), seat, UNTIL)
    }

    /// An access point's leaf that is in order.
    ///
    /// # Errors
    /// When OpenSSL fails.
    pub fn access_point(&self, seat: &str) -> Result<Credentials, Fault> {
        self.leaf(seat, Issuer::AccessPoint)
    }

    /// An access point's leaf that has expired.
    ///
    /// # Errors
    /// When OpenSSL fails.
    pub fn expired(&self, seat: &str) -> Result<Credentials, Fault> {
        leaf(&self.access_point_ca, seat, EXPIRED)
    }

    /// An access point's leaf that is on the revocation list; the list is written by [`Pki::write`].
    ///
    /// # Errors
    /// When OpenSSL fails.
    pub fn revoked(&mut self, seat: &str) -> Result<Credentials, Fault> {
        let credentials = self.access_point(seat)?;
        self.revoked.push(credentials.certificate.clone());
        Ok(credentials)
    }

    /// A TLS server certificate for 127.0.0.1 and localhost.
    ///
    /// # Errors
    /// When OpenSSL fails.
    pub fn tls(&self) -> Result<Credentials, Fault> {
        let key = key()?;
        let mut builder = builder(&key, &name("localhost", "TEST TLS")?, Some(&self.tls_ca), UNTIL)?;
        builder.append_extension(BasicConstraints::new().critical().build()?)?;
        builder
            .append_extension(KeyUsage::new().critical().digital_signature().key_encipherment().build()?)?;
        builder.append_extension(ExtendedKeyUsage::new().server_auth().build()?)?;
        let names = SubjectAlternativeName::new()
            .ip("127.0.0.1")
            .dns("localhost")
            .build(&builder.x509v3_context(Some(&self.tls_ca.certificate), None))?;
        builder.append_extension(names)?;
        finish(builder, key, Some(&self.tls_ca))
    }

    /// The certificate that a TLS client has to trust.
    #[must_use]
    pub fn tls_anchor(&self) -> &X509 {
        &self.tls_ca.certificate
    }

    /// Writes the public side into a folder: `root.pem`, `apca.pem`, `smpca.pem`, `tlsca.pem`, `root.crl.pem`,
    /// `apca.crl.pem` and its DER twin `apca.crl`.
    ///
    /// # Errors
    /// When they cannot be made or written.
    pub fn write(&self, folder: &Path) -> Result<(), Fault> {
        fs::create_dir_all(folder)?;
        for (name, ca) in [
            ("root", &self.root),
            ("apca", &self.access_point_ca),
            ("smpca", &self.smp_ca),
            ("tlsca", &self.tls_ca),
        ] {
            fs::write(folder.join(format!("{name}.pem")), ca.certificate.to_pem()?)?;
        }
        fs::write(folder.join("root.crl.pem"), revocation_list(&self.root, &[])?.to_pem()?)?;
        let list = revocation_list(&self.access_point_ca, &self.revoked)?;
        fs::write(folder.join("apca.crl.pem"), list.to_pem()?)?;
        fs::write(folder.join("apca.crl"), list.to_der()?)?;
        Ok(())
    }
}

fn key() -> Result<PKey<Private>, Fault> {
    Ok(PKey::from_rsa(Rsa::generate(KEY_BITS)?)?)
}

fn name(common_name: &str, unit: &str) -> Result<X509Name, Fault> {
    let mut name = X509NameBuilder::new()?;
    name.append_entry_by_nid(Nid::COUNTRYNAME, "BE")?;
    name.append_entry_by_nid(Nid::ORGANIZATIONNAME, "TEST ONLY")?;
    if !unit.is_empty() {
        name.append_entry_by_nid(Nid::ORGANIZATIONALUNITNAME, unit)?;
    }
    name.append_entry_by_nid(Nid::COMMONNAME, common_name)?;
    Ok(name.build())
}

fn builder(
    key: &PKey<Private>,
    subject: &X509Name,
    issuer: Option<&Credentials>,
    until: &str,
) -> Result<X509Builder, Fault> {
    let mut builder = X509::builder()?;
    let mut serial = BigNum::new()?;
    serial.rand(120, MsbOption::ONE, false)?;
    builder.set_version(2)?;
    builder.set_serial_number(&*Asn1Integer::from_bn(&serial)?)?;
    builder.set_subject_name(subject)?;
    builder.set_issuer_name(issuer.map_or(subject, |ca| ca.certificate.subject_name()))?;
    builder.set_not_before(&*Asn1Time::from_str_x509(FROM)?)?;
    builder.set_not_after(&*Asn1Time::from_str_x509(until)?)?;
    builder.set_pubkey(key)?;
    let subject_key = SubjectKeyIdentifier::new().build(&builder.x509v3_context(None, None))?;
    builder.append_extension(subject_key)?;
    if let Some(ca) = issuer {
        let identifier = AuthorityKeyIdentifier::new()
            .keyid(true)
            .build(&builder.x509v3_context(Some(&ca.certificate), None))?;
        builder.append_extension(identifier)?;
    }
    Ok(builder)
}

fn finish(
    mut builder: X509Builder,
    key: PKey<Private>,
    issuer: Option<&Credentials>,
) -> Result<Credentials, Fault> {
    builder.sign(issuer.map_or(&key, |ca| &ca.key), MessageDigest::sha256())?;
    Ok(Credentials { certificate: builder.build(), key })
}

fn authority(common_name: &str, issuer: Option<&Credentials>) -> Result<Credentials, Fault> {
    let key = key()?;
    let mut builder = builder(&key, &name(common_name, "")?, issuer, UNTIL)?;
    let mut constraints = BasicConstraints::new();
    constraints.critical().ca();
    if issuer.is_some() {
        constraints.pathlen(0);
    }
    builder.append_extension(constraints.build()?)?;
    builder.append_extension(KeyUsage::new().critical().key_cert_sign().crl_sign().build()?)?;
    finish(builder, key, issuer)
}

#[expect(deprecated, reason = "the openssl crate has no other way to write a CRL distribution point")]
fn leaf(ca: &Credentials, seat: &str, until: &str) -> Result<Credentials, Fault> {
    let key = key()?;
    let mut builder = builder(&key, &name(seat, "PEPPOL TEST AP")?, Some(ca), until)?;
    builder.append_extension(BasicConstraints::new().critical().build()?)?;
    let usage =
        KeyUsage::new().critical().digital_signature().key_encipherment().data_encipherment().build()?;
    builder.append_extension(usage)?;
    builder.append_extension(ExtendedKeyUsage::new().critical().client_auth().build()?)?;
    let place = X509Extension::new_nid(
        None,
        Some(&builder.x509v3_context(Some(&ca.certificate), None)),
        Nid::CRL_DISTRIBUTION_POINTS,
        "URI:http://crl.test.invalid/apca.crl",
    )?;
    builder.append_extension(place)?;
    finish(builder, key, Some(ca))
}

fn revocation_list(ca: &Credentials, revoked: &[X509]) -> Result<openssl::x509::X509Crl, Fault> {
    let mut builder = X509CrlBuilder::new()?;
    builder.set_issuer_name(ca.certificate.subject_name())?;
    builder.set_last_update(&*Asn1Time::from_str_x509(FROM)?)?;
    builder.set_next_update(&*Asn1Time::from_str_x509(UNTIL)?)?;
    for certificate in revoked {
        let mut entry = X509RevokedBuilder::new()?;
        entry.set_serial_number(certificate.serial_number())?;
        entry.set_revocation_date(&*Asn1Time::from_str_x509(REVOKED_AT)?)?;
        builder.add_revoked(entry.build())?;
    }
    let identifier = AuthorityKeyIdentifier::new()
        .keyid(true)
        .build(&X509::builder()?.x509v3_context(Some(&ca.certificate), None))?;
    builder.append_extension(identifier)?;
    builder.append_extension(CrlNumber::new(BigNum::from_u32(1)?)?.build()?)?;
    builder.sort()?;
    builder.sign(&ca.key, MessageDigest::sha256())?;
    Ok(builder.build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_have_the_profile_and_the_bad_ones_their_fault() {
        let mut pki = Pki::new().unwrap();
        let good = pki.access_point("POP000001").unwrap();
        let ca = pki.access_point_ca.certificate.public_key().unwrap();
        assert!(good.certificate.verify(&ca).unwrap());
        let text = String::from_utf8(good.certificate.to_text().unwrap()).unwrap();
        for expected in
            ["CN=POP000001", "Data Encipherment", "crl.test.invalid", "TLS Web Client Authentication"]
        {
            assert!(text.replace("CN = ", "CN=").contains(expected), "{expected} is not in {text}");
        }
        let today = Asn1Time::from_str_x509("20261201000000Z").unwrap();
        assert!(pki.expired("POP000001").unwrap().certificate.not_after() < &*today);
        let smp = pki.leaf("POP000001", Issuer::Smp).unwrap();
        assert!(!smp.certificate.verify(&ca).unwrap());
        let revoked = pki.revoked("POP000001").unwrap();
        let list = revocation_list(&pki.access_point_ca, &pki.revoked).unwrap();
        assert!(list.verify(&ca).unwrap());
        assert!(matches!(list.get_by_cert(&revoked.certificate), openssl::x509::CrlStatus::Revoked(_)));
        assert!(matches!(list.get_by_cert(&good.certificate), openssl::x509::CrlStatus::NotRevoked));
    }
}
