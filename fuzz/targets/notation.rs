//! The notation of reduction trees: one that is read keeps the discipline of a stack, and is written and read again as the same.
#![no_main]

use lanesum_fuzz::judge_word;
use lanesum_plan::{ReductionTree, Step};

libfuzzer_sys::fuzz_target!(|text: &str| {
    judge_word::<ReductionTree>(text);
    let Ok(tree) = text.parse::<ReductionTree>() else {
        return;
    };
    assert_eq!(tree.steps().len(), 2 * tree.world().get() - 1, "{tree}");
    let mut depth = 0_usize;
    for step in tree.steps() {
        match step {
            Step::Leaf(rank) => {
                assert!(rank.index() < tree.world().get(), "{tree}");
                depth += 1;
            }
            Step::Combine => {
                assert!(depth >= 2, "{tree}");
                depth -= 1;
            }
        }
    }
    assert_eq!(depth, 1, "{tree}");
});
