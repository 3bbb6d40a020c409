//! What the doctor says in the end, to people and to programs.

pub mod page;

use std::fmt::Write;

use lanesum_plan::{
    AlgorithmName, CpuSet, Dtype, Engine, Explanation, Finding, Path, PeerVerdict, Preference, RankGpu, Relation,
};
use serde::{Deserialize, Serialize};

use super::findings::{Remark, Seen, Unknown, Verdict};
use super::gpus::{SeenByRanks, Shown};
use super::rank::RankReport;
use crate::bench::host::round_trip::Regime;
use crate::driver::Driver;
use crate::engines::STAND_IN;
use crate::progress::grouped;
use crate::ranks::Outcome;

/// What a sum of one length would run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Of a message.
    pub bytes: u64,
    pub dtype: Dtype,
    pub engine: Engine,
    pub path: Path,
    /// None where all are refused.
    pub algorithm: Option<AlgorithmName>,
    pub predicted_us: Option<f64>,
    /// Whether the ranks have made such a sum, and found it right.
    pub checked: bool,
    /// The largest of the ranks' medians, in the host's memory.
    pub measured_us: Option<f64>,
    pub alternatives: Vec<Alternative>,
}

/// An algorithm that is not taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alternative {
    pub algorithm: String,
    pub path: Path,
    pub predicted_us: Option<f64>,
    /// Whether lanesum has it.
    pub built: bool,
    /// Why not.
    pub refused: String,
}

impl Alternative {
    /// All that are not chosen.
    pub fn all_of(explanation: &Explanation, preference: Preference) -> Vec<Alternative> {
        let alternatives = explanation.alternatives(preference).into_iter();
        alternatives
            .map(|other| Alternative {
                algorithm: other.name.to_owned(),
                path: other.path,
                predicted_us: other.predicted_us,
                built: other.built,
                refused: other.refusal.to_string(),
            })
            .collect()
    }
}

/// The machine, as far as it tells.
#[derive(Debug, Serialize)]
struct Machine {
    cpu: Option<String>,
    cpus: CpuSet,
    numa_nodes: Option<u32>,
    page_bytes: Option<u64>,
    memory_limit_bytes: Option<u64>,
    container: Option<bool>,
    virtual_machine: Option<bool>,
    wsl: Option<bool>,
    iommu: Option<bool>,
    flag_round_trip_ns: Option<f64>,
    /// How far the first two CPUs are apart.
    cores: Option<Regime>,
    copy_gb_per_s: Option<f64>,
}

/// A gate's answer, with what to do about it.
#[derive(Debug, Serialize)]
pub struct Gate {
    pub name: &'static str,
    pub verdict: &'static str,
    pub reason: String,
    pub remedy: Option<&'static str>,
}

impl Gate {
    pub fn of(finding: &Finding) -> Gate {
        Gate {
            name: finding.gate.name(),
            verdict: finding.answer.name(),
            reason: finding.evidence.clone(),
            remedy: finding.remedy(),
        }
    }
}

/// The way from one rank's GPU to another's.
#[derive(Debug, Serialize)]
struct Way {
    from: usize,
    to: usize,
    /// How they lie to each other; null if it is unknown.
    link: Option<Relation>,
    peer: PeerVerdict,
    host_staged: Option<PeerVerdict>,
}

/// The GPU driver.
#[derive(Debug, Serialize)]
struct Found {
    cuda_version: u32,
    devices: usize,
}

/// What went wrong among the ranks.
#[derive(Debug, Serialize)]
struct Failed {
    error: String,
    hint: Option<String>,
    failed_ranks: Vec<usize>,
}

