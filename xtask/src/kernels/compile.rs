//! From sources to images: NVRTC makes PTX of each unit for each architecture, ptxas makes machine code of it for each target.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::read_bytes;
use super::report::Report;
use super::units::{Architecture, Unit};
use super::wheels::Toolchain;
use crate::error::XtaskError;
use crate::process;
use crate::workspace::Workspace;

/// How the sources are compiled; options of the architecture and of the world follow. Contraction and flushing would change the sums.
const OPTIONS: [&str; 3] = ["--std=c++17", "--fmad=false", "--ftz=false"];

const DEADLINE: Duration = Duration::from_secs(5 * 60);

/// What a unit's PTX for an architecture is, and where.
pub struct Ptx {
    pub unit: Unit,
    pub architecture: Architecture,
    pub path: PathBuf,
    pub text: String,
    /// What the compiler said, which should be nothing.
    pub said: Vec<String>,
}

impl Ptx {
    /// Whether machine code is made of it.
    pub fn makes(&self, cubin: &Cubin) -> bool {
        self.unit == cubin.unit && self.architecture == Architecture::of(cubin.sm)
    }
}

/// Machine code of one unit for one target.
pub struct Cubin {
    pub unit: Unit,
    pub sm: u32,
    pub code: Vec<u8>,
    pub report: Report,
}

/// All options that images depend on, whatever the world.
pub fn options() -> Vec<&'static str> {
    let architectures = Architecture::ALL.map(Architecture::option);
    [&OPTIONS[..], &architectures].concat()
}

/// Every unit for each of these architectures, by unit.
pub fn jobs(architectures: &[Architecture]) -> Vec<(Unit, Architecture)> {
    let of = |unit: Unit| architectures.iter().map(move |&architecture| (unit, architecture));
    Unit::all().into_iter().flat_map(of).collect()
}

/// Compiles each unit for its architecture.
///
/// # Errors
/// The compiler refused one, with what it said.
pub fn ptx(
    workspace: &Workspace,
    tools: &Toolchain,
    folder: &Path,
    jobs: &[(Unit, Architecture)],
) -> Result<Vec<Ptx>, XtaskError> {
    std::fs::create_dir_all(folder).map_err(|source| XtaskError::File {
        action: "make",
        path: folder.to_owned(),
        source,
    })?;
    in_parallel(jobs, |&(unit, architecture)| {
        let path = folder.join(format!("{}.{architecture}.ptx", unit.stem()));
        let mut command = Command::new("python3");
        command
            .arg(workspace.root().join("xtask/src/kernels/nvrtc.py"))
            .arg(&tools.nvrtc)
            .arg(workspace.root().join(unit.module.source()))
            .arg(&path)
            .args(OPTIONS)
            .arg(architecture.option())
            .arg(format!("-DLANESUM_WORLD={}", unit.world));
        let said = process::capture(&mut command, DEADLINE)?;
        let text = Workspace::read(&path)?;
        Ok(Ptx {
            unit,
            architecture,
            path,
            text,
            said,
        })
    })
}

/// Assembles each PTX for those targets of its module that are of its architecture.
///
/// # Errors
/// The assembler refused one, with what it said.
pub fn cubins(tools: &Toolchain, ptx: &[Ptx]) -> Result<Vec<Cubin>, XtaskError> {
    let jobs: Vec<(&Ptx, u32)> = ptx
        .iter()
        .flat_map(|ptx| ptx.unit.module.made().into_iter().map(move |sm| (ptx, sm)))
        .filter(|(ptx, sm)| Architecture::of(*sm) == ptx.architecture)
        .collect();
    in_parallel(&jobs, |&(ptx, sm)| {
        let path = ptx.path.with_extension(format!("sm_{sm}"));
        let mut command = Command::new(&tools.ptxas);
        command
            .arg("-v")
            .arg(format!("-arch=sm_{sm}"))
            .arg(&ptx.path)
            .arg("-o")
            .arg(&path);
        let lines = process::capture(&mut command, DEADLINE)?;
        Ok(Cubin {
            unit: ptx.unit,
            sm,
            code: read_bytes(&path)?,
            report: Report::read(lines.iter().map(String::as_str)),
        })
    })
}

/// Does the work for all jobs on all cores; results in the order of the jobs, or the first error. No job starts after an
/// error.
fn in_parallel<J: Sync, T: Send>(
    jobs: &[J],
    work: impl Fn(&J) -> Result<T, XtaskError> + Sync,
) -> Result<Vec<T>, XtaskError> {
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let worker = || {
        let mut done = Vec::new();
        // The counter only hands out jobs; results go through the join.
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return Ok(done) };
            match work(job) {
                Ok(result) => done.push((index, result)),
                Err(error) => {
                    next.store(jobs.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let parts: Vec<Result<Vec<(usize, T)>, XtaskError>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        // A worker that panicked panics here: that is a bug of the chore.
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut done = Vec::with_capacity(jobs.len());
    for part in parts {
        done.extend(part?);
    }
    done.sort_by_key(|&(index, _)| index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..50).collect();
        let results = in_parallel(&jobs, |&job| Ok(job * job)).expect("no job fails");
        assert_eq!(results, jobs.iter().map(|job| job * job).collect::<Vec<u64>>());
    }

    #[test]
    fn an_error_ends_the_work() {
        let failing = |&job: &u32| match job {
            3 => Err(XtaskError::Kernels {
                problems: vec!["no".to_owned()],
            }),
            job => Ok(job),
        };
        assert!(matches!(
            in_parallel(&[1, 2, 3, 4], failing),
            Err(XtaskError::Kernels { .. })
        ));
    }
}
