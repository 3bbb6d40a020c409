//! One rank of a bench: a process of its own that the parent started as `lanesum bench-rank`.
//!
//! Each call of a graph has an output of its own, and every output is compared with the oracle's before the graph is timed and again
//! afterwards. The same holds for calls without a graph. What is checked is what is timed, not a likeness of it.

use std::process::ExitCode;

use lanesum::{AllReduce, Builder, Communicator, CudaError, EngineChoice, Issued, bf16, f16};
use lanesum_plan::{Buffers, Dtype, Elements, Kernel, Operation, ReductionTree, Request, WorldSize};

use super::message::{Assignment, Effort, Finding, Kind, Pilot, Point, Timed};
use crate::ranks::copy_engines;
use crate::ranks::message::Ran;
use crate::ranks::on_device::{DeviceDesk, Errand, Recorded, Unguarded, await_completion};
use crate::ranks::patterns::{Number, Patterns};
use crate::ranks::speech::{self, Pace, RankError, microseconds, ran};

/// Does what the parent asks for.
pub fn run(assignment: &str) -> ExitCode {
    speech::run(|| work(&serde_json::from_str(assignment)?))
}

fn work(assignment: &Assignment) -> Result<(), RankError> {
    speech::settle(assignment.parent, assignment.cpu)?;
    match assignment.dtype {
        Dtype::F32 => typed::<f32>(assignment, None),
        Dtype::F16 => typed::<f16>(assignment, None),
        // Variants are built for what models sum.
        Dtype::Bf16 => typed::<bf16>(assignment, Some(lanesum::bench::enqueue)),
    }
}

fn typed<T: Number>(assignment: &Assignment, unguarded: Option<Unguarded<T>>) -> Result<(), RankError> {
    let world = WorldSize::new(assignment.world)?;
    let sizes = assignment.elements.iter().enumerate();
    let mut sizes: Vec<Patterns<T>> = sizes
        .map(|(seed, &elements)| Patterns::new(seed as u64, elements, assignment.rank))
        .collect();
    let tree = ReductionTree::canonical(world);
    speech::consult(&mut sizes.iter_mut().collect::<Vec<_>>(), &tree, world)?;
    speech::meet()?;
    let communicator = Builder::from_env()?
        .engine(EngineChoice::Cuda)
        .algorithm(assignment.algorithm)
        .path(assignment.path)
        .join()?;
    speech::joined(&communicator)?;
    if *communicator.tree() != tree {
        speech::consult(&mut sizes.iter_mut().collect::<Vec<_>>(), communicator.tree(), world)?;
    }
    let mut stage = Stage {
        communicator: &communicator,
        assignment,
        pace: Pace::new(assignment.rank),
        done: 0,
        copy_rate: None,
    };
    for patterns in &sizes {
        stage.size(patterns, unguarded)?;
    }
    speech::conclude(communicator, Finding::Through)
}

/// Everything that stays the same from size to size.
struct Stage<'a> {
    communicator: &'a Communicator,
    assignment: &'a Assignment,
    pace: Pace,
    /// Sizes that are through.
    done: u64,
    /// What copy engines carry, once it is measured.
    copy_rate: Option<f64>,
}

/// One size at work.
struct Bench<'a, T: Number> {
    communicator: &'a Communicator,
    patterns: &'a Patterns<T>,
    desk: DeviceDesk<T>,
    errands: Vec<Errand>,
    result: Vec<T>,
    /// What the first call ran as; all others must.
    ran: Option<Ran>,
}

/// What to record a graph of.
struct Planned<T: Number> {
    kind: Kind,
    variant: Option<(lanesum::bench::Variant, Unguarded<T>)>,
}

