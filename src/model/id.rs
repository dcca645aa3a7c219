//! Identifiers as newtypes. `parse` is the only way in; it names the clause that rules the value.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest identifier that is taken from a peer, in bytes (`as4-wire` §10.15).
pub const ID_BYTES_MAX: usize = 255;
/// Longest document type identifier value, in characters (Peppol PFUOI §1.2).
pub const DOCUMENT_TYPE_CHARS_MAX: usize = 500;
/// Longest process identifier value, in characters (Peppol PFUOI §1.2).
pub const PROCESS_CHARS_MAX: usize = 200;
/// Longest participant identifier value, in characters: four digits, a colon, 130 (Peppol PFUOI §1.2).
pub const PARTICIPANT_CHARS_MAX: usize = 135;
/// Longest scheme of a Peppol identifier, in characters (Peppol PFUOI §1.2).
pub const SCHEME_CHARS_MAX: usize = 25;

/// Why a text is no identifier of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing there.
    #[error("{kind} is empty")]
    Empty {
        /// What was being read.
        kind: &'static str,
    },
    /// Longer than the named limit.
    #[error("{kind} is longer than {max} characters")]
    TooLong {
        /// What was being read.
        kind: &'static str,
        /// The limit.
        max: usize,
    },
    /// A character that the clause does not allow.
    #[error("{kind} contains U+{code:04X}")]
    Character {
        /// What was being read.
        kind: &'static str,
        /// The first offending character.
        code: u32,
    },
    /// The shape is wrong.
    #[error("{kind} must look like {shape}")]
    Shape {
        /// What was being read.
        kind: &'static str,
        /// What it should look like.
        shape: &'static str,
    },
}

fn printable(kind: &'static str, max: usize, text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { kind });
    }
    if text.chars().count() > max {
        return Err(IdError::TooLong { kind, max });
    }
    match text.chars().find(|c| c.is_whitespace() || c.is_control()) {
        Some(c) => Err(IdError::Character { kind, code: u32::from(c) }),
        None => Ok(()),
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            #[doc = concat!("Takes a text as ", $kind, ".\n\n# Errors\nWhen it is empty, too long, or has white space or control characters.")]
            pub fn parse(text: &str) -> Result<Self, IdError> {
                printable($kind, $max, text)?;
                Ok(Self(text.to_owned()))
            }

            /// The exact octets, as received.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    };
}

text_id! {
    /// `eb:MessageId`: exact octets, compared as such. At most 255 printable characters without white
    /// space; an `@` is expected of RFC 2822 but not demanded (ebMS3 Core §5.2.2.1).
    MessageId, "MessageId", ID_BYTES_MAX
}
text_id! {
    /// The value of an `eb:PartyId` (ebMS3 Core §5.2.2.4).
    PartyId, "PartyId", ID_BYTES_MAX
}
text_id! {
    /// A MIME Content-ID without its angle brackets (RFC 2392).
    ContentId, "Content-ID", ID_BYTES_MAX
}
text_id! {
    /// The name of a tenant: whose backend an identity or a participant belongs to.
    Tenant, "tenant", 64
}

impl Tenant {
    /// The tenant of an installation that has only one.
    #[must_use]
    pub fn default_tenant() -> Self {
        Self("default".to_owned())
    }
}

impl MessageId {
    /// Whether the id looks like RFC 2822 `left@right`; senders without it are taken with a warning.
    #[must_use]
    pub fn is_rfc2822(&self) -> bool {
        self.0.split_once('@').is_some_and(|(left, right)| !left.is_empty() && !right.is_empty())
    }
}

/// `eb:ConversationId`: may be empty by schema (ebMS3 Core §5.2.2.7).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ConversationId(String);

impl ConversationId {
    /// Takes a text as it is, cut to nothing else than its length.
    ///
    /// # Errors
    /// When it is longer than 255 characters.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        if text.chars().count() > ID_BYTES_MAX {
            return Err(IdError::TooLong { kind: "ConversationId", max: ID_BYTES_MAX });
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A Peppol Seat ID: the CN of an access point certificate, `P`, two letters, six digits (Peppol AS4 §4.5).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SeatId(String);

impl SeatId {
    /// Takes a text as Seat ID.
    ///
    /// # Errors
    /// When it is not `P`, two capital letters, six digits.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let right = match text.as_bytes() {
            [b'P', country @ .., _, _, _, _, _, _] if country.len() == 2 => {
                country.iter().all(u8::is_ascii_uppercase) && text.bytes().skip(3).all(|b| b.is_ascii_digit())
            }
            _ => false,
        };
        if right {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError::Shape { kind: "Seat ID", shape: "PXX000000" })
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SeatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SeatId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        Self::parse(&text)
    }
}

impl From<SeatId> for String {
    fn from(id: SeatId) -> Self {
        id.0
    }
}

