//! How much of a size is timed: what was asked for, or less where that would take minutes.
//!
//! Processes that share a GPU without CUDA MPS take turns of milliseconds: a call that takes microseconds otherwise takes thousands
//! of them, and the bench hours. Nothing tells beforehand whether that is so; the first calls of a size do.

use std::time::Duration;

use lanesum_plan::Dtype;

use super::job::Job;
use super::message::{Effort, Kind, Pilot};
use crate::progress::grouped;

/// Our part of a bench whose size nobody chose: all sizes and numbers of ranks together.
const BUDGET: Duration = Duration::from_secs(90);
/// Outputs of one graph. Larger messages make fewer calls, since each has an output of its own.
const ROOM: u64 = 128 << 20;
/// Fewer than the patterns of large messages would leave one out.
const FEWEST_CALLS: u32 = 3;
const WARM_UPS: u32 = 5;
const REPLAYS: u32 = 100;
const CALLS: u32 = 122;
/// What the host does around each timed replay, in microseconds.
const AROUND: f64 = 300.0;

/// Replays off the record and on it, from the usual number down.
const USUAL: (u32, u32) = (WARM_UPS, REPLAYS);
const FEW: (u32, u32) = (2, 20);
const FEWEST: (u32, u32) = (1, 5);

/// What is done of a size, and what to tell people of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// What the ranks are told.
    pub effort: Effort,
    /// Where it is less than usual, or takes long.
    pub warning: Option<String>,
}

/// Decides from what all ranks have told of this size.
pub fn decide(job: &Job, ranks: usize, bytes: u64, pilots: &[Pilot]) -> Decided {
    let us = pilots.iter().map(|pilot| pilot.us).fold(0.0, f64::max);
    let room = u32::try_from(ROOM / bytes.max(1)).unwrap_or(u32::MAX);
    let calls = job.calls.unwrap_or(CALLS).min(room.max(FEWEST_CALLS));
    let usual = (USUAL.0, job.replays.unwrap_or(USUAL.1));
    let share = BUDGET.as_secs_f64() / (job.sizes.len() * job.ranks.len()).max(1) as f64;
    let seconds = |calls, times| seconds(job, us, calls, times);
    let asked = job.calls.is_some() || job.replays.is_some();
    let (calls, times) = if asked || seconds(calls, usual) <= share {
        (calls, usual)
    } else if seconds(calls, FEW) <= share {
        (calls, FEW)
    } else {
        let one = seconds(1, FEWEST).max(f64::MIN_POSITIVE);
        let fit = (share / one) as u32;
        (fit.clamp(FEWEST_CALLS.min(calls), calls), FEWEST)
    };
    let full = seconds(job.calls.unwrap_or(CALLS).min(room.max(FEWEST_CALLS)), usual);
    Decided {
        warning: (full > share).then(|| {
            warning(&Told {
                job,
                ranks,
                bytes,
                us,
                full,
                instead: (times != usual).then(|| (calls, times.1, seconds(calls, times))),
            })
        }),
        effort: Effort {
            calls,
            warm_ups: times.0,
            replays: times.1,
            without_variants: pilots.iter().find_map(|pilot| pilot.without_variants.clone()),
        },
    }
}

/// What a size takes, about: every call of every check and of every replay.
fn seconds(job: &Job, us: f64, calls: u32, (warm_ups, replays): (u32, u32)) -> f64 {
    let rounds = f64::from(warm_ups + replays);
    let variants = match job.dtype {
        Dtype::Bf16 => Kind::VARIANTS.len() as f64,
        Dtype::F32 | Dtype::F16 => 0.0,
    };
    let ways = |wanted: bool, kinds: f64| if wanted { kinds } else { 0.0 };
    let (graph, eager) = (ways(job.graph, 1.0 + variants), ways(job.eager, 1.0));
    // Each variant runs once without a graph; of each kind the results are checked before and after.
    let checks = 3.0 * graph + 2.0 * eager + 1.0;
    let timed = (graph + eager) * rounds;
    (us * f64::from(calls) * (checks + 2.0 * timed) + AROUND * timed) / 1e6
}

