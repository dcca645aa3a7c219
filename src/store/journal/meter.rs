//! How long syncs take.

use std::time::Duration;

/// How many are remembered.
const SAMPLES: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Meter {
    samples: Vec<Duration>,
    next: usize,
}

impl Meter {
    pub(super) fn add(&mut self, took: Duration) {
        match self.samples.get_mut(self.next) {
            Some(sample) => *sample = took,
            None => self.samples.push(took),
        }
        self.next = (self.next + 1) % SAMPLES;
    }

    /// So many hundredths of the samples took no longer.
    pub(super) fn percentile(&self, hundredths: usize) -> Duration {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * hundredths).div_ceil(100).saturating_sub(1);
        sorted.get(rank).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_last_samples() {
        let mut meter = Meter::default();
        assert_eq!(meter.percentile(50), Duration::ZERO);
        for n in 1..=100 {
            meter.add(Duration::from_micros(n));
        }
        assert_eq!(
            (meter.percentile(50), meter.percentile(99)),
            (Duration::from_micros(50), Duration::from_micros(99))
        );
        for _ in 0..SAMPLES {
            meter.add(Duration::from_micros(7));
        }
        assert_eq!(meter.percentile(99), Duration::from_micros(7));
    }
}
