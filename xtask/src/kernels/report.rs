//! What the assembler says of its work: registers, spills, warnings.
//!
//! A kernel that spills much is slow without telling; one with too many registers for its largest block cannot be launched at
//! all. So both fail here, on a machine without a GPU.

use std::collections::BTreeMap;

/// Registers of a multiprocessor, the same on every GPU that is supported.
const REGISTERS: u32 = 65_536;

/// Registers are given to a thread in groups of this many.
const GROUP: u32 = 8;

/// Bytes that a function may spill: kernels of few ranks share their 80 registers with functions that run when something fails, and
/// a few words that only those need cost the others nothing.
const SPILT_MOST: u32 = 128;

/// The report on one image.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Registers of a thread, by entry; 0 where the report did not say.
    pub entries: BTreeMap<String, u32>,
    pub spills: Vec<Spill>,
    pub warnings: Vec<String>,
    /// Functions of which the report tells what they spill.
    pub told: usize,
}

/// A function that does not keep its values in registers.
#[derive(Debug, PartialEq, Eq)]
pub struct Spill {
    pub entry: String,
    pub function: String,
    pub stores: u32,
    pub loads: u32,
}

impl Report {
    /// Reads the lines that `ptxas -v` prints.
    pub fn read<'a>(lines: impl Iterator<Item = &'a str>) -> Report {
        let mut report = Report::default();
        let (mut entry, mut function) = (String::new(), String::new());
        for line in lines.map(str::trim) {
            let said = line.strip_prefix("ptxas info").and_then(|rest| rest.split_once(": "));
            let said = said.map_or(line, |(_, said)| said);
            if let Some(rest) = said.strip_prefix("Compiling entry function '") {
                entry = rest.split('\'').next().unwrap_or_default().to_owned();
                report.entries.insert(entry.clone(), 0);
            } else if let Some(name) = said.strip_prefix("Function properties for ") {
                function = name.to_owned();
            } else if let Some(registers) = number_before(said, " registers") {
                report.entries.insert(entry.clone(), registers);
            } else if let Some(stores) = number_before(said, " bytes spill stores") {
                report.told += 1;
                let loads = number_before(said, " bytes spill loads").unwrap_or(u32::MAX);
                if stores > SPILT_MOST || loads > SPILT_MOST {
                    report.spills.push(Spill {
                        entry: entry.clone(),
                        function: function.clone(),
                        stores,
                        loads,
                    });
                }
            } else if line.contains("warning") || line.contains("error") {
                report.warnings.push(line.to_owned());
            }
        }
        report
    }

    /// The most registers of any entry.
    pub fn most_registers(&self) -> u32 {
        self.entries.values().copied().max().unwrap_or(0)
    }

    /// What must not be, one line each, for blocks of so many threads of each entry.
    pub fn problems(&self, threads: impl Fn(&str) -> u32) -> Vec<String> {
        let mut problems = self.warnings.clone();
        for (entry, &registers) in &self.entries {
            let threads = threads(entry);
            let needed = registers.next_multiple_of(GROUP).saturating_mul(threads);
            if registers == 0 {
                problems.push(format!("{entry}: the assembler told no registers"));
            } else if needed > REGISTERS {
                problems.push(format!(
                    "{entry}: {registers} registers x {threads} threads: more than the {REGISTERS} of a multiprocessor"
                ));
            }
        }
        for Spill {
            entry,
            function,
            stores,
            loads,
        } in &self.spills
        {
            problems.push(format!(
                "{entry}: {function} spills: {stores} bytes stored, {loads} bytes loaded"
            ));
        }
        if self.told < self.entries.len() {
            problems.push(format!("spills are told of only {} functions", self.told));
        }
        problems
    }
}

/// The number that stands before `unit`.
fn number_before(text: &str, unit: &str) -> Option<u32> {
    let (before, _) = text.split_once(unit)?;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As ptxas of CUDA 13 prints it.
    const SAMPLE: &str = "\
ptxas info    : 24 bytes gmem
ptxas info    : Compiling entry function 'lanesum_farewell' for 'sm_90'
ptxas info    : Function properties for lanesum_farewell
    160 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 48 registers, used 0 barriers, 160 bytes cumulative stack size
ptxas info    : Compile time = 8.478 ms
ptxas info    : Compiling entry function 'one_shot_push_w8_bf16_min' for 'sm_90'
ptxas info    : Function properties for one_shot_push_w8_bf16_min
    192 bytes stack frame, 132 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 130 registers, used 1 barriers, 192 bytes cumulative stack size
ptxas info    : Function properties for _Z4failILi8EEbRK6LaunchRK7Troubleyj
    0 bytes stack frame, 0 bytes spill stores, 132 bytes spill loads
ptxas info    : Function properties for _Z4meetILi8EEjRK6Launchyj
    0 bytes stack frame, 128 bytes spill stores, 128 bytes spill loads
";

    fn read(text: &str) -> Report {
        Report::read(text.lines())
    }

    #[test]
    fn registers_are_read_by_entry() {
        let report = read(SAMPLE);
        assert_eq!(report.entries["lanesum_farewell"], 48);
        assert_eq!(report.entries["one_shot_push_w8_bf16_min"], 130);
        assert_eq!(report.most_registers(), 130);
        assert_eq!((report.told, report.warnings.len()), (4, 0));
    }

    #[test]
    fn spills_name_the_kernel_and_the_function() {
        let problems = read(SAMPLE).problems(|_| 256).join("\n");
        assert!(problems.contains("one_shot_push_w8_bf16_min: one_shot_push_w8_bf16_min spills: 132 bytes stored, 16"));
        assert!(problems.contains("one_shot_push_w8_bf16_min: _Z4failILi8EEbRK6LaunchRK7Troubleyj spills: 0 bytes"));
        // A few words are nothing.
        assert!(
            !problems.contains("farewell") && !problems.contains("meet"),
            "{problems}"
        );
    }

    #[test]
    fn registers_are_counted_as_they_are_given_out() {
        let report = |registers: u32| {
            let head = SAMPLE.lines().take(4).collect::<Vec<_>>().join("\n");
            read(&format!("{head}\nptxas info    : Used {registers} registers"))
        };
        assert_eq!(report(128).problems(|_| 512), Vec::<String>::new());
        assert_eq!(report(121).problems(|_| 512), Vec::<String>::new());
        assert_eq!(report(129).problems(|_| 512).len(), 1);
        assert_eq!(report(248).problems(|_| 256), Vec::<String>::new());
    }

    #[test]
    fn a_report_that_leaves_something_out_is_a_problem() {
        let without = |word: &str| {
            let lines = SAMPLE.lines().take(5).filter(|line| !line.contains(word));
            Report::read(lines).problems(|_| 512)
        };
        assert_eq!(without("nothing"), Vec::<String>::new());
        assert_eq!(without("registers").len(), 1);
        assert_eq!(without("spill").len(), 1);
    }

    #[test]
    fn a_warning_is_a_problem() {
        let problems = read("ptxas warning : Unresolved extern variable 'x'").problems(|_| 512);
        assert_eq!(problems, ["ptxas warning : Unresolved extern variable 'x'"]);
    }
}
