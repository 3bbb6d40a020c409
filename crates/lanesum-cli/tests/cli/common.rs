//! What the tests of the command line share: the built binary, run with a bound on its time.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;

/// No run of these tests takes longer, on however busy a machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The built binary, without the variables of whatever started the tests, and without the CUDA driver and the management library that
/// the machine may have: a run finds a GPU only where its test gives it one.
pub fn lanesum(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lanesum"));
    for name in [
        "LANESUM",
        "LANESUM_POLICY",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LANESUM_DEADLINE_MS",
        "LANESUM_RENDEZVOUS",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
    ] {
        command.env_remove(name);
    }
    command
        .env("LD_LIBRARY_PATH", no_driver())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Where to find a driver library that cannot be loaded, before any other, and a management library that shows no GPU.
fn no_driver() -> OsString {
    static MADE: OnceLock<OsString> = OnceLock::new();
    let make = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-driver");
        std::fs::create_dir_all(&folder).expect("can be made");
        std::fs::write(folder.join("libcuda.so.1"), "").expect("can be written");
        std::env::join_paths([folder.as_path(), lanesum_standin::directory()]).expect("no path has a colon")
    };
    MADE.get_or_init(make).clone()
}

/// Runs to the end.
pub fn run(arguments: &[&str]) -> Output {
    finish(start(arguments))
}

pub fn start(arguments: &[&str]) -> Child {
    lanesum(arguments).spawn().expect("the binary starts")
}

/// Waits for the end; a run that has none is killed and fails the test.
pub fn finish(mut child: Child) -> Output {
    let mut stdout = child.stdout.take().expect("is piped");
    let mut stderr = child.stderr.take().expect("is piped");
    let out = thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).map(|_| bytes)
    });
    let err = thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).map(|_| bytes)
    });
    let until = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().expect("can be waited for") {
            break status;
        }
        if Instant::now() > until {
            child.kill().expect("can be killed");
            panic!("it does not end");
        }
        thread::sleep(Duration::from_millis(2));
    };
    let stdout = out.join().expect("no panic").expect("can be read");
    let stderr = err.join().expect("no panic").expect("can be read");
    Output { status, stdout, stderr }
}

/// A page of `--report` is there to its end: nothing is fetched from anywhere, and what opens closes.
pub fn whole(html: &str) {
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    assert!(!html.contains("src=") && !html.contains("href=") && !html.contains("url("));
    assert_eq!(
        html.matches("http").count(),
        html.matches("xmlns=\"http://www.w3.org/2000/svg\"").count()
    );
    for element in [
        "div", "table", "tr", "th", "td", "ul", "li", "dl", "dt", "dd", "svg", "g", "text", "title", "details", "p",
    ] {
        let count = |text: &str| html.matches(text).count();
        let opened = count(&format!("<{element}>")) + count(&format!("<{element} "));
        assert_eq!(opened, count(&format!("</{element}>")), "{element}");
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The one JSON object on stdout.
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|cause| panic!("{cause}: {}{}", stdout(output), stderr(output)))
}

pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("fits")).expect("is not 0");
    rustix::process::kill_process(pid, signal).expect("it is there");
}

/// The processes that this one started itself.
pub fn children_of(parent: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The processes that this one started itself, with their ranks.
pub fn ranks_of(parent: u32) -> Vec<(usize, u32)> {
    let pids = children_of(parent).into_iter();
    let mut ranks: Vec<_> = pids.filter_map(|pid| Some((rank_of(pid)?, pid))).collect();
    ranks.sort_unstable();
    ranks
}

fn rank_of(pid: u32) -> Option<usize> {
    let variables = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = variables.split(|&byte| byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(b"RANK="))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Waits until so many ranks are there.
pub fn await_ranks(parent: u32, world: usize) -> Vec<(usize, u32)> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let ranks = ranks_of(parent);
        if ranks.len() == world {
            return ranks;
        }
        thread::sleep(Duration::from_millis(2));
    }
    panic!("the ranks do not start");
}

/// Whether the process exists and is no zombie.
pub fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// Waits until none of them lives.
pub fn all_die(pids: impl IntoIterator<Item = u32>) -> bool {
    let until = Instant::now() + Duration::from_secs(10);
    pids.into_iter().all(|pid| {
        while lives(pid) && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
        !lives(pid)
    })
}
