//! The picture of `--plot`: sizes against microseconds, both in powers, a line for each engine, a panel for what is not to be compared.
//!
//! SVG is text that every browser shows; what is drawn here are lines, ticks and words, so no crate is needed for it.

mod axis;

use std::fmt::Write;

use axis::Axis;

/// One engine in one panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name in the legend. Lines of one name look alike in all panels.
    pub name: String,
    /// How it is drawn.
    pub form: Form,
    /// What it is.
    pub points: Vec<Dot>,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Its points and the way from each to the next.
    Course,
    /// A ring around each point: it marks some of other lines, which stay visible.
    Rings,
}

/// One size of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    /// Bytes that each rank brings.
    pub bytes: u64,
    /// The middle, in microseconds.
    pub us: f64,
    /// From where to where it goes, where that is known.
    pub spread: Option<(f64, f64)>,
}

/// What may be compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// What they have in common.
    pub title: String,
    /// The engines.
    pub lines: Vec<Line>,
}

/// Everything on the picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// What it is of.
    pub title: String,
    /// Where and when it was measured.
    pub subtitle: String,
    /// What a value is.
    pub values: String,
    /// Its parts.
    pub panels: Vec<Panel>,
}

/// Eight that people with any eyes tell apart on white (Okabe and Ito, "Color Universal Design"), darker where white is near.
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d1f",
];
/// Where the colours come round, and beside them for who prints in black.
const DASHES: [&str; 3] = ["", "7 3", "2 3"];

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 440.0;
/// Around the axes of a panel.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 60.0;
const HEAD: f64 = 64.0;
const LEGEND_ROW: f64 = 20.0;
const LEGEND_COLUMN: f64 = 280.0;

