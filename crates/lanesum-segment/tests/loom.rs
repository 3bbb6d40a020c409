//! The protocol under loom: every interleaving (within a bound of forced switches) and every reordering
//! that the memory model allows, over several epochs. `RUSTFLAGS="--cfg loom" cargo test -p
//! lanesum-segment --test loom --release`. `docs/memory-model.md` says which claim each test pins.
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "loom/exchange.rs"]
mod exchange;

use exchange::{ALL, DROWSY, Rank, SPIN, WARY, model, record};
use lanesum_segment::Trouble;
use loom::sync::atomic::Ordering;

/// The low half of the epoch, and all of it, wrap after two epochs.
const U32_WRAP: u64 = u32::MAX as u64 - 1;
const U64_WRAP: u64 = u64::MAX - 1;

#[test]
fn one_shots_reuse_mailboxes() {
    fn rank(rank: &mut Rank) {
        for _ in 0..4 {
            rank.one_shot();
        }
    }
    model(U32_WRAP, 3, SPIN, &[rank, rank]);
}

#[test]
fn all_interleavings_of_a_barrier_and_a_one_shot() {
    fn rank(rank: &mut Rank) {
        rank.header_only();
        rank.one_shot();
    }
    model(U64_WRAP, ALL, SPIN, &[rank, rank]);
}

#[test]
fn two_shots_reuse_mailboxes() {
    fn rank(rank: &mut Rank) {
        for _ in 0..4 {
            rank.two_shot();
        }
    }
    model(U64_WRAP, 2, SPIN, &[rank, rank]);
}

#[test]
fn shared_one_shots_give_buffers_back() {
    fn rank(rank: &mut Rank) {
        for _ in 0..3 {
            rank.shared_one_shot();
        }
    }
    model(U64_WRAP, 2, SPIN, &[rank, rank]);
}

#[test]
fn algorithms_mix() {
    fn rank(rank: &mut Rank) {
        rank.one_shot();
        rank.two_shot();
        rank.short_one_shot();
        rank.header_only();
        rank.one_shot();
        rank.two_shot();
    }
    model(U32_WRAP, 2, SPIN, &[rank, rank]);
}

#[test]
fn private_and_shared_buffers_mix() {
    fn rank(rank: &mut Rank) {
        rank.shared_one_shot();
        rank.two_shot();
        rank.shared_one_shot();
        rank.one_shot();
        rank.header_only();
    }
    model(U64_WRAP, 2, SPIN, &[rank, rank]);
}

#[test]
fn flags_never_come_round() {
    fn rank(rank: &mut Rank) {
        rank.two_shot();
        rank.shared_one_shot();
        rank.header_only();
        rank.header_only();
        rank.two_shot();
        rank.shared_one_shot();
    }
    model(U64_WRAP, 1, SPIN, &[rank, rank]);
}

#[test]
fn a_line_holds_this_epoch_or_the_one_two_before() {
    fn posts(rank: &mut Rank) {
        for _ in 0..4 {
            rank.numbered_header();
        }
    }
    fn looks(rank: &mut Rank) {
        for _ in 0..3 {
            rank.numbered_header();
        }
        rank.look_ahead();
        rank.numbered_header();
    }
    model(U32_WRAP, 1, SPIN, &[posts, looks]);
}

#[test]
fn formatted_lines_are_not_believed() {
    fn rank(rank: &mut Rank) {
        rank.two_shot();
        rank.shared_one_shot();
    }
    model(0, 2, SPIN, &[rank, rank]);
}

#[test]
fn three_ranks_wait_for_each_other() {
    fn rank(rank: &mut Rank) {
        rank.two_shot();
        rank.one_shot();
    }
    model(U32_WRAP, 0, SPIN, &[rank, rank, rank]);
}

#[test]
fn three_ranks_reuse_mailboxes() {
    fn rank(rank: &mut Rank) {
        for _ in 0..3 {
            rank.one_shot();
        }
    }
    model(U32_WRAP, 0, SPIN, &[rank, rank, rank]);
}

#[test]
fn sleepers_wake() {
    fn rank(rank: &mut Rank) {
        rank.two_shot();
        rank.one_shot();
    }
    model(U32_WRAP, 1, DROWSY, &[rank, rank]);
}

/// Both sides see the mismatch itself, with both calls, even if the other side has already failed by it.
#[test]
fn mismatches_name_both_calls() {
    fn rank(rank: &mut Rank) {
        let ours = 2 + rank.index as u32;
        let peer = 1 - rank.index;
        rank.header_only();
        rank.announce(ours, 0);
        assert_eq!(rank.headers(ours), Err(Trouble::Mismatch { peer }));
        let theirs = rank.member.announcement(peer, rank.epoch);
        let digest = 2 + peer as u32;
        assert_eq!(theirs.digest, digest);
        assert_eq!(theirs.descriptor, [rank.epoch.get(), peer as u64, digest.into(), 7]);
        rank.member.fail(&record());
    }
    model(U32_WRAP, 2, WARY, &[rank, rank]);
}

#[test]
fn departed_peers_have_kept_their_word() {
    fn leaves(rank: &mut Rank) {
        rank.two_shot();
        rank.member.depart();
    }
    fn stays(rank: &mut Rank) {
        rank.two_shot();
        assert_eq!(rank.try_header_only(), Err(Trouble::Departed { peer: 0 }));
    }
    model(U32_WRAP, 3, WARY, &[leaves, stays]);
}

