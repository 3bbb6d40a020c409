//! What the caller gave as a tensor: where its elements are, how many, and of which type.
//!
//! Four interfaces are tried, the cheapest first: torch's own, `__cuda_array_interface__`, `__array_interface__` (NumPy, also with the
//! bfloat16 of ml_dtypes, which DLPack can't export), then DLPack.

use lanesum::Dtype;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::dlpack;
use crate::refusal::Refusal;
use crate::torch;

/// A dense tensor of a type that can be reduced.
#[derive(Debug)]
pub struct Tensor<'py> {
    /// Address of the first element; anything where there is none.
    pub address: usize,
    /// How many.
    pub elements: u64,
    /// Of which type.
    pub dtype: Dtype,
    /// Where.
    pub place: Place,
    /// Why it may not be written, if so.
    pub unwritable: Option<Unwritable>,
    /// What keeps the memory shown, as long as it is looked at.
    pub capsule: Option<Bound<'py, PyAny>>,
}

/// Where memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the host's memory.
    Host,
    /// In a GPU's.
    Gpu {
        /// Number of the GPU, where its library tells it.
        ordinal: Option<usize>,
        /// The stream that orders the call.
        stream: usize,
    },
}

impl Place {
    fn describe(self) -> String {
        match self {
            Self::Host => "the host".into(),
            Self::Gpu { ordinal: None, .. } => "a GPU".into(),
            Self::Gpu {
                ordinal: Some(ordinal), ..
            } => format!("GPU {ordinal}"),
        }
    }
}

/// Why memory may not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwritable {
    /// Its library says so.
    ReadOnly,
    /// Its library never writes arrays.
    Immutable,
}

impl<'py> Tensor<'py> {
    /// Reads an object. `stream` is the caller's own; without it GPU memory is ordered by the stream that its library names.
    pub fn read(object: &Bound<'py, PyAny>, stream: Option<usize>) -> PyResult<Self> {
        if let Some(tensor) = torch::read(object, stream)? {
            return Ok(tensor);
        }
        let py = object.py();
        if let Some(interface) = object.getattr_opt(intern!(py, "__cuda_array_interface__"))? {
            return Self::of_interface(object, &interface, |interface| {
                gpu_of_interface(object, interface, stream)
            });
        }
        if is_numpys(object, intern!(py, "numpy"), intern!(py, "generic"))? {
            return Err(Refusal::Scalar.into());
        }
        if is_numpys(object, intern!(py, "numpy.ma"), intern!(py, "MaskedArray"))? {
            return Err(Refusal::Masked.into());
        }
        if let Some(interface) = object.getattr_opt(intern!(py, "__array_interface__"))? {
            return Self::of_interface(object, &interface, |_| Ok(Place::Host));
        }
        if object.hasattr(intern!(py, "__dlpack__"))? {
            return Self::of_dlpack(object, stream);
        }
        Err(Refusal::NoTensor {
            found: type_name(object),
        }
        .into())
    }

