//! Lanes fit the GPUs, and no frame of a message is lost between them.

use lanesum_plan::{
    Algorithm, AlgorithmChoice, AlgorithmName, Buffers, Bytes, DeviceFit, Dtype, Elements, Gpus, Grid, Kernel, Limits,
    Path, Plan, RankGpu, Request, device_fit,
};
use proptest::prelude::*;

use crate::device::{any_gpus, compiled, gpu, gpus, staging};
use crate::{any_limits, request, world};

fn fit(limits: Limits, ranks: &[RankGpu]) -> DeviceFit {
    let gpus = Gpus::new(ranks.to_vec());
    device_fit(limits, Some(&gpus), world(ranks.len())).unwrap()
}

#[test]
fn lanes_are_resident_together_on_the_smallest_and_most_shared_gpu() {
    let shape = |fit: DeviceFit| (fit.lanes(), fit.capacity(), fit.threads());
    let defaults = Limits::default();
    // 87,381 frames over 32 lanes are 2,730, rounded down to a multiple of 64.
    assert_eq!(shape(fit(defaults, &[gpu(0, 132), gpu(1, 132)])), (32, 2_688, 768));
    assert_eq!(fit(defaults, &[gpu(0, 132), gpu(1, 10)]).lanes(), 10);
    assert_eq!(fit(defaults, &[gpu(0, 30), gpu(0, 30), gpu(0, 30)]).lanes(), 10);
    assert_eq!(fit(defaults, &[gpu(0, 0)]).lanes(), 1);
    assert_eq!(fit(defaults, &[gpu(0, 10)]).capacity(), 8_704);
    let narrow = |threads_per_block| RankGpu {
        threads_per_block,
        ..gpu(0, 8)
    };
    assert_eq!(fit(defaults, &[gpu(1, 8), narrow(100)]).threads(), 96);
    assert_eq!(fit(defaults, &[narrow(1)]).threads(), 32);
    // 341 frames are five lanes of at least 64.
    let smallest = Limits::new(Bytes::new(4096), Bytes::new(0)).unwrap();
    assert_eq!(shape(fit(smallest, &[gpu(0, 132)])), (5, 64, 768));
}

/// The plan of four ranks with a GPU each and one pinned algorithm.
fn pinned(name: AlgorithmName, limits: Limits) -> Plan {
    compiled(4, Some(gpus(4, 4)), AlgorithmChoice::Only(name), limits).unwrap()
}

#[test]
fn short_messages_take_few_lanes_and_small_blocks() {
    let checked = |name, kernel| {
        let plan = pinned(name, Limits::default());
        move |dtype, elements, (blocks, share, threads), once| {
            let decided = plan.decide(&request(dtype, elements, Buffers::Device)).unwrap();
            assert_eq!(decided.name(), name);
            let expected = Grid {
                blocks,
                share,
                threads,
                once,
                pause_ns: 0,
                kernel,
            };
            assert_eq!(decided.grid(), Some(expected), "{elements} {dtype}");
        }
    };
    {
        let check = checked(AlgorithmName::OneShotPush, Kernel::OneShotPush);
        // Six elements of 16 bits are a frame, or three of 32; a thread of each block moves none.
        for elements in [1, 5, 6, 7, 31 * 6] {
            check(Dtype::Bf16, elements, (1, 31, 32), true);
        }
        check(Dtype::Bf16, 31 * 6 + 1, (1, 63, 64), true);
        check(Dtype::F32, 93, (1, 31, 32), true);
        check(Dtype::F32, 94, (1, 63, 64), true);
        // 255 frames, and the 256th for an odd last element.
        check(Dtype::F32, 765, (1, 255, 256), true);
        check(Dtype::F32, 766, (2, 159, 160), true);
        // 42 KiB of bf16 are 3,584 frames.
        check(Dtype::Bf16, 21_504, (15, 255, 256), true);
        // 8,200 frames take all lanes; in shares of 287 the last three are left with nothing.
        check(Dtype::F32, 24_600, (29, 287, 288), true);
        check(Dtype::F32, 32 * 767 * 3, (32, 767, 768), true);
        check(Dtype::F32, 32 * 767 * 3 + 1, (31, 799, 768), false);
        check(Dtype::F32, 1 << 20, (32, 10_944, 768), false);
        check(Dtype::F32, u64::MAX, (32, u64::MAX / 3 / 32 / 32 * 32 + 32, 768), false);
    }
    {
        // A frame of each of four shards for each thread but the first.
        let check = checked(AlgorithmName::TwoShotPush, Kernel::TwoShotPush);
        for elements in [1, 6, 7, 31 * 4 * 6] {
            check(Dtype::Bf16, elements, (1, 31 * 4, 32), true);
        }
        check(Dtype::Bf16, 31 * 4 * 6 + 1, (1, 63 * 4, 64), true);
        check(Dtype::F32, 127 * 4 * 3, (1, 127 * 4, 128), true);
        check(Dtype::F32, 127 * 4 * 3 + 1, (2, 95 * 4, 96), true);
        check(Dtype::Bf16, 21_504, (8, 127 * 4, 128), true);
        check(Dtype::F32, 32 * 767 * 4 * 3, (32, 767 * 4, 768), true);
        check(Dtype::F32, 32 * 767 * 4 * 3 + 1, (31, 799 * 4, 768), false);
        check(Dtype::F32, 1 << 20, (32, 2_752 * 4, 768), false);
    }
    let header = pinned(AlgorithmName::TwoShotPush, Limits::default()).decide(&request(Dtype::F16, 0, Buffers::Device));
    let grid = header.unwrap().grid().unwrap();
    assert_eq!((grid.blocks, grid.share, grid.threads, grid.once), (1, 31, 32, true));
    assert_eq!(grid.kernel, Kernel::OneShotPush);
}

