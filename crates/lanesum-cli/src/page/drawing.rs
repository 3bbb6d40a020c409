//! The tree as a picture: the host on the left, a row for each rank on the right, NVLinks as arcs beside them.

use std::fmt::Write;

use super::safe;
use super::tree::{Branch, Kind, Tree};

/// Two ranks and the NVLinks between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bonds {
    pub one: usize,
    pub other: usize,
    pub links: u8,
}

const ROW: f64 = 48.0;
const BOX: (f64, f64) = (150.0, 36.0);
/// Of what a rank has.
const WIDE: f64 = 256.0;
/// Between two columns, with room for a link's name.
const GAP: f64 = 68.0;
const EDGE: f64 = 12.0;
/// Letters that a box has room for.
const LETTERS: usize = 23;
const WIDE_LETTERS: usize = 40;
/// More arcs than these have no name each.
const NAMED_ARCS: usize = 6;

/// A picture that is drawn.
struct Drawing {
    svg: String,
    /// The column of ranks.
    last: usize,
    /// Rows that are taken.
    rows: usize,
}

/// The text of the picture.
pub fn svg(tree: &Tree, bonds: &[Bonds]) -> String {
    let last = depth(&tree.root);
    let mut drawing = Drawing {
        svg: String::new(),
        last,
        rows: 0,
    };
    drawing.branch(&tree.root, 0);
    let right = left_of(last) + WIDE;
    let used = drawing.bonds(tree, bonds, right);
    let (width, height) = (right + used + EDGE, EDGE * 2.0 + ROW * drawing.rows as f64);
    format!(
        "<svg class=\"tree\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         role=\"img\" aria-label=\"what the ranks are plugged into\">\n{}</svg>\n",
        drawing.svg
    )
}

/// The boxes between the root and the farthest rank, and one.
fn depth(branch: &Branch) -> usize {
    let below = branch.below.iter().map(depth).max();
    below.map_or(0, |below| below + 1)
}

fn left_of(column: usize) -> f64 {
    EDGE + (BOX.0 + GAP) * column as f64
}

fn middle_of(row: f64) -> f64 {
    EDGE + ROW * (row + 0.5)
}

/// As many letters of it as have room.
fn cut(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(letters.saturating_sub(1)).collect();
    format!("{}\u{2026}", kept.trim_end())
}

