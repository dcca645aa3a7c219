//! The catalogue of ebMS error codes and the `eb:Error` that carries one (ebMS3 Core §6, AS4 §3).

use std::fmt;

use serde::{Deserialize, Serialize};

/// `@severity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    /// Processing goes on.
    Warning,
    /// Processing ended.
    Failure,
}

/// `@category` (ebMS3 Core §6.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Category {
    /// Transport between the parties.
    Communication,
    /// What the message says.
    Content,
    /// How the message was handled.
    Processing,
    /// How the message was packed.
    Unpackaging,
}

/// `@origin`: the module that found the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// The ebMS module.
    Ebms,
    /// The security module.
    Security,
    /// The reliability module.
    Reliability,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $short:literal, $category:ident, $severity:ident;)*) => {
        /// An ebMS error code that we know (ebMS3 Core §6.7, AS4 §3).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum EbmsCode {
            $($(#[$doc])* #[serde(rename = $code)] $name,)*
        }

        impl EbmsCode {
            /// Every code of the catalogue.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// `@errorCode`.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// `@shortDescription`.
            #[must_use]
            pub const fn short_description(self) -> &'static str {
                match self { $(Self::$name => $short,)* }
            }

            /// `@category`.
            #[must_use]
            pub const fn category(self) -> Category {
                match self { $(Self::$name => Category::$category,)* }
            }

            /// `@severity` as the standards recommend it.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)* }
            }

            /// Reads `@errorCode`, with or without its prefix (the ebMS sample shows `0101`).
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                let text = text.trim();
                Self::ALL.iter().copied().find(|c| {
                    c.code() == text || c.code().strip_prefix("EBMS:").is_some_and(|digits| digits == text)
                })
            }
        }
    };
}

codes! {
    /// Valid by schema, but an unknown value.
    ValueNotRecognized = "EBMS:0001", "ValueNotRecognized", Content, Failure;
    /// A value asks for a feature that is not supported; processing goes on.
    FeatureNotSupportedContent = "EBMS:0002", "FeatureNotSupported", Content, Warning;
    /// Contradicts another header, the P-Mode or a rule of ebMS.
    ValueInconsistent = "EBMS:0003", "ValueInconsistent", Content, Failure;
    /// Anything else, `PEPPOL:NOT_SERVICED` among it.
    Other = "EBMS:0004", "Other", Content, Failure;
    /// The transport to the peer cannot be opened (local).
    ConnectionFailure = "EBMS:0005", "ConnectionFailure", Communication, Failure;
    /// A pull found nothing.
    EmptyMessagePartitionChannel = "EBMS:0006", "EmptyMessagePartitionChannel", Communication, Warning;
    /// The MIME package is wrong.
    MimeInconsistency = "EBMS:0007", "MimeInconsistency", Unpackaging, Failure;
    /// An element that is not supported.
    FeatureNotSupported = "EBMS:0008", "FeatureNotSupported", Unpackaging, Failure;
    /// `eb:Messaging` is not valid by schema or breaks a packaging rule.
    InvalidHeader = "EBMS:0009", "InvalidHeader", Unpackaging, Failure;
    /// No P-Mode matches.
    ProcessingModeMismatch = "EBMS:0010", "ProcessingModeMismatch", Processing, Failure;
    /// A payload reference cannot be resolved inside the message.
    ExternalPayloadError = "EBMS:0011", "ExternalPayloadError", Content, Failure;
    /// Signature or certificate is not good.
    FailedAuthentication = "EBMS:0101", "FailedAuthentication", Processing, Failure;
    /// The payload cannot be decrypted.
    FailedDecryption = "EBMS:0102", "FailedDecryption", Processing, Failure;
    /// The security policy is not met.
    PolicyNoncompliance = "EBMS:0103", "PolicyNoncompliance", Processing, Failure;
    /// The reliability module is broken.
    DysfunctionalReliability = "EBMS:0201", "DysfunctionalReliability", Processing, Failure;
    /// Taken, but cannot be delivered for good.
    DeliveryFailure = "EBMS:0202", "DeliveryFailure", Communication, Failure;
    /// No receipt after the last try (local).
    MissingReceipt = "EBMS:0301", "MissingReceipt", Communication, Failure;
    /// The receipt does not prove the message (local).
    InvalidReceipt = "EBMS:0302", "InvalidReceipt", Communication, Failure;
    /// The payload cannot be decompressed.
    DecompressionFailure = "EBMS:0303", "DecompressionFailure", Communication, Failure;
    /// phase4's own answer to a repeat.
    DuplicateDetected = "EBMS:4001", "DuplicateDetected", Content, Failure;
}

impl EbmsCode {
    /// `@origin`, by the hundreds of the code.
    #[must_use]
    pub fn origin(self) -> Origin {
        match self.code().get(5..7) {
            Some("01") => Origin::Security,
            Some("02") => Origin::Reliability,
            _ => Origin::Ebms,
        }
    }
}

impl fmt::Display for EbmsCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Severity {
    /// As written on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

impl Category {
    /// As written on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Communication => "Communication",
            Self::Content => "Content",
            Self::Processing => "Processing",
            Self::Unpackaging => "Unpackaging",
        }
    }
}

impl Origin {
    /// As written on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ebms => "ebMS",
            Self::Security => "security",
            Self::Reliability => "reliability",
        }
    }
}

/// What a peer is told: `eb:Error` (ebMS3 Core §6.2). What the log is told is kept elsewhere, so a text
/// here never names keys, paths or the state of a decryption.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EbmsError {
    /// `@errorCode`; the other attributes follow from it.
    pub code: EbmsCode,
    /// `eb:Description`, in English.
    pub description: String,
    /// `eb:ErrorDetail`, a token.
    pub detail: Option<String>,
}

impl EbmsError {
    /// An error with a description only.
    #[must_use]
    pub fn new(code: EbmsCode, description: impl Into<String>) -> Self {
        Self { code, description: description.into(), detail: None }
    }

    /// With an `eb:ErrorDetail`.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_read_as_it_is_printed() {
        for code in EbmsCode::ALL {
            assert_eq!(EbmsCode::parse(code.code()), Some(*code));
        }
        assert_eq!(EbmsCode::parse(" 0101 "), Some(EbmsCode::FailedAuthentication));
        assert_eq!(EbmsCode::parse("EBMS:9999"), None);
        assert_eq!(EbmsCode::FailedDecryption.origin(), Origin::Security);
        assert_eq!(EbmsCode::DeliveryFailure.origin(), Origin::Reliability);
        assert_eq!(EbmsCode::DecompressionFailure.origin(), Origin::Ebms);
    }
}
