//! Published latencies: rows of comma-separated values, and the fabrics that their words stand for.

use lanesum_plan::{Bytes, Fabric, Links, Message, Method, PcieLink, Relation, WorldSize};

/// The columns.
const COLUMNS: [&str; 10] = [
    "host",
    "gpu",
    "ranks",
    "pcie",
    "fabric",
    "algorithm",
    "mode",
    "bytes",
    "us",
    "source",
];

/// One published figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub line: usize,
    pub host: String,
    pub algorithm: String,
    /// What it is in the model.
    pub method: Method,
    pub mode: Mode,
    pub bytes: u64,
    pub us: f64,
    pub ranks: usize,
    /// The links, if their words tell them.
    pub fabric: Option<Fabric>,
}

/// How calls are launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As a node of a graph.
    Graph,
    /// Each by itself.
    Eager,
}

impl Mode {
    /// To launch one, at the least: a node of a graph takes 0.5 to 1.4 us.
    const fn launch_us(self) -> f64 {
        match self {
            Self::Graph => 0.5,
            Self::Eager => 2.0,
        }
    }
}

impl Row {
    /// The message.
    pub fn message(&self) -> Message {
        let framed = match self.algorithm.as_str() {
            // Words of 8 bytes that are half flag.
            "one_shot_push_ll" => 2.0,
            // The payload is its own flag.
            "one_shot_push_sentinel" | "staged_islands_push" => 1.0,
            // Frames of 12 bytes with 4 of tags, as lanesum has them.
            _ => 4.0 / 3.0,
        };
        Message {
            bytes: Bytes::new(self.bytes),
            framed,
            partial: 2.0,
            launch_us: self.mode.launch_us(),
        }
    }
}

/// All rows, or the number of the line that can't be one, and why.
pub fn read(text: &str) -> Result<Vec<Row>, (usize, String)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim_end()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let Some((at, head)) = lines.next() else {
        return Err((1, "there are no rows".to_owned()));
    };
    if head.split(',').ne(COLUMNS) {
        return Err((at, format!("the first line must be {}", COLUMNS.join(","))));
    }
    let rows: Result<Vec<Row>, _> = lines
        .map(|(at, line)| row(at, line).map_err(|reason| (at, reason)))
        .collect();
    match rows {
        Ok(rows) if rows.is_empty() => Err((at, "there are no rows below".to_owned())),
        rows => rows,
    }
}

fn row(line: usize, text: &str) -> Result<Row, String> {
    // The source comes last, and may have commas.
    let fields: Vec<&str> = text.splitn(COLUMNS.len(), ',').map(str::trim).collect();
    let &[host, _, ranks, pcie, fabric, algorithm, mode, bytes, us, _] = fields.as_slice() else {
        return Err(format!("{} columns, and there must be {}", fields.len(), COLUMNS.len()));
    };
    let number = |what: &str, text: &str| text.parse::<u64>().map_err(|_| format!("{what} is no number: {text}"));
    let ranks = number("ranks", ranks)? as usize;
    let world = WorldSize::new(ranks)
        .ok()
        .filter(|world| world.get() > 1)
        .ok_or_else(|| format!("{ranks} ranks: from 2 to {}", lanesum_plan::WORLD_MAX))?;
    let us = us
        .parse::<f64>()
        .ok()
        .filter(|us| (0.01..=1e9).contains(us))
        .ok_or_else(|| format!("us is no time: {us}"))?;
    Ok(Row {
        line,
        host: host.to_owned(),
        algorithm: algorithm.to_owned(),
        method: method(algorithm).ok_or_else(|| format!("no algorithm of the model is {algorithm}"))?,
        mode: match mode {
            "graph" => Mode::Graph,
            "eager" => Mode::Eager,
            other => return Err(format!("mode is graph or eager, not {other}")),
        },
        bytes: number("bytes", bytes)?,
        us,
        ranks,
        fabric: links(fabric, pcie, ranks)?.and_then(|links| Fabric::of(&links, world)),
    })
}

fn method(algorithm: &str) -> Option<Method> {
    match algorithm {
        "one_shot_push_ll" | "one_shot_push_sentinel" => Some(Method::OneShotPush),
        "staged_islands_push" => Some(Method::IslandTwoShot),
        "nccl_tuned" => Some(Method::Nccl),
        name => name.parse().ok(),
    }
}

/// `gen5x16`
fn link(text: &str) -> Result<PcieLink, String> {
    let parsed = || {
        let (generation, width) = text.strip_prefix("gen")?.split_once('x')?;
        Some(PcieLink {
            generation: generation.parse().ok().filter(|known| (1..=7).contains(known))?,
            width: width.parse().ok().filter(|known| (1..=16).contains(known))?,
        })
    };
    parsed().ok_or_else(|| format!("a link is written as gen5x16, not {text}"))
}

