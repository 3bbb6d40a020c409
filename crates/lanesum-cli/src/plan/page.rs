//! The page of `--report`: one file that holds all, to be sent to somebody and opened anywhere.

use std::fmt::Write;

use lanesum_plan::{Group, Rank, Relation};

use super::report::{Pair, Report};
use crate::bench::plot::{Dot, Line, Panel, Picture};
use crate::progress::grouped;

const STYLE: &str = "\
body{font:15px/1.45 sans-serif;color:#222;max-width:72rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.25rem .55rem;text-align:left;vertical-align:top}
.pairs td,.pairs th{text-align:center;min-width:2.6rem}
.NV{background:#cfe8cf}.PIX{background:#dbe9f6}.PXB{background:#e6eef6}.PHB{background:#fdf3d6}.NODE{background:#fbe7c8}.SYS{background:#f6d9c8}
.refused{outline:3px solid #c0392b;outline-offset:-3px}.unknown{background:#eee;color:#777}
.yes{color:#1e7a34}.no{color:#b3261e}
.group{border:2px solid #8aa;border-radius:.4rem;margin:.4rem;padding:.4rem .6rem;display:inline-block;vertical-align:top;background:#fff}
.group>p{margin:0 0 .3rem;font-size:.85rem;color:#456}
.shared{border-color:#c77d1a}.shared>p{color:#8a5510}
.gpu{display:inline-block;border:1px solid #446;border-radius:.3rem;background:#eef;padding:.25rem .5rem;margin:.2rem;font-size:.9rem}
.gpu small{color:#556}.decision{font-size:1.15rem;background:#f3f7f3;border-left:5px solid #1e7a34;padding:.6rem 1rem}
.none{background:#fbeeee;border-color:#b3261e}svg{max-width:100%;height:auto}li{margin:.2rem 0}";

/// The text of the page.
pub fn html(report: &Report) -> String {
    let mut page = String::new();
    write(&mut page, report).unwrap_or_default();
    page
}

/// Text as it stands in HTML.
fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            letter => safe.push(letter),
        }
    }
    safe
}

fn write(page: &mut String, report: &Report) -> std::fmt::Result {
    let sentence = report.sentence();
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>lanesum plan: {ranks} ranks</title>\n<style>{STYLE}</style></head><body>\n\
         <h1>What an all-reduce would run on these {ranks} GPUs</h1>\n<p class=\"decision{class}\">{sentence}</p>\n",
        ranks = report.ranks,
        class = if report.decision.algorithm.is_none() {
            " none"
        } else {
            ""
        },
        sentence = safe(&sentence),
    )?;
    writeln!(
        page,
        "<p>From {}. lanesum {}.</p>",
        safe(&report.sources.join("; ")),
        report.version
    )?;
    write_tree(page, report)?;
    write_pairs(page, report)?;
    write_lengths(page, report)?;
    write_gates(page, report)?;
    for (title, lines) in [
        ("Remarks", &report.remarks),
        ("Assumed, as nothing here tells it", &report.assumes),
    ] {
        if lines.is_empty() {
            continue;
        }
        writeln!(page, "<h2>{title}</h2>\n<ul>")?;
        for line in lines {
            writeln!(page, "<li>{}</li>", safe(line))?;
        }
        writeln!(page, "</ul>")?;
    }
    writeln!(
        page,
        "<h2>How to read this</h2>\n<p>Each rank has one GPU and brings one message of the given length; afterwards all have the sum. \
         <b>Path peer</b>: GPUs write into each other's memory. <b>Path host_staged</b>: they exchange through pinned memory of the host, which needs no peer access. \
         <b>One shot</b>: each sends all it has to all others, in one hop. <b>Two shots</b>: each sums one part and sends the result, in two hops and fewer bytes. \
         Times are predictions from links and lengths, made to choose by; nothing was measured. Labels are those of nvidia-smi topo -m: \
         PIX one switch, PXB several, PHB the processor, NODE host bridges of one NUMA node, SYS several nodes, NV# that many NVLinks.</p>\n</body></html>"
    )
}

/// Boxes in boxes: what shares a link upwards has an orange frame.
fn write_tree(page: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(page, "<h2>What lies between them</h2>")?;
    let Some(groups) = &report.groups else {
        writeln!(
            page,
            "<p>It is not known of all of them; predictions are for root ports of one socket.</p>"
        )?;
        let all: Vec<Rank> = report.all_ranks();
        return write_members(page, report, &all, &[]);
    };
    write!(page, "<div class=\"group\"><p>host</p>")?;
    let all = report.all_ranks();
    write_members(page, report, &all, groups)?;
    writeln!(page, "</div>")?;
    if let Some(busiest) = &report.busiest {
        writeln!(
            page,
            "<p>When all send to all, what ends last is {}.</p>",
            safe(busiest)
        )?;
    }
    Ok(())
}

/// The largest groups among these ranks, each with what is in it, and the ranks that are in none.
fn write_members(page: &mut String, report: &Report, ranks: &[Rank], groups: &[Group]) -> std::fmt::Result {
    let within =
        |group: &&Group| group.ranks.len() < ranks.len() && group.ranks.iter().all(|rank| ranks.contains(rank));
    let inner: Vec<&Group> = groups.iter().filter(within).collect();
    let is_outermost = |group: &&&Group| {
        let holds = |other: &&Group| {
            other.ranks.len() > group.ranks.len() && group.ranks.iter().all(|rank| other.ranks.contains(rank))
        };
        !inner.iter().any(holds)
    };
    let outermost: Vec<&&Group> = inner.iter().filter(is_outermost).collect();
    for rank in ranks {
        let Some(group) = outermost.iter().find(|group| group.ranks.contains(rank)) else {
            write_gpu(page, report, *rank)?;
            continue;
        };
        if group.ranks.first() != Some(rank) {
            continue;
        }
        let (class, words) = match group.within {
            Relation::Nvlink(bonds) => ("group", format!("joined by NVLinks, {bonds} or more a pair")),
            Relation::Pix => ("group shared", "one switch; all share its link upwards".to_owned()),
            Relation::Pxb => (
                "group shared",
                "switches below one another; all share the link of the first".to_owned(),
            ),
            Relation::Phb => ("group", "root ports of one host bridge".to_owned()),
            Relation::Node => ("group", "one NUMA node".to_owned()),
            Relation::Sys => ("group", "several NUMA nodes".to_owned()),
        };
        write!(page, "<div class=\"{class}\"><p>{words}</p>")?;
        write_members(page, report, &group.ranks, groups)?;
        write!(page, "</div>")?;
    }
    Ok(())
}

fn write_gpu(page: &mut String, report: &Report, rank: Rank) -> std::fmt::Result {
    let Some(gpu) = report.gpus.get(rank.index()) else {
        return Ok(());
    };
    let model = gpu.model.as_deref().unwrap_or("");
    let link = gpu.pcie.as_deref().unwrap_or("link unknown");
    write!(
        page,
        "<span class=\"gpu\">rank {rank}: {}<br><small>{} {}</small></span>",
        safe(&gpu.gpu),
        safe(model),
        safe(link)
    )
}

fn write_pairs(page: &mut String, report: &Report) -> std::fmt::Result {
    if report.ranks < 2 {
        return Ok(());
    }
    writeln!(page, "<h2>Pairs</h2>\n<table class=\"pairs\">\n<tr><th>from \\ to</th>")?;
    for to in 0..report.ranks {
        write!(page, "<th>{to}</th>")?;
    }
    for from in 0..report.ranks {
        write!(page, "</tr>\n<tr><th>{from}</th>")?;
        for to in 0..report.ranks {
            let pair = report.pairs.iter().find(|pair| (pair.from, pair.to) == (from, to));
            write_pair(page, pair)?;
        }
    }
    writeln!(
        page,
        "</tr>\n</table>\n<p>A red frame: no peer access from that rank's GPU to the other's."
    )?;
    if let Some(reason) = report.pairs.iter().find_map(|pair| pair.reason.as_ref()) {
        write!(page, " {}.", safe(reason))?;
    }
    writeln!(page, "</p>")
}

fn write_pair(page: &mut String, pair: Option<&Pair>) -> std::fmt::Result {
    let Some(pair) = pair else {
        return write!(page, "<td>-</td>");
    };
    let label = pair.link.map_or_else(|| "?".to_owned(), |link| link.to_string());
    let kind = match pair.link {
        None => "unknown",
        Some(Relation::Nvlink(_)) => "NV",
        Some(_) => label.as_str(),
    };
    let refused = if pair.reason.is_some() { " refused" } else { "" };
    write!(page, "<td class=\"{kind}{refused}\">{label}</td>")
}

fn write_lengths(page: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(page, "<h2>Lengths</h2>\n{}", picture(report).svg())?;
    writeln!(
        page,
        "<table>\n<tr><th>bytes a rank</th><th>path</th><th>algorithm</th><th>predicted us</th><th>next best, and by how much</th></tr>"
    )?;
    for length in &report.sweep {
        let decision = &length.decision;
        let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}"));
        let next = length
            .next
            .map_or_else(String::new, |next| format!("{next}, {} us more", us(length.margin_us)));
        writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}{}</td><td>{}</td><td>{next}</td></tr>",
            grouped(decision.bytes),
            decision.path,
            decision.algorithm.unwrap_or("refused"),
            if decision.chunks { ", in chunks" } else { "" },
            us(decision.predicted_us),
        )?;
    }
    writeln!(page, "</table>")
}

/// Each algorithm over all lengths, and what the plan takes.
fn picture(report: &Report) -> Picture {
    let dots = |of: &dyn Fn(&super::report::Length) -> Option<f64>| {
        let dot = |length: &super::report::Length| {
            Some(Dot {
                bytes: length.decision.bytes,
                us: of(length)?,
                spread: None,
            })
        };
        report.sweep.iter().filter_map(dot).collect::<Vec<_>>()
    };
    let mut lines = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in report.sweep.iter().flat_map(|length| &length.predicted) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    for name in names {
        let us = |length: &super::report::Length| {
            let found = length.predicted.iter().find(|(algorithm, _)| *algorithm == name);
            found.map(|(_, us)| *us)
        };
        let points = dots(&us);
        if !points.is_empty() {
            lines.push(Line {
                name: name.to_string(),
                points,
            });
        }
    }
    // On top of the others.
    lines.push(Line {
        name: "what the plan takes".to_owned(),
        points: dots(&|length| length.decision.predicted_us),
    });
    lines.retain(|line| !line.points.is_empty());
    Picture {
        title: format!("All-reduce over {} ranks, predicted", report.ranks),
        subtitle: format!("path {}, {}", report.decision.path, report.decision.dtype),
        values: "us a call".to_owned(),
        panels: vec![Panel {
            title: "eager calls".to_owned(),
            lines,
        }],
    }
}

fn write_gates(page: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(page, "<h2>Why</h2>\n<ul>")?;
    for line in report.other_path.iter() {
        writeln!(page, "<li>{}</li>", safe(line))?;
    }
    for other in &report.alternatives {
        writeln!(page, "<li>not {}: {}</li>", other.algorithm, safe(&other.refused))?;
    }
    writeln!(
        page,
        "</ul>\n<table>\n<tr><th>gate</th><th>answer</th><th>because</th><th>what to do</th></tr>"
    )?;
    for gate in &report.gates {
        writeln!(
            page,
            "<tr><td>{}</td><td class=\"{}\">{}</td><td>{}</td><td>{}</td></tr>",
            gate.name,
            gate.verdict,
            gate.verdict,
            safe(&gate.reason),
            safe(gate.remedy.unwrap_or(""))
        )?;
    }
    writeln!(page, "</table>")
}
