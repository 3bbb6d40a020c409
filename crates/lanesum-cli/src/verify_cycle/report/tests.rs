//! What the engine never does right before our eyes: reports of runs that went wrong.

use clap::Parser;

use lanesum_plan::RankGpu;

use super::*;
use crate::arguments::{Arguments, Command};

fn job() -> Job {
    let words = "lanesum verify-cycle --ranks 2 --no-pin --cycles 50 --engine host".split(' ');
    let command = Arguments::try_parse_from(words).expect("is complete").command;
    let Command::VerifyCycle(arguments) = command else {
        panic!("another subcommand")
    };
    Job::checked(&arguments).expect("makes sense")
}

fn rank() -> RankReport {
    RankReport {
        ran: Ran {
            engine: Engine::Host,
            path: Path::SharedMemory,
            algorithm: AlgorithmName::OneShotPull,
        },
        isa: "avx2".into(),
        tree: "0+1".into(),
        copy_rate: None,
        all_reduce_us: Quantiles { p50: 10.0, p99: 20.0 },
        cycle_ms: Quantiles { p50: 1.22, p99: 2.44 },
        plain_cycle_ms: Quantiles { p50: 0.61, p99: 1.0 },
        reductions: 6100,
        wrong: 0,
        first_wrong: None,
        digest: 7,
        setup_ms: 3.0,
        memory_bytes: 12 << 20,
        device_memory_bytes: 0,
        gpu: None,
        without_device: None,
        queued_percent: Some(1.0),
        waited_ms: vec![0.0, 4.0],
        other_path: None,
        refused: vec![
            Refused {
                algorithm: AlgorithmName::Alone,
                reason: "not alone".into(),
                predicted_us: None,
            },
            Refused {
                algorithm: AlgorithmName::TwoShotPull,
                reason: "slower".into(),
                predicted_us: Some(9.0),
            },
        ],
    }
}

#[test]
fn the_slowest_rank_counts() {
    let slow = RankReport {
        all_reduce_us: Quantiles { p50: 11.0, p99: 15.0 },
        setup_ms: 5.0,
        ..rank()
    };
    let report = Report::of(&job(), &[rank(), slow]).expect("ran the same");
    assert_eq!(report.all_reduce_us, Quantiles { p50: 11.0, p99: 20.0 });
    assert_eq!((report.setup_ms, report.reductions, report.bytes), (5.0, 6100, 43_008));
    assert_eq!(report.waited_for_ms, [0.0, 8.0]);
    assert!(report.failure(&[rank(), rank()]).is_none());
}

#[test]
fn measured_sums_are_the_cycle_divided_by_its_calls() {
    let report = Report::of(&job(), &[rank(), rank()]).expect("ran the same");
    let here = report.speculation.here;
    assert!((here.inputs.verify_sum_us - 10.0).abs() < 1e-9 && (here.inputs.plain_sum_us - 5.0).abs() < 1e-9);
    assert!((here.outcome.step_ms - 6.82).abs() < 1e-9);
    assert_eq!(report.speculation.known.inputs, speculation::KNOWN);
}

#[test]
fn wrong_results_fail_the_run_and_name_the_rank() {
    let wrong = RankReport {
        wrong: 2,
        first_wrong: Some("call 3: element 5".into()),
        digest: 8,
        ..rank()
    };
    let ranks = [rank(), wrong];
    let report = Report::of(&job(), &ranks).expect("ran the same");
    assert!(!report.exact && !report.bit_identical);
    let failure = report.failure(&ranks).expect("is wrong");
    assert_eq!(failure.failed_ranks, [1]);
    assert!(
        failure.error.contains("2 results") && failure.error.contains("on rank 1, call 3"),
        "{}",
        failure.error
    );
    assert!(report.tables().contains("DIFFERENT bits"));
}

#[test]
fn equally_wrong_is_still_wrong() {
    let wrong = RankReport {
        wrong: 1,
        first_wrong: Some("call 0".into()),
        ..rank()
    };
    let ranks = [wrong.clone(), wrong];
    let report = Report::of(&job(), &ranks).expect("ran the same");
    assert!(report.bit_identical && !report.exact);
    assert_eq!(report.failure(&ranks).expect("is wrong").failed_ranks, [0, 1]);
    assert!(report.tables().contains("but NOT the oracle's"));
}

#[test]
fn times_taken_under_load_carry_a_warning() {
    let quiet = Report::of(&job(), &[rank(), rank()]).expect("ran the same");
    assert!(!quiet.tables().contains("DISTURBED"));
    let kept_off = RankReport {
        queued_percent: Some(76.0),
        ..rank()
    };
    let report = Report::of(&job(), &[rank(), kept_off]).expect("ran the same");
    assert_eq!(report.queued_percent, Some(76.0));
    assert!(
        report.tables().contains("DISTURBED   a rank waited 76 % of the time"),
        "{}",
        report.tables()
    );
}

