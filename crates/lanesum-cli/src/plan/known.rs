//! What is known of a machine that is not at hand, and the topology that a plan is made from.

use lanesum_plan::{Bytes, Gpus, Links, PcieLink, PeerVerdict, RankGpu, RankHost, Topology};

/// What dumps or a preset tell of GPUs, in their order there.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Their numbers in the tool.
    pub numbers: Vec<u32>,
    /// Of all of them, where that is known.
    pub model: Option<String>,
    pub links: Links,
    /// Why a GPU can't write to another's memory, where it is said to be refused; first by who writes.
    pub refused: Vec<Vec<Option<String>>>,
    /// Where it comes from.
    pub sources: Vec<String>,
    /// What was odd there.
    pub remarks: Vec<String>,
}

impl Known {
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
        let relations = |one: &usize| gpus.iter().map(|other| self.links.relations[*one][*other]).collect();
        Topology {
            ranks: vec![RankHost::default(); gpus.len()],
            gpus: Some(Gpus {
                ranks: gpus.iter().map(|gpu| self.gpu(*gpu)).collect(),
                peers: rows(&verdict),
                staged: rows(&staged),
                links: Links {
                    relations: gpus.iter().map(relations).collect(),
                    pcie: gpus
                        .iter()
                        .map(|gpu| self.links.pcie.get(*gpu).copied().flatten())
                        .collect(),
                },
            }),
            ..Topology::default()
        }
    }

    /// A GPU of which only its place is known: one that has as many multiprocessors as kernels take.
    fn gpu(&self, at: usize) -> RankGpu {
        RankGpu {
            uuid: self.name(at),
            pci_bus_id: self.name(at),
            name: self.model.clone().unwrap_or_default(),
            compute: (7, 0),
            multiprocessors: 32,
            threads_per_block: 1024,
            memory: Bytes::new(0),
            driver: 0,
            watchdog: false,
            numa_node: None,
            slot: None,
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
            .filter(|gpu| self.links.pcie[*gpu].is_none())
            .collect();
        if !unknown.is_empty() {
            assumes.push(format!(
                "the links of {} are {} (--pcie)",
                names(unknown),
                PcieLink::ASSUMED
            ));
        }
        if self.sources.iter().any(|source| source.contains("-p2p")) {
            assumes
                .push("the matrix of topo -p2p is that of writes (w): what it was asked for is not in it".to_owned());
        }
        assumes
    }
}
