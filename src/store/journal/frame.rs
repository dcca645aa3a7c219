//! A frame: one record of the journal, whole or not there.
//!
//! ```text
//! length u32 · kind u8 · flags u8 · keys u16 · head u32 · body u32 · lsn u64 · received u64 · expires u64   (40)
//! keys 17 each · head · CRC32C of all before · body · CRC32C of all before
//! ```

use bytes::Bytes;

use super::codec::{self, Reader};
use crate::model::Timestamp;

/// Fixed part of a frame, in octets.
const FIXED: usize = 40;
/// One checksum, in octets.
const CRC: usize = 4;
/// Shortest frame, in octets.
pub(super) const FRAME_MIN: usize = FIXED + 2 * CRC;
/// Longest frame, in octets: payloads to 1 MiB and a receipt, with plenty to spare.
pub const FRAME_MAX: usize = 64 << 20;
/// Most keys of one frame.
pub const KEYS_MAX: usize = 1024;

const FLAG_FREEING: u8 = 1;
const FLAG_COPIED: u8 = 2;
const FLAG_BODILESS: u8 = 4;
const NEVER: u64 = u64::MAX;

/// Number of a frame: given in the order of commits, kept when the frame is copied forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// What a frame records; the engine does not look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameKind(pub u8);

/// Which spare segment a frame may use when the disk is full (storage §3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Takes room: refused when only the last spare is left.
    New,
    /// Leads to room being freed (acks, outcomes, releases): may use the last spare.
    Freeing,
}

/// When a frame may be purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// From then on.
    At(Timestamp),
    /// Not by age; it does not hold its segment back, purge asks about it and copies it forward.
    Never,
}

/// What a frame is found by: a prefix octet and sixteen octets of fingerprint or id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub [u8; Self::OCTETS]);

impl Key {
    /// Length, in octets.
    pub const OCTETS: usize = 17;

    /// Of a prefix and an id.
    #[must_use]
    pub fn new(prefix: u8, id: [u8; 16]) -> Self {
        let mut octets = [prefix; Self::OCTETS];
        for (to, from) in octets.iter_mut().skip(1).zip(id) {
            *to = from;
        }
        Self(octets)
    }

    /// The family of keys that it belongs to.
    #[must_use]
    pub fn prefix(&self) -> u8 {
        let [prefix, ..] = self.0;
        prefix
    }

    /// What follows the prefix.
    #[must_use]
    pub fn id(&self) -> [u8; 16] {
        let [_, id @ ..] = self.0;
        id
    }
}

/// Where a frame lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Which segment.
    pub segment: u64,
    /// Where in it, in octets.
    pub offset: u32,
    /// How long the frame is, in octets.
    pub length: u32,
}

/// A frame to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it records.
    pub kind: FrameKind,
    /// Which spare it may use.
    pub class: Class,
    /// When what it records happened.
    pub received_at: Timestamp,
    /// When it may be purged.
    pub expires: Expiry,
    /// What it is found by, at most [`KEYS_MAX`].
    pub keys: Vec<Key>,
    /// What must survive damage to the body: has a checksum of its own (storage §3.3 I2).
    pub head: Bytes,
    /// The rest.
    pub body: Bytes,
}

impl Frame {
    /// Length on the disk, in octets.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        FRAME_MIN + self.keys.len() * Key::OCTETS + self.head.len() + self.body.len()
    }

    pub(super) fn fits_format(&self) -> bool {
        self.keys.len() <= KEYS_MAX && self.encoded_len() <= FRAME_MAX
    }

    /// Appends the frame as it is stored.
    pub(super) fn encode(&self, lsn: Lsn, origin: Origin, out: &mut Vec<u8>) {
        let start = out.len();
        let flags = u8::from(self.class == Class::Freeing) * FLAG_FREEING
            + match origin {
                Origin::Appended => 0,
                Origin::Copied => FLAG_COPIED,
                Origin::Salvaged => FLAG_COPIED + FLAG_BODILESS,
            };
        let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
        out.extend_from_slice(&size(self.encoded_len()));
        out.extend_from_slice(&[self.kind.0, flags]);
        out.extend_from_slice(&u16::try_from(self.keys.len()).unwrap_or(u16::MAX).to_le_bytes());
        out.extend_from_slice(&size(self.head.len()));
        out.extend_from_slice(&size(self.body.len()));
        out.extend_from_slice(&lsn.0.to_le_bytes());
        out.extend_from_slice(&self.received_at.as_millis().to_le_bytes());
        let expires = match self.expires {
            Expiry::At(at) => at.as_millis().min(NEVER - 1),
            Expiry::Never => NEVER,
        };
        out.extend_from_slice(&expires.to_le_bytes());
        for key in &self.keys {
            out.extend_from_slice(&key.0);
        }
        out.extend_from_slice(&self.head);
        codec::seal(out, start);
        out.extend_from_slice(&self.body);
        codec::seal(out, start);
    }
}