impl Picture {
    /// The text of the file.
    pub fn svg(&self) -> String {
        let columns = self.panels.len().clamp(1, 2);
        let rows = self.panels.len().div_ceil(columns);
        let names = self.names();
        let width = WIDTH * columns as f64;
        let legend_columns = (width / LEGEND_COLUMN) as usize;
        let legend = LEGEND_ROW * names.len().div_ceil(legend_columns) as f64 + 16.0;
        let height = HEAD + HEIGHT * rows as f64 + legend;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
        );
        text(
            &mut svg,
            (20.0, 26.0),
            "font-size=\"17\" font-weight=\"bold\"",
            &self.title,
        );
        text(&mut svg, (20.0, 46.0), "fill=\"#555\"", &self.subtitle);
        let all = || {
            self.panels
                .iter()
                .flat_map(|panel| &panel.lines)
                .flat_map(|line| &line.points)
        };
        let sizes = Axis::of_sizes(all().map(|dot| dot.bytes));
        let times =
            Axis::of_times(all().flat_map(|dot| [Some(dot.us), dot.spread.map(|s| s.0), dot.spread.map(|s| s.1)]));
        for (index, panel) in self.panels.iter().enumerate() {
            let place = (
                WIDTH * (index % columns) as f64,
                HEAD + HEIGHT * (index / columns) as f64,
            );
            self.panel(&mut svg, place, panel, (&sizes, &times), &names);
        }
        for (index, (name, form)) in names.iter().enumerate() {
            let x = 20.0 + LEGEND_COLUMN * (index % legend_columns) as f64;
            let y = HEAD + HEIGHT * rows as f64 + LEGEND_ROW * (index / legend_columns) as f64 + 8.0;
            match form {
                Form::Course => path(&mut svg, &format!("M{x:.1} {y:.1}H{:.1}", x + 30.0), &look(index)),
                Form::Rings => ring(&mut svg, (x + 15.0, y)),
            }
            text(&mut svg, (x + 38.0, y + 4.0), "", name);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Every name once, in the order in which it is met.
    fn names(&self) -> Vec<(&str, Form)> {
        let mut names: Vec<(&str, Form)> = Vec::new();
        for line in self.panels.iter().flat_map(|panel| &panel.lines) {
            if names.iter().all(|(name, _)| *name != line.name) {
                names.push((&line.name, line.form));
            }
        }
        names
    }

    fn panel(
        &self,
        svg: &mut String,
        (left, top): (f64, f64),
        panel: &Panel,
        (sizes, times): (&Axis, &Axis),
        names: &[(&str, Form)],
    ) {
        let (x0, x1) = (left + LEFT, left + WIDTH - RIGHT);
        let (y0, y1) = (top + HEIGHT - BOTTOM, top + TOP);
        let x = |bytes: f64| x0 + (x1 - x0) * sizes.share(bytes);
        let y = |us: f64| y0 + (y1 - y0) * times.share(us);
        text(
            svg,
            (x0, top + 26.0),
            "font-size=\"14\" font-weight=\"bold\"",
            &panel.title,
        );
        for (bytes, label) in &sizes.ticks {
            path(svg, &format!("M{:.1} {y0:.1}V{y1:.1}", x(*bytes)), GRID);
            text(svg, (x(*bytes), y0 + 18.0), "text-anchor=\"middle\"", label);
        }
        for (us, label) in &times.ticks {
            path(svg, &format!("M{x0:.1} {:.1}H{x1:.1}", y(*us)), GRID);
            text(svg, (x0 - 8.0, y(*us) + 4.0), "text-anchor=\"end\"", label);
        }
        path(
            svg,
            &format!("M{x0:.1} {y1:.1}V{y0:.1}H{x1:.1}"),
            "stroke=\"#444\" fill=\"none\"",
        );
        let middle = (x0 + x1) / 2.0;
        text(svg, (middle, y0 + 40.0), "text-anchor=\"middle\"", "bytes a rank");
        let (along, up) = (left + 18.0, (y0 + y1) / 2.0);
        let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 {along:.1} {up:.1})\"");
        text(svg, (along, up), &turned, &self.values);
        for line in &panel.lines {
            match line.form {
                Form::Course => {}
                Form::Rings => {
                    let rings = line.points.iter().map(|dot| (x(dot.bytes as f64), y(dot.us)));
                    rings.for_each(|place| ring(svg, place));
                    continue;
                }
            }
            let place = names.iter().position(|(name, _)| *name == line.name);
            let look = look(place.unwrap_or_default());
            let mut points = line.points.clone();
            points.sort_by_key(|dot| dot.bytes);
            let mut course = String::new();
            for (index, dot) in points.iter().enumerate() {
                let (x, y_dot) = (x(dot.bytes as f64), y(dot.us));
                write!(course, "{}{x:.1} {y_dot:.1}", if index == 0 { 'M' } else { 'L' }).unwrap_or_default();
                writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y_dot:.1}\" r=\"3\" {}/>",
                    look.replace("stroke=", "fill=").replace(" fill=\"none\"", "")
                )
                .unwrap_or_default();
                if let Some((low, high)) = dot.spread {
                    let bar = format!("M{x:.1} {:.1}V{:.1}", y(low), y(high));
                    path(svg, &bar, &look.replace("stroke-width=\"2\"", "stroke-width=\"1\""));
                }
            }
            path(svg, &course, &look);
        }
    }
}

const GRID: &str = "stroke=\"#ddd\" fill=\"none\"";

fn look(index: usize) -> String {
    let colour = COLOURS[index % COLOURS.len()];
    let dash = match DASHES[(index / COLOURS.len()) % DASHES.len()] {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    };
    format!("stroke=\"{colour}\" stroke-width=\"2\" fill=\"none\"{dash}")
}

fn ring(svg: &mut String, (x, y): (f64, f64)) {
    writeln!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6.5\" stroke=\"#222\" stroke-width=\"1.5\" fill=\"none\"/>"
    )
    .unwrap_or_default();
}

fn path(svg: &mut String, course: &str, look: &str) {
    writeln!(svg, "<path d=\"{course}\" {look}/>").unwrap_or_default();
}

fn text(svg: &mut String, (x, y): (f64, f64), look: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {look}>{words}</text>").unwrap_or_default();
}

#[cfg(test)]
mod tests;
