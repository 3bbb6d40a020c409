//! What of all that was seen is worth a remark, what is to be mended, and what could not be seen.

use lanesum::EngineChoice;
use lanesum_plan::{Answer, Finding, Gate, Gpus, HostFacts, Path};
use serde::Serialize;

use super::gpus::{Management, Visibility};
use super::rank::RankReport;
use super::report::counted;
use crate::bench::host::round_trip::RoundTrip;
use crate::driver::{Driver, Lack};
use crate::ranks::Outcome;

/// Everything that was found out.
pub struct Seen {
    pub host: HostFacts,
    /// The CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// Between the first two of them.
    pub round_trip: Option<RoundTrip>,
    /// The same, of copies.
    pub copy_gb_per_s: Option<f64>,
    /// What is wrong with the environment, and what to do.
    pub environment: Option<(String, String)>,
    /// What was asked for.
    pub asked: EngineChoice,
    pub driver: Driver,
    pub management: Management,
    /// Which GPUs ranks will see, where anybody looks for some.
    pub visibility: Option<Visibility>,
    /// How many ranks were tried.
    pub ranks: usize,
    pub tried: Outcome<RankReport>,
}

/// How the machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing to say.
    Fine,
    /// It works, and something could be better.
    Remarks,
    /// Something that was wanted does not work.
    Mend,
}

impl Verdict {
    /// What the program ends with.
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Fine => 0,
            Verdict::Remarks => 1,
            Verdict::Mend => 2,
        }
    }
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Remark {
    /// Whether it only could be better, or has to be mended.
    pub verdict: Verdict,
    /// What was found.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unknown {
    /// What.
    pub what: &'static str,
    /// How to find out.
    pub how: &'static str,
}

pub fn remark(verdict: Verdict, what: impl Into<String>, remedy: impl Into<String>) -> Remark {
    Remark {
        verdict,
        what: what.into(),
        remedy: remedy.into(),
    }
}

impl Seen {
    /// What the first rank found; the others' plans are the same.
    pub fn first(&self) -> Option<&RankReport> {
        match &self.tried {
            Outcome::Reports(reports) => reports.first(),
            Outcome::Failure(_) => None,
        }
    }

    /// What to do, the most urgent first.
    pub fn remarks(&self) -> Vec<Remark> {
        let mut remarks = self.of_the_driver();
        if let Some((error, hint)) = &self.environment {
            remarks.push(remark(
                Verdict::Mend,
                format!("ranks that take from this environment who they are would not start: {error}"),
                hint,
            ));
        }
        if !self.without_any_gpu() {
            remarks.extend(self.visibility.iter().flat_map(Visibility::remarks));
        }
        match &self.tried {
            Outcome::Failure(failure) => {
                let remedy = failure
                    .hint
                    .clone()
                    .unwrap_or_else(|| "run `lanesum selftest` and report what it says".to_owned());
                remarks.push(remark(
                    Verdict::Mend,
                    format!(
                        "{} tried, and failed: {}",
                        counted(self.ranks, "rank was", "ranks were"),
                        failure.error
                    ),
                    remedy,
                ));
            }
            Outcome::Reports(reports) => {
                remarks.extend(reports.first().into_iter().flat_map(|first| self.of_the_ranks(first)))
            }
        }
        remarks.extend(self.management.remarks());
        remarks.extend(self.of_the_cpus());
        remarks.sort_by_key(|remark| std::cmp::Reverse(remark.verdict));
        remarks
    }

    /// Whether there is no driver, nor anything else that shows GPUs, and nobody wants one: then it does not matter which could be seen.
    fn without_any_gpu(&self) -> bool {
        let lack = match &self.driver {
            Driver::Without { lack, .. } => Some(*lack),
            Driver::There(_) | Driver::NotAsked => None,
        };
        lack == Some(Lack::Driver) && self.asked != EngineChoice::Cuda && self.management.gpus().is_none()
    }

    /// What keeps ranks from GPUs, if it is a fault, and what else is to be said of the driver.
    fn of_the_driver(&self) -> Vec<Remark> {
        let insists = self.asked == EngineChoice::Cuda;
        match &self.driver {
            Driver::Without { lack, error, hint } => {
                let verdict = match lack {
                    Lack::Driver | Lack::Device if insists => Verdict::Mend,
                    Lack::Use => Verdict::Mend,
                    Lack::Device => Verdict::Remarks,
                    // Most machines have no GPU.
                    Lack::Driver => return vec![],
                };
                vec![remark(verdict, error, hint)]
            }
            Driver::There(facts) if facts.stand_in => vec![remark(
                Verdict::Remarks,
                "the driver is the tests' stand-in: no GPU takes part",
                "leave the stand-in out of LD_LIBRARY_PATH",
            )],
            Driver::There(_) | Driver::NotAsked => vec![],
        }
    }

