//! What holds of every text, read or refused. The fuzz targets (fuzz/) ask it, too.

use lanesum_probe::dump::{Dump, DumpError, MOST_GPUS, Table};

/// What holds of whatever was read.
pub fn sound(dump: &Dump) -> bool {
    match dump {
        Dump::Matrix(matrix) => {
            let pairs = &matrix.relations;
            (1..=MOST_GPUS).contains(&matrix.gpus.len())
                && pairs.side() == matrix.gpus.len()
                && pairs
                    .iter()
                    .all(|(from, to, relation)| pairs.get(to, from) == Some(relation))
                && matrix
                    .others
                    .iter()
                    .all(|other| other.relations.len() == matrix.gpus.len())
        }
        Dump::Peers(peers) => peers.statuses.side() == peers.gpus.len(),
        Dump::Bandwidth(bandwidth) => {
            let side = bandwidth.gpus.len();
            let square = |table: &Table| table.values.side() == side && table.own.len() == side;
            let rates = |table: &Table| {
                let all = table.own.iter().chain(table.values.iter().map(|(_, _, rate)| rate));
                all.into_iter().all(|rate| rate.is_finite() && *rate >= 0.0)
            };
            !bandwidth.tables.is_empty() && bandwidth.tables.iter().all(square) && bandwidth.tables.iter().all(rates)
        }
        Dump::List(list) => (1..=MOST_GPUS).contains(&list.gpus.len()),
        Dump::Query(query) => (1..=MOST_GPUS).contains(&query.gpus.len()),
        Dump::Pci(pci) => (0..pci.devices.len()).all(|place| pci.path(place).len() < 256),
    }
}

/// That a refusal names a place of the text, or the one just behind it.
pub fn placed(error: &DumpError, text: &str) -> bool {
    let lines = text.lines().count();
    let place = error.place;
    let length = text.lines().nth(place.line - 1).map_or(0, |line| line.chars().count());
    place.line <= lines + 1 && (1..=length + 1).contains(&place.column)
}
