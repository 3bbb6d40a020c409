//! `lanesum launch` with real programs: output, endings, signals.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::common::{all_die, await_ranks, finish, lanesum, lives, run, signal, start, stderr, stdout};
use rustix::process::Signal;

fn shell<'a>(ranks: &'a str, script: &'a str) -> Vec<&'a str> {
    vec!["launch", "-n", ranks, "--", "sh", "-c", script]
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn each_rank_knows_who_it_is() {
    let output = run(&shell("3", "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE"));
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(sorted(&stdout(&output)), ["[0] 0 3 0 3", "[1] 1 3 1 3", "[2] 2 3 2 3"]);
}

#[test]
fn ranks_of_a_job_share_a_rendezvous_that_other_jobs_do_not() {
    let script = "echo $LANESUM_RENDEZVOUS";
    let (one, other) = (run(&shell("2", script)), run(&shell("2", script)));
    let name = |text: String| {
        let names: Vec<String> = text.lines().map(|line| line[4..].to_owned()).collect();
        assert_eq!(names[0], names[1]);
        assert!(!names[0].is_empty());
        names[0].clone()
    };
    assert_ne!(name(stdout(&one)), name(stdout(&other)));
}

#[test]
fn ranks_and_sizes_of_other_launchers_are_not_handed_on() {
    let script = "echo \"$OMPI_COMM_WORLD_RANK-$PMI_SIZE-$RANK-$SLURM_JOB_ID\"";
    let mut command = lanesum(&shell("1", script));
    command
        .env("OMPI_COMM_WORLD_RANK", "5")
        .env("PMI_SIZE", "9")
        .env("RANK", "7")
        .env("SLURM_JOB_ID", "11");
    assert_eq!(stdout(&command.output().unwrap()), "[0] --0-11\n");
}

#[test]
fn the_deadline_reaches_the_ranks() {
    let output = run(&[
        "launch",
        "-n",
        "1",
        "--deadline-ms",
        "1234",
        "--",
        "sh",
        "-c",
        "echo $LANESUM_DEADLINE_MS",
    ]);
    assert_eq!(stdout(&output), "[0] 1234\n");
    let mut command = lanesum(&shell("1", "echo never"));
    let output = command.env("LANESUM_DEADLINE_MS", "soon").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("LANESUM_DEADLINE_MS"), "{}", stderr(&output));
}

#[test]
fn both_outputs_are_told_apart_and_keep_their_bytes() {
    let output = run(&shell("1", "printf 'a\\377\\000b\\n\\nlast'; printf 'e\\n' >&2"));
    assert_eq!(output.stdout, b"[0] a\xff\x00b\n[0] \n[0] last\n");
    assert_eq!(output.stderr, b"[0] e\n");
}

#[test]
fn a_flood_of_lines_stays_whole_and_complete() {
    let output = run(&shell(
        "4",
        "i=0; while [ $i -lt 5000 ]; do echo \"$RANK line $i of a flood\"; i=$((i+1)); done",
    ));
    assert!(output.status.success());
    let text = stdout(&output);
    let mut next = [0; 4];
    for line in text.lines() {
        let (prefix, rest) = line.split_once("] ").expect("has a prefix");
        let rank: usize = prefix[1..].parse().expect("is a rank");
        assert_eq!(rest, format!("{rank} line {} of a flood", next[rank]));
        next[rank] += 1;
    }
    assert_eq!(next, [5000; 4]);
}

#[test]
fn the_first_failure_ends_all_and_is_named() {
    let started = Instant::now();
    let output = run(&shell(
        "3",
        "[ $RANK = 1 ] && { echo bad luck >&2; exit 7; }; sleep 100",
    ));
    assert_eq!(output.status.code(), Some(7));
    assert!(started.elapsed() < Duration::from_secs(20));
    let text = stderr(&output);
    assert!(text.contains("[1] bad luck\n"), "{text}");
    assert!(
        text.contains("error: rank 1 failed with exit code 7; the other 2 ranks were ended\nhint: "),
        "{text}"
    );
}

