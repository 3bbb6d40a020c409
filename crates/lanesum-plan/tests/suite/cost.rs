//! The cost model is sane: more bytes, more ranks and fewer cores never take less time.

use lanesum_plan::{AlgorithmChoice, AlgorithmName, Buffers, Bytes, CostModel, Link, Policy, Ways};
use proptest::prelude::*;

use crate::world;

const CHUNK: Bytes = Bytes::new(1 << 20);

fn predict(ranks: usize, cores: Option<usize>, name: AlgorithmName, buffers: Buffers, bytes: u64) -> f64 {
    CostModel::new(world(ranks), cores)
        .predict_us(name, buffers, Bytes::new(bytes), CHUNK)
        .unwrap()
}

#[test]
fn the_known_case_is_within_a_factor_of_two() {
    // Two near cores take 2.5 us for 42 KiB of f32 in one shot, and 2.4 in two.
    for (name, measured) in [(AlgorithmName::OneShotPull, 2.5), (AlgorithmName::TwoShotPull, 2.4)] {
        let private = predict(2, Some(2), name, Buffers::Private, 43_008);
        assert!((measured / 2.0..measured * 2.0).contains(&private), "{private}");
        // Shared buffers take the same way.
        assert!(private == predict(2, Some(2), name, Buffers::Shared, 43_008));
    }
}

/// One shot in place spares W - 1 copies of 10 ps a byte, and costs a buffer taken back at 22 ps and a wait.
#[test]
fn nothing_is_read_in_place_unless_one_shot_is_pinned() {
    let pinned = Policy {
        algorithm: AlgorithmChoice::Only(AlgorithmName::OneShotPull),
        ..Policy::default()
    };
    for (ranks, exponent) in (2..=16_usize).flat_map(|ranks| (6..27).map(move |exponent| (ranks, exponent))) {
        let bytes = 1_u64 << exponent;
        let of = |policy, name, buffers| {
            let model = CostModel::new(world(ranks), Some(ranks)).under(policy);
            model
                .predict_us(name, buffers, Bytes::new(bytes), Bytes::new(bytes))
                .unwrap()
        };
        let one = |policy, buffers| of(policy, AlgorithmName::OneShotPull, buffers);
        let two = of(Policy::default(), AlgorithmName::TwoShotPull, Buffers::Shared);
        let in_place = one(pinned, Buffers::Shared);
        let posted = one(Policy::default(), Buffers::Shared);
        assert!(posted == one(pinned, Buffers::Private) && posted == one(Policy::default(), Buffers::Private));
        let peers = ranks as f64 - 1.0;
        let expected = bytes as f64 * (1.0 / 45_000.0 - peers / 100_000.0) + 0.065 + 0.020 * (peers - 1.0);
        assert!(
            (in_place - posted - expected).abs() < 1e-6 * in_place,
            "{ranks}, {bytes}"
        );
        assert!(
            posted.min(two) < in_place,
            "{ranks}, {bytes}: {posted}, {two}, {in_place}"
        );
    }
}

#[test]
fn shared_cores_cost_time() {
    for name in [
        AlgorithmName::HeaderOnly,
        AlgorithmName::OneShotPull,
        AlgorithmName::TwoShotPull,
    ] {
        let with = |cores| predict(8, cores, name, Buffers::Private, 43_008);
        assert!(with(Some(1)) > with(Some(2)) && with(Some(2)) > with(Some(8)));
        assert!(with(Some(8)) == with(Some(100)) && with(Some(8)) == with(None));
        assert!(with(Some(0)).is_finite());
    }
}

/// Whether the engine of such buffers has the algorithm.
fn exists(name: AlgorithmName, buffers: Buffers) -> bool {
    name.engine().is_none_or(|engine| engine == buffers.engine())
}

#[test]
fn an_algorithm_of_another_engine_has_no_cost() {
    for (name, buffers) in AlgorithmName::ALL
        .into_iter()
        .flat_map(|name| Buffers::ALL.map(|buffers| (name, buffers)))
    {
        let predicted = CostModel::new(world(4), None).predict_us(name, buffers, Bytes::new(8), CHUNK);
        assert_eq!(predicted.is_some(), exists(name, buffers), "{name}, {buffers}");
    }
}