struct Told<'a> {
    job: &'a Job,
    ranks: usize,
    bytes: u64,
    us: f64,
    full: f64,
    /// Calls, replays, seconds.
    instead: Option<(u32, u32, f64)>,
}

fn warning(told: &Told<'_>) -> String {
    let shared = told.ranks > told.job.devices;
    let (why, hint) = if shared {
        (
            format!(
                "{} ranks share {} GPU(s) and seem to take turns: ",
                told.ranks, told.job.devices
            ),
            "start CUDA MPS (`nvidia-cuda-mps-control -d`), or take no more ranks than there are GPUs",
        )
    } else {
        (String::new(), "--sizes and --ranks choose what is timed")
    };
    let instead = match told.instead {
        Some((calls, replays, seconds)) => {
            format!("so {replays} replays of {calls} calls are timed, for about {seconds:.0} s")
        }
        None => "as was asked for".to_owned(),
    };
    format!(
        "warning: {why}a call of {} bytes takes {:.0} us here, and timing this size in full about {:.0} s; {instead}\nhint: {hint}\n",
        grouped(told.bytes),
        told.us,
        told.full
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pilot(us: f64) -> Vec<Pilot> {
        [0.5, 1.0]
            .map(|part| Pilot {
                gpu: None,
                us: us * part,
                without_variants: None,
            })
            .into()
    }

    fn default_job() -> Job {
        let mut job = Job::made_up();
        job.sizes = vec![8192, 14_336, 43_008, 131_072, 262_144, 1 << 20];
        (job.calls, job.replays) = (None, None);
        job
    }

    #[test]
    fn calls_of_microseconds_are_timed_in_full_and_in_silence() {
        let job = default_job();
        let decided = decide(&job, 2, 8192, &pilot(10.0));
        assert_eq!(decided.warning, None);
        assert_eq!(
            (decided.effort.calls, decided.effort.warm_ups, decided.effort.replays),
            (122, 5, 100)
        );
    }

    #[test]
    fn who_takes_turns_is_done_with_all_sizes_within_two_minutes() {
        let mut job = default_job();
        job.devices = 1;
        for us in [7_000.0, 47_000.0] {
            let decided = decide(&job, 2, 8192, &pilot(us));
            let effort = &decided.effort;
            let all = 6.0 * seconds(&job, us, effort.calls, (effort.warm_ups, effort.replays));
            assert!(effort.calls >= 3 && effort.replays >= 5, "{effort:?}");
            assert!(all < 120.0, "{all} s: {effort:?}");
            let warning = decided.warning.expect("is said");
            assert!(warning.contains("nvidia-cuda-mps-control -d"), "{warning}");
            assert!(warning.contains(&format!("{us:.0} us")), "{warning}");
        }
    }

    #[test]
    fn who_asks_for_a_number_gets_it_with_a_warning() {
        let mut job = default_job();
        job.calls = Some(50);
        let decided = decide(&job, 2, 8192, &pilot(7_000.0));
        assert_eq!((decided.effort.calls, decided.effort.replays), (50, 100));
        assert!(decided.warning.expect("is said").contains("as was asked for"));
    }

    #[test]
    fn each_call_of_a_large_message_still_has_an_output() {
        let job = default_job();
        let calls = |bytes| decide(&job, 2, bytes, &pilot(1.0)).effort.calls;
        assert_eq!([1 << 20, 4 << 20, 256 << 20].map(calls), [122, 32, 3]);
    }

    #[test]
    fn what_one_rank_lacks_no_rank_times() {
        let mut pilots = pilot(1.0);
        pilots[1].without_variants = Some("no image".into());
        let effort = decide(&default_job(), 2, 8192, &pilots).effort;
        assert_eq!(effort.without_variants.as_deref(), Some("no image"));
    }
}
