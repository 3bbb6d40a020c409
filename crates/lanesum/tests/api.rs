//! What a caller of the façade relies on, with ranks as threads. The conformance suite judges the sums;
//! this is about refusals, groups, receipts, counters and ends.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lanesum::{
    AlgorithmName, AllReduce, Buffers, Bytes, Communicator, Dtype, Elements, Error, FaultKind, Issued, Operation, Rank,
    RawCall, Refused, Request, SharedBuffer, bf16,
};

/// Runs `rank` on each of `world` threads with a communicator of its own, and gives the results by rank.
fn ranks<R: Send>(world: usize, rank: impl Fn(Communicator) -> R + Sync) -> Vec<R> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("api-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let join = |index| {
        Communicator::builder(index, world, name.as_str())
            .deadline(Duration::from_secs(60))
            .setup_deadline(Duration::from_secs(20))
            .join()
            .unwrap()
    };
    let (join, rank) = (&join, &rank);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..world).map(|index| scope.spawn(move || rank(join(index)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn sum(communicator: &Communicator, values: &mut [f32]) -> Issued {
    communicator.all_reduce(AllReduce::in_place(values)).unwrap()
}

#[test]
fn receipts_tell_what_ran_and_counters_add_up() {
    ranks(2, |communicator| {
        let mut values = [1.0f32; 100];
        let issued = sum(&communicator, &mut values);
        let Issued::Done(receipt) = &issued else {
            panic!("a host call is done when it returns")
        };
        assert_eq!(
            (receipt.ordinal(), receipt.epoch().unwrap(), receipt.bytes()),
            (0, 1, Bytes::new(400))
        );
        assert_eq!(receipt.algorithm(), AlgorithmName::OneShotPull);
        let request = Request {
            operation: Operation::Sum,
            dtype: Dtype::F32,
            elements: Elements::new(100),
            buffers: Buffers::Private,
            label: None,
        };
        assert!(communicator.explain(&request).to_string().contains("one_shot_pull"));

        let empty = sum(&communicator, &mut []);
        assert_eq!(empty.receipt().unwrap().algorithm(), AlgorithmName::HeaderOnly);
        let barrier = communicator.barrier().unwrap();
        assert_eq!(barrier.receipt().unwrap().ordinal(), 2);

        let counters = communicator.counters();
        assert_eq!((counters.calls, counters.chunks, counters.bytes), (3, 3, 400));
        assert_eq!(counters.waited.len(), 1);
        let by = |name| {
            counters
                .by_algorithm
                .iter()
                .find(|(known, _)| *known == name)
                .unwrap()
                .1
        };
        assert_eq!((by(AlgorithmName::OneShotPull), by(AlgorithmName::HeaderOnly)), (1, 2));
        communicator.close().unwrap();
    });
}

#[test]
fn a_refused_call_leaves_its_output_and_the_communicator_alone() {
    ranks(2, |communicator| {
        let refused = |outcome: Result<Issued, Error>| match outcome {
            Err(Error::Refused(refused)) => refused,
            other => panic!("expected a refusal, got {other:?}"),
        };
        let (input, mut output) = ([1.0f32; 4], [7.0f32; 3]);
        let call = AllReduce::out_of_place(&input, &mut output);
        assert_eq!(
            refused(communicator.all_reduce(call)),
            Refused::Lengths { input: 4, output: 3 }
        );
        let call = AllReduce::out_of_place(&input, &mut output).first(5);
        assert_eq!(
            refused(communicator.all_reduce(call)),
            Refused::TooMany { asked: 5, length: 3 }
        );

        let mut raw = RawCall {
            input: input.as_ptr().cast(),
            output: output.as_mut_ptr().cast(),
            elements: Elements::new(3),
            dtype: Dtype::F32,
            operation: Operation::Sum,
            label: None,
            memory: lanesum::RawMemory::Host,
        };
        let start = output.as_mut_ptr().cast::<u8>();
        raw.input = start.wrapping_add(4);
        // SAFETY: the call is refused before the pointers are used.
        let outcome = unsafe { communicator.all_reduce_raw(&raw) };
        assert_eq!(refused(outcome), Refused::Overlap);
        raw.input = core::ptr::null();
        // SAFETY: as above.
        let outcome = unsafe { communicator.all_reduce_raw(&raw) };
        assert_eq!(refused(outcome), Refused::Null { elements: 3 });
        raw.elements = Elements::new(u64::MAX);
        // SAFETY: as above.
        let outcome = unsafe { communicator.all_reduce_raw(&raw) };
        assert_eq!(refused(outcome), Refused::TooLarge { elements: u64::MAX });
        assert_eq!(output, [7.0; 3]);
        assert!(matches!(
            communicator.set_deadline(Duration::ZERO),
            Err(Error::Refused(Refused::Deadline { ms: 0 }))
        ));

        // Nothing was used up: the next call still matches, also by raw pointers.
        raw.input = input.as_ptr().cast();
        raw.elements = Elements::new(3);
        // SAFETY: input and output are live arrays of at least 3 f32.
        let issued = unsafe { communicator.all_reduce_raw(&raw) }.unwrap();
        assert_eq!(issued.receipt().unwrap().ordinal(), 0);
        assert_eq!(output, [2.0; 3]);
    });
}

#[test]
fn shared_buffers_are_summed_in_place_and_into_others_and_given_back() {
    ranks(3, |communicator| {
        let rank = communicator.rank().index() as f32;
        // Ranks need not allocate alike.
        let _shift: SharedBuffer<f32> = communicator
            .allocate_shared(1 + communicator.rank().index() * 5000)
            .unwrap();
        let mut shared = communicator.allocate_shared::<f32>(1000).unwrap();
        assert!(shared.iter().all(|&value| value == 0.0));
        shared.fill(rank);
        let mut output = [0.0f32; 1000];
        let _receipt = communicator
            .all_reduce(AllReduce::shared_to(&mut shared, &mut output))
            .unwrap();
        assert_eq!((output[0], output[999], shared[0]), (3.0, 3.0, rank));
        let _receipt = communicator
            .all_reduce(AllReduce::shared(&mut shared).first(10))
            .unwrap();
        assert_eq!((shared[9], shared[10]), (3.0, rank));

        let capacity = 4 << 20;
        match communicator.allocate_shared::<f32>(capacity) {
            Err(Error::Refused(refused @ Refused::ArenaFull(_))) => assert!(refused.hint().contains("shared_capacity")),
            other => panic!("expected a full arena, got {other:?}"),
        }
        for _ in 0..10 {
            drop(communicator.allocate_shared::<bf16>(capacity / 4).unwrap());
        }
        let other = communicator.channel().unwrap();
        match other.all_reduce(AllReduce::shared(&mut shared)) {
            Err(Error::Refused(refused)) => assert_eq!(refused, Refused::ForeignBuffer),
            outcome => panic!("expected a refusal, got {outcome:?}"),
        }
        // The buffer outlives its communicator.
        communicator.close().unwrap();
        assert_eq!(shared[9], 3.0);
    });
}

#[test]
fn groups_are_split_by_colour_and_ordered_by_key() {
    let groups = ranks(5, |communicator| {
        let rank = communicator.rank().index();
        // Ranks 0, 2, 4 in reverse order; 1 and 3 as they are, 3 takes no part.
        let (color, key) = match rank {
            3 => (None, 0),
            1 => (Some(9), 0),
            even => (Some(7), 10 - even as u32),
        };
        let group = communicator.split(color, key).unwrap();
        let seen = group.map(|group| {
            let mut values = [rank as f32];
            let _receipt = sum(&group, &mut values);
            (group.rank().index(), group.world().get(), values[0])
        });
        // The parent works on.
        assert_eq!(communicator.barrier().unwrap().receipt().unwrap().ordinal(), 1);
        seen
    });
    assert_eq!(
        groups,
        [
            Some((2, 3, 6.0)),
            Some((0, 1, 1.0)),
            Some((1, 3, 6.0)),
            None,
            Some((0, 3, 6.0))
        ]
    );
}

#[test]
fn channels_overlap_with_their_parent_from_other_threads() {
    ranks(2, |communicator| {
        let channel = communicator.channel().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..1000 {
                    let mut values = [2.0f32; 33];
                    let _receipt = sum(&channel, &mut values);
                    assert_eq!(values, [4.0; 33]);
                }
            });
            for _ in 0..1000 {
                let mut values = [1.0f32; 77];
                let _receipt = sum(&communicator, &mut values);
                assert_eq!(values, [2.0; 77]);
            }
        });
    });
}

