//! Calls by raw pointers to GPU memory.
#![allow(unsafe_code, reason = "that is what raw calls are")]

use lanesum::cuda::{DeviceBuffer, RawStream, Stream};
use lanesum::{Communicator, Elements, Error, Issued, RawCall, RawMemory, Refused, bf16};
use lanesum_plan::{Dtype, Operation};

use super::life_scenes::Place;

/// Bytes of device memory, so that a call may begin at any of them.
struct Bytes {
    buffer: DeviceBuffer<bf16>,
    length: usize,
}

impl Bytes {
    fn new(communicator: &Communicator, length: usize) -> Bytes {
        let buffer = DeviceBuffer::new(communicator.device().unwrap(), length.div_ceil(2)).unwrap();
        Bytes { buffer, length }
    }

    fn bring(&mut self, bytes: &[u8], stream: &Stream) {
        let pairs = bytes.chunks(2).map(|pair| bf16::from_le_bytes([pair[0], pair[1]]));
        self.buffer.copy_from(&pairs.collect::<Vec<_>>(), stream).unwrap();
    }

    fn fetch(&self, stream: &Stream) -> Vec<u8> {
        let mut pairs = vec![bf16::from_bits(0); self.length / 2];
        self.buffer.copy_to(&mut pairs, stream).unwrap();
        pairs.iter().flat_map(|pair| pair.to_le_bytes()).collect()
    }
}

fn raw(input: u64, output: u64, elements: usize, dtype: Dtype, stream: RawStream) -> RawCall {
    RawCall {
        input: std::ptr::without_provenance(input as usize),
        output: std::ptr::without_provenance_mut(output as usize),
        elements: Elements::new(elements as u64),
        dtype,
        operation: Operation::Sum,
        label: None,
        memory: RawMemory::Device(stream),
    }
}

fn issue(communicator: &Communicator, call: &RawCall) -> Result<Issued, Error> {
    // SAFETY: the scenes give memory of theirs that holds the elements, or what must be refused; they wait before they free it.
    unsafe { communicator.all_reduce_raw(call) }
}

fn number(dtype: Dtype, value: usize) -> Vec<u8> {
    let value = value as f32;
    match dtype {
        Dtype::F32 => value.to_le_bytes().to_vec(),
        Dtype::F16 => lanesum::f16::from_f32(value).to_le_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f32(value).to_le_bytes().to_vec(),
    }
}

/// Inputs and outputs at every byte of a word, in one buffer, with the bytes around them left alone.
pub fn at_odd_addresses(place: &Place) {
    const ELEMENTS: usize = 401;
    const GUARD: u8 = 0xA5;
    let communicator = place.join("odd");
    let stream = Stream::new(communicator.device().unwrap()).unwrap();
    // The default stream is the null pointer.
    let streams = [stream.raw(), RawStream(std::ptr::null_mut())];
    for dtype in Dtype::ALL {
        for (from, to) in [(1, 3), (2, 1), (3, 2), (0, 1), (1, 0), (3, 3)] {
            let size = ELEMENTS * dtype.size();
            let mut memory = Bytes::new(&communicator, 2 * size + 16);
            let (input_at, output_at) = (4 + from, 4 + from + size + 4 - from % 4 + to);
            let mut bytes = vec![GUARD; memory.length];
            let input = (0..ELEMENTS).flat_map(|i| number(dtype, i % 13 + place.rank));
            bytes.splice(input_at..input_at + size, input);
            memory.bring(&bytes, &stream);
            stream.synchronize(super::life_scenes::LONG).unwrap();
            let start = memory.buffer.address();
            let in_place = from == to;
            let target = if in_place { input_at } else { output_at };
            let call = raw(
                start + input_at as u64,
                start + target as u64,
                ELEMENTS,
                dtype,
                streams[usize::from(in_place)],
            );
            let issued = issue(&communicator, &call).unwrap();
            issued.receipt().unwrap().wait().map(|_| ()).unwrap();
            let sum = |i: usize| place.world * (i % 13) + place.world * (place.world - 1) / 2;
            bytes.splice(target..target + size, (0..ELEMENTS).flat_map(|i| number(dtype, sum(i))));
            assert_eq!(memory.fetch(&stream), bytes, "{dtype}, from {from} to {to}");
        }
    }
}

/// What is refused changes nothing: the next call is right, on all ranks, though one rank alone was refused.
pub fn refusals(place: &Place) {
    let communicator = place.join("refusals");
    let stream = Stream::new(communicator.device().unwrap()).unwrap();
    let buffer = DeviceBuffer::<f32>::new(communicator.device().unwrap(), 200).unwrap();
    let start = buffer.address();
    if place.rank == 0 {
        let refused = |input, output, elements| match issue(
            &communicator,
            &raw(input, output, elements, Dtype::F32, stream.raw()),
        ) {
            Err(Error::Refused(refused)) => refused,
            other => panic!("{other:?}"),
        };
        assert!(matches!(refused(0, start, 5), Refused::Null { elements: 5 }));
        assert!(matches!(refused(start, 0, 5), Refused::Null { elements: 5 }));
        assert!(matches!(refused(start, start + 4, 5), Refused::Overlap));
        assert!(matches!(refused(start + 19, start, 5), Refused::Overlap));
        assert!(matches!(refused(start, start, usize::MAX), Refused::TooLarge { .. }));
    }
    for (input, output, elements) in [(0, 0, 0), (start, 0, 0), (start, start + 400, 100)] {
        let issued = issue(&communicator, &raw(input, output, elements, Dtype::F32, stream.raw())).unwrap();
        issued.receipt().unwrap().wait().map(|_| ()).unwrap();
    }
    place.check(&communicator, &stream, 0);
}
