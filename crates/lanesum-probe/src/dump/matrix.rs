//! `nvidia-smi topo -m` and `-mp`: how near devices are to each other, and which processors are near them.

use lanesum_plan::{CpuSet, Relation};

use super::error::{DumpError, Fault};
use super::grid::{Cell, Column, Grid, OWN, Row};
use super::pairs::Pairs;
use super::remark::{About, Remark};
use super::text::{Line, Word};

/// What `nvidia-smi topo -m` tells of a host. `-mp` tells the same, but as if there were no NVLinks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// The GPUs in the order of their rows. Numbers are the tool's own, which are not CUDA's.
    pub gpus: Vec<MatrixGpu>,
    /// How near the GPUs are to each other, by their places in [`Matrix::gpus`]; the same in both directions.
    pub relations: Pairs<Relation>,
    /// Other devices that have columns, mostly network cards.
    pub others: Vec<Other>,
    /// What could not be read.
    pub remarks: Vec<Remark>,
}

/// A GPU of a matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixGpu {
    /// Its number in the tool.
    pub index: u32,
    /// Processors near it; `None` if the dump does not tell.
    pub cpus: Option<CpuSet>,
    /// NUMA nodes near it; `None` if the dump does not tell.
    pub numa_nodes: Option<Vec<u32>>,
    /// The NUMA node that its memory is, on systems where it is one; `None` on all others.
    pub memory_node: Option<u32>,
}

/// A device beside the GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// Its label, such as `NIC0` or `mlx5_0`.
    pub label: String,
    /// Its name, if there is a legend of labels.
    pub name: Option<String>,
    /// How near each GPU is to it, by the GPUs' places.
    pub relations: Vec<Relation>,
}

/// A column after those of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fact {
    Cpus,
    NumaNodes,
    MemoryNode,
}

/// The names of such columns.
const FACTS: [(&[&str], Fact); 3] = [
    (&["CPU", "Affinity"], Fact::Cpus),
    (&["NUMA", "Affinity"], Fact::NumaNodes),
    (&["GPU", "NUMA", "ID"], Fact::MemoryNode),
];

/// What the tool writes where it knows nothing.
const UNTOLD: &str = "N/A";

impl Matrix {
    pub(super) fn read(grid: &Grid<'_, '_>) -> Result<Matrix, DumpError> {
        let relations = grid.pairs::<Relation>()?;
        for (from, to, relation) in relations.iter().filter(|(from, to, _)| from < to) {
            if relations.get(to, from).is_some_and(|back| back != relation) {
                return Err(asymmetric(grid, from, to, *relation));
            }
        }
        let mut remarks = Vec::new();
        let facts = facts(&grid.header.tail);
        if facts.is_none() {
            let place = grid.header.tail.first().map_or(0, |word| word.at);
            remarks.push(Remark {
                place: grid.header.line.place(place),
                about: About::Columns,
            });
        }
        let facts = facts.unwrap_or_default();
        let gpus = grid.rows.iter().map(|row| gpu(row, &facts, &mut remarks)).collect();
        let others = others(grid, &mut remarks)?;
        Ok(Matrix {
            gpus,
            relations,
            others,
            remarks,
        })
    }
}

/// The refusal of what `to` says of `from`, as `from` says something else of `to`.
fn asymmetric(grid: &Grid<'_, '_>, from: usize, to: usize, there: Relation) -> DumpError {
    let column = |gpu: u32| {
        grid.header
            .columns
            .iter()
            .position(|column| *column == Column::Gpu(gpu))
    };
    let cell = |from: usize, to: usize| {
        let (row, other) = (grid.rows.get(from)?, grid.rows.get(to)?);
        Some((row, row.cell(column(other.gpu)?)?))
    };
    match (cell(from, to), cell(to, from)) {
        (Some((row, word)), Some((back_row, back))) => {
            let fault = Fault::Asymmetric {
                from: back_row.gpu,
                to: row.gpu,
                there,
                other: row.line.place(word.at),
            };
            back_row.line.refuse(back, fault)
        }
        (Some(_) | None, _) => grid.header.line.refuse_end(Fault::Label),
    }
}

