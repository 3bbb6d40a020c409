//! Which CUDA driver the tests of this binary run on.
//!
//! By themselves they take the stand-in: a process finds a driver by its library path, which is read when it starts, so the test
//! binary starts itself again with the stand-in on it. With `LANESUM_TEST_DRIVER=real` in the environment they take the machine's
//! driver, and fail where there is none.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Names the driver to test: `real`, or nothing for the stand-in.
const DRIVER: &str = "LANESUM_TEST_DRIVER";
/// Set in a process that was started again.
const READY: &str = "LANESUM_TEST_DRIVER_READY";

/// Whether the machine's own driver is tested.
pub fn is_real() -> bool {
    std::env::var(DRIVER).is_ok_and(|driver| driver == "real")
}

/// Makes sure that this process finds the driver to test. Returns only if something is wrong, or nothing is left to do.
pub fn ready() -> Option<ExitCode> {
    if is_real() || std::env::var_os(READY).is_some() {
        return None;
    }
    let mut path = lanesum_standin::directory().as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("LD_LIBRARY_PATH") {
        path.push(":");
        path.push(rest);
    }
    let error = Command::new(std::env::current_exe().ok()?)
        .args(std::env::args_os().skip(1))
        .env("LD_LIBRARY_PATH", path)
        .env(READY, "yes")
        .exec();
    eprintln!("starting again with the stand-in driver: {error}");
    Some(ExitCode::FAILURE)
}