#[test]
fn a_killed_rank_is_named_with_its_signal() {
    let output = run(&shell("2", "[ $RANK = 0 ] && kill -9 $$; sleep 100"));
    assert_eq!(output.status.code(), Some(137));
    assert!(
        stderr(&output).contains("rank 0 failed with signal SIGKILL"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_others_may_say_what_they_noticed_before_they_are_ended() {
    let output = run(&shell(
        "2",
        "[ $RANK = 0 ] && exit 3; sleep 0.05; echo rank 0 is gone; sleep 100",
    ));
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(stdout(&output), "[1] rank 0 is gone\n");
}

#[test]
fn a_rank_that_ignores_the_request_is_killed() {
    let started = Instant::now();
    let output = run(&shell(
        "2",
        "trap '' TERM; [ $RANK = 0 ] && exit 3; while :; do sleep 0.1; done",
    ));
    assert_eq!(output.status.code(), Some(3));
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_a_rank_started_ends_with_it() {
    let output = run(&shell("1", "sleep 300 & echo $!; exit 4"));
    assert_eq!(output.status.code(), Some(4));
    let pid = stdout(&output)
        .trim_start_matches("[0] ")
        .trim()
        .parse()
        .expect("is a process id");
    assert!(all_die([pid]));
}

#[test]
fn signals_to_the_launcher_end_all() {
    for (sent, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let child = start(&shell("2", "exec sleep 300"));
        let ranks = await_ranks(child.id(), 2);
        signal(child.id(), sent);
        let output = finish(child);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("error: interrupted by SIG"),
            "{}",
            stderr(&output)
        );
        assert!(all_die(ranks.into_iter().map(|(_, pid)| pid)));
    }
}

#[test]
fn ranks_die_with_a_launcher_that_is_killed() {
    let mut command = lanesum(&shell("2", "echo up; exec sleep 300"));
    let mut child = command.spawn().unwrap();
    let ranks = await_ranks(child.id(), 2);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    lines.next().unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(all_die(ranks.into_iter().map(|(_, pid)| pid)));
}

#[test]
fn a_program_that_does_not_exist_is_one_clear_error() {
    for program in ["no-such-program-anywhere", "./no/such/program", "/etc/passwd"] {
        let output = run(&["launch", "-n", "4", "--", program]);
        assert_eq!(output.status.code(), Some(127), "{program}");
        let text = stderr(&output);
        assert_eq!(text.matches("error:").count(), 1, "{text}");
        assert!(text.contains(program) && text.contains("\nhint: "), "{text}");
    }
}

#[test]
fn a_script_without_its_interpreter_is_told_by_the_rank() {
    let file = std::env::temp_dir().join(format!("lanesum-launch-{}", std::process::id()));
    std::fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&file, mode).unwrap();
    let output = run(&["launch", "-n", "1", "--", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(output.status.code(), Some(126));
    let text = stderr(&output);
    assert!(
        text.contains("[0] error: cannot run") && text.contains("its interpreter does not exist"),
        "{text}"
    );
}

#[test]
fn rank_0_reads_the_input_and_the_others_read_nothing() {
    let mut command = lanesum(&shell("2", "cat"));
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"for rank 0\n").unwrap();
    assert_eq!(stdout(&finish(child)), "[0] for rank 0\n");
}

#[test]
fn a_reader_that_leaves_ends_the_job_quietly() {
    let mut child = lanesum(&shell("2", "while :; do echo more; done")).spawn().unwrap();
    let ranks = await_ranks(child.id(), 2);
    drop(child.stdout.take());
    child.stdout = Some(
        std::process::Command::new("true")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
            .stdout
            .unwrap(),
    );
    let output = finish(child);
    assert_eq!(output.status.code(), Some(141));
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    assert!(ranks.iter().all(|&(_, pid)| !lives(pid)));
}

#[test]
fn a_daemon_that_keeps_the_output_open_does_not_keep_the_launcher() {
    let started = Instant::now();
    let output = run(&shell("1", "setsid sleep 30 & echo done"));
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "[0] done\n");
    assert!(started.elapsed() < Duration::from_secs(25));
}

#[test]
fn numbers_of_ranks_are_checked() {
    for ranks in ["0", "17", "many"] {
        let output = run(&["launch", "-n", ranks, "--", "true"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).starts_with("error: invalid value"),
            "{}",
            stderr(&output)
        );
    }
    assert_eq!(run(&["launch", "-n", "2"]).status.code(), Some(2));
    assert!(run(&["launch", "-n", "16", "--", "true"]).status.success());
}

#[test]
fn all_that_fail_by_themselves_are_listed() {
    let output = run(&shell(
        "3",
        "case $RANK in 0) exit 3;; 1) sleep 0.05; exit 4;; esac; exec sleep 100",
    ));
    assert_eq!(output.status.code(), Some(3));
    let text = stderr(&output);
    let told = "error: rank 0 failed with exit code 3, rank 1 with exit code 4; the other rank was ended\nhint: ";
    assert!(text.contains(told), "{text}");
}

#[test]
fn a_stopped_rank_is_told() {
    let mut child = start(&shell("1", "kill -STOP $$; exit 0"));
    let ranks = await_ranks(child.id(), 1);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    assert!(line.contains("rank 0 was stopped; "), "{line}");
    signal(ranks[0].1, Signal::CONT);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_signal_that_was_ignored_from_the_start_stays_ignored() {
    let script = "trap '' HUP; exec \"$0\" launch -n 1 -- sh -c 'echo up; read line; echo $line'";
    let mut child = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_lanesum")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "[0] up");
    signal(child.id(), Signal::HUP);
    std::thread::sleep(Duration::from_millis(100));
    child.stdin.take().unwrap().write_all(b"still here\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "[0] still here");
    assert!(child.wait().unwrap().success());
}
