//! torch's tensors, asked directly: cheaper than DLPack, and the only way to see gradients and layouts. torch is never imported: who
//! gives a tensor has done so.

use lanesum::Dtype;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::exchange::Exchange;
use crate::refusal::Refusal;
use crate::tensor::{Place, Tensor, dtype_of_dlpack, elements, loaded, place_of_dlpack};

/// What is asked of torch again and again.
struct Torch {
    tensor: Py<PyAny>,
    float32: Py<PyAny>,
    float16: Py<PyAny>,
    bfloat16: Py<PyAny>,
    strided: Py<PyAny>,
    is_grad_enabled: Py<PyAny>,
    current_stream: CurrentStream,
    /// Faster for tensors of the class itself, from torch 2.10 on.
    exchange: Option<Exchange>,
}

/// How the current stream is asked for.
enum CurrentStream {
    /// A function that gives the handle; torch's own compiled code uses it.
    Raw(Py<PyAny>),
    /// The public one, which makes an object.
    Object(Py<PyAny>),
}

static TORCH: PyOnceLock<Torch> = PyOnceLock::new();

impl Torch {
    /// torch, where the process has it.
    fn loaded(py: Python<'_>) -> PyResult<Option<&'static Torch>> {
        if let Some(torch) = TORCH.get(py) {
            return Ok(Some(torch));
        }
        let module = loaded(py, intern!(py, "torch"))?;
        // None, or a module that is being imported.
        if !module.hasattr(intern!(py, "bfloat16"))? || !module.hasattr(intern!(py, "cuda"))? {
            return Ok(None);
        }
        TORCH.get_or_try_init(py, || Self::of(&module)).map(Some)
    }

    fn of(module: &Bound<'_, PyAny>) -> PyResult<Self> {
        let get = |name: &str| module.getattr(name).map(Bound::unbind);
        let raw = module.getattr("_C")?.getattr_opt("_cuda_getCurrentRawStream")?;
        Ok(Self {
            exchange: Exchange::of(&module.getattr("Tensor")?)?,
            tensor: get("Tensor")?,
            float32: get("float32")?,
            float16: get("float16")?,
            bfloat16: get("bfloat16")?,
            strided: get("strided")?,
            is_grad_enabled: get("is_grad_enabled")?,
            current_stream: match raw {
                Some(raw) => CurrentStream::Raw(raw.unbind()),
                None => CurrentStream::Object(module.getattr("cuda")?.getattr("current_stream")?.unbind()),
            },
        })
    }

    fn dtype(&self, dtype: &Bound<'_, PyAny>) -> PyResult<Dtype> {
        let known = [
            (&self.bfloat16, Dtype::Bf16),
            (&self.float16, Dtype::F16),
            (&self.float32, Dtype::F32),
        ];
        let found = known.into_iter().find(|(torchs, _)| dtype.is(*torchs));
        match found {
            Some((_, dtype)) => Ok(dtype),
            None => Err(Refusal::Dtype {
                found: dtype.str()?.to_string_lossy().into_owned(),
            }
            .into()),
        }
    }

    /// A tensor of torch's own class, by its exchange API. None where there is anything to refuse: the slower way finds words for it.
    fn shown<'py>(&self, object: &Bound<'py, PyAny>, stream: Option<usize>) -> PyResult<Option<Tensor<'py>>> {
        let py = object.py();
        let Some(exchange) = &self.exchange else {
            return Ok(None);
        };
        if !object.get_type().is(&self.tensor) || object.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
            return Ok(None);
        }
        let shown = exchange.view(object, |view| {
            let place = place_of_dlpack(view.device.kind, view.device.ordinal, stream).ok()?;
            let tensor = Tensor {
                address: view.address,
                elements: elements(view.shape, view.strides, 1).ok()?,
                dtype: dtype_of_dlpack(view.dtype).ok()?,
                place,
                unwritable: None,
                capsule: None,
            };
            Some((tensor, view.device))
        });
        let Some((tensor, device)) = shown else { return Ok(None) };
        if object.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
            return Ok(None);
        }
        let place = match (tensor.place, stream) {
            (Place::Gpu { ordinal, .. }, None) => Place::Gpu {
                ordinal,
                stream: exchange.stream(py, device)?,
            },
            (place, _) => place,
        };
        Ok(Some(Tensor { place, ..tensor }))
    }

    fn current_stream(&self, py: Python<'_>, device: usize) -> PyResult<usize> {
        match &self.current_stream {
            CurrentStream::Raw(function) => function.bind(py).call1((device,))?.extract(),
            CurrentStream::Object(function) => {
                let stream = function.bind(py).call1((device,))?;
                stream.getattr(intern!(py, "cuda_stream"))?.extract()
            }
        }
    }
}

/// Reads an object, if it is a tensor of torch. `stream` is the caller's own.
pub fn read<'py>(object: &Bound<'py, PyAny>, stream: Option<usize>) -> PyResult<Option<Tensor<'py>>> {
    let py = object.py();
    let Some(torch) = Torch::loaded(py)? else {
        return Ok(None);
    };
    if let Some(tensor) = torch.shown(object, stream)? {
        return Ok(Some(tensor));
    }
    if !object.is_instance(torch.tensor.bind(py))? {
        return Ok(None);
    }
    let layout = object.getattr(intern!(py, "layout"))?;
    if !layout.is(&torch.strided) {
        let layout = layout.str()?.to_string_lossy().into_owned();
        return Err(Refusal::Sparse { layout }.into());
    }
    let dtype = torch.dtype(&object.getattr(intern!(py, "dtype"))?)?;
    let place = place(torch, object, stream)?;
    if object.getattr(intern!(py, "requires_grad"))?.is_truthy()?
        && torch.is_grad_enabled.bind(py).call0()?.is_truthy()?
    {
        return Err(Refusal::RequiresGrad.into());
    }
    if !object.call_method0(intern!(py, "is_contiguous"))?.is_truthy()? {
        return Err(Refusal::Strided.into());
    }
    // A view whose sign is turned only when it is read: the memory holds the other sign.
    if object.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
        return Err(Refusal::Negated.into());
    }
    Ok(Some(Tensor {
        address: object.call_method0(intern!(py, "data_ptr"))?.extract()?,
        elements: object.call_method0(intern!(py, "numel"))?.extract()?,
        dtype,
        place,
        unwritable: None,
        capsule: None,
    }))
}

fn place(torch: &Torch, object: &Bound<'_, PyAny>, stream: Option<usize>) -> PyResult<Place> {
    let py = object.py();
    let device = object.getattr(intern!(py, "device"))?;
    let kind = device.getattr(intern!(py, "type"))?;
    match kind.extract::<String>()?.as_str() {
        "cpu" => Ok(Place::Host),
        "cuda" => {
            let ordinal: usize = device.getattr(intern!(py, "index"))?.extract()?;
            let stream = match stream {
                Some(stream) => stream,
                None => torch.current_stream(py, ordinal)?,
            };
            Ok(Place::Gpu {
                ordinal: Some(ordinal),
                stream,
            })
        }
        other => Err(Refusal::Place {
            found: format!("torch's device `{other}`"),
        }
        .into()),
    }
}
