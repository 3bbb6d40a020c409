//! Cells that may be empty: each fact under its own name, or unknown.
use lanesum_probe::dump::{About, Dump, Matrix, MatrixGpu, read};

use crate::tables::dumps;

fn matrix(text: &str) -> Matrix {
    match read(text) {
        Ok(Dump::Matrix(matrix)) => matrix,
        other => panic!("{other:?}"),
    }
}

/// What is known of a lone GPU whose row ends so, as text, and how many remarks there are.
fn facts(columns: &str, cells: &str) -> (String, usize) {
    let matrix = matrix(&format!("\tGPU0{columns}\nGPU0\t X {cells}\n"));
    let gpu = &matrix.gpus[0];
    let cpus = gpu.cpus.map_or("?".to_owned(), |cpus| cpus.to_string());
    let nodes = gpu
        .numa_nodes
        .as_ref()
        .map_or("?".to_owned(), |nodes| format!("{nodes:?}"));
    let memory = gpu.memory_node.map_or("?".to_owned(), |node| node.to_string());
    (format!("{cpus} {nodes} {memory}"), matrix.remarks.len())
}

#[test]
fn cells_are_known_by_tabs_or_stay_unknown() {
    let all = "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID";
    let two = "\tCPU Affinity\tNUMA Affinity";
    for (columns, cells, known, remarks) in [
        (all, "\t0-3\t1\t\tN/A", "0-3 [1] ?", 0),
        (all, "\t0-3\t1\t\t2", "0-3 [1] 2", 0),
        (all, "\t0-3\t0-1\t\tN/A", "0-3 [0, 1] ?", 0),
        (all, "\t\t\t\tN/A", "? ? ?", 0),
        (all, "\t\t1\t\tN/A", "? [1] ?", 0),
        (all, "\t0-3\t\t\tN/A", "0-3 ? ?", 0),
        (all, "\t\t\t\t2", "? ? 2", 0),
        (all, "   0-3   1   N/A", "0-3 [1] ?", 0),
        // One tab was lost: 0-3 and 1 have become 0-31.
        (all, "\t0-31\t\tN/A", "? ? ?", 1),
        // Without tabs nobody knows which of three this is.
        (all, "    1     N/A", "? ? ?", 1),
        (all, "", "? ? ?", 0),
        (two, "\t0-3\t1", "0-3 [1] ?", 0),
        (two, "\t\t1", "? [1] ?", 0),
        (two, "\t0-31", "? ? ?", 1),
        (two, "\t0-3,\t1", "? [1] ?", 1),
        (two, "\t0-3\tnode", "0-3 ? ?", 1),
        (two, "\t0-2000\t1", "? [1] ?", 1),
        (two, "\t0-3\t1\t2", "? ? ?", 1),
        ("\tNUMA Affinity\tCPU Affinity", "\t1\t0-3", "0-3 [1] ?", 0),
        ("\tCPU AffinityNUMA Affinity", "\t0-3\t1", "? ? ?", 2),
        ("", "", "? ? ?", 0),
    ] {
        assert_eq!(
            facts(columns, cells),
            (known.to_owned(), remarks),
            "{columns:?} {cells:?}"
        );
    }
}

#[test]
fn rows_of_other_devices_are_only_remarked_on() {
    let head = "\tGPU0\tGPU1\tNIC0\tNIC1\nGPU0\t X \tPHB\tPIX\tSYS\nGPU1\tPHB\t X \tSYS\tPIX\n";
    let whole = format!("{head}NIC0\tPIX\tSYS\t X \tSYS\nNIC1\tSYS\tPIX\tSYS\t X \n\nNIC Legend:\n\n  NIC1: mlx5_7\n");
    let matrix_of = |text: &str| {
        let matrix = matrix(text);
        let names: Vec<Option<String>> = matrix.others.iter().map(|other| other.name.clone()).collect();
        assert_eq!(
            (matrix.others[0].relations[1].to_string(), names.len()),
            ("SYS".to_owned(), 2)
        );
        (
            names[1].clone(),
            matrix
                .remarks
                .into_iter()
                .map(|remark| remark.about)
                .collect::<Vec<About>>(),
        )
    };
    assert_eq!(matrix_of(&whole), (Some("mlx5_7".to_owned()), vec![]));
    let bad = || About::OtherRow {
        label: "NIC0".to_owned(),
    };
    for (from, to) in [
        ("NIC0\tPIX", "NIC0\tPXB"),
        ("NIC0\tPIX", "NIC0\tPIXSYS"),
        ("NIC0\tPIX\tSYS\t X \tSYS", "NIC0\tPIX\tSYS"),
        ("NIC0\tPIX\tSYS\t X \tSYS", "NIC0\tPIX\tSYS\tPIX\tSYS"),
    ] {
        assert_eq!(matrix_of(&whole.replace(from, to)).1, [bad()], "{to}");
    }
    let missing = |missing: usize, first: &str| About::OtherRows {
        missing,
        first: first.to_owned(),
    };
    assert_eq!(matrix_of(head).1, [missing(2, "NIC0")]);
    assert_eq!(
        matrix_of(&whole.replace("NIC1\tSYS\tPIX\tSYS\t X \n", "")).1,
        [missing(1, "NIC1")]
    );
}

#[test]
fn lists_of_others_do_not_disturb() {
    let session =
        "GPU models:\nGPU 0: NVIDIA L4\nGPU 1: NVIDIA L4\n\nGPU Topology:\nGPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n";
    assert_eq!(matrix(session).gpus.len(), 2);
}

/// Whether nothing is known otherwise than before; it may be known no more.
fn no_other_facts(before: &Matrix, after: &Matrix) -> bool {
    let same = |before: &MatrixGpu, after: &MatrixGpu| {
        (after.cpus.is_none() || after.cpus == before.cpus)
            && (after.numa_nodes.is_none() || after.numa_nodes == before.numa_nodes)
            && (after.memory_node.is_none() || after.memory_node == before.memory_node)
    };
    let all = before
        .gpus
        .iter()
        .zip(&after.gpus)
        .all(|(before, after)| same(before, after));
    before.relations == after.relations && before.gpus.len() == after.gpus.len() && all
}

#[test]
fn a_lost_blank_is_noticed_or_changes_nothing() {
    let mut lost = 0;
    for (name, text) in dumps() {
        let Ok(Dump::Matrix(whole)) = read(&text) else { continue };
        for (at, _) in text.match_indices(['\t', ' ']) {
            let less = [&text[..at], &text[at + 1..]].concat();
            if let Ok(Dump::Matrix(matrix)) = read(&less) {
                assert!(no_other_facts(&whole, &matrix), "{name} without the blank at {at}");
            }
            lost += 1;
        }
    }
    assert!(lost > 1000, "{lost}");
}
