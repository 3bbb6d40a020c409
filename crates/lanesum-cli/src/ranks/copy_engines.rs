//! How a sum through host memory compares with what the GPUs' copy engines carry there.

use lanesum::{Communicator, Error};
use lanesum_plan::Path;

use super::message::Ran;

/// Bytes a microsecond that copy engines carry each way, while all ranks measure; `None` where no bytes go through host memory, or where
/// they could not be measured.
pub fn rate(communicator: &Communicator, ran: Ran) -> Result<Option<f64>, Error> {
    match ran.path {
        Path::None | Path::SharedMemory | Path::Peer => Ok(None),
        Path::HostStaged => lanesum::bench::copy_rate(communicator),
    }
}

/// The time that the copy engines would take, as a part of the time that a sum took. No algorithm that sums in the GPUs moves fewer
/// than 2 (W - 1) / W of the message each way.
pub fn share((bytes, ranks): (u64, usize), us: f64, rate: f64) -> f64 {
    let moved = 2.0 * bytes as f64 * (ranks as f64 - 1.0) / ranks as f64;
    moved / rate / us
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ranks_move_the_message_each_way_and_many_twice_that() {
        let rate = 50_000.0;
        assert_eq!(share((50_000_000, 2), 2000.0, rate), 0.5);
        assert_eq!(share((50_000_000, 4), 2000.0, rate), 0.75);
    }
}
