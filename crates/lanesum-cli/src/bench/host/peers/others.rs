//! Peers that are no MPI.

use std::path::PathBuf;

use super::Found;
use crate::bench::host::folder::Folder;
use crate::bench::host::job::Job;
use crate::bench::host::program::Program;
use crate::bench::host::tool::{self, in_path, launcher, words};
use crate::errors::CliError;

const GLOO: &str = include_str!("../../../../../../benches/engines/host/gloo_all_reduce.py");
const ONECCL: &str = include_str!("../../../../../../benches/engines/host/oneccl_all_reduce.cpp");

/// Gloo: that of `cargo xtask peers` if it is there, else that of the job's Python.
pub fn gloo(job: &Job, folder: &Folder) -> Result<Found, CliError> {
    let own = job.peers_dir.as_ref().map(|peers| peers.join("gloo/bin/python3"));
    let python = own
        .filter(|python| python.is_file())
        .unwrap_or_else(|| job.python.clone());
    let question = "import torch.distributed as d; assert d.is_gloo_available(), 'error: this PyTorch has no Gloo'";
    if let Err(reason) = tool::run(folder, &words([&python, &"-c", &question]))? {
        return Ok(Err(reason));
    }
    let script = folder.write("gloo_all_reduce.py", GLOO)?;
    Ok(Ok(Program {
        name: "gloo",
        before: launcher(&[])?,
        after: words([&"--", &python, &script]),
        variables: vec![("GLOO_SOCKET_IFNAME", "lo".into())],
        brand: "Gloo",
    }))
}

/// oneCCL, with the Intel MPI beside it.
pub fn oneccl(job: &Job, folder: &Folder) -> Result<Found, CliError> {
    let root = job.peers_dir.as_ref().map(|peers| peers.join("oneccl"));
    let parts = ["include/oneapi/ccl.hpp", "bin/mpiexec"];
    let whole = |root: &PathBuf| parts.iter().all(|part| root.join(part).is_file());
    let Some(root) = root.filter(whole) else {
        return Ok(Err(super::not_there(
            "oneCCL",
            "oneccl in the folder of peers and its parts",
            "oneccl",
        )));
    };
    if in_path("c++").is_none() {
        return Ok(Err("there is no compiler c++ for it".into()));
    }
    let source = folder.write("oneccl_all_reduce.cpp", ONECCL)?;
    let program = folder.path("oneccl");
    let (include, libraries) = (root.join("include"), root.join("lib"));
    let mut command = words([
        &"c++",
        &"-O3",
        &"-march=native",
        &"-std=c++17",
        &"-I",
        &include,
        &"-o",
        &program,
        &source,
    ]);
    let runtime = format!("-Wl,--disable-new-dtags,-rpath,{}", libraries.display());
    command.extend(words([
        &"-L",
        &libraries,
        &runtime,
        &"-Wl,--allow-shlib-undefined",
        &"-l:libccl.so.1",
        &"-pthread",
    ]));
    let before = words([&root.join("bin/mpiexec")]);
    let variables = [
        ("CCL_WORKER_OFFLOAD", "0"),
        ("CCL_ATL_TRANSPORT", "mpi"),
        ("I_MPI_FABRICS", "shm"),
        ("I_MPI_PIN", "0"),
    ];
    Ok(tool::run(folder, &command)?.map(|_output| Program {
        name: "oneccl",
        before,
        after: vec![program.into()],
        variables: variables.map(|(name, value)| (name, value.into())).into(),
        brand: "oneCCL",
    }))
}
