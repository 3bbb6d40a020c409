//! From the texts that tools print to what they tell of one machine.

use std::fs::File;
use std::io::{self, Read};

use lanesum_plan::{Links, PcieLink};
use lanesum_probe::dump::{self, Bandwidth, Dump, MOST_BYTES, Measure, Pci, PeerStatus};

use super::known::Known;
use super::pci;
use crate::errors::CliError;

/// A dump, and where it stands.
struct Source {
    dump: Dump,
    file: String,
}

impl Source {
    fn name(&self) -> String {
        format!("{} in {}", self.dump.tool(), self.file)
    }
}

/// What all these files tell together; `-` is the standard input.
pub fn read(files: &[String]) -> Result<Known, CliError> {
    if files.iter().filter(|file| *file == "-").count() > 1 {
        return Err(usage(
            "the standard input is named twice".into(),
            "give `-` once: it may hold several dumps",
        ));
    }
    let mut sources = Vec::new();
    for file in files {
        let text = dump::decode(&content(file)?);
        let name = if file == "-" { "the standard input" } else { file };
        let dumps = dump::read_all(&text).map_err(|error| CliError::Usage {
            cause: format!("{name}: {error}"),
            hint: error.hint(),
        })?;
        sources.extend(dumps.into_iter().map(|dump| Source {
            dump,
            file: name.to_owned(),
        }));
    }
    combined(&sources)
}

fn usage(cause: String, hint: &str) -> CliError {
    CliError::Usage {
        cause,
        hint: hint.into(),
    }
}

fn content(file: &str) -> Result<Vec<u8>, CliError> {
    // One more than is read, so that it is refused as too long and not cut.
    let most = MOST_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let outcome = match file {
        "-" => io::stdin().lock().take(most).read_to_end(&mut bytes),
        _ => File::open(file).and_then(|open| open.take(most).read_to_end(&mut bytes)),
    };
    outcome.map_err(|error| {
        usage(
            format!("cannot read {file}: {error}"),
            "name a file that can be read, or - for the standard input",
        )
    })?;
    Ok(bytes)
}

/// The numbers of the GPUs that a dump describes, if it describes all that there are.
fn numbers(dump: &Dump) -> Option<Vec<u32>> {
    match dump {
        Dump::Matrix(matrix) => Some(matrix.gpus.iter().map(|gpu| gpu.index).collect()),
        Dump::Peers(peers) => Some(peers.gpus.clone()),
        Dump::Bandwidth(bandwidth) => Some(bandwidth.gpus.clone()),
        Dump::List(list) => Some(list.gpus.iter().map(|gpu| gpu.index).collect()),
        // In the order of the tool's numbers, which it does not print.
        Dump::Query(query) => {
            let described = query.gpus.len() as u32;
            (query.attached == Some(described)).then(|| (0..described).collect())
        }
        Dump::Pci(pci) => {
            let gpus = pci::gpus(pci).len() as u32;
            (gpus > 0).then(|| (0..gpus).collect())
        }
    }
}

fn combined(sources: &[Source]) -> Result<Known, CliError> {
    let mut first: Option<(&Source, Vec<u32>)> = None;
    for source in sources {
        let Some(found) = numbers(&source.dump) else { continue };
        match &first {
            None => first = Some((source, found)),
            Some((_, known)) if *known == found => {}
            Some((other, known)) => {
                return Err(usage(
                    format!(
                        "{} has {} GPUs, {} has {}, or they are numbered differently",
                        other.name(),
                        known.len(),
                        source.name(),
                        found.len()
                    ),
                    "give dumps of one machine, all GPUs in each",
                ));
            }
        }
    }
    let Some((_, gpus)) = first else {
        return Err(usage(
            "no input names all GPUs".into(),
            "add what `nvidia-smi topo -m` prints, or `lspci -vvv` as root",
        ));
    };
    let count = gpus.len();
    let mut known = Known {
        names: gpus.iter().map(|gpu| format!("GPU{gpu}")).collect(),
        model: None,
        links: Links {
            relations: vec![vec![None; count]; count],
            pcie: vec![None; count],
        },
        refused: vec![vec![None; count]; count],
        sources: sources.iter().map(Source::name).collect(),
        remarks: vec![],
    };
    let is_matrix = |source: &&Source| matches!(source.dump, Dump::Matrix(_));
    let matrices_first = sources
        .iter()
        .filter(is_matrix)
        .chain(sources.iter().filter(|source| !is_matrix(source)));
    for source in matrices_first {
        let remarks = source.dump.remarks().iter();
        known
            .remarks
            .extend(remarks.map(|remark| format!("{}, {remark}", source.file)));
        known.learn(source)?;
    }
    Ok(known)
}

