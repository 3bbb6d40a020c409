//! docs/environment.md, from the façade's lists of variables.

use lanesum::environment::{LOOKED_AT, VARIABLES, Variable};

const HEAD: &str = "\
# Environment variables

<!-- Written by `cargo xtask docs` from crates/lanesum/src/environment.rs: change it there. -->

Every variable that the library reads. A value is always parsed: none counts by being present.
";

const TABLE: &str = "
| variable | meaning | values |
|---|---|---|
";

const LOOKED_AT_HEAD: &str = "
## Looked at by `lanesum doctor`

The CUDA driver reads these by itself. The doctor says which GPUs ranks will see by them, and which entry is wrong; nothing else
depends on them.
";

pub fn render() -> String {
    [HEAD, &table(VARIABLES), LOOKED_AT_HEAD, &table(LOOKED_AT)].concat()
}

fn table(variables: &[Variable]) -> String {
    let mut text = TABLE.to_owned();
    for variable in variables {
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
        for variable in VARIABLES.iter().chain(LOOKED_AT) {
            assert!(text.contains(&format!("| `{}` |", variable.name)));
        }
    }

    #[test]
    fn a_cell_stays_one_cell() {
        assert_eq!(cell("a|b\nc"), "a\\|b c");
    }
}
