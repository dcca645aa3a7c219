//! What Linux tells of a process: CPU time and memory.

use std::{fs, thread, time::Duration};

use crate::Fault;

/// What a process used, as `/proc` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all its threads, ended ones too.
    pub cpu: Duration,
    /// Resident memory now, in bytes.
    pub resident: u64,
    /// Largest resident memory since the last [`reset_peak`], in bytes.
    pub peak: u64,
}

/// Ticks of `/proc/PID/stat` in a second: fixed in the kernel's interface.
const TICKS: u64 = 100;

/// What that process used.
///
/// # Errors
/// When it has ended.
pub fn usage(pid: u32) -> Result<Usage, Fault> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in brackets may hold anything; the fields after it are numbers.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(Usage {
        cpu: Duration::from_millis(ticks.saturating_mul(1000) / TICKS),
        resident: kibibytes(&status, "VmRSS:"),
        peak: kibibytes(&status, "VmHWM:"),
    })
}

fn kibibytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let number: u64 = line.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or_default();
    number.saturating_mul(1024)
}

/// Makes the peak start anew from what is resident now.
///
/// # Errors
/// When the process has ended or is not ours.
pub fn reset_peak(pid: u32) -> Result<(), Fault> {
    Ok(fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

/// CPU time of the calling thread.
#[must_use]
pub fn own_cpu() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or_default())
}

/// Waits until `done` says so, looking every 10 milliseconds; false when it took longer than `limit`.
///
/// # Errors
/// Those of `done`.
pub fn wait_until(limit: Duration, mut done: impl FnMut() -> Result<bool, Fault>) -> Result<bool, Fault> {
    let watch = crate::clock::Stopwatch::start();
    while !done()? {
        if watch.elapsed() > limit {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_used_the_processor() {
        let mut sum = 0_u64;
        while own_cpu() < Duration::from_millis(30) {
            sum = sum.wrapping_add(1);
        }
        let usage = usage(std::process::id()).unwrap();
        assert!(
            usage.resident > 1 << 20 && usage.peak >= usage.resident && usage.cpu > Duration::ZERO,
            "{usage:?} {sum}"
        );
    }
}