#[test]
fn a_rank_that_leaves_is_named_before_the_deadline_and_others_are_poisoned() {
    ranks(3, |communicator| {
        if communicator.rank().index() == 1 {
            return communicator.close().unwrap();
        }
        let (mut values, start) = ([1.0f32; 5], Instant::now());
        match communicator.all_reduce(AllReduce::in_place(&mut values)) {
            Err(Error::Fault(fault)) => {
                assert!(
                    matches!(fault.kind, FaultKind::Departed { rank } if rank.index() == 1),
                    "{fault}"
                );
                assert!(!fault.hint().is_empty());
            }
            other => panic!("expected a fault, got {other:?}"),
        }
        assert!(start.elapsed() < Duration::from_secs(10));
        assert!(values.iter().all(|value| value.to_bits() == 0x7fc0_0000));
        let mut later = [bf16::ONE; 5];
        let outcome = communicator.all_reduce(AllReduce::in_place(&mut later));
        assert!(
            matches!(&outcome, Err(Error::Poisoned { first }) if first.ranks()[0].index() == 1),
            "{outcome:?}"
        );
        assert!(later.iter().all(|value| value.to_bits() == 0x7fc0));
        assert!(communicator.barrier().is_err());
        assert!(matches!(communicator.close(), Err(Error::Poisoned { .. })));
    });
}

