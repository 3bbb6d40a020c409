//! MPI libraries: one source for all, compiled against each.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Found, not_there};
use crate::bench::host::folder::Folder;
use crate::bench::host::job::Job;
use crate::bench::host::program::Program;
use crate::bench::host::tool::{self, in_path, words};
use crate::errors::CliError;

const SOURCE: &str = include_str!("../../../../../../benches/engines/host/mpi_all_reduce.c");

/// OpenMPI's own transport through shared memory.
pub const VADER: [&str; 6] = ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"];
/// The same through UCX, which wants to be told that no network card is needed.
pub const UCX: [&str; 11] = [
    "--mca",
    "pml",
    "ucx",
    "--mca",
    "opal_common_ucx_tls",
    "any",
    "--mca",
    "opal_common_ucx_devices",
    "any",
    "-x",
    "UCX_TLS=self,sm",
];

/// An installation.
struct Place {
    /// The compiler and what it is told.
    compiler: Vec<OsString>,
    /// Behind the source.
    libraries: Vec<OsString>,
    launcher: PathBuf,
}

/// Where to look.
pub struct Mpi<'a> {
    job: &'a Job,
    folder: &'a Folder,
    source: PathBuf,
    /// What was compiled, by compiler.
    compiled: HashMap<Vec<OsString>, Result<PathBuf, String>>,
}

impl<'a> Mpi<'a> {
    /// Writes the source.
    pub fn new(job: &'a Job, folder: &'a Folder) -> Result<Self, CliError> {
        Ok(Self {
            job,
            folder,
            source: folder.write("mpi_all_reduce.c", SOURCE)?,
            compiled: HashMap::new(),
        })
    }

    /// OpenMPI through one of its transports. Ranks keep to their CPUs themselves.
    pub fn openmpi(&mut self, name: &'static str, transport: &[&str]) -> Result<Found, CliError> {
        let place = match self.wrapped("openmpi", ["mpicc", "mpirun"]) {
            Some(place) => Some(place),
            None => self.in_path(".openmpi", ["mpicc", "mpirun"], "Open MPI")?,
        };
        let Some(place) = place else {
            return Ok(Err(not_there("OpenMPI", "mpicc.openmpi and mpirun.openmpi", "openmpi")));
        };
        let mut before = words([&place.launcher, &"--bind-to", &"none", &"--oversubscribe"]);
        if rustix::process::geteuid().is_root() {
            before.push("--allow-run-as-root".into());
        }
        before.extend(transport.iter().map(OsString::from));
        // It looks for a remote shell even where all ranks are here, and refuses to start on a machine that has none.
        let variables = vec![("OMPI_MCA_plm_rsh_agent", "true".into())];
        self.program(name, &place, before, variables, "Open MPI")
    }

    /// MPICH.
    pub fn mpich(&mut self) -> Result<Found, CliError> {
        let place = match self.wrapped("mpich", ["mpicc", "mpiexec"]) {
            Some(place) => Some(place),
            None => self.in_path(".mpich", ["mpicc", "mpiexec"], "HYDRA")?,
        };
        let Some(place) = place else {
            return Ok(Err(not_there("MPICH", "mpicc.mpich and mpiexec.mpich", "mpich")));
        };
        let before = words([&place.launcher]);
        self.program("mpich", &place, before, vec![], "MPICH")
    }

    /// Intel MPI, which has no wrapper that works where pip puts it.
    pub fn intel(&mut self) -> Result<Found, CliError> {
        let Some(root) = self.intel_root()? else {
            return Ok(Err(not_there("Intel MPI", "its mpiexec and include/mpi.h", "impi")));
        };
        let include = format!("-I{}", root.join("include").display());
        let mut compiler = words([&"cc", &include]);
        for library in ["lib", "lib/release"].map(|folder| root.join(folder)) {
            compiler.push(format!("-L{}", library.display()).into());
            compiler.push(format!("-Wl,-rpath,{}", library.display()).into());
        }
        let place = Place {
            compiler,
            libraries: words([&"-l:libmpi.so.12"]),
            launcher: root.join("bin/mpiexec"),
        };
        let before = words([&place.launcher]);
        let variables = vec![("I_MPI_FABRICS", "shm".into()), ("I_MPI_PIN", "0".into())];
        self.program("impi", &place, before, variables, "Intel")
    }