impl Drawing {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // A string takes all that is written to it.
        self.svg.write_fmt(line).unwrap_or_default();
        self.svg.push('\n');
    }

    /// All ranks are in the last column, whatever lies above them.
    fn column(&self, branch: &Branch, column: usize) -> usize {
        match branch.kind {
            Kind::Rank => self.last,
            Kind::Host | Kind::Node | Kind::Bridge | Kind::Switch | Kind::Untold => column,
        }
    }

    /// Draws it with all that is below, and returns the row of its middle.
    fn branch(&mut self, branch: &Branch, column: usize) -> f64 {
        let column = self.column(branch, column);
        let rows: Vec<f64> = branch
            .below
            .iter()
            .map(|below| self.branch(below, column + 1))
            .collect();
        let row = match (rows.first(), rows.last()) {
            (Some(first), Some(last)) => (first + last) / 2.0,
            (None, _) | (_, None) => {
                self.rows += 1;
                self.rows as f64 - 1.0
            }
        };
        for (below, at) in branch.below.iter().zip(rows) {
            self.edge(below, (column, row), at);
        }
        self.body(branch, column, row);
        row
    }

    fn edge(&mut self, below: &Branch, (column, row): (usize, f64), at: f64) {
        let to = self.column(below, column + 1);
        let (x0, x1) = (left_of(column) + BOX.0, left_of(to));
        let (y0, y1) = (middle_of(row), middle_of(at));
        let bend = x0 + 10.0;
        let shared = match below.kind {
            Kind::Switch if below.ranks() > 1 => " shared",
            Kind::Host | Kind::Node | Kind::Bridge | Kind::Switch | Kind::Untold | Kind::Rank => "",
        };
        self.line(format_args!(
            "<path class=\"edge{shared}\" d=\"M{x0:.1} {y0:.1}H{bend:.1}V{y1:.1}H{x1:.1}\"/>"
        ));
        if let Some(link) = below.link {
            let x = x1 - 4.0;
            self.line(format_args!(
                "<text class=\"link\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"end\">{link}</text>",
                y1 - 5.0
            ));
        }
    }

    fn body(&mut self, branch: &Branch, column: usize, row: f64) {
        let (class, wide) = match branch.kind {
            Kind::Host => ("host", false),
            Kind::Node => ("node", false),
            Kind::Bridge => ("bridge", false),
            Kind::Switch => ("switch", false),
            Kind::Untold => ("untold", false),
            Kind::Rank => ("rank", true),
        };
        let (width, letters) = if wide { (WIDE, WIDE_LETTERS) } else { (BOX.0, LETTERS) };
        let (x, y) = (left_of(column), middle_of(row));
        let (name, note) = (&branch.name, &branch.note);
        let title = if note.is_empty() {
            name.clone()
        } else {
            format!("{name}: {note}")
        };
        self.line(format_args!(
            "<g class=\"{class}\"><title>{}</title><rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width}\" height=\"{}\" rx=\"5\"/>",
            safe(&title),
            y - BOX.1 / 2.0,
            BOX.1
        ));
        let up = if note.is_empty() { 4.0 } else { -2.5 };
        self.line(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 9.0,
            y + up,
            safe(&cut(name, letters))
        ));
        if !note.is_empty() {
            self.line(format_args!(
                "<text class=\"note\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 9.0,
                y + 12.0,
                safe(&cut(note, letters + 4))
            ));
        }
        self.line(format_args!("</g>"));
    }

    /// Draws NVLinks on the right, and returns how much room they take.
    fn bonds(&mut self, tree: &Tree, bonds: &[Bonds], right: f64) -> f64 {
        let row = |rank: usize| tree.order.iter().position(|other| *other == rank).unwrap_or_default();
        if let Some(links) = mesh(bonds, tree.order.len()) {
            let (y0, y1) = (middle_of(0.0), middle_of(tree.order.len() as f64 - 1.0));
            let (x0, x1) = (right + 8.0, right + 20.0);
            self.line(format_args!(
                "<path class=\"nvlink\" d=\"M{x0:.1} {y0:.1}H{x1:.1}V{y1:.1}H{x0:.1}\"/>"
            ));
            self.line(format_args!(
                "<text class=\"link\" x=\"{:.1}\" y=\"{:.1}\">each to each: NV{links}</text>",
                x1 + 8.0,
                (y0 + y1) / 2.0 + 4.0
            ));
            return 150.0;
        }
        let mut used: f64 = 0.0;
        for (place, bond) in bonds.iter().enumerate() {
            let (one, other) = (row(bond.one), row(bond.other));
            let apart = one.abs_diff(other) as f64;
            let out = right
                + 14.0
                + 15.0 * apart
                + if bonds.len() > NAMED_ARCS {
                    0.0
                } else {
                    5.0 * place as f64
                };
            let (y0, y1) = (middle_of(one as f64), middle_of(other as f64));
            let thick = 1.0 + f64::from(bond.links.min(18)) / 6.0;
            self.line(format_args!(
                "<path class=\"nvlink\" stroke-width=\"{thick:.1}\" d=\"M{right:.1} {y0:.1}C{out:.1} {y0:.1} {out:.1} {y1:.1} {right:.1} {y1:.1}\"><title>ranks {} and {}: NV{}</title></path>",
                bond.one, bond.other, bond.links
            ));
            used = used.max(out - right);
            if bonds.len() <= NAMED_ARCS {
                let x = right + (out - right) * 0.75 + 4.0;
                self.line(format_args!(
                    "<text class=\"link\" x=\"{x:.1}\" y=\"{:.1}\">NV{}</text>",
                    (y0 + y1) / 2.0 + 4.0,
                    bond.links
                ));
                used = used.max(x - right + 36.0);
            }
        }
        used
    }
}

/// The NVLinks between any two, where more than two ranks are all joined alike.
fn mesh(bonds: &[Bonds], ranks: usize) -> Option<u8> {
    let links = bonds.first()?.links;
    let all = ranks > 2 && bonds.len() == ranks * (ranks - 1) / 2;
    (all && bonds.iter().all(|bond| bond.links == links)).then_some(links)
}

#[cfg(test)]
mod tests {
    use super::super::tree::Leaf;
    use super::*;

    fn tree(ranks: usize) -> Tree {
        let leaves: Vec<Leaf> = (0..ranks)
            .map(|rank| Leaf {
                name: format!("rank {rank}: <GPU> & more letters than a box has room for, whatever comes"),
                note: "a note".to_owned(),
                link: None,
                slot: None,
            })
            .collect();
        Tree::of(&leaves, None, "", &|_| None)
    }

    #[test]
    fn every_rank_has_a_row_and_text_is_safe() {
        for ranks in [1, 2, 16] {
            let svg = svg(&tree(ranks), &[]);
            assert_eq!(svg.matches("<g class=\"rank\">").count(), ranks);
            assert_eq!(svg.matches("<path ").count(), ranks);
            assert!(!svg.contains("<GPU>") && !svg.contains("NaN"), "{svg}");
        }
    }

    #[test]
    fn nvlinks_are_arcs_or_one_bracket() {
        let bonds = |pairs: &[(usize, usize)]| {
            let bond = |(one, other): &(usize, usize)| Bonds {
                one: *one,
                other: *other,
                links: 4,
            };
            pairs.iter().map(bond).collect::<Vec<_>>()
        };
        let arcs = svg(&tree(4), &bonds(&[(0, 1), (2, 3)]));
        assert_eq!(
            (arcs.matches("class=\"nvlink\"").count(), arcs.matches(">NV4<").count()),
            (2, 2)
        );
        let mesh = svg(&tree(3), &bonds(&[(0, 1), (0, 2), (1, 2)]));
        assert_eq!(mesh.matches("class=\"nvlink\"").count(), 1);
        assert!(mesh.contains("each to each: NV4"));
    }

    #[test]
    fn long_words_are_cut_by_letters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö\u{2026}");
    }
}