/// Through host memory nobody looks for what cannot be there: the pause grows with the bytes of all ranks on a link.
#[test]
fn the_first_poll_across_a_bus_waits_for_the_bytes() {
    let pause = |ranks, gpus: usize, name, elements| {
        let plan = compiled(
            ranks,
            Some(staging(ranks, gpus)),
            AlgorithmChoice::Only(name),
            Limits::default(),
        )
        .unwrap();
        plan.decide(&request(Dtype::Bf16, elements, Buffers::Device))
            .unwrap()
            .grid()
            .unwrap()
            .pause_ns
    };
    use AlgorithmName::{OneShotPush, TwoShotPush};
    // 3,584 frames of 16 bytes take 1,102 ns at 52 bytes each.
    assert_eq!(pause(2, 2, OneShotPush, 21_504), 300 + 1_102);
    assert_eq!(pause(2, 1, OneShotPush, 21_504), 300 + 2_205);
    assert_eq!(pause(4, 4, OneShotPush, 21_504), 300 + 3_308);
    assert_eq!(pause(4, 4, TwoShotPush, 21_504), 300 + 827);
    assert_eq!(pause(4, 2, TwoShotPush, 21_504), 300 + 1_654);
    assert_eq!(pause(2, 2, OneShotPush, 0), 300);
    // Of a message of many exchanges the first counts.
    assert_eq!(pause(4, 4, OneShotPush, 1 << 40), 300 + 32 * 2_688 * 3 * 16 / 52);
    let peer = pinned(OneShotPush, Limits::default()).decide(&request(Dtype::Bf16, 21_504, Buffers::Device));
    assert_eq!(peer.unwrap().grid().unwrap().pause_ns, 0);
}

#[test]
fn an_exchange_of_two_shots_moves_half_a_capacity_for_each_rank() {
    let smallest = Limits::new(Bytes::new(4096), Bytes::new(0)).unwrap();
    let one = |elements| match pinned(AlgorithmName::OneShotPush, smallest).decide(&frames(elements)) {
        Ok(Algorithm::OneShotPush(push)) => push.exchanges(),
        other => panic!("{other:?}"),
    };
    let two = |elements| match pinned(AlgorithmName::TwoShotPush, smallest).decide(&frames(elements)) {
        Ok(Algorithm::TwoShotPush(push)) => {
            assert_eq!(push.exchange(), 4 * 32);
            push.exchanges()
        }
        other => panic!("{other:?}"),
    };
    // Five lanes with capacities of 64 frames.
    for (count, exchanges) in [(1, (1, 1)), (5 * 128, (2, 1)), (5 * 128 + 1, (3, 2)), (5 * 256, (4, 2))] {
        assert_eq!((one(count), two(count)), exchanges, "{count} frames");
    }
    assert_eq!(one(u64::MAX / 6), (u64::MAX / 30).next_multiple_of(32).div_ceil(64));
}

