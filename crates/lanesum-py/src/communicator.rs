//! One rank's communicator.
#![expect(unsafe_code, reason = "hands the addresses of Python's tensors to the library")]

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use lanesum::{Builder, Error, Label, Operation, Rank, Refused, Request};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::call::Addresses;
use crate::error::{Told, exception};
use crate::issued::{Issued, with_signals};
use crate::options;
use crate::refusal::Refusal;
use crate::reports;
use crate::stream;
use crate::tensor::Tensor;

/// One rank's end of a group of ranks that reduce together.
#[pyclass(frozen, module = "lanesum")]
#[derive(Debug)]
pub struct Communicator {
    /// None once it is closed. Locked while a call runs; who finds it locked is refused.
    inner: Mutex<Option<lanesum::Communicator>>,
    rank: usize,
    world: usize,
    device: Option<usize>,
    /// The process that joined.
    process: u32,
    /// Whether the caller has got an exception that says that the communicator is spent.
    told: Told,
}

/// Why a call did not succeed.
enum Failure {
    Refused(Refusal),
    Library(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl Communicator {
    fn of(communicator: lanesum::Communicator) -> Self {
        Self {
            rank: communicator.rank().index(),
            world: communicator.world().get(),
            device: communicator.device().map(lanesum::cuda::Device::ordinal),
            inner: Mutex::new(Some(communicator)),
            process: std::process::id(),
            told: Told::default(),
        }
    }

    fn join(py: Python<'_>, builder: Builder) -> PyResult<Self> {
        // Whoever interrupts this drops the token, and the ranks hear of it.
        let token = Arc::new(());
        let builder = builder.wanted_by(&token);
        with_signals(py, "lanesum-join", move || builder.join(), Some(token))?
            .map(Self::of)
            .map_err(|error| exception(py, &error))
    }

    /// Does something with the communicator, without the GIL.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&lanesum::Communicator) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            self.locked(|communicator| {
                let communicator = communicator.as_ref().ok_or(Failure::Refused(Refusal::Closed))?;
                Ok(work(communicator)?)
            })
        })
        .map_err(|failure| self.raised(py, failure))
    }

    /// Does something as the only caller.
    fn locked<T>(
        &self,
        work: impl FnOnce(&mut Option<lanesum::Communicator>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self.inner.try_lock() {
            Ok(mut communicator) => work(&mut communicator),
            Err(TryLockError::Poisoned(poisoned)) => work(&mut poisoned.into_inner()),
            // A child that was forked during a call: nobody is there who would unlock it.
            Err(TryLockError::WouldBlock) if self.process != std::process::id() => {
                Err(Failure::Library(Refused::Forked.into()))
            }
            Err(TryLockError::WouldBlock) => Err(Failure::Refused(Refusal::Busy)),
        }
    }

    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.locked(|communicator| match communicator.take() {
                Some(communicator) => Ok(communicator.close()?),
                None => Ok(()),
            })
        })
        .map_err(|failure| self.raised(py, failure))
    }

    fn raised(&self, py: Python<'_>, failure: Failure) -> PyErr {
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::Library(error) => self.told.exception(py, error),
        }
    }
}

