//! One case on one rank.
//!
//! All calls of a case are made whatever the first of them gave: a rank that stopped at a wrong bit would leave its peers
//! to wait. Only an error of the call itself ends the case, as the communicator is of no use after it.

use lanesum::cuda::Stream;
use lanesum::{AllReduce, Communicator, Error, Issued, Refused, SharedBuffer};
use lanesum_plan::{Buffers, Bytes, Dtype};

use crate::case::{Case, Launch, Placement};
use crate::guarded::{self, Guarded};
use crate::judge::ReceiptJudge;
use crate::on_device::DeviceDesk;
use crate::replays::Replays;
use crate::sample::Sample;
use crate::tables::{Difference, Tables};
use crate::verdict::{Failure, Side, Verdict};

/// Runs a case on this rank of a communicator made for its setting. Every rank must run the same cases in the same order.
///
/// Before each call the inputs are made from the seed and the output is poisoned; after it, the receipt, the memory around
/// the output, the input and every bit of the output are judged.
///
/// # Errors
/// The first [`Failure`]. After any but [`Failure::Call`] the communicator can run further cases.
pub fn run_rank(case: &Case, communicator: &Communicator) -> Result<Verdict, Failure> {
    match case.dtype {
        Dtype::F32 => run::<f32>(case, communicator),
        Dtype::F16 => run::<lanesum::f16>(case, communicator),
        Dtype::Bf16 => run::<lanesum::bf16>(case, communicator),
    }
}

fn run<T: Sample>(case: &Case, communicator: &Communicator) -> Result<Verdict, Failure> {
    let mut desk = Desk::<T>::new(case, communicator)?;
    let tables = Tables::<T>::new(case.pattern, case.operation, communicator.tree(), case.seed);
    let rank = communicator.rank().index();
    let mut receipts = ReceiptJudge::new(case, communicator);
    let mut replays = match desk.stream().cloned() {
        Some(stream) => Replays::of(case, (communicator, &stream), &mut receipts, || {
            desk.call(case, communicator, 0)
        })?,
        None if case.launch == Launch::Eager => None,
        None => {
            return Err(Failure::Unsuitable {
                reason: "graphs are for calls on a GPU".to_owned(),
            });
        }
    };
    let mut first_failure = None;
    for call in 0..case.calls {
        let failed = |error: Error| Failure::Call {
            call,
            error: error.to_string(),
        };
        desk.prepare(&tables, rank, call).map_err(failed)?;
        let judged = match &mut replays {
            None => {
                let issued = desk.call(case, communicator, call).map_err(failed)?;
                desk.finish(&issued).map_err(failed)?;
                receipts.judge(call, &issued)
            }
            Some(replays) => {
                replays.play((case, communicator), &tables, call).map_err(failed)?;
                desk.fetch().map_err(failed)?;
                communicator.check().map_err(failed)?;
                let beside = replays.judge_beside(&tables, call).map_err(failed)?;
                beside.map_or(Ok(()), |difference| Err(wrong_value(&tables, call, difference)))
            }
        };
        let judged = judged.and_then(|()| desk.judge(&tables, rank, call));
        if let (Err(failure), None) = (judged, &first_failure) {
            first_failure = Some(failure);
        }
    }
    let compared = u64::from(case.calls) * case.request(0).bytes().get();
    first_failure.map_or(
        Ok(Verdict {
            calls: case.calls,
            bytes: Bytes::new(compared),
        }),
        Err,
    )
}

/// The buffers of a case.
enum Desk<T: Sample> {
    InPlace {
        buffer: Guarded<T>,
    },
    OutOfPlace {
        input: Guarded<T>,
        output: Guarded<T>,
    },
    Shared {
        buffer: SharedBuffer<T>,
        elements: usize,
    },
    SharedTo {
        input: SharedBuffer<T>,
        output: Guarded<T>,
        elements: usize,
    },
    Device(Box<DeviceDesk<T>>),
}

impl<T: Sample> Desk<T> {
    fn new(case: &Case, communicator: &Communicator) -> Result<Desk<T>, Failure> {
        let (elements, misalignment) = case.geometry(communicator).map_err(|error| Failure::Unsuitable {
            reason: error.to_string(),
        })?;
        let output = || Guarded::new(elements, misalignment * 3);
        let shared = || {
            let cells = elements.saturating_add(guarded::tail::<T>());
            communicator
                .allocate_shared::<T>(cells)
                .map_err(|error| Failure::Unsuitable {
                    reason: format!("no shared buffer: {error}"),
                })
        };
        Ok(match (case.buffers, case.placement) {
            (Buffers::Private, Placement::InPlace) => Desk::InPlace {
                buffer: Guarded::new(elements, misalignment),
            },
            (Buffers::Private, Placement::OutOfPlace) => Desk::OutOfPlace {
                input: Guarded::new(elements, misalignment),
                output: output(),
            },
            (Buffers::Shared, Placement::InPlace) => Desk::Shared {
                buffer: shared()?,
                elements,
            },
            (Buffers::Shared, Placement::OutOfPlace) => Desk::SharedTo {
                input: shared()?,
                output: output(),
                elements,
            },
            (Buffers::Device, placement) => {
                let output_at = match placement {
                    Placement::InPlace => None,
                    Placement::OutOfPlace => Some(misalignment * 3),
                };
                Desk::Device(Box::new(DeviceDesk::new(
                    communicator,
                    elements,
                    misalignment,
                    output_at,
                )?))
            }
        })
    }