impl Stage<'_> {
    fn size<T: Number>(&mut self, patterns: &Patterns<T>, unguarded: Option<Unguarded<T>>) -> Result<(), RankError> {
        let mut pilot = Bench::new(self.communicator, patterns, patterns.count())?;
        speech::tell(Finding::Pilot(Pilot {
            gpu: self.communicator.device().map(|device| device.facts().clone()),
            us: pilot.pace()?,
            without_variants: unguarded.map_or(Ok(None), |_| unloaded(self.communicator))?,
        }))?;
        drop(pilot);
        let effort: Effort = speech::answer()?;
        let point = self.point(patterns, unguarded, &effort)?;
        speech::tell(Finding::Point(point))?;
        self.done += 1;
        self.alive()
    }

    fn point<T: Number>(
        &mut self,
        patterns: &Patterns<T>,
        unguarded: Option<Unguarded<T>>,
        effort: &Effort,
    ) -> Result<Point, RankError> {
        let mut bench = Bench::new(self.communicator, patterns, effort.calls as usize)?;
        // Who wants graphs alone gets the same calls checked without one first: a capture must not be the first to run anything.
        let wrong = bench.eager_check()?;
        let ran = bench.ran.ok_or(RankError::NoReceipt)?;
        let mut point = Point {
            bytes: (patterns.elements() * size_of::<T>()) as u64,
            ran,
            copy_rate: self.copy_rate(ran)?,
            timed: Vec::new(),
            missing: Vec::new(),
        };
        if self.assignment.graph {
            let mut planned = vec![Planned {
                kind: Kind::Lanesum,
                variant: None,
            }];
            let request = Request {
                operation: Operation::Sum,
                dtype: T::DTYPE,
                elements: Elements::new(patterns.elements() as u64),
                buffers: Buffers::Device,
                label: None,
            };
            let decided = self.communicator.plan().decide(&request).ok();
            let kernel = decided.and_then(|decided| Some(decided.grid()?.kernel));
            for (kind, variant) in Kind::VARIANTS {
                match (applies(kind, kernel), unguarded, &effort.without_variants) {
                    (false, _, _) => point
                        .missing
                        .push((kind, "guards are left out of one_shot_push with frames alone".into())),
                    (true, None, _) => point.missing.push((kind, "it is built for bf16 alone".into())),
                    (true, Some(_), Some(reason)) => point.missing.push((kind, reason.clone())),
                    (true, Some(unguarded), None) => planned.push(Planned {
                        kind,
                        variant: Some((variant, unguarded)),
                    }),
                }
            }
            self.graphs(&mut bench, &planned, effort, &mut point)?;
        }
        if self.assignment.eager {
            self.eager(&mut bench, effort, wrong, &mut point)?;
        } else if let Some(first) = point.timed.first_mut() {
            first.wrong = wrong.or(first.wrong.take());
        }
        Ok(point)
    }

    /// Replays each graph in turn, and checks what it gives before and after.
    fn graphs<T: Number>(
        &mut self,
        bench: &mut Bench<'_, T>,
        planned: &[Planned<T>],
        effort: &Effort,
        point: &mut Point,
    ) -> Result<(), RankError> {
        let mut graphs = Vec::with_capacity(planned.len());
        for planned in planned {
            let recorded = bench.recorded(planned)?;
            graphs.push((
                recorded,
                Timed {
                    kind: planned.kind,
                    graph: true,
                    us: Vec::with_capacity(effort.replays as usize),
                    wrong: bench.wrong_replay(planned.kind, recorded)?,
                },
            ));
            self.alive()?;
        }
        for replay in 0..effort.warm_ups + effort.replays {
            for (recorded, timed) in &mut graphs {
                bench.meet()?;
                let time = bench.desk.timed_replay(*recorded)?;
                self.communicator.check()?;
                if replay >= effort.warm_ups {
                    timed.us.push(microseconds(time) / f64::from(effort.calls));
                }
                self.alive()?;
            }
        }
        for (recorded, mut timed) in graphs {
            let after = bench.wrong_replay(timed.kind, recorded)?;
            timed.wrong = timed.wrong.or(after);
            point.timed.push(timed);
            self.alive()?;
        }
        Ok(())
    }

    /// The same calls without a graph, behind as many that let the ranks begin together.
    fn eager<T: Number>(
        &mut self,
        bench: &mut Bench<'_, T>,
        effort: &Effort,
        before: Option<String>,
        point: &mut Point,
    ) -> Result<(), RankError> {
        let communicator = self.communicator;
        let errands = bench.errands.clone();
        let call = |call: AllReduce<'_, T>| Ok(communicator.all_reduce(call)?);
        let mut us = Vec::with_capacity(effort.replays as usize);
        for replay in 0..effort.warm_ups + effort.replays {
            bench.meet()?;
            let aligning = bench.desk.enqueue(&errands, call)?;
            let (time, issued) = bench.desk.timed(|desk| desk.enqueue(&errands, call))?;
            aligning.iter().chain(&issued).try_for_each(await_completion)?;
            if replay >= effort.warm_ups {
                us.push(microseconds(time) / f64::from(effort.calls));
            }
            self.alive()?;
        }
        let after = bench.eager_check()?;
        point.timed.push(Timed {
            kind: Kind::Lanesum,
            graph: false,
            us,
            wrong: before.or(after),
        });
        Ok(())
    }

    /// What copy engines carry: measured once, as it does not depend on sizes.
    fn copy_rate(&mut self, ran: Ran) -> Result<Option<f64>, RankError> {
        if self.copy_rate.is_none() {
            self.copy_rate = copy_engines::rate(self.communicator, ran)?;
        }
        Ok(self.copy_rate)
    }

    /// A sign of life; what it tells are sizes that are through.
    fn alive(&mut self) -> Result<(), RankError> {
        self.pace.at(self.done)
    }
}

/// Floors belong to every algorithm; the guards that are left out are those of one shot with frames.
fn applies(kind: Kind, kernel: Option<Kernel>) -> bool {
    !kind.sums() || kernel == Some(Kernel::OneShotPush)
}