/// Is a frame in its first place?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Where it was appended.
    Appended,
    /// Written again: by recovery, or carried forward by purge. The same frame may be found twice.
    Copied,
    /// Written again by a repair, without its body, which was damaged; reading it is
    /// [`BodyDamaged`](super::JournalError::BodyDamaged).
    Salvaged,
}

/// A frame as it lies in the journal, all of it undamaged.
#[derive(Debug, Clone, Copy)]
pub struct FrameRef<'a> {
    /// Its number; a copy has the number of the original.
    pub lsn: Lsn,
    /// What it records.
    pub kind: FrameKind,
    /// Which spare it may use.
    pub class: Class,
    /// First place or copy.
    pub origin: Origin,
    /// When what it records happened.
    pub received_at: Timestamp,
    /// When it may be purged.
    pub expires: Expiry,
    keys: &'a [u8],
    /// What survives damage to the body.
    pub head: &'a [u8],
    /// The rest.
    pub body: &'a [u8],
}

/// What could be read of a frame.
pub(super) enum Decoded<'a> {
    Whole(FrameRef<'a>),
    /// The body's checksum does not fit; `body` is empty.
    HeadOnly(FrameRef<'a>),
}

impl<'a> FrameRef<'a> {
    /// What it is found by.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = Key> + 'a {
        let (keys, _) = self.keys.as_chunks::<{ Key::OCTETS }>();
        keys.iter().map(|key| Key(*key))
    }

    /// Length on the disk, in octets.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        FRAME_MIN + self.keys.len() + self.head.len() + self.body.len()
    }

    pub(super) fn without_body(self) -> Self {
        Self { body: &[], ..self }
    }

    /// Reads exactly one frame; `None` when not even its head is undamaged.
    pub(super) fn decode(octets: &'a [u8]) -> Option<Decoded<'a>> {
        let mut reader = Reader::new(octets);
        let length = reader.size()?;
        let kind = FrameKind(reader.u8()?);
        let flags = reader.u8()?;
        let keys = usize::from(reader.u16()?).checked_mul(Key::OCTETS)?;
        let (head, body) = (reader.size()?, reader.size()?);
        let lsn = Lsn(reader.u64()?);
        let (received_at, expires) = (Timestamp::from_millis(reader.u64()?), reader.u64()?);
        let expected = FRAME_MIN.checked_add(keys)?.checked_add(head)?.checked_add(body)?;
        if length != octets.len() || length != expected {
            return None;
        }
        codec::checked(octets.get(..FIXED + keys + head + CRC)?)?;
        let (keys, head) = (reader.take(keys)?, reader.take(head)?);
        reader.take(CRC)?;
        let body = reader.take(body)?;
        let frame = Self {
            lsn,
            kind,
            class: if flags & FLAG_FREEING == 0 { Class::New } else { Class::Freeing },
            origin: match (flags & FLAG_COPIED, flags & FLAG_BODILESS) {
                (_, FLAG_BODILESS) => Origin::Salvaged,
                (FLAG_COPIED, _) => Origin::Copied,
                _ => Origin::Appended,
            },
            received_at,
            expires: if expires == NEVER {
                Expiry::Never
            } else {
                Expiry::At(Timestamp::from_millis(expires))
            },
            keys,
            head,
            body,
        };
        Some(match codec::checked(octets) {
            Some(_) => Decoded::Whole(frame),
            None => Decoded::HeadOnly(frame.without_body()),
        })
    }

    /// An owned frame of the same contents.
    #[must_use]
    pub fn to_frame(&self) -> Frame {
        Frame {
            kind: self.kind,
            class: self.class,
            received_at: self.received_at,
            expires: self.expires,
            keys: self.keys().collect(),
            head: Bytes::copy_from_slice(self.head),
            body: Bytes::copy_from_slice(self.body),
        }
    }
}