/// All of it.
#[derive(Debug, Serialize)]
pub struct Report {
    version: &'static str,
    pub verdict: Verdict,
    stand_in: bool,
    machine: Machine,
    driver: Option<Found>,
    nvml: Shown,
    visible: Option<SeenByRanks>,
    /// Why ranks sum in the host's memory, where nobody insisted on that.
    without_gpus: Option<String>,
    ranks: usize,
    isa: Option<String>,
    setup_ms: Option<f64>,
    memory_bytes: Option<u64>,
    device_memory_bytes: Option<u64>,
    gpus: Vec<RankGpu>,
    pairs: Vec<Way>,
    gates: Vec<Gate>,
    decisions: Vec<Decision>,
    remarks: Vec<Remark>,
    unknown: Vec<Unknown>,
    failed: Option<Failed>,
}

impl Report {
    /// From what was seen.
    pub fn of(seen: &Seen) -> Self {
        let first = seen.first();
        let remarks = seen.remarks();
        let facts = match &seen.driver {
            Driver::There(facts) => Some(facts),
            Driver::NotAsked | Driver::Without { .. } => None,
        };
        let failed = match &seen.tried {
            Outcome::Reports(_) => None,
            Outcome::Failure(failure) => Some(Failed {
                error: failure.error.clone(),
                hint: failure.hint.clone(),
                failed_ranks: failure.failed_ranks.clone(),
            }),
        };
        Self {
            version: env!("CARGO_PKG_VERSION"),
            verdict: remarks
                .iter()
                .map(|remark| remark.verdict)
                .max()
                .unwrap_or(Verdict::Fine),
            stand_in: facts.is_some_and(|facts| facts.stand_in),
            machine: Machine {
                cpu: seen.host.cpu_model.clone(),
                cpus: seen.cpus.iter().copied().collect(),
                numa_nodes: seen.host.numa_nodes,
                page_bytes: seen.host.page.map(|page| page.get()),
                memory_limit_bytes: seen.host.memory_limit.map(|limit| limit.get()),
                container: seen.host.container,
                virtual_machine: seen.host.virtualised,
                wsl: seen.host.wsl,
                iommu: seen.host.iommu,
                flag_round_trip_ns: seen.round_trip.map(|trip| trip.ns),
                cores: match *seen.cpus {
                    [_] => Some(Regime::OneCore),
                    _ => seen.round_trip.map(|trip| Regime::around(Some(trip), Some(trip))),
                },
                copy_gb_per_s: seen.copy_gb_per_s,
            },
            driver: facts.map(|facts| Found {
                cuda_version: facts.version,
                devices: facts.devices,
            }),
            nvml: Shown::of(&seen.management),
            visible: seen.visibility.as_ref().map(SeenByRanks::of),
            without_gpus: seen
                .driver
                .engine(seen.asked)
                .without
                .or_else(|| first.and_then(|first| first.without_device.clone())),
            ranks: seen.ranks,
            isa: first.map(|first| first.isa.clone()),
            setup_ms: largest(seen, |report| report.setup_ms),
            memory_bytes: first.map(|first| first.memory_bytes),
            device_memory_bytes: first.map(|first| first.device_memory_bytes),
            gpus: first
                .and_then(|first| first.topology.gpus.clone())
                .map_or(vec![], |gpus| gpus.ranks),
            pairs: first.map(pairs).unwrap_or_default(),
            gates: first.map(gates).unwrap_or_default(),
            decisions: decisions(seen),
            remarks,
            unknown: seen.unknown(),
            failed,
        }
    }

