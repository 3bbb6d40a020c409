//! Dumps that are cut, doubled, stripped of tabs and sprinkled with bytes: read or refused at a place of the text, in bounded time.
use std::time::{Duration, Instant};

use lanesum_probe::dump::{decode, read, read_all};
use proptest::prelude::*;

use crate::sound::{placed, sound};
use crate::tables::dumps;

#[derive(Debug, Clone)]
enum Mutation {
    Cut(usize),
    Behead(usize),
    Double(usize),
    Drop(usize),
    Swap(usize, usize),
    Untab(usize),
    Insert(usize, Vec<u8>),
    Remove(usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let place = any::<usize>;
    let noise = prop_oneof![
        proptest::collection::vec(any::<u8>(), 1..6),
        proptest::sample::select(vec![
            "\u{1b}[4m",
            "\t",
            "\n",
            "\r",
            "X",
            "GPU0",
            "NV",
            "PIX",
            "0",
            "(UUID:",
            " : ",
            "["
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    prop_oneof![
        place().prop_map(Mutation::Cut),
        place().prop_map(Mutation::Behead),
        place().prop_map(Mutation::Double),
        place().prop_map(Mutation::Drop),
        (place(), place()).prop_map(|(one, other)| Mutation::Swap(one, other)),
        place().prop_map(Mutation::Untab),
        (place(), noise).prop_map(|(at, noise)| Mutation::Insert(at, noise)),
        place().prop_map(Mutation::Remove),
    ]
}

fn apply(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let length = bytes.len();
    let mut lines: Vec<Vec<u8>> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let count = lines.len().max(1);
    match mutation {
        Mutation::Cut(at) => return bytes.truncate(at % (length + 1)),
        Mutation::Behead(at) => return drop(bytes.drain(..at % (length + 1))),
        Mutation::Insert(at, noise) => {
            let at = at % (length + 1);
            return drop(bytes.splice(at..at, noise.iter().copied()));
        }
        Mutation::Remove(at) => return without(bytes, (0..length).collect(), *at),
        Mutation::Untab(at) => {
            let tabs = (0..length).filter(|place| bytes[*place] == b'\t').collect();
            return without(bytes, tabs, *at);
        }
        Mutation::Double(at) if !lines.is_empty() => {
            let line = lines[at % count].clone();
            lines.insert(at % count, line);
        }
        Mutation::Drop(at) if !lines.is_empty() => drop(lines.remove(at % count)),
        Mutation::Swap(one, other) if !lines.is_empty() => lines.swap(one % count, other % count),
        Mutation::Double(_) | Mutation::Drop(_) | Mutation::Swap(..) => {}
    }
    *bytes = lines.concat();
}

/// Takes one of these bytes out.
fn without(bytes: &mut Vec<u8>, places: Vec<usize>, at: usize) {
    if !places.is_empty() {
        bytes.remove(places[at % places.len()]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_dumps_are_read_or_refused_in_their_text(
        which in any::<proptest::sample::Index>(),
        mutations in proptest::collection::vec(mutation(), 1..6),
    ) {
        let dumps = dumps();
        let mut bytes = which.get(&dumps).1.clone().into_bytes();
        for mutation in &mutations {
            apply(&mut bytes, mutation);
        }
        let text = decode(&bytes);
        match read_all(&text) {
            Ok(dumps) => prop_assert!(dumps.iter().all(sound), "{dumps:?}"),
            Err(error) => prop_assert!(placed(&error, &text), "{error}\n{text}"),
        }
        prop_assert!(!matches!(read(&text), Err(error) if !placed(&error, &text)));
    }

    #[test]
    fn noise_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let text = decode(&bytes);
        if let Err(error) = read_all(&text) {
            prop_assert!(placed(&error, &text));
        }
    }
}

/// The longest texts of each silly kind that are let in take about as long as their length says.
#[test]
fn silly_texts_take_no_time() {
    let header: String = (0..64).map(|gpu| format!("\tGPU{gpu}")).collect();
    let others: String = (0..256).map(|nic| format!("\tn_{nic}")).collect();
    let tall = |line: &str| line.repeat(99_999.min(7_000_000 / line.len()));
    let row = format!("GPU0\t X {}\n", "\tPIX".repeat(63));
    let texts = [
        tall("\tGPU0\tGPU1\n"),
        tall("\tGPU0\n\n\n"),
        tall(&format!("{header}{others}\n{row}")),
        format!(
            "\tGPU0{others}\nGPU0\t X {}\n{}",
            "\tPIX".repeat(256),
            tall("n_255\tPIX\n")
        ),
        format!("\tGPU0\nGPU0\tX\n{}", tall("\tGPU0\nGPU0\tX\n")),
        tall("P2P=Enabled Latency Matrix (us)\n   GPU     0      1\n"),
        tall("     0 1.00 2.00\n"),
        format!("P2P=Enabled Latency Matrix (us)\n GPU 0\n 0 1.5\n{}", tall("\n")),
        tall("Device: 0, L4, pciBusID: 1, pciDeviceID: 0, pciDomainID:0\n"),
        format!(
            "GPU 0: L4 (UUID: GPU-0)\n{}",
            tall("  MIG 1g.10gb     Device  3: (UUID: MIG-0)\n")
        ),
        format!("GPU 00000000:01:00.0\n{}", tall("   Minor Number : x\n")),
        format!(
            "GPU 00000000:01:00.0\n{}",
            (0..3000)
                .map(|depth| format!("{}a\n", " ".repeat(depth)))
                .collect::<String>()
        ),
        (0..99_999)
            .map(|count| format!("{count:04x}:00:00.0 PCI bridge: x\n"))
            .collect(),
        format!(
            "00:00.0 PCI bridge: x\n{}",
            tall("\tBus: primary=00, secondary=00, subordinate=00\n")
        ),
        format!("00:00.0 PCI bridge: x\n{}", tall("\tRegion 1: Memory at 0 [size=1G]\n")),
        format!("-[0000:00]{}\n", "-00.0-[00]".repeat(800)),
        format!("-[0000:00]-+-00.0\n{}", tall(&format!("{}\n", " +".repeat(3000)))),
        tall("-[0000:00]-+-00.0\n"),
        tall("\u{1b}[\u{1b}[1\u{1b}[[[[4m\n"),
        format!("{}\n", "[1;".repeat(2700)).repeat(800),
        tall(&format!("GPU0 {}\n", "OK".repeat(4000))),
        format!("\tGPU0\tGPU1\nGPU0\t X \t{}\nGPU1\tX\tX\n", "UUU".repeat(2500)),
    ];
    for text in texts {
        let begin = Instant::now();
        let read = read_all(&text);
        let spent = begin.elapsed();
        let outcome = read.map(|dumps| dumps.len());
        assert!(
            spent < Duration::from_secs(4),
            "{spent:?} for {outcome:?} of {:?}",
            &text[..60.min(text.len())]
        );
    }
}
