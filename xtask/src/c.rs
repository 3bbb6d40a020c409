//! `cargo xtask c`: the library for C, built and laid out as C programs expect it below a prefix.
//!
//! What pkg-config says is found out and not assumed: the compiler names the system's libraries that the static one needs, and the prefix
//! is wherever the `.pc` file lies, so the folder may be moved.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::error::XtaskError;
use crate::process;
use crate::workspace::Workspace;

/// What programs ask for at run time; crates/lanesum-c/build.rs gives it to the library.
const SONAME: &str = "liblanesum.so.0";

/// An optimised build from nothing.
const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Where the compiler names the libraries that a static one needs.
const NATIVE: &str = "native-static-libs: ";

/// Where to install what.
#[derive(clap::Args)]
pub struct Arguments {
    /// Where include/ and lib/ are made [default: c below the target folder]
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// The profile of cargo that the library is built with
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
}

/// Builds and installs.
///
/// # Errors
/// The library can't be compiled, or the folder can't be written.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode, XtaskError> {
    let system = build(workspace, &arguments.profile)?;
    let prefix = arguments.prefix.clone().unwrap_or_else(|| workspace.target().join("c"));
    install(workspace, &built(&arguments.profile), &prefix, &system)?;
    println!("installed below {}", prefix.display());
    println!("  export PKG_CONFIG_PATH={}", prefix.join("lib/pkgconfig").display());
    println!("  cc program.c $(pkg-config --cflags --libs lanesum)");
    Ok(ExitCode::SUCCESS)
}

/// Builds both libraries, and returns what the static one needs of the system.
fn build(workspace: &Workspace, profile: &str) -> Result<String, XtaskError> {
    let words = ["rustc", "--package", "lanesum-c", "--lib", "--profile", profile];
    let mut command = workspace.cargo(&words);
    command.args(["--", "--print", "native-static-libs"]);
    let lines = process::capture(&mut command, DEADLINE)?;
    let named = lines.iter().find_map(|line| line.split_once(NATIVE));
    named
        .map(|(_, libraries)| once_each(libraries))
        .ok_or_else(|| XtaskError::Unreadable {
            command: process::describe(&command),
            wanted: "list of native libraries",
            last_lines: process::last_lines(&lines),
        })
}

/// The last of each: a library comes after those that need it.
fn once_each(libraries: &str) -> String {
    let words: Vec<&str> = libraries.split_whitespace().collect();
    let last = words
        .iter()
        .enumerate()
        .filter(|&(at, word)| !words[at + 1..].contains(word));
    last.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
}

/// The folder of a profile's artefacts.
fn built(profile: &str) -> String {
    match profile {
        "dev" => "debug".to_owned(),
        named => named.to_owned(),
    }
}

fn install(workspace: &Workspace, profile: &str, prefix: &Path, system: &str) -> Result<(), XtaskError> {
    let version = env!("CARGO_PKG_VERSION");
    let room = workspace.root().join("crates/lanesum-c");
    let library = prefix.join("lib");
    copy(&room.join("include/lanesum.h"), &prefix.join("include/lanesum.h"))?;
    copy(
        &workspace.built(profile, "liblanesum_c.a"),
        &library.join("liblanesum.a"),
    )?;
    let shared = format!("liblanesum.so.{version}");
    copy(&workspace.built(profile, "liblanesum_c.so"), &library.join(&shared))?;
    link(&shared, &library.join(SONAME))?;
    link(SONAME, &library.join("liblanesum.so"))?;
    let template = Workspace::read(&room.join("lanesum.pc.in"))?;
    for (name, libraries) in [
        ("lanesum", "-L${libdir} -llanesum".to_owned()),
        // Named by its path: the linker would take the shared one.
        ("lanesum-static", format!("${{libdir}}/liblanesum.a {system}")),
    ] {
        let text = template
            .replace("@NAME@", name)
            .replace("@VERSION@", version)
            .replace("@LIBS@", &libraries);
        Workspace::write(&library.join("pkgconfig").join(name).with_extension("pc"), &text)?;
    }
    Ok(())
}

/// Copies beside the target and moves it there, as programs may be running what lies there.
fn copy(from: &Path, to: &Path) -> Result<(), XtaskError> {
    let mut fresh = to.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|source| XtaskError::file("make", folder, source))?;
    }
    fs::copy(from, &fresh).map_err(|source| XtaskError::file("copy", from, source))?;
    fs::rename(&fresh, to).map_err(|source| XtaskError::file("write", to, source))
}

/// Makes a symbolic link, instead of what there is.
fn link(to: &str, at: &Path) -> Result<(), XtaskError> {
    match fs::remove_file(at) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(XtaskError::file("replace", at, source)),
        Err(_) | Ok(()) => symlink(to, at).map_err(|source| XtaskError::file("link", at, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_stays_behind_all_that_need_it() {
        assert_eq!(once_each("-ldl -lgcc_s -lm -ldl -lc"), "-lgcc_s -lm -ldl -lc");
    }

    #[test]
    fn the_soname_is_the_library_s() {
        let script = include_str!("../../crates/lanesum-c/build.rs");
        assert!(script.contains(&format!("const SONAME: &str = \"{SONAME}\";")));
    }
}