    fn of_the_cpus(&self) -> Option<Remark> {
        let [only] = *self.cpus else { return None };
        Some(remark(
            Verdict::Remarks,
            format!("this process may use CPU {only} alone: ranks take turns on it"),
            "allow more CPUs (taskset, the container's cpuset)",
        ))
    }

    /// What the ranks' plan says of the machine.
    fn of_the_ranks(&self, report: &RankReport) -> Vec<Remark> {
        let mut remarks = Vec::new();
        if let Some(reason) = &report.without_device {
            remarks.push(remark(
                Verdict::Mend,
                format!("the GPUs are not used: {reason}"),
                "with --engine cuda the ranks fail with the reason's own hint; with --engine host nobody looks for GPUs",
            ));
        }
        if let (Some(other), Some(decision)) = (&report.other_path, report.decisions.first())
            && decision.path == Path::HostStaged
        {
            remarks.push(remark(
                Verdict::Remarks,
                format!("bytes go through the host's memory: {}", other.reason),
                between(&report.gates).remedy().unwrap_or_default(),
            ));
        }
        let tried = report.topology.gpus.as_ref();
        remarks.extend(tried.and_then(|gpus| self.management.window(gpus)));
        for finding in report.gates.iter().filter(|finding| finding.answer == Answer::No) {
            // One CPU has its own remark.
            let worth = finding.gate == Gate::OwnDevice || finding.gate == Gate::Cores && self.cpus.len() > 1;
            if worth {
                let remedy = finding.remedy().unwrap_or_default();
                remarks.push(remark(Verdict::Remarks, finding.evidence.clone(), remedy));
            }
        }
        let watched = |gpus: &Gpus| gpus.ranks.iter().any(|gpu| gpu.watchdog);
        if report.without_device.is_none() && report.topology.gpus.as_ref().is_some_and(watched) {
            remarks.push(remark(
                Verdict::Remarks,
                "a display is attached to a rank's GPU, whose driver ends kernels that run for seconds: calls wait for a peer little longer than a second",
                "take the display to another GPU, or run without one",
            ));
        }
        remarks
    }

    /// What could not be read, and how to find out.
    pub fn unknown(&self) -> Vec<Unknown> {
        let mut unknown = Vec::new();
        let mut note = |known: bool, what, how| {
            if !known {
                unknown.push(Unknown { what, how });
            }
        };
        note(self.host.cpu_model.is_some(), "the processor's name", "lscpu");
        note(
            self.host.numa_nodes.is_some(),
            "the number of NUMA nodes",
            "lscpu, where /sys is mounted",
        );
        note(
            self.host.container.is_some(),
            "whether this is a container",
            "ask whoever started it",
        );
        note(
            self.host.iommu.is_some(),
            "whether an IOMMU is in use",
            "ls /sys/class/iommu, where /sys is mounted",
        );
        note(
            self.cpus.len() < 2 || self.round_trip.is_some(),
            "how far the first two CPUs are apart",
            "ask again when nothing else uses the CPUs, and where threads may be pinned to them",
        );
        note(
            self.cpus.len() < 2 || self.copy_gb_per_s.is_some(),
            "how fast one CPU copies what another wrote",
            "ask again where threads may be pinned to CPUs",
        );
        let driver = matches!(&self.driver, Driver::There(facts) if !facts.stand_in);
        unknown.extend(self.management.unknown(driver));
        unknown
    }
}

