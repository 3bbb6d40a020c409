//! The ways between ranks' GPUs as a table: how any two lie to each other, and who reaches whom.

use std::fmt::Write;

use lanesum_plan::Relation;

use super::drawing::Bonds;
use super::{Page, safe};

/// Whether what one rank's GPU writes for another arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    Proven,
    /// Nobody has tried.
    Supposed,
    /// It does not, for this reason.
    Not(String),
}

/// The way from one rank's GPU to another's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    pub from: usize,
    pub to: usize,
    /// How they lie to each other, where that is known.
    pub link: Option<Relation>,
    /// In its memory.
    pub peer: Reach,
    /// By the host's.
    pub host: Reach,
}

/// The section of the page.
pub fn write(html: &mut String, page: &Page) -> std::fmt::Result {
    if page.pairs.is_empty() {
        return Ok(());
    }
    write!(
        html,
        "<h2>Pairs</h2>\n<div class=\"wide\"><table class=\"pairs\">\n<tr><th>from \\ to</th>"
    )?;
    for to in 0..page.ranks {
        write!(html, "<th>{to}</th>")?;
    }
    for from in 0..page.ranks {
        write!(html, "</tr>\n<tr><th>{from}</th>")?;
        for to in 0..page.ranks {
            write_pair(html, page.pairs.iter().find(|pair| (pair.from, pair.to) == (from, to)))?;
        }
    }
    writeln!(html, "</tr>\n</table></div>")?;
    let proven = page.pairs.iter().any(|pair| pair.peer == Reach::Proven);
    let words = if proven {
        "In a cell: how the two GPUs lie to each other, or ? where that is not known. A tick: what the row's GPU wrote into the column's \
         was read there."
    } else {
        "In a cell: how the two GPUs lie to each other, or ? where that is not known."
    };
    writeln!(
        html,
        "<p class=\"quiet\">{words} A red frame and a cross: no peer access that way.</p>"
    )?;
    write_trouble(html, "no peer access", &page.pairs, |pair| &pair.peer)?;
    write_trouble(html, "no way through host memory", &page.pairs, |pair| &pair.host)
}

/// The NVLinks of a pair, told once for both ways.
pub fn bonds(pair: &Pair) -> Option<Bonds> {
    match pair.link {
        Some(Relation::Nvlink(links)) if pair.from < pair.to => Some(Bonds {
            one: pair.from,
            other: pair.to,
            links,
        }),
        Some(Relation::Nvlink(_) | Relation::Pix | Relation::Pxb | Relation::Phb | Relation::Node | Relation::Sys)
        | None => None,
    }
}

fn write_pair(html: &mut String, pair: Option<&Pair>) -> std::fmt::Result {
    let Some(pair) = pair else {
        return write!(html, "<td>-</td>");
    };
    let label = pair.link.map_or_else(|| "?".to_owned(), |link| link.to_string());
    let kind = match pair.link {
        None => "unknown",
        Some(Relation::Nvlink(_)) => "NV",
        Some(Relation::Pix | Relation::Pxb | Relation::Phb | Relation::Node | Relation::Sys) => label.as_str(),
    };
    let (class, mark) = match &pair.peer {
        Reach::Proven => ("", " \u{2713}"),
        Reach::Supposed => ("", ""),
        Reach::Not(_) => (" refused", " \u{2717}"),
    };
    write!(html, "<td class=\"{kind}{class}\">{label}{mark}</td>")
}

/// Each reason once, with the pairs that have it.
fn write_trouble(html: &mut String, what: &str, pairs: &[Pair], of: impl Fn(&Pair) -> &Reach) -> std::fmt::Result {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for pair in pairs {
        let Reach::Not(reason) = of(pair) else { continue };
        let name = format!("{} to {}", pair.from, pair.to);
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    for (reason, names) in reasons {
        // All pairs of many ranks would fill the page.
        let which = match names.len() {
            count if count == pairs.len() => "all pairs".to_owned(),
            0..=12 => names.join(", "),
            count => format!("{}, and {} more", names[..8].join(", "), count - 8),
        };
        writeln!(html, "<p><b>{what}</b>, {}: {}</p>", safe(&which), safe(reason))?;
    }
    Ok(())
}
