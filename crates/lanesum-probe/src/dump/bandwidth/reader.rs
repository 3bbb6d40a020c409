//! Goes through the lines of a test: a title, a head with the GPUs' numbers, a row for each of them.

use super::super::error::{DumpError, Fault, Found, Place};
use super::super::grid::MOST_GPUS;
use super::super::pairs::Pairs;
use super::super::remark::{About, Remark};
use super::super::text::{Line, Word};
use super::{Bandwidth, Measure, Table, TestedDevice, Title, device, number, small, title};

pub(super) fn read(lines: &[Line<'_>]) -> Result<Bandwidth, DumpError> {
    let mut reader = Reader::default();
    for (place, line) in lines.iter().enumerate() {
        let last = || lines.iter().skip(place + 1).all(Line::is_blank);
        reader.line(line, last)?;
    }
    reader.cut();
    match lines.first() {
        Some(line) if reader.tables.is_empty() => Err(DumpError::new(
            line.place(0),
            Found::text(line.trimmed()),
            Fault::NoneComplete,
        )),
        Some(_) | None => Ok(Bandwidth {
            gpus: reader.gpus.unwrap_or_default(),
            devices: reader.devices,
            granted: reader.granted,
            tables: reader.tables,
            remarks: reader.remarks,
        }),
    }
}

/// A matrix that is not at its end.
struct Open<'l> {
    /// The line that its title, or its head if it shares one, is in.
    text: &'l str,
    place: Place,
    title: Title,
    head: Option<Vec<u32>>,
    rows: Vec<Vec<f64>>,
}

#[derive(Default)]
struct Reader<'l> {
    gpus: Option<Vec<u32>>,
    devices: Vec<TestedDevice>,
    granted: Option<Pairs<bool>>,
    tables: Vec<Table>,
    remarks: Vec<Remark>,
    open: Option<Open<'l>>,
    /// The title of the last matrix that was read to its end, while nothing else has come.
    done: Option<Title>,
    /// Whether rows without a title have been remarked on since the last title.
    headless: bool,
}

impl<'l> Reader<'l> {
    fn line(&mut self, line: &'l Line<'_>, last: impl FnOnce() -> bool) -> Result<(), DumpError> {
        let Some(first) = line.first() else { return Ok(()) };
        if let Some(title) = title(line) {
            self.begin(line, first, title);
        } else if let Some(device) = device(line.trimmed()) {
            if self.devices.iter().any(|other| other.index == device.index) {
                return Err(line.refuse(first, Fault::Twice));
            }
            if self.devices.len() >= MOST_GPUS {
                return Err(line.refuse(first, Fault::TooMany));
            }
            self.devices.push(device);
        } else if let Some(head) = head(line)? {
            self.head(line, first, head);
        } else if small(first.text).is_some() {
            self.row(line, first, last)?;
        } else {
            self.cut();
        }
        Ok(())
    }

    fn begin(&mut self, line: &'l Line<'_>, first: Word<'_>, title: Title) {
        self.cut();
        self.done = None;
        self.headless = false;
        self.open = Some(Open {
            text: line.trimmed(),
            place: line.place(first.at),
            title,
            head: None,
            rows: Vec::new(),
        });
    }

    /// A matrix of latencies has two parts, of which the second, on the processor, has no title of its own.
    fn head(&mut self, line: &'l Line<'_>, first: Word<'_>, head: Vec<u32>) {
        let second = match self.done {
            Some(Title::Measured(Measure::Latency, peer, kernels)) if first.text == "CPU" => {
                Some(Title::Measured(Measure::IssueLatency, peer, kernels))
            }
            Some(_) | None => None,
        };
        if let Some(title) = second {
            self.begin(line, first, title);
        }
        match &mut self.open {
            Some(open) if open.head.is_none() => open.head = Some(head),
            Some(_) | None => {
                self.cut();
                self.without_title(line, first);
            }
        }
    }