/// The columns that are named; `None` if they are not all understood.
fn facts(mut words: &[Word<'_>]) -> Option<Vec<Fact>> {
    let mut facts = Vec::new();
    while !words.is_empty() {
        let named =
            |name: &[&str]| name.len() <= words.len() && name.iter().zip(words).all(|(part, word)| *part == word.text);
        let (name, fact) = FACTS.iter().find(|(name, fact)| named(name) && !facts.contains(fact))?;
        facts.push(*fact);
        words = words.get(name.len()..)?;
    }
    Some(facts)
}

fn gpu(row: &Row<'_, '_>, facts: &[Fact], remarks: &mut Vec<Remark>) -> MatrixGpu {
    let mut gpu = MatrixGpu {
        index: row.gpu,
        cpus: None,
        numa_nodes: None,
        memory_node: None,
    };
    let mut remark = |at: usize, about: About| {
        let place = row.line.place(at);
        remarks.push(Remark { place, about });
    };
    let Some(cells) = cells(row, facts) else {
        let at = row.tail.first().map_or(0, |word| word.at);
        remark(at, About::Affinity { gpu: row.gpu });
        return gpu;
    };
    for (fact, cell) in facts.iter().zip(cells) {
        let Some(word) = cell.filter(|word| word.text != UNTOLD) else {
            continue;
        };
        let set: Option<CpuSet> = word.text.parse().ok();
        let nodes = || set.map(|set| set.iter().filter_map(|node| u32::try_from(node).ok()).collect());
        let known = match fact {
            Fact::Cpus => {
                gpu.cpus = set;
                set.is_some()
            }
            Fact::NumaNodes => {
                gpu.numa_nodes = nodes();
                set.is_some()
            }
            Fact::MemoryNode => {
                gpu.memory_node = word.text.parse().ok();
                gpu.memory_node.is_some()
            }
        };
        if !known {
            remark(word.at, About::Cell { gpu: row.gpu });
        }
    }
    gpu
}

/// The cell of each of these columns, `None` where it is empty; none at all where it can't be told which are.
fn cells<'l>(row: &Row<'l, '_>, facts: &[Fact]) -> Option<Vec<Option<Word<'l>>>> {
    let words = &row.tail;
    if words.len() == facts.len() {
        return Some(words.iter().copied().map(Some).collect());
    }
    // Where nothing is known it does not matter which cell says so.
    if words.iter().all(|word| word.text == UNTOLD) {
        return Some(vec![None; facts.len()]);
    }
    by_tabs(row, facts)
}

/// Cells by the tabs between them, of which the tool writes two before the last column.
fn by_tabs<'l>(row: &Row<'l, '_>, facts: &[Fact]) -> Option<Vec<Option<Word<'l>>>> {
    let end = row.cells.last().map(|cell| cell.at + cell.text.len())?;
    let mut tabs = row
        .line
        .text
        .get(end..)?
        .match_indices('\t')
        .map(|(at, _)| end + at)
        .peekable();
    let mut cells: Vec<Option<Word<'l>>> = Vec::new();
    while let Some(tab) = tabs.next() {
        let next = tabs.peek().copied().unwrap_or(usize::MAX);
        let mut inside = row.tail.iter().filter(|word| word.at > tab && word.at < next);
        cells.push(inside.next().copied());
        if inside.next().is_some() || cells.len() > facts.len() + 1 {
            return None;
        }
    }
    if facts.last() == Some(&Fact::MemoryNode) {
        // Where there is one tab only, one was lost, and with it what kept two cells apart.
        let between = (cells.len() == facts.len() + 1).then(|| cells.remove(facts.len() - 1));
        between.filter(Option::is_none)?;
    }
    (cells.len() == facts.len()).then_some(cells)
}

/// The other devices: what they are to GPUs is in the rows of GPUs; their own rows are compared with it.
fn others(grid: &Grid<'_, '_>, remarks: &mut Vec<Remark>) -> Result<Vec<Other>, DumpError> {
    let mut others = Vec::new();
    let mut missing = Vec::new();
    for (column, label) in grid.header.columns.iter().enumerate() {
        let Column::Other(label) = label else { continue };
        let cells = grid.rows.iter().filter_map(|row| Some((row, row.cell(column)?)));
        let relations = cells
            .map(|(row, cell)| row.word::<Relation>(cell))
            .collect::<Result<_, _>>()?;
        let other = Other {
            label: label.text.to_owned(),
            name: None,
            relations,
        };
        others.push(other);
        missing.push(true);
    }
    let columns = &grid.header.columns;
    for line in grid.after {
        let Some(first) = line.first() else { continue };
        let named = first.text.strip_suffix(':');
        let label = named.unwrap_or(first.text);
        let Some(place) = others.iter().position(|other| other.label == label) else {
            continue;
        };
        if named.is_some() {
            others[place].name = line.words().nth(1).map(|word| word.text.to_owned());
            continue;
        }
        missing[place] = false;
        if !agrees(line, columns, &others[place]) {
            remarks.push(Remark {
                place: line.place(first.at),
                about: About::OtherRow {
                    label: label.to_owned(),
                },
            });
        }
    }
    remarks.extend(missing_rows(grid, &others, &missing));
    Ok(others)
}

/// Whether a device's row has a readable cell for each column, and says of GPUs what these say of it.
fn agrees(line: &Line<'_>, columns: &[Column<'_>], other: &Other) -> bool {
    let cells: Vec<Word<'_>> = line.words().skip(1).take(columns.len()).collect();
    let mut relations = other.relations.iter();
    cells.len() == columns.len()
        && columns.iter().zip(cells).all(|(column, cell)| match column {
            Column::Gpu(_) => Relation::read(cell.text).as_ref() == relations.next(),
            Column::Other(label) if label.text == other.label => cell.text == OWN,
            Column::Other(_) => Relation::read(cell.text).is_some(),
        })
}

fn missing_rows(grid: &Grid<'_, '_>, others: &[Other], missing: &[bool]) -> Option<Remark> {
    let mut gone = others.iter().zip(missing).filter(|(_, missing)| **missing);
    let (first, _) = gone.next()?;
    let last = grid.rows.last().map_or(grid.header.line, |row| row.line);
    Some(Remark {
        place: last.place(0),
        about: About::OtherRows {
            first: first.label.clone(),
            missing: 1 + gone.count(),
        },
    })
}
