//! What the device counts by itself, replays of graphs among it.

use std::time::Duration;

use lanesum_plan::Rank;
use serde::Serialize;

/// What ran on a rank's GPU, as the device has counted it: eager calls, and captured ones each time that their graph ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceCounters {
    /// Calls that ended well.
    pub calls: u64,
    /// Exchanges: one a call, more for long messages.
    pub exchanges: u64,
    /// Time that the first lane has waited for each peer to enter a call: one exchange in 1,024 is timed, and counts for all; waits of
    /// more than about 0.1 ms count as they are, but for their start.
    pub waited: Vec<(Rank, Duration)>,
}
