//! The compilers, pinned: two packages of the Python package index, each known by its hash.
//!
//! They are fetched once and kept below the target folder. A hash says more than a version: images are compared byte by byte,
//! so another build of the same compiler must not slip in.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::read_bytes;
use crate::error::XtaskError;
use crate::process;

const FETCH_DEADLINE: Duration = Duration::from_secs(10 * 60);
const UNPACK_DEADLINE: Duration = Duration::from_secs(2 * 60);

/// A package and the one file in it that is called.
struct Wheel {
    package: &'static str,
    version: &'static str,
    sha256: &'static str,
    file: &'static str,
}

/// The compiler to PTX. Of CUDA 12.1, because drivers take no PTX that is newer than themselves: see docs/decisions/0008.
const NVRTC: Wheel = Wheel {
    package: "nvidia-cuda-nvrtc-cu12",
    version: "12.1.105",
    sha256: "339b385f50c309763ca65456ec75e17bbefcbbf2893f462cb8b90584cd27a1c2",
    file: "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
};

/// The assembler from PTX to machine code. A new one, because it has to know the newest GPUs.
const PTXAS: Wheel = Wheel {
    package: "nvidia-cuda-nvcc",
    version: "13.5.37",
    sha256: "f5c4f7ead5d964fb4af42bbf1e6d3ec3c1e6e9d83b53749f691d387e7fcaa3a7",
    file: "nvidia/cu13/bin/ptxas",
};

/// Where the compilers lie.
pub struct Toolchain {
    pub nvrtc: PathBuf,
    pub ptxas: PathBuf,
}

/// One line on what makes the images, for the file that lists them.
pub fn described() -> String {
    format!(
        "{} {}, {} {}",
        NVRTC.package, NVRTC.version, PTXAS.package, PTXAS.version
    )
}

/// Fetches what is not there yet into `folder`.
///
/// # Errors
/// A package cannot be had, or is not the pinned one.
pub fn toolchain(folder: &Path) -> Result<Toolchain, XtaskError> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(XtaskError::NoCompilers {
            reason: "the pinned ones are programs for Linux on x86-64".to_owned(),
        });
    }
    let nvrtc = unpacked(folder, &NVRTC)?;
    let ptxas = unpacked(folder, &PTXAS)?;
    make_executable(&ptxas)?;
    Ok(Toolchain { nvrtc, ptxas })
}

/// The wheel's file, unpacked. The folder gets its name only when all of it is there.
fn unpacked(folder: &Path, wheel: &Wheel) -> Result<PathBuf, XtaskError> {
    let archive = archive(folder, wheel)?;
    let done = folder.join(format!("{}-{}", wheel.package, wheel.version));
    let file = done.join(wheel.file);
    if file.is_file() {
        return Ok(file);
    }
    let part = done.with_extension("part");
    for stale in [&part, &done] {
        if stale.exists() {
            std::fs::remove_dir_all(stale).map_err(|source| XtaskError::file("remove", stale, source))?;
        }
    }
    let mut unpack = Command::new("python3");
    unpack.args(["-m", "zipfile", "-e"]).arg(&archive).arg(&part);
    process::capture(&mut unpack, UNPACK_DEADLINE)?;
    std::fs::rename(&part, &done).map_err(|source| XtaskError::file("rename", &part, source))?;
    if !file.is_file() {
        let reason = format!("{} {} holds no {}", wheel.package, wheel.version, wheel.file);
        return Err(XtaskError::NoCompilers { reason });
    }
    Ok(file)
}

/// The wheel itself, with the right hash: the one that is kept, or fetched anew.
fn archive(folder: &Path, wheel: &Wheel) -> Result<PathBuf, XtaskError> {
    let folder = folder.join("wheels");
    if let Some(kept) = kept(&folder, wheel)? {
        if hash_of(&kept)? == wheel.sha256 {
            return Ok(kept);
        }
        std::fs::remove_file(&kept).map_err(|source| XtaskError::file("remove", &kept, source))?;
    }
    fetch(&folder, wheel)?;
    let reason = match kept(&folder, wheel)? {
        None => "pip left no wheel".to_owned(),
        Some(archive) => match hash_of(&archive)? {
            found if found == wheel.sha256 => return Ok(archive),
            found => format!("its sha256 is {found}, pinned is {}", wheel.sha256),
        },
    };
    Err(XtaskError::NoCompilers {
        reason: format!("{} {}: {reason}", wheel.package, wheel.version),
    })
}

fn fetch(folder: &Path, wheel: &Wheel) -> Result<(), XtaskError> {
    println!("fetching {} {}", wheel.package, wheel.version);
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "download",
        "--disable-pip-version-check",
        "--quiet",
        "--no-deps",
    ])
    .args(["--only-binary=:all:", "--platform", "manylinux2014_x86_64", "--dest"])
    .arg(folder)
    .arg(format!("{}=={}", wheel.package, wheel.version));
    match process::capture(&mut pip, FETCH_DEADLINE) {
        Ok(_) => Ok(()),
        Err(error @ XtaskError::Interrupted { .. }) => Err(error),
        Err(error) => Err(XtaskError::NoCompilers {
            reason: error.to_string(),
        }),
    }
}

/// The file in `folder` that has the wheel's name; the tags at its end are the index' business.
fn kept(folder: &Path, wheel: &Wheel) -> Result<Option<PathBuf>, XtaskError> {
    let prefix = format!("{}-{}-", wheel.package.replace('-', "_"), wheel.version);
    std::fs::create_dir_all(folder).map_err(|source| XtaskError::file("make", folder, source))?;
    let entries = std::fs::read_dir(folder).map_err(|source| XtaskError::file("read", folder, source))?;
    Ok(entries.filter_map(Result::ok).map(|entry| entry.path()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&prefix) && name.ends_with(".whl")
    }))
}

fn hash_of(path: &Path) -> Result<String, XtaskError> {
    Ok(hex(&Sha256::digest(read_bytes(path)?)))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Archives of this kind keep no mode that Python's unpacker would restore.
fn make_executable(program: &Path) -> Result<(), XtaskError> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755))
        .map_err(|source| XtaskError::file("make executable", program, source))
}
