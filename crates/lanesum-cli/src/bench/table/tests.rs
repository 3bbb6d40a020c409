//! What people and programs read of made-up runs.

use lanesum_plan::{AlgorithmName, Bytes, Engine, Path, RankGpu};

use super::super::message::{BenchReport, Kind, Point, Timed};
use super::super::peers::{PeerRow, PeersFound};
use super::super::row::rows_of;
use super::*;
use crate::ranks::message::Ran;

fn gpu(number: usize) -> RankGpu {
    RankGpu {
        uuid: format!("GPU-{number}"),
        pci_bus_id: format!("0000:0{number}:00.0"),
        name: "Some GPU".into(),
        compute: (9, 0),
        multiprocessors: 132,
        threads_per_block: 1024,
        memory: Bytes::new(80 << 30),
        driver: 13_000,
        watchdog: false,
        stand_in: false,
    }
}

/// A rank whose every time is `us` more than what the kind takes.
fn rank(number: usize, more: f64) -> BenchReport {
    let timed = |kind, graph, us: f64| Timed {
        kind,
        graph,
        us: vec![us, us + more],
        wrong: None,
    };
    BenchReport {
        gpu: Some(gpu(number)),
        points: vec![Point {
            bytes: 8192,
            ran: Ran {
                engine: Engine::Cuda,
                path: Path::Peer,
                algorithm: AlgorithmName::OneShotPush,
            },
            timed: vec![
                timed(Kind::Lanesum, true, 2.0),
                timed(Kind::NoHeader, true, 1.9),
                timed(Kind::FlagRound, true, 1.6),
                timed(Kind::EmptyNode, true, 0.5),
                timed(Kind::Lanesum, false, 6.0),
            ],
            missing: vec![(Kind::Bare, "this build has none".into())],
        }],
    }
}

fn peers() -> PeersFound {
    let row = |peer: &str, graph, choice: &str, us| PeerRow {
        peer: peer.into(),
        bytes: 8192,
        graph,
        choice: Some(choice.into()),
        us: vec![us, us],
        max_error: 0.003,
    };
    let missing = |bytes| Missing {
        peer: "torch_symm_mem".into(),
        variant: None,
        ranks: 2,
        bytes: Some(bytes),
        missing: "it hangs".into(),
    };
    PeersFound {
        rows: vec![
            row("flashinfer_trtllm", true, "plain launches", 3.0),
            row("flashinfer_vllm", true, "default", 2.5),
            row("flashinfer_vllm", false, "default", 15.0),
        ],
        missing: vec![missing(8192), missing(43_008)],
    }
}

const TABLE: &str = "\
bench: 2 ranks on Some GPU, bf16, 122 calls a replay, 2 replays
us a call: the device's time for a replay on its slowest rank, divided by its calls

        bytes                                                         p50 us    p99 us  x floor   x peer
        8,192  graph  lanesum (one_shot_push)                           2.00      2.20     1.25     0.80
                        no header                                       1.90      2.10     1.19
                        flag round (floor)                              1.60      1.80     1.00
                        empty node                                      0.50      0.70     0.31
                      flashinfer_vllm                                   2.50      2.50     1.56
                      flashinfer_trtllm (plain launches)                3.00      3.00     1.88
        8,192  eager  lanesum (one_shot_push)                           6.00      6.20              0.40
                      flashinfer_vllm                                  15.00     15.00

  not timed: no guard at 8,192: this build has none
  not timed: torch_symm_mem at 8,192; 43,008: it hangs
  checked: all of our results have the oracle's bits, and peers are right to their own rounding

";

#[test]
fn ours_stand_first_and_peers_from_the_fastest_on() {
    let job = Job::made_up();
    let mut found = rows_of(&job, 2, &[rank(1, 0.1), rank(2, 0.2)]).expect("ran the same");
    found.add(&job, peers());
    assert_eq!(of(&job, &found), TABLE);
}

#[test]
fn each_line_is_an_object_with_what_it_was_compared_with() {
    let job = Job::made_up();
    let mut found = rows_of(&job, 2, &[rank(1, 0.1), rank(2, 0.2)]).expect("ran the same");
    found.add(&job, peers());
    let lines = found.lines().expect("are written");
    assert_eq!(
        lines[0],
        r#"{"engine":"cuda","peer":"lanesum","path":"peer","algorithm":"one_shot_push","graph":true,"variant":null,"ranks":2,"bytes":8192,"dtype":"bf16","us":{"p50":2.0,"p99":2.2},"floor_us":1.6,"ratio_to_floor":1.25,"checked":true,"max_error":null,"stand_in":false}"#
    );
    assert_eq!(lines.len(), 5 + 3 + 1 + 2);
    assert!(lines[2].contains(r#""variant":"flag_round""#) && lines[2].contains(r#""checked":null"#));
    let last: serde_json::Value = serde_json::from_str(lines.last().expect("is there")).expect("is an object");
    assert_eq!(last["missing"], "it hangs");
}

#[test]
fn a_wrong_result_is_told_with_its_rank() {
    let mut wrong = rank(2, 0.2);
    wrong.points[0].timed[0].wrong = Some("pattern 3, element 5 is off".into());
    let job = Job::made_up();
    let found = rows_of(&job, 2, &[rank(1, 0.1), wrong]).expect("ran the same");
    assert_eq!(found.rows[0].checked, Some(false));
    let text = of(&job, &found);
    assert!(text.contains("lanesum (one_shot_push) WRONG"), "{text}");
    assert!(text.contains("WRONG: 8192 bytes, lanesum, rank 1: pattern 3"), "{text}");
}

#[test]
fn a_stand_in_and_a_shared_gpu_are_said_first() {
    let mut job = Job::made_up();
    job.stand_in = true;
    let found = rows_of(&job, 2, &[rank(1, 0.1), rank(1, 0.2)]).expect("ran the same");
    let text = of(&job, &found);
    assert!(text.starts_with("ON A STAND-IN"), "{text}");
    assert!(text.contains("ranks share a GPU"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 120), "{text}");
}

#[test]
fn ranks_that_ran_different_things_have_no_rows() {
    let mut other = rank(2, 0.0);
    other.points[0].ran.algorithm = AlgorithmName::TwoShotPush;
    assert!(rows_of(&Job::made_up(), 2, &[rank(1, 0.0), other]).is_err());
    let mut fewer = rank(2, 0.0);
    fewer.points[0].timed.pop();
    assert!(rows_of(&Job::made_up(), 2, &[rank(1, 0.0), fewer]).is_err());
}
