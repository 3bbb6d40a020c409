//! The page of `--report`: one file that holds all, to be sent to somebody and opened anywhere.
//!
//! | module | role |
//! |---|---|
//! | `tree` | what ranks are plugged into, from slots or from labels |
//! | `drawing` | the same as a picture |
//! | `pairs` | the ways between ranks' GPUs |
//! | `sizes` | what runs each length and why, as tables and as a chart |
//!
//! `lanesum plan` and `lanesum doctor` fill one [`Page`] each, and know nothing of HTML. Nothing is fetched from anywhere, and all
//! text that came from outside is escaped.

mod drawing;
mod pairs;
mod sizes;
mod tree;

use std::fmt::Write;

use crate::doctor::Gate;
use drawing::Bonds;
pub use pairs::{Pair, Reach};
pub use sizes::Size;
pub use tree::{Leaf, Tree};

const STYLE: &str = include_str!("style.css");

/// How the news is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    Remarks,
    Bad,
}

/// What stands on a page.
pub struct Page<'a> {
    /// Of the window.
    pub title: String,
    pub heading: String,
    pub tone: Tone,
    /// The news.
    pub sentence: String,
    /// What does not count, if nothing here does.
    pub warning: Option<&'static str>,
    /// Whence all of it is.
    pub origin: String,
    /// What to do, and what was odd.
    pub remarks: Vec<Note>,
    /// Names and values; without a name a value belongs to the one before.
    pub machine: Vec<(&'static str, String)>,
    /// More of it, as a terminal shows it.
    pub details: String,
    pub tree: Tree,
    /// What is to be said of the tree.
    pub ways: Vec<String>,
    /// Of ranks by GPUs; none where no GPU takes part.
    pub pairs: Vec<Pair>,
    pub ranks: usize,
    /// What the chart is of.
    pub chart: String,
    /// By length.
    pub sizes: Vec<Size<'a>>,
    /// What is to be said of the choice.
    pub choice: Vec<String>,
    pub gates: &'a [Gate],
    /// What was supposed, or could not be read.
    pub notes: Vec<(&'static str, Vec<Note>)>,
    /// Words and what they mean.
    pub glossary: Vec<(&'static str, &'static str)>,
}

/// Something that is said, and what to do about it.
pub struct Note {
    pub what: String,
    pub remedy: Option<String>,
}

impl Note {
    /// One that asks for nothing.
    pub fn of(what: &str) -> Note {
        Note {
            what: what.to_owned(),
            remedy: None,
        }
    }
}

/// What both pages explain.
pub const PATH_PEER: (&str, &str) = ("path peer", "GPUs write into each other's memory.");
pub const PATH_HOST: (&str, &str) = (
    "path host_staged",
    "GPUs exchange through pinned memory of the host, which needs no peer access.",
);
pub const ONE_SHOT: (&str, &str) = ("one shot", "Each rank sends all it has to all others, in one hop.");
pub const TWO_SHOTS: (&str, &str) = (
    "two shots",
    "Each rank sums one part and sends the result, in two hops and fewer bytes.",
);
pub const IN_CHUNKS: (&str, &str) = ("in chunks", "Raw bytes move instead of frames, both ways at once.");
pub const LABELS: (&str, &str) = (
    "labels of pairs",
    "Those of nvidia-smi topo -m: PIX one switch, PXB several, PHB the processor, NODE host bridges of one NUMA node, SYS several nodes, NV# that many NVLinks.",
);
pub const TREE: (&str, &str) = (
    "the tree",
    "A line has the generation and lanes of its link at most, where these are known. What is below a switch shares the thick line above it.",
);

/// The text of the page.
pub fn html(page: &Page) -> String {
    let mut html = String::new();
    // A string takes all that is written to it.
    page.write(&mut html).unwrap_or_default();
    html
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

impl Page<'_> {
    fn write(&self, html: &mut String) -> std::fmt::Result {
        let tone = match self.tone {
            Tone::Good => "good",
            Tone::Remarks => "remarks",
            Tone::Bad => "bad",
        };
        writeln!(
            html,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <meta name=\"color-scheme\" content=\"light dark\"><title>{}</title>\n<style>\n{STYLE}</style></head><body>\n<h1>{}</h1>",
            safe(&self.title),
            safe(&self.heading)
        )?;
        if let Some(warning) = self.warning {
            writeln!(html, "<p class=\"news bad\">{}</p>", safe(warning))?;
        }
        writeln!(
            html,
            "<p class=\"news {tone}\">{}</p>\n<p class=\"quiet\">{}</p>",
            safe(&self.sentence),
            safe(&self.origin)
        )?;
        write_notes(html, "Remarks", &self.remarks)?;
        self.write_machine(html)?;
        self.write_tree(html)?;
        pairs::write(html, self)?;
        sizes::write(html, self)?;
        self.write_gates(html)?;
        for (title, notes) in &self.notes {
            write_notes(html, title, notes)?;
        }
        writeln!(html, "<h2>How to read this</h2>\n<dl>")?;
        for (word, meaning) in &self.glossary {
            writeln!(html, "<dt>{}</dt><dd>{}</dd>", safe(word), safe(meaning))?;
        }
        writeln!(html, "</dl>\n</body></html>")
    }

    fn write_machine(&self, html: &mut String) -> std::fmt::Result {
        if self.machine.is_empty() {
            return Ok(());
        }
        writeln!(html, "<h2>The machine</h2>\n<div class=\"wide\"><table>")?;
        for (name, value) in &self.machine {
            writeln!(html, "<tr><th>{}</th><td>{}</td></tr>", safe(name), safe(value))?;
        }
        writeln!(html, "</table></div>")?;
        let details = self.details.trim_matches('\n');
        if !details.is_empty() {
            writeln!(html, "<div class=\"wide card\"><pre>{}</pre></div>", safe(details))?;
        }
        Ok(())
    }

    fn write_tree(&self, html: &mut String) -> std::fmt::Result {
        let bonds: Vec<Bonds> = self.pairs.iter().filter_map(pairs::bonds).collect();
        writeln!(
            html,
            "<h2>Where the ranks are</h2>\n<div class=\"wide card\">{}</div>",
            drawing::svg(&self.tree, &bonds)
        )?;
        for way in &self.ways {
            writeln!(html, "<p>{}</p>", safe(way))?;
        }
        Ok(())
    }

    fn write_gates(&self, html: &mut String) -> std::fmt::Result {
        if self.gates.is_empty() {
            return Ok(());
        }
        writeln!(
            html,
            "<h2>Gates</h2>\n<div class=\"wide\"><table>\n<tr><th>gate</th><th>answer</th><th>because</th><th>what to do</th></tr>"
        )?;
        for gate in self.gates {
            writeln!(
                html,
                "<tr><td>{}</td><td class=\"{}\">{}</td><td>{}</td><td>{}</td></tr>",
                gate.name,
                gate.verdict,
                gate.verdict,
                safe(&gate.reason),
                safe(gate.remedy.unwrap_or(""))
            )?;
        }
        writeln!(html, "</table></div>")
    }
}

fn write_notes(html: &mut String, title: &str, notes: &[Note]) -> std::fmt::Result {
    if notes.is_empty() {
        return Ok(());
    }
    writeln!(html, "<h2>{}</h2>\n<ul>", safe(title))?;
    for note in notes {
        write!(html, "<li>{}", safe(&note.what))?;
        if let Some(remedy) = &note.remedy {
            write!(html, "<br><span class=\"quiet\">{}</span>", safe(remedy))?;
        }
        writeln!(html, "</li>")?;
    }
    writeln!(html, "</ul>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page<'a>() -> Page<'a> {
        let leaves: Vec<Leaf> = ["<b>", "two"]
            .map(|name| Leaf {
                name: name.to_owned(),
                note: "\"a & b\"".to_owned(),
                link: None,
                slot: None,
            })
            .into();
        let pair = |from, to, peer| Pair {
            from,
            to,
            link: None,
            peer,
            host: Reach::Supposed,
        };
        Page {
            title: "<t>".to_owned(),
            heading: "<h>".to_owned(),
            tone: Tone::Bad,
            sentence: "<s>".to_owned(),
            warning: Some("<w>"),
            origin: "<o>".to_owned(),
            remarks: vec![Note {
                what: "<r>".to_owned(),
                remedy: Some("<m>".to_owned()),
            }],
            machine: vec![("cpu", "<c>".to_owned())],
            details: "<d>".to_owned(),
            tree: Tree::of(&leaves, None, "<host>", &|_| None),
            ways: vec!["<y>".to_owned()],
            pairs: vec![pair(0, 1, Reach::Not("<why>".to_owned())), pair(1, 0, Reach::Proven)],
            ranks: 2,
            chart: "<chart>".to_owned(),
            sizes: vec![],
            choice: vec!["<x>".to_owned()],
            gates: &[],
            notes: vec![("not known", vec![Note::of("<n>")])],
            glossary: vec![("word", "<g>")],
        }
    }

    #[test]
    fn what_comes_from_outside_is_text() {
        let html = html(&page());
        for word in [
            "t", "h", "s", "w", "o", "r", "m", "c", "d", "host", "y", "why", "x", "n", "g",
        ] {
            assert!(
                !html.contains(&format!("<{word}>")) || ["h", "s"].contains(&word),
                "{word}"
            );
            assert!(html.contains(&format!("&lt;{word}&gt;")), "{word}");
        }
        // <b> is an element of ours as well.
        assert!(
            html.contains("<title>&lt;b&gt;: &quot;a &amp; b&quot;</title>"),
            "{html}"
        );
    }

    #[test]
    fn pairs_say_who_reaches_whom() {
        let html = html(&page());
        assert!(html.contains("<td class=\"unknown refused\">? \u{2717}</td>"), "{html}");
        assert!(html.contains("<td class=\"unknown\">? \u{2713}</td>"), "{html}");
        assert!(html.contains("<b>no peer access</b>, 0 to 1: &lt;why&gt;"), "{html}");
    }

    #[test]
    fn nothing_is_fetched() {
        for word in ["http", "url(", "@import", "src=", "href="] {
            let html = html(&page()).replace("http://www.w3.org/2000/svg", "");
            assert!(!html.contains(word), "{word}");
        }
    }
}
