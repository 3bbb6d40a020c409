//! A dump as short text, for tables that people can check against the dump beside them.
use std::fmt::{Display, Write};

use lanesum_probe::dump::{
    Bandwidth, Dump, DumpError, Kernels, List, Matrix, Measure, Pairs, Pci, PciDevice, Peers, QueriedGpu, Query, Table,
};

pub(crate) fn render(read: &Result<Vec<Dump>, DumpError>) -> String {
    let mut text = String::new();
    match read {
        Ok(dumps) => {
            for dump in dumps {
                writeln!(text, "# {}", dump.tool()).unwrap();
                match dump {
                    Dump::Matrix(found) => matrix(&mut text, found),
                    Dump::Peers(found) => peers(&mut text, found),
                    Dump::Bandwidth(found) => bandwidth(&mut text, found),
                    Dump::List(found) => list(&mut text, found),
                    Dump::Query(found) => query(&mut text, found),
                    Dump::Pci(found) => pci(&mut text, found),
                }
                for remark in dump.remarks() {
                    writeln!(text, "remark: {remark}").unwrap();
                }
            }
        }
        Err(error) => writeln!(text, "refused: {error}\nhint: {}", error.hint()).unwrap(),
    }
    text
}

fn known(value: &Option<impl Display>) -> String {
    value.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string)
}

fn rows<T: Display>(text: &mut String, labels: &[u32], pairs: &Pairs<T>) {
    for (from, label) in labels.iter().enumerate() {
        write!(text, "{label:>3}:").unwrap();
        for to in 0..labels.len() {
            let cell = pairs.get(from, to).map_or_else(|| "-".to_owned(), ToString::to_string);
            write!(text, " {cell:>4}").unwrap();
        }
        writeln!(text).unwrap();
    }
}

fn matrix(text: &mut String, matrix: &Matrix) {
    let labels: Vec<u32> = matrix.gpus.iter().map(|gpu| gpu.index).collect();
    rows(text, &labels, &matrix.relations);
    for gpu in &matrix.gpus {
        let nodes = gpu.numa_nodes.as_ref().map(|nodes| format!("{nodes:?}"));
        let (cpus, memory) = (known(&gpu.cpus), known(&gpu.memory_node));
        writeln!(
            text,
            "GPU{}: cpus {cpus} nodes {} memory {memory}",
            gpu.index,
            known(&nodes)
        )
        .unwrap();
    }
    for other in &matrix.others {
        let relations: Vec<String> = other.relations.iter().map(ToString::to_string).collect();
        let name = known(&other.name);
        writeln!(text, "{} ({name}): {}", other.label, relations.join(" ")).unwrap();
    }
}

fn peers(text: &mut String, peers: &Peers) {
    rows(text, &peers.gpus, &peers.statuses);
}

fn bandwidth(text: &mut String, bandwidth: &Bandwidth) {
    for device in &bandwidth.devices {
        writeln!(text, "{} {} {}", device.index, device.address, device.model).unwrap();
    }
    if let Some(granted) = &bandwidth.granted {
        writeln!(text, "granted").unwrap();
        rows(text, &bandwidth.gpus, granted);
    }
    for table in &bandwidth.tables {
        writeln!(text, "{}, own {:?}", title(table), table.own).unwrap();
        rows(text, &bandwidth.gpus, &table.values);
    }
}

fn title(table: &Table) -> String {
    let measure = match table.measure {
        Measure::Unidirectional => "GB/s one way",
        Measure::Bidirectional => "GB/s both ways",
        Measure::Latency => "us",
        Measure::IssueLatency => "us to issue",
    };
    let kernels = match table.kernels {
        Some(Kernels::Write) => ", writes",
        Some(Kernels::Read) => ", reads",
        None => "",
    };
    format!(
        "{measure}, peer access {}{kernels}",
        if table.peer { "on" } else { "off" }
    )
}

fn list(text: &mut String, list: &List) {
    for gpu in &list.gpus {
        writeln!(text, "{} {} {}", gpu.index, known(&gpu.uuid), gpu.model).unwrap();
        for instance in &gpu.instances {
            writeln!(
                text,
                "  {} {} {}",
                instance.index,
                known(&instance.uuid),
                instance.profile
            )
            .unwrap();
        }
    }
}

fn query(text: &mut String, query: &Query) {
    writeln!(text, "driver {} CUDA {}", known(&query.driver), known(&query.cuda)).unwrap();
    for gpu in &query.gpus {
        writeln!(
            text,
            "{}: {} ({})",
            gpu.address,
            known(&gpu.model),
            known(&gpu.architecture)
        )
        .unwrap();
        writeln!(text, "  uuid {} minor {}", known(&gpu.uuid), known(&gpu.minor)).unwrap();
        writeln!(text, "  memory {} bar1 {}", known(&gpu.memory), known(&gpu.bar1)).unwrap();
        state(text, gpu);
    }
}

fn state(text: &mut String, gpu: &QueriedGpu) {
    let link = &gpu.link;
    let now = format!("generation {} width {}", known(&link.generation), known(&link.width));
    let most = format!("{} {}", known(&link.generation_max), known(&link.width_max));
    let sides = format!(
        "{} {}",
        known(&link.device_generation_max),
        known(&link.host_generation_max)
    );
    writeln!(text, "  link {now}, most {most}, most of device and host {sides}").unwrap();
    let (mig, display) = (known(&gpu.mig), known(&gpu.display_active));
    let virtualization = known(&gpu.virtualization);
    writeln!(
        text,
        "  mig {mig} display {display} virtualization {virtualization} mode {}",
        known(&gpu.compute_mode)
    )
    .unwrap();
}

fn pci(text: &mut String, pci: &Pci) {
    for (place, device) in pci.devices.iter().enumerate() {
        let above: Vec<String> = pci
            .path(place)
            .iter()
            .map(|above| pci.devices[*above].address.to_string())
            .collect();
        writeln!(
            text,
            "{} {} below {:?}",
            device.address,
            known(&device.name),
            above.join(" ")
        )
        .unwrap();
        let link = |link: &Option<lanesum_probe::dump::Lanes>| {
            known(&link.map(|link| format!("{}x{}", link.generation, link.width)))
        };
        let (now, most) = (link(&device.link), link(&device.link_max));
        let buses = device
            .buses
            .map(|buses| format!("{:02x}-{:02x}", buses.secondary, buses.subordinate));
        writeln!(
            text,
            "  {} ({}) buses {}",
            known(&device.class),
            known(&device.port),
            known(&buses)
        )
        .unwrap();
        writeln!(
            text,
            "  link {now} of {most} node {} driver {}",
            known(&device.numa_node),
            known(&device.driver)
        )
        .unwrap();
        more(text, device);
    }
    let gpus: Vec<String> = pci.gpus().map(|place| pci.devices[place].address.to_string()).collect();
    writeln!(text, "GPUs: {}", gpus.join(" ")).unwrap();
}

fn more(text: &mut String, device: &PciDevice) {
    for region in &device.regions {
        writeln!(text, "  region {} of {}", region.number, region.size).unwrap();
    }
    if let Some(acs) = device.acs {
        let redirects = (acs.request_redirect, acs.completion_redirect);
        let rest = (acs.upstream_forwarding, acs.egress_control, acs.direct_translated);
        writeln!(
            text,
            "  acs redirects {redirects:?} rest {rest:?} group {}",
            known(&device.iommu_group)
        )
        .unwrap();
    }
}
