//! Common boxes, and the source of their shape.

use std::fmt::Write;

use lanesum_plan::{PcieLink, Relation};
use serde::Serialize;

use super::known::Known;

/// A box.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Preset {
    pub name: &'static str,
    pub gpu: &'static str,
    /// The sizes of the groups whose GPUs are near each other.
    pub groups: &'static [usize],
    /// How those of one group lie to each other.
    pub within: Relation,
    /// And those of two.
    pub between: Relation,
    pub pcie: PcieLink,
    pub source: &'static str,
}

const GEN4: PcieLink = PcieLink {
    generation: 4,
    width: 16,
};
const GEN5: PcieLink = PcieLink {
    generation: 5,
    width: 16,
};

pub const ALL: &[Preset] = &[
    Preset {
        name: "rtx5090x2",
        gpu: "RTX 5090",
        groups: &[1, 1],
        within: Relation::Phb,
        between: Relation::Phb,
        pcie: PcieLink {
            generation: 5,
            width: 8,
        },
        source: "adrienbrault/qwen3.8-27b-rtx5090",
    },
    Preset {
        name: "pro6000x2-roots",
        gpu: "RTX PRO 6000",
        groups: &[1, 1],
        within: Relation::Phb,
        between: Relation::Phb,
        pcie: GEN5,
        source: "local-inference-lab/b12x docs/evidence/pcie_tp2",
    },
    Preset {
        name: "pro6000x4-switch",
        gpu: "RTX PRO 6000",
        groups: &[4],
        within: Relation::Pix,
        between: Relation::Node,
        pcie: GEN5,
        source: "local-inference-lab/rtx6kpro optimization/pcie-oneshot-allreduce.md",
    },
    Preset {
        name: "pro6000x8-switches",
        gpu: "RTX PRO 6000",
        groups: &[4, 4],
        within: Relation::Pix,
        between: Relation::Node,
        pcie: GEN5,
        source: "local-inference-lab/rtx6kpro hardware/wrx90-cpayne-2switch-flat.md",
    },
    Preset {
        name: "pro6000x8-epyc",
        gpu: "RTX PRO 6000 Server",
        groups: &[4, 4],
        within: Relation::Node,
        between: Relation::Sys,
        pcie: GEN5,
        source: "labels of InternLM/lmdeploy issues: two sockets without switches; the model of GPU stands for many",
    },
    Preset {
        name: "l40sx8",
        gpu: "L40S",
        groups: &[4, 4],
        within: Relation::Node,
        between: Relation::Sys,
        pcie: GEN4,
        source: "flashinfer-ai/flashinfer pull 4393",
    },
    Preset {
        name: "a6000x8-vm",
        gpu: "RTX A6000",
        groups: &[1, 1, 1, 1, 1, 1, 1, 1],
        within: Relation::Sys,
        between: Relation::Sys,
        pcie: GEN4,
        source: "sgl-project/sglang issue 1183: a virtual machine that hides what lies between",
    },
];

impl Preset {
    pub fn named(name: &str) -> Option<&'static Preset> {
        ALL.iter().find(|preset| preset.name == name)
    }

    pub fn gpus(&self) -> usize {
        self.groups.iter().sum()
    }

    /// What is known of such a box.
    pub fn known(&self) -> Known {
        let groups = self.groups.iter().enumerate();
        let group: Vec<usize> = groups.flat_map(|(at, size)| vec![at; *size]).collect();
        let relation = |one: usize, other: usize| match group[one] == group[other] {
            _ if one == other => None,
            true => Some(self.within),
            false => Some(self.between),
        };
        let ranks = group.len();
        let mut known = Known::new((0..ranks as u32).collect());
        for facts in &mut known.facts {
            facts.model = Some(self.gpu.to_owned());
        }
        for (one, row) in known.links.relations.iter_mut().enumerate() {
            for (other, place) in row.iter_mut().enumerate() {
                *place = relation(one, other);
            }
        }
        known.links.pcie = vec![Some(self.pcie); ranks];
        known.sources = vec![format!("preset {}: {}", self.name, self.source)];
        known
    }
}

/// The table of `lanesum presets`.
pub fn table() -> String {
    let mut text = format!(
        "{:<20}{:<22}{:>5}  {:<10}{:<26}source\n",
        "name", "GPU", "GPUs", "links", "groups"
    );
    for preset in ALL {
        let sizes: Vec<String> = preset.groups.iter().map(ToString::to_string).collect();
        let groups = match preset.groups {
            [_] => preset.within.to_string(),
            groups if groups.iter().all(|size| *size == 1) => preset.between.to_string(),
            _ => format!("{} of {}, {} apart", sizes.join("+"), preset.within, preset.between),
        };
        let line = writeln!(
            text,
            "{:<20}{:<22}{:>5}  {:<10}{:<26}{}",
            preset.name,
            preset.gpu,
            preset.gpus(),
            preset.pcie.to_string(),
            groups,
            preset.source
        );
        line.unwrap_or_default();
    }
    text
}