#[test]
fn ranks_that_ran_different_things_have_no_common_report() {
    let ran = Ran {
        algorithm: AlgorithmName::TwoShotPull,
        ..rank().ran
    };
    assert!(Report::of(&job(), &[rank(), RankReport { ran, ..rank() }]).is_none());
    assert!(Report::of(&job(), &[]).is_none());
}

#[test]
fn tables_leave_out_what_nobody_would_expect() {
    let text = Report::of(&job(), &[rank(), rank()]).expect("ran the same").tables();
    assert!(
        text.contains("two_shot_pull: slower") && !text.contains("not alone"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.len() <= 120), "{text}");
}

#[test]
fn a_division_without_an_answer_is_a_dash() {
    let mut report = Report::of(&job(), &[rank(), rank()]).expect("ran the same");
    let outcome = &mut report.speculation.known.outcome;
    (outcome.tokens_per_s, outcome.break_even_accepted) = (f64::INFINITY, f64::NAN);
    let text = report.tables();
    assert!(text.contains("     - tok/s") && text.contains("    - tokens"), "{text}");
    assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
}

/// What a rank on the GPU of this number reports.
fn on_gpu(number: usize, stand_in: bool) -> RankReport {
    let gpu = RankGpu {
        uuid: format!("GPU-{number}"),
        pci_bus_id: format!("0000:0{number}:00.0"),
        name: "Some GPU".into(),
        compute: (9, 0),
        multiprocessors: 132,
        threads_per_block: 1024,
        memory: Bytes::new(80 << 30),
        driver: 12_040,
        watchdog: false,
        numa_node: None,
        slot: None,
        mig: None,
        bar1: None,
        nvlinks: None,
        stand_in,
    };
    RankReport {
        ran: Ran {
            engine: Engine::Cuda,
            path: Path::Peer,
            algorithm: AlgorithmName::OneShotPush,
        },
        device_memory_bytes: 9 << 20,
        gpu: Some(gpu),
        ..rank()
    }
}

#[test]
fn gpus_are_named_with_their_ranks() {
    let report = Report::of(&job(), &[on_gpu(1, false), on_gpu(2, false)]).expect("ran the same");
    let text = report.tables();
    for line in [
        "  engine      cuda (sm_90), device buffers\n",
        "  devices     rank 0: Some GPU at 0000:01:00.0\n",
        "              rank 1: Some GPU at 0000:02:00.0\n",
        "              9 MiB of GPU memory a rank\n",
        "(eager, back to back: the device's time for a batch divided by its calls)",
    ] {
        assert!(text.contains(line), "{line:?} is missing in\n{text}");
    }
    assert!(text.starts_with("verify cycle") && !text.contains("FUNCTIONAL") && !text.contains("not cuda"));
    let told = serde_json::to_value(&report).expect("is written");
    assert_eq!((&told["stand_in"], &told["buffers"]), (&false.into(), &"device".into()));
    assert_eq!(told["devices"][1]["pci_bus_id"], "0000:02:00.0");
    assert_eq!(
        (&told["devices"][1]["rank"], &told["functional"]),
        (&1.into(), &serde_json::Value::Null)
    );
    assert_eq!(told["device_memory_bytes"], 9 << 20);
}

#[test]
fn a_stand_in_and_a_shared_gpu_are_said_before_any_time() {
    let report = Report::of(&job(), &[on_gpu(1, true), on_gpu(1, true)]).expect("ran the same");
    let text = report.tables();
    assert!(
        text.starts_with("ON A STAND-IN") && text.contains("FUNCTIONAL  ranks share a GPU"),
        "{text}"
    );
    assert!(text.find("FUNCTIONAL") < text.find("all-reduce"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    let told = serde_json::to_value(&report).expect("is written");
    assert_eq!(told["stand_in"], true);
    assert!(
        told["functional"]
            .as_str()
            .is_some_and(|words| words.contains("CUDA MPS")),
        "{told}"
    );
}

#[test]
fn the_host_says_why_it_is_not_a_gpu() {
    let turned_away = RankReport {
        without_device: Some("rank 1: no device".into()),
        ..rank()
    };
    let report = Report::of(&job(), &[rank(), turned_away]).expect("ran the same");
    assert!(
        report.tables().contains("  not cuda    rank 1: no device\n"),
        "{}",
        report.tables()
    );
    assert_eq!(report.not_cuda.as_deref(), Some("rank 1: no device"));
}