    /// The tables for people.
    pub fn tables(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).unwrap_or_default();
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        if self.stand_in {
            writeln!(text, "{STAND_IN}")?;
        }
        writeln!(text, "lanesum {} doctor: {}\n", self.version, self.headline())?;
        for (name, value) in self.rows() {
            writeln!(text, "  {name:<12}{value}")?;
        }
        self.nvml.write(text)?;
        if let Some(visible) = &self.visible {
            visible.write(text)?;
        }
        self.write_decisions(text)?;
        if !self.gates.is_empty() {
            writeln!(text, "\ngates")?;
        }
        for gate in &self.gates {
            writeln!(text, "  {:<15} {:<8} {}", gate.name, gate.verdict, gate.reason)?;
            if let Some(remedy) = gate.remedy {
                writeln!(text, "  {:<25}{remedy}", "")?;
            }
        }
        for (place, remark) in self.remarks.iter().enumerate() {
            let title = match remark.verdict {
                Verdict::Mend => "to mend",
                Verdict::Remarks | Verdict::Fine => "remark",
            };
            writeln!(text, "\n{title} {}: {}\n  {}", place + 1, remark.what, remark.remedy)?;
        }
        for unknown in &self.unknown {
            writeln!(text, "\nnot known: {}\n  {}", unknown.what, unknown.how)?;
        }
        Ok(())
    }

    /// The verdict in a few words.
    fn headline(&self) -> String {
        match self.verdict {
            Verdict::Fine => "all is fine".to_owned(),
            Verdict::Remarks => format!("it works, with {}", counted(self.remarks.len(), "remark", "remarks")),
            Verdict::Mend => {
                let mend = |remark: &&Remark| remark.verdict == Verdict::Mend;
                format!(
                    "{} to mend",
                    counted(self.remarks.iter().filter(mend).count(), "thing", "things")
                )
            }
        }
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let machine = &self.machine;
        let unknown = || "unknown".to_owned();
        let memory = |bytes: u64| lanesum_plan::Bytes::new(bytes).to_string();
        let mut rows = vec![
            ("machine", machine.cpu.clone().unwrap_or_else(unknown)),
            (
                "",
                format!(
                    "{} usable: {}; NUMA nodes: {}; {}",
                    counted(machine.cpus.len(), "CPU", "CPUs"),
                    machine.cpus,
                    machine.numa_nodes.map_or_else(unknown, |nodes| nodes.to_string()),
                    match machine.container {
                        Some(true) => "in a container",
                        Some(false) => "in no container",
                        None => "container or not: unknown",
                    },
                ),
            ),
        ];
        let what = match (machine.wsl, machine.virtual_machine) {
            (Some(true), _) => "Windows' subsystem for Linux",
            (_, Some(true)) => "a virtual machine",
            (_, Some(false)) => "no virtual machine",
            (_, None) => "a virtual machine or not: unknown",
        };
        let iommu = match machine.iommu {
            Some(true) => "an IOMMU is in use",
            Some(false) => "no IOMMU is in use",
            None => "IOMMU: unknown",
        };
        rows.push(("", format!("{what}; {iommu}")));
        if let Some(limit) = machine.memory_limit_bytes {
            rows.push(("", format!("the control group's memory: {}", memory(limit))));
        }
        if let Some(ns) = machine.flag_round_trip_ns {
            let copies = machine
                .copy_gb_per_s
                .map_or_else(unknown, |rate| format!("{rate:.1} GB/s"));
            rows.push((
                "cores",
                format!(
                    "the first two are {}: a flag goes there and back in {ns:.0} ns, copies of what the other wrote run at {copies}",
                    machine.cores.map_or("somewhere", Regime::name)
                ),
            ));
        }
        match (&self.driver, &self.without_gpus) {
            (Some(driver), _) => rows.push((
                "driver",
                format!(
                    "for CUDA {}.{}, {}",
                    driver.cuda_version / 1000,
                    driver.cuda_version % 1000 / 10,
                    counted(driver.devices, "GPU", "GPUs")
                ),
            )),
            (None, Some(reason)) => rows.push(("no GPU", reason.clone())),
            (None, None) => {}
        }
        for (rank, gpu) in self.gpus.iter().enumerate() {
            let name = if rank == 0 { "GPUs" } else { "" };
            rows.push((
                name,
                format!(
                    "rank {rank}: {}, {}, compute {}.{}, {} multiprocessors, {}",
                    gpu.name, gpu.pci_bus_id, gpu.compute.0, gpu.compute.1, gpu.multiprocessors, gpu.memory
                ),
            ));
        }
        if let (Some(setup), Some(bytes)) = (self.setup_ms, self.memory_bytes) {
            let on_gpus = match self.device_memory_bytes {
                None | Some(0) => String::new(),
                Some(bytes) => format!(", and {} of its GPU's for each rank", memory(bytes)),
            };
            rows.push((
                "set-up",
                format!(
                    "{} in {setup:.1} ms; {} of host memory in all{on_gpus}",
                    counted(self.ranks, "rank", "ranks"),
                    memory(bytes)
                ),
            ));
        }
        rows
    }

    fn write_decisions(&self, text: &mut String) -> std::fmt::Result {
        if self.decisions.is_empty() {
            return Ok(());
        }
        writeln!(
            text,
            "\na sum of bf16, in us (predictions serve to choose){}\n{:>12}  {:<7} {:<14} {:<16} {:>10} {:>10}  checked",
            if cfg!(debug_assertions) {
                "; measured in an unoptimised build"
            } else {
                ""
            },
            "bytes",
            "engine",
            "path",
            "algorithm",
            "predicted",
            "measured"
        )?;
        for decision in &self.decisions {
            let time = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |time| format!("{time:.2}"));
            writeln!(
                text,
                "{:>12}  {:<7} {:<14} {:<16} {:>10} {:>10}  {}",
                grouped(decision.bytes),
                decision.engine,
                decision.path,
                decision.algorithm.map_or("refused", AlgorithmName::name),
                time(decision.predicted_us),
                time(decision.measured_us),
                if decision.checked { "yes" } else { "no" }
            )?;
            // The rest is for programs, and for `lanesum plan`.
            let could =
                |other: &&Alternative| other.built && (other.predicted_us.is_some() || decision.algorithm.is_none());
            for alternative in decision.alternatives.iter().filter(could) {
                writeln!(text, "{:>14}not {}: {}", "", alternative.algorithm, alternative.refused)?;
            }
        }
        Ok(())
    }
}

