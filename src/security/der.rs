//! The few DER fields that the OpenSSL bindings do not show: basicConstraints and the extensions of a CRL.

/// One tag-length-value.
#[derive(Debug, Clone, Copy)]
struct Tlv<'a> {
    tag: u8,
    content: &'a [u8],
}

const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const CRL_EXTENSIONS: u8 = 0xA0;
const CERTIFICATE_EXTENSIONS: u8 = 0xA3;

const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1D, 0x13];
const ISSUING_DISTRIBUTION_POINT: &[u8] = &[0x55, 0x1D, 0x1C];

/// Splits the first tag-length-value off. Only definite lengths of at most four octets (X.690 §10.1).
fn split(input: &[u8]) -> Option<(Tlv<'_>, &[u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7F => (usize::from(first), rest),
        0x81..=0x84 => {
            let (octets, rest) = rest.split_at_checked(usize::from(first & 0x7F))?;
            (octets.iter().fold(0, |length, &octet| (length << 8) | usize::from(octet)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((Tlv { tag, content }, rest))
}

fn items(mut input: &[u8]) -> impl Iterator<Item = Tlv<'_>> {
    std::iter::from_fn(move || {
        let (tlv, rest) = split(input)?;
        input = rest;
        Some(tlv)
    })
}

fn inside(input: &[u8], tag: u8) -> Option<&[u8]> {
    items(input).find(|tlv| tlv.tag == tag).map(|tlv| tlv.content)
}

/// An X.509 extension as it stands.
#[derive(Debug, Clone, Copy)]
struct Extension<'a> {
    id: &'a [u8],
    critical: bool,
    value: &'a [u8],
}

/// The extensions of a certificate or CRL, `tag` being the context tag that holds them in its
/// to-be-signed part.
fn extensions(signed: &[u8], tag: u8) -> Option<Vec<Extension<'_>>> {
    let to_be_signed = inside(inside(signed, SEQUENCE)?, SEQUENCE)?;
    let Some(wrapped) = inside(to_be_signed, tag) else { return Some(Vec::new()) };
    items(inside(wrapped, SEQUENCE)?).map(|tlv| extension(tlv.content)).collect()
}

fn extension(content: &[u8]) -> Option<Extension<'_>> {
    let id = inside(content, OBJECT_IDENTIFIER)?;
    let critical = inside(content, BOOLEAN).is_some_and(|octets| octets != [0]);
    Some(Extension { id, critical, value: inside(content, OCTET_STRING)? })
}

/// Whether a certificate says of itself that it is a CA (RFC 5280 §4.2.1.9). What cannot be read counts
/// as CA, so that it is refused as a leaf.
pub(super) fn is_ca(certificate: &[u8]) -> bool {
    let Some(extensions) = extensions(certificate, CERTIFICATE_EXTENSIONS) else { return true };
    let Some(constraints) = extensions.iter().find(|extension| extension.id == BASIC_CONSTRAINTS) else {
        return false;
    };
    match inside(constraints.value, SEQUENCE) {
        Some(content) => inside(content, BOOLEAN).is_some_and(|octets| octets != [0]),
        None => true,
    }
}

/// Whether a CRL speaks of all leaf certificates of its issuer: no critical extension that we do not
/// know, no delta, nothing indirect, not limited to CAs, attributes or some reasons (RFC 5280 §5.2).
pub(super) fn is_complete_for_leaves(crl: &[u8]) -> bool {
    let Some(extensions) = extensions(crl, CRL_EXTENSIONS) else { return false };
    extensions.iter().all(|extension| match extension.id {
        ISSUING_DISTRIBUTION_POINT => {
            // [0] distributionPoint and [1] onlyContainsUserCerts leave nothing out that is asked here.
            inside(extension.value, SEQUENCE)
                .is_some_and(|content| items(content).all(|tlv| matches!(tlv.tag, 0xA0 | 0x81)))
        }
        _ => !extension.critical,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_in_all_definite_forms() {
        assert_eq!(
            split(&[4, 1, 9, 7]).map(|(t, rest)| (t.content.to_vec(), rest.len())),
            Some((vec![9], 1))
        );
        assert_eq!(split(&[4, 0x81, 1, 9]).map(|(t, _)| t.content.to_vec()), Some(vec![9]));
        assert_eq!(split(&[4, 0x84, 0, 0, 0, 1, 9]).map(|(t, _)| t.content.to_vec()), Some(vec![9]));
        for wrong in [&[4_u8][..], &[4, 2, 9], &[4, 0x80, 0, 0], &[4, 0x85, 0, 0, 0, 0, 1, 9], &[4, 0x82, 1]]
        {
            assert!(split(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_counts_as_the_worse_case() {
        assert!(is_ca(&[]));
        assert!(is_ca(b"junk"));
        assert!(!is_complete_for_leaves(&[]));
    }
}
