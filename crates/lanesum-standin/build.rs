//! Compiles the stand-in driver, with the kernels in it, to `libcuda.so.1`, and the management library's to `libnvidia-ml.so.1`.
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::{env, fs};

const WORLDS: std::ops::RangeInclusive<u32> = 1..=8;

/// The same rounding as on the device: nothing is contracted or reassociated.
const OPTIONS: &[&str] = &[
    "-std=c++17",
    "-O2",
    "-g1",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-fast-math",
    "-pthread",
    "-Wall",
    "-Wextra",
    "-Wno-unused-function",
    "-Wno-unknown-pragmas",
];

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let driver = Path::new("csrc");
    let kernels = Path::new("../../kernels");
    println!("cargo::rerun-if-changed=csrc");
    println!("cargo::rerun-if-changed={}", kernels.display());
    println!("cargo::rerun-if-env-changed=CXX");

    let mut units = Vec::new();
    for world in WORLDS {
        // The bench's kernels are of worlds with peers.
        let sources: &[&str] = if world > 1 { &["lanesum", "bench"] } else { &["lanesum"] };
        for source in sources {
            let mut compile = compiler();
            compile.args(OPTIONS);
            // Kernels compare ranks with the leaves of unrolled loops.
            compile.args(["-x", "c++", "-DLANESUM_CPU", "-I", "csrc/machine", "-Wno-sign-compare"]);
            compile
                .arg(format!("-DLANESUM_WORLD={world}"))
                .arg(kernels.join(source).with_extension("cu"));
            units.push((compile, out.join(format!("{source}{world}.o"))));
        }
    }
    for source in sources(driver)? {
        let object = out
            .join(source.file_name().ok_or("a source has a name")?)
            .with_extension("o");
        let mut compile = compiler();
        compile.args(OPTIONS).arg(&source);
        units.push((compile, object));
    }
    let objects: Vec<PathBuf> = units.iter().map(|(_, object)| object.clone()).collect();
    for (compile, object) in &mut units {
        compile.arg("-c").arg("-o").arg(object);
    }
    build(units.into_iter().map(|(compile, _)| compile).collect())?;

    let library = out.join("driver");
    fs::create_dir_all(&library)?;
    let mut link = compiler();
    // Its threads live as long as the process, so it can't be unloaded.
    link.args([
        "-shared",
        "-pthread",
        "-Wl,-soname,libcuda.so.1",
        "-Wl,-z,nodelete",
        "-Wl,-z,defs",
        "-Wl,--version-script=csrc/exports.map",
        "-Wl,--hash-style=gnu",
    ]);
    link.arg("-o").arg(library.join("libcuda.so.1")).args(objects);
    let mut management = compiler();
    management.args(OPTIONS);
    management.args(["-shared", "-Wl,-soname,libnvidia-ml.so.1", "-Wl,-z,defs"]);
    management.arg("-o").arg(library.join("libnvidia-ml.so.1"));
    management.arg(driver.join("nvml/nvml.cpp"));
    build(vec![link, management])
}

fn compiler() -> Command {
    Command::new(env::var_os("CXX").unwrap_or_else(|| OsString::from("c++")))
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "cpp") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Runs the commands, as many at once as cargo allows.
fn build(commands: Vec<Command>) -> Result<(), Box<dyn Error>> {
    let jobs = env::var("NUM_JOBS")
        .ok()
        .and_then(|jobs| jobs.parse().ok())
        .unwrap_or(1);
    let mut running: Vec<Child> = Vec::new();
    for mut command in commands {
        if running.len() >= jobs {
            finish(running.remove(0))?;
        }
        let started = command.spawn();
        running
            .push(started.map_err(|error| format!("{command:?} does not start: {error}; a C++ compiler is needed"))?);
    }
    running.into_iter().try_for_each(finish)
}

fn finish(mut child: Child) -> Result<(), Box<dyn Error>> {
    let status = child.wait()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the C++ compiler ended with {status}").into())
    }
}