/// What lies between the GPUs: `None` where that isn't stated. Of switches whose sizes aren't there are taken to be two alike.
fn links(fabric: &str, pcie: &str, ranks: usize) -> Result<Option<Links>, String> {
    if fabric == "unknown" {
        return Ok(None);
    }
    let pcie = link(pcie)?;
    let unread = || format!("fabric is unknown, roots(..), switch(N), switches(..) or sockets(..), not {fabric}");
    let (word, sizes) = fabric
        .strip_suffix(')')
        .and_then(|text| text.split_once('('))
        .ok_or_else(unread)?;
    let (within, between) = match word {
        "roots" => (Relation::Phb, Relation::Phb),
        "switch" | "switches" => (Relation::Pix, Relation::Phb),
        "sockets" => (Relation::Node, Relation::Sys),
        _ => return Err(unread()),
    };
    let sizes: Vec<usize> = match sizes {
        "unknown" => vec![ranks / 2, ranks - ranks / 2],
        sizes => {
            let parsed: Result<Vec<usize>, _> = sizes.split_whitespace().map(str::parse).collect();
            parsed.map_err(|_| unread())?
        }
    };
    let all = sizes.iter().try_fold(0_usize, |all, size| all.checked_add(*size));
    if all != Some(ranks) || sizes.contains(&0) {
        return Err(format!("{fabric} has not {ranks} GPUs"));
    }
    if word == "switch" && sizes.len() > 1 {
        return Err(format!("{fabric} names several: these are switches(..)"));
    }
    let group: Vec<usize> = sizes
        .iter()
        .enumerate()
        .flat_map(|(at, size)| vec![at; *size])
        .collect();
    let relation =
        |one: usize, other: usize| (one != other).then_some(if group[one] == group[other] { within } else { between });
    Ok(Some(Links {
        relations: (0..ranks)
            .map(|one| (0..ranks).map(|other| relation(one, other)).collect())
            .collect(),
        pcie: vec![Some(pcie); ranks],
        ..Links::default()
    }))
}

#[cfg(test)]
mod tests {
    use lanesum_plan::Rank;

    use super::*;

    const HEAD: &str = "host,gpu,ranks,pcie,fabric,algorithm,mode,bytes,us,source\n";

    #[test]
    fn words_become_fabrics() {
        let text = format!(
            "# a remark\n{HEAD}a,G,4,gen4x8,switches(1 3),one_shot_pull,graph,1024,6.1,a place, with a comma\n\
             b,G,8,gen5x16,unknown,nccl,eager,4096,45,same\n"
        );
        let rows = read(&text).expect("rows");
        let islands = rows[0].fabric.as_ref().expect("a fabric").islands();
        let numbers: Vec<Vec<usize>> = islands
            .into_iter()
            .map(|island| island.into_iter().map(Rank::index).collect())
            .collect();
        assert_eq!(numbers, [vec![0], vec![1, 2, 3]]);
        assert_eq!(
            (rows[0].line, rows[0].method, rows[0].us),
            (3, Method::OneShotPull, 6.1)
        );
        assert_eq!((rows[1].fabric.as_ref(), rows[1].mode), (None, Mode::Eager));
    }

    #[test]
    fn what_is_no_row_is_refused_with_its_line() {
        for (row, reason) in [
            ("a,G,4", "3 columns"),
            ("a,G,17,gen5x16,unknown,nccl,graph,1,1,x", "17 ranks"),
            ("a,G,1,gen5x16,unknown,nccl,graph,1,1,x", "1 ranks"),
            ("a,G,2,5x16,switch(2),nccl,graph,1,1,x", "gen5x16"),
            (
                "a,G,2,gen5x16,sockets(18446744073709551615 3),nccl,graph,1,1,x",
                "has not 2",
            ),
            ("a,G,4,gen5x16,switch(2 2),nccl,graph,1,1,x", "switches"),
            ("a,G,2,gen5x16,switch(2 0),nccl,graph,1,1,x", "has not 2"),
            ("a,G,2,gen5x16,switch(2),nccl,graph,1,1e308,x", "us"),
            ("a,G,2,gen5x16,ring(2),nccl,graph,1,1,x", "switches"),
            ("a,G,2,gen5x16,switch(3),nccl,graph,1,1,x", "has not 2"),
            ("a,G,2,gen5x16,switch(2),magic,graph,1,1,x", "magic"),
            ("a,G,2,gen5x16,switch(2),nccl,lazy,1,1,x", "lazy"),
            ("a,G,2,gen5x16,switch(2),nccl,graph,-1,1,x", "bytes"),
            ("a,G,2,gen5x16,switch(2),nccl,graph,1,NaN,x", "us"),
        ] {
            let (line, told) = read(&format!("{HEAD}\n{row}\n")).expect_err(row);
            assert_eq!(line, 3, "{row}");
            assert!(told.contains(reason), "{row}: {told}");
        }
        assert!(read("").is_err() && read("host,us\n").is_err() && read(HEAD).is_err());
    }
}
