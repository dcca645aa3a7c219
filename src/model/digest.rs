//! SHA-256 digests as values.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// Why a text is no SHA-256 digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// Neither 64 hexadecimal digits nor base64.
    #[error("not a SHA-256 digest in hexadecimal or base64")]
    Encoding,
    /// Another number of octets than 32.
    #[error("a SHA-256 digest has 32 octets, not {0}")]
    Length(usize),
}

/// The 32 octets of a SHA-256 digest. Printed as lower-case hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// Wraps 32 octets.
    #[must_use]
    pub const fn new(octets: [u8; 32]) -> Self {
        Self(octets)
    }

    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(openssl::sha::sha256(bytes))
    }

    /// Takes `ds:DigestValue` text: base64, white space allowed (XML-DSig §4.4.3.6).
    ///
    /// # Errors
    /// When it is no base64 or does not have 32 octets.
    pub fn from_base64(text: &str) -> Result<Self, DigestError> {
        let packed: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        let octets = STANDARD.decode(packed).map_err(|_| DigestError::Encoding)?;
        let length = octets.len();
        octets.try_into().map(Self).map_err(|_| DigestError::Length(length))
    }

    /// Takes 64 hexadecimal digits.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn from_hex(text: &str) -> Result<Self, DigestError> {
        let digits: Vec<u8> =
            text.chars().map_while(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
        if digits.len() != 64 || text.len() != 64 {
            return Err(DigestError::Encoding);
        }
        let octets: Vec<u8> =
            digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |high, low| high << 4 | low)).collect();
        octets.try_into().map(Self).map_err(|_| DigestError::Encoding)
    }

    /// The octets.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The text of `ds:DigestValue`.
    #[must_use]
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;
    fn try_from(text: String) -> Result<Self, DigestError> {
        Self::from_hex(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_what_it_reads() {
        let digest = Digest::of(b"oncepoint");
        assert_eq!(Digest::from_hex(&digest.to_string()), Ok(digest));
        assert_eq!(Digest::from_base64(&digest.to_base64()), Ok(digest));
        assert_eq!(Digest::from_base64(" AAAA "), Err(DigestError::Length(3)));
        assert_eq!(Digest::from_hex("zz"), Err(DigestError::Encoding));
        assert_eq!(Digest::from_hex(&"é".repeat(32)), Err(DigestError::Encoding));
    }
}
