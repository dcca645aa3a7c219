//! The crypto floor: what no receiver of a signed and encrypted message can avoid. One private operation
//! unwraps the key, one signs the receipt, one verification judges the message.

use std::time::Duration;

use openssl::{
    encrypt::{Decrypter, Encrypter},
    hash::MessageDigest,
    pkey::PKey,
    rsa::{Padding, Rsa},
    sign::{Signer, Verifier},
};

use crate::{Fault, process::own_cpu};

/// How often it is done for one measurement.
const ROUNDS: u32 = 200;

/// CPU time of one floor on this machine with this OpenSSL.
///
/// # Errors
/// When OpenSSL fails.
pub fn measure() -> Result<Duration, Fault> {
    let key = PKey::from_rsa(Rsa::generate(2048)?)?;
    let mut encrypter = Encrypter::new(&key)?;
    encrypter.set_rsa_padding(Padding::PKCS1_OAEP)?;
    encrypter.set_rsa_oaep_md(MessageDigest::sha256())?;
    encrypter.set_rsa_mgf1_md(MessageDigest::sha256())?;
    let mut wrapped = vec![0; 256];
    encrypter.encrypt(&[7; 16], &mut wrapped)?;
    round(&key, &wrapped)?;
    let before = own_cpu();
    for _ in 0..ROUNDS {
        round(&key, &wrapped)?;
    }
    Ok(own_cpu().saturating_sub(before) / ROUNDS)
}

fn round(key: &PKey<openssl::pkey::Private>, wrapped: &[u8]) -> Result<(), Fault> {
    let mut decrypter = Decrypter::new(key)?;
    decrypter.set_rsa_padding(Padding::PKCS1_OAEP)?;
    decrypter.set_rsa_oaep_md(MessageDigest::sha256())?;
    decrypter.set_rsa_mgf1_md(MessageDigest::sha256())?;
    let mut opened = vec![0; 256];
    decrypter.decrypt(wrapped, &mut opened)?;
    let mut signer = Signer::new(MessageDigest::sha256(), key)?;
    signer.update(wrapped)?;
    let signature = signer.sign_to_vec()?;
    let mut verifier = Verifier::new(MessageDigest::sha256(), key)?;
    verifier.update(wrapped)?;
    if verifier.verify(&signature)? { Ok(()) } else { Err(Fault::setup("RSA does not work")) }
}
