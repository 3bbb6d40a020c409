//! Buffers of a case on the GPU, each with a copy on the host: the copy is filled, brought over, and compared afterwards, guards too.

use lanesum::cuda::{Device, DeviceBuffer, Stream};
use lanesum::{AllReduce, Communicator, Error};

use crate::guarded::Guarded;
use crate::sample::Sample;
use crate::verdict::Failure;

/// A buffer in both places.
pub(crate) struct Twin<T: Sample> {
    pub(crate) host: Guarded<T>,
    device: DeviceBuffer<T>,
}

/// The buffers of a case, and the stream that orders what is done with them.
pub(crate) struct DeviceDesk<T: Sample> {
    pub(crate) input: Twin<T>,
    /// `None`: the result goes over the input.
    pub(crate) output: Option<Twin<T>>,
    stream: Stream,
}

fn unsuitable(reason: String) -> Failure {
    Failure::Unsuitable { reason }
}

fn device_of(communicator: &Communicator) -> Result<&Device, Failure> {
    communicator
        .device()
        .ok_or_else(|| unsuitable("no GPU is attached".to_owned()))
}

impl<T: Sample> Twin<T> {
    fn new(device: &Device, elements: usize, misalignment: usize) -> Result<Twin<T>, Error> {
        let host = Guarded::for_copies(elements, misalignment);
        let device = DeviceBuffer::new(device, host.cells().len())?;
        Ok(Twin { host, device })
    }

    fn bring(&mut self, stream: &Stream) -> Result<(), Error> {
        Ok(self.device.copy_from(self.host.cells(), stream)?)
    }

    fn fetch(&mut self, stream: &Stream) -> Result<(), Error> {
        Ok(self.device.copy_to(self.host.cells_mut(), stream)?)
    }
}

impl<T: Sample> DeviceDesk<T> {
    pub(crate) fn new(
        communicator: &Communicator,
        elements: usize,
        input_at: usize,
        output_at: Option<usize>,
    ) -> Result<DeviceDesk<T>, Failure> {
        let device = device_of(communicator)?;
        let stream = Stream::new(device).map_err(|error| unsuitable(error.to_string()))?;
        DeviceDesk::on(communicator, stream, elements, input_at, output_at)
    }

    /// As [`DeviceDesk::new`], with a stream that others use too.
    pub(crate) fn on(
        communicator: &Communicator,
        stream: Stream,
        elements: usize,
        input_at: usize,
        output_at: Option<usize>,
    ) -> Result<DeviceDesk<T>, Failure> {
        let device = device_of(communicator)?;
        let made = |error: Error| unsuitable(error.to_string());
        let output = output_at.map(|at| Twin::new(device, elements, at)).transpose();
        Ok(DeviceDesk {
            input: Twin::new(device, elements, input_at).map_err(made)?,
            output: output.map_err(made)?,
            stream,
        })
    }

    /// The stream that orders all of it.
    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Brings what the host copies hold.
    pub(crate) fn bring(&mut self) -> Result<(), Error> {
        self.input.bring(&self.stream)?;
        self.output.as_mut().map_or(Ok(()), |output| output.bring(&self.stream))
    }

    /// Fetches everything back.
    pub(crate) fn fetch(&mut self) -> Result<(), Error> {
        self.input.fetch(&self.stream)?;
        self.output.as_mut().map_or(Ok(()), |output| output.fetch(&self.stream))
    }

    /// The call on the part between the guards.
    pub(crate) fn request(&mut self) -> Option<AllReduce<'_, T>> {
        let range = self.input.host.range();
        Some(match &mut self.output {
            None => AllReduce::device(self.input.device.slice_mut(range)?, &self.stream),
            Some(output) => {
                let to = output.host.range();
                AllReduce::device_to(
                    self.input.device.slice(range)?,
                    output.device.slice_mut(to)?,
                    &self.stream,
                )
            }
        })
    }
}
