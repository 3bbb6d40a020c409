//! docs/environment.md, from the façade's one list of variables.

use lanesum::environment::VARIABLES;

const HEAD: &str = "\
# Environment variables

<!-- Written by `cargo xtask docs` from crates/lanesum/src/environment.rs: change it there. -->

Every variable that lanesum reads. A value is always parsed: none counts by being present.

| variable | meaning | values |
|---|---|---|
";

pub fn render() -> String {
    let mut text = HEAD.to_owned();
    for variable in VARIABLES {
        text.push_str(&format!(
            "| `{}` | {} | {} |\n",
            variable.name,
            cell(variable.meaning),
            cell(variable.values)
        ));
    }
    text
}

/// Text inside a table: one line, no bare column mark.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_has_a_row() {
        let text = render();
        for variable in VARIABLES {
            assert!(text.contains(&format!("| `{}` |", variable.name)));
        }
    }

    #[test]
    fn a_cell_stays_one_cell() {
        assert_eq!(cell("a|b\nc"), "a\\|b c");
    }
}
