//! What people and programs read of made-up runs.

use lanesum_plan::{AlgorithmName, Bytes, Engine, Path, RankGpu};

use super::super::message::{Effort, Kind, Point, Timed};
use super::super::peers::PeerRow;
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
        numa_node: None,
        slot: None,
        mig: None,
        bar1: None,
        nvlinks: None,
        stand_in: false,
    }
}

fn effort() -> Effort {
    Effort {
        calls: 122,
        warm_ups: 1,
        replays: 2,
        without_variants: None,
    }
}

/// A rank whose every time is `more` than what the kind takes.
fn rank(more: f64) -> Point {
    let timed = |kind, graph, us: f64| Timed {
        kind,
        graph,
        us: vec![us, us + more],
        wrong: None,
    };
    Point {
        bytes: 8192,
        ran: Ran {
            engine: Engine::Cuda,
            path: Path::Peer,
            algorithm: AlgorithmName::OneShotPush,
        },
        copy_rate: None,
        timed: vec![
            timed(Kind::Lanesum, true, 2.0),
            timed(Kind::NoHeader, true, 1.9),
            timed(Kind::FlagRound, true, 1.6),
            timed(Kind::EmptyNode, true, 0.5),
            timed(Kind::Lanesum, false, 6.0),
        ],
        missing: vec![(Kind::Bare, "this build has none".into())],
    }
}

/// Two ranks of a run, on these GPUs.
fn found(gpus: [usize; 2], points: &[Point]) -> Result<Found, String> {
    let mut found = Found::new(2);
    found.gpus.ranks = gpus.map(gpu).into();
    found.efforts = vec![(8192, effort())];
    found.add_size(&Job::made_up(), &effort(), points)?;
    Ok(found)
}

fn add_peers(found: &mut Found) {
    for (peer, graph, choice, us) in [
        ("flashinfer_trtllm", true, "plain launches", 3.0),
        ("flashinfer_vllm", true, "default", 2.5),
        ("flashinfer_vllm", false, "default", 15.0),
    ] {
        let row = PeerRow {
            peer: peer.into(),
            bytes: 8192,
            graph,
            choice: Some(choice.into()),
            us: vec![us, us],
            max_error: 0.003,
        };
        found.add_peer(&Job::made_up(), &effort(), row);
    }
    for bytes in [8192, 43_008] {
        found.lacks_peer("torch_symm_mem", Some(bytes), "/opt/lib/x.so hangs");
    }
}

