//! Whether every entry awaits the kernel before it: what makes it safe to launch one while another of its stream still runs.
//!
//! An entry that touched memory first would read and write beside a kernel that it has to follow, and only now and then, on a GPU,
//! would that show. So it is read from the PTX: in each entry, on the way that all threads take, `griddepcontrol.wait` comes before
//! anything that reaches memory, and `griddepcontrol.launch_dependents` next; after them neither stands again.

use super::units::Architecture;

const WAIT: &str = "griddepcontrol.wait";
const LET_GO: &str = "griddepcontrol.launch_dependents";

/// How far an entry has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Start,
    Waited,
    LetGo,
}

/// What is wrong with a PTX text, one line each.
pub fn problems(ptx: &str, architecture: Architecture) -> Vec<String> {
    let mut problems = Vec::new();
    // The function or entry that the line is in, and how far it has come, if it is an entry.
    let (mut name, mut stage) = (String::new(), None);
    for line in ptx.lines() {
        let code = line.split("//").next().unwrap_or_default();
        if let Some((_, rest)) = code.split_once(".entry ") {
            name = rest.trim_end_matches(['(', ' ']).to_owned();
            stage = architecture.awaits().then_some(Stage::Start);
        } else if code.starts_with(".func") {
            (name, stage) = (code.trim_end().to_owned(), None);
        }
        // Parameters and declarations are no instructions.
        for instruction in code.split(';').map(str::trim).filter(|code| !code.starts_with('.')) {
            let (next, problem) = judged(instruction, stage);
            stage = next;
            problems.extend(problem.map(|problem| format!("{name}: {problem}")));
        }
        if line == "}" {
            match stage.take() {
                Some(Stage::Start) => problems.push(format!("{name}: no {WAIT}")),
                Some(Stage::Waited) => problems.push(format!("{name}: no {LET_GO}")),
                Some(Stage::LetGo) | None => {}
            }
        }
    }
    problems
}

/// How far the function is after an instruction, and what is wrong with that one. One mistake ends the judgement of an entry.
fn judged(instruction: &str, stage: Option<Stage>) -> (Option<Stage>, Option<String>) {
    if instruction.contains("griddepcontrol") {
        return match (stage, instruction) {
            (Some(Stage::Start), WAIT) => (Some(Stage::Waited), None),
            (Some(Stage::Waited), LET_GO) => (Some(Stage::LetGo), None),
            _ => (None, Some(format!("`{instruction}` has no place there"))),
        };
    }
    match stage {
        Some(Stage::Start | Stage::Waited) if is_early(instruction) => {
            (None, Some(format!("`{instruction}` comes before {WAIT} and {LET_GO}")))
        }
        _ => (stage, None),
    }
}