#[pymethods]
impl Communicator {
    #[new]
    #[pyo3(signature = (rank, world, name, **options))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = options::rank)] rank: usize,
        #[pyo3(from_py_with = options::world)] world: usize,
        #[pyo3(from_py_with = options::name)] name: String,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Self::join(py, options::apply(Builder::new(rank, world, name), options)?)
    }

    /// Joins the ranks that a launcher started.
    #[staticmethod]
    #[pyo3(signature = (**options))]
    fn from_env(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let builder = Builder::from_env().map_err(|error| exception(py, &error))?;
        Self::join(py, options::apply(builder, options)?)
    }

    /// Joins the ranks of a process group of torch.distributed.
    #[staticmethod]
    #[pyo3(signature = (group = None, **options))]
    fn from_torch(
        py: Python<'_>,
        group: Option<Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let groups = py.import(intern!(py, "lanesum._groups"))?;
        let (rank, world, name, device): (usize, usize, String, Option<usize>) =
            groups.call_method1(intern!(py, "of_torch"), (group,))?.extract()?;
        let builder = Builder::new(rank, world, name);
        let builder = match device {
            Some(device) => builder.device(device),
            None => builder,
        };
        Self::join(py, options::apply(builder, options)?)
    }

    /// Joins the ranks of a communicator of mpi4py.
    #[staticmethod]
    #[pyo3(signature = (comm, **options))]
    fn from_mpi(py: Python<'_>, comm: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let groups = py.import(intern!(py, "lanesum._groups"))?;
        let (rank, world, name): (usize, usize, String) =
            groups.call_method1(intern!(py, "of_mpi"), (comm,))?.extract()?;
        Self::join(py, options::apply(Builder::new(rank, world, name), options)?)
    }

    /// Combines each element over all ranks.
    #[pyo3(signature = (tensor, op = None, out = None, stream = None, label = None))]
    fn all_reduce(
        &self,
        py: Python<'_>,
        tensor: &Bound<'_, PyAny>,
        op: Option<&Bound<'_, PyString>>,
        out: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = options::label)] label: Option<u64>,
    ) -> PyResult<Issued> {
        let operation = op.map_or(Ok(Operation::Sum), |op| options::word(op))?;
        let stream = stream.map(stream::handle).transpose()?;
        let input = Tensor::read(tensor, stream)?;
        // What the library of `out` still does is waited for by the stream that orders the call.
        let output = out
            .map(|out| Tensor::read(out, stream.or(input.stream())))
            .transpose()?;
        let call = Addresses {
            operation,
            label: label.map(Label::new),
            ..Addresses::of(py, (&input, output.as_ref()), stream, self.device)?
        };
        let issued = self.with(py, |communicator| {
            // SAFETY: the tensors were found dense, of this dtype and length, the output writable, and the caller holds references to
            // them; that nobody else touches them meanwhile, and that GPU memory and stream live until the call has completed, is what
            // docs/python.md asks of the caller, as every library of arrays does.
            unsafe { communicator.all_reduce_raw(&call.raw()) }
        })?;
        let capsules = [Some(input), output]
            .into_iter()
            .flatten()
            .filter_map(|tensor| tensor.capsule);
        // In place, the output is the input.
        let kept = capsules.chain(out.map(|_| tensor.clone())).map(Bound::unbind).collect();
        let target = out.unwrap_or(tensor).clone().unbind();
        Ok(Issued::of(issued, Some(target), kept, self.told.clone()))
    }

    /// Returns when every rank has called it.
    fn barrier(&self, py: Python<'_>) -> PyResult<Issued> {
        let issued = self.with(py, lanesum::Communicator::barrier)?;
        Ok(Issued::of(issued, None, Vec::new(), self.told.clone()))
    }

    /// Makes a communicator of each group of ranks that give the same colour.
    #[pyo3(signature = (color, key = 0))]
    fn split(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = options::color)] color: Option<u32>,
        #[pyo3(from_py_with = options::key)] key: u32,
    ) -> PyResult<Option<Self>> {
        let part = self.with(py, |communicator| communicator.split(color, key))?;
        Ok(part.map(Self::of))
    }

    /// A second communicator of the same ranks, to overlap with this one.
    fn channel(&self, py: Python<'_>) -> PyResult<Self> {
        self.with(py, lanesum::Communicator::channel).map(Self::of)
    }

    /// Raises what calls on a stream, or launches of a graph, have met meanwhile; never waits.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, lanesum::Communicator::check)
    }

    /// Leaves the communicator. Doing so again has no effect.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.leave(py)
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    /// Closes. An exception on its way is not hidden by what closing says, and what the caller was told before is not told again.
    #[pyo3(signature = (kind, _value, _traceback))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let told = self.told.already();
        match self.leave(py) {
            Err(_) if told || !kind.is_none() => Ok(()),
            outcome => outcome,
        }
    }

    /// This rank, from 0.
    #[getter]
    fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    #[getter]
    fn world_size(&self) -> usize {
        self.world
    }

    /// Number of the GPU whose memory is reduced; None if only the host's is.
    #[getter]
    fn device(&self) -> Option<usize> {
        self.device
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        let closed = py.detach(|| self.locked(|communicator| Ok(communicator.is_none())));
        closed.map_err(|failure| self.raised(py, failure))
    }

    /// The longest that one wait of a call may last, seconds.
    #[getter]
    fn deadline(&self, py: Python<'_>) -> PyResult<f64> {
        self.with(py, |communicator| Ok(communicator.deadline().as_secs_f64()))
    }

    #[setter]
    fn set_deadline(&self, py: Python<'_>, seconds: &Bound<'_, PyAny>) -> PyResult<()> {
        let deadline = options::seconds(seconds)?;
        self.with(py, |communicator| communicator.set_deadline(deadline))
    }

    /// The order in which elements are combined.
    #[getter]
    fn tree(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |communicator| Ok(communicator.tree().to_string()))
    }

    /// The instruction set that this rank sums with.
    #[getter]
    fn isa(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |communicator| Ok(communicator.isa()))
    }

    /// Why there is no GPU although the engine is `auto`.
    #[getter]
    fn without_device(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.with(py, |communicator| Ok(communicator.without_device().map(str::to_owned)))
    }

    /// Bytes of host memory that the ranks share, of all together.
    #[getter]
    fn memory(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |communicator| Ok(communicator.memory().get()))
    }

    /// Bytes of GPU memory that this rank has taken for itself.
    #[getter]
    fn device_memory(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |communicator| Ok(communicator.device_memory().get()))
    }

    /// How long joining took on this rank, seconds.
    #[getter]
    fn setup_time(&self, py: Python<'_>) -> PyResult<f64> {
        self.with(py, |communicator| Ok(communicator.setup_time().as_secs_f64()))
    }

    /// The ranks whose process is known to have ended, ascending.
    #[getter]
    fn lost_ranks(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        self.with(py, |communicator| {
            Ok(communicator.lost_ranks().into_iter().map(Rank::index).collect())
        })
    }

    /// The digest of the plan that all ranks agreed on.
    #[getter]
    fn plan_digest(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |communicator| Ok(communicator.plan().digest()))
    }

    /// What was observed of the host and its ranks.
    #[getter]
    fn topology<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let json = self.with(py, |communicator| reports::json(communicator.topology()))?;
        reports::loads(py, &json)
    }

    /// The decision for a tensor, or for so many elements, with all that was refused and why.
    #[pyo3(signature = (tensor, op = None, dtype = None, buffers = None))]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        tensor: &Bound<'py, PyAny>,
        op: Option<&Bound<'py, PyString>>,
        dtype: Option<&str>,
        buffers: Option<&Bound<'py, PyString>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let operation = op.map_or(Ok(Operation::Sum), |op| options::word(op))?;
        let request = reports::request(tensor, operation, dtype, buffers)?;
        let (text, facts) = self.with(py, |communicator| {
            let explanation = communicator.explain(&request);
            Ok((explanation.to_string(), reports::json(&explanation)?))
        })?;
        py.import(intern!(py, "lanesum._explain"))?
            .getattr(intern!(py, "Explanation"))?
            .call1((reports::loads(py, &facts)?, text))
    }

    /// The bytes from which NCCL is predicted to be faster; None where it never is.
    #[pyo3(signature = (dtype = "bfloat16", op = None))]
    fn delegate_from(&self, py: Python<'_>, dtype: &str, op: Option<&Bound<'_, PyString>>) -> PyResult<Option<u64>> {
        let operation = op.map_or(Ok(Operation::Sum), |op| options::word(op))?;
        let request = reports::on_device(operation, dtype)?;
        let from = self.with(py, |communicator| Ok(communicator.delegate_from(&request)))?;
        let length = |elements| Request { elements, ..request }.bytes().get();
        Ok(from.map(length))
    }

    /// What ran so far, and how long each peer was waited for, in seconds.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.with(py, |communicator| Ok(communicator.counters()))?;
        reports::counters(py, &counters)
    }

    fn __repr__(&self) -> String {
        let device = self.device.map_or_else(String::new, |device| format!(", GPU {device}"));
        format!("<lanesum.Communicator: rank {} of {}{device}>", self.rank, self.world)
    }
}

impl Drop for Communicator {
    /// Ending waits for what is on the device: other threads run meanwhile.
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(communicator) = inner.take() else { return };
        // The mutex lets it be lent to code without the GIL. Without an interpreter it ends with `last`.
        let last = Mutex::new(Some(communicator));
        Python::try_attach(|py| {
            py.detach(|| last.lock().unwrap_or_else(PoisonError::into_inner).take().map(drop));
        });
    }
}
