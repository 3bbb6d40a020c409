//! Test programs in C++, compiled when a test wants them.
#![allow(dead_code, reason = "every test binary uses a part of it")]
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// This crate's folder.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn kernels() -> PathBuf {
    here().join("../../kernels")
}

/// Compiles one source to an executable.
pub fn compile(source: &str, program: &Path, options: &[&str]) {
    let mut command = Command::new(env::var_os("CXX").unwrap_or_else(|| OsString::from("c++")));
    command.args([
        "-std=c++17",
        "-g1",
        "-Wall",
        "-Wno-sign-compare",
        "-Wno-unused-function",
        "-pthread",
        "-DLANESUM_CPU",
        "-I",
    ]);
    command
        .arg(kernels())
        .arg(here().join(source))
        .arg("-o")
        .arg(program)
        .args(options);
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// How a program ended.
pub struct Ended {
    /// `None`: it was stopped at the deadline.
    pub status: Option<ExitStatus>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a program that says little; one that takes longer than the deadline is killed.
pub fn run(command: &mut Command, deadline: Duration) -> Ended {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    let mut late = false;
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > deadline {
            late = true;
            child.kill().unwrap();
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended {
        status: (!late).then_some(output.status),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}
