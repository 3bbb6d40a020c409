//! Calls: what C describes is issued, and the receipt handed over.

use std::ffi::c_void;
use std::mem::{offset_of, size_of};

use lanesum::cuda::RawStream;
use lanesum::{Buffers, Elements, Label, RawCall, RawMemory, Request};

use crate::boundary::{Measured, Place, answer, lent, read};
use crate::communicator::Communicator;
use crate::error::Error;
use crate::issued::Issued;
use crate::refusal::Refusal;
use crate::status::Status;
use crate::words::{Dtype, Memory, Operation};

/// What to reduce, and where. Begin with `LANESUM_CALL_INIT`, which sets the size, a sum, and memory of the host; the rest is 0, and a
/// dtype of 0 is refused. The library only reads it, during the call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// `sizeof(lanesum_call)`: later ABIs may have more fields.
    pub size: usize,
    /// First element of the input, at any alignment.
    pub input: *const c_void,
    /// First element of the output, at any alignment: the input itself, or disjoint from it.
    pub output: *mut c_void,
    /// Number of elements, not of bytes; the same on all ranks, and 0 will do.
    pub elements: u64,
    /// NULL, or a mark of the call: ranks whose calls carry different labels fail with both named, so that equal calls in another order are
    /// found out.
    pub label: *const u64,
    /// For memory of a GPU: a `cudaStream_t` or `CUstream` of its primary context, or NULL for the default stream. For memory of the host:
    /// NULL.
    pub stream: *mut c_void,
    /// One of `lanesum_dtype`.
    pub dtype: u32,
    /// One of `lanesum_operation`.
    pub operation: u32,
    /// One of `lanesum_memory`.
    pub memory: u32,
    /// 0.
    pub reserved: u32,
}

const _: () = assert!(offset_of!(Call, size) == 0 && size_of::<Call>() == 64);

// SAFETY: numbers and pointers, of which any bytes are a value, without gaps as asserted above; the size comes first.
unsafe impl Measured for Call {}

impl Call {
    /// The call as the library describes it.
    ///
    /// # Safety
    /// The label is NULL or a number.
    unsafe fn raw(&self) -> Result<RawCall, Refusal> {
        if self.reserved != 0 {
            return Err(Refusal::Reserved { what: "reserved" });
        }
        let memory = match Memory::read(self.memory)? {
            Memory::Host if !self.stream.is_null() => return Err(Refusal::HostStream),
            Memory::Host => RawMemory::Host,
            Memory::Device => RawMemory::Device(RawStream(self.stream)),
        };
        let label = match self.label.is_null() {
            true => None,
            // SAFETY: passed on from the caller.
            false => Some(Label::new(*unsafe { lent(self.label, "label") }?)),
        };
        Ok(RawCall {
            input: self.input.cast(),
            output: self.output.cast(),
            elements: Elements::new(self.elements),
            dtype: Dtype::read(self.dtype)?,
            operation: Operation::read(self.operation)?,
            label,
            memory,
        })
    }

    /// What is asked of the plan for it.
    ///
    /// # Safety
    /// As [`read`], and the label is NULL or a number.
    pub unsafe fn request(call: *const Self) -> Result<Request, Refusal> {
        // SAFETY: passed on from the caller.
        let call = unsafe { read(call, "call") }?;
        // SAFETY: passed on from the caller.
        let raw = unsafe { call.raw() }?;
        Ok(Request {
            operation: raw.operation,
            dtype: raw.dtype,
            elements: raw.elements,
            buffers: match raw.memory {
                RawMemory::Host => Buffers::Private,
                RawMemory::Device(_) => Buffers::Device,
            },
            label: raw.label,
        })
    }
}

/// A place for a receipt, if the caller wants one.
///
/// # Safety
/// As the head of `boundary` says.
unsafe fn wanted(issued: *mut *mut Issued) -> Result<Option<Place<*mut Issued>>, Refusal> {
    match issued.is_null() {
        true => Ok(None),
        // SAFETY: passed on from the caller.
        false => unsafe { Place::of_handle(issued, "issued") }.map(Some),
    }
}

