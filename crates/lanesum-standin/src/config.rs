//! The machine that a test asks for.
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// What happens to stores of kernels on one device to memory of another, or to registered memory of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// They are lost.
    Drop,
    /// They land in a copy that only kernels of the storing process read.
    Mirror,
    /// They land half a second late.
    Delay,
    /// Their low half lands.
    Tear,
}

impl Lie {
    fn word(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Mirror => "mirror",
            Self::Delay => "delay",
            Self::Tear => "tear",
        }
    }
}

/// A machine and its driver, to be written to a file that the stand-in reads.
///
/// Without settings: 8 devices of compute capability 9.0 with 8 multiprocessors and 64 threads a block, that all reach each
/// other.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Config {
    lines: Vec<String>,
    missing: Vec<String>,
}

/// A configuration that was written: what a process needs in its environment.
#[derive(Clone, Debug)]
#[must_use]
pub struct StandIn {
    /// Holds the `libcuda.so.1` to be found first.
    pub directory: PathBuf,
    /// What `LANESUM_STANDIN` names.
    pub config: PathBuf,
}

impl Config {
    /// The machine without settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// So many devices, at most 16; with none, `cuInit` says that there is none.
    pub fn devices(self, count: usize) -> Self {
        self.line(format!("devices {count}"))
    }

    /// Compute capability of all devices.
    pub fn compute(self, major: u32, minor: u32) -> Self {
        self.line(format!("compute {major}.{minor}"))
    }

    /// Multiprocessors of each device.
    pub fn multiprocessors(self, count: u32) -> Self {
        self.line(format!("multiprocessors {count}"))
    }

    /// Most threads of a block.
    pub fn threads(self, count: u32) -> Self {
        self.line(format!("threads {count}"))
    }

    /// So many blocks of a device run at once in a process, others wait until one ends; without this, any number does.
    pub fn resident(self, blocks: u32) -> Self {
        self.line(format!("resident {blocks}"))
    }

    /// Memory of each device, counted for each process by itself.
    pub fn memory(self, bytes: u64) -> Self {
        self.line(format!("memory {bytes}"))
    }

    /// The driver's version, 13000 for 13.0.
    pub fn driver(self, version: u32) -> Self {
        self.line(format!("driver {version}"))
    }

    /// Granularity of virtual memory management; a multiple of 4096.
    pub fn granularity(self, bytes: u64) -> Self {
        self.line(format!("granularity {bytes}"))
    }

    /// No virtual memory management.
    pub fn without_vmm(self) -> Self {
        self.line("vmm off".to_owned())
    }

    /// No inter-process handles.
    pub fn without_ipc(self) -> Self {
        self.line("ipc off".to_owned())
    }

    /// No cubin fits, so that PTX is taken.
    pub fn without_cubins(self) -> Self {
        self.line("cubins off".to_owned())
    }

    /// No PTX is understood.
    pub fn without_ptx(self) -> Self {
        self.line("ptx off".to_owned())
    }

    /// No kernel may be launched while the one before it runs: asking for it is refused with 801. So is it, with any setting, on
    /// devices before compute capability 9.0 and, in captures, by drivers before 12.3.
    pub fn without_programmatic(self) -> Self {
        self.line("programmatic off".to_owned())
    }

    /// `device` may not access memory of `owner`.
    pub fn refuse(self, device: usize, owner: usize) -> Self {
        self.line(format!("refuse {device} {owner}"))
    }

    /// Stores of kernels on `device` to memory of `owner` do not arrive as they should.
    pub fn lie(self, device: usize, owner: usize, lie: Lie) -> Self {
        self.line(format!("lie {device} {owner} {}", lie.word()))
    }

    /// Stores of kernels on `device` to memory of the host that the caller has registered do not arrive as they should; those to
    /// the driver's own memory of the host do.
    pub fn lie_host(self, device: usize, lie: Lie) -> Self {
        self.line(format!("lie_host {device} {}", lie.word()))
    }

    /// Only one process at a time may have a context on `device`.
    pub fn exclusive(self, device: usize) -> Self {
        self.line(format!("exclusive {device}"))
    }

    /// Nobody may have a context on `device`.
    pub fn prohibited(self, device: usize) -> Self {
        self.line(format!("prohibited {device}"))
    }

    /// A watchdog limits how long kernels run on `device`.
    pub fn watchdog(self, device: usize) -> Self {
        self.line(format!("watchdog {device}"))
    }

    /// The call number `nth` (from 1) of `symbol` in each process returns `code`.
    pub fn fail(self, symbol: &str, nth: u64, code: u32) -> Self {
        self.line(format!("fail {symbol} {nth} {code}"))
    }

    /// The execution number `nth` (from 1) of a kernel in each process fails with 719.
    pub fn launch_error(self, nth: u64) -> Self {
        self.line(format!("launch_error {nth}"))
    }

    /// The library has no function of that name.
    pub fn without(mut self, symbol: &str) -> Self {
        self.missing.push(symbol.to_owned());
        self
    }

    /// Writes the configuration, and the library if it is to lack something, into an existing folder.
    ///
    /// # Errors
    /// When the files can't be written, or the library has no symbol that it is to lack.
    pub fn write(&self, folder: &Path) -> io::Result<StandIn> {
        let config = folder.join("standin.conf");
        fs::write(&config, self.lines.concat())?;
        if self.missing.is_empty() {
            return Ok(StandIn {
                directory: crate::directory().to_path_buf(),
                config,
            });
        }
        let mut library = fs::read(crate::directory().join(LIBRARY))?;
        for symbol in &self.missing {
            hide(&mut library, symbol)?;
        }
        let directory = folder.join("driver");
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(LIBRARY), library)?;
        fs::copy(crate::directory().join(MANAGEMENT), directory.join(MANAGEMENT))?;
        Ok(StandIn { directory, config })
    }

    fn line(mut self, line: String) -> Self {
        self.lines.push(line + "\n");
        self
    }
}

const LIBRARY: &str = "libcuda.so.1";
const MANAGEMENT: &str = "libnvidia-ml.so.1";

/// Changes the name wherever it stands, the string table of the dynamic symbols among them. The hash of the wanted name leads
/// to the changed one, which is not equal.
fn hide(library: &mut [u8], symbol: &str) -> io::Result<()> {
    let name: Vec<u8> = [b"\0", symbol.as_bytes(), b"\0"].concat();
    let places: Vec<usize> = library
        .windows(name.len())
        .enumerate()
        .filter(|(_, window)| *window == name)
        .map(|(at, _)| at)
        .collect();
    if places.is_empty() {
        return Err(io::Error::other(format!("the stand-in has no symbol {symbol}")));
    }
    for place in places {
        library[place + 1] = b'_';
    }
    Ok(())
}

impl StandIn {
    /// What to set in the environment of a process: the library path, in front of what this process has, and the
    /// configuration.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, OsString); 2] {
        let mut path = self.directory.clone().into_os_string();
        if let Some(before) = env::var_os("LD_LIBRARY_PATH").filter(|before| !before.is_empty()) {
            path.push(OsStr::new(":"));
            path.push(before);
        }
        [
            ("LD_LIBRARY_PATH", path),
            ("LANESUM_STANDIN", self.config.clone().into_os_string()),
        ]
    }

    /// Sets the environment of a process that is to be started.
    pub fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.environment())
    }
}