    /// Makes the input of a call and poisons its output.
    fn prepare(&mut self, tables: &Tables<T>, rank: usize, call: u32) -> Result<(), Error> {
        match self {
            Desk::InPlace { buffer } => tables.fill(rank, call, buffer.inner_mut()),
            Desk::OutOfPlace { input, output } => {
                tables.fill(rank, call, input.inner_mut());
                output.poison();
            }
            Desk::Shared { buffer, elements } => fill_shared(tables, rank, call, buffer, *elements),
            Desk::SharedTo {
                input,
                output,
                elements,
            } => {
                fill_shared(tables, rank, call, input, *elements);
                output.poison();
            }
            Desk::Device(desk) => {
                tables.fill(rank, call, desk.input.host.inner_mut());
                if let Some(output) = &mut desk.output {
                    output.host.poison();
                }
                return desk.bring();
            }
        }
        Ok(())
    }

    /// Waits for the result where the call has only enqueued it.
    fn finish(&mut self, issued: &Issued) -> Result<(), Error> {
        if let (Desk::Device(_), Some(receipt)) = (&self, issued.receipt()) {
            let _completed = receipt.wait()?;
        }
        self.fetch()
    }

    /// Fetches what is on the GPU, once the stream is done.
    fn fetch(&mut self) -> Result<(), Error> {
        match self {
            Desk::Device(desk) => desk.fetch(),
            Desk::InPlace { .. } | Desk::OutOfPlace { .. } | Desk::Shared { .. } | Desk::SharedTo { .. } => Ok(()),
        }
    }

    fn stream(&self) -> Option<&Stream> {
        match self {
            Desk::Device(desk) => Some(desk.stream()),
            Desk::InPlace { .. } | Desk::OutOfPlace { .. } | Desk::Shared { .. } | Desk::SharedTo { .. } => None,
        }
    }

    fn call(&mut self, case: &Case, communicator: &Communicator, call: u32) -> Result<Issued, Error> {
        let request = match self {
            Desk::InPlace { buffer } => AllReduce::in_place(buffer.inner_mut()),
            Desk::OutOfPlace { input, output } => AllReduce::out_of_place(input.inner(), output.inner_mut()),
            Desk::Shared { buffer, elements } => AllReduce::shared(buffer).first(*elements),
            Desk::SharedTo {
                input,
                output,
                elements,
            } => AllReduce::shared_to(input, output.inner_mut()).first(*elements),
            // The ranges are those that the buffers were made with.
            Desk::Device(desk) => desk.request().ok_or(Refused::Lengths { input: 0, output: 0 })?,
        };
        let request = request.operation(case.operation);
        communicator.all_reduce(match case.label_of(call) {
            Some(label) => request.label(label.get()),
            None => request,
        })
    }

    /// The memory around the output, the input where it isn't the output, and the output.
    fn judge(&self, tables: &Tables<T>, rank: usize, call: u32) -> Result<(), Failure> {
        let (output, input) = match self {
            Desk::InPlace { buffer } => (buffer.inner(), None),
            Desk::OutOfPlace { input, output } => (output.inner(), Some(input.inner())),
            Desk::Shared { buffer, elements } => (&buffer[..*elements], None),
            Desk::SharedTo {
                input,
                output,
                elements,
            } => (output.inner(), Some(&input[..*elements])),
            Desk::Device(desk) => match &desk.output {
                None => (desk.input.host.inner(), None),
                Some(output) => (output.host.inner(), Some(desk.input.host.inner())),
            },
        };
        if let Some((side, distance)) = self.breach() {
            return Err(Failure::Guard { call, side, distance });
        }
        if let Some(change) = input.and_then(|input| tables.judge_input(rank, call, input)) {
            return Err(Failure::Input {
                call,
                index: change.index,
                found: change.found,
            });
        }
        let difference = tables.judge(call, output);
        difference.map_or(Ok(()), |difference| Err(wrong_value(tables, call, difference)))
    }

    fn breach(&self) -> Option<(Side, usize)> {
        match self {
            Desk::InPlace { buffer } => buffer.breach(),
            Desk::OutOfPlace { input, output } => output.breach().or_else(|| input.breach()),
            Desk::Shared { buffer, elements } => shared_breach(buffer, *elements),
            Desk::SharedTo {
                input,
                output,
                elements,
            } => output.breach().or_else(|| shared_breach(input, *elements)),
            Desk::Device(desk) => {
                let output = desk.output.as_ref().and_then(|output| output.host.breach());
                output.or_else(|| desk.input.host.breach())
            }
        }
    }
}

fn wrong_value<T: Sample>(tables: &Tables<T>, call: u32, difference: Difference) -> Failure {
    Failure::Value {
        call,
        index: difference.index,
        expected: difference.expected,
        found: difference.found,
        wrong: difference.wrong,
        brought: tables.brought(call, difference.index),
    }
}

fn fill_shared<T: Sample>(tables: &Tables<T>, rank: usize, call: u32, buffer: &mut [T], elements: usize) {
    let (input, guard) = buffer.split_at_mut(elements);
    tables.fill(rank, call, input);
    guard.fill(guarded::poison());
}

fn shared_breach<T: Sample>(buffer: &[T], elements: usize) -> Option<(Side, usize)> {
    let written = buffer[elements..].iter().position(|cell| !guarded::is_poison(*cell));
    written.map(|distance| (Side::After, distance + 1))
}