/// Which gate keeps GPUs from each other's memory.
fn between(gates: &[Finding]) -> Gate {
    let is_shut = |gate: &Gate| {
        let of = gates.iter().find(|finding| finding.gate == *gate);
        of.is_some_and(|finding| finding.answer == Answer::No)
    };
    let gates = [Gate::NcclWishes, Gate::PeerRate];
    gates.into_iter().find(is_shut).unwrap_or(Gate::PeerAccess)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::supervise::Failure;

    fn seen(driver: Driver, tried: Outcome<RankReport>) -> Seen {
        Seen {
            host: HostFacts::default(),
            cpus: vec![3, 5],
            round_trip: None,
            copy_gb_per_s: Some(10.0),
            environment: None,
            asked: EngineChoice::Auto,
            driver,
            management: Management::NotAsked,
            visibility: None,
            ranks: 2,
            tried,
        }
    }

    fn quiet() -> Seen {
        seen(Driver::NotAsked, Outcome::Reports(vec![]))
    }

    fn told() -> (String, String) {
        ("the driver's words".to_owned(), "what to do".to_owned())
    }

    #[test]
    fn a_driver_is_a_fault_if_it_is_broken_or_insisted_on() {
        use Verdict::{Mend, Remarks};
        for (lack, at_ease, insisting) in [
            (Lack::Use, Some(Mend), Some(Mend)),
            (Lack::Device, Some(Remarks), Some(Mend)),
            (Lack::Driver, None, Some(Mend)),
        ] {
            let (error, hint) = told();
            let driver = Driver::Without { lack, error, hint };
            for (asked, wanted) in [(EngineChoice::Auto, at_ease), (EngineChoice::Cuda, insisting)] {
                let seen = Seen {
                    asked,
                    ..seen(driver.clone(), Outcome::Reports(vec![]))
                };
                let remarks = seen.remarks();
                assert_eq!(remarks.first().map(|remark| remark.verdict), wanted, "{remarks:?}");
                assert!(remarks.iter().all(|remark| remark.remedy == "what to do"));
            }
        }
    }

    #[test]
    fn what_cuda_would_show_matters_where_gpus_are_looked_for() {
        use lanesum_probe::nvml::{Nvml, NvmlFacts};
        use lanesum_probe::visible::Wanted;
        let wrong = |asked, lack, management: Management| {
            let (error, hint) = told();
            let driver = Driver::Without { lack, error, hint };
            let visibility = Visibility {
                devices: Some("x".to_owned()),
                order: None,
                visible: Wanted::read(Some("x"), None).resolve(None),
            };
            let seen = Seen {
                asked,
                management,
                visibility: Some(visibility),
                ..seen(driver, Outcome::Reports(vec![]))
            };
            seen.remarks()
                .iter()
                .any(|remark| remark.what.contains("CUDA_VISIBLE_DEVICES"))
        };
        let shown = || Management::Told(Nvml::There(NvmlFacts::default()));
        let absent = || Management::Told(Nvml::Absent);
        assert!(!wrong(EngineChoice::Auto, Lack::Driver, absent()));
        assert!(wrong(EngineChoice::Cuda, Lack::Driver, absent()));
        assert!(wrong(EngineChoice::Auto, Lack::Device, absent()));
        assert!(wrong(EngineChoice::Auto, Lack::Driver, shown()));
    }

    #[test]
    fn an_environment_that_ranks_refuse_is_to_be_mended() {
        let seen = Seen {
            environment: Some(told()),
            ..quiet()
        };
        let remarks = seen.remarks();
        assert!(remarks.len() == 1 && remarks[0].verdict == Verdict::Mend, "{remarks:?}");
        assert!(remarks[0].what.contains("the driver's words"));
    }

    #[test]
    fn ranks_that_fail_are_to_be_mended_before_anything_else() {
        let failure = |hint: Option<&str>| Failure {
            error: "rank 1 is lost".to_owned(),
            hint: hint.map(str::to_owned),
            failed_ranks: vec![1],
            noticed_ms: None,
            notices: vec![],
        };
        for (hint, remedy) in [(Some("look there"), "look there"), (None, "selftest")] {
            let mut alone = seen(Driver::NotAsked, Outcome::Failure(failure(hint)));
            alone.cpus = vec![3];
            let remarks = alone.remarks();
            let verdicts: Vec<Verdict> = remarks.iter().map(|remark| remark.verdict).collect();
            assert_eq!(verdicts, [Verdict::Mend, Verdict::Remarks]);
            assert!(remarks[0].what.contains("rank 1 is lost") && remarks[0].remedy.contains(remedy));
            assert!(remarks[1].what.contains("CPU 3 alone"));
        }
    }

    #[test]
    fn what_was_not_read_is_listed_and_no_fault() {
        let quiet = quiet();
        assert_eq!(quiet.remarks(), []);
        let names: Vec<&str> = quiet.unknown().iter().map(|unknown| unknown.what).collect();
        assert_eq!(names.len(), 5, "{names:?}");
        // One CPU is apart from none.
        let alone = Seen {
            cpus: vec![0],
            copy_gb_per_s: None,
            ..quiet
        };
        assert_eq!(alone.unknown().len(), 4);
    }

    #[test]
    fn verdicts_end_the_program_in_their_own_ways() {
        let codes = [Verdict::Fine, Verdict::Remarks, Verdict::Mend].map(Verdict::exit_code);
        assert_eq!(codes, [0, 1, 2]);
        assert!(Verdict::Mend > Verdict::Remarks && Verdict::Remarks > Verdict::Fine);
    }
}