fn receipt(place: Option<Place<*mut Issued>>, communicator: &Communicator, issued: lanesum::Issued) {
    if let Some(place) = place {
        place.hand_over(Issued::of(issued, communicator.process()));
    }
}

/// Combines each element over all ranks; every rank gets the same bits. 16-bit elements are summed in f32 and rounded once. On success
/// the named reduction was issued: on memory of the host it is done; on memory of a GPU it is enqueued on the stream, where work behind it
/// sees the result, or recorded into the graph that the stream is captured into.
///
/// `issued` may be NULL. Else on success `*issued` is the caller's, who ends it with `lanesum_issued_free`, and on failure NULL.
///
/// The memory is as large as `call` says, and nobody else touches the output, or writes to the input, before the call has completed; for
/// a call that is captured, while its graph runs. A stream lives until the communicator's next call, and as long as receipts of its calls
/// are asked. On memory of the host the calling thread waits for peers, each time for the deadline at most.
///
/// The output is untouched after `LANESUM_STATUS_REFUSED`, `LANESUM_STATUS_FORKED`, `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_BUSY`,
/// `LANESUM_STATUS_BUFFER`, `LANESUM_STATUS_DTYPE` and `LANESUM_STATUS_ARGUMENT`; it holds NaN after `LANESUM_STATUS_RANK_LOST`,
/// `LANESUM_STATUS_LATE`, `LANESUM_STATUS_MISMATCH`, `LANESUM_STATUS_FAULT` and `LANESUM_STATUS_POISONED`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_all_reduce(
    communicator: *const Communicator,
    call: *const Call,
    issued: *mut *mut Issued,
    error: *mut *mut Error,
) -> Status {
    let work = || {
        // SAFETY: by the head of lanesum.h.
        let place = unsafe { wanted(issued) }?;
        // SAFETY: by the head of lanesum.h.
        let communicator = unsafe { lent(communicator, "communicator") }?;
        // SAFETY: by the head of lanesum.h.
        let call = unsafe { read(call, "call") }?;
        // SAFETY: by the comment of its field.
        let raw = unsafe { call.raw() }?;
        // SAFETY: dtype and place of the memory were checked, NULL, overflow and overlap the library checks; that the memory is there,
        // and that it and the stream live until the call has completed, is what the comment above asks.
        let done = communicator.with(|communicator| unsafe { communicator.all_reduce_raw(&raw) })?;
        receipt(place, communicator, done);
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, work) }
}

/// Returns when every rank has called it. `issued` is as with `lanesum_all_reduce`.
///
/// Fails as `lanesum_all_reduce`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_barrier(
    communicator: *const Communicator,
    issued: *mut *mut Issued,
    error: *mut *mut Error,
) -> Status {
    let work = || {
        // SAFETY: by the head of lanesum.h.
        let place = unsafe { wanted(issued) }?;
        // SAFETY: by the head of lanesum.h.
        let communicator = unsafe { lent(communicator, "communicator") }?;
        let done = communicator.with(lanesum::Communicator::barrier)?;
        receipt(place, communicator, done);
        Ok(())
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, work) }
}

/// Tells whether calls on streams, or launches of graphs, have met a fault meanwhile; never waits. Calls ask by themselves.
///
/// Fails with `LANESUM_STATUS_POISONED` and the first fault, with `LANESUM_STATUS_CLOSED`, `LANESUM_STATUS_FORKED`, `LANESUM_STATUS_BUSY`
/// or `LANESUM_STATUS_ARGUMENT`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lanesum_check(communicator: *const Communicator, error: *mut *mut Error) -> Status {
    let work = || {
        // SAFETY: by the head of lanesum.h.
        let communicator = unsafe { lent(communicator, "communicator") }?;
        communicator.with(lanesum::Communicator::check)
    };
    // SAFETY: by the head of lanesum.h.
    unsafe { answer(error, work) }
}