/// Why there are no kernels of the bench, where there are none.
fn unloaded(communicator: &Communicator) -> Result<Option<String>, RankError> {
    match lanesum::bench::load(communicator) {
        Ok(()) => Ok(None),
        Err(lanesum::Error::Cuda(error @ CudaError::NoImage { .. })) => Ok(Some(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

impl<'a, T: Number> Bench<'a, T> {
    fn new(communicator: &'a Communicator, patterns: &'a Patterns<T>, calls: usize) -> Result<Self, RankError> {
        let errand = |call: usize| Errand {
            pattern: call % patterns.count(),
            slot: call,
        };
        Ok(Self {
            communicator,
            patterns,
            desk: DeviceDesk::new(communicator, &patterns.inputs, calls)?,
            errands: (0..calls).map(errand).collect(),
            result: vec![T::POISON; patterns.elements()],
            ran: None,
        })
    }

    /// Microseconds of a call, which is not the first of its size.
    fn pace(&mut self) -> Result<f64, RankError> {
        self.all_calls()?;
        self.meet()?;
        let communicator = self.communicator;
        let errands = self.errands.clone();
        let call = |call: AllReduce<'_, T>| Ok(communicator.all_reduce(call)?);
        let aligning = self.desk.enqueue(&errands, call)?;
        let (time, issued) = self.desk.timed(|desk| desk.enqueue(&errands, call))?;
        aligning.iter().chain(&issued).try_for_each(await_completion)?;
        Ok(microseconds(time) / errands.len().max(1) as f64)
    }

    /// All calls without a graph, to their end.
    fn all_calls(&mut self) -> Result<(), RankError> {
        let communicator = self.communicator;
        let issued = self
            .desk
            .enqueue(&self.errands, |call| Ok(communicator.all_reduce(call)?))?;
        issued.iter().try_for_each(await_completion)?;
        issued.iter().try_for_each(|issued| self.note(issued))
    }

    /// Equal requests are decided in the same way, in graphs and without.
    fn note(&mut self, issued: &Issued) -> Result<(), RankError> {
        let then = ran(issued)?;
        if *self.ran.get_or_insert(then) == then {
            return Ok(());
        }
        Err(RankError::SeveralDecisions { first: self.ran, then })
    }

    /// A graph of all calls. A variant runs without a graph first, so that a capture is not the first to launch anything.
    fn recorded(&mut self, planned: &Planned<T>) -> Result<Recorded, RankError> {
        let communicator = self.communicator;
        match planned.variant {
            None => {
                let (recorded, issued) = self
                    .desk
                    .record(&self.errands, |call| Ok(communicator.all_reduce(call)?))?;
                issued.iter().try_for_each(|issued| self.note(issued))?;
                Ok(recorded)
            }
            Some(variant) => {
                self.desk.enqueue_variant(communicator, variant, &self.errands)?;
                self.desk.finish()?;
                self.desk.record_variant(communicator, variant, &self.errands)
            }
        }
    }

    fn meet(&self) -> Result<(), RankError> {
        ran(&self.communicator.barrier()?).map(drop)
    }

    /// How a result of the calls without a graph differs from the oracle's.
    fn eager_check(&mut self) -> Result<Option<String>, RankError> {
        self.wrong(Self::all_calls)
    }

    /// How a result of a replay differs from the oracle's.
    fn wrong_replay(&mut self, kind: Kind, recorded: Recorded) -> Result<Option<String>, RankError> {
        if !kind.sums() {
            return Ok(None);
        }
        self.wrong(|bench| {
            bench.desk.replay(recorded)?;
            bench.desk.finish()?;
            Ok(bench.communicator.check()?)
        })
    }

    /// Makes each call once, into poisoned outputs, and compares every result with the oracle's.
    fn wrong(&mut self, calls: impl FnOnce(&mut Self) -> Result<(), RankError>) -> Result<Option<String>, RankError> {
        // The patterns behind the first, in turn: what earlier calls have left in either half of an inbox is no result of the call
        // that looks there next.
        let earlier: Vec<Errand> = (1..self.patterns.count())
            .map(|pattern| Errand { pattern, slot: 0 })
            .collect();
        let communicator = self.communicator;
        let issued = self.desk.enqueue(&earlier, |call| Ok(communicator.all_reduce(call)?))?;
        issued.iter().try_for_each(await_completion)?;
        self.desk.poison()?;
        self.meet()?;
        calls(self)?;
        let mut wrong = None;
        for (call, errand) in self.errands.iter().enumerate() {
            self.desk.read(errand.slot, &mut self.result)?;
            let difference = self.patterns.judge(errand.pattern, &self.result).difference;
            wrong = wrong.or(difference.map(|difference| format!("call {call}, {difference}")));
        }
        Ok(wrong)
    }
}
