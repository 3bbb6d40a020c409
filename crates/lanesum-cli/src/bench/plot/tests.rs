//! What stands on a picture.

use super::*;

fn picture() -> Picture {
    let line = |name: &str, us: f64| Line {
        name: name.into(),
        form: Form::Course,
        points: [1 << 10, 43_008, 16 << 20]
            .map(|bytes| Dot {
                bytes,
                us: us * bytes as f64 / 1024.0,
                spread: Some((us, 2.0 * us)),
            })
            .into(),
    };
    let panel = |title: &str| Panel {
        title: title.into(),
        lines: vec![line("lanesum, private", 0.3), line("a <b> & c", 0.5)],
    };
    Picture {
        title: "all-reduce".into(),
        subtitle: "a CPU, 2026-11-30".into(),
        values: "us a call".into(),
        panels: vec![panel("near"), panel("far"), panel("one core")],
    }
}

#[test]
fn every_label_is_there_once_a_place() {
    let svg = picture().svg();
    for label in [
        "all-reduce",
        "a CPU, 2026-11-30",
        "near",
        "far",
        "one core",
        "lanesum, private",
        "a &lt;b&gt; &amp; c",
    ] {
        assert_eq!(svg.matches(&format!(">{label}</text>")).count(), 1, "{label}");
    }
    for label in ["us a call", "bytes a rank", "1 KiB", "42 KiB", "16 MiB", "1,000"] {
        assert_eq!(svg.matches(&format!(">{label}</text>")).count(), 3, "{label}");
    }
}

#[test]
fn nothing_leaves_the_picture() {
    let svg = picture().svg();
    let number = |word: &str| word.parse::<f64>().expect("is a number");
    let inside = |x: f64, y: f64| (0.0..=2.0 * WIDTH).contains(&x) && (0.0..=HEAD + 2.0 * HEIGHT).contains(&y);
    let circles = svg.lines().filter_map(|line| line.strip_prefix("<circle cx=\""));
    let mut count = 0;
    for circle in circles {
        let words: Vec<&str> = circle.split('"').collect();
        assert!(inside(number(words[0]), number(words[2])), "{circle}");
        count += 1;
    }
    assert_eq!(count, 18);
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn rings_mark_points_without_a_course() {
    let mut picture = picture();
    let mut rings = picture.panels[0].lines[0].clone();
    rings.name = "what is taken".into();
    rings.form = Form::Rings;
    picture.panels[0].lines.push(rings);
    let svg = picture.svg();
    // One for each of three points, and one in the legend.
    assert_eq!(svg.matches("r=\"6.5\"").count(), 4);
    assert_eq!(
        svg.matches("<path ").count(),
        self::picture().svg().matches("<path ").count()
    );
}

#[test]
fn a_picture_of_nothing_is_one_too() {
    let nothing = Picture {
        panels: vec![],
        ..picture()
    };
    let svg = nothing.svg();
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN"),
        "{svg}"
    );
}