/// Whether an instruction must not come before the wait: it reaches memory, or leaves the way that all threads take.
fn is_early(instruction: &str) -> bool {
    // Also labels: who jumps there has not come along.
    if instruction.starts_with('@') || instruction.ends_with(':') {
        return true;
    }
    let mut parts = instruction
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .split(['.', ':']);
    match parts.next().unwrap_or_default() {
        "ld" | "st" | "atom" | "red" => !parts.any(|part| matches!(part, "param" | "shared" | "local" | "const")),
        "bra" | "brx" | "call" | "ret" | "exit" | "trap" => true,
        "ldu" | "fence" | "membar" | "cp" | "prefetch" | "prefetchu" | "discard" | "applypriority" | "multimem"
        | "tex" | "tld4" | "suld" | "sust" | "sured" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As NVRTC writes it.
    const HEAD: &str = "\
.target sm_90
.func _Z5sweepi(
\t.param .b32 _Z5sweepi_param_0
)
{
\tst.global.u32 \t[%rd1], %r1;
\tret;

}
\t// .globl\ta_w2
.visible .entry a_w2(
\t.param .align 16 .b8 a_w2_param_0[368]
)
.maxntid 768, 1, 1
.minnctapersm 1
{
\t.reg .b64 \t%rd<3>;


\tmov.b64 \t%rd2, a_w2_param_0;
\tld.param.u64 \t%rd1, [a_w2_param_0+16];
\tst.shared.u64 \t[shared], %rd1;
";
    const GOOD: &str = "\
\t// begin inline asm
\tgriddepcontrol.wait;
\t// end inline asm
\t// begin inline asm
\tgriddepcontrol.launch_dependents;
\t// end inline asm
";
    const TAIL: &str = "\
\tld.global.u64 \t%rd2, [%rd1];
$L__BB0_1:
\t@%p1 bra \t$L__BB0_1;
\t{ // callseq 0, 0
\tcall.uni
\t_Z5sweepi,
\t(
\tparam0
\t);
\t} // callseq 0
\tret;

}
";

    fn judge(parts: &[&str]) -> Vec<String> {
        problems(&parts.concat(), Architecture::Compute90)
    }

    #[test]
    fn an_entry_that_waits_first_is_well() {
        assert_eq!(judge(&[HEAD, GOOD, TAIL]), Vec::<String>::new());
        let two = [HEAD, GOOD, TAIL].concat().replace("a_w2", "b_w2");
        assert_eq!(judge(&[HEAD, GOOD, TAIL, &two]), Vec::<String>::new());
    }

    #[test]
    fn what_comes_before_the_wait_is_named() {
        let early = [
            "ld.global.u64 \t%rd2, [%rd1]",
            "ld.u64 \t%rd2, [%rd1]",
            "ld.relaxed.sys.global.v2.u64 {%rd3, %rd4}, [%rd1]",
            "st.global.u32 \t[%rd1], %r1",
            "atom.relaxed.gpu.global.or.b64 %rd1, [%rd2], %rd3",
            "red.relaxed.gpu.global.add.u64 [%rd1], %rd2",
            "fence.acq_rel.sys",
            "call.uni",
            "bra.uni \t$L__BB0_2",
            "@%p1 bra \t$L__BB0_2",
            "@%p1 griddepcontrol.wait",
            "ret",
        ];
        for instruction in early {
            let line = format!("\t{instruction};\n");
            let found = judge(&[HEAD, &line, GOOD, TAIL]);
            assert!(found[0].starts_with(&format!("a_w2: `{instruction}`")), "{found:?}");
            let between = GOOD.replace("\t// end inline asm\n\t// begin inline asm\n", &line);
            assert!(!judge(&[HEAD, &between, TAIL]).is_empty(), "{instruction}");
        }
        assert!(!judge(&[HEAD, "$L__BB0_0:\n", GOOD, TAIL]).is_empty());
    }

    #[test]
    fn what_is_missing_or_stands_elsewhere_is_named() {
        let quiet = "\tret;\n\n}\n";
        assert_eq!(
            judge(&[HEAD, &GOOD.replace("launch_dependents", "wait"), quiet]).len(),
            1
        );
        assert_eq!(judge(&[HEAD, "\n}\n"]), ["a_w2: no griddepcontrol.wait"]);
        let (wait, _) = GOOD.split_once("\t// end").expect("its end");
        assert_eq!(
            judge(&[HEAD, wait, "\n}\n"]),
            ["a_w2: no griddepcontrol.launch_dependents"]
        );
        assert_eq!(judge(&[HEAD, GOOD, GOOD, TAIL]).len(), 2);
        let of_function = HEAD.replace("\tret;", "\tgriddepcontrol.wait;\n\tret;");
        assert_eq!(judge(&[&of_function, GOOD, TAIL]).len(), 1);
    }

    #[test]
    fn older_gpus_have_none() {
        let judge = |text: &str| problems(text, Architecture::Compute70);
        assert_eq!(judge(&[HEAD, TAIL].concat()), Vec::<String>::new());
        assert_eq!(judge(&[HEAD, GOOD, TAIL].concat()).len(), 2);
    }
}
