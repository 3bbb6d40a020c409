//! Every fault has a text that names its ranks, and a hint.

use std::time::Duration;

use lanesum_plan::{Call, Fault, FaultKind, Rank};

fn rank(index: usize) -> Rank {
    Rank::new(index).unwrap()
}

#[test]
fn faults_name_their_ranks_in_order_and_say_what_to_do() {
    let call = Call::Barrier {
        label: None,
        ordinal: 3,
    };
    let ranks = vec![rank(4), rank(2), rank(4)];
    let waited = Duration::from_millis(1500);
    for (kind, named, text) in [
        (
            FaultKind::Died { ranks: ranks.clone() },
            vec![2, 4],
            "the process of ranks 4, 2, 4 ended",
        ),
        (
            FaultKind::Late {
                ranks: vec![rank(1)],
                waited,
                phase: "with its input",
            },
            vec![1],
            "rank 1 did not come within 1500 ms (with its input)",
        ),
        (
            FaultKind::Mismatch {
                rank: rank(3),
                called: call,
                against: rank(0),
                against_called: call,
            },
            vec![0, 3],
            "rank 3 called barrier, call 3, but rank 0 called barrier, call 3",
        ),
        (
            FaultKind::Device {
                rank: rank(5),
                code: "CUDA_ERROR_ILLEGAL_ADDRESS (700)".to_owned(),
            },
            vec![5],
            "the GPU of rank 5 failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)",
        ),
        (
            FaultKind::Overlap { rank: rank(2) },
            vec![2],
            "rank 2 ran two calls of one communicator at once (two replays, or a replay beside an eager call on another stream)",
        ),
        (
            FaultKind::Panicked { rank: rank(0) },
            vec![0],
            "the thread of rank 0 panicked",
        ),
    ] {
        let fault = Fault {
            kind,
            noticed_by: rank(6),
            ours: call,
            epoch: 9,
        };
        let whole = format!("{text}; noticed by rank 6 in epoch 9 during barrier, call 3");
        assert_eq!(fault.to_string(), whole);
        let ranks: Vec<usize> = fault.ranks().into_iter().map(Rank::index).collect();
        assert_eq!(ranks, named);
        assert!(!fault.hint().is_empty());
    }
}
