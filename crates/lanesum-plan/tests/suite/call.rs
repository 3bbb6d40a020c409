//! Descriptors survive hostile peers, and digests tell calls apart.

use std::collections::HashMap;

use lanesum_plan::{
    AlgorithmName, Announced, Buffers, CALL_WORDS, Call, CallIdentity, Dtype, Elements, Label, Operation, Request,
};
use proptest::prelude::*;

use crate::{any_request, request};

fn any_call() -> impl Strategy<Value = Call> {
    let ordinal = prop_oneof![0_u64..1000, any::<u64>()];
    let label = proptest::option::of(any::<u64>().prop_map(Label::new));
    prop_oneof![
        (
            any_request(),
            proptest::sample::select(&AlgorithmName::ALL[..]),
            ordinal.clone()
        )
            .prop_map(|(request, algorithm, ordinal)| Call::AllReduce {
                request,
                algorithm,
                identity: CallIdentity::from_word(ordinal)
            }),
        (label, ordinal.clone()).prop_map(|(label, ordinal)| Call::Barrier { label, ordinal }),
        ordinal.clone().prop_map(|ordinal| Call::Channel { ordinal }),
        (any::<u64>(), any::<u64>(), ordinal).prop_map(|(color, key, ordinal)| Call::Split { color, key, ordinal }),
    ]
}

fn sum(elements: u64, label: Option<u64>, ordinal: u64) -> Call {
    let request = Request {
        label: label.map(Label::new),
        ..request(Dtype::Bf16, elements, Buffers::Private)
    };
    Call::AllReduce {
        request,
        algorithm: AlgorithmName::OneShotPull,
        identity: CallIdentity::from_word(ordinal),
    }
}

/// Every combination of the words of an all-reduce, with and without a label.
fn all_codes(elements: u64) -> Vec<Call> {
    let mut calls = Vec::new();
    for operation in Operation::ALL {
        for dtype in Dtype::ALL {
            for buffers in Buffers::ALL {
                for label in [None, Some(Label::new(0))] {
                    for algorithm in AlgorithmName::ALL {
                        let request = Request {
                            operation,
                            dtype,
                            elements: Elements::new(elements),
                            buffers,
                            label,
                        };
                        calls.push(Call::AllReduce {
                            request,
                            algorithm,
                            identity: CallIdentity::Eager { ordinal: 0 },
                        });
                    }
                }
            }
        }
    }
    calls
}

fn collisions(calls: impl IntoIterator<Item = Call>) -> usize {
    let mut seen: HashMap<u32, usize> = HashMap::new();
    for call in calls {
        *seen.entry(call.digest()).or_default() += 1;
    }
    seen.values().map(|count| count - 1).sum()
}

