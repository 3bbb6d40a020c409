//! A root directory for tests, with the files that a test names.
use std::path::Path;

pub(crate) struct Root(tempfile::TempDir);

impl Root {
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let root = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    pub(crate) fn link(&self, folder: &str, links: &[(&str, &str)]) {
        let folder = self.path().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        for (name, target) in links {
            std::os::unix::fs::symlink(target, folder.join(name)).unwrap();
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}