    fn row(&mut self, line: &'l Line<'_>, first: Word<'_>, last: impl FnOnce() -> bool) -> Result<(), DumpError> {
        let Some((open, head)) = self.open.as_mut().and_then(|open| {
            let head = open.head.clone()?;
            Some((open, head))
        }) else {
            self.without_title(line, first);
            return Ok(());
        };
        let gpu = head.get(open.rows.len()).copied().unwrap_or_default();
        if small(first.text) != Some(gpu) {
            return Err(line.refuse(first, Fault::RowMissing { gpu }));
        }
        match row(line, gpu, head.len()) {
            Ok(row) => open.rows.push(row),
            // The text ends in the middle of a row.
            Err(DumpError {
                fault: Fault::RowShort { .. },
                ..
            }) if last() => return Ok(()),
            Err(error) => return Err(error),
        }
        if open.rows.len() == head.len() {
            self.finish(line, head)?;
        }
        Ok(())
    }

    /// Remarks on a matrix that is open, and leaves it out.
    fn cut(&mut self) {
        if let Some(open) = self.open.take() {
            let place = open.place;
            self.remarks.push(Remark {
                place,
                about: About::Cut,
            });
        }
    }

    fn without_title(&mut self, line: &Line<'_>, first: Word<'_>) {
        if !self.headless {
            let place = line.place(first.at);
            self.remarks.push(Remark {
                place,
                about: About::Headless,
            });
        }
        self.headless = true;
    }

    fn finish(&mut self, line: &Line<'_>, head: Vec<u32>) -> Result<(), DumpError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let refuse = |fault| Err(DumpError::new(open.place, Found::text(open.text), fault));
        if self.gpus.as_ref().is_some_and(|gpus| *gpus != head) {
            return refuse(Fault::OtherGpus);
        }
        let side = head.len();
        self.gpus = Some(head);
        self.done = Some(open.title);
        let cell = |from: usize, to: usize| {
            let cell = open.rows.get(from).and_then(|row| row.get(to)).copied();
            cell.ok_or_else(|| line.refuse_end(Fault::Number))
        };
        match open.title {
            Title::Granted if self.granted.is_some() => return refuse(Fault::Twice),
            Title::Granted => self.granted = Some(Pairs::build(side, |from, to| Ok(cell(from, to)? != 0.0))?),
            Title::Measured(measure, peer, kernels) => {
                let same = |table: &Table| (table.measure, table.peer, table.kernels) == (measure, peer, kernels);
                if self.tables.iter().any(same) {
                    return refuse(Fault::Twice);
                }
                self.tables.push(Table {
                    measure,
                    peer,
                    kernels,
                    values: Pairs::build(side, cell)?,
                    own: (0..side).map(|gpu| cell(gpu, gpu)).collect::<Result<_, _>>()?,
                });
            }
        }
        Ok(())
    }
}

/// The GPUs' numbers of `D\D     0      1`, if the line is such a head.
fn head(line: &Line<'_>) -> Result<Option<Vec<u32>>, DumpError> {
    let mut words = line.words();
    let Some(_) = words
        .next()
        .filter(|first| ["D\\D", "GPU", "CPU"].contains(&first.text))
    else {
        return Ok(None);
    };
    let mut head = Vec::new();
    for word in words {
        let Some(gpu) = small(word.text) else { return Ok(None) };
        if head.len() >= MOST_GPUS {
            return Err(line.refuse(word, Fault::TooMany));
        }
        if head.contains(&gpu) {
            return Err(line.refuse(word, Fault::Twice));
        }
        head.push(gpu);
    }
    Ok((!head.is_empty()).then_some(head))
}

/// The numbers of a row, one for each column.
fn row(line: &Line<'_>, gpu: u32, columns: usize) -> Result<Vec<f64>, DumpError> {
    let mut row = Vec::new();
    for word in line.words().skip(1) {
        if row.len() == columns {
            return Err(line.refuse(word, Fault::RowLong { gpu, columns }));
        }
        row.push(number(word.text).ok_or_else(|| line.refuse(word, Fault::Number))?);
    }
    if row.len() < columns {
        let cells = row.len();
        return Err(line.refuse_end(Fault::RowShort { gpu, cells, columns }));
    }
    Ok(row)
}
