//! The algorithms that exist here. What is not listed cannot be named, so it cannot be used
//! (`as4-wire` §1.3, §10.8).

macro_rules! algorithms {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $uri:expr,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// Its `@Algorithm`.
            #[must_use]
            pub const fn uri(self) -> &'static str {
                match self { $(Self::$variant => $uri,)* }
            }

            /// Reads `@Algorithm`; none when it is not allowed.
            #[must_use]
            pub fn from_uri(uri: &str) -> Option<Self> {
                $(if uri == $uri {
                    return Some(Self::$variant);
                })*
                None
            }
        }
    )*};
}

algorithms! {
    /// `ds:CanonicalizationMethod`.
    Canonicalization {
        /// Exclusive canonical XML 1.0, without comments.
        Exclusive = "http://www.w3.org/2001/10/xml-exc-c14n#",
    }
    /// `ds:SignatureMethod`.
    SignatureAlgorithm {
        /// RSASSA-PKCS1-v1_5 with SHA-256.
        RsaSha256 = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
    }
    /// `ds:DigestMethod`.
    DigestAlgorithm {
        /// SHA-256.
        Sha256 = "http://www.w3.org/2001/04/xmlenc#sha256",
    }
    /// The only `ds:Transform` of a reference.
    SignatureTransform {
        /// Exclusive canonical XML 1.0, without comments: for elements.
        Exclusive = "http://www.w3.org/2001/10/xml-exc-c14n#",
        /// The content of a part, without its MIME headers: for `cid:`.
        AttachmentContent =
            "http://docs.oasis-open.org/wss/oasis-wss-SwAProfile-1.1#Attachment-Content-Signature-Transform",
    }
    /// `xenc:EncryptionMethod` of an EncryptedKey.
    KeyTransport {
        /// RSAES-OAEP, digest and mask generation function named by children (XML-Enc 1.1 §5.5.2).
        RsaOaep = "http://www.w3.org/2009/xmlenc11#rsa-oaep",
    }
    /// `xenc11:MGF`.
    MaskGeneration {
        /// MGF1 with SHA-256.
        Mgf1Sha256 = "http://www.w3.org/2009/xmlenc11#mgf1sha256",
    }
    /// `xenc:EncryptionMethod` of an EncryptedData.
    DataEncryption {
        /// AES-128-GCM with a 12-byte initialisation vector and a 16-byte tag (XML-Enc 1.1 §5.2.4).
        Aes128Gcm = "http://www.w3.org/2009/xmlenc11#aes128-gcm",
    }
    /// `xenc:EncryptedData/@Type`.
    EncryptionType {
        /// The content of a part, without its MIME headers.
        AttachmentContent = "http://docs.oasis-open.org/wss/oasis-wss-SwAProfile-1.1#Attachment-Content-Only",
    }
    /// The only `ds:Transform` of an `xenc:CipherReference`.
    CipherTransform {
        /// The octets of a part.
        AttachmentCiphertext =
            "http://docs.oasis-open.org/wss/oasis-wss-SwAProfile-1.1#Attachment-Ciphertext-Transform",
    }
    /// `wsse:BinarySecurityToken/@ValueType`.
    TokenType {
        /// One X.509 certificate in DER form.
        X509v3 = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-x509-token-profile-1.0#X509v3",
    }
    /// `wsse:BinarySecurityToken/@EncodingType`.
    TokenEncoding {
        /// Base64.
        Base64 =
            "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0#Base64Binary",
    }
    /// `wsse:KeyIdentifier/@ValueType`, for the encryption key only.
    KeyIdentifierType {
        /// The subject key identifier of the certificate.
        SubjectKeyIdentifier =
            "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-x509-token-profile-1.0#X509SubjectKeyIdentifier",
        /// SHA-1 of the certificate: names it, proves nothing.
        ThumbprintSha1 = "http://docs.oasis-open.org/wss/oasis-wss-soap-message-security-1.1#ThumbprintSHA1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_uri_names_an_algorithm() {
        let uri = SignatureAlgorithm::RsaSha256.uri();
        assert_eq!(SignatureAlgorithm::from_uri(uri), Some(SignatureAlgorithm::RsaSha256));
        for other in ["", " ", &uri.to_uppercase(), &format!("{uri} "), &uri.replace("256", "1")] {
            assert_eq!(SignatureAlgorithm::from_uri(other), None, "{other}");
        }
        let with_comments = format!("{}WithComments", Canonicalization::Exclusive.uri());
        assert_eq!(Canonicalization::from_uri(&with_comments), None);
    }
}
