//! A complete signed envelope for a signal, written as the canonical bytes of the whole document.
//!
//! Every piece is written once as it stands in the document, and the form in which it is digested differs
//! from that only in the namespace declarations at its start. So nothing is parsed to sign, and
//! `c14n(parse(x)) == x` for the whole and for each piece; tests hold that. The layout obeys the rules of the
//! Basic Security Profile that peers enforce (`as4-wire` §5.2, `peers` §3).

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    model::Digest,
    security::{
        algorithms::{
            Canonicalization, DigestAlgorithm, SignatureAlgorithm, SignatureTransform, TokenEncoding,
            TokenType,
        },
        key::{KeyError, OwnKey},
    },
    wire::{
        ebms::S12_DECLARATION,
        soap::namespace::{DS, WSSE, WSU},
    },
};

/// Why an envelope cannot be signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// An id is no `NCName` of ASCII characters, or two are equal.
    #[error("{0:?} cannot be an Id here")]
    Id(String),
    /// `eb:Messaging` is not in its canonical form standing alone, with this `wsu:Id`.
    #[error("eb:Messaging is not in the form that can be signed")]
    Messaging,
    /// The key failed.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// The Ids of a signed envelope: names that start with a letter or `_`, all different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningIds {
    /// `wsu:Id` of `eb:Messaging`, as already written there.
    pub messaging: String,
    /// `wsu:Id` of Body.
    pub body: String,
    /// `wsu:Id` of the BinarySecurityToken.
    pub token: String,
    /// `Id` of the Signature.
    pub signature: String,
}

/// Wraps `eb:Messaging` into a signed envelope. `messaging` is its canonical form standing alone, as
/// [`crate::wire::ebms`] writes it; `body` is what is inside Body (usually nothing), canonical where `S12` and
/// `wsu` are declared.
///
/// # Errors
/// When an id or `messaging` is not of the required form, or the crypto library fails.
pub fn sign_envelope(
    messaging: &str,
    body: &str,
    ids: &SigningIds,
    key: &OwnKey,
) -> Result<Vec<u8>, SignError> {
    check_ids(ids)?;
    let inside = without_s12(messaging, &ids.messaging)?;
    let body_start = format!(" xmlns:wsu=\"{WSU}\" wsu:Id=\"{}\">{body}</S12:Body>", ids.body);
    let body_digest = Digest::of(format!("<S12:Body{S12_DECLARATION}{body_start}").as_bytes());
    let info = signed_info(ids, Digest::of(messaging.as_bytes()), body_digest);
    let value = key.sign(format!("<ds:SignedInfo xmlns:ds=\"{DS}\"{info}").as_bytes())?;
    let mut out = String::with_capacity(messaging.len() + 8 * 1024);
    out.extend(["<S12:Envelope", S12_DECLARATION, "><S12:Header>"]);
    push_security(&mut out, ids, key, &info, &STANDARD.encode(value));
    out.extend([inside.0, inside.1, "</S12:Header><S12:Body", &body_start, "</S12:Envelope>"]);
    Ok(out.into_bytes())
}

/// `eb:Messaging` as it stands below an Envelope that declares `S12`: before and after the declaration.
fn without_s12<'a>(messaging: &'a str, id: &str) -> Result<(&'a str, &'a str), SignError> {
    const NAME: &str = "<eb:Messaging";
    let rest = messaging.strip_prefix(NAME).and_then(|rest| rest.strip_prefix(S12_DECLARATION));
    let rest = rest.ok_or(SignError::Messaging)?;
    let (tag, _) = rest.split_once('>').ok_or(SignError::Messaging)?;
    if tag.contains(&format!(" wsu:Id=\"{id}\"")) { Ok((NAME, rest)) } else { Err(SignError::Messaging) }
}

/// SignedInfo behind `<ds:SignedInfo`, the same in both forms.
fn signed_info(ids: &SigningIds, messaging: Digest, body: Digest) -> String {
    let (c14n, transform) = (Canonicalization::Exclusive.uri(), SignatureTransform::Exclusive.uri());
    let (method, digest_method) = (SignatureAlgorithm::RsaSha256.uri(), DigestAlgorithm::Sha256.uri());
    let reference = |id: &str, digest: Digest| {
        format!(
            "<ds:Reference URI=\"#{id}\"><ds:Transforms><ds:Transform Algorithm=\"{transform}\"></ds:Transform>\
             </ds:Transforms><ds:DigestMethod Algorithm=\"{digest_method}\"></ds:DigestMethod>\
             <ds:DigestValue>{}</ds:DigestValue></ds:Reference>",
            digest.to_base64()
        )
    };
    format!(
        "><ds:CanonicalizationMethod Algorithm=\"{c14n}\"></ds:CanonicalizationMethod>\
         <ds:SignatureMethod Algorithm=\"{method}\"></ds:SignatureMethod>{}{}</ds:SignedInfo>",
        reference(&ids.messaging, messaging),
        reference(&ids.body, body)
    )
}

/// The Security header: the token before what refers to it (BSP R5205).
fn push_security(out: &mut String, ids: &SigningIds, key: &OwnKey, info: &str, value: &str) {
    let (token_type, encoding) = (TokenType::X509v3.uri(), TokenEncoding::Base64.uri());
    let SigningIds { token, signature, .. } = ids;
    let certificate = STANDARD.encode(key.certificate_der());
    out.push_str(&format!(
        "<wsse:Security xmlns:wsse=\"{WSSE}\" S12:mustUnderstand=\"true\">\
         <wsse:BinarySecurityToken xmlns:wsu=\"{WSU}\" EncodingType=\"{encoding}\" ValueType=\"{token_type}\" \
         wsu:Id=\"{token}\">{certificate}</wsse:BinarySecurityToken>\
         <ds:Signature xmlns:ds=\"{DS}\" Id=\"{signature}\"><ds:SignedInfo{info}\
         <ds:SignatureValue>{value}</ds:SignatureValue>\
         <ds:KeyInfo><wsse:SecurityTokenReference><wsse:Reference URI=\"#{token}\" ValueType=\"{token_type}\">\
         </wsse:Reference></wsse:SecurityTokenReference></ds:KeyInfo></ds:Signature></wsse:Security>"
    ));
}

fn check_ids(ids: &SigningIds) -> Result<(), SignError> {
    let mut all = [&ids.messaging, &ids.body, &ids.token, &ids.signature];
    for id in all {
        let mut bytes = id.bytes();
        let starts = bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_');
        if !starts || !bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)) {
            return Err(SignError::Id(id.clone()));
        }
    }
    all.sort_unstable();
    match all.windows(2).find_map(|pair| match pair {
        [one, other] if one == other => Some((*one).clone()),
        _ => None,
    }) {
        None => Ok(()),
        Some(id) => Err(SignError::Id(id)),
    }
}
