//! `lanesum selftest` on this machine. The cases themselves are tested where they are written; here a small world will do.

use super::common::{json, run, stderr, stdout};

#[test]
fn everything_passes_and_the_last_line_says_so() {
    let output = run(&["selftest", "--ranks", "2"]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let text = stdout(&output);
    let last = text.lines().last().unwrap();
    let (passed, failed) = last.split_once(" passed, ").expect("is the summary");
    assert!(passed.parse::<u64>().unwrap() > 10, "{last}");
    assert_eq!(failed, "0 failed");
}

#[test]
fn json_has_the_numbers() {
    let output = run(&["selftest", "--ranks", "1", "--json"]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let report = json(&output);
    assert!(report["passed"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["failed"], 0);
    assert_eq!(report["ranks"], 1);
}

#[test]
fn a_case_can_be_run_alone() {
    let case = lanesum_conformance::cases_at(
        lanesum_conformance::Budget::Quick,
        &[lanesum_plan::WorldSize::new(2).unwrap()],
    )[0]
    .to_json()
    .unwrap();
    let output = run(&["selftest", "--case", &case]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(
        stdout(&output).contains("1 case at up to 2 ranks"),
        "{}",
        stdout(&output)
    );
    let output = run(&["selftest", "--case", "{}", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let told = json(&output);
    assert!(told["error"].is_string() && told["hint"].is_string(), "{told}");
}
