//! Each kind of refusal, with the place that it names, and what it says.
use lanesum_plan::Relation;
use lanesum_probe::dump::{DumpError, Fault, Found, MOST_GPUS, Place, Vocabulary, read, read_all};

fn refused(text: &str) -> DumpError {
    match read(text) {
        Err(error) => error,
        Ok(dump) => panic!("it was read: {dump:?}"),
    }
}

/// That a text is refused at this place, for this reason, and says so.
#[track_caller]
fn check(text: &str, (line, column): (usize, usize), fault: &Fault, says: &str) {
    let error = refused(text);
    assert_eq!((error.place, &error.fault), (Place { line, column }, fault), "{error}");
    assert_eq!(error.to_string(), format!("line {line}, column {column}: {says}"));
    assert!(!error.hint().is_empty() && error.to_string().ends_with(&error.expected()));
}

const TOOLS: &str =
    "the output of nvidia-smi topo -m, -mp or -p2p, nvidia-smi -L or -q, p2pBandwidthLatencyTest or lspci";

#[test]
fn what_is_no_dump() {
    check(
        "",
        (1, 1),
        &Fault::Unknown,
        &format!("the end of the text instead of {TOOLS}"),
    );
    check(
        "\n  hello GPU\n",
        (2, 3),
        &Fault::Unknown,
        &format!("\"hello GPU\" instead of {TOOLS}"),
    );
    let error = "$ nvidia-smi topo -m\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n";
    check(
        error,
        (2, 1),
        &Fault::ToolFailed,
        &format!("\"NVIDIA-SMI has failed because it couldn't communicate with t...\" instead of {TOOLS}"),
    );
    assert_eq!(
        refused("bash: nvidia-smi: command not found\n").fault,
        Fault::ToolFailed
    );
    assert_eq!(
        refused("x\n=== ROCm System Management Interface ===\n").fault,
        Fault::Amd
    );
    assert_eq!(refused(&"x".repeat(9000)).found, Found::Bytes(9000));
}

#[test]
fn headers() {
    check(
        "GPU0\t X \tPHB\nGPU1\tPHB\t X \n",
        (1, 1),
        &Fault::HeaderMissing,
        "\"GPU0\" instead of a header with the labels of the columns, above the rows",
    );
    check(
        "\tGPU0\tGPU1\tNIC0NIC1\nGPU0\tX\n",
        (1, 12),
        &Fault::Label,
        "\"NIC0NIC1\" instead of the label of one column",
    );
    for label in ["GPU1GPU2", "NIC0CPU", "mlx5_0mlx5_1", "GPU1x"] {
        assert_eq!(
            refused(&format!("\tGPU0\t{label}\nGPU0\tX\n")).fault,
            Fault::Label,
            "{label}"
        );
    }
    assert_eq!(refused("\tGPU0\tGPU1\tibp0GPU2\nGPU0\tX\n").fault, Fault::Label);
    check(
        "\tGPU0\tGPU1\tGPU0\nGPU0\tX\tPIX\tPIX\n",
        (1, 12),
        &Fault::Twice,
        "\"GPU0\" instead of something that has not come before",
    );
    let many: String = (0..=MOST_GPUS).map(|gpu| format!("\tGPU{gpu}")).collect();
    let error = refused(&format!("{many}\nGPU0\tX\n"));
    assert_eq!(
        (error.fault, error.found),
        (Fault::TooMany, Found::Text("GPU64".to_owned()))
    );
    let others: String = (0..257).map(|nic| format!("\tn_{nic}")).collect();
    assert_eq!(refused(&format!("\tGPU0{others}\nGPU0\tX\n")).fault, Fault::TooMany);
}