impl Known {
    fn learn(&mut self, source: &Source) -> Result<(), CliError> {
        match &source.dump {
            Dump::Matrix(matrix) => {
                for (one, other, relation) in matrix.relations.iter() {
                    let place = &mut self.links.relations[one][other];
                    if place.is_some_and(|known| known != *relation) {
                        return Err(usage(
                            format!(
                                "{} says {relation} of {} and {}, and an earlier matrix says otherwise",
                                source.name(),
                                self.names[one],
                                self.names[other]
                            ),
                            "give one matrix: -m if there are NVLinks, or -mp to plan without them",
                        ));
                    }
                    *place = Some(*relation);
                }
            }
            Dump::Peers(peers) => {
                for (one, other, status) in peers.statuses.iter() {
                    match status {
                        PeerStatus::Granted => {}
                        PeerStatus::Unknown => self.remarks.push(format!(
                            "{} does not know whether {} reaches {}",
                            source.name(),
                            self.names[one],
                            self.names[other]
                        )),
                        PeerStatus::Chipset
                        | PeerStatus::Gpu
                        | PeerStatus::Topology
                        | PeerStatus::Unsupported
                        | PeerStatus::Registry => {
                            let reason = format!("nvidia-smi topo -p2p says {status}: {}", status.meaning());
                            self.refused[one][other] = Some(reason);
                        }
                    }
                }
            }
            Dump::Bandwidth(bandwidth) => self.learn_bandwidth(bandwidth),
            Dump::List(list) => {
                let model = list.gpus.first().map(|gpu| gpu.model.clone());
                let all_alike = list.gpus.iter().all(|gpu| Some(&gpu.model) == model.as_ref());
                self.model = model.filter(|_| all_alike);
            }
            Dump::Query(query) => {
                if query.gpus.len() == self.count() {
                    let links = query.gpus.iter().map(|gpu| {
                        Some(PcieLink {
                            generation: u8::try_from(gpu.link.generation_max?).ok()?,
                            width: u8::try_from(gpu.link.width_max?).ok()?,
                        })
                    });
                    self.links.pcie = links.collect();
                }
                self.model = self.model.take().or_else(|| query.gpus.first()?.model.clone());
            }
            Dump::Pci(found) => self.learn_pci(found),
        }
        Ok(())
    }

    /// Relations only where no matrix tells them: it is read first.
    fn learn_pci(&mut self, found: &Pci) {
        let gpus = pci::gpus(found);
        if gpus.len() != self.count() {
            return;
        }
        let slots: Vec<_> = gpus.iter().map(|gpu| pci::slot(found, *gpu)).collect();
        for (at, slot) in slots.iter().enumerate() {
            self.links.pcie[at] = slot.link.or(self.links.pcie[at]);
            for (other_at, other) in slots.iter().enumerate().filter(|(other_at, _)| *other_at != at) {
                let place = &mut self.links.relations[at][other_at];
                *place = place.or_else(|| slot.relation(other));
            }
        }
        let redirecting = pci::redirecting(found, &gpus);
        if let Some(port) = redirecting.first() {
            self.remarks.push(format!(
                "access control (ACS) sends requests up to the root at {} ports above GPUs, {} first: writes between GPUs below one switch take \
                 the way round, and an IOMMU may lose them; turn ACS off for these ports in the firmware, or with setpci",
                redirecting.len(),
                port.address
            ));
        }
    }

    fn learn_bandwidth(&mut self, bandwidth: &Bandwidth) {
        let granted = bandwidth.granted.as_ref();
        for (one, other, yes) in granted.into_iter().flat_map(|granted| granted.iter()) {
            if !yes {
                self.refused[one][other] = Some("p2pBandwidthLatencyTest could not access the peer".to_owned());
            }
        }
        let rate = |peer| bandwidth.table(Measure::Unidirectional, peer);
        let (Some(with), Some(without)) = (rate(true), rate(false)) else {
            return;
        };
        let slower = |(one, other, rate): &(usize, usize, &f64)| {
            let staged = without.values.get(*one, *other);
            staged.is_some_and(|staged| **rate < staged / 2.0)
        };
        if let Some((one, other, rate)) = with.values.iter().find(slower) {
            let staged = without.values.get(one, other).copied().unwrap_or_default();
            self.remarks.push(format!(
                "copies from {} to {} run at {rate:.1} GB/s with peer access and at {staged:.1} without: something redirects them (IOMMU, ACS), so \
                 peer access may be slow or broken",
                self.names[one], self.names[other]
            ));
        }
    }
}
