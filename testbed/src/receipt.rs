//! Judges an answer as the sender has to (`as4-wire` §6.2): a receipt for that very message, signed by the
//! receiver, or an error.
//!
//! The product writes its answers in canonical form. So the canonical form of an element is its own text with
//! the namespace declarations that its start tag uses but inherits, and no canonicaliser is needed here. An
//! answer that is not canonical fails the signature check.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use openssl::{hash::MessageDigest, sha::sha256, sign::Verifier, x509::X509};

use crate::{Fault, client::Answer, composer::Claim, demand};

/// What an answer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A receipt.
    Receipt,
    /// An error signal with its codes.
    Errors(Vec<String>),
    /// A SOAP fault without eb:Error.
    Fault,
    /// Something else, with its HTTP status.
    Http(u16),
}

/// What an answer claims to be; nothing is verified.
#[must_use]
pub fn kind(answer: &Answer) -> Kind {
    let text = String::from_utf8_lossy(&answer.body);
    let codes: Vec<String> = text
        .match_indices("errorCode=\"")
        .filter_map(|(at, found)| text.get(at + found.len()..)?.split('"').next().map(str::to_owned))
        .collect();
    if !codes.is_empty() {
        Kind::Errors(codes)
    } else if (200..300).contains(&answer.status) && text.contains(":Receipt>") {
        Kind::Receipt
    } else if text.contains(":Fault>") {
        Kind::Fault
    } else {
        Kind::Http(answer.status)
    }
}

/// The first eight bytes of SHA-256 of the body, in hexadecimal, for people.
#[must_use]
pub fn fingerprint(answer: &Answer) -> String {
    crate::composer::hex(&sha256(&answer.body)).chars().take(16).collect()
}

/// Proves that the answer is the receiver's receipt for that message.
///
/// # Errors
/// When it is not.
pub fn prove(answer: &Answer, claim: &Claim, receiver: &X509) -> Result<(), Fault> {
    let text = String::from_utf8(answer.body.clone()).map_err(|_| Fault::broken("the answer is no UTF-8"))?;
    demand!(answer.status == 200, "a receipt with HTTP {}", answer.status);
    demand!(kind(answer) == Kind::Receipt, "no receipt but {:?}: {text}", kind(answer));
    let messaging = element(&text, "eb:Messaging")?;
    let reference = format!("<eb:RefToMessageId>{}</eb:RefToMessageId>", claim.message_id);
    demand!(messaging.contains(&reference), "the receipt is not for {}", claim.message_id);
    let receipted = references(messaging);
    let signed: Vec<(String, String)> =
        claim.digests.iter().map(|signed| (signed.uri.clone(), signed.digest.clone())).collect();
    demand!(receipted == signed, "the receipt says {receipted:?} of what was signed as {signed:?}");
    signature(&text, messaging, receiver)
}

fn signature(text: &str, messaging: &str, receiver: &X509) -> Result<(), Fault> {
    let info = element(text, "ds:SignedInfo")?;
    let covered = references(info);
    for part in [messaging, element(text, "S12:Body")?] {
        let id = part.split("wsu:Id=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        let digest = STANDARD.encode(sha256(canonical(text, part).as_bytes()));
        demand!(covered.contains(&(format!("#{id}"), digest)), "#{id} is not signed as it stands");
    }
    let token = STANDARD.encode(receiver.to_der()?);
    demand!(text.contains(&format!(">{token}</wsse:BinarySecurityToken>")), "not signed by the receiver");
    let value = inner(element(text, "ds:SignatureValue")?);
    let value = STANDARD.decode(value).map_err(|_| Fault::broken("a SignatureValue that is no base64"))?;
    let key = receiver.public_key()?;
    let mut verifier = Verifier::new(MessageDigest::sha256(), &key)?;
    verifier.update(canonical(text, info).as_bytes())?;
    demand!(verifier.verify(&value)?, "the signature of the receipt is not the receiver's");
    Ok(())
}

/// The text of the only element of that name, tags included.
fn element<'a>(text: &'a str, name: &str) -> Result<&'a str, Fault> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let start = text
        .match_indices(&open)
        .find(|(at, _)| text.get(at + open.len()..).is_some_and(|rest| rest.starts_with([' ', '>'])));
    let start = start.ok_or_else(|| Fault::broken(format_args!("no {name} in {text}")))?.0;
    let end = text.rfind(&close).ok_or_else(|| Fault::broken(format_args!("no end of {name}")))?;
    text.get(start..end + close.len())
        .ok_or_else(|| Fault::broken(format_args!("{name} ends before it starts")))
}

