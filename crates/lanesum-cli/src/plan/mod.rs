//! `lanesum plan`: what sums would run on a machine that is not at hand, from what its tools print.
//!
//! | module | role |
//! |---|---|
//! | `asked` | what is asked of the plan |
//! | `dumps` | from texts to what they tell |
//! | `known` | what is known of the GPUs, and the topology that a plan is made from |
//! | `page` | the same, for the page of `--report` |
//! | `pci` | the tree of `lspci` |
//! | `presets` | common boxes |
//! | `report` | what is said |
//!
//! The plan is the library's: the one that ranks on such GPUs would make, but for what they would have measured.

pub mod asked;
mod dumps;
mod known;
mod page;
mod pci;
pub mod presets;
mod report;

use lanesum_plan::{
    Buffers, Bytes, Elements, Operation, Path, PathChoice, Plan, PlanError, PlanInputs, ReductionTree, Request,
    WORLD_MAX, WorldSize, best_places,
};

use crate::arguments;
use crate::bench::record;
use crate::errors::{CliError, say};
use asked::Asked;
use known::Known;
use presets::Preset;
use report::Report;

/// Plans, and says so; returns the exit code.
pub fn run(arguments: &arguments::Plan) -> Result<u8, CliError> {
    record::try_out(&[arguments.report.as_deref()])?;
    let known = match &arguments.preset {
        Some(name) => Preset::named(name)
            .ok_or_else(|| CliError::Usage {
                cause: format!("there is no preset {name}"),
                hint: "`lanesum presets` names them".into(),
            })?
            .known(),
        None => dumps::read(&arguments.topology)?,
    }
    .with_pcie(arguments.pcie);
    let request = request(arguments)?;
    let asked = Asked::of(&arguments.policy)?;
    let gpus = chosen(arguments, &known, &asked, &request)?;
    let plan = compiled(&known, &gpus, &asked).map_err(refused)?;
    let along = |path| {
        let mut other = asked.clone();
        other.policy.path = path;
        compiled(&known, &gpus, &other).ok()
    };
    let other = match plan.explain(&request).path {
        Path::Peer => along(PathChoice::HostStaged),
        Path::HostStaged => along(PathChoice::Peer),
        Path::None | Path::SharedMemory => None,
    };
    let sweep = arguments.sweep || arguments.report.is_some();
    let report = Report::of(&known, &gpus, (&plan, other.as_ref()), &request, (&asked, sweep));
    if let Some(file) = &arguments.report {
        record::write_whole(file, &crate::page::html(&page::of(&report, &known, &gpus)))?;
    }
    if arguments.json {
        say(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    } else {
        say(&report.tables())?;
    }
    Ok(u8::from(report.decision.algorithm.is_none()))
}

fn request(arguments: &arguments::Plan) -> Result<Request, CliError> {
    let element = arguments.dtype.size() as u64;
    let bytes = arguments
        .bytes
        .unwrap_or_else(|| u64::from(arguments.tokens) * u64::from(arguments.hidden) * element);
    if !bytes.is_multiple_of(element) {
        return Err(CliError::Usage {
            cause: format!(
                "--bytes {bytes} is no multiple of the {element} bytes of {}",
                arguments.dtype
            ),
            hint: "take the next multiple, or another --dtype".into(),
        });
    }
    Ok(Request {
        operation: Operation::Sum,
        dtype: arguments.dtype,
        elements: Elements::new(bytes / element),
        buffers: Buffers::Device,
        label: None,
    })
}

/// The GPUs of ranks 0, 1, ...
fn chosen(
    arguments: &arguments::Plan,
    known: &Known,
    asked: &Asked,
    request: &Request,
) -> Result<Vec<usize>, CliError> {
    let count = known.count();
    let usage = |cause: String, hint: &str| CliError::Usage {
        cause,
        hint: hint.into(),
    };
    let mut named: Vec<usize> = Vec::new();
    for number in &arguments.gpus {
        let Some(at) = known.numbers.iter().position(|known| known == number) else {
            let all: Vec<String> = known.numbers.iter().map(u32::to_string).collect();
            let cause = format!("--gpus {number}: the input has GPUs {}", all.join(", "));
            return Err(usage(cause, "name GPUs by their numbers in the input"));
        };
        if named.contains(&at) {
            return Err(usage(format!("--gpus names GPU {number} twice"), "name each GPU once"));
        }
        named.push(at);
    }
    if !named.is_empty() {
        return Ok(named);
    }
    let ranks = arguments.ranks.map_or(count, usize::from);
    if ranks > count {
        let cause = format!("--ranks {ranks}: the input has {count} GPUs");
        return Err(usage(cause, "plan for as many ranks as there are GPUs, or fewer"));
    }
    if ranks > WORLD_MAX {
        let cause = format!("the input has {count} GPUs, and a communicator has at most {WORLD_MAX} ranks");
        return Err(usage(cause, "plan for some of them: --ranks N, or --gpus"));
    }
    let predict_us = |gpus: &[usize]| {
        let plan = compiled(known, gpus, asked).ok()?;
        plan.predict_us(request)
    };
    best_places(count, ranks, predict_us).map_err(|error| usage(error.to_string(), "name them: --gpus"))
}

fn compiled(known: &Known, gpus: &[usize], asked: &Asked) -> Result<Plan, PlanError> {
    let world = WorldSize::new(gpus.len())?;
    Plan::compile(PlanInputs {
        world,
        topology: &known.topology(gpus),
        policy: asked.policy,
        limits: asked.limits,
        tree: &ReductionTree::canonical(world),
    })
}

fn refused(error: PlanError) -> CliError {
    CliError::Usage {
        cause: error.to_string(),
        hint: "plan for another number of ranks, or leave the algorithm to the plan".into(),
    }
}

/// The same for another length.
fn of_bytes(request: &Request, bytes: Bytes) -> Request {
    Request {
        elements: Elements::new(bytes.get() / request.dtype.size() as u64),
        ..*request
    }
}

/// `lanesum presets`
pub fn list(arguments: &arguments::Presets) -> Result<(), CliError> {
    if arguments.json {
        let document = serde_json::json!({ "presets": presets::ALL });
        say(&format!("{document:#}\n"))
    } else {
        say(&presets::table())
    }
}

#[cfg(test)]
mod tests {
    use lanesum_plan::{Answer, Dtype, Gate, Policy, Preference, Verdict};

    use super::asked::Word;

    use super::*;

    fn sum(dtype: Dtype, elements: u64) -> Request {
        Request {
            operation: Operation::Sum,
            dtype,
            elements: Elements::new(elements),
            buffers: Buffers::Device,
            label: None,
        }
    }

    fn real_dumps() -> Vec<(String, Known)> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../lanesum-probe/tests/data");
        let files = std::fs::read_dir(folder).expect("the dumps of lanesum-probe");
        let mut paths: Vec<String> = files
            .map(|file| file.expect("an entry").path().display().to_string())
            .filter(|path| path.ends_with(".txt"))
            .collect();
        paths.sort();
        let read = |path: String| dumps::read(std::slice::from_ref(&path)).ok().map(|known| (path, known));
        paths.into_iter().filter_map(read).collect()
    }

    /// For each dump that is read, and each preset: exactly one algorithm runs, or every refusal has its reason.
    #[test]
    fn every_machine_has_one_plan() {
        let presets = presets::ALL
            .iter()
            .map(|preset| (preset.name.to_owned(), preset.known()));
        let machines: Vec<(String, Known)> = real_dumps().into_iter().chain(presets).collect();
        assert!(machines.len() > 50, "{}", machines.len());
        for (name, known) in machines {
            for ranks in 1..=known.count().min(WORLD_MAX) {
                let gpus: Vec<usize> = (0..ranks).collect();
                for word in Word::all() {
                    let asked = Asked::of(&[word]).expect("one word");
                    let plan = compiled(&known, &gpus, &asked).expect("a plan");
                    for dtype in Dtype::ALL {
                        for bytes in [0, 4, 8192, 43_008, 1 << 20, 64 << 20] {
                            let request = sum(dtype, bytes / dtype.size() as u64);
                            let explanation = plan.explain(&request);
                            let chosen = explanation
                                .candidates
                                .iter()
                                .filter(|one| one.verdict == Verdict::Chosen);
                            assert_eq!(chosen.count(), usize::from(explanation.chosen.is_some()), "{name}");
                            let refused = known.refused.iter().flatten().any(Option::is_some);
                            let pinned = asked.policy.path == PathChoice::Peer;
                            // Who insists on what GPUs can't gets nothing; all others get something, whatever the number of ranks.
                            let insists = asked.policy != Policy::default();
                            let may_be_none = insists && (ranks > 8 || pinned && refused && ranks > 1);
                            let (decided, decision) = plan.decision(&request, asked.preference);
                            let request = decided.request;
                            match decision {
                                // The evidence of what runs is in the algorithm itself.
                                lanesum_plan::Decision::Own { algorithm, path, .. } => {
                                    let decided = plan.decide(&request).expect("it runs");
                                    assert_eq!((decided.name(), decided.path()), (algorithm, path), "{name}");
                                }
                                lanesum_plan::Decision::Delegate { predicted_us, .. } => {
                                    assert_eq!(asked.preference, Preference::Fastest);
                                    assert!(explanation.predicted_us.is_none_or(|own_us| own_us > predicted_us));
                                }
                                lanesum_plan::Decision::Refused => {
                                    assert!(may_be_none, "{name}, {word:?}: {explanation}");
                                }
                            }
                            // Whatever does not run says why, with a time if it could.
                            for other in explanation.alternatives(asked.preference) {
                                assert!(!other.refusal.to_string().is_empty());
                                assert!(
                                    other.predicted_us.is_none_or(|us| us.is_finite() && us > 0.0),
                                    "{other:?}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    /// The same model of server, seen by `nvidia-smi` on one and by `lspci` on another.
    #[test]
    fn the_tree_says_what_the_labels_say() {
        let known = |name: &str| {
            real_dumps()
                .into_iter()
                .find(|(path, _)| path.contains(name))
                .expect("the dump")
                .1
        };
        let (labels, tree) = (known("12-8xPRO6000"), known("hw-02-lspci-vvv"));
        assert_eq!(labels.links.relations, tree.links.relations);
        assert!(
            tree.links
                .pcie
                .iter()
                .all(|link| link.is_some_and(|link| link.to_string() == "Gen5 x16"))
        );
        assert!(
            tree.remarks.iter().all(|remark| !remark.contains("ACS")),
            "{:?}",
            tree.remarks
        );
    }

    #[test]
    fn access_control_that_redirects_shuts_its_gate() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../lanesum-probe/tests/data/hw-02-lspci-vvv-esc8000a-8xPRO6000-ABRIDGED.txt");
        let text = std::fs::read_to_string(real)
            .expect("the dump")
            .replace("ReqRedir-", "ReqRedir+");
        let file = folder.path().join("lspci.txt");
        std::fs::write(&file, text).expect("a file");
        let known = dumps::read(&[file.display().to_string()]).expect("is read");
        let acs = |known: &Known| {
            let plan = compiled(known, &[0, 1], &Asked::default()).expect("a plan");
            let gates = plan.explain(&sum(Dtype::Bf16, 1)).gates;
            gates.into_iter().find(|finding| finding.gate == Gate::AcsOff)
        };
        let shut = acs(&known).expect("the gate");
        assert_eq!(shut.answer, Answer::No, "{shut:?}");
        assert!(shut.remedy().is_some());
        let (_, open) = real_dumps()
            .into_iter()
            .find(|(path, _)| path.contains("hw-02-lspci-vvv"))
            .expect("the dump");
        assert_eq!(acs(&open).expect("the gate").answer, Answer::Yes);
    }

    #[test]
    fn nothing_of_a_dump_is_proven() {
        for (name, known) in real_dumps() {
            let gpus: Vec<usize> = (0..known.count().min(8)).collect();
            let plan = compiled(&known, &gpus, &Asked::default()).expect("a plan");
            let request = sum(Dtype::Bf16, 1);
            let gates = plan.explain(&request).gates;
            let access = gates.iter().find(|finding| finding.gate == Gate::PeerAccess);
            assert!(access.is_none_or(|access| access.answer != Answer::Yes), "{name}");
        }
    }

    #[test]
    fn the_best_gpus_are_those_that_are_near_each_other() {
        let request = sum(Dtype::Bf16, 1 << 20);
        let best = |name: &str, ranks| {
            let (_, known) = real_dumps()
                .into_iter()
                .find(|(path, _)| path.contains(name))
                .expect("the dump");
            let predict_us = |gpus: &[usize]| {
                let plan = compiled(&known, gpus, &Asked::default()).ok()?;
                plan.explain(&request).predicted_us
            };
            best_places(known.count(), ranks, predict_us).expect("few choices")
        };
        // An NVLink pair and one more GPU; the second to fifth are on the other node than the first.
        assert_eq!(best("24-3xA6000", 2), [0, 1]);
        assert_eq!(best("34-4xT4", 3), [1, 2, 3]);
        // All of one switch, of two.
        assert_eq!(best("39-8xL40", 4), [0, 1, 2, 3]);
        assert_eq!(best("39-8xL40", 8), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