proptest! {
    #[test]
    fn words_round_trip(call in any_call()) {
        prop_assert_eq!(Call::from_words(call.to_words()), Some(call));
    }

    #[test]
    fn hostile_words_are_refused_or_mean_one_call(words in any::<[u64; CALL_WORDS]>(), code in 0_u64..1 << 14) {
        for words in [words, [code, words[1], words[2], words[3]], [code, 0, 0, words[3]]] {
            if let Some(call) = Call::from_words(words) {
                prop_assert_eq!(call.to_words(), words);
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_another_call_or_none(call in any_call(), word in 0..CALL_WORDS, bit in 0..64) {
        let mut words = call.to_words();
        words[word] ^= 1_u64 << bit;
        prop_assert_ne!(Call::from_words(words), Some(call));
    }

    #[test]
    fn a_change_of_one_field_changes_the_digest(call in any_call(), word in 0..CALL_WORDS, bit in 0..64) {
        let mut words = call.to_words();
        words[word] ^= 1_u64 << bit;
        if let Some(other) = Call::from_words(words) {
            let agrees = matches!(call, Call::Split { .. }) && (word == 1 || word == 2);
            prop_assert_eq!(other.digest() == call.digest(), agrees);
        }
    }

    #[test]
    fn json_round_trips(call in any_call()) {
        let text = serde_json::to_string(&call).unwrap();
        prop_assert_eq!(serde_json::from_str::<Call>(&text).unwrap(), call);
    }
}

#[test]
fn every_code_word_is_a_call_or_refused() {
    let known = (0..1 << 16)
        .filter(|code| Call::from_words([*code, 0, 0, 0]).is_some())
        .count();
    assert_eq!(known, 3 * 3 * 3 * 2 * 6 + 2 + 1 + 1);
    assert_eq!(Call::from_words([u64::MAX; 4]), None);
    assert_eq!(Call::from_words([0; 4]), None);
}

#[test]
fn one_field_alone_never_collides() {
    assert_eq!(collisions((0..100_000).map(|elements| sum(elements, None, 5))), 0);
    assert_eq!(
        collisions(
            (0..100_000)
                .map(|label| sum(21_504, Some(label), 5))
                .chain([sum(21_504, None, 5)])
        ),
        0
    );
    for start in [0, (1 << 32) - 50_000, u64::MAX - 100_000] {
        assert_eq!(
            collisions((start..start + 100_000).map(|ordinal| sum(21_504, None, ordinal))),
            0
        );
        assert_eq!(
            collisions((start..start + 100_000).map(|ordinal| Call::Barrier { label: None, ordinal })),
            0
        );
    }
}

#[test]
fn an_identity_is_a_word_and_back() {
    let captured = |capture, position| CallIdentity::Captured { capture, position };
    for (identity, word) in [
        (CallIdentity::Eager { ordinal: 0 }, 0),
        (CallIdentity::Eager { ordinal: u64::MAX >> 1 }, u64::MAX >> 1),
        (captured(0, 0), 1 << 63),
        (captured(2, 5), 1 << 63 | 2 << 32 | 5),
        (captured(u32::MAX >> 1, u32::MAX), u64::MAX),
    ] {
        assert_eq!(identity.to_word(), word);
        assert_eq!(CallIdentity::from_word(word), identity);
    }
    // Numbers too large for their bits stay of their kind.
    assert_eq!(CallIdentity::Eager { ordinal: u64::MAX }.to_word(), u64::MAX >> 1);
    assert_eq!(captured(1 << 31, 7).to_word(), captured(0, 7).to_word());
    assert_eq!(sum(1, None, 1 << 63 | 9).identity(), captured(0, 9));
    let barrier = Call::Barrier {
        label: None,
        ordinal: 4,
    };
    assert_eq!(barrier.identity(), CallIdentity::Eager { ordinal: 4 });
}

#[test]
fn captured_calls_never_pass_for_others() {
    let word = |capture, position| CallIdentity::Captured { capture, position }.to_word();
    let captured = (0..300).flat_map(|capture| (0..300).map(move |position| word(capture, position)));
    let words = captured.chain(0..10_000).map(|word| sum(21_504, None, word));
    assert_eq!(collisions(words), 0);
    // The guarantee for all positions and ordinals at once: where a capture's digests start is far from any other start.
    let start = |word| sum(0, None, word).digest().wrapping_sub(sum(0, None, 0).digest());
    let mut starts: Vec<u32> = (0..1000).map(|capture| start(word(capture, 0))).chain([0]).collect();
    starts.sort_unstable();
    let around = starts.iter().zip(starts.iter().cycle().skip(1));
    assert!(
        around
            .map(|(one, next)| next.wrapping_sub(*one))
            .all(|apart| apart >= 1_000_000)
    );
    // Announced without a `Call` it is the same.
    let identity = CallIdentity::Captured {
        capture: 3,
        position: 1,
    };
    let request = request(Dtype::Bf16, 7, Buffers::Device);
    let algorithm = AlgorithmName::TwoShotPush;
    let call = Call::AllReduce {
        request,
        algorithm,
        identity,
    };
    let announced = Announced::all_reduce(&request, algorithm, identity);
    assert_eq!(
        (announced.digest(), announced.words()),
        (call.digest(), call.to_words())
    );
}

#[test]
fn labels_and_ordinals_together_never_collide() {
    let near = |base: u64| (base..base + 1000).flat_map(|label| (0..100).map(move |step| (label, step * 10_000)));
    for base in [0, 123_456_789, u64::MAX - 2000] {
        assert_eq!(
            collisions(near(base).map(|(label, ordinal)| sum(7, Some(label), ordinal))),
            0
        );
    }
    assert_eq!(collisions((0..100_000).map(|call| sum(21_504, Some(call), call))), 0);
}

#[test]
fn codes_and_counts_together_never_collide() {
    assert_eq!(collisions((0..1000).flat_map(all_codes)), 0);
    assert_eq!(collisions((0..24).flat_map(|shift| all_codes(1 << shift))), 0);
    // The guarantee for all counts at once: counts that are less than a million apart can't make up for a code.
    let golden = 0x9E37_79B1_u32;
    let codes: Vec<u32> = all_codes(0).iter().map(|call| call.to_words()[0] as u32).collect();
    for (one, other) in codes.iter().flat_map(|one| codes.iter().map(move |other| (one, other))) {
        let apart = one.wrapping_sub(*other).wrapping_mul(golden);
        assert!(one == other || apart.min(apart.wrapping_neg()) >= 1_000_000);
    }
    let headers = [
        Call::Barrier {
            label: None,
            ordinal: 0,
        },
        Call::Split {
            color: 1,
            key: 2,
            ordinal: 0,
        },
        Call::Channel { ordinal: 0 },
    ];
    assert_eq!(collisions((0..1000).flat_map(all_codes).chain(headers)), 0);
}

#[test]
fn counts_labels_and_ordinals_together_collide_no_more_than_chance() {
    // 2 x 46^3 = 194,672 calls; chance collides about n^2 / 2^33 = 4.4 of them.
    let grid = (0..46_u64).flat_map(|elements| (0..46).map(move |label| (elements, label)));
    let calls = grid.flat_map(|(elements, label)| {
        (0..46).flat_map(move |ordinal| {
            [
                sum(elements * 512, Some(label), ordinal),
                sum(elements * 512 + 1, Some(label << 20), ordinal),
            ]
        })
    });
    assert!(collisions(calls) <= 20);
    // 100,000 calls along a diagonal; chance collides about 1.2 of them.
    assert!(collisions((0..100_000).map(|elements| sum(elements, Some(elements), 5))) <= 8);
    assert!(collisions((0..100_000).map(|elements| sum(elements, None, elements))) <= 8);
}

#[test]
fn people_can_read_a_call() {
    assert_eq!(
        sum(21_504, Some(7), 12).to_string(),
        "all_reduce of 21,504 bf16 by sum (label 7), call 12, one_shot_pull, private buffers"
    );
    assert_eq!(
        sum(0, None, 0).to_string(),
        "all_reduce of 0 bf16 by sum, call 0, one_shot_pull, private buffers"
    );
    assert_eq!(
        sum(6, None, 1 << 63 | 2 << 32 | 5).to_string(),
        "all_reduce of 6 bf16 by sum, capture 2, position 5, one_shot_pull, private buffers"
    );
    assert_eq!(
        Call::Barrier {
            label: Some(Label::new(1)),
            ordinal: 2
        }
        .to_string(),
        "barrier (label 1), call 2"
    );
    assert_eq!(
        Call::Split {
            color: 1,
            key: 0,
            ordinal: 9
        }
        .to_string(),
        "split (color 1, key 0), call 9"
    );
    assert_eq!(Call::Channel { ordinal: 3 }.to_string(), "channel, call 3");
}