fn inner(element: &str) -> &str {
    let start = element.find('>').map_or(0, |at| at + 1);
    let end = element.rfind("</").unwrap_or(element.len());
    element.get(start..end).unwrap_or_default()
}

/// (URI, digest) of every ds:Reference below.
fn references(element: &str) -> Vec<(String, String)> {
    let between = |text: &str, from: &str, to: &str| -> Option<String> {
        Some(text.split(from).nth(1)?.split(to).next()?.to_owned())
    };
    element
        .split("<ds:Reference ")
        .skip(1)
        .filter_map(|text| {
            Some((between(text, "URI=\"", "\"")?, between(text, "<ds:DigestValue>", "</ds:DigestValue>")?))
        })
        .collect()
}

/// The canonical form of an element of a canonical document: the start tag gets the declarations that it uses
/// and inherits, in order.
fn canonical(text: &str, element: &str) -> String {
    let Some((tag, rest)) = element.split_once('>') else { return element.to_owned() };
    let mut words = tag.split(' ');
    let name = words.next().unwrap_or_default();
    let (mut declared, attributes): (Vec<&str>, Vec<&str>) =
        words.partition(|word| word.starts_with("xmlns"));
    let mut added = Vec::new();
    for used in std::iter::once(name.trim_start_matches('<')).chain(attributes.iter().copied()) {
        let prefix = used.split('=').next().and_then(|name| name.split_once(':')).map(|(prefix, _)| prefix);
        let Some(declaration) = prefix.map(|prefix| format!("xmlns:{prefix}=\"")) else { continue };
        if declared.iter().chain(&added).any(|word| word.starts_with(&declaration)) {
            continue;
        }
        if let Some(found) = text.find(&declaration).and_then(|at| text.get(at..)) {
            let length = found.get(declaration.len()..).and_then(|uri| uri.find('"')).unwrap_or_default();
            added.push(found.get(..=declaration.len() + length).unwrap_or_default());
        }
    }
    declared.extend(added);
    declared.sort_unstable();
    let words: Vec<&str> = std::iter::once(name).chain(declared).chain(attributes).collect();
    format!("{}>{rest}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_of_a_canonical_document_becomes_canonical_by_itself() {
        let text = r#"<S:E xmlns:S="urn:s"><d:X xmlns:d="urn:d"><d:I S:k="1" a="2">t</d:I></d:X></S:E>"#;
        assert_eq!(
            canonical(text, element(text, "d:I").unwrap()),
            r#"<d:I xmlns:S="urn:s" xmlns:d="urn:d" S:k="1" a="2">t</d:I>"#
        );
        assert_eq!(canonical(text, element(text, "S:E").unwrap()), text);
    }

    #[test]
    fn answers_are_told_apart() {
        let of = |status: u16, body: &str| {
            kind(&Answer { status, headers: Vec::new(), body: body.as_bytes().to_vec() })
        };
        assert_eq!(of(200, "<eb:Receipt><x/></eb:Receipt>"), Kind::Receipt);
        assert_eq!(of(500, "<eb:Receipt></eb:Receipt>"), Kind::Http(500));
        assert_eq!(
            of(200, "<eb:Error errorCode=\"EBMS:0101\" x=\"y\"/>"),
            Kind::Errors(vec!["EBMS:0101".into()])
        );
        assert_eq!(of(500, "<S12:Fault></S12:Fault>"), Kind::Fault);
        assert_eq!(of(503, ""), Kind::Http(503));
    }
}