#[test]
fn rows() {
    let head = "\tGPU0\tGPU1\n";
    check(
        &format!("{head}GPU0\t X \tPHB\n"),
        (3, 1),
        &Fault::RowMissing { gpu: 1 },
        "the end of the text instead of the row of GPU1",
    );
    check(
        &format!("{head}GPU0\t X \tPHB\n\nLegend:\n"),
        (4, 1),
        &Fault::RowMissing { gpu: 1 },
        "\"Legend:\" instead of the row of GPU1",
    );
    assert_eq!(refused(head).fault, Fault::RowMissing { gpu: 0 });
    assert_eq!(refused("\tGPU0\tGPU1\nsomething\n").fault, Fault::RowMissing { gpu: 0 });
    // What is wrong above the place where rows end is told first.
    let merged = refused("\tGPU0\tGPU1\tNIC0\nGPU0\t X \tPHB\tPIXPIX\n");
    assert_eq!(merged.fault, Fault::RunTogether(Vocabulary::Relations));
    let short = Fault::RowShort {
        gpu: 1,
        cells: 1,
        columns: 2,
    };
    check(
        &format!("{head}GPU0\t X \tPHB\nGPU1\tPHB\n"),
        (3, 9),
        &short,
        "the end of the line instead of another cell of the row of GPU1, which has 1 for 2 columns",
    );
    let long = Fault::RowLong { gpu: 0, columns: 2 };
    check(
        &format!("{head}GPU0\t X \tPHB\tPHB\nGPU1\tPHB\t X \n"),
        (2, 14),
        &long,
        "\"PHB\" instead of the end of the 2 cells of the row of GPU0",
    );
    let long = refused(&format!("{head} GPU0\tX\tOK\t0-3\n GPU1\tOK\tX\n"));
    assert_eq!(long.fault, Fault::RowLong { gpu: 0, columns: 2 });
    check(
        &format!("{head}GPU0\t X \tPHB\nGPU1\tPHB\t X \nGPU1\tPHB\t X \n"),
        (4, 1),
        &Fault::RowUnexpected,
        "\"GPU1\" instead of a row of something else than a GPU, as all GPUs of the header have theirs",
    );
}

#[test]
fn cells() {
    let two = |there: &str, back: &str| format!("\tGPU0\tGPU1\nGPU0\t X \t{there}\nGPU1\t{back}\t X \n");
    let relations = "one of X, NV#, PIX, PXB, PHB, NODE, SYS";
    check(
        &two("PHB", "N/A"),
        (3, 6),
        &Fault::Cell(Vocabulary::Relations),
        &format!("\"N/A\" instead of {relations}"),
    );
    check(
        &two("NODENODE", "NODE"),
        (2, 10),
        &Fault::RunTogether(Vocabulary::Relations),
        &format!("\"NODENODE\" instead of only {relations}"),
    );
    for merged in ["NV18NV18", "NV1PIX", "PIXSYSNODE"] {
        assert_eq!(
            refused(&two("PHB", merged)).fault,
            Fault::RunTogether(Vocabulary::Relations),
            "{merged}"
        );
    }
    // A number of affinities ran into it.
    assert_eq!(refused(&two("NV180", "NV18")).fault, Fault::Cell(Vocabulary::Relations));
    check(
        &two("OK", "PIX"),
        (3, 6),
        &Fault::Cell(Vocabulary::Statuses),
        "\"PIX\" instead of one of X, OK, CNS, GNS, TNS, NS, DR, U",
    );
    assert_eq!(
        refused(&two("OK", "OKOK")).fault,
        Fault::RunTogether(Vocabulary::Statuses)
    );
    check(
        &two("X", "PIX"),
        (2, 10),
        &Fault::Diagonal { own: false },
        "\"X\" instead of what one GPU is to another",
    );
    check(
        "\tGPU0\tGPU1\nGPU0\tPIX\tPIX\nGPU1\tPIX\t X \n",
        (2, 6),
        &Fault::Diagonal { own: true },
        "\"PIX\" instead of X, which a GPU is to itself",
    );
    let asymmetric = Fault::Asymmetric {
        from: 1,
        to: 0,
        there: Relation::Phb,
        other: Place { line: 2, column: 10 },
    };
    check(
        &two("PHB", "SYS"),
        (3, 6),
        &asymmetric,
        "\"SYS\" instead of PHB between GPU1 and GPU0, as line 2, column 10 has it",
    );
}

