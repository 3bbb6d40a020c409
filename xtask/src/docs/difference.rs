//! What changed between two texts, shown as the lines between their common ends.

/// Lines only in `before` with `-`, lines only in `after` with `+`.
///
/// Equal lines between two changes are shown on both sides: for generated tables that is as clear
/// as a minimal difference, and needs no algorithm.
pub fn between(before: &str, after: &str) -> String {
    let before: Vec<&str> = before.lines().collect();
    let after: Vec<&str> = after.lines().collect();
    let head = common(before.iter(), after.iter());
    let tail = common(before[head..].iter().rev(), after[head..].iter().rev());
    let mut lines = vec![format!("@@ from line {}", head + 1)];
    let gone = &before[head..before.len() - tail];
    let new = &after[head..after.len() - tail];
    lines.extend(gone.iter().map(|line| format!("-{line}")));
    lines.extend(new.iter().map(|line| format!("+{line}")));
    lines.join("\n")
}

fn common<'a>(one: impl Iterator<Item = &'a &'a str>, other: impl Iterator<Item = &'a &'a str>) -> usize {
    one.zip(other).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_shown() {
        assert_eq!(between("a\nb\nc\nd", "a\nX\nc\nd"), "@@ from line 2\n-b\n+X");
        assert_eq!(between("", "a"), "@@ from line 1\n+a");
        assert_eq!(between("a\na", "a"), "@@ from line 2\n-a");
    }
}
