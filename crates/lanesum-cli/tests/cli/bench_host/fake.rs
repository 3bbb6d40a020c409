//! Scripts in place of an MPI.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::super::common::{finish, lanesum, stderr, stdout};
use super::{lines, of, rounds, small};

pub fn executable(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// In place of a compiler it gives out `rank`, and in place of a launcher it starts that for each rank.
pub fn fake_openmpi(rank: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    executable(
        &folder.path().join("mpicc.openmpi"),
        &format!("#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\nexec cp '{place}/rank' \"$2\"\n"),
    );
    executable(
        &folder.path().join("mpirun.openmpi"),
        &format!(
            "#!/bin/sh\necho $$ >>'{place}/pids'\nwhile [ \"$1\" != -n ]; do shift; done\nranks=$2; shift 2\nrank=0\n\
             while [ $rank -lt $ranks ]; do FAKE_RANK=$rank \"$@\" & rank=$((rank + 1)); done\nwait $!\n"
        ),
    );
    let text = format!(
        "#!/bin/sh\necho $$ >>'{place}/pids'\n[ $FAKE_RANK = 0 ] || exec cat \"$1/rank-$FAKE_RANK\" >/dev/null\n\
         echo '{{\"event\":\"ready\",\"ranks\":2,\"version\":\"Open MPI v0, a fake\"}}'\n\
         point() {{ echo '{{\"event\":\"point\",\"p50\":1.5,\"p99\":2.5,\"algorithm\":null}}'; }}\n\
         while read dtype buffers elements warm_ups calls salt; do\n{rank}\ndone <\"$1/rank-0\"\n\
         echo left >>'{place}/left'\n"
    );
    executable(&folder.path().join("rank"), &text);
    folder
}

/// Every process that the fakes were.
pub fn pids(folder: &TempDir) -> Vec<u32> {
    let text = std::fs::read_to_string(folder.path().join("pids")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// A run that finds the fake and nothing else.
pub fn lanesum_with(folder: &TempDir, words: &[&str]) -> Command {
    let mut command = lanesum(words);
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()));
    command
}

/// What it says, and that ours are all there whatever the fake does.
pub fn with_fake(folder: &TempDir, more: &[&str]) -> Vec<Value> {
    let words = small(&[&["--json", "--peers", "openmpi"][..], more].concat());
    let output = finish(lanesum_with(folder, &words).spawn().unwrap());
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let rows = lines(&stdout(&output));
    let ours: Vec<&Value> = of(&rows, "lanesum")
        .into_iter()
        .filter(|row| row["dtype"] == "f32")
        .collect();
    assert_eq!(rounds(&ours, "private", 4096), 2, "{rows:?}");
    rows
}