#[test]
fn sums_through_host_memory_are_compared_with_copy_engines() {
    let staged = |more, rate| {
        let mut point = rank(more);
        point.ran.path = Path::HostStaged;
        point.copy_rate = Some(rate);
        point
    };
    let found = found([0, 1], &[staged(0.0, 8192.0), staged(0.2, 16_384.0)]).expect("are of the same things");
    let share = |kind, graph| {
        let row = found.rows.iter().find(|row| row.graph == graph && row.variant == kind);
        row.expect("is there").copy_engine_share
    };
    // Two ranks move the message once each way: a microsecond at the rate of the slower one, of 2 and 6 that were measured.
    assert_eq!(share(None, true), Some(0.5));
    assert_eq!(share(None, false), Some(1.0 / 6.0));
    assert_eq!(share(Some(Kind::FlagRound), true), None);
    let text = of(&Job::made_up(), &found);
    assert!(
        text.contains("lanesum (one_shot_push, host_staged)              2.00"),
        "{text}"
    );
    assert!(
        text.contains("  part of the time that copy engines would take: 50 % at 8,192, graph; 17 % at 8,192, eager"),
        "{text}"
    );
    let peer = self::found([0, 1], &[rank(0.0), rank(0.2)]).expect("are of the same things");
    assert!(peer.rows.iter().all(|row| row.copy_engine_share.is_none()));
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
  not timed: torch_symm_mem at 8,192; 43,008: x.so hangs
  checked: all of our results have the oracle's bits, and peers are right to their own rounding

";

#[test]
fn ours_stand_first_and_peers_from_the_fastest_on() {
    let mut found = found([1, 2], &[rank(0.1), rank(0.2)]).expect("ran the same");
    add_peers(&mut found);
    assert_eq!(of(&Job::made_up(), &found), TABLE);
}

#[test]
fn each_line_is_an_object_with_what_it_was_compared_with() {
    let mut found = found([1, 2], &[rank(0.1), rank(0.2)]).expect("ran the same");
    let own = found.lines_from((0, 0)).expect("are written");
    assert_eq!(own.len(), 5 + 1);
    assert_eq!(
        own[0],
        r#"{"kind":"row","engine":"cuda","peer":"lanesum","path":"peer","algorithm":"one_shot_push","graph":true,"variant":null,"ranks":2,"bytes":8192,"dtype":"bf16","calls":122,"replays":2,"us":{"p50":2.0,"p99":2.2},"floor_us":1.6,"ratio_to_floor":1.25,"copy_engine_share":null,"checked":true,"max_error":null,"stand_in":false}"#
    );
    assert!(own[2].contains(r#""variant":"flag_round""#) && own[2].contains(r#""checked":null"#));
    let told = (found.rows.len(), found.missing.len());
    add_peers(&mut found);
    let peers = found.lines_from(told).expect("are written");
    assert_eq!(peers.len(), 3 + 2);
    let kinds = |lines: &[String]| -> Vec<String> {
        let kind =
            |line: &String| serde_json::from_str::<serde_json::Value>(line).expect("an object")["kind"].to_string();
        lines.iter().map(kind).collect()
    };
    assert_eq!(
        kinds(&[own, peers].concat()).join(" "),
        r#""row" "guard" "floor" "floor" "row" "missing" "peer" "peer" "peer" "missing" "missing""#
    );
}

#[test]
fn a_wrong_result_is_told_with_its_rank() {
    let mut wrong = rank(0.2);
    wrong.timed[0].wrong = Some("call 100, element 5 is off".into());
    let found = found([1, 2], &[rank(0.1), wrong]).expect("ran the same");
    assert_eq!(found.rows[0].checked, Some(false));
    let text = of(&Job::made_up(), &found);
    assert!(text.contains("lanesum (one_shot_push) WRONG"), "{text}");
    let told = "8192 bytes, graph, lanesum, rank 1: call 100, element 5 is off";
    assert!(text.contains(&format!("WRONG: {told}")), "{text}");
    assert_eq!(found.wrong, Some((1, told.to_owned())));
}

#[test]
fn a_stand_in_and_a_shared_gpu_are_said_first() {
    let mut job = Job::made_up();
    job.stand_in = true;
    let found = found([1, 1], &[rank(0.1), rank(0.2)]).expect("ran the same");
    let text = of(&job, &found);
    assert!(text.starts_with("ON A STAND-IN"), "{text}");
    assert!(text.contains("ranks share a GPU"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 120), "{text}");
}

#[test]
fn sizes_of_which_less_was_timed_are_told_apart() {
    let mut found = found([1, 2], &[rank(0.1), rank(0.2)]).expect("ran the same");
    let less = Effort {
        calls: 9,
        replays: 5,
        ..effort()
    };
    found.efforts.push((43_008, less));
    let text = of(&Job::made_up(), &found);
    assert!(
        text.contains("\n  122 calls a replay, 2 replays at 8,192\n  9 calls a replay, 5 replays at 43,008\n"),
        "{text}"
    );
}

#[test]
fn ranks_that_ran_different_things_have_no_rows() {
    let mut other = rank(0.0);
    other.ran.algorithm = AlgorithmName::TwoShotPush;
    assert!(found([1, 2], &[rank(0.0), other]).is_err());
    let mut fewer = rank(0.0);
    fewer.timed.pop();
    assert!(found([1, 2], &[rank(0.0), fewer]).is_err());
    let mut seldom = rank(0.0);
    seldom.timed[3].us.pop();
    assert!(found([1, 2], &[rank(0.0), seldom]).is_err());
    let mut larger = rank(0.0);
    larger.bytes += 64;
    assert!(found([1, 2], &[rank(0.0), larger]).is_err());
}
