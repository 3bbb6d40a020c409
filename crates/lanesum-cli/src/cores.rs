//! Which CPUs this process may use, in the order in which ranks should take them.
//!
//! Hyper-threads share a core's vector units and its first caches, so every core gets one rank before any gets two.

use std::io;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs of this process's affinity mask: first one of each core, then the rest.
pub fn usable() -> io::Result<Vec<usize>> {
    let mask = sched_getaffinity(None)?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu)).collect();
    Ok(one_a_core_first(&allowed, first_sibling))
}

/// Keeps the calling thread, and those it starts later, on one CPU.
pub fn pin(cpu: usize) -> io::Result<()> {
    let mut mask = CpuSet::new();
    mask.set(cpu);
    Ok(sched_setaffinity(None, &mask)?)
}

/// How long the calling thread has been ready to run and had no CPU, since it began. `None` where Linux doesn't tell.
pub fn queued() -> Option<Duration> {
    queued_in(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// The second of the three numbers, in nanoseconds.
fn queued_in(schedstat: &str) -> Option<Duration> {
    let nanoseconds = schedstat.split_whitespace().nth(1)?;
    Some(Duration::from_nanos(nanoseconds.parse().ok()?))
}

fn one_a_core_first(allowed: &[usize], core_of: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut taken = Vec::new();
    let mut first = Vec::new();
    let mut rest = Vec::new();
    for &cpu in allowed {
        let core = core_of(cpu);
        if taken.contains(&core) {
            rest.push(cpu);
        } else {
            taken.push(core);
            first.push(cpu);
        }
    }
    first.extend(rest);
    first
}

/// The lowest CPU on the same core; the CPU itself where the system does not say.
fn first_sibling(cpu: usize) -> usize {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    std::fs::read_to_string(path)
        .ok()
        .and_then(|list| {
            let digits = list.split(|c: char| !c.is_ascii_digit()).next()?;
            digits.parse().ok()
        })
        .unwrap_or(cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_core_is_taken_once_before_any_is_taken_twice() {
        let interleaved = one_a_core_first(&[0, 1, 2, 3], |cpu| cpu & !1);
        assert_eq!(interleaved, [0, 2, 1, 3]);
        let halves = one_a_core_first(&[0, 1, 2, 3], |cpu| cpu % 2);
        assert_eq!(halves, [0, 1, 2, 3]);
        assert_eq!(one_a_core_first(&[7], |cpu| cpu), [7]);
    }

    #[test]
    fn the_time_in_the_queue_is_the_second_number() {
        assert_eq!(queued_in("17 2500 3\n"), Some(Duration::from_nanos(2500)));
        assert_eq!(queued_in(""), None);
        assert_eq!(queued_in("1 many 2"), None);
    }

    #[test]
    fn this_process_may_use_some_cpu() {
        assert!(!usable().expect("the affinity mask can be read").is_empty());
    }
}
