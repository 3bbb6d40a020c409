//! From the texts that tools print to what they tell of one machine.

use std::fs::File;
use std::io::{self, Read};

use lanesum_plan::{CopyRates, PcieLink, Relation};
use lanesum_probe::dump::{self, Bandwidth, Dump, MOST_BYTES, Measure, Pci, PciAddress, PeerStatus, TestedDevice};

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

/// Where the GPUs are plugged in, in the order of their numbers, if a dump of all tells.
fn addresses(sources: &[Source], count: usize) -> Vec<PciAddress> {
    let told = sources.iter().map(|source| match &source.dump {
        Dump::Query(query) => query.gpus.iter().map(|gpu| gpu.address).collect(),
        Dump::Pci(pci) => pci::gpus(pci).into_iter().map(|gpu| pci.devices[gpu].address).collect(),
        Dump::Matrix(_) | Dump::Peers(_) | Dump::Bandwidth(_) | Dump::List(_) => vec![],
    });
    let mut told = told.filter(|all: &Vec<PciAddress>| all.len() == count);
    told.next().unwrap_or_default()
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
        sources: sources.iter().map(Source::name).collect(),
        ..Known::new(gpus)
    };
    let addresses = addresses(sources, count);
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
        known.learn(source, &addresses)?;
    }
    Ok(known)
}

