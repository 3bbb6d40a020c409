//! Where scenes are played: each rank is a process of this very binary, which panics where something is wrong.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use lanesum_plan::PathChoice;
use lanesum_standin::StandIn;
use rustix::process::Signal;

use super::life_scenes::Place;
use super::paths;

/// The argument that makes a test binary a rank; scene, rank, world, name and path follow.
const RANK: &str = "--rank";

/// After this long something hangs. The longest scene takes minutes where ranks take turns on a real GPU.
const HARD_LIMIT: Duration = Duration::from_secs(400);

/// A scene: its name and what a rank does.
pub type Scene = (&'static str, fn(&Place));

/// The scenes of these functions, by their names.
#[allow(unused_macros, reason = "not every test has scenes")]
macro_rules! scenes {
    ($($module:ident::$scene:ident),+ $(,)?) => {
        &[$((stringify!($scene), $module::$scene as fn(&$crate::common::life_scenes::Place))),+]
    };
}

#[allow(unused_imports, reason = "not every test has scenes")]
pub(crate) use scenes;

/// Plays this process's part, if it was started as a rank.
pub fn part(scenes: &[Scene]) -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [first, scene, rank, world, name, path] = arguments.as_slice() else {
        return None;
    };
    if first != RANK {
        return None;
    }
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let place = Place {
        rank: rank.parse().unwrap(),
        world: world.parse().unwrap(),
        name: name.clone(),
        path: path.parse::<PathChoice>().unwrap(),
    };
    let (_, play) = scenes.iter().find(|(name, _)| name == scene).unwrap();
    play(&place);
    Some(ExitCode::SUCCESS)
}

/// Kills its processes when a test fails.
struct Ranks(Vec<Child>);

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Plays a scene with so many ranks.
pub fn play(scene: &str, world: usize) {
    perform(scene, world, None, None);
}

/// As [`play`], on a machine of its own.
pub fn play_on(scene: &str, world: usize, machine: &StandIn) {
    perform(scene, world, Some(machine), None);
}

/// As [`play`]; in the scene, the last rank kills itself.
pub fn play_to_the_death(scene: &str, world: usize) {
    perform(scene, world, None, Some(world - 1));
}

fn perform(scene: &str, world: usize, machine: Option<&StandIn>, killed: Option<usize>) {
    let start = Instant::now();
    let path = paths::chosen();
    let name = format!("stage-{}-{scene}-{world}-{path}", std::process::id());
    let rank = |rank: usize| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([RANK, scene, &rank.to_string(), &world.to_string(), &name, path.name()]);
        if let Some(machine) = machine {
            machine.apply(&mut command);
        }
        command.spawn().unwrap()
    };
    let mut ranks = Ranks((0..world).map(rank).collect());
    for (rank, child) in ranks.0.iter_mut().enumerate() {
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < HARD_LIMIT, "{scene}: rank {rank} hangs");
            std::thread::sleep(Duration::from_millis(2));
        };
        let well = match killed {
            Some(killed) if killed == rank => status.signal() == Some(Signal::KILL.as_raw()),
            _ => status.success(),
        };
        assert!(well, "{scene} of {world}: rank {rank}: {status}");
    }
}
