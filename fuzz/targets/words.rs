//! Relations, links, algorithms, processors and addresses: a word that is read is written and read again as the same.
#![no_main]

use lanesum_fuzz::judge_word;
use lanesum_plan::{AlgorithmChoice, AlgorithmName, CpuSet, PcieLink, Relation};
use lanesum_probe::dump::PciAddress;

libfuzzer_sys::fuzz_target!(|text: &str| {
    judge_word::<Relation>(text);
    judge_word::<PcieLink>(text);
    judge_word::<AlgorithmName>(text);
    judge_word::<AlgorithmChoice>(text);
    judge_word::<CpuSet>(text);
    judge_word::<PciAddress>(text);
});
