//! What NVML shows that is to be remarked, and what it leaves unknown.

use lanesum_plan::{Bytes, Gpus, PeerVerdict};
use lanesum_probe::nvml::{Nvml, NvmlGpu};
use lanesum_probe::visible::Trouble;

use super::{Management, Visibility};
use crate::doctor::findings::{Remark, Unknown, Verdict, remark};

impl Management {
    /// What is to be said of the GPUs by themselves.
    pub fn remarks(&self) -> Vec<Remark> {
        match self {
            Management::Told(Nvml::There(facts)) => facts.gpus.iter().flat_map(of_one).collect(),
            Management::Told(Nvml::Failing { error, hint }) => vec![remark(Verdict::Remarks, error, hint)],
            Management::Silent(why) => vec![remark(
                Verdict::Remarks,
                format!("the management library of the driver (NVML) can't be asked: {why}"),
                "see whether nvidia-smi answers and what dmesg says of Xid errors; GPUs that nobody uses may take long to wake (nvidia-smi -pm 1)",
            )],
            Management::NotAsked | Management::Told(Nvml::Absent) => vec![],
        }
    }

    /// Whether the window to the memory of GPUs may keep others out, where GPUs of ranks do not reach each other. Peers on PCIe come in
    /// through BAR1 (from Hopper on, and with all drivers that grant it to GeForce), and it must hold all of the memory.
    pub fn window(&self, tried: &Gpus) -> Option<Remark> {
        let apart =
            |verdict: &PeerVerdict| matches!(verdict, PeerVerdict::Refused { .. } | PeerVerdict::Disproven { .. });
        if !tried.peers.iter().flatten().any(apart) {
            return None;
        }
        let gpus = self.gpus().unwrap_or_default();
        let small: Vec<(&NvmlGpu, Bytes, Bytes)> = gpus
            .iter()
            .filter_map(|gpu| Some((gpu, gpu.bar1?, gpu.memory?)))
            .filter(|(_, bar1, memory)| bar1 < memory)
            .collect();
        let (first, bar1, memory) = small.first()?;
        let others = match small.len() {
            1 => String::new(),
            several => format!(", as that of {} more is", several - 1),
        };
        Some(remark(
            Verdict::Remarks,
            format!(
                "BAR1 of {} ({bar1}) is smaller than its memory ({memory}){others}: peers on PCIe that come in through it can't reach all, which may be why GPUs don't reach each other",
                named(first)
            ),
            "turn on Above 4G Decoding and Resizable BAR in the firmware, if the cards can; the driver must grant peer access besides",
        ))
    }

    /// What could not be read. A library that is absent is missed where there is a driver: containers may have the one and not the other.
    pub fn unknown(&self, driver: bool) -> Option<Unknown> {
        let how = match self {
            Management::Silent(_) | Management::Told(Nvml::Failing { .. }) => "nvidia-smi -q, once NVML answers",
            Management::Told(Nvml::Absent) if driver => {
                "nvidia-smi -q on the host; libnvidia-ml.so.1 is not here, and a container has it where NVIDIA_DRIVER_CAPABILITIES has utility in it"
            }
            Management::NotAsked | Management::Told(Nvml::Absent | Nvml::There(_)) => return None,
        };
        Some(Unknown {
            what: "the links, displays and MIG of the GPUs",
            how,
        })
    }
}

impl Visibility {
    /// What is wrong with the variables. GPUs that were named and aren't seen are missed.
    pub fn remarks(&self) -> impl Iterator<Item = Remark> {
        self.visible.troubles.iter().map(|trouble| {
            let verdict = match trouble {
                Trouble::Unreadable { .. }
                | Trouble::OtherKind { .. }
                | Trouble::NoSuchGpu { .. }
                | Trouble::Ambiguous { .. }
                | Trouble::Twice { .. } => Verdict::Mend,
                Trouble::Trailing { .. } | Trouble::Order { .. } => Verdict::Remarks,
            };
            remark(verdict, trouble.to_string(), trouble.remedy())
        })
    }
}

fn of_one(gpu: &NvmlGpu) -> Vec<Remark> {
    let refused = gpu.refused.as_ref().map(|words| {
        remark(
            Verdict::Remarks,
            format!("NVML counts {} and can't look at it: {words}", named(gpu)),
            "see dmesg for Xid errors; a GPU that has fallen off the bus wants a restart of the machine, and one that this process may not use is no fault",
        )
    });
    let mig = (gpu.mig == Some(true)).then(|| {
        remark(
            Verdict::Remarks,
            format!(
                "{} is cut into MIG instances: they reach no memory of other GPUs, nor of each other, so bytes go through the host's",
                named(gpu)
            ),
            format!(
                "where ranks are to have a whole GPU, and nothing uses it: nvidia-smi -i {} -mig 0, as root",
                gpu.index
            ),
        )
    });
    [refused, link(gpu), mig].into_iter().flatten().collect()
}

