//! `cargo xtask kernels`: the GPUs' code, compiled once and shipped.
//!
//! Who builds lanesum has no CUDA toolkit, and who runs it has no compiler: so the images are files of the repository, one for
//! each module, world size and target, and this chore is all that makes them. `--check` makes them again below the target folder
//! and fails unless every byte is the same, so that nobody has to believe that the images are those of the sources.

mod compile;
mod entries;
mod images;
mod report;
mod units;
mod waiting;
mod wheels;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;

use self::compile::{Cubin, Ptx};
use self::images::Image;
use self::units::{Architecture, Module, SHIPPED, Unit};
use self::wheels::Toolchain;
use crate::error::XtaskError;
use crate::workspace::Workspace;

/// All images together, packed.
const MOST_BYTES: usize = 6 << 20;

const SOURCES: &str = "kernels";
const IMAGES: &str = "crates/lanesum-cuda/kernels";
const LIST: &str = "crates/lanesum-cuda/src/images.rs";

/// What to do with the images.
#[derive(clap::Args)]
pub struct Arguments {
    /// Change nothing; make them below the target folder, and fail where the repository has other ones
    #[arg(long)]
    check: bool,
}

/// A file that is generated: its place from the root, and its content.
struct Made {
    path: String,
    content: Vec<u8>,
}

pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode, XtaskError> {
    if arguments.check {
        check(workspace)?;
        return Ok(ExitCode::SUCCESS);
    }
    let made = make(workspace, Effort::Repeat)?;
    for file in &made {
        write_bytes(&workspace.root().join(&file.path), &file.content)?;
    }
    for stray in strays(workspace, &made)? {
        let path = workspace.root().join(&stray);
        std::fs::remove_file(&path).map_err(|source| XtaskError::File {
            action: "remove",
            path,
            source,
        })?;
    }
    println!("wrote {LIST} and {} files in {IMAGES}", made.len() - 1);
    Ok(ExitCode::SUCCESS)
}

/// How sure the making is.
#[derive(Clone, Copy)]
enum Effort {
    /// Each source is compiled once: its product is compared with what is shipped.
    Once,
    /// Several times, before it is shipped: NVRTC's order of instructions may depend on where its memory lies, and such an image
    /// could not be checked.
    Repeat,
}

/// Makes the images anew and compares them with the shipped ones.
///
/// # Errors
/// A compiler is missing, a kernel is refused, or a file differs.
pub fn check(workspace: &Workspace) -> Result<(), XtaskError> {
    let made = make(workspace, Effort::Once)?;
    let differs = |file: &&Made| {
        let shipped = std::fs::read(workspace.root().join(&file.path));
        shipped.map_or(true, |shipped| shipped != file.content)
    };
    let mut files: Vec<String> = made.iter().filter(differs).map(|file| file.path.clone()).collect();
    files.extend(strays(workspace, &made)?);
    if files.is_empty() {
        return Ok(());
    }
    Err(XtaskError::StaleImages { files })
}

/// Compiles, assembles and judges everything, and gives the files that are to be shipped.
fn make(workspace: &Workspace, effort: Effort) -> Result<Vec<Made>, XtaskError> {
    let folder = workspace.target().join("kernels");
    let tools = wheels::toolchain(&folder)?;
    let jobs = compile::jobs(&Architecture::ALL);
    let ptx = compile::ptx(workspace, &tools, &folder.join("images"), &jobs)?;
    match effort {
        Effort::Once => {}
        Effort::Repeat => repeat(workspace, &tools, &folder.join("again"), &ptx)?,
    }
    let cubins = compile::cubins(&tools, &ptx)?;
    print_registers(&cubins);
    let problems = problems(&ptx, &cubins);
    if !problems.is_empty() {
        return Err(XtaskError::Kernels { problems });
    }
    let images = images_of(ptx, &cubins)?;
    let bytes = images.iter().map(|image| image.compressed.len()).sum::<usize>();
    println!("{} images, {} KiB together", images.len(), bytes / 1024);
    if bytes > MOST_BYTES {
        let problems = vec![format!("{bytes} bytes of images, and at most {MOST_BYTES} are shipped")];
        return Err(XtaskError::Kernels { problems });
    }
    let digest = images::digest_of(&sources(workspace)?, &compile::options());
    let list = Made {
        path: LIST.to_owned(),
        content: images::render(&images, &digest).into_bytes(),
    };
    let files = images.into_iter().map(|image| Made {
        path: format!("{IMAGES}/{}", image.file_name()),
        content: image.compressed,
    });
    Ok(std::iter::once(list).chain(files).collect())
}

/// Compiles the sources again and again.
///
/// # Errors
/// The compiler refused one, or made something else of it.
fn repeat(workspace: &Workspace, tools: &Toolchain, folder: &Path, ptx: &[Ptx]) -> Result<(), XtaskError> {
    for architecture in Architecture::ALL {
        let first = || ptx.iter().filter(|ptx| ptx.architecture == architecture);
        for _ in 0..architecture.repeats() {
            let again = compile::ptx(workspace, tools, folder, &compile::jobs(&[architecture]))?;
            let problems = unstable(first(), &again);
            if !problems.is_empty() {
                return Err(XtaskError::Kernels { problems });
            }
        }
    }
    Ok(())
}