#[test]
fn a_late_rank_is_named_at_the_deadline_and_learns_that_it_was_late() {
    const DEADLINE: Duration = Duration::from_millis(500);
    let given_up = AtomicUsize::new(0);
    ranks(3, |communicator| {
        communicator.set_deadline(DEADLINE).unwrap();
        let late = communicator.rank().index() == 2;
        let patience = Instant::now() + Duration::from_secs(20);
        while late && given_up.load(Ordering::Relaxed) < 2 {
            assert!(Instant::now() < patience, "the others wait on");
            std::thread::sleep(Duration::from_millis(5));
        }
        let (mut values, start) = ([1.0f32; 3000], Instant::now());
        let outcome = communicator.all_reduce(AllReduce::in_place(&mut values));
        match outcome {
            Err(Error::Fault(fault)) => {
                assert!(
                    matches!(&fault.kind, FaultKind::Late { ranks, .. } if ranks.iter().all(|rank| rank.index() == 2))
                );
                assert!(fault.noticed_by.index() < 2);
                // The other one may be told of it before its own time is over.
                let own = fault.noticed_by == communicator.rank();
                assert!(!own || start.elapsed() >= DEADLINE, "{:?}", start.elapsed());
            }
            // The others' headers and inputs are there: the late rank may finish its own sum.
            Ok(_) if late => {}
            other => panic!("expected a fault, got {other:?}"),
        }
        given_up.fetch_add(1, Ordering::Relaxed);
    });
}

#[test]
fn a_world_of_one_is_a_decision_of_its_own() {
    let communicator = Communicator::builder(0, 1, "").join().unwrap();
    let mut values = [f32::from_bits(0xffa0_0001), -0.0, 1.5];
    let issued = sum(&communicator, &mut values);
    assert_eq!(issued.receipt().unwrap().algorithm(), AlgorithmName::Alone);
    assert_eq!(values.map(f32::to_bits), [0x7fc0_0000, 0x8000_0000, 1.5f32.to_bits()]);
    let mut shared = communicator.allocate_shared::<f32>(3).unwrap();
    shared[1] = 2.0;
    let _receipt = communicator.all_reduce(AllReduce::shared(&mut shared)).unwrap();
    assert_eq!(*shared, [0.0, 2.0, 0.0]);
    let _receipt = communicator.barrier().unwrap();
    assert!(communicator.split(None, 0).unwrap().is_none());
    assert_eq!(communicator.channel().unwrap().world().get(), 1);
}

#[test]
fn raw_calls_take_odd_addresses() {
    ranks(2, |communicator| {
        const ELEMENTS: usize = 1003;
        let bits = |value: f32| bf16::from_f32(value).to_bits().to_le_bytes();
        let mut bytes = vec![0u8; 1 + 2 * ELEMENTS + 1];
        for pair in bytes[1..=2 * ELEMENTS].chunks_exact_mut(2) {
            pair.copy_from_slice(&bits(1.5));
        }
        let start = bytes.as_mut_ptr().wrapping_add(1);
        let raw = RawCall {
            input: start.cast_const(),
            output: start,
            elements: Elements::new(ELEMENTS as u64),
            dtype: Dtype::Bf16,
            operation: Operation::Sum,
            label: None,
            memory: lanesum::RawMemory::Host,
        };
        // SAFETY: the elements lie inside `bytes`, which nobody else touches.
        let outcome = unsafe { communicator.all_reduce_raw(&raw) };
        assert_eq!(
            outcome.unwrap().receipt().unwrap().bytes(),
            Bytes::new(2 * ELEMENTS as u64)
        );
        assert!(bytes[1..=2 * ELEMENTS].chunks_exact(2).all(|pair| pair == bits(3.0)));
        assert_eq!((bytes[0], bytes[2 * ELEMENTS + 1]), (0, 0));
    });
}

#[test]
fn a_rank_that_panics_is_named_as_such_at_once() {
    ranks(2, |communicator| {
        if communicator.rank().index() == 1 {
            let panicked = std::thread::spawn(move || {
                let _held = communicator;
                panic!("on purpose");
            });
            assert!(panicked.join().is_err());
            return;
        }
        match communicator.barrier() {
            Err(Error::Fault(fault)) => {
                assert!(
                    matches!(fault.kind, FaultKind::Panicked { rank } if rank.index() == 1),
                    "{fault}"
                );
            }
            other => panic!("expected a fault, got {other:?}"),
        }
    });
}

#[test]
fn a_join_that_nobody_wants_any_more_ends_and_tells_the_others() {
    let builder = |rank| {
        let name = format!("unwanted-{}", std::process::id());
        Communicator::builder(rank, 3, name).deadline(Duration::from_secs(60))
    };
    let (kept, dropped) = (Arc::new(()), Arc::new(()));
    let joins = [builder(0).wanted_by(&kept), builder(1).wanted_by(&dropped)];
    let started = Instant::now();
    std::thread::scope(|scope| {
        let threads = joins.map(|builder| scope.spawn(move || builder.join().unwrap_err()));
        std::thread::sleep(Duration::from_millis(300));
        drop(dropped);
        for thread in threads {
            let error = thread.join().unwrap();
            let named: Vec<usize> = error.failed_ranks().into_iter().map(Rank::index).collect();
            assert_eq!(named, [1], "{error}");
            assert!(error.to_string().contains("rank 1 gave up waiting"), "{error}");
        }
    });
    assert!(started.elapsed() < Duration::from_secs(20));
}