/// A frame that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFrame {
    /// Its number.
    pub lsn: Lsn,
    /// What was appended.
    pub frame: Frame,
}

impl StoredFrame {
    /// Takes over the octets that were read, without copying head and body.
    pub(super) fn from_parts(octets: &Bytes, frame: &FrameRef<'_>) -> Self {
        let stored = Frame {
            kind: frame.kind,
            class: frame.class,
            received_at: frame.received_at,
            expires: frame.expires,
            keys: frame.keys().collect(),
            head: octets.slice_ref(frame.head),
            body: if frame.body.is_empty() { Bytes::new() } else { octets.slice_ref(frame.body) },
        };
        Self { lsn: frame.lsn, frame: stored }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(frame: &Frame) -> Vec<u8> {
        let mut out = b"before".to_vec();
        frame.encode(Lsn(7), Origin::Appended, &mut out);
        out.split_off(6)
    }

    prop_compose! {
        fn any_frame()(
            kind: u8, freeing: bool, at: u64, never: bool,
            keys in proptest::collection::vec(any::<[u8; 17]>(), 0..5),
            head in proptest::collection::vec(any::<u8>(), 0..60),
            body in proptest::collection::vec(any::<u8>(), 0..200),
        ) -> Frame {
            Frame {
                kind: FrameKind(kind),
                class: if freeing { Class::Freeing } else { Class::New },
                received_at: Timestamp::from_millis(at),
                expires: if never { Expiry::Never } else { Expiry::At(Timestamp::from_millis(at / 2)) },
                keys: keys.into_iter().map(Key).collect(),
                head: head.into(),
                body: body.into(),
            }
        }
    }

    proptest! {
        #[test]
        fn a_frame_comes_back_as_it_was(frame in any_frame()) {
            let octets = Bytes::from(encoded(&frame));
            prop_assert_eq!(octets.len(), frame.encoded_len());
            let Some(Decoded::Whole(read)) = FrameRef::decode(&octets) else { panic!("not whole") };
            prop_assert_eq!(read.to_frame(), frame.clone());
            let stored = StoredFrame::from_parts(&octets, &read);
            prop_assert_eq!((stored.lsn, stored.frame), (Lsn(7), frame));
        }

        #[test]
        fn no_change_of_an_octet_goes_unseen(frame in any_frame(), at: prop::sample::Index, by in 1..=255u8) {
            let mut octets = encoded(&frame);
            let at = at.index(octets.len());
            octets[at] ^= by;
            let head_end = octets.len() - frame.body.len() - CRC;
            match FrameRef::decode(&octets) {
                Some(Decoded::Whole(_)) => prop_assert!(false, "a change at {at} was not seen"),
                Some(Decoded::HeadOnly(read)) => {
                    prop_assert!(at >= head_end, "the head survives damage to the body only");
                    prop_assert_eq!(read.head, &frame.head[..]);
                }
                None => prop_assert!(at < head_end),
            }
        }

        #[test]
        fn nothing_read_from_noise_panics(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(FrameRef::decode(&noise).is_none());
        }
    }

    #[test]
    fn the_limits_are_where_they_say() {
        let mut frame = Frame {
            kind: FrameKind(1),
            class: Class::New,
            received_at: Timestamp::default(),
            expires: Expiry::Never,
            keys: vec![Key([0; 17]); KEYS_MAX],
            head: Bytes::new(),
            body: Bytes::new(),
        };
        assert!(frame.fits_format());
        frame.keys.push(Key([0; 17]));
        assert!(!frame.fits_format());
        frame.keys.clear();
        frame.body = vec![0; FRAME_MAX - FRAME_MIN].into();
        assert!(frame.fits_format());
        frame.body = vec![0; FRAME_MAX - FRAME_MIN + 1].into();
        assert!(!frame.fits_format());
    }
}
