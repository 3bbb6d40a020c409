//! What runs each length, and why: ranges of lengths that run the same, every length in a table, and a chart.

use std::fmt::Write;

use lanesum_plan::{Bytes, Path};

use super::{Page, safe};
use crate::bench::plot::{Dot, Form, Line, Panel, Picture};
use crate::doctor::{Alternative, counted};
use crate::progress::grouped;

/// What one length runs.
pub struct Size<'a> {
    pub bytes: u64,
    pub path: Path,
    /// None where all are refused.
    pub algorithm: Option<&'a str>,
    pub chunks: bool,
    pub predicted_us: Option<f64>,
    /// Where it was timed.
    pub measured_us: Option<f64>,
    /// Whether such a sum came out right, where some were made.
    pub checked: Option<bool>,
    /// Those that are not taken.
    pub others: &'a [Alternative],
    /// Whether this length was asked for.
    pub asked: bool,
}

impl Size<'_> {
    fn what(&self) -> String {
        let algorithm = self.algorithm.unwrap_or("refused");
        let chunks = if self.chunks { ", in chunks" } else { "" };
        format!("{algorithm}{chunks}")
    }

    /// Those of lanesum's own that could run it; all of them, where none does.
    fn rivals(&self) -> impl Iterator<Item = &Alternative> {
        let could = |other: &&Alternative| other.built && (other.predicted_us.is_some() || self.algorithm.is_none());
        self.others.iter().filter(could)
    }

    fn predicted(&self, name: &str) -> Option<f64> {
        if self.algorithm == Some(name) {
            return self.predicted_us;
        }
        let other = self.others.iter().find(|other| other.algorithm == name);
        other.and_then(|other| other.predicted_us)
    }

    fn runs_like(&self, other: &Size) -> bool {
        (self.path, self.algorithm, self.chunks) == (other.path, other.algorithm, other.chunks)
    }
}

/// The section of the page.
pub fn write(html: &mut String, page: &Page) -> std::fmt::Result {
    if page.sizes.is_empty() && page.choice.is_empty() {
        return Ok(());
    }
    writeln!(html, "<h2>What runs, and why</h2>")?;
    write_classes(html, &page.sizes)?;
    write_choice(html, page)?;
    if page.sizes.is_empty() {
        return Ok(());
    }
    let lines = lines(&page.sizes);
    if !lines.is_empty() {
        let picture = Picture {
            title: format!("All-reduce over {}", counted(page.ranks, "rank", "ranks")),
            subtitle: page.chart.clone(),
            values: "us a call".to_owned(),
            panels: vec![Panel {
                title: "one call, by length".to_owned(),
                lines,
            }],
        };
        writeln!(html, "<div class=\"wide card chart\">{}</div>", picture.svg())?;
    }
    write_table(html, &page.sizes)
}

/// Lengths next to each other that run the same are one row.
fn write_classes(html: &mut String, sizes: &[Size]) -> std::fmt::Result {
    if sizes.is_empty() {
        return Ok(());
    }
    writeln!(
        html,
        "<div class=\"wide\"><table>\n<tr><th>a rank brings</th><th>path</th><th>runs</th><th>predicted</th><th>because the others</th></tr>"
    )?;
    for class in sizes.chunk_by(Size::runs_like) {
        let (Some(first), Some(last)) = (class.first(), class.last()) else {
            continue;
        };
        let range = if first.bytes == last.bytes {
            Bytes::new(first.bytes).to_string()
        } else {
            format!("{} to {}", Bytes::new(first.bytes), Bytes::new(last.bytes))
        };
        let times = match (first.predicted_us, last.predicted_us) {
            (Some(least), Some(most)) if first.bytes != last.bytes => format!("{least:.1} to {most:.1} us"),
            (Some(us), _) => format!("{us:.1} us"),
            (None, _) => "-".to_owned(),
        };
        writeln!(
            html,
            "<tr><td class=\"tight\">{range}</td><td>{}</td><td>{}</td><td class=\"tight\">{times}</td><td>{}</td></tr>",
            first.path,
            first.what(),
            reasons(first, last)
        )?;
    }
    writeln!(html, "</table></div>")
}

/// Why not the others, at both ends of a range.
fn reasons(first: &Size, last: &Size) -> String {
    let of = |size: &Size, place: &str| {
        let reason = |other: &Alternative| format!("{place}{}: {}", safe(&other.algorithm), safe(&other.refused));
        size.rivals().map(reason).collect::<Vec<_>>()
    };
    let (one, other) = (of(first, ""), of(last, ""));
    let all = if one == other {
        one
    } else {
        let at = |size: &Size| of(size, &format!("at {}, ", Bytes::new(size.bytes)));
        [at(first), at(last)].concat()
    };
    if all.is_empty() {
        return "cannot run here".to_owned();
    }
    all.join("<br>")
}

