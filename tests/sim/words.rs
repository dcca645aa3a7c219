//! Seeded choice, and values made of small numbers instead of cryptography.

use oncepoint::model::{
    Addressing, ContentRecord, Digest, ItemId, MessageId, MessageKey, PartDigest, PartyId, Service, Tenant,
};

/// xorshift64*: everything a run does is drawn from one seed.
pub(crate) struct Prng(u64);

impl Prng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn percent(&mut self, p: u64) -> bool {
        self.below(100) < p
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

/// A digest that is a number of a kind.
fn word(kind: u8, n: u64) -> Digest {
    let mut octets = [kind; 32];
    octets[..8].copy_from_slice(&n.to_be_bytes());
    Digest::new(octets)
}

/// What a message holds: one payload, packed in the `packing`th way, in the `signature`th signed header.
pub(crate) fn content(payload: u64, packing: u64, signature: u64) -> ContentRecord {
    ContentRecord {
        attachments: vec![PartDigest {
            transform: "content".to_owned(),
            digest: word(1, payload * 100 + packing),
        }],
        body_children: word(2, 0),
        addressing: Addressing {
            to: PartyId::parse("POP000002").unwrap(),
            to_type: None,
            service: Service { value: "urn:process".to_owned(), service_type: None },
            action: "urn:action".to_owned(),
            original_sender: None,
            final_recipient: None,
        },
        messaging: word(3, signature),
        signature: word(4, signature),
        signer: word(5, 0),
        document: Some(word(6, payload)),
        envelope: Some(word(7, payload)),
    }
}

pub(crate) fn key(sender: u64, message: u64) -> MessageKey {
    MessageKey {
        tenant: Tenant::default_tenant(),
        sender: PartyId::parse(&format!("POP{sender:06}")).unwrap(),
        message_id: MessageId::parse(&format!("m{message}@c2")).unwrap(),
    }
}

pub(crate) fn item(n: u64) -> ItemId {
    ItemId::from_uuid(uuid::Uuid::from_u128(n.into()))
}