    /// From NumPy's array interface, or CUDA's, which has the same words.
    fn of_interface(
        object: &Bound<'py, PyAny>,
        interface: &Bound<'py, PyAny>,
        place: impl FnOnce(&Bound<'py, PyDict>) -> PyResult<Place>,
    ) -> PyResult<Self> {
        let py = object.py();
        let broken = |_: PyErr| Refusal::Protocol {
            what: "an entry of its array interface is not what it should be",
        };
        let interface = interface.cast::<PyDict>().map_err(|error| broken(error.into()))?;
        let entry = |name| {
            interface.get_item(name)?.ok_or_else(|| {
                PyErr::from(Refusal::Protocol {
                    what: "its array interface lacks an entry",
                })
            })
        };
        let typestr: String = entry(intern!(py, "typestr"))?.extract().map_err(broken)?;
        let dtype = dtype_of_typestr(object, &typestr)?;
        // Anything else may claim a length that no memory holds.
        let shape = entry(intern!(py, "shape"))?;
        let shape = shape.cast::<PyTuple>().map_err(|error| broken(error.into()))?;
        let shape: Vec<i64> = shape.extract().map_err(broken)?;
        let (address, read_only): (usize, bool) = entry(intern!(py, "data"))?.extract().map_err(broken)?;
        let strides: Option<Vec<i64>> = match interface.get_item(intern!(py, "strides"))? {
            Some(strides) => strides.extract().map_err(broken)?,
            None => None,
        };
        Ok(Self {
            address,
            elements: elements(&shape, strides.as_deref(), dtype.size() as i64)?,
            dtype,
            place: place(interface)?,
            unwritable: read_only.then_some(Unwritable::ReadOnly),
            capsule: None,
        })
    }

    fn of_dlpack(object: &Bound<'py, PyAny>, stream: Option<usize>) -> PyResult<Self> {
        let py = object.py();
        let (kind, ordinal) = dlpack_device(&object.getattr(intern!(py, "__dlpack_device__"))?)?;
        let place = place_of_dlpack(kind, ordinal, stream)?;
        let capsule = ask(object, place)?;
        let view = dlpack::view(&capsule).map_err(|what| Refusal::Protocol { what })?;
        if (view.device.kind, view.device.ordinal) != (kind, ordinal) {
            let what = "its __dlpack_device__ names another device than its capsule";
            return Err(Refusal::Protocol { what }.into());
        }
        Ok(Self {
            address: view.address,
            elements: elements(view.shape, view.strides, 1)?,
            dtype: dtype_of_dlpack(view.dtype)?,
            place,
            unwritable: unwritable(object, view.read_only)?,
            capsule: Some(capsule),
        })
    }

    /// The stream that orders a call on it; none for memory of the host, where calls are done when they return.
    pub fn stream(&self) -> Option<usize> {
        match self.place {
            Place::Host => None,
            Place::Gpu { stream, .. } => Some(stream),
        }
    }

    /// Whether the result may be written here; `name` says what this is to the caller.
    pub fn writable(&self, name: &'static str) -> Result<(), Refusal> {
        match self.unwritable {
            None => Ok(()),
            Some(Unwritable::Immutable) => Err(Refusal::Immutable),
            Some(Unwritable::ReadOnly) => Err(Refusal::ReadOnly { found: name.into() }),
        }
    }

    /// Whether a result of this tensor may be written to `out`. Lengths are the library's to compare.
    pub fn fits(&self, out: &Self) -> Result<(), Refusal> {
        if self.dtype != out.dtype {
            return Err(Refusal::Dtypes {
                input: python_name(self.dtype).into(),
                output: python_name(out.dtype).into(),
            });
        }
        let same = match (self.place, out.place) {
            (Place::Host, Place::Host) => true,
            (Place::Gpu { ordinal: one, .. }, Place::Gpu { ordinal: other, .. }) => {
                one.zip(other).is_none_or(|(one, other)| one == other)
            }
            (Place::Host, Place::Gpu { .. }) | (Place::Gpu { .. }, Place::Host) => false,
        };
        if same {
            return Ok(());
        }
        Err(Refusal::Places {
            input: self.place.describe(),
            output: out.place.describe(),
        })
    }
}

/// The elements of a dense tensor; `unit` is what strides count an element as.
pub fn elements(shape: &[i64], strides: Option<&[i64]>, unit: i64) -> Result<u64, Refusal> {
    let what = "its shape is impossible";
    let impossible = || Refusal::Protocol { what };
    if shape.iter().any(|&length| length < 0) || strides.is_some_and(|strides| strides.len() != shape.len()) {
        return Err(impossible());
    }
    if shape.contains(&0) {
        return Ok(0);
    }
    let mut dense = unit;
    for (axis, &length) in shape.iter().enumerate().rev() {
        let stride = strides.and_then(|strides| strides.get(axis));
        if length != 1 && stride.is_some_and(|&stride| stride != dense) {
            return Err(Refusal::Strided);
        }
        dense = dense.checked_mul(length).ok_or_else(impossible)?;
    }
    u64::try_from(dense / unit.max(1)).map_err(|_| impossible())
}

/// The type of an object, as people write it.
pub fn type_name(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().fully_qualified_name();
    // Not `to_string`, which lets handlers of signals run and drops what they raise.
    name.map_or_else(|_| "unknown".into(), |name| name.to_string_lossy().into_owned())
}

/// A type as NumPy and torch call it.
pub const fn python_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "float32",
        Dtype::F16 => "float16",
        Dtype::Bf16 => "bfloat16",
    }
}

fn dtype_of_typestr(object: &Bound<'_, PyAny>, typestr: &str) -> PyResult<Dtype> {
    match typestr {
        "<f4" => return Ok(Dtype::F32),
        "<f2" => return Ok(Dtype::F16),
        _ => {}
    }
    let py = object.py();
    let dtype = object.getattr_opt(intern!(py, "dtype"))?;
    let name = match &dtype {
        Some(dtype) => dtype.getattr_opt(intern!(py, "name"))?,
        None => None,
    };
    let name = name.and_then(|name| name.extract::<String>().ok());
    // NumPy knows the type of ml_dtypes as two bytes with a name.
    if name.as_deref() == Some("bfloat16") && typestr.ends_with('2') && !typestr.starts_with('>') {
        return Ok(Dtype::Bf16);
    }
    let found = match name {
        Some(name) if typestr.starts_with('>') => format!("{name} in big-endian order"),
        Some(name) => name,
        None => typestr.to_owned(),
    };
    Err(Refusal::Dtype { found }.into())
}

/// The type of an element, as DLPack says it.
pub fn dtype_of_dlpack(dtype: dlpack::DataType) -> Result<Dtype, Refusal> {
    const FLOAT: u8 = 2;
    const BFLOAT: u8 = 4;
    match (dtype.code, dtype.bits, dtype.lanes) {
        (FLOAT, 32, 1) => Ok(Dtype::F32),
        (FLOAT, 16, 1) => Ok(Dtype::F16),
        (BFLOAT, 16, 1) => Ok(Dtype::Bf16),
        (code, bits, lanes) => {
            let name = ["int", "uint", "float", "opaque", "bfloat", "complex", "bool"]
                .get(usize::from(code))
                .map_or_else(|| format!("type {code} of DLPack with bits: "), |&name| name.to_owned());
            let lanes = if lanes == 1 { String::new() } else { format!("x{lanes}") };
            Err(Refusal::Dtype {
                found: format!("{name}{bits}{lanes}"),
            })
        }
    }
}