#[test]
fn records_are_read_whole() {
    fn fails(rank: &mut Rank) {
        rank.two_shot();
        rank.member.fail(&record());
    }
    fn stays(rank: &mut Rank) {
        rank.two_shot();
        let expected = Trouble::Reported {
            by: 0,
            record: Box::new(record()),
        };
        assert_eq!(rank.try_header_only(), Err(expected));
    }
    model(U32_WRAP, 3, WARY, &[fails, stays]);
}

/// The note of the watcher stands for the kernel too, which orders what a process did before its end.
#[test]
fn the_dead_have_kept_their_word() {
    fn dies(rank: &mut Rank) {
        rank.two_shot();
        rank.job.lost.note(rank.index);
    }
    fn stays(rank: &mut Rank) {
        rank.two_shot();
        assert_eq!(
            rank.try_header_only(),
            Err(Trouble::Died {
                dead: lanesum_segment::RankSet::only(0)
            })
        );
    }
    model(U32_WRAP, 3, WARY, &[dies, stays]);
}

/// Rank 1 has seen rank 0's header before it fails: who sees the failure sees that header.
#[test]
fn a_later_fault_spoils_no_earlier_call() {
    fn posts(rank: &mut Rank) {
        rank.announce(1, 0);
    }
    fn fails(rank: &mut Rank) {
        rank.header_only();
        rank.member.fail(&record());
    }
    fn succeeds(rank: &mut Rank) {
        rank.header_only();
    }
    model(U32_WRAP, 1, WARY, &[posts, fails, succeeds]);
}

/// Rank 0 gives up after it has posted all that rank 1 waits for, and takes its shared buffer back.
#[test]
fn a_failed_rank_takes_no_buffer_back_unnoticed() {
    const TAKEN_BACK: u64 = 9;
    fn fails(rank: &mut Rank) {
        rank.announce(5, 0);
        rank.headers(5).unwrap();
        rank.member.post_closing(rank.epoch);
        rank.member.fail(&record());
        rank.job.exposed.store(TAKEN_BACK, Ordering::Relaxed);
    }
    fn late(rank: &mut Rank) {
        rank.announce(5, 0);
        rank.headers(5).unwrap();
        let read = rank.job.exposed.load(Ordering::Relaxed);
        let believed = rank.member.confirm_reads().is_ok();
        rank.member.post_closing(rank.epoch);
        rank.member.await_closings(rank.epoch, || rank.context()).unwrap();
        assert!(!believed || read != TAKEN_BACK);
    }
    model(U32_WRAP, ALL, SPIN, &[fails, late]);
}

/// Which test shows which deliberate fault.
const CAUGHT_BY: &[(&str, &str)] = &[
    ("relaxed_header", "one_shots_reuse_mailboxes"),
    ("relaxed_header_look", "one_shots_reuse_mailboxes"),
    ("relaxed_result", "two_shots_reuse_mailboxes"),
    ("relaxed_result_look", "two_shots_reuse_mailboxes"),
    ("relaxed_closing", "shared_one_shots_give_buffers_back"),
    ("relaxed_closing_look", "shared_one_shots_give_buffers_back"),
    ("relaxed_record", "records_are_read_whole"),
    ("relaxed_record_look", "records_are_read_whole"),
    ("relaxed_departure", "departed_peers_have_kept_their_word"),
    ("relaxed_departure_look", "departed_peers_have_kept_their_word"),
    ("relaxed_loss", "the_dead_have_kept_their_word"),
    ("relaxed_loss_look", "the_dead_have_kept_their_word"),
    ("single_line", "one_shots_reuse_mailboxes"),
    ("kept_turns", "one_shots_reuse_mailboxes"),
    ("passed_answers", "two_shots_reuse_mailboxes"),
    ("header_before_words", "a_line_holds_this_epoch_or_the_one_two_before"),
    ("missing_header", "algorithms_mix"),
    ("any_tag", "two_shots_reuse_mailboxes"),
    ("wrapped_result", "flags_never_come_round"),
    ("wrapped_closing", "flags_never_come_round"),
    ("blank_lines", "formatted_lines_are_not_believed"),
    ("run_ahead", "three_ranks_wait_for_each_other"),
    ("skipped_result", "two_shots_reuse_mailboxes"),
    ("skipped_closing", "shared_one_shots_give_buffers_back"),
    ("hasty_trouble", "a_later_fault_spoils_no_earlier_call"),
    ("unconfirmed_reads", "a_failed_rank_takes_no_buffer_back_unnoticed"),
    ("unfenced_failure", "a_failed_rank_takes_no_buffer_back_unnoticed"),
    ("unfenced_confirmation", "a_failed_rank_takes_no_buffer_back_unnoticed"),
];

#[test]
fn every_mutant_is_caught() {
    let listed: Vec<&str> = CAUGHT_BY.iter().map(|&(mutant, _)| mutant).collect();
    assert_eq!(listed, lanesum_segment::MUTANTS);
    let own = std::env::current_exe().unwrap();
    for (mutant, test) in CAUGHT_BY {
        let mut run = std::process::Command::new(&own);
        run.args(["--exact", test]).env("LANESUM_MUTANT", mutant);
        let output = run.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("running 1 test"), "there is no test {test}");
        assert!(!output.status.success(), "{test} does not notice the mutant {mutant}");
    }
}