/// By unit, the PTX and then the machine code, ascending.
fn images_of(ptx: Vec<Ptx>, cubins: &[Cubin]) -> Result<Vec<Image>, XtaskError> {
    let mut images = Vec::new();
    for ptx in ptx {
        let shipped = cubins
            .iter()
            .filter(|cubin| ptx.makes(cubin) && SHIPPED.contains(&cubin.sm))
            .map(|cubin| Image::cubin(cubin.unit, cubin.sm, &cubin.code));
        let shipped = shipped.collect::<Result<Vec<Image>, XtaskError>>()?;
        if ptx.architecture.is_shipped() {
            images.push(Image::ptx(ptx.unit, ptx.text.into_bytes())?);
        }
        images.extend(shipped);
    }
    Ok(images)
}

/// The units whose PTX came out otherwise the second time.
fn unstable<'a>(ptx: impl Iterator<Item = &'a Ptx>, again: &[Ptx]) -> Vec<String> {
    let differ = ptx.zip(again).filter(|(one, other)| one.text != other.text);
    let problem = |(one, _): (&Ptx, &Ptx)| {
        format!(
            "{}, {}: NVRTC gives other PTX each time, so the image could not be checked",
            one.unit, one.architecture
        )
    };
    differ.map(problem).collect()
}

/// All that is wrong with the compilers' products, one line each.
fn problems(ptx: &[Ptx], cubins: &[Cubin]) -> Vec<String> {
    let mut problems = Vec::new();
    for ptx in ptx {
        let place = format!("{}, {}", ptx.unit, ptx.architecture);
        let mut found = ptx.said.clone();
        found.extend(entries::difference(
            &entries::in_ptx(&ptx.text),
            &entries::expected(ptx.unit),
        ));
        found.extend(waiting::problems(&ptx.text, ptx.architecture));
        let threads = entries::threads_in_ptx(&ptx.text).map_err(|problem| found.push(problem));
        problems.extend(found.iter().map(|problem| format!("{place}: {problem}")));
        if let Ok(threads) = threads {
            let cubins = cubins.iter().filter(|cubin| ptx.makes(cubin));
            problems.extend(cubins.flat_map(|cubin| problems_of(cubin, &threads)));
        }
    }
    problems
}

/// All that is wrong with machine code for blocks of so many threads, by entry.
fn problems_of(cubin: &Cubin, threads: &BTreeMap<String, u32>) -> Vec<String> {
    let found: Vec<String> = cubin.report.entries.keys().cloned().collect();
    let difference = entries::difference(&found, &entries::expected(cubin.unit));
    let more = cubin
        .report
        .problems(|entry| threads.get(entry).copied().unwrap_or(u32::MAX));
    let place = |problem| format!("{}, sm_{}: {problem}", cubin.unit, cubin.sm);
    difference.into_iter().chain(more).map(place).collect()
}

/// The most registers of any kernel, by unit and target.
fn print_registers(cubins: &[Cubin]) {
    for module in Module::ALL {
        let header: String = module
            .made()
            .iter()
            .map(|sm| format!("{:>8}", format!("sm_{sm}")))
            .collect();
        println!("{:<15}{header}", "registers");
        for unit in Unit::all().into_iter().filter(|unit| unit.module == module) {
            let row: String = cubins
                .iter()
                .filter(|cubin| cubin.unit == unit)
                .map(|cubin| format!("{:>8}", cubin.report.most_registers()))
                .collect();
            println!("{:<15}{row}", unit.to_string());
        }
    }
}

/// The kernels' sources, by name.
fn sources(workspace: &Workspace) -> Result<Vec<(String, Vec<u8>)>, XtaskError> {
    let folder = workspace.root().join(SOURCES);
    names_in(&folder)?
        .into_iter()
        .filter(|name| name.ends_with(".cu") || name.ends_with(".cuh"))
        .map(|name| Ok((name.clone(), read_bytes(&folder.join(&name))?)))
        .collect()
}

/// Files beside the images that are none of them.
fn strays(workspace: &Workspace, made: &[Made]) -> Result<Vec<String>, XtaskError> {
    let names = names_in(&workspace.root().join(IMAGES))?;
    let paths = names.into_iter().map(|name| format!("{IMAGES}/{name}"));
    Ok(paths
        .filter(|path| made.iter().all(|file| file.path != *path))
        .collect())
}

/// The names in a folder, sorted; none where there is no folder.
fn names_in(folder: &Path) -> Result<BTreeSet<String>, XtaskError> {
    let failed = |source| XtaskError::File {
        action: "read",
        path: folder.to_owned(),
        source,
    };
    if !folder.exists() {
        return Ok(BTreeSet::new());
    }
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        names.insert(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, XtaskError> {
    std::fs::read(path).map_err(|source| XtaskError::File {
        action: "read",
        path: path.to_owned(),
        source,
    })
}

fn write_bytes(path: &Path, content: &[u8]) -> Result<(), XtaskError> {
    let failed = |source| XtaskError::File {
        action: "write",
        path: path.to_owned(),
        source,
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, content).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches, without a compiler, who changed a kernel and did not make the images.
    #[test]
    fn the_images_are_of_these_sources() {
        let workspace = Workspace::find().expect("cargo");
        let digest = images::digest_of(&sources(&workspace).expect("sources"), &compile::options());
        let list = Workspace::read(&workspace.root().join(LIST)).expect("the list of the images");
        assert!(list.contains(&digest), "kernels changed: run `cargo xtask kernels`");
    }
}
