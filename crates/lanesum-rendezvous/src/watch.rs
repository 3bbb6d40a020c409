//! Notices within milliseconds that a rank's process has ended.
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::error::{RendezvousError, system};
use crate::process::ProcessId;

/// After a poll that failed (the kernel was out of memory, say).
const RETRY: Duration = Duration::from_millis(5);

/// The processes of the other ranks.
#[derive(Debug)]
pub struct Peers {
    /// By rank; None for this rank and those that share its process.
    pidfds: Vec<Option<OwnedFd>>,
}

/// Watches while it lives; dropping it ends the watching thread.
///
/// In a forked child, which has no such thread, dropping it has no effect there or on the parent.
#[derive(Debug)]
pub struct Watch {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    thread: JoinHandle<()>,
    stop: Arc<OwnedFd>,
    process: ProcessId,
}

impl Peers {
    pub(crate) fn new(pidfds: Vec<Option<OwnedFd>>) -> Self {
        Self { pidfds }
    }

    /// Whether that rank lives in another process, and is watched.
    pub fn is_watched(&self, rank: usize) -> bool {
        self.pidfds.get(rank).is_some_and(Option::is_some)
    }

    /// Starts one thread that calls `on_death` once for each rank whose process ends, at once for those that have ended
    /// already. Ranks in this process are not watched; without any other rank no thread is started.
    ///
    /// `on_death` runs on that thread and must be short: dropping the [`Watch`] waits for it.
    ///
    /// # Errors
    /// Where the system refuses a thread or a descriptor.
    pub fn watch(self, on_death: impl Fn(usize) + Send + 'static) -> Result<Watch, RendezvousError> {
        let ranks = self.pidfds.into_iter().enumerate();
        let watched: Vec<(usize, OwnedFd)> = ranks.filter_map(|(rank, pidfd)| Some((rank, pidfd?))).collect();
        if watched.is_empty() {
            return Ok(Watch { running: None });
        }
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let stop = Arc::new(eventfd(0, flags).map_err(system("make an eventfd"))?);
        let signal = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("lanesum-watch".to_owned())
            .spawn(move || watch(watched, &signal, on_death))
            .map_err(system("start the watching thread"))?;
        let running = Running {
            thread,
            stop,
            process: ProcessId::own(),
        };
        Ok(Watch { running: Some(running) })
    }
}

/// Runs until told to stop, or until all have ended.
fn watch(mut peers: Vec<(usize, OwnedFd)>, stop: &OwnedFd, on_death: impl Fn(usize)) {
    while !peers.is_empty() {
        let mut watched = vec![PollFd::new(stop, PollFlags::IN)];
        watched.extend(peers.iter().map(|(_, pidfd)| PollFd::new(pidfd, PollFlags::IN)));
        match poll(&mut watched, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => {
                std::thread::sleep(RETRY);
                continue;
            }
        }
        let mut ready = watched.iter().map(|found| !found.revents().is_empty());
        if ready.next() == Some(true) {
            return;
        }
        let ended: Vec<bool> = ready.collect();
        let mut flags = ended.into_iter();
        peers.retain(|(rank, _)| {
            let ended = flags.next() == Some(true);
            if ended {
                on_death(*rank);
            }
            !ended
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        if running.process != ProcessId::own() {
            // The thread and the eventfd belong to the parent: neither joined nor told, only forgotten.
            std::mem::forget(running.thread);
            return;
        }
        // The counter of an eventfd that nobody else writes is not full.
        rustix::io::write(running.stop.as_fd(), &1_u64.to_ne_bytes()).unwrap_or_default();
        // Dropped by `on_death` itself, it cannot wait for its own end: the thread stops at its next poll.
        if running.thread.thread().id() != std::thread::current().id() {
            running.thread.join().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::sync::{Mutex, mpsc};
    use std::time::Instant;

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    fn sleeper() -> (Child, Option<OwnedFd>) {
        let child = Command::new("/bin/sh").arg("-c").arg("exec sleep 60").spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        (child, Some(pidfd))
    }

    #[test]
    fn every_death_is_told_once_and_soon() {
        let (mut children, pidfds): (Vec<Child>, Vec<_>) = (0..3).map(|_| sleeper()).unzip();
        let (tell, told) = mpsc::channel();
        let pidfds = std::iter::once(None).chain(pidfds).collect();
        let watch = Peers::new(pidfds).watch(move |rank| tell.send(rank).unwrap()).unwrap();
        let mut delays = Vec::new();
        for (index, child) in children.iter_mut().enumerate() {
            let start = Instant::now();
            child.kill().unwrap();
            assert_eq!(told.recv_timeout(Duration::from_secs(5)).unwrap(), index + 1);
            delays.push(start.elapsed());
            child.wait().unwrap();
        }
        assert!(
            delays.iter().any(|delay| *delay < Duration::from_millis(50)),
            "{delays:?}"
        );
        drop(watch);
        // The thread has ended and with it the sender: nothing is told twice.
        assert!(told.recv().is_err());
    }

    #[test]
    fn dropping_ends_the_thread_at_once() {
        let (mut child, pidfd) = sleeper();
        let alive = Arc::new(());
        let held = Arc::clone(&alive);
        let watch = Peers::new(vec![None, pidfd])
            .watch(move |_| assert_eq!(Arc::strong_count(&held), 2))
            .unwrap();
        let start = Instant::now();
        drop(watch);
        assert_eq!(Arc::strong_count(&alive), 1);
        assert!(start.elapsed() < Duration::from_secs(1));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn it_may_be_dropped_by_what_it_calls_and_what_it_calls_may_panic() {
        let (mut child, pidfd) = sleeper();
        let slot: Arc<Mutex<Option<Watch>>> = Arc::default();
        let inner = Arc::clone(&slot);
        let (tell, told) = mpsc::channel();
        let watch = Peers::new(vec![None, pidfd]).watch(move |rank| {
            drop(inner.lock().unwrap().take());
            tell.send(rank).unwrap();
            panic!("a panic of the caller's, which ends this thread and nothing else");
        });
        *slot.lock().unwrap() = Some(watch.unwrap());
        child.kill().unwrap();
        assert_eq!(told.recv_timeout(Duration::from_secs(5)).unwrap(), 1);
        child.wait().unwrap();
        assert!(slot.lock().unwrap().is_none());
    }
}
