//! How fast a core copies what another has just written.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::bench::statistics::Spread;
use crate::cores;

/// What is copied at a time: it stays in the caches of the core that wrote it.
const BYTES: usize = 256 << 10;
/// Some ten milliseconds of copies.
const COPIES: u8 = 200;
/// A partner that does not answer for this long is not running.
const PATIENCE: Duration = Duration::from_secs(10);

/// The rate between the first two of these CPUs in bytes a nanosecond, which are GB/s, the median of many copies; `None` where there
/// is one CPU only, or where it can't be measured.
pub fn rate(cpus: &[usize]) -> Option<f64> {
    let [first, second, ..] = *cpus else {
        return None;
    };
    let buffer = Mutex::new(vec![0_u8; BYTES]);
    let (written, to_copy) = channel();
    let (copied, to_write) = channel();
    // Each end belongs to its thread, so that one which gives up is noticed by the other.
    let times = std::thread::scope(|scope| {
        let buffer = &buffer;
        let writer = Builder::new().spawn_scoped(scope, move || {
            cores::pin(first).ok()?;
            write(buffer, &written, &to_write)
        });
        let writer = writer.ok()?;
        let reader = Builder::new().spawn_scoped(scope, move || {
            cores::pin(second).ok()?;
            copy(buffer, &copied, &to_copy)
        });
        let reader = reader.ok()?;
        let (done, times) = (writer.join().ok().flatten(), reader.join().ok().flatten());
        done.and(times)
    })?;
    let median_ns = Spread::of(times)?.median;
    (median_ns > 0.0).then(|| BYTES as f64 / median_ns)
}

fn write(buffer: &Mutex<Vec<u8>>, written: &Sender<()>, to_write: &Receiver<()>) -> Option<()> {
    for value in 0..COPIES {
        buffer.lock().ok()?.fill(value);
        written.send(()).ok()?;
        to_write.recv_timeout(PATIENCE).ok()?;
    }
    Some(())
}

/// The nanoseconds of each copy.
fn copy(buffer: &Mutex<Vec<u8>>, copied: &Sender<()>, to_copy: &Receiver<()>) -> Option<Vec<f64>> {
    let mut own = vec![0_u8; BYTES];
    let mut times = Vec::new();
    for value in 0..COPIES {
        to_copy.recv_timeout(PATIENCE).ok()?;
        let source = buffer.lock().ok()?;
        let start = Instant::now();
        own.copy_from_slice(&source);
        times.push(start.elapsed().as_nanos() as f64);
        // Looked at, so that it has to be there.
        if own.first() != Some(&value) || own.last() != Some(&value) {
            return None;
        }
        drop(source);
        copied.send(()).ok()?;
    }
    Some(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_takes_two_cpus() {
        let cpus = cores::usable().expect("can be asked");
        assert_eq!(rate(&[0]), None);
        let found = rate(&cpus);
        assert_eq!(found.is_some(), cpus.len() > 1);
        assert!(found.is_none_or(|rate| rate > 0.0 && rate.is_finite()));
    }
}
