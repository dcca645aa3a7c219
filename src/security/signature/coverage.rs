//! That everything is signed and encrypted which must be, and nothing else claims to be.

use std::{borrow::Cow, collections::BTreeMap};

use crate::{
    model::{ContentId, Digest, PartInfo},
    security::{
        algorithms::SignatureTransform,
        error::CoverageFault,
        header::{SecurityHeader, Target},
    },
    wire::soap::Envelope,
};

use super::{AttachmentClaim, Protection};

/// What is covered.
pub(super) struct Covered {
    pub(super) messaging: Digest,
    pub(super) attachments: Vec<AttachmentClaim>,
}

/// Compares the signed, the encrypted and the named parts as sets, and looks for Messaging and Body.
pub(super) fn check(
    envelope: &Envelope,
    parts: &[PartInfo],
    header: &SecurityHeader<'_>,
) -> Result<Covered, CoverageFault> {
    let (mut elements, mut signed) = (BTreeMap::new(), BTreeMap::new());
    for reference in &header.signature.references {
        let is_repeated = match &reference.target {
            Target::Element(node) => elements.insert(*node, reference.digest).is_some(),
            Target::Part(cid) => signed.insert(same(cid), reference.digest).is_some(),
        };
        if is_repeated {
            return Err(CoverageFault::Twice(reference.uri.to_owned()));
        }
    }
    let messaging = *elements.get(&envelope.messaging()).ok_or(CoverageFault::Messaging)?;
    elements.get(&envelope.body()).ok_or(CoverageFault::Body)?;
    let mut encrypted = BTreeMap::new();
    for part in &header.encrypted {
        if encrypted.insert(same(&part.cid), part.media_type.as_str()).is_some() {
            return Err(CoverageFault::Twice(part.cid.to_string()));
        }
    }
    let attachments = match_parts(parts, &mut signed, &mut encrypted)?;
    match signed.keys().chain(encrypted.keys()).next() {
        None => Ok(Covered { messaging, attachments }),
        Some(cid) => Err(CoverageFault::PartUnknown(String::from_utf8_lossy(cid).into_owned())),
    }
}

/// Takes the named parts out of both sets; what is left over belongs to nothing.
fn match_parts(
    parts: &[PartInfo],
    signed: &mut BTreeMap<Cow<'_, [u8]>, Digest>,
    encrypted: &mut BTreeMap<Cow<'_, [u8]>, &str>,
) -> Result<Vec<AttachmentClaim>, CoverageFault> {
    // Once a part is encrypted all are: AS4 §5.1.6a knows all or none.
    let is_encrypted = !encrypted.is_empty();
    let mut claims = Vec::with_capacity(parts.len());
    for part in parts {
        let cid = same(&part.href);
        let digest =
            signed.remove(cid.as_ref()).ok_or_else(|| CoverageFault::PartNotSigned(part.href.to_string()))?;
        let protection = match encrypted.remove(cid.as_ref()) {
            Some(media_type) => Protection::Encrypted { media_type: media_type.to_owned() },
            None if is_encrypted => return Err(CoverageFault::PartNotEncrypted(part.href.to_string())),
            None => Protection::Clear,
        };
        let transform = SignatureTransform::AttachmentContent;
        claims.push(AttachmentClaim { cid: part.href.clone(), transform, digest, protection });
    }
    Ok(claims)
}

/// What two references to one part have in common: the octets after percent-decoding. A `%` without two
/// hexadecimal digits behind it stands for itself; `+` is never a space (`as4-wire` §2.4).
fn same(cid: &ContentId) -> Cow<'_, [u8]> {
    let bytes = cid.as_str().as_bytes();
    if !bytes.contains(&b'%') {
        return Cow::Borrowed(bytes);
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        let octet = match rest {
            [b'%', high, low, behind @ ..] => hex(*high, *low).map(|octet| (octet, behind)),
            _ => None,
        };
        let (octet, behind) = octet.unwrap_or((*first, after));
        decoded.push(octet);
        rest = behind;
    }
    Cow::Owned(decoded)
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |octet: u8| char::from(octet).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_one_part_are_the_same_in_every_spelling() {
        let cid = |text: &str| same(&ContentId::parse(text).unwrap()).into_owned();
        assert_eq!(cid("a@b"), cid("%61%40b"));
        assert_eq!(cid("a%2Bb"), cid("a%2bb"));
        assert_eq!(cid("100%25"), cid("100%"));
        assert_ne!(cid("a+b"), cid("a%20b"));
        assert_eq!(cid("%zz%1"), b"%zz%1");
    }
}