/// The GPU of a CUDA array interface, which does not name it: where the object speaks DLPack, that does.
fn gpu_of_interface(
    object: &Bound<'_, PyAny>,
    interface: &Bound<'_, PyDict>,
    stream: Option<usize>,
) -> PyResult<Place> {
    let py = object.py();
    let ordinal = match object.getattr_opt(intern!(py, "__dlpack_device__"))? {
        Some(device) => {
            let (_kind, ordinal) = dlpack_device(&device)?;
            usize::try_from(ordinal).ok()
        }
        None => None,
    };
    let stream = match (stream, interface.get_item(intern!(py, "stream"))?) {
        (Some(stream), _) => stream,
        (None, Some(stream)) => {
            let what = "the stream of its array interface is no handle";
            let handle: Result<Option<usize>, PyErr> = stream.extract();
            handle.map_err(|_| Refusal::Protocol { what })?.unwrap_or(0)
        }
        (None, None) => 0,
    };
    Ok(Place::Gpu { ordinal, stream })
}

/// What `__dlpack_device__` answers: the kind of device, and its number.
fn dlpack_device(method: &Bound<'_, PyAny>) -> PyResult<(i32, i32)> {
    let what = "its __dlpack_device__ gives no pair of numbers";
    method.call0()?.extract().map_err(|_| Refusal::Protocol { what }.into())
}

/// Where memory is, as DLPack says it; on a GPU ordered by `stream`, or the default stream.
pub fn place_of_dlpack(kind: i32, ordinal: i32, stream: Option<usize>) -> Result<Place, Refusal> {
    const CPU: i32 = 1;
    const CUDA: i32 = 2;
    const CUDA_HOST: i32 = 3;
    const CUDA_MANAGED: i32 = 13;
    match kind {
        CPU | CUDA_HOST => Ok(Place::Host),
        CUDA | CUDA_MANAGED => Ok(Place::Gpu {
            ordinal: usize::try_from(ordinal).ok(),
            stream: stream.unwrap_or(0),
        }),
        other => Err(Refusal::Place {
            found: format!("DLPack's device type {other}"),
        }),
    }
}

/// Asks for a capsule, with a version if the library knows that. For GPU memory the library lets the stream wait for what it still does.
fn ask<'py>(object: &Bound<'py, PyAny>, place: Place) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let words = PyDict::new(py);
    match place {
        Place::Host => {}
        // The protocol's number for the default stream is 1.
        Place::Gpu { stream, .. } => words.set_item(intern!(py, "stream"), stream.max(1))?,
    }
    let plain = words.copy()?;
    words.set_item(intern!(py, "max_version"), (dlpack::MAJOR, 0))?;
    let method = object.getattr(intern!(py, "__dlpack__"))?;
    let none = PyTuple::empty(py);
    let capsule = match method.call(&none, Some(&words)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => method.call(&none, Some(&plain)),
        answer => answer,
    };
    capsule.map_err(|error| match error.is_instance_of::<PyBufferError>(py) {
        true => {
            let words = match error.value(py).str() {
                Ok(words) => words.to_string_lossy().into_owned(),
                Err(raised) => return raised,
            };
            let refused = PyErr::from(Refusal::Producer { words });
            refused.set_cause(py, Some(error));
            refused
        }
        false => error,
    })
}

/// Whether an object is of this class of NumPy's: a scalar shows an array of its own that is gone at once, a masked array also what is masked.
fn is_numpys<'py>(
    object: &Bound<'py, PyAny>,
    module: &Bound<'py, PyString>,
    class: &Bound<'py, PyString>,
) -> PyResult<bool> {
    match loaded(object.py(), module)?.getattr_opt(class)? {
        Some(class) => object.is_instance(&class),
        None => Ok(false),
    }
}

/// A module, if the process has imported it, else None.
pub fn loaded<'py>(py: Python<'py>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || {
        let modules = py.import("sys")?.getattr("modules")?;
        Ok::<_, PyErr>(modules.cast_into::<PyDict>()?.unbind())
    })?;
    let module = modules.bind(py).get_item(name)?;
    Ok(module.unwrap_or_else(|| py.None().into_bound(py)))
}

/// JAX exports arrays without saying that they must not be written.
fn unwritable(object: &Bound<'_, PyAny>, read_only: bool) -> PyResult<Option<Unwritable>> {
    let py = object.py();
    if let Some(array) = loaded(py, intern!(py, "jax"))?.getattr_opt(intern!(py, "Array"))?
        && object.is_instance(&array)?
    {
        return Ok(Some(Unwritable::Immutable));
    }
    Ok(read_only.then_some(Unwritable::ReadOnly))
}