/// What is said of the choice, and those that can run no length.
fn write_choice(html: &mut String, page: &Page) -> std::fmt::Result {
    // Those that a length could have run stand in its row.
    let told = |other: &&Alternative| {
        other.built
            && page
                .sizes
                .iter()
                .any(|size| size.algorithm.is_none() || size.predicted(&other.algorithm).is_some())
    };
    let size = page.sizes.iter().find(|size| size.asked).or(page.sizes.first());
    let others = size.map(|size| size.others).unwrap_or_default().iter();
    let others: Vec<&Alternative> = others.filter(|other| !told(other)).collect();
    if page.choice.is_empty() && others.is_empty() {
        return Ok(());
    }
    writeln!(html, "<ul>")?;
    for line in &page.choice {
        writeln!(html, "<li>{}</li>", safe(line))?;
    }
    for other in others {
        writeln!(
            html,
            "<li>not {}: {}</li>",
            safe(&other.algorithm),
            safe(&other.refused)
        )?;
    }
    writeln!(html, "</ul>")
}

fn write_table(html: &mut String, sizes: &[Size]) -> std::fmt::Result {
    let measured = sizes.iter().any(|size| size.measured_us.is_some());
    let checked = sizes.iter().any(|size| size.checked.is_some());
    let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.2}"));
    let heads = [
        ("bytes a rank", true),
        ("path", true),
        ("runs", true),
        ("predicted us", true),
        ("measured us", measured),
        ("came out right", checked),
        ("next best, us more", true),
    ];
    writeln!(
        html,
        "<details><summary>Every length</summary><div class=\"wide\"><table class=\"lengths\">\n<tr>"
    )?;
    for (head, _) in heads.iter().filter(|(_, shown)| *shown) {
        write!(html, "<th>{head}</th>")?;
    }
    writeln!(html, "</tr>")?;
    for size in sizes {
        let next = size
            .rivals()
            .filter_map(|other| Some((other.algorithm.as_str(), other.predicted_us?)))
            .min_by(|one, other| one.1.total_cmp(&other.1));
        let next = next.map_or_else(String::new, |(name, next_us)| {
            let more = size.predicted_us.map(|us| next_us - us);
            format!("{name}, {}", us(more))
        });
        let cells = [
            (grouped(size.bytes), true),
            (size.path.to_string(), true),
            (size.what(), true),
            (us(size.predicted_us), true),
            (us(size.measured_us), measured),
            (
                size.checked
                    .map_or("-", |right| if right { "yes" } else { "not tried" })
                    .to_owned(),
                checked,
            ),
            (next, true),
        ];
        let row = if size.asked { "<tr class=\"asked\">" } else { "<tr>" };
        let cells = cells.into_iter().filter(|(_, shown)| *shown);
        let cells: String = cells.map(|(cell, _)| format!("<td>{cell}</td>")).collect();
        writeln!(html, "{row}{cells}</tr>")?;
    }
    writeln!(html, "</table></div></details>")
}

/// Each algorithm over all lengths, what was measured, and rings around what runs.
fn lines(sizes: &[Size]) -> Vec<Line> {
    let line = |name: &str, form, of: &dyn Fn(&Size) -> Option<f64>| {
        let dot = |size: &Size| {
            Some(Dot {
                bytes: size.bytes,
                us: of(size)?,
                spread: None,
            })
        };
        Line {
            name: name.to_owned(),
            form,
            points: sizes.iter().filter_map(dot).collect(),
        }
    };
    let mut names: Vec<&str> = Vec::new();
    for size in sizes {
        let rivals = size.rivals().map(|other| other.algorithm.as_str());
        for name in size.algorithm.into_iter().chain(rivals) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let mut lines: Vec<Line> = names
        .into_iter()
        .map(|name| line(name, Form::Course, &|size| size.predicted(name)))
        .collect();
    lines.push(line("measured", Form::Course, &|size| size.measured_us));
    lines.push(line("what runs", Form::Rings, &|size| size.predicted_us));
    lines.retain(|line| !line.points.is_empty());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<'a>(bytes: u64, algorithm: &'a str, others: &'a [Alternative]) -> Size<'a> {
        Size {
            bytes,
            path: Path::Peer,
            algorithm: Some(algorithm),
            chunks: false,
            predicted_us: Some(2.0),
            measured_us: None,
            checked: None,
            others,
            asked: false,
        }
    }

    fn other(algorithm: &str, predicted_us: Option<f64>) -> Alternative {
        Alternative {
            algorithm: algorithm.to_owned(),
            path: Path::Peer,
            predicted_us,
            built: true,
            refused: "it is <slower>".to_owned(),
        }
    }

    #[test]
    fn lengths_that_run_the_same_are_one_row() {
        let [alone, one_shot, two_shot] = ["alone", "one_shot_push", "two_shot_push"];
        let one = [other(two_shot, Some(3.0)), other(alone, None)];
        let two = [other(one_shot, Some(3.0))];
        let sizes = [
            size(1024, one_shot, &two),
            size(2048, one_shot, &one),
            size(4096, two_shot, &two),
        ];
        let mut html = String::new();
        write_classes(&mut html, &sizes).expect("a string");
        assert_eq!(html.matches("<tr><td").count(), 2, "{html}");
        assert!(
            html.contains("1 KiB to 2 KiB") && html.contains("at 2 KiB, two_shot_push: it is &lt;slower&gt;"),
            "{html}"
        );
        assert!(html.contains(">4 KiB<") && !html.contains("alone"), "{html}");
    }
}