#[test]
fn measurements() {
    let title = "Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n";
    let whole = format!("{title}   D\\D     0      1\n     0 838.25   6.11\n     1   6.11 838.25\n");
    assert!(read(&whole).is_ok());
    check(
        &whole.replace("   6.11 838", "    nan 838"),
        (4, 11),
        &Fault::Number,
        "\"nan\" instead of a number like 26.41",
    );
    check(
        &whole.replace("     1   6.11", "     2   6.11"),
        (4, 6),
        &Fault::RowMissing { gpu: 1 },
        "\"2\" instead of the row of GPU1",
    );
    let short = Fault::RowShort {
        gpu: 0,
        cells: 1,
        columns: 2,
    };
    assert_eq!(refused(&whole.replace("838.25   6.11", "838.25")).fault, short);
    let long = Fault::RowLong { gpu: 0, columns: 2 };
    assert_eq!(
        refused(&whole.replace("838.25   6.11", "838.25   6.11 7.00")).fault,
        long
    );
    check(
        &format!("{whole}{whole}"),
        (5, 1),
        &Fault::Twice,
        "\"Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)\" instead of something that has not come before",
    );
    let three = "P2P=Disabled Latency Matrix (us)\n   GPU     0\n     0 1.5\n";
    check(
        &format!("{whole}{three}"),
        (5, 1),
        &Fault::OtherGpus,
        "\"P2P=Disabled Latency Matrix (us)\" instead of the GPUs of the matrices above",
    );
    check(
        title,
        (1, 1),
        &Fault::NoneComplete,
        "\"Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)\" instead of at least one complete matrix",
    );
}

#[test]
fn lists_and_queries() {
    let one = "GPU 0: NVIDIA L4 (UUID: GPU-0a4f1b2c-0000-1111-2222-333344445555)\n";
    assert_eq!(refused("GPU 0: NVIDIA L4\nGPU 1: NVIDIA L4\n").fault, Fault::Uuid);
    check(
        "GPU 0: NVIDIA L4 (UUID: GPU-0a4f\n",
        (1, 33),
        &Fault::Uuid,
        "the end of the line instead of (UUID: GPU-...) at the end of the line",
    );
    for again in ["GPU 0", "GPU 1"] {
        let error = refused(&format!("{one}{}", one.replace("GPU 0", again)));
        assert_eq!((error.place, error.fault), (Place { line: 2, column: 1 }, Fault::Twice));
    }
    let query = "=====NVSMI LOG=====\nDriver Version : 595.80\n";
    check(
        query,
        (1, 20),
        &Fault::NoGpu,
        "the end of the line instead of lines on at least one GPU below it",
    );
    let twice = format!("{query}GPU 00000000:01:00.0\nGPU 00000000:01:00.0\n");
    check(
        &twice,
        (4, 5),
        &Fault::Twice,
        "\"00000000:01:00.0\" instead of something that has not come before",
    );
}

#[test]
fn several_dumps_are_read_together_or_refused() {
    let matrix = "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n\nLegend:\n";
    let peers = " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n";
    let list = "GPU 0: NVIDIA L4 (UUID: GPU-0a4f1b2c-0000-1111-2222-333344445555)\n";
    let session = format!("$ nvidia-smi -L\n{list}$ nvidia-smi topo -m\n{matrix}$ nvidia-smi topo -p2p r\n{peers}");
    let tools: Vec<&str> = read_all(&session).unwrap().iter().map(|dump| dump.tool()).collect();
    assert_eq!(tools, ["nvidia-smi -L", "nvidia-smi topo -m", "nvidia-smi topo -p2p"]);
    check(
        &format!("{matrix}{peers}"),
        (6, 3),
        &Fault::Several,
        "\"GPU0\\tGPU1\" instead of the end of the only dump",
    );
}
