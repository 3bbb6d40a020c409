//! One GPU, question by question: each may be refused by itself.

use lanesum_plan::{Bytes, PcieLink};
use nvml_wrapper::enum_wrappers::device::PerformanceState;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml as Library};

use super::{NvmlGpu, links};

/// The most instances that a GPU is cut into, and some room.
const MOST_INSTANCES: u32 = 16;

pub(super) fn of(library: &Library, index: u32) -> NvmlGpu {
    let device = match library.device_by_index(index) {
        Ok(device) => device,
        Err(error) => {
            return NvmlGpu {
                index,
                refused: Some(error.to_string()),
                ..NvmlGpu::default()
            };
        }
    };
    let mig = mig(&device);
    NvmlGpu {
        index,
        refused: None,
        uuid: device.uuid().ok(),
        pci_bus_id: device.pci_info().ok().and_then(|info| info.bus_id.parse().ok()),
        name: device.name().ok(),
        memory: device.memory_info().ok().map(|memory| Bytes::new(memory.total)),
        bar1: bar1(&device),
        link: link(device.current_pcie_link_gen(), device.current_pcie_link_width()),
        link_max: link(device.max_pcie_link_gen(), device.max_pcie_link_width()),
        performance_state: device.performance_state().ok().and_then(state),
        utilisation_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
        display_attached: device.is_display_connected().ok(),
        display_active: device.is_display_active().ok(),
        mig,
        instances: if mig == Some(true) { instances(&device) } else { None },
        nvlinks: links::of(library, &device),
    }
}

/// The window through which others on the bus reach its memory.
pub(super) fn bar1(device: &Device<'_>) -> Option<Bytes> {
    device.bar1_memory_info().ok().map(|bar1| Bytes::new(bar1.total))
}

/// Whether it is cut into MIG instances. One that can't be isn't.
pub(super) fn mig(device: &Device<'_>) -> Option<bool> {
    match device.mig_mode() {
        Ok(mode) => match mode.current {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
        Err(error) => matches!(error, NvmlError::NotSupported).then_some(false),
    }
}

fn instances(device: &Device<'_>) -> Option<Vec<String>> {
    let most = device.mig_device_count().ok()?.min(MOST_INSTANCES);
    let there = (0..most).filter_map(|index| device.mig_device_by_index(index).ok());
    there.map(|instance| instance.uuid().ok()).collect()
}

fn link(generation: Result<u32, NvmlError>, width: Result<u32, NvmlError>) -> Option<PcieLink> {
    let (generation, width) = (u8::try_from(generation.ok()?).ok()?, u8::try_from(width.ok()?).ok()?);
    let known = (1..=7).contains(&generation) && (1..=16).contains(&width);
    known.then_some(PcieLink { generation, width })
}

/// States are numbered as they are declared; the last word is for an unknown one.
fn state(state: PerformanceState) -> Option<u8> {
    (state != PerformanceState::Unknown).then_some(state as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_cannot_be_are_not_told() {
        let read = |generation: u32, width: u32| link(Ok(generation), Ok(width));
        assert_eq!(
            read(4, 8),
            Some(PcieLink {
                generation: 4,
                width: 8
            })
        );
        for (generation, width) in [(0, 16), (8, 16), (4, 0), (4, 17), (u32::MAX, 16), (256 + 4, 16)] {
            assert_eq!(read(generation, width), None, "{generation} {width}");
        }
        assert_eq!(link(Err(NvmlError::NotSupported), Ok(16)), None);
        assert_eq!(link(Ok(4), Err(NvmlError::GpuLost)), None);
    }

    #[test]
    fn states_have_the_numbers_that_people_say() {
        use PerformanceState::{Eight, Fifteen, Two, Unknown, Zero};
        let numbers = [Zero, Two, Eight, Fifteen, Unknown].map(state);
        assert_eq!(numbers, [Some(0), Some(2), Some(8), Some(15), None]);
    }
}