/// So many, with the word for one or for several.
pub fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

fn largest(seen: &Seen, of: impl Fn(&RankReport) -> f64) -> Option<f64> {
    match &seen.tried {
        Outcome::Reports(reports) => reports.iter().map(of).reduce(f64::max),
        Outcome::Failure(_) => None,
    }
}

fn pairs(report: &RankReport) -> Vec<Way> {
    let Some(gpus) = &report.topology.gpus else {
        return vec![];
    };
    let rows = gpus.peers.iter().enumerate();
    let all = rows.flat_map(|(from, row)| row.iter().enumerate().map(move |(to, peer)| (from, to, peer)));
    let others = all.filter(|(from, to, _)| from != to);
    others
        .map(|(from, to, peer)| Way {
            from,
            to,
            link: gpus.links.relations.get(from).and_then(|row| *row.get(to)?),
            peer: peer.clone(),
            host_staged: gpus.staged.get(from).and_then(|row| row.get(to)).cloned(),
        })
        .collect()
}

fn gates(report: &RankReport) -> Vec<Gate> {
    report.gates.iter().map(Gate::of).collect()
}

/// Those of the first rank, with the times of the slowest.
fn decisions(seen: &Seen) -> Vec<Decision> {
    let Outcome::Reports(reports) = &seen.tried else {
        return vec![];
    };
    let Some(first) = reports.first() else {
        return vec![];
    };
    let slowest = |place: usize| {
        let times = reports
            .iter()
            .filter_map(|report| report.decisions.get(place)?.measured_us);
        times.reduce(f64::max)
    };
    let with_time = |(place, decision): (usize, &Decision)| Decision {
        checked: reports
            .iter()
            .all(|report| report.decisions.get(place).is_some_and(|decision| decision.checked)),
        measured_us: slowest(place),
        ..decision.clone()
    };
    first.decisions.iter().enumerate().map(with_time).collect()
}
