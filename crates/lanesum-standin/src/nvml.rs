//! What the stand-in for the GPUs' management library shows.
use std::ffi::OsString;
use std::path::Path;
use std::{fs, io};

/// What NVML says of a machine, to be written to a file that the stand-in reads. Without settings it works, and shows no GPU.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Nvml {
    lines: Vec<String>,
    gpus: Vec<NvmlGpu>,
}

/// What NVML says of a GPU; what isn't set is not supported.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct NvmlGpu {
    lines: Vec<String>,
}

impl Nvml {
    /// The machine without settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// `nvmlInit_v2` returns this code.
    pub fn init(self, code: u32) -> Self {
        self.line(format!("init {code}"))
    }

    /// This function never returns.
    pub fn hang(self, function: &str) -> Self {
        self.line(format!("hang {function}"))
    }

    /// This function ends the process.
    pub fn crash(self, function: &str) -> Self {
        self.line(format!("crash {function}"))
    }

    /// The driver's version, and that of CUDA, 13000 for 13.0.
    pub fn driver(self, version: &str, cuda: u32) -> Self {
        self.line(format!("driver {version}\ncuda {cuda}"))
    }

    /// One GPU more.
    pub fn gpu(mut self, gpu: NvmlGpu) -> Self {
        self.gpus.push(gpu);
        self
    }

    /// Writes it into an existing folder: what to set in the environment of a process that finds the stand-in's library.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write(&self, folder: &Path) -> io::Result<(&'static str, OsString)> {
        let path = folder.join("nvml.conf");
        let gpus = self.gpus.iter().flat_map(|gpu| &gpu.lines);
        let lines: Vec<&str> = self.lines.iter().chain(gpus).map(String::as_str).collect();
        fs::write(&path, lines.join("\n") + "\n")?;
        Ok(("LANESUM_STANDIN_NVML", path.into_os_string()))
    }

    fn line(mut self, line: String) -> Self {
        self.lines.push(line);
        self
    }
}

impl NvmlGpu {
    /// A GPU at this bus id, as NVML writes it: `00000000:C1:00.0`.
    pub fn new(uuid: &str, bus_id: &str, name: &str) -> Self {
        let named = Self::default().line("gpu".to_owned());
        named.line(format!("uuid {uuid}\nbus {bus_id}\nname {name}"))
    }

    /// Its handle is refused with this code.
    pub fn refuse(self, code: u32) -> Self {
        self.line(format!("refuse {code}"))
    }

    /// Its memory and the window to it, in bytes.
    pub fn memory(self, bytes: u64, bar1: u64) -> Self {
        self.line(format!("memory {bytes}\nbar1 {bar1}"))
    }

    /// Generation and width of its link now, and at most.
    pub fn link(self, now: (u32, u32), most: (u32, u32)) -> Self {
        self.line(format!("link {} {}\nlink_max {} {}", now.0, now.1, most.0, most.1))
    }

    /// Its performance state, and the percent of time in which kernels ran.
    pub fn state(self, state: u32, utilisation: u32) -> Self {
        self.line(format!("state {state}\nutilisation {utilisation}"))
    }

    /// Whether a display is plugged in, and whether one is used.
    pub fn display(self, attached: bool, active: bool) -> Self {
        let digits = (u32::from(attached), u32::from(active));
        self.line(format!("display_attached {}\ndisplay_active {}", digits.0, digits.1))
    }

    /// It is cut into these instances; into none with MIG off.
    pub fn mig(self, on: bool, instances: &[&str]) -> Self {
        let on = self.line(format!("mig {}", u32::from(on)));
        instances
            .iter()
            .fold(on, |gpu, uuid| gpu.line(format!("instance {uuid}")))
    }

    /// So many more NVLinks lead to the device at this bus id, or are `inactive`.
    pub fn nvlinks(self, count: usize, to: &str) -> Self {
        (0..count).fold(self, |gpu, _| gpu.line(format!("nvlink {to}")))
    }

    /// So many of them lead to switches, as the driver counts.
    pub fn to_switches(self, count: u32) -> Self {
        self.line(format!("to_switches {count}"))
    }

    fn line(mut self, line: String) -> Self {
        self.lines.push(line);
        self
    }
}