/// Long messages move in chunks, from where the model says so: through host memory sooner where ranks share a link.
#[test]
fn long_messages_across_a_bus_move_in_chunks() {
    let plan = |ranks, gpus, choice| compiled(ranks, Some(staging(ranks, gpus)), choice, Limits::default()).unwrap();
    let from = |ranks, gpus, choice| {
        plan(ranks, gpus, choice)
            .chunks_from(Dtype::Bf16)
            .map(|from| from.get() * 2 / 1024)
    };
    let (auto, only) = (AlgorithmChoice::Auto, AlgorithmChoice::Only);
    assert_eq!(from(2, 2, auto), Some(348));
    assert_eq!(from(2, 1, auto), Some(300));
    assert_eq!(from(2, 1, only(AlgorithmName::OneShotPush)), Some(300));
    // Chunks of two ranks go in one shot, and those of more in two.
    assert_eq!(from(2, 1, only(AlgorithmName::TwoShotPush)), None);
    assert_eq!(from(4, 1, only(AlgorithmName::OneShotPush)), None);
    assert_eq!(from(4, 1, auto), from(4, 1, only(AlgorithmName::TwoShotPush)));
    // Straight into a GPU they go between two ranks that have one each.
    let peer = |ranks, distinct, choice| {
        let plan = compiled(ranks, Some(gpus(ranks, distinct)), choice, Limits::default()).unwrap();
        plan.chunks_from(Dtype::Bf16).map(|from| from.get() * 2 / 1024)
    };
    assert_eq!(peer(2, 2, auto), Some(527));
    assert_eq!(peer(2, 2, only(AlgorithmName::TwoShotPush)), None);
    assert_eq!(peer(2, 1, auto), None);
    assert_eq!(peer(3, 3, auto), None);

    let shape = |ranks, gpus, elements| {
        let plan = plan(ranks, gpus, auto);
        let decided = plan.decide(&request(Dtype::Bf16, elements, Buffers::Device)).unwrap();
        let (grid, ..) = launched(&decided).unwrap();
        (decided.name(), grid.kernel, grid.blocks, grid.share, grid.threads)
    };
    use AlgorithmName::{OneShotPush, TwoShotPush};
    assert_eq!(shape(2, 1, 1 << 18), (OneShotPush, Kernel::Chunks, 16, 2_048, 480));
    assert_eq!(shape(2, 1, 1 << 19), (OneShotPush, Kernel::Chunks, 16, 4_096, 480));
    assert_eq!(shape(2, 1, 1 << 23), (OneShotPush, Kernel::Chunks, 16, 65_536, 480));
    assert_eq!(shape(8, 1, 1 << 19), (TwoShotPush, Kernel::Chunks, 4, 16_384, 512));
    // A rank that has a link to itself takes more lanes for more.
    assert_eq!(shape(2, 2, 1 << 19), (OneShotPush, Kernel::Chunks, 16, 4_096, 480));
    assert_eq!(shape(2, 2, 1 << 20), (OneShotPush, Kernel::Chunks, 32, 4_096, 480));
    // Blocks must have a warp for each role.
    let bulk = |threads_per_block| {
        let gpu = |rank| RankGpu {
            threads_per_block,
            mig: None,
            bar1: None,
            stand_in: false,
            ..gpu(rank, 132)
        };
        fit(Limits::default(), &[gpu(0), gpu(1)]).bulk(Path::HostStaged)
    };
    assert_eq!(bulk(1024).map(|bulk| bulk.threads), Some(480));
    assert_eq!(bulk(256).map(|bulk| bulk.threads), Some(256));
    assert_eq!(bulk(255), None);
    // The smallest staging has no room for chunks of eight ranks.
    let smallest = Limits::new(Bytes::new(4096), Bytes::new(0)).unwrap();
    let plan = compiled(8, Some(staging(8, 1)), auto, smallest).unwrap();
    assert_eq!(plan.chunks_from(Dtype::Bf16), None);
}

