//! Words can't leave their ranges, and each closed set is one list.

use std::str::FromStr;

use lanesum_plan::{
    AlgorithmChoice, AlgorithmName, Buffers, Bytes, Dtype, Elements, Engine, Limits, Operation, Path, PathChoice,
    PcieLink, PlanError, Rank, WORLD_MAX, WorldSize,
};

#[test]
fn ranks_and_worlds_have_bounds() {
    assert_eq!(Rank::new(15).unwrap().index(), 15);
    assert_eq!(Rank::new(16), Err(PlanError::RankOutOfRange { index: 16 }));
    assert_eq!(WorldSize::new(0), Err(PlanError::WorldOutOfRange { ranks: 0 }));
    assert_eq!(
        WorldSize::new(usize::MAX),
        Err(PlanError::WorldOutOfRange { ranks: usize::MAX })
    );
    for ranks in 1..=WORLD_MAX {
        let world = WorldSize::new(ranks).unwrap();
        assert_eq!(world.get(), ranks);
        assert_eq!(
            world.ranks().map(Rank::index).collect::<Vec<_>>(),
            (0..ranks).collect::<Vec<_>>()
        );
        assert!(world.rank(ranks - 1).is_ok());
        assert_eq!(
            world.rank(ranks),
            Err(PlanError::RankOutsideWorld {
                index: ranks,
                world: ranks
            })
        );
    }
}

#[test]
fn json_is_checked_like_anything_else() {
    assert_eq!(serde_json::to_string(&Rank::new(3).unwrap()).unwrap(), "3");
    assert!(serde_json::from_str::<Rank>("15").is_ok());
    assert!(serde_json::from_str::<Rank>("16").is_err());
    assert!(serde_json::from_str::<Rank>("-1").is_err());
    assert!(serde_json::from_str::<WorldSize>("0").is_err());
    assert!(serde_json::from_str::<WorldSize>("17").is_err());
    assert_eq!(serde_json::to_string(&Dtype::Bf16).unwrap(), "\"bf16\"");
    assert!(serde_json::from_str::<Dtype>("\"f64\"").is_err());
    assert_eq!(serde_json::to_string(&Elements::new(7)).unwrap(), "7");
}

#[test]
fn sizes_are_written_for_people() {
    for (bytes, text) in [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1024, "1 KiB"),
        (43_008, "42 KiB"),
        (43_009, "43,009 B"),
        (1 << 20, "1 MiB"),
        (1_234_567, "1,234,567 B"),
        (3 << 30, "3 GiB"),
        (u64::MAX, "18,446,744,073,709,551,615 B"),
    ] {
        assert_eq!(Bytes::new(bytes).to_string(), text);
    }
    assert_eq!(Elements::new(21_504).to_string(), "21,504");
    assert_eq!(
        format!("{:>8}|{:<6}|", Bytes::new(1024), Dtype::F16),
        "   1 KiB|f16   |"
    );
}

fn round_trip<T>(all: &[T], name: fn(T) -> &'static str)
where
    T: Copy + PartialEq + std::fmt::Debug + std::fmt::Display + FromStr<Err = PlanError>,
{
    for word in all {
        assert_eq!(word.to_string(), name(*word));
        assert_eq!(name(*word).parse::<T>().as_ref(), Ok(word));
    }
    for hostile in ["", " ", "F32", "sum ", "\0", "one-shot-pull", "\u{202e}"] {
        let error = hostile.parse::<T>().unwrap_err();
        assert!(error.hint().unwrap().contains(name(all[0])), "{error}");
    }
}

#[test]
fn closed_sets_round_trip_through_their_names() {
    round_trip(&Dtype::ALL, Dtype::name);
    round_trip(&Operation::ALL, Operation::name);
    round_trip(&Buffers::ALL, Buffers::name);
    round_trip(&AlgorithmName::ALL, AlgorithmName::as_str);
    round_trip(&Path::ALL, Path::name);
    round_trip(&PathChoice::ALL, PathChoice::name);
    round_trip(&Engine::ALL, Engine::name);
}

#[test]
fn a_choice_is_auto_or_an_algorithm() {
    assert_eq!("auto".parse(), Ok(AlgorithmChoice::Auto));
    assert_eq!(
        "two_shot_pull".parse(),
        Ok(AlgorithmChoice::Only(AlgorithmName::TwoShotPull))
    );
    assert_eq!(
        AlgorithmChoice::Only(AlgorithmName::OneShotPull).to_string(),
        "one_shot_pull"
    );
    let error = "fastest".parse::<AlgorithmChoice>().unwrap_err();
    assert_eq!(error.to_string(), "there is no algorithm named \"fastest\"");
    assert_eq!(
        error.hint().unwrap(),
        "one of: auto, alone, header_only, one_shot_pull, two_shot_pull, one_shot_push, two_shot_push"
    );
    assert_eq!(serde_json::to_string(&AlgorithmChoice::Auto).unwrap(), "\"auto\"");
}

#[test]
fn limits_are_whole_pages_within_bounds() {
    let limits = |staging, shared| Limits::new(Bytes::new(staging), Bytes::new(shared));
    assert!(limits(4096, 0).is_ok());
    assert!(limits(64 << 20, 64 << 30).is_ok());
    for staging in [0, 1, 4095, 4097, (64 << 20) + 4096, u64::MAX] {
        assert_eq!(
            limits(staging, 0),
            Err(PlanError::Staging {
                staging: Bytes::new(staging)
            })
        );
    }
    for shared in [1, 4095, (64 << 30) + 4096, u64::MAX] {
        let error = limits(4096, shared).unwrap_err();
        assert_eq!(
            error,
            PlanError::Shared {
                shared: Bytes::new(shared)
            }
        );
        assert!(error.hint().unwrap().contains("4 KiB"));
    }
    let Limits { staging, shared } = Limits::default();
    assert!(8 * (2 * staging.get() + shared.get()) <= 64 << 20);
}

#[test]
fn links_are_read_as_they_are_written() {
    for generation in 1..=7 {
        for width in [1, 2, 4, 8, 16] {
            let link = PcieLink { generation, width };
            assert_eq!(link.to_string().parse(), Ok(link));
            assert_eq!(format!("gen{generation}x{width}").parse(), Ok(link));
        }
    }
    for wrong in [
        "",
        "gen5",
        "5x16",
        "gen0x16",
        "gen8x16",
        "gen5x3",
        "gen5x32",
        "gen+5x16",
        "gen5  x16",
        "gen5x16 ",
    ] {
        let error = wrong.parse::<PcieLink>().unwrap_err();
        assert_eq!(error, PlanError::PcieLink { text: wrong.to_owned() });
        assert!(error.hint().unwrap().contains("gen5x16"));
    }
}
