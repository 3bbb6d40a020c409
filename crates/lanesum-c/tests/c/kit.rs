//! The library as it is installed, and C programs that are compiled against it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// For one run of a program.
const DEADLINE: Duration = Duration::from_secs(60);

/// Which library a program takes, as pkg-config names it.
#[derive(Clone, Copy)]
pub enum Linkage {
    Shared,
    Static,
}

/// A folder of this target directory that tests may write to.
fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn cargo(words: &[&str]) {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    well(command.args(words).current_dir(here()));
}

/// Runs a command that has to go well, and returns what it prints.
pub fn well(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{stderr}");
    String::from_utf8(stdout).unwrap()
}

/// Where `cargo xtask c` has installed the library, which it does once, with the profile that the tests are compiled with.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = scratch().join("lanesum-c");
        let words = ["run", "--quiet", "--package", "xtask", "--", "c", "--profile", "dev"];
        cargo(&[&words[..], &["--prefix", prefix.to_str().unwrap()]].concat());
        prefix
    })
}

/// The command line's executable.
fn lanesum() -> &'static Path {
    static LANESUM: OnceLock<PathBuf> = OnceLock::new();
    LANESUM.get_or_init(|| {
        cargo(&["build", "--quiet", "--package", "lanesum-cli"]);
        scratch().parent().unwrap().join("debug/lanesum")
    })
}

/// The options of a compiler for the library.
fn pkg_config(linkage: Linkage) -> Vec<String> {
    let module = match linkage {
        Linkage::Shared => "lanesum",
        Linkage::Static => "lanesum-static",
    };
    let folder = prefix().join("lib/pkgconfig");
    let there = Command::new("pkg-config").arg("--version").output().is_ok();
    let options = match there {
        true => well(
            Command::new("pkg-config")
                .args(["--cflags", "--libs", module])
                .env("PKG_CONFIG_PATH", &folder),
        ),
        false => by_hand(&folder, module),
    };
    options.split_whitespace().map(str::to_owned).collect()
}

/// What pkg-config would say of a module that needs no other, on a machine that has none.
fn by_hand(folder: &Path, module: &str) -> String {
    let text = fs::read_to_string(folder.join(format!("{module}.pc"))).unwrap();
    let mut variables = vec![("pcfiledir", folder.to_str().unwrap().to_owned())];
    let expanded = |value: &str, variables: &[(&str, String)]| {
        let with = |text: String, (name, value): &(&str, String)| text.replace(&format!("${{{name}}}"), value);
        variables.iter().rev().fold(value.to_owned(), with)
    };
    let mut options = String::new();
    for line in text.lines() {
        if let Some((name, value)) = line.split_once('=').filter(|(name, _)| !name.contains([':', ' '])) {
            variables.push((name, expanded(value, &variables)));
        } else if let Some(value) = line.strip_prefix("Cflags:").or_else(|| line.strip_prefix("Libs:")) {
            options.push_str(&expanded(value, &variables));
        }
    }
    options
}

/// A compiled program, in a folder that goes with it.
pub struct Program {
    _folder: TempDir,
    path: PathBuf,
}

impl Program {
    /// Compiles one of tests/c/programs or examples, as C99 or C++17, with every warning an error; `more` comes last.
    pub fn compile(source: &str, linkage: Linkage, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let (variable, compiler, standard) = match source.ends_with(".cpp") {
            true => ("CXX", "c++", "-std=c++17"),
            false => ("CC", "cc", "-std=c99"),
        };
        let mut command = Command::new(env::var_os(variable).unwrap_or_else(|| OsString::from(compiler)));
        command.args([
            standard,
            "-g",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-pthread",
            "-o",
        ]);
        command.arg(&path).arg(here().join(source));
        well(command.args(pkg_config(linkage)).args(more));
        Self { _folder: folder, path }
    }

    /// One that is compiled against the shared library.
    pub fn shared(name: &str) -> Self {
        Self::compile(&format!("tests/c/programs/{name}"), Linkage::Shared, &[])
    }

    /// What runs it.
    pub fn command(&self) -> Command {
        with_library(Command::new(&self.path))
    }

    /// What runs it on so many ranks, as users do.
    pub fn launched(&self, ranks: usize) -> Command {
        let mut command = Command::new(lanesum());
        command.args(["launch", "-n", &ranks.to_string(), "--"]).arg(&self.path);
        with_library(command)
    }

    /// Runs it on so many ranks that are told by words, and a further word, to the end.
    pub fn ranks(&self, world: usize, word: Option<&str>, environment: &[(&str, OsString)]) -> Vec<Ended> {
        let name = fresh_name();
        let start = |rank: usize| {
            let mut command = self.command();
            command.args([&rank.to_string(), &world.to_string(), &name]).args(word);
            command.envs(environment.iter().cloned());
            spawn(&mut command)
        };
        let children: Vec<Child> = (0..world).map(start).collect();
        let started = Instant::now();
        children.into_iter().map(|child| awaited(child, started)).collect()
    }
}

/// A name that no other job uses.
fn fresh_name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: only the numbers have to differ.
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("c-tests-{}-{next}", std::process::id())
}

/// Finds the installed library when it runs.
fn with_library(mut command: Command) -> Command {
    command.env("LD_LIBRARY_PATH", prefix().join("lib"));
    command
}

/// How a program ended.
pub struct Ended {
    /// `None`: it was stopped at the deadline.
    pub status: Option<ExitStatus>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Whether it ended well and said so in its last line.
    #[track_caller]
    pub fn well(&self) {
        let well = self.status.is_some_and(|status| status.success()) && self.stdout.ends_with("well\n");
        assert!(well, "{:?}\n{}{}", self.status, self.stdout, self.stderr);
    }
}

fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs a program that says little.
pub fn run(command: &mut Command) -> Ended {
    awaited(spawn(command), Instant::now())
}

fn awaited(mut child: Child, started: Instant) -> Ended {
    let mut late = false;
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > DEADLINE {
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