/// A request for so many frames.
fn frames(count: u64) -> Request {
    request(Dtype::F16, count * 6, Buffers::Device)
}

/// Grid, lanes, capacity, and how many exchanges move how many frames, of what was decided for a GPU.
fn launched(decided: &Algorithm) -> Option<(Grid, u32, u32, (u64, u64))> {
    match decided {
        Algorithm::Alone(_) | Algorithm::HeaderOnly(_) | Algorithm::OneShotPull(_) | Algorithm::TwoShotPull(_) => None,
        Algorithm::DeviceAlone(alone) => Some((alone.grid(), alone.lanes(), alone.capacity(), (u64::MAX, 1))),
        Algorithm::DeviceHeaderOnly(header) => Some((header.grid(), header.lanes(), header.capacity(), (1, 1))),
        Algorithm::OneShotPush(push) => {
            let exchanges = (push.exchanges(), push.exchange());
            Some((push.grid(), push.lanes(), push.capacity(), exchanges))
        }
        Algorithm::TwoShotPush(push) => {
            let exchanges = (push.exchanges(), push.exchange());
            Some((push.grid(), push.lanes(), push.capacity(), exchanges))
        }
    }
}

const PUSHES: [AlgorithmChoice; 3] = [
    AlgorithmChoice::Auto,
    AlgorithmChoice::Only(AlgorithmName::OneShotPush),
    AlgorithmChoice::Only(AlgorithmName::TwoShotPush),
];

proptest! {
    #[test]
    fn no_frame_is_lost_and_no_lane_overflows(
        gpus in any_gpus(),
        limits in any_limits(),
        dtype in proptest::sample::select(&Dtype::ALL[..]),
        elements in prop_oneof![0_u64..100_000, 0_u64..1 << 40, any::<u64>()],
        choice in proptest::sample::select(&PUSHES[..]),
    ) {
        let ranks = gpus.ranks.len() as u64;
        let plan = compiled(gpus.ranks.len(), Some(gpus), choice, limits).unwrap();
        let Ok(decided) = plan.decide(&Request {
            elements: Elements::new(elements),
            ..request(dtype, 0, Buffers::Device)
        }) else {
            return Ok(());
        };
        let (grid, lanes, capacity, (exchanges, moved)) = launched(&decided).unwrap();
        let unit = if grid.kernel == Kernel::Chunks { 16 } else { 12 };
        let frames = elements.div_ceil(unit / dtype.size() as u64);
        prop_assert!((1..=lanes).contains(&grid.blocks) && lanes <= 32);
        prop_assert!((32..=768).contains(&grid.threads) && grid.threads % 32 == 0);
        prop_assert!(capacity >= 64 && capacity % 64 == 0);
        prop_assert!(u64::from(lanes) * u64::from(capacity) * 12 <= limits.staging.get());
        // All frames have a lane, and the last lane has some.
        prop_assert!(u128::from(grid.share) * u128::from(grid.blocks) >= u128::from(frames));
        prop_assert!(grid.blocks == 1 || grid.share * u64::from(grid.blocks - 1) < frames);
        prop_assert!(grid.share >= 1 && (grid.blocks == 1 || grid.share >= 32));
        prop_assert!(u64::from(grid.threads) <= (grid.share + 1).next_multiple_of(32));
        let (row, rows) = match grid.kernel {
            Kernel::OneShotPush => (1, u64::from(capacity)),
            Kernel::TwoShotPush => (ranks, u64::from(capacity) / 2),
            // Whole chunks.
            Kernel::Chunks => {
                prop_assert!(!grid.once && grid.pause_ns == 0);
                (512, u64::MAX)
            }
        };
        prop_assert!(grid.share % row == 0);
        prop_assert!(!grid.once || (u64::from(grid.threads) > grid.share / row && grid.share / row <= rows));
        // Lane 0 has a whole share unless it is the only one.
        let first = grid.share.min(frames);
        prop_assert!(u128::from(exchanges) * u128::from(moved) >= u128::from(first));
    }
}