macro_rules! scheme_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name {
            scheme: String,
            value: String,
        }

        impl $name {
            #[doc = concat!("Takes scheme and value as ", $kind, ".\n\n# Errors\nWhen one is empty, too long, has white space or control characters, or the scheme contains `::`.")]
            pub fn new(scheme: &str, value: &str) -> Result<Self, IdError> {
                printable(concat!($kind, " scheme"), SCHEME_CHARS_MAX, scheme)?;
                printable($kind, $max, value)?;
                if scheme.contains("::") {
                    return Err(IdError::Shape { kind: concat!($kind, " scheme"), shape: "a scheme without ::" });
                }
                Ok(Self { scheme: scheme.to_owned(), value: value.to_owned() })
            }

            #[doc = concat!("Takes the canonical form `scheme::value` as ", $kind, ".\n\n# Errors\nWhen there is no `::`, or as `new`.")]
            pub fn parse(text: &str) -> Result<Self, IdError> {
                let (scheme, value) =
                    text.split_once("::").ok_or(IdError::Shape { kind: $kind, shape: "scheme::value" })?;
                Self::new(scheme, value)
            }

            /// The scheme, case-sensitive.
            #[must_use]
            pub fn scheme(&self) -> &str {
                &self.scheme
            }

            /// The value as spelt by whoever wrote it.
            #[must_use]
            pub fn value(&self) -> &str {
                &self.value
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}::{}", self.scheme, self.value)
            }
        }
    };
}

scheme_id! {
    /// A Peppol participant (C1 or C4). Compare with [`ParticipantId::is_same`]: values are
    /// case-insensitive, schemes are not (Peppol PFUOI §1.2), so `==` compares the spelling only.
    ParticipantId, "participant identifier", PARTICIPANT_CHARS_MAX
}
scheme_id! {
    /// A Peppol document type identifier, case-sensitive (Peppol PFUOI §1.4).
    DocumentTypeId, "document type identifier", DOCUMENT_TYPE_CHARS_MAX
}
scheme_id! {
    /// A Peppol process identifier, case-sensitive (Peppol PFUOI §1.2).
    ProcessId, "process identifier", PROCESS_CHARS_MAX
}

impl ParticipantId {
    /// The comparison of the policy: scheme exact, value without regard to ASCII case.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.value.eq_ignore_ascii_case(&other.value)
    }

    /// The form for keys: scheme verbatim, value in lower case.
    #[must_use]
    pub fn normal_form(&self) -> String {
        format!("{}::{}", self.scheme, self.value.to_ascii_lowercase())
    }
}

/// Our own id of an inbound item or record: a UUID of version 7, so ids sort by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ItemId(uuid::Uuid);

impl ItemId {
    /// Wraps a UUID made by the shell (the pure half has no randomness).
    #[must_use]
    pub const fn from_uuid(id: uuid::Uuid) -> Self {
        Self(id)
    }

    /// Takes the hyphenated text form.
    ///
    /// # Errors
    /// When it is no UUID.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        uuid::Uuid::try_parse(text).map(Self).map_err(|_| IdError::Shape { kind: "item id", shape: "a UUID" })
    }

    /// The sixteen bytes, in sorting order.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ids_take_what_real_senders_write() {
        assert!(MessageId::parse("a@b").is_ok_and(|id| id.is_rfc2822()));
        assert!(MessageId::parse("no-at-sign").is_ok_and(|id| !id.is_rfc2822()));
        assert_eq!(MessageId::parse(""), Err(IdError::Empty { kind: "MessageId" }));
        assert_eq!(MessageId::parse("a b"), Err(IdError::Character { kind: "MessageId", code: 0x20 }));
        assert_eq!(MessageId::parse("a\nb"), Err(IdError::Character { kind: "MessageId", code: 0x0A }));
    }

    #[test]
    fn an_identifier_fits_at_the_limit_and_not_beyond() {
        assert!(MessageId::parse(&"x".repeat(ID_BYTES_MAX)).is_ok());
        assert!(MessageId::parse(&"x".repeat(ID_BYTES_MAX + 1)).is_err());
        assert!(DocumentTypeId::new("s", &"x".repeat(DOCUMENT_TYPE_CHARS_MAX)).is_ok());
        assert!(DocumentTypeId::new("s", &"x".repeat(DOCUMENT_TYPE_CHARS_MAX + 1)).is_err());
        assert!(ProcessId::new(&"s".repeat(SCHEME_CHARS_MAX + 1), "x").is_err());
    }

    #[test]
    fn seat_ids_have_one_shape() {
        assert!(SeatId::parse("POP000306").is_ok());
        for wrong in ["", "POP00030", "POP0003066", "XOP000306", "Pop000306", "POP00030a", "PÖP000306"] {
            assert!(SeatId::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn participants_compare_without_case_in_the_value_only() {
        let upper = ParticipantId::parse("iso6523-actorid-upis::0192:ABC").unwrap();
        let lower = ParticipantId::parse("iso6523-actorid-upis::0192:abc").unwrap();
        let other = ParticipantId::parse("ISO6523-actorid-upis::0192:abc").unwrap();
        assert!(upper.is_same(&lower));
        assert!(!lower.is_same(&other));
        assert_eq!(upper.normal_form(), lower.normal_form());
    }
}
