//! A test harness for binaries that must also be able to run as a rank: the usual one owns `main`.
//!
//! It understands what `cargo test` passes on most often: filters, `--exact`, `--skip`, `--list`.

use std::io::Write;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

/// A test: its name and what it does. It fails by panicking.
pub type Test = (&'static str, fn());

/// The tests of these functions, by their names.
macro_rules! tests {
    ($($test:ident),+ $(,)?) => {
        &[$((stringify!($test), $test as fn())),+]
    };
}

pub(crate) use tests;

#[derive(Default)]
struct Wanted {
    filters: Vec<String>,
    skip: Vec<String>,
    exact: bool,
    list: bool,
    ignored: bool,
}

impl Wanted {
    fn parse(arguments: impl Iterator<Item = String>) -> Wanted {
        let mut wanted = Wanted::default();
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => wanted.list = true,
                "--exact" => wanted.exact = true,
                "--ignored" => wanted.ignored = true,
                "--skip" => wanted.skip.extend(arguments.next()),
                "--test-threads" | "--format" | "--color" | "--logfile" | "-Z" => drop(arguments.next()),
                other if other.starts_with('-') => {}
                other => wanted.filters.push(other.to_owned()),
            }
        }
        wanted
    }

    fn admits(&self, name: &str) -> bool {
        let fits = |filter: &String| {
            if self.exact {
                name == filter
            } else {
                name.contains(filter.as_str())
            }
        };
        !self.ignored && !self.skip.iter().any(fits) && (self.filters.is_empty() || self.filters.iter().any(fits))
    }
}

/// Runs the tests one after another: most of them measure time.
pub fn main(tests: &[Test]) -> ExitCode {
    let wanted = Wanted::parse(std::env::args().skip(1));
    let chosen: Vec<&Test> = tests.iter().filter(|(name, _)| wanted.admits(name)).collect();
    if wanted.list {
        for (name, _) in chosen {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let mut failed = Vec::new();
    println!("\nrunning {} tests", chosen.len());
    for (name, test) in &chosen {
        print!("test {name} ... ");
        drop(std::io::stdout().flush());
        let start = Instant::now();
        let passed = catch_unwind(test).is_ok();
        println!(
            "{} ({:.2} s)",
            if passed { "ok" } else { "FAILED" },
            start.elapsed().as_secs_f64()
        );
        if !passed {
            failed.push(*name);
        }
    }
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {} passed; {} failed\n",
        chosen.len() - failed.len(),
        failed.len()
    );
    for name in &failed {
        println!("failed: {name}");
    }
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
