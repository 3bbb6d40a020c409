//! Header and rows of a matrix of `nvidia-smi topo`, whatever its cells say.
//!
//! Nothing is read by its column in the text: headers begin with none, one or two tabs or with the code of a colour, and
//! tabs are blanks after a terminal has shown them. A row is its label, then one word for each label of the header. What follows are
//! affinities, which may be empty; the reader of those finds out.

use lanesum_plan::Relation;

use super::error::{DumpError, Fault, Found, Place, Vocabulary};
use super::pairs::Pairs;
use super::peers::PeerStatus;
use super::text::{Line, Word};

/// The most GPUs that a dump may describe.
pub const MOST_GPUS: usize = 64;
/// The most columns of other devices, such as network cards.
pub const MOST_OTHERS: usize = 256;

/// One column of cells, by what it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column<'l> {
    Gpu(u32),
    Other(Word<'l>),
}

/// The labels, and the words after them.
#[derive(Debug)]
pub(super) struct Header<'l, 't> {
    pub(super) line: &'l Line<'t>,
    pub(super) columns: Vec<Column<'l>>,
    pub(super) tail: Vec<Word<'l>>,
}

/// The row of a GPU: a cell for each column, and the words after them.
#[derive(Debug)]
pub(super) struct Row<'l, 't> {
    pub(super) line: &'l Line<'t>,
    pub(super) gpu: u32,
    pub(super) cells: Vec<Word<'l>>,
    pub(super) tail: Vec<Word<'l>>,
}

/// A header, one row for each of its GPUs in its order, and the lines after them.
#[derive(Debug)]
pub(super) struct Grid<'l, 't> {
    pub(super) header: Header<'l, 't>,
    pub(super) rows: Vec<Row<'l, 't>>,
    /// Why there are no more rows; what is wrong in those that are there comes before it.
    missing: Option<DumpError>,
    pub(super) after: &'l [Line<'t>],
}

/// A word that a cell may hold.
pub(super) trait Cell: Copy {
    const VOCABULARY: Vocabulary;

    fn read(word: &str) -> Option<Self>;
}

impl Cell for Relation {
    const VOCABULARY: Vocabulary = Vocabulary::Relations;

    /// NVLinks have at most two digits, so that a number of the next cell that ran into this one is noticed. Drivers before
    /// 2017 call `SYS` `SOC`.
    fn read(word: &str) -> Option<Relation> {
        if word == "SOC" {
            return Some(Relation::Sys);
        }
        let digits = word.strip_prefix("NV").unwrap_or("1");
        let plain = digits.len() <= 2 && !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
        word.parse().ok().filter(|_| plain)
    }
}

/// What a GPU is to itself.
pub(super) const OWN: &str = "X";

