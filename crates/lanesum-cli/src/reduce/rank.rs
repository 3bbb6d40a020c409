//! One rank of a sum of files: a process of its own that the parent started as `lanesum reduce-rank`.
//!
//! It reads a window of its file straight into memory that the ranks share, sums it there in place, and writes its share of the
//! result to the output. Every rank has the whole result after a call, so each may write: then the copies into the page cache, which
//! take longer than the sum, are divided over the ranks, and no rank is waited for while it alone writes.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lanesum::{AllReduce, Builder, Communicator, Element, EngineChoice, SharedBuffer, bf16, f16};
use lanesum_plan::{Bytes, Dtype};
use rustix::fs::Advice;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::error::FileError;
use super::input::{Input, read_exact};
use super::layout::{Piece, Span, Window, spans, windows};
use super::message::{Assignment, RankReport};
use crate::ranks::message::Ran;
use crate::ranks::speech::{self, Pace, RankError};

/// Bytes of a window: long enough that a call's fixed costs vanish, short enough that it stays in a cache between its read, its sum and
/// its write.
pub const WINDOW: usize = 2 << 20;

// The format's elements are little-endian, and are summed as they lie.
const _: () = assert!(cfg!(target_endian = "little"));

/// Does what the parent asks for.
pub fn run(assignment: &str) -> ExitCode {
    speech::run(|| work(&serde_json::from_str(assignment)?))
}

fn work(assignment: &Assignment) -> Result<(), RankError> {
    speech::settle(assignment.parent, None)?;
    let mut job = Job::open(assignment)?;
    speech::meet()?;
    let communicator = join(&job.spans)?;
    speech::joined(&communicator)?;
    let report = job.run(&communicator)?;
    // All have written now, and one synchronises for all: it is one file.
    speech::ran(&communicator.barrier()?)?;
    if assignment.rank == 0 {
        speech::audibly(|| job.output.sync_all())?.map_err(|source| job.unwritten(source))?;
    }
    speech::conclude(communicator, report)
}

/// A window of each dtype that occurs, each on pages of its own.
fn join(spans: &[Span]) -> Result<Communicator, RankError> {
    let occurs = |dtype: &Dtype| spans.iter().any(|span| span.dtype == *dtype && span.bytes > 0);
    let dtypes = Dtype::ALL.iter().filter(|dtype| occurs(dtype)).count();
    let shared = Bytes::new(dtypes as u64 * (WINDOW as u64 + 4096));
    let builder = Builder::from_env()?.engine(EngineChoice::Host).shared_capacity(shared);
    Ok(builder.join()?)
}

/// A rank's files and what it has to do with them.
struct Job<'a> {
    assignment: &'a Assignment,
    source: PathBuf,
    input: File,
    output: File,
    spans: Vec<Span>,
    /// Where the data begins in the output.
    data: u64,
}

impl<'a> Job<'a> {
    /// Reads the headers again rather than being told: those of large models are longer than an argument may be.
    fn open(assignment: &'a Assignment) -> Result<Self, RankError> {
        let (first, own) = (Path::new(&assignment.first), Path::new(&assignment.own));
        let of_first = Input::open(first)?.header;
        let of_own = Input::open(own)?;
        let spans = spans(&of_first, &of_own.header).map_err(|difference| FileError::Differ {
            first: first.to_owned(),
            second: own.to_owned(),
            difference,
        })?;
        let output = OpenOptions::new().write(true).open(&assignment.part);
        let output = output.map_err(|source| unwritten(assignment, source))?;
        // Where this fails, reading is slower.
        rustix::fs::fadvise(&of_own.file, 0, None, Advice::Sequential).ok();
        Ok(Self {
            assignment,
            source: own.to_owned(),
            input: of_own.file,
            output,
            spans,
            data: of_first.data,
        })
    }

    fn run(&mut self, communicator: &Communicator) -> Result<RankReport, RankError> {
        let mut desks = Desks::default();
        let mut pace = Pace::new(self.assignment.rank);
        let mut report = RankReport {
            ran: Vec::new(),
            calls: 0,
            isa: communicator.isa().to_owned(),
            tree: communicator.tree().to_string(),
        };
        let mut windows = windows(&self.spans, self.data, WINDOW).peekable();
        while let Some(window) = windows.next() {
            let next = windows.peek().map_or(&[][..], |next| &next.pieces);
            let ran = match window.dtype {
                Dtype::F32 => self.sum(communicator, &mut desks.f32, &window, next)?,
                Dtype::F16 => self.sum(communicator, &mut desks.f16, &window, next)?,
                Dtype::Bf16 => self.sum(communicator, &mut desks.bf16, &window, next)?,
            };
            if !report.ran.contains(&ran) {
                report.ran.push(ran);
            }
            report.calls += 1;
            pace.at(mebibytes(window.at + window.bytes as u64 - self.data))?;
        }
        Ok(report)
    }

    fn sum<T: Element + FromBytes + IntoBytes + Immutable>(
        &self,
        communicator: &Communicator,
        desk: &mut Option<SharedBuffer<T>>,
        window: &Window,
        next: &[Piece],
    ) -> Result<Ran, RankError> {
        let buffer = match desk {
            Some(buffer) => buffer,
            None => desk.insert(communicator.allocate_shared(WINDOW / size_of::<T>())?),
        };
        self.fill(buffer.as_mut_bytes(), &window.pieces)?;
        self.announce(next);
        let call = AllReduce::shared(buffer)
            .first(window.bytes / size_of::<T>())
            .operation(self.assignment.operation)
            // Ranks that are at different windows find out, whatever became of their files.
            .label(window.at);
        let ran = speech::ran(&communicator.all_reduce(call)?)?;
        let share = window.share(self.assignment.rank, self.assignment.world);
        let at = window.at + share.start as u64;
        let written = buffer.as_bytes().get(share).unwrap_or_default();
        self.output
            .write_all_at(written, at)
            .map_err(|source| self.unwritten(source))?;
        Ok(ran)
    }

    fn fill(&self, mut buffer: &mut [u8], pieces: &[Piece]) -> Result<(), RankError> {
        for piece in pieces {
            let (filled, rest) = buffer.split_at_mut_checked(piece.bytes).unwrap_or_default();
            read_exact(&self.source, &self.input, filled, piece.from)?;
            buffer = rest;
        }
        Ok(())
    }

    /// Lets the system read ahead while this window is summed and written.
    fn announce(&self, pieces: &[Piece]) {
        for piece in pieces {
            let length = std::num::NonZeroU64::new(piece.bytes as u64);
            rustix::fs::fadvise(&self.input, piece.from, length, Advice::WillNeed).ok();
        }
    }

    fn unwritten(&self, source: std::io::Error) -> RankError {
        unwritten(self.assignment, source)
    }
}

fn unwritten(assignment: &Assignment, source: std::io::Error) -> RankError {
    let error = FileError::System {
        what: "write",
        path: PathBuf::from(&assignment.output),
        source,
    };
    error.into()
}

/// A buffer for each dtype, made when it is first met.
#[derive(Default)]
struct Desks {
    f32: Option<SharedBuffer<f32>>,
    f16: Option<SharedBuffer<f16>>,
    bf16: Option<SharedBuffer<bf16>>,
}

/// The unit of progress.
pub fn mebibytes(bytes: u64) -> u64 {
    bytes >> 20
}