/// A link with fewer lanes than it can have, or one that is slower than it can be although its GPU is not at rest.
fn link(gpu: &NvmlGpu) -> Option<Remark> {
    let (now, most) = (gpu.link?, gpu.link_max?);
    let narrow = now.width < most.width;
    let slow = now.generation < most.generation && gpu.at_rest() == Some(false);
    if !narrow && !slow {
        return None;
    }
    let state = match (gpu.performance_state, gpu.utilisation_percent) {
        (Some(state), Some(percent)) => format!("; it is in P{state}, {percent} % busy"),
        (Some(state), None) => format!("; it is in P{state}"),
        (None, Some(percent)) => format!("; it is {percent} % busy"),
        (None, None) => String::new(),
    };
    let remedy = match (narrow, gpu.at_rest()) {
        (true, Some(false)) => LANES.to_owned(),
        // Few models give up lanes, and only then.
        (true, Some(true) | None) => format!("look again under load, and if it stays so: {LANES}"),
        (false, _) => "reseat the card, and its riser or cable, which may be too long for that speed; see whether the firmware limits the slot".to_owned(),
    };
    Some(remark(
        Verdict::Remarks,
        format!("the link of {} runs as {now}, and could as {most}{state}", named(gpu)),
        remedy,
    ))
}

const LANES: &str = "reseat the card, and its riser or cable; see how many lanes the slot is wired for, and whether the firmware bifurcates it or gives lanes to another slot";

/// What a GPU is called in remarks.
fn named(gpu: &NvmlGpu) -> String {
    match gpu.pci_bus_id {
        Some(place) => format!("GPU {} ({place})", gpu.index),
        None => format!("GPU {}", gpu.index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanesum_plan::PcieLink;
    use lanesum_probe::nvml::NvmlFacts;

    fn in_state(performance_state: Option<u8>) -> NvmlGpu {
        NvmlGpu {
            index: 1,
            performance_state,
            ..NvmlGpu::default()
        }
    }

    fn linked(gpu: NvmlGpu, now: (u8, u8), most: (u8, u8)) -> Vec<Remark> {
        let link = |(generation, width)| Some(PcieLink { generation, width });
        of_one(&NvmlGpu {
            link: link(now),
            link_max: link(most),
            ..gpu
        })
    }

    #[test]
    fn a_link_at_rest_is_no_remark_unless_it_lacks_lanes() {
        let (resting, busy, unknown) = (|| in_state(Some(8)), || in_state(Some(0)), || in_state(None));
        assert_eq!(linked(resting(), (1, 16), (5, 16)), []);
        assert_eq!(linked(unknown(), (1, 16), (5, 16)), []);
        assert_eq!(linked(busy(), (5, 16), (5, 16)), []);
        // A virtual port that claims less than runs.
        assert_eq!(linked(busy(), (5, 16), (1, 1)), []);
        let slow = linked(busy(), (3, 16), (5, 16));
        assert!(
            slow[0]
                .what
                .contains("GPU 1 runs as Gen3 x16, and could as Gen5 x16; it is in P0"),
            "{slow:?}"
        );
        for (gpu, again) in [(resting(), true), (unknown(), true), (busy(), false)] {
            let narrow = linked(gpu, (1, 8), (5, 16));
            assert!(narrow[0].what.contains("x8, and could as Gen5 x16"), "{narrow:?}");
            assert_eq!(narrow[0].remedy.starts_with("look again under load"), again);
        }
    }

    /// It matters only to GPUs that were found not to reach each other.
    #[test]
    fn a_small_window_is_a_remark_where_peers_are_refused() {
        let gpu = |bar1: u64| NvmlGpu {
            memory: Some(Bytes::new(24 << 30)),
            bar1: Some(Bytes::new(bar1 << 20)),
            ..NvmlGpu::default()
        };
        let told = |gpus| {
            Management::Told(Nvml::There(NvmlFacts {
                gpus,
                ..NvmlFacts::default()
            }))
        };
        let reason = "the driver says no".to_owned();
        let tried = |verdict| Gpus {
            peers: vec![vec![PeerVerdict::Own, verdict]],
            ..Gpus::default()
        };
        let (apart, together) = (tried(PeerVerdict::Refused { reason }), tried(PeerVerdict::Proven));
        let small = told(vec![gpu(256), gpu(256), gpu(32 << 10)]);
        let what = small.window(&apart).map(|remark| remark.what).unwrap_or_default();
        assert!(what.contains("256") && what.contains("1 more"), "{what}");
        assert_eq!(small.window(&together), None);
        assert_eq!(told(vec![gpu(24 << 10), in_state(None)]).window(&apart), None);
        assert_eq!(Management::NotAsked.window(&apart), None);
    }

    #[test]
    fn what_is_silent_or_missing_is_unknown() {
        let silent = Management::Silent("it does not answer".to_owned());
        assert!(silent.unknown(false).is_some());
        // And not fine.
        let remarks = silent.remarks();
        assert!(
            remarks.len() == 1 && remarks[0].what.ends_with("it does not answer"),
            "{remarks:?}"
        );
        let absent = Management::Told(Nvml::Absent);
        assert!(absent.unknown(true).is_some() && absent.unknown(false).is_none());
        assert!(Management::NotAsked.unknown(true).is_none());
    }
}
