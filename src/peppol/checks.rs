//! The fifteen checks of a receiving access point, in the order they are made (Peppol AS4 §4, Peppol
//! Envelope §2).

use crate::model::EbmsCode;

/// One of them. `exchange` makes those about security, compression, repeats and storage, this module those
/// about parties, agreement, payload, envelope and participants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Check {
    /// 2: a signature is present and valid.
    Signature,
    /// 3: the signing key is given as an X.509 BinarySecurityToken.
    SigningToken,
    /// 4: the signer is certified by the access point CA of this stage, valid and not revoked.
    Signer,
    /// 5: From/PartyId is the signer's subject CN.
    PartyBinding,
    /// 6: From and To have one PartyId each, of Peppol's type and shape, and To is ours.
    Parties,
    /// 7: the agreement is Peppol's, without type and pmode.
    Agreement,
    /// 14: the message is no repeat. Made here, or a repeat would be called not serviced once a participant left.
    Duplicate,
    /// 1: the payload is encrypted, and decrypts.
    Encryption,
    /// 8: the payload decompresses.
    Decompression,
    /// 9: exactly one payload, the first part after the SOAP part, which is an SBD.
    Payload,
    /// 10: the header of the envelope follows its rules.
    Envelope,
    /// 11: originalSender and finalRecipient are Sender and Receiver.
    Corners,
    /// 12: Action and Service are DOCUMENTID and PROCESSID.
    Business,
    /// 13: receiver, document type and process are serviced here.
    Serviced,
    /// 15: the document is stored durably.
    Storage,
}

impl Check {
    /// All, in the order they are made.
    pub const IN_ORDER: [Self; 15] = [
        Self::Signature,
        Self::SigningToken,
        Self::Signer,
        Self::PartyBinding,
        Self::Parties,
        Self::Agreement,
        Self::Duplicate,
        Self::Encryption,
        Self::Decompression,
        Self::Payload,
        Self::Envelope,
        Self::Corners,
        Self::Business,
        Self::Serviced,
        Self::Storage,
    ];

    /// Its number, which is a name and not its place.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Encryption => 1,
            Self::Signature => 2,
            Self::SigningToken => 3,
            Self::Signer => 4,
            Self::PartyBinding => 5,
            Self::Parties => 6,
            Self::Agreement => 7,
            Self::Decompression => 8,
            Self::Payload => 9,
            Self::Envelope => 10,
            Self::Corners => 11,
            Self::Business => 12,
            Self::Serviced => 13,
            Self::Duplicate => 14,
            Self::Storage => 15,
        }
    }

    /// Its stable name in logs and records.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Encryption => "encryption",
            Self::Signature => "signature",
            Self::SigningToken => "signing-token",
            Self::Signer => "signer",
            Self::PartyBinding => "party-binding",
            Self::Parties => "parties",
            Self::Agreement => "agreement",
            Self::Decompression => "decompression",
            Self::Payload => "payload",
            Self::Envelope => "envelope",
            Self::Corners => "corners",
            Self::Business => "business",
            Self::Serviced => "serviced",
            Self::Duplicate => "duplicate",
            Self::Storage => "storage",
        }
    }

    /// What asks for it.
    #[must_use]
    pub const fn clause(self) -> &'static str {
        match self {
            Self::Encryption | Self::Signature => "eDelivery AS4 §3.2.6",
            Self::SigningToken | Self::Signer => "Peppol AS4 §4.7",
            Self::PartyBinding => "eDelivery AS4 §4.3.3",
            Self::Parties => "Peppol AS4 §4.5",
            Self::Agreement => "Peppol AS4 §4.3",
            Self::Decompression => "AS4 §3.1",
            Self::Payload => "Peppol AS4 §4.9",
            Self::Envelope => "Peppol Envelope §2",
            Self::Corners => "Peppol AS4 §4.9",
            Self::Business => "Peppol AS4 §4.6",
            Self::Serviced => "Peppol AS4 §4.4",
            Self::Duplicate => "AS4 §3.2",
            Self::Storage => "eDelivery AS4 §3.3.2",
        }
    }

    /// What a peer is answered. None: nothing, because a repeat gets the stored answer and a fault of ours is
    /// HTTP 503. Encryption and signature answer EBMS:0103 when there is none at all.
    #[must_use]
    pub const fn code(self) -> Option<EbmsCode> {
        match self {
            Self::Encryption => Some(EbmsCode::FailedDecryption),
            Self::Signature | Self::Signer | Self::PartyBinding => Some(EbmsCode::FailedAuthentication),
            Self::SigningToken | Self::Agreement => Some(EbmsCode::PolicyNoncompliance),
            Self::Decompression => Some(EbmsCode::DecompressionFailure),
            Self::Parties
            | Self::Payload
            | Self::Envelope
            | Self::Corners
            | Self::Business
            | Self::Serviced => Some(EbmsCode::Other),
            Self::Duplicate | Self::Storage => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_order_is_2_to_7_then_14_then_1_and_8_to_13_then_15() {
        let numbers: Vec<u8> = Check::IN_ORDER.iter().map(|check| check.number()).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 6, 7, 14, 1, 8, 9, 10, 11, 12, 13, 15]);
    }

    #[test]
    fn every_check_has_a_name_of_its_own_and_a_clause() {
        let names: BTreeSet<&str> = Check::IN_ORDER.iter().map(|check| check.id()).collect();
        assert_eq!(names.len(), 15);
        assert!(Check::IN_ORDER.iter().all(|check| check.clause().contains('§')));
    }

    #[test]
    fn codes_are_those_of_the_network() {
        let code = |check: Check| check.code().map(EbmsCode::code);
        assert_eq!(code(Check::Encryption), Some("EBMS:0102"));
        assert_eq!(code(Check::Signature), Some("EBMS:0101"));
        assert_eq!(code(Check::SigningToken), Some("EBMS:0103"));
        assert_eq!(code(Check::Parties), Some("EBMS:0004"));
        assert_eq!(code(Check::Agreement), Some("EBMS:0103"));
        assert_eq!(code(Check::Decompression), Some("EBMS:0303"));
        assert_eq!(code(Check::Serviced), Some("EBMS:0004"));
        assert_eq!((code(Check::Duplicate), code(Check::Storage)), (None, None));
    }
}
