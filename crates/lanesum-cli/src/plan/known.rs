//! What is known of a machine that is not at hand, and the topology that a plan is made from.

use lanesum_plan::{Bytes, Gpus, Links, PcieLink, PeerVerdict, RankGpu, RankHost, Topology};

/// What dumps or a preset tell of GPUs, in their order there.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    pub names: Vec<String>,
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
        self.names.len()
    }

    /// The same for links of this kind, where none is known.
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
            uuid: self.names[at].clone(),
            pci_bus_id: self.names[at].clone(),
            name: self.model.clone().unwrap_or_default(),
            compute: (7, 0),
            multiprocessors: 32,
            threads_per_block: 1024,
            memory: Bytes::new(0),
            driver: 0,
            watchdog: false,
            numa_node: None,
            slot: None,
            stand_in: false,
        }
    }

    /// What is supposed, as nothing here tells it.
    pub fn assumes(&self) -> Vec<String> {
        let mut assumes = vec![
            "what a GPU writes to a peer's memory arrives, where it is not said to be refused: no dump proves it".to_owned(),
            "GPUs can use pinned host memory".to_owned(),
            "kernels' stores reach 25 GB/s from a GPU and 45 GB/s above a switch on Gen5 x16, and 50 GB/s between NUMA nodes".to_owned(),
            "calls are enqueued eagerly, 2 us each".to_owned(),
            "each GPU has 32 multiprocessors or more".to_owned(),
        ];
        if self.links.pcie.iter().all(Option::is_none) {
            assumes.push(format!("links are {} (--pcie)", PcieLink::ASSUMED));
        }
        assumes
    }
}
