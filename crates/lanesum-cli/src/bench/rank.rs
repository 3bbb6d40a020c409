//! One rank of a bench: a process of its own that the parent started as `lanesum bench-rank`.

use std::process::ExitCode;

use lanesum::{AllReduce, Builder, Communicator, CudaError, EngineChoice, bf16, f16};
use lanesum_plan::{AlgorithmName, Dtype, ReductionTree, WorldSize};

use super::message::{Assignment, BenchReport, Kind, Point, Timed};
use crate::ranks::message::Ran;
use crate::ranks::on_device::{DeviceDesk, Errand, Recorded, Unguarded, await_completion};
use crate::ranks::patterns::{Number, Patterns};
use crate::ranks::speech::{self, Pace, RankError, microseconds, ran};

/// Replays off the record before those that count.
const WARM_UPS: u32 = 5;

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
    };
    let points = sizes.iter().map(|patterns| stage.point(patterns, unguarded));
    let report = BenchReport {
        points: points.collect::<Result<_, _>>()?,
        gpu: communicator.device().map(|device| device.facts().clone()),
    };
    speech::conclude(communicator, report)
}

/// Everything that stays the same from size to size.
struct Stage<'a> {
    communicator: &'a Communicator,
    assignment: &'a Assignment,
    pace: Pace,
    /// Rounds of replays.
    done: u64,
}

/// One size at work.
struct Bench<'a, T: Number> {
    communicator: &'a Communicator,
    patterns: &'a Patterns<T>,
    desk: DeviceDesk<T>,
    results: Vec<Vec<T>>,
    errands: Vec<Errand>,
}

impl Stage<'_> {
    fn point<T: Number>(
        &mut self,
        patterns: &Patterns<T>,
        unguarded: Option<Unguarded<T>>,
    ) -> Result<Point, RankError> {
        let mut bench = Bench::new(self.communicator, patterns, self.assignment.calls)?;
        let ran = bench.first()?;
        let mut point = Point {
            bytes: (patterns.elements() * size_of::<T>()) as u64,
            ran,
            timed: Vec::new(),
            missing: Vec::new(),
        };
        if self.assignment.graph {
            let mut graphs = vec![(Kind::Lanesum, bench.recorded()?)];
            for (kind, variant) in Kind::VARIANTS {
                match (applies(kind, ran), unguarded) {
                    (false, _) => point
                        .missing
                        .push((kind, "guards are left out of one_shot_push alone".into())),
                    (true, None) => point.missing.push((kind, "it is built for bf16 alone".into())),
                    (true, Some(unguarded)) => match bench.variant((variant, unguarded))? {
                        Ok(recorded) => graphs.push((kind, recorded)),
                        Err(reason) => point.missing.push((kind, reason)),
                    },
                }
            }
            self.replays(&mut bench, &graphs, &mut point)?;
        }
        if self.assignment.eager {
            self.eager(&mut bench, &mut point)?;
        }
        Ok(point)
    }

    /// Replays each graph in turn, and checks what it gives before and after.
    fn replays<T: Number>(
        &mut self,
        bench: &mut Bench<'_, T>,
        graphs: &[(Kind, Recorded)],
        point: &mut Point,
    ) -> Result<(), RankError> {
        let mut timed = Vec::with_capacity(graphs.len());
        for &(kind, recorded) in graphs {
            timed.push(Timed {
                kind,
                graph: true,
                us: Vec::with_capacity(self.assignment.replays as usize),
                wrong: bench.wrong(kind, |desk| Ok(desk.replay(recorded)?))?,
            });
        }
        for replay in 0..WARM_UPS + self.assignment.replays {
            for (&(_, recorded), timed) in graphs.iter().zip(&mut timed) {
                bench.meet()?;
                let time = bench.desk.timed_replay(recorded)?;
                self.communicator.check()?;
                if replay >= WARM_UPS {
                    timed.us.push(microseconds(time) / f64::from(self.assignment.calls));
                }
            }
            self.went_on(replay)?;
        }
        for (&(kind, recorded), timed) in graphs.iter().zip(&mut timed) {
            let after = bench.wrong(kind, |desk| Ok(desk.replay(recorded)?))?;
            timed.wrong = timed.wrong.take().or(after);
        }
        point.timed.append(&mut timed);
        Ok(())
    }

    /// The same calls without a graph, behind as many that let the ranks begin together.
    fn eager<T: Number>(&mut self, bench: &mut Bench<'_, T>, point: &mut Point) -> Result<(), RankError> {
        let communicator = self.communicator;
        let errands = bench.errands.clone();
        let call = |call: AllReduce<'_, T>| Ok(communicator.all_reduce(call)?);
        let mut us = Vec::with_capacity(self.assignment.replays as usize);
        for replay in 0..WARM_UPS + self.assignment.replays {
            bench.meet()?;
            let before = bench.desk.enqueue(&errands, call)?;
            let (time, issued) = bench.desk.timed(|desk| desk.enqueue(&errands, call))?;
            before.iter().chain(&issued).try_for_each(await_completion)?;
            if replay >= WARM_UPS {
                us.push(microseconds(time) / f64::from(self.assignment.calls));
            }
            self.went_on(replay)?;
        }
        point.timed.push(Timed {
            kind: Kind::Lanesum,
            graph: false,
            us,
            wrong: bench.wrong(Kind::Lanesum, |desk| desk.enqueue(&errands, call).map(drop))?,
        });
        Ok(())
    }

    fn went_on(&mut self, replay: u32) -> Result<(), RankError> {
        self.done += u64::from(replay >= WARM_UPS);
        self.pace.at(self.done)
    }
}

