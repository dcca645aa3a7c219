//! A Bloom filter over keys: ten bits a key, seven probes, about one false answer in a hundred; never a false
//! "no" (storage §3.3 I7).

use super::Key;

const BITS_PER_KEY: u64 = 10;
const PROBES: u64 = 7;

/// Which keys may be in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter(Vec<u8>);

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    z = (z ^ (z >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    z ^ (z >> 33)
}

/// Two independent numbers of a key; hashed once, asked of many filters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hashed(u64, u64);

impl Hashed {
    pub(super) fn of(key: &Key) -> Self {
        let id = u128::from_le_bytes(key.id());
        let low = u64::try_from(id & u128::from(u64::MAX)).unwrap_or(0);
        let high = u64::try_from(id >> 64).unwrap_or(0);
        let first = mix(low ^ mix(high ^ mix(u64::from(key.prefix()) + 1)));
        Self(first, mix(first ^ 0x9E37_79B9_7F4A_7C15) | 1)
    }
}

impl Filter {
    /// Of these keys.
    pub(super) fn build<'a>(keys: impl ExactSizeIterator<Item = &'a Key>) -> Self {
        let bits = (keys.len() as u64).saturating_mul(BITS_PER_KEY).max(64);
        let mut filter = Self(vec![0; usize::try_from(bits.div_ceil(8)).unwrap_or(8)]);
        for key in keys {
            for (octet, bit) in filter.probes(Hashed::of(key)) {
                if let Some(octet) = filter.0.get_mut(octet) {
                    *octet |= bit;
                }
            }
        }
        filter
    }

    pub(super) fn from_octets(octets: &[u8]) -> Option<Self> {
        (!octets.is_empty()).then(|| Self(octets.to_vec()))
    }

    pub(super) fn octets(&self) -> &[u8] {
        &self.0
    }

    fn probes(&self, Hashed(first, second): Hashed) -> impl Iterator<Item = (usize, u8)> + use<> {
        let bits = self.0.len() as u64 * 8;
        (0..PROBES).map(move |n| {
            let bit = first.wrapping_add(second.wrapping_mul(n)) % bits;
            (usize::try_from(bit / 8).unwrap_or(0), 1 << (bit % 8))
        })
    }

    /// `false`: surely not there.
    pub(super) fn may_hold(&self, hashed: Hashed) -> bool {
        self.probes(hashed).all(|(octet, bit)| self.0.get(octet).is_some_and(|held| held & bit != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u128) -> Key {
        Key::new(b'k', n.to_be_bytes())
    }

    #[test]
    fn every_key_put_in_may_be_held_and_few_others() {
        let keys: Vec<Key> = (0..5000).map(key).collect();
        let filter = Filter::from_octets(Filter::build(keys.iter()).octets()).unwrap();
        assert!(keys.iter().all(|key| filter.may_hold(Hashed::of(key))));
        let wrong = (5000..15_000).filter(|n| filter.may_hold(Hashed::of(&key(*n)))).count();
        assert!(wrong < 200, "{wrong} of 10000");
    }

    #[test]
    fn an_empty_filter_holds_nothing() {
        assert!(!Filter::build([].iter()).may_hold(Hashed::of(&key(1))));
        assert_eq!(Filter::from_octets(&[]), None);
    }
}
