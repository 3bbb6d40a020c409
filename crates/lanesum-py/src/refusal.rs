//! What can be wrong with what the caller gave, before the library is asked.

use pyo3::prelude::*;

use crate::error::refused;

/// A tensor, a stream or a communicator that can't be used so. Each has an exception, a cause and a remedy.
#[derive(Debug)]
pub enum Refusal {
    /// Nothing that holds elements.
    NoTensor { found: String },
    /// A scalar of NumPy, which has no memory of its own.
    Scalar,
    /// An array of NumPy of which some elements do not count.
    Masked,
    /// Elements of another type.
    Dtype { found: String },
    /// Input and output of different types.
    Dtypes { input: String, output: String },
    /// Elements that do not lie one after the other.
    Strided,
    /// A view of torch's whose sign is turned only when it is read.
    Negated,
    /// Memory that may not be written.
    ReadOnly { found: String },
    /// An array that is never written.
    Immutable,
    /// The tensor takes part in a computation of gradients.
    RequiresGrad,
    /// A sparse tensor.
    Sparse { layout: String },
    /// Memory that the library knows nothing of.
    Place { found: String },
    /// Input and output in different memories.
    Places { input: String, output: String },
    /// On another GPU than the communicator.
    Foreign { found: usize, own: usize },
    /// A stream for memory of the host.
    HostStream,
    /// Nothing that names a stream.
    NoStream { found: String },
    /// The producer of the tensor refuses to show its memory.
    Producer { words: String },
    /// The producer broke the protocol.
    Protocol { what: &'static str },
    /// The communicator is closed.
    Closed,
    /// Another thread calls.
    Busy,
    /// A captured call has no end of its own.
    Captured,
}

impl Refusal {
    /// The class, and the case.
    fn name(&self) -> (&'static str, &'static str) {
        match self {
            Self::NoTensor { .. } => ("TensorTypeError", "no_tensor"),
            Self::Scalar => ("TensorTypeError", "scalar"),
            Self::Masked => ("TensorTypeError", "masked"),
            Self::Dtype { .. } => ("TensorTypeError", "dtype"),
            Self::Dtypes { .. } => ("TensorTypeError", "dtypes"),
            Self::Strided => ("TensorError", "strided"),
            Self::Negated => ("TensorError", "negated"),
            Self::ReadOnly { .. } => ("TensorError", "read_only"),
            Self::Immutable => ("TensorError", "immutable"),
            Self::RequiresGrad => ("TensorError", "requires_grad"),
            Self::Sparse { .. } => ("TensorError", "sparse"),
            Self::Place { .. } => ("DeviceError", "place"),
            Self::Places { .. } => ("DeviceError", "places"),
            Self::Foreign { .. } => ("DeviceError", "foreign_device"),
            Self::HostStream => ("TensorError", "host_stream"),
            Self::NoStream { .. } => ("TensorTypeError", "no_stream"),
            Self::Producer { .. } => ("TensorError", "producer"),
            Self::Protocol { .. } => ("TensorError", "protocol"),
            Self::Closed => ("ClosedError", "closed"),
            Self::Busy => ("BusyError", "busy"),
            Self::Captured => ("RefusedError", "captured"),
        }
    }

    fn cause(&self) -> String {
        match self {
            Self::NoTensor { found } => format!("an object of type {found} holds no tensor"),
            Self::Scalar => "a scalar of NumPy has no memory that could be shared".into(),
            Self::Masked => "a masked array has elements that do not count, and a reduction has none".into(),
            Self::Dtype { found } => {
                format!("the tensor's elements are {found}; float32, float16 and bfloat16 can be reduced")
            }
            Self::Dtypes { input, output } => format!("the tensor's elements are {input}, those of `out` {output}"),
            Self::Strided => "the tensor is not contiguous: its elements do not lie one after the other".into(),
            Self::Negated => "the tensor is a view with the sign turned, and its memory holds the other sign".into(),
            Self::ReadOnly { found } => format!("the {found} would be written, and its memory is read-only"),
            Self::Immutable => "a JAX array is never written, so it can't hold the result".into(),
            Self::RequiresGrad => "the tensor requires a gradient, and a reduction is no step of autograd".into(),
            Self::Sparse { layout } => format!("the tensor's layout is {layout}, not dense"),
            Self::Place { found } => {
                format!("the tensor is in memory of {found}; lanesum reduces memory of the host and of NVIDIA GPUs")
            }
            Self::Places { input, output } => format!("the tensor is on {input}, `out` on {output}"),
            Self::Foreign { found, own } => format!("the tensor is on GPU {found}, the communicator's is GPU {own}"),
            Self::HostStream => "a stream was given for a tensor in memory of the host".into(),
            Self::NoStream { found } => format!("an object of type {found} names no stream"),
            Self::Producer { words } => format!("the tensor's library does not show its memory: {words}"),
            Self::Protocol { what } => format!("the tensor's library breaks the protocol of its interface: {what}"),
            Self::Closed => "the communicator is closed".into(),
            Self::Busy => "another thread is in a call of this communicator".into(),
            Self::Captured => {
                "a call that was captured into a graph runs when the graph is launched, and has no end of its own"
                    .into()
            }
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::NoTensor { .. } => {
                "give a NumPy array, a torch tensor, or an object with __dlpack__, __cuda_array_interface__ or __array_interface__"
            }
            Self::Scalar => "give an array of it: `numpy.array(scalar)`",
            Self::Masked => "give `array.filled(0)` for a sum, or `array.data` if all elements count",
            Self::Dtype { .. } => "convert it, with `.astype(numpy.float32)` or `.to(torch.bfloat16)`",
            Self::Dtypes { .. } => "give an `out` of the tensor's dtype",
            Self::Strided => {
                "give `numpy.ascontiguousarray(tensor)` or `tensor.contiguous()`, and copy the result back if it is a view"
            }
            Self::Negated => "give `tensor.resolve_neg()`",
            Self::ReadOnly { .. } => "copy the tensor, or give another one as `out`",
            Self::Immutable => {
                "give a NumPy array as `out`: `out = numpy.empty_like(array)`, then `jax.numpy.asarray(out)`"
            }
            Self::RequiresGrad => "call under `torch.no_grad()`, or give `tensor.detach()`",
            Self::Sparse { .. } => "give `tensor.to_dense()`",
            Self::Place { .. } => "copy it there first",
            Self::Places { .. } => "give both in the same memory",
            Self::Foreign { .. } => "move the tensor, or make the communicator with the tensor's `device`",
            Self::HostStream => "leave `stream` out: a call on memory of the host is done when it returns",
            Self::NoStream { .. } => "give an integer handle, a torch.cuda.Stream or a cupy.cuda.Stream",
            Self::Producer { .. } => "mend what it names, or copy the tensor",
            Self::Protocol { .. } => "report it to that library, and copy the tensor to NumPy meanwhile",
            Self::Closed => "make a new one",
            Self::Busy => {
                "let one thread call after the other, in an order that is the same on all ranks, or give each a `channel()`"
            }
            Self::Captured => {
                "synchronize the stream that the graph was launched on, then call `check()` of the communicator"
            }
        }
    }
}

impl From<Refusal> for PyErr {
    fn from(refusal: Refusal) -> Self {
        let (class, kind) = refusal.name();
        Python::attach(|py| refused(py, class, kind, &refusal.cause(), refusal.hint()))
    }
}
