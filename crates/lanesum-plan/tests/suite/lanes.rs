//! Lanes fit the GPUs, and no packet of a message is lost between them.

use lanesum_plan::{
    Algorithm, AlgorithmChoice, Buffers, Bytes, DeviceFit, Dtype, Elements, Gpus, Grid, Kernel, Limits, RankGpu,
    Request, device_fit,
};
use proptest::prelude::*;

use crate::device::{any_gpus, compiled, gpu, gpus, with_gpus};
use crate::{any_limits, request, world};

fn fit(limits: Limits, ranks: &[RankGpu]) -> DeviceFit {
    let gpus = Gpus {
        ranks: ranks.to_vec(),
        peers: Vec::new(),
    };
    device_fit(limits, Some(&gpus), world(ranks.len())).unwrap()
}

#[test]
fn lanes_are_resident_together_on_the_smallest_and_most_shared_gpu() {
    let shape = |fit: DeviceFit| (fit.lanes(), fit.capacity(), fit.threads());
    let defaults = Limits::default();
    assert_eq!(shape(fit(defaults, &[gpu(0, 132), gpu(1, 132)])), (16, 16_384, 512));
    assert_eq!(fit(defaults, &[gpu(0, 132), gpu(1, 10)]).lanes(), 10);
    assert_eq!(fit(defaults, &[gpu(0, 30), gpu(0, 30), gpu(0, 30)]).lanes(), 10);
    assert_eq!(fit(defaults, &[gpu(0, 0)]).lanes(), 1);
    // 262,144 packets over 10 lanes, rounded down to whole warps.
    assert_eq!(fit(defaults, &[gpu(0, 10)]).capacity(), 26_208);
    let narrow = |threads_per_block| RankGpu {
        threads_per_block,
        ..gpu(0, 8)
    };
    assert_eq!(fit(defaults, &[gpu(1, 8), narrow(100)]).threads(), 96);
    assert_eq!(fit(defaults, &[narrow(1)]).threads(), 32);
    let smallest = Limits::new(Bytes::new(4096), Bytes::new(0)).unwrap();
    assert_eq!(shape(fit(smallest, &[gpu(0, 132)])), (16, 64, 512));
}

#[test]
fn short_messages_take_few_lanes() {
    let plan = with_gpus(2, gpus(2, 2));
    let grid = |dtype, elements| match plan.decide(&request(dtype, elements, Buffers::Device)) {
        Ok(Algorithm::OneShotPush(push)) => push.grid(),
        Ok(Algorithm::DeviceHeaderOnly(header)) => header.grid(),
        other => panic!("{other:?}"),
    };
    let shape = |blocks, share| Grid {
        blocks,
        share,
        threads: 512,
        kernel: Kernel::OneShotPush,
    };
    assert_eq!(grid(Dtype::F32, 0), shape(1, 32));
    assert_eq!(grid(Dtype::F32, 1), shape(1, 32));
    assert_eq!(grid(Dtype::F32, 511), shape(1, 512));
    assert_eq!(grid(Dtype::F32, 512), shape(2, 256));
    // An odd last element has a packet of its own, the 512th.
    assert_eq!(grid(Dtype::F16, 1_023), shape(2, 256));
    // 42 KiB of bf16 are 10,752 packets.
    assert_eq!(grid(Dtype::Bf16, 21_504), shape(16, 672));
    // 4,100 packets in shares of 288: the last of 16 lanes would be left with nothing.
    assert_eq!(grid(Dtype::F32, 4_100), shape(15, 288));
    assert_eq!(grid(Dtype::F32, u64::MAX).blocks, 16);
}

/// Grid, lanes, capacity and exchanges of what was decided, if it carries a payload.
fn launched(decided: &Algorithm) -> Option<(Grid, u32, u32, u64)> {
    match decided {
        Algorithm::Alone(_) | Algorithm::HeaderOnly(_) | Algorithm::OneShotPull(_) | Algorithm::TwoShotPull(_) => None,
        Algorithm::DeviceAlone(alone) => Some((alone.grid(), alone.lanes(), alone.capacity(), u64::MAX)),
        Algorithm::DeviceHeaderOnly(header) => Some((header.grid(), header.lanes(), header.capacity(), 1)),
        Algorithm::OneShotPush(push) => Some((push.grid(), push.lanes(), push.capacity(), push.exchanges())),
        Algorithm::TwoShotPush(push) => Some((push.grid(), push.lanes(), push.capacity(), push.exchanges())),
    }
}

proptest! {
    #[test]
    fn no_packet_is_lost_and_no_lane_overflows(
        gpus in any_gpus(),
        limits in any_limits(),
        dtype in proptest::sample::select(&Dtype::ALL[..]),
        elements in prop_oneof![0_u64..100_000, 0_u64..1 << 40, any::<u64>()],
    ) {
        let plan = compiled(gpus.ranks.len(), Some(gpus), AlgorithmChoice::Auto, limits).unwrap();
        let Ok(decided) = plan.decide(&Request {
            elements: Elements::new(elements),
            ..request(dtype, 0, Buffers::Device)
        }) else {
            return Ok(());
        };
        let (grid, lanes, capacity, exchanges) = launched(&decided).unwrap();
        let packets = elements.div_ceil(4 / dtype.size() as u64);
        prop_assert!((1..=lanes).contains(&grid.blocks) && lanes <= 16);
        prop_assert!((32..=512).contains(&grid.threads) && grid.threads % 32 == 0);
        prop_assert!(capacity >= 64 && capacity % 32 == 0);
        prop_assert!(u64::from(lanes) * u64::from(capacity) * 4 <= limits.staging.get());
        // All packets have a lane, and the last lane has some.
        prop_assert!(u128::from(grid.share) * u128::from(grid.blocks) >= u128::from(packets));
        prop_assert!(grid.blocks == 1 || grid.share * u64::from(grid.blocks - 1) < packets);
        if elements < 1 << 40 {
            prop_assert!(grid.share >= 32 && grid.share % 32 == 0);
            prop_assert!(grid.blocks == 1 || grid.share >= 256);
        }
        // Lane 0 has a whole share unless it is the only one.
        let first = grid.share.min(packets);
        prop_assert!(u128::from(exchanges) * u128::from(capacity) >= u128::from(first));
    }
}
