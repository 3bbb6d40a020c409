//! From what is wanted to the GPUs that there are.

use super::{Entry, Name, Order, Trouble, Visible, VisibleGpu, Wanted, shown};
use crate::nvml::NvmlGpu;

/// What an entry turns out to be.
enum Meant<'g> {
    /// A whole GPU.
    Gpu(&'g NvmlGpu),
    /// An instance of a GPU.
    Instance(&'g NvmlGpu),
    /// Something that is there, and only the driver knows which.
    Unknown,
    /// Nothing.
    Nothing,
    /// One of so many.
    AnyOf(usize),
}

impl Wanted {
    /// Which of these GPUs can be seen. Without them only what is wrong with the words is found.
    #[must_use]
    pub fn resolve(&self, gpus: Option<&[NvmlGpu]>) -> Visible {
        let mut visible = Visible {
            order: self.order,
            gpus: None,
            troubles: self.troubles.clone(),
        };
        let numbered = gpus.map(|gpus| numbered(gpus, self.order));
        let found = match (&self.entries, gpus) {
            (None, None) => return visible,
            (None, Some(gpus)) => Ok(all(gpus, numbered.flatten())),
            (Some(entries), gpus) => listed(entries, gpus, numbered.flatten().as_deref()),
        };
        match found {
            Ok(found) => visible.gpus = gpus.map(|_| found),
            Err((found, trouble)) => {
                visible.gpus = gpus.map(|_| found);
                // It comes before what ends the list later.
                visible.troubles.retain(|other| matches!(other, Trouble::Order { .. }));
                visible.troubles.push(trouble);
            }
        }
        visible
    }
}

/// The GPUs by CUDA's numbers, if these follow from where they are plugged in: if it is asked to, or where all are alike.
fn numbered(gpus: &[NvmlGpu], order: Order) -> Option<Vec<&NvmlGpu>> {
    let alike = || {
        let first = gpus.first().and_then(|gpu| gpu.name.as_ref());
        first.is_some() && gpus.iter().all(|gpu| gpu.name.as_ref() == first)
    };
    let by_place = match order {
        Order::PciBusId => true,
        Order::FastestFirst => gpus.len() < 2 || alike(),
    };
    let known = gpus.iter().all(|gpu| gpu.pci_bus_id.is_some());
    (by_place && known).then(|| {
        let mut gpus: Vec<&NvmlGpu> = gpus.iter().collect();
        gpus.sort_by_key(|gpu| gpu.pci_bus_id);
        gpus
    })
}

fn all(gpus: &[NvmlGpu], numbered: Option<Vec<&NvmlGpu>>) -> Vec<VisibleGpu> {
    let gpus = numbered.unwrap_or_else(|| gpus.iter().collect());
    gpus.into_iter().map(|gpu| seen(None, Some(gpu))).collect()
}

fn seen(entry: Option<String>, gpu: Option<&NvmlGpu>) -> VisibleGpu {
    VisibleGpu {
        entry,
        uuid: gpu.and_then(|gpu| gpu.uuid.clone()),
        pci_bus_id: gpu.and_then(|gpu| gpu.pci_bus_id),
    }
}

/// Those that a list names, and why it ends before its end, if it does.
fn listed(
    entries: &[Entry],
    gpus: Option<&[NvmlGpu]>,
    numbered: Option<&[&NvmlGpu]>,
) -> Result<Vec<VisibleGpu>, (Vec<VisibleGpu>, Trouble)> {
    let mut found = Vec::new();
    let mut before: Vec<(&Name, Option<u32>)> = Vec::new();
    for (place, Entry { text, name }) in entries.iter().enumerate() {
        let (entry, text) = (place + 1, shown(text));
        let meant = gpus.map_or(Meant::Unknown, |gpus| name.among(gpus, numbered));
        let (gpu, whole) = match meant {
            Meant::Gpu(gpu) => (Some(gpu), Some(gpu.index)),
            // Several instances of one GPU may be named.
            Meant::Instance(gpu) => (Some(gpu), None),
            Meant::Unknown => (None, None),
            Meant::Nothing => {
                let gpus = gpus.map_or(0, <[NvmlGpu]>::len);
                return Err((found, Trouble::NoSuchGpu { entry, text, gpus }));
            }
            Meant::AnyOf(gpus) => {
                return Err((found, Trouble::Ambiguous { entry, text, gpus }));
            }
        };
        let same = |(other, index): &(&Name, Option<u32>)| *other == name || whole.is_some() && *index == whole;
        if let Some(first) = before.iter().position(same) {
            let first = first + 1;
            return Err((Vec::new(), Trouble::Twice { entry, text, first }));
        }
        before.push((name, whole));
        found.push(seen(Some(text), gpu));
    }
    Ok(found)
}

impl Name {
    fn among<'g>(&self, gpus: &'g [NvmlGpu], numbered: Option<&[&'g NvmlGpu]>) -> Meant<'g> {
        let with_uuid = |wanted: &dyn Fn(&str) -> bool| {
            let there = gpus.iter().filter(|gpu| gpu.uuid.as_deref().is_some_and(wanted));
            there.collect::<Vec<_>>()
        };
        // A GPU whose UUID isn't told may be any.
        let untold = gpus.iter().any(|gpu| gpu.uuid.is_none());
        match self {
            Name::Index(index) => match (usize::try_from(*index), numbered) {
                (Ok(index), Some(numbered)) => numbered.get(index).map_or(Meant::Nothing, |gpu| Meant::Gpu(gpu)),
                (Ok(index), None) if index < gpus.len() => Meant::Unknown,
                (Ok(_) | Err(_), _) => Meant::Nothing,
            },
            Name::Gpu(beginning) => match with_uuid(&|uuid| uuid.starts_with(beginning.as_str())).as_slice() {
                [] if untold => Meant::Unknown,
                [] => Meant::Nothing,
                [gpu] => Meant::Gpu(gpu),
                several => Meant::AnyOf(several.len()),
            },
            Name::InstanceOf(gpu, _) => match with_uuid(&|uuid| uuid == gpu).as_slice() {
                [] if untold => Meant::Unknown,
                [gpu, ..] if gpu.mig != Some(false) => Meant::Instance(gpu),
                [..] => Meant::Nothing,
            },
            Name::Instance(uuid) => {
                let has = |gpu: &&NvmlGpu| gpu.instances.iter().flatten().any(|instance| instance == uuid);
                let hidden = |gpu: &NvmlGpu| gpu.instances.is_none() && gpu.mig != Some(false);
                match gpus.iter().find(has) {
                    Some(gpu) => Meant::Instance(gpu),
                    None if gpus.iter().any(hidden) => Meant::Unknown,
                    None => Meant::Nothing,
                }
            }
        }
    }
}