impl Known {
    fn learn(&mut self, source: &Source, addresses: &[PciAddress]) -> Result<(), CliError> {
        match &source.dump {
            Dump::Matrix(matrix) => {
                for (one, other, relation) in matrix.relations.iter() {
                    let known = self.links.relations[one][other];
                    if known.is_some_and(|known| known != *relation) {
                        let cause = format!(
                            "{} says {relation} of {} and {}, and an earlier matrix says otherwise",
                            source.name(),
                            self.name(one),
                            self.name(other)
                        );
                        let hint = "give one matrix: -m if there are NVLinks, or -mp to plan without them";
                        return Err(usage(cause, hint));
                    }
                    self.links.relations[one][other] = Some(*relation);
                }
            }
            Dump::Peers(peers) => {
                let mut unknown = 0;
                for (one, other, status) in peers.statuses.iter() {
                    match status {
                        PeerStatus::Granted => self.granted[one][other] = true,
                        PeerStatus::Unknown => unknown += 1,
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
                if unknown > 0 {
                    let name = source.name();
                    let remark =
                        format!("{name} does not know of {unknown} ordered pairs whether there is peer access");
                    self.remarks.push(remark);
                }
            }
            Dump::Bandwidth(bandwidth) => self.learn_bandwidth(bandwidth, addresses),
            Dump::List(list) => {
                for (facts, gpu) in self.facts.iter_mut().zip(&list.gpus) {
                    facts.model = Some(gpu.model.clone());
                    facts.uuid = gpu.uuid.clone().or(facts.uuid.take());
                    // Only GPUs that are cut into instances list some.
                    if !gpu.instances.is_empty() {
                        facts.mig = Some(true);
                    }
                }
            }
            Dump::Query(query) => {
                if query.gpus.len() != self.count() {
                    let (name, described, all) = (source.name(), query.gpus.len(), self.count());
                    let remark = format!(
                        "{name} describes {described} of {all} GPUs, and is not used: which they are is not told"
                    );
                    self.remarks.push(remark);
                    return Ok(());
                }
                for (at, gpu) in query.gpus.iter().enumerate() {
                    let link = |generation: Option<u32>, width: Option<u32>| {
                        Some(PcieLink {
                            generation: u8::try_from(generation?).ok()?,
                            width: u8::try_from(width?).ok()?,
                        })
                    };
                    self.links.pcie[at] = link(gpu.link.generation_max, gpu.link.width_max).or(self.links.pcie[at]);
                }
                for (facts, gpu) in self.facts.iter_mut().zip(&query.gpus) {
                    facts.model = gpu.model.clone().or(facts.model.take());
                    facts.uuid = gpu.uuid.clone().or(facts.uuid.take());
                    facts.memory = gpu.memory.or(facts.memory);
                    facts.bar1 = gpu.bar1.or(facts.bar1);
                    facts.mig = gpu.mig.or(facts.mig);
                    facts.display = gpu.display_active.or(facts.display);
                    // A hypervisor's own host is a real machine, too.
                    match gpu.virtualization.as_deref() {
                        Some("Pass-Through" | "VGPU" | "VSGA") => self.host.virtualised = Some(true),
                        Some("None" | "Host VGPU" | "Host VSGA") => {
                            self.host.virtualised.get_or_insert(false);
                        }
                        Some(_) | None => {}
                    }
                }
            }
            Dump::Pci(found) => self.learn_pci(found, source),
        }
        Ok(())
    }

    /// Relations only where no matrix tells them: it is read first.
    fn learn_pci(&mut self, found: &Pci, source: &Source) {
        let gpus = pci::gpus(found);
        if gpus.len() != self.count() {
            let remark = format!("{} has no NVIDIA GPUs, and is not used", source.name());
            self.remarks.push(remark);
            return;
        }
        let slots: Vec<_> = gpus.iter().map(|gpu| pci::slot(found, *gpu)).collect();
        let mut other_words = None;
        for (at, slot) in slots.iter().enumerate() {
            self.links.pcie[at] = slot.link.or(self.links.pcie[at]);
            for (other_at, other) in slots.iter().enumerate().filter(|(other_at, _)| *other_at != at) {
                self.links.redirects[at][other_at] = slot.redirects(other);
                let place = &mut self.links.relations[at][other_at];
                match (*place, slot.relation(other)) {
                    (None, relation) => *place = relation,
                    // The tree does not show NVLinks.
                    (Some(Relation::Nvlink(_)), _) | (Some(_), None) => {}
                    (Some(label), Some(tree)) if label == tree => {}
                    (Some(label), Some(tree)) => other_words = other_words.or(Some((at, other_at, label, tree))),
                }
            }
        }
        self.uplinks = pci::uplinks(found, &gpus);
        self.slots = slots.into_iter().map(Some).collect();
        if let Some((one, other, label, tree)) = other_words {
            self.remarks.push(format!(
                "{} shows {tree} between {} and {}, and the matrix says {label}, which counts: see that both are of one \
                 machine",
                source.name(),
                self.name(one),
                self.name(other)
            ));
        }
    }

    /// The test numbers GPUs as CUDA does: by address where that is known, else as everybody else.
    fn learn_bandwidth(&mut self, bandwidth: &Bandwidth, addresses: &[PciAddress]) {
        let by_address = |device: &TestedDevice| addresses.iter().position(|address| *address == device.address);
        let places: Option<Vec<usize>> = bandwidth.devices.iter().map(by_address).collect();
        let places = places.filter(|places| places.len() == self.count());
        if places.is_none() && self.count() > 1 {
            self.remarks.push(
                "p2pBandwidthLatencyTest numbers GPUs as CUDA does, which is taken for the order of nvidia-smi; `nvidia-smi \
                 -q` of all GPUs would tell"
                    .to_owned(),
            );
        }
        let place = |at: usize| places.as_ref().map_or(at, |places| places[at]);
        let granted = bandwidth.granted.as_ref();
        for (one, other, yes) in granted.into_iter().flat_map(|granted| granted.iter()) {
            if *yes {
                self.granted[place(one)][place(other)] = true;
            } else {
                let reason = "p2pBandwidthLatencyTest could not access the peer".to_owned();
                self.refused[place(one)][place(other)] = Some(reason);
            }
        }
        // Of both ways at once, half is one's; a table of one way tells more.
        let of = |peer, one, other| {
            let alone = |measure| bandwidth.table(measure, peer)?.values.get(one, other).copied();
            let both = || Some(alone(Measure::Bidirectional)? / 2.0);
            let rate: f64 = alone(Measure::Unidirectional).or_else(both)?;
            // Tables are in GB/s.
            // One that rounds to nothing was measured all the same.
            (rate.is_finite() && rate >= 0.0).then_some(((rate * 1e3).round() as u32).max(1))
        };
        // A small copy to itself takes a GPU most of that time, too.
        let latency_ns = |one: usize, other| {
            let table = bandwidth.table(Measure::Latency, true)?;
            let beyond = table.values.get(one, other)? - table.own.get(one)?;
            beyond.is_finite().then_some((beyond.max(0.0) * 1e3).round() as u32)
        };
        for one in 0..self.count() {
            for other in (0..self.count()).filter(|other| *other != one) {
                let (from, to) = (place(one), place(other));
                // Where access is refused, both tables are of copies through the host.
                let granted = self.refused[from][to].is_none();
                let rates = CopyRates {
                    peer: of(true, one, other).filter(|_| granted),
                    staged: of(false, one, other),
                    latency_ns: latency_ns(one, other).filter(|_| granted),
                };
                if rates.peer.or(rates.staged).or(rates.latency_ns).is_some() {
                    self.links.copies[from][to] = Some(rates);
                }
            }
        }
    }
}