#[test]
fn one_shot_costs_a_launch_a_hop_and_four_thirds_of_its_bytes_to_every_peer() {
    let push = |ranks, bytes| predict(ranks, None, AlgorithmName::OneShotPush, Buffers::Device, bytes);
    assert!((push(2, 0) - 3.0).abs() < 1e-9);
    // 42 KiB to seven peers: 401,408 bytes at 25 GB/s are 16.1 us, adding is next to nothing.
    assert!((19.0..19.6).contains(&push(8, 43_008)), "{}", push(8, 43_008));
    // One more exchange waits once more.
    let chunk = CHUNK.get();
    let per_byte = (push(2, chunk) - push(2, 0)) / chunk as f64;
    assert!((push(2, 2 * chunk) - push(2, chunk) - 1.0 - per_byte * chunk as f64).abs() < 1e-6);
}

#[test]
fn two_shots_cost_another_hop_and_carry_each_byte_twice() {
    let push = |ranks, bytes| predict(ranks, None, AlgorithmName::TwoShotPush, Buffers::Device, bytes);
    assert!((push(2, 0) - 4.0).abs() < 1e-9);
    // 42 KiB in eight shards: 7/8 of it out and 7/8 of sums, 100,352 bytes at 25 GB/s are 4.0 us.
    assert!((8.0..8.3).contains(&push(8, 43_008)), "{}", push(8, 43_008));
    // Between two ranks it is one shot with a hop more.
    let one = predict(2, None, AlgorithmName::OneShotPush, Buffers::Device, 43_008);
    assert!((push(2, 43_008) - one - 1.0).abs() < 1e-9);
}

#[test]
fn on_one_gpu_hops_are_shorter_and_bytes_nearly_free() {
    let model = CostModel::new(world(4), None);
    for name in [AlgorithmName::OneShotPush, AlgorithmName::TwoShotPush] {
        let over = |link, bytes| {
            let predicted = model
                .over(link)
                .predict_us(name, Buffers::Device, Bytes::new(bytes), CHUNK);
            predicted.unwrap()
        };
        assert!(over(Link::OneGpu, 0) < over(Link::Pcie(Ways::assumed(world(4))), 0));
        let per_mib = |link| over(link, 1 << 20) - over(link, 0);
        assert!(per_mib(Link::OneGpu) * 5.0 < per_mib(Link::Pcie(Ways::assumed(world(4)))));
    }
}

/// As measured on an H200 (benches/records/gpu-crossings-*-h200.json), in bytes a rank.
#[test]
fn two_shots_begin_where_they_are_faster_on_one_gpu() {
    let saved_us = |ranks, bytes| {
        let model = CostModel::new(world(ranks), None).over(Link::OneGpu);
        let us = |name| {
            model
                .predict_us(name, Buffers::Device, Bytes::new(bytes), CHUNK)
                .unwrap()
        };
        us(AlgorithmName::OneShotPush) - us(AlgorithmName::TwoShotPush)
    };
    for (ranks, before, after) in [(4, 128 << 10, 160 << 10), (8, 80 << 10, 96 << 10)] {
        assert!(saved_us(ranks, before) < 0.0, "{ranks} ranks");
        assert!(saved_us(ranks, after) > 0.0, "{ranks} ranks");
    }
}

proptest! {
    #[test]
    fn more_is_never_faster(
        ranks in 1..=15_usize,
        cores in proptest::option::of(1..32_usize),
        name in proptest::sample::select(&AlgorithmName::ALL[..]),
        buffers in proptest::sample::select(&Buffers::ALL[..]),
        bytes in prop_oneof![0..100_000_u64, any::<u64>()],
        more in 0..100_000_u64,
    ) {
        prop_assume!(exists(name, buffers));
        let base = predict(ranks, cores, name, buffers, bytes);
        prop_assert!(base.is_finite() && base >= 0.0);
        prop_assert!(predict(ranks, cores, name, buffers, bytes.saturating_add(more)) >= base);
        prop_assert!(predict(ranks + 1, cores, name, buffers, bytes) >= base * 0.999_999);
    }
}
