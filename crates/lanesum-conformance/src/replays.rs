//! The calls of a case in CUDA graphs: each captured once, replayed with inputs that change, alone or among eager calls.
#![expect(unsafe_code, reason = "launches graphs, whose buffers must still exist")]

use lanesum::cuda::{Graph, Stream};
use lanesum::{Communicator, Error, Issued, Refused};

use crate::case::{Case, Launch};
use crate::judge::ReceiptJudge;
use crate::on_device::DeviceDesk;
use crate::sample::Sample;
use crate::tables::{Difference, Tables};
use crate::verdict::Failure;

/// Graphs that take turns, and an eager call before each replay where the case asks for it. The memory that they name is the
/// caller's, and that of `beside`.
pub(crate) struct Replays<T: Sample> {
    graphs: Vec<Graph>,
    beside: Option<DeviceDesk<T>>,
    stream: Stream,
}

impl<T: Sample> Replays<T> {
    /// Captures the call that `record` makes on the stream. `None` where the case wants no graph.
    pub(crate) fn of(
        case: &Case,
        (communicator, stream): (&Communicator, &Stream),
        receipts: &mut ReceiptJudge,
        mut record: impl FnMut() -> Result<Issued, Error>,
    ) -> Result<Option<Replays<T>>, Failure> {
        let (graphs, beside) = match case.launch {
            Launch::Eager => return Ok(None),
            Launch::Replayed => (1, None),
            Launch::Mixed => {
                let elements = 500 + (case.seed % 300) as usize;
                let desk = DeviceDesk::on(communicator, stream.clone(), elements, 0, None)?;
                (2, Some(desk))
            }
        };
        let mut capture = || -> Result<(Graph, Issued), Error> {
            let capture = stream.begin_capture()?;
            let issued = record()?;
            Ok((capture.finish()?, issued))
        };
        let captured = (0..graphs).map(|_| {
            let (graph, issued) = capture().map_err(|error| Failure::Call {
                call: 0,
                error: format!("while it was captured: {error}"),
            })?;
            receipts.judge_captured(&issued).map(|()| graph)
        });
        Ok(Some(Replays {
            graphs: captured.collect::<Result<_, _>>()?,
            beside,
            stream: stream.clone(),
        }))
    }

    /// Enqueues the replay that is the case's call of this number, behind the eager one where there is one.
    pub(crate) fn play(
        &mut self,
        (case, communicator): (&Case, &Communicator),
        tables: &Tables<T>,
        call: u32,
    ) -> Result<(), Error> {
        if let Some(desk) = &mut self.beside {
            let rank = communicator.rank().index();
            tables.fill(rank, beside(call), desk.input.host.inner_mut());
            desk.bring()?;
            let request = desk.request().ok_or(Refused::Lengths { input: 0, output: 0 })?;
            // The replay behind it is waited for.
            drop(communicator.all_reduce(request.operation(case.operation))?);
        }
        if let Some(graph) = self.graphs.get(call as usize % self.graphs.len().max(1)) {
            // SAFETY: the buffers of the captured call live in the case's desk, which outlives this value, and are looked at only
            // once the stream is done.
            unsafe { graph.launch(&self.stream)? };
        }
        Ok(())
    }

    /// Once the stream is done: the result of the eager call.
    pub(crate) fn judge_beside(&mut self, tables: &Tables<T>, call: u32) -> Result<Option<Difference>, Error> {
        let Some(desk) = &mut self.beside else { return Ok(None) };
        desk.fetch()?;
        Ok(tables.judge(beside(call), desk.input.host.inner()))
    }
}

/// Inputs of an eager call differ from those of the replays around it.
const fn beside(call: u32) -> u32 {
    500 + call
}
