//! What is known of a machine that is not at hand, and the topology that a plan is made from.

use std::collections::BTreeMap;

use lanesum_plan::{Bytes, Gpus, HostFacts, Links, PcieLink, PeerVerdict, RankGpu, RankHost, Slot, Topology};

/// What dumps or a preset tell of GPUs, in their order there.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Their numbers in the tool.
    pub numbers: Vec<u32>,
    /// What each is.
    pub facts: Vec<GpuFacts>,
    /// The host that they are in.
    pub host: HostFacts,
    pub links: Links,
    /// Where they are plugged in, for people: what follows from it is among the links.
    pub slots: Vec<Option<Slot>>,
    /// The links above bridges, by their names; for people, too.
    pub uplinks: BTreeMap<String, PcieLink>,
    /// Why a GPU can't write to another's memory, where it is said to be refused; first by who writes.
    pub refused: Vec<Vec<Option<String>>>,
    /// Whether it is said to be granted.
    pub granted: Vec<Vec<bool>>,
    /// Where it comes from.
    pub sources: Vec<String>,
    /// What was odd there.
    pub remarks: Vec<String>,
}

/// What is known of a GPU itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GpuFacts {
    pub model: Option<String>,
    pub uuid: Option<String>,
    pub memory: Option<Bytes>,
    pub bar1: Option<Bytes>,
    pub mig: Option<bool>,
    pub display: Option<bool>,
}

impl Known {
    /// GPUs with these numbers, of which nothing else is known yet.
    pub fn new(numbers: Vec<u32>) -> Known {
        let count = numbers.len();
        Known {
            numbers,
            facts: vec![GpuFacts::default(); count],
            host: HostFacts::default(),
            links: Links {
                relations: vec![vec![None; count]; count],
                pcie: vec![None; count],
                copies: vec![vec![None; count]; count],
                redirects: vec![vec![None; count]; count],
            },
            slots: vec![None; count],
            uplinks: BTreeMap::new(),
            refused: vec![vec![None; count]; count],
            granted: vec![vec![false; count]; count],
            sources: vec![],
            remarks: vec![],
        }
    }

    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    /// The label of one.
    pub fn name(&self, at: usize) -> String {
        format!("GPU{}", self.numbers[at])
    }

    /// The same with all links of this kind, if one is named.
    pub fn with_pcie(mut self, link: Option<PcieLink>) -> Known {
        let Some(link) = link else { return self };
        self.links.pcie = vec![Some(link); self.count()];
        self
    }

    /// What ranks on these GPUs would have observed, with what can't be known assumed.
    pub fn topology(&self, gpus: &[usize]) -> Topology {
        let verdict = |writer: usize, owner: usize| match &self.refused[writer][owner] {
            _ if writer == owner => PeerVerdict::Own,
            Some(reason) => PeerVerdict::Refused { reason: reason.clone() },
            None if self.granted[writer][owner] => PeerVerdict::Granted,
            None => PeerVerdict::Assumed,
        };
        let staged = |writer: usize, owner: usize| match writer == owner {
            true => PeerVerdict::Own,
            false => PeerVerdict::Assumed,
        };
        let rows = |of: &dyn Fn(usize, usize) -> PeerVerdict| {
            let row = |writer: &usize| gpus.iter().map(|owner| of(*writer, *owner)).collect();
            gpus.iter().map(row).collect()
        };
        Topology {
            ranks: vec![RankHost::default(); gpus.len()],
            gpus: Some(Gpus {
                ranks: gpus.iter().map(|gpu| self.gpu(*gpu)).collect(),
                peers: rows(&verdict),
                staged: rows(&staged),
                links: Links {
                    relations: among(gpus, &self.links.relations),
                    pcie: gpus.iter().map(|gpu| self.links.pcie[*gpu]).collect(),
                    copies: among(gpus, &self.links.copies),
                    redirects: among(gpus, &self.links.redirects),
                },
            }),
            host: self.host.clone(),
        }
    }

    /// A GPU of which little is known: one that has as many multiprocessors as kernels take.
    fn gpu(&self, at: usize) -> RankGpu {
        let facts = &self.facts[at];
        RankGpu {
            uuid: facts.uuid.clone().unwrap_or_else(|| self.name(at)),
            pci_bus_id: self.name(at),
            name: facts.model.clone().unwrap_or_default(),
            compute: (7, 0),
            multiprocessors: 32,
            threads_per_block: 1024,
            memory: facts.memory.unwrap_or(Bytes::new(0)),
            // Where the tool tells of displays, a driver has described the GPU.
            driver: u32::from(facts.display.is_some()),
            watchdog: facts.display == Some(true),
            numa_node: None,
            slot: None,
            mig: facts.mig,
            bar1: facts.bar1,
            nvlinks: None,
            stand_in: false,
        }
    }

    /// What is supposed of these GPUs, as nothing here tells it.
    pub fn assumes(&self, gpus: &[usize]) -> Vec<String> {
        let mut assumes = vec![
            "what a GPU writes to a peer's memory arrives, where it is not said to be refused: no dump proves it".to_owned(),
            "GPUs can use pinned host memory, each by its own link or that of its switch".to_owned(),
            "a byte: kernels store 45 GB/s to one peer and 25 to several on Gen5 x16, 45 above a switch, 50 between NUMA nodes, 20 by an NVLink, and 25 to 36 \
             to host memory"
                .to_owned(),
            "a hop: 0.7 us below one switch or by NVLink, 0.8 by several, 1.0 by the processor, 1.1 within a node, 1.5 between nodes, 2.3 through host memory".to_owned(),
            "calls are enqueued eagerly, 2 us each; each GPU has 32 multiprocessors or more".to_owned(),
        ];
        let names = |all: Vec<usize>| all.into_iter().map(|gpu| self.name(gpu)).collect::<Vec<_>>().join(", ");
        let unknown: Vec<usize> = gpus
            .iter()
            .copied()
            .filter(|gpu| {
                self.links.pcie[*gpu].is_none()
                    && !self.links.copies[*gpu]
                        .iter()
                        .flatten()
                        .any(|rates| rates.peer.is_some())
            })
            .collect();
        if !unknown.is_empty() {
            assumes.push(format!(
                "the links of {} are {} (--pcie)",
                names(unknown),
                PcieLink::ASSUMED
            ));
        }
        if self
            .sources
            .iter()
            .any(|source| source.starts_with("nvidia-smi topo -p2p"))
        {
            assumes
                .push("the matrix of topo -p2p is that of writes (w): what it was asked for is not in it".to_owned());
        }
        assumes
    }
}

/// The part of a matrix that concerns some of its places.
fn among<T: Clone>(places: &[usize], matrix: &[Vec<T>]) -> Vec<Vec<T>> {
    let row = |one: &usize| places.iter().map(|other| matrix[*one][*other].clone()).collect();
    places.iter().map(row).collect()
}