/// Floors belong to every algorithm; the guards that are left out are those of one shot.
fn applies(kind: Kind, ran: Ran) -> bool {
    !kind.sums() || ran.algorithm == AlgorithmName::OneShotPush
}

impl<'a, T: Number> Bench<'a, T> {
    fn new(communicator: &'a Communicator, patterns: &'a Patterns<T>, calls: u32) -> Result<Self, RankError> {
        let count = patterns.count();
        let errand = |call: usize| Errand {
            pattern: call % count,
            slot: call % count,
        };
        Ok(Self {
            communicator,
            patterns,
            desk: DeviceDesk::new(communicator, &patterns.inputs, count)?,
            results: vec![vec![T::POISON; patterns.elements()]; count],
            errands: (0..calls as usize).map(errand).collect(),
        })
    }

    /// The first calls of this size, without a graph; what ran.
    fn first(&mut self) -> Result<Ran, RankError> {
        let communicator = self.communicator;
        let call = |call: AllReduce<'_, T>| Ok(communicator.all_reduce(call)?);
        let issued = self.desk.enqueue(&self.errands, call)?;
        issued.iter().try_for_each(await_completion)?;
        issued.first().map_or(Err(RankError::NoReceipt), ran)
    }

    fn recorded(&mut self) -> Result<Recorded, RankError> {
        let communicator = self.communicator;
        let (recorded, _) = self
            .desk
            .record(&self.errands, |call| Ok(communicator.all_reduce(call)?))?;
        Ok(recorded)
    }

    /// A graph of a variant, or why this build has none. It runs without a graph first, so that kernels are loaded.
    fn variant(
        &mut self,
        variant: (lanesum::bench::Variant, Unguarded<T>),
    ) -> Result<Result<Recorded, String>, RankError> {
        match self.desk.enqueue_variant(self.communicator, variant, &self.errands) {
            Ok(()) => self.desk.finish()?,
            Err(RankError::Lanesum(lanesum::Error::Cuda(error @ CudaError::NoImage { .. }))) => {
                return Ok(Err(error.to_string()));
            }
            Err(error) => return Err(error),
        }
        let recorded = self.desk.record_variant(self.communicator, variant, &self.errands)?;
        Ok(Ok(recorded))
    }

    fn meet(&self) -> Result<(), RankError> {
        ran(&self.communicator.barrier()?).map(drop)
    }

    /// Runs all calls into poisoned outputs; where a result differs from the oracle's, says how.
    fn wrong(
        &mut self,
        kind: Kind,
        calls: impl FnOnce(&mut DeviceDesk<T>) -> Result<(), RankError>,
    ) -> Result<Option<String>, RankError> {
        if !kind.sums() {
            return Ok(None);
        }
        self.desk.poison()?;
        self.meet()?;
        calls(&mut self.desk)?;
        self.desk.finish()?;
        self.communicator.check()?;
        self.desk.fetch(&mut self.results)?;
        let used = self.errands.len().min(self.results.len());
        let judged = self.results.iter().take(used).enumerate();
        Ok(judged
            .map(|(pattern, result)| (pattern, self.patterns.judge(pattern, result).difference))
            .find_map(|(pattern, difference)| Some(format!("pattern {pattern}, {}", difference?))))
    }
}