    /// Where it is installed: with the other peers, or around a launcher in PATH that says so.
    fn intel_root(&self) -> Result<Option<PathBuf>, CliError> {
        let own = self.job.peers_dir.as_ref().map(|peers| peers.join("impi"));
        let whole = |root: &PathBuf| root.join("bin/mpiexec").is_file() && root.join("include/mpi.h").is_file();
        if let Some(root) = own.filter(whole) {
            return Ok(Some(root));
        }
        let Some(launcher) = in_path("mpiexec") else {
            return Ok(None);
        };
        let asked = tool::run(self.folder, &words([&launcher, &"--version"]))?;
        let is_it = asked.is_ok_and(|version| version.contains("Intel"));
        let launcher = launcher.canonicalize().ok().filter(|_| is_it);
        let root = launcher.and_then(|launcher| Some(launcher.parent()?.parent()?.to_owned()));
        Ok(root.filter(whole))
    }

    fn program(
        &mut self,
        name: &'static str,
        place: &Place,
        before: Vec<OsString>,
        variables: Vec<(&'static str, OsString)>,
        brand: &'static str,
    ) -> Result<Found, CliError> {
        Ok(self.compiled(place)?.map(|program| Program {
            name,
            before,
            after: vec![program.into()],
            variables,
            brand,
        }))
    }

    fn compiled(&mut self, place: &Place) -> Result<Result<PathBuf, String>, CliError> {
        if let Some(known) = self.compiled.get(&place.compiler) {
            return Ok(known.clone());
        }
        let program = self.folder.path(&format!("mpi-{}", self.compiled.len()));
        let mut command = place.compiler.clone();
        command.extend(words([&"-O3", &"-march=native", &"-o", &program, &self.source]));
        command.extend(place.libraries.iter().cloned());
        let outcome = tool::run(self.folder, &command)?.map(|_output| program);
        self.compiled.insert(place.compiler.clone(), outcome.clone());
        Ok(outcome)
    }

    /// A compiler wrapper and a launcher in the folder of peers.
    fn wrapped(&self, name: &str, [compiler, launcher]: [&str; 2]) -> Option<Place> {
        let programs = self.job.peers_dir.as_ref()?.join(name).join("bin");
        let (compiler, launcher) = (programs.join(compiler), programs.join(launcher));
        (compiler.is_file() && launcher.is_file()).then(|| Place::of(&compiler, launcher))
    }

    /// Those of the machine: under the names that tell several MPIs apart, or plainly, if the launcher says what it is.
    fn in_path(&self, suffix: &str, [compiler, launcher]: [&str; 2], brand: &str) -> Result<Option<Place>, CliError> {
        let suffixed = |name: &str| in_path(&format!("{name}{suffix}"));
        if let (Some(compiler), Some(launcher)) = (suffixed(compiler), suffixed(launcher)) {
            return Ok(Some(Place::of(&compiler, launcher)));
        }
        let (Some(compiler), Some(launcher)) = (in_path(compiler), in_path(launcher)) else {
            return Ok(None);
        };
        let asked = tool::run(self.folder, &words([&launcher, &"--version"]))?;
        let is_it = asked.is_ok_and(|version| version.contains(brand));
        Ok(is_it.then(|| Place::of(&compiler, launcher)))
    }
}

impl Place {
    fn of(compiler: &Path, launcher: PathBuf) -> Self {
        Self {
            compiler: words([&compiler]),
            libraries: vec![],
            launcher,
        }
    }
}