/// The number of a label such as `GPU12`.
pub(super) fn gpu_label(word: &str) -> Option<u32> {
    let digits = word.strip_prefix("GPU")?;
    let plain = (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

impl<'l, 't> Grid<'l, 't> {
    /// Takes the lines from a header on apart; whether their cells are right is for [`Grid::pairs`] to say.
    pub(super) fn read(lines: &'l [Line<'t>]) -> Result<Grid<'l, 't>, DumpError> {
        let Some((first, after)) = lines.split_first() else {
            let start = Place { line: 1, column: 1 };
            return Err(DumpError::new(start, Found::EndOfText, Fault::Unknown));
        };
        let header = Header::read(first)?;
        let mut grid = Grid {
            header,
            rows: Vec::new(),
            missing: None,
            after,
        };
        for gpu in grid.header.gpus() {
            match grid.row(gpu) {
                Ok(row) => grid.rows.push(row),
                Err(missing) => {
                    grid.missing = Some(missing);
                    break;
                }
            }
        }
        Ok(grid)
    }

    /// The next row, if it is of this GPU.
    fn row(&mut self, gpu: u32) -> Result<Row<'l, 't>, DumpError> {
        let blank = self.after.iter().take_while(|line| line.is_blank()).count();
        let rest = self.after.get(blank..).and_then(<[Line<'t>]>::split_first);
        let last = self
            .after
            .last()
            .map_or_else(|| self.line_of_last_row(), |line| line.number);
        let Some((line, after)) = rest else {
            let end = Place {
                line: last + 1,
                column: 1,
            };
            return Err(DumpError::new(end, Found::EndOfText, Fault::RowMissing { gpu }));
        };
        self.after = after;
        Row::read(line, gpu, self.header.columns.len())
    }

    fn line_of_last_row(&self) -> usize {
        self.rows.last().map_or(self.header.line, |row| row.line).number
    }

    /// A row of a GPU after those of all GPUs is one too many.
    fn no_other_gpus(&self) -> Result<(), DumpError> {
        for line in self.after {
            let mut words = line.words();
            let Some(label) = words.next().filter(|label| gpu_label(label.text).is_some()) else {
                continue;
            };
            if words.next().is_some_and(|cell| is_cell(cell.text)) {
                return Err(line.refuse(label, Fault::RowUnexpected));
            }
        }
        Ok(())
    }

    /// What all GPUs say of each other, if all their cells can be read.
    pub(super) fn pairs<C: Cell>(&self) -> Result<Pairs<C>, DumpError> {
        for row in &self.rows {
            row.check::<C>(self.header.columns.len())?;
        }
        if let Some(missing) = &self.missing {
            return Err(missing.clone());
        }
        self.no_other_gpus()?;
        let columns = self.header.columns.iter().enumerate();
        let places: Vec<usize> = columns
            .filter(|(_, column)| matches!(column, Column::Gpu(_)))
            .map(|(place, _)| place)
            .collect();
        let cell = |from: usize, to: usize| self.rows.get(from)?.cell(*places.get(to)?);
        for (place, row) in self.rows.iter().enumerate() {
            let own = cell(place, place).filter(|own| own.text != OWN);
            if let Some(own) = own {
                return Err(row.line.refuse(own, Fault::Diagonal { own: true }));
            }
        }
        Pairs::build(self.rows.len(), |from, to| {
            match (self.rows.get(from), cell(from, to)) {
                (Some(row), Some(word)) => row.word(word),
                (Some(_) | None, _) => Err(self.header.line.refuse_end(Fault::Label)),
            }
        })
    }
}

impl<'l, 't> Header<'l, 't> {
    fn read(line: &'l Line<'t>) -> Result<Header<'l, 't>, DumpError> {
        let mut words = line.words().peekable();
        let mut columns = Vec::new();
        while let Some(word) = words.next_if(|word| !begins_tail(word.text)) {
            columns.push(Column::read(word).ok_or_else(|| line.refuse(word, Fault::Label))?);
            let gpus = columns.iter().filter(|column| matches!(column, Column::Gpu(_))).count();
            if gpus > MOST_GPUS || columns.len() - gpus > MOST_OTHERS {
                return Err(line.refuse(word, Fault::TooMany));
            }
            let same = |other: &Column<'_>| other.text_is(word.text);
            if columns.iter().filter(|other| same(other)).count() > 1 {
                return Err(line.refuse(word, Fault::Twice));
            }
        }
        let tail = words.collect();
        Ok(Header { line, columns, tail })
    }

    /// The numbers of the GPUs, in order.
    pub(super) fn gpus(&self) -> Vec<u32> {
        let gpu = |column: &Column<'_>| match column {
            Column::Gpu(gpu) => Some(*gpu),
            Column::Other(_) => None,
        };
        self.columns.iter().filter_map(gpu).collect()
    }
}

/// Where the labels of devices end and `CPU Affinity`, `NUMA Affinity`, `GPU NUMA ID` begin, run together or not.
fn begins_tail(word: &str) -> bool {
    word == "GPU" || ["CPU", "NUMA", "Affinity"].iter().any(|first| word.starts_with(first))
}

impl<'l> Column<'l> {
    /// `None` for two labels that have run together, such as `NIC8NIC9`.
    fn read(word: Word<'l>) -> Option<Column<'l>> {
        let numbered = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        if word.text.starts_with("GPU") {
            return gpu_label(word.text).map(Column::Gpu);
        }
        let alone = match word.text.strip_prefix("NIC") {
            Some(number) => numbered(number),
            None => ["GPU", "NIC", "CPU", "NUMA"]
                .iter()
                .all(|label| !word.text.contains(label)),
        };
        let once = word.text.matches("mlx").count() <= 1;
        let plain = word.text.bytes().all(|byte| byte.is_ascii_graphic());
        (alone && once && plain).then_some(Column::Other(word))
    }

    fn text_is(&self, text: &str) -> bool {
        match self {
            Column::Gpu(gpu) => gpu_label(text) == Some(*gpu),
            Column::Other(word) => word.text == text,
        }
    }
}

impl<'l, 't> Row<'l, 't> {
    /// The row of this GPU, if the line is one and has a cell for each column.
    fn read(line: &'l Line<'t>, gpu: u32, columns: usize) -> Result<Row<'l, 't>, DumpError> {
        let mut words = line.words();
        let label = words.next().unwrap_or(Word { text: "", at: 0 });
        if gpu_label(label.text) != Some(gpu) {
            return Err(line.refuse(label, Fault::RowMissing { gpu }));
        }
        let mut cells: Vec<Word<'l>> = words.collect();
        let tail = cells.split_off(columns.min(cells.len()));
        Ok(Row { line, gpu, cells, tail })
    }

    pub(super) fn cell(&self, column: usize) -> Option<Word<'l>> {
        self.cells.get(column).copied()
    }

    /// That all cells are words of the matrix, one for each column, and that none follows.
    pub(super) fn check<C: Cell>(&self, columns: usize) -> Result<(), DumpError> {
        for cell in &self.cells {
            if cell.text != OWN {
                self.word::<C>(*cell)?;
            }
        }
        if self.cells.len() < columns {
            return Err(self.line.refuse_end(Fault::RowShort {
                gpu: self.gpu,
                cells: self.cells.len(),
                columns,
            }));
        }
        match self
            .tail
            .iter()
            .find(|word| word.text == OWN || C::read(word.text).is_some())
        {
            Some(word) => {
                let gpu = self.gpu;
                Err(self.line.refuse(*word, Fault::RowLong { gpu, columns }))
            }
            None => Ok(()),
        }
    }

    /// What a cell says of two.
    pub(super) fn word<C: Cell>(&self, word: Word<'l>) -> Result<C, DumpError> {
        C::read(word.text).ok_or_else(|| {
            let fault = if word.text == OWN {
                Fault::Diagonal { own: false }
            } else if run_together::<C>(word.text) {
                Fault::RunTogether(C::VOCABULARY)
            } else {
                Fault::Cell(C::VOCABULARY)
            };
            self.line.refuse(word, fault)
        })
    }
}

/// Whether a word is two or more words of cells. Only short ones are looked at: what is long is wrong anyway.
fn run_together<C: Cell>(word: &str) -> bool {
    let cut = |end: usize| word.split_at_checked(end);
    (word.len() <= 32)
        && (1..word.len()).filter_map(cut).any(|(first, rest)| {
            first != OWN && C::read(first).is_some() && (C::read(rest).is_some() || run_together::<C>(rest))
        })
}

/// Whether this may be a cell of any matrix of `nvidia-smi topo`.
pub(super) fn is_cell(word: &str) -> bool {
    word == OWN || Relation::read(word).is_some() || PeerStatus::read(word).is_some()
}
