//! A folder of this run alone: sources, what is compiled of them, the pipes of orders, and what programs say of themselves.

use std::cell::Cell;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::errors::CliError;

/// Where all that lies while it is needed.
pub struct Folder {
    path: PathBuf,
    /// Names that were given so far.
    given: Cell<u32>,
}

impl Folder {
    /// A new one that only this user may enter, whatever others have put beside it: programs are run that lie there.
    pub fn new() -> Result<Self, CliError> {
        let mut tries = 0;
        loop {
            let path = std::env::temp_dir().join(format!("lanesum-bench-{}-{tries}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    return Ok(Self {
                        path,
                        given: Cell::new(0),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < 100 => tries += 1,
                Err(source) => return Err(refused(source)),
            }
        }
    }

    /// The path of something in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A name for something in it that nothing else has.
    pub fn name(&self, of: &str) -> String {
        self.given.set(self.given.get() + 1);
        format!("{of}-{}", self.given.get())
    }

    /// Writes a file, and says where.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, CliError> {
        let path = self.path(name);
        std::fs::write(&path, text).map_err(refused)?;
        Ok(path)
    }

    /// An empty file to be written to.
    pub fn log(&self, name: &str) -> Result<File, CliError> {
        File::create(self.path(name)).map_err(refused)
    }

    /// A folder with the pipe `rank-R` for each rank, and the end of each that orders are written to.
    pub fn pipes(&self, name: &str, ranks: usize) -> Result<(PathBuf, Vec<File>), CliError> {
        let folder = self.path(name);
        DirBuilder::new().mode(0o700).create(&folder).map_err(refused)?;
        let pipes = (0..ranks).map(|rank| pipe(&folder.join(format!("rank-{rank}"))));
        let pipes = pipes.collect::<io::Result<_>>().map_err(refused)?;
        Ok((folder, pipes))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the folder for temporary files.
        std::fs::remove_dir_all(&self.path).ok();
    }
}

/// Opened for both directions, this neither waits for a reader nor fails without one. Nobody else inherits it: with this process a
/// rank's orders end.
fn pipe(path: &Path) -> io::Result<File> {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    OpenOptions::new().read(true).write(true).open(path)
}

fn refused(source: io::Error) -> CliError {
    CliError::System {
        what: "write what the bench needs into the folder for temporary files".into(),
        source,
    }
}
