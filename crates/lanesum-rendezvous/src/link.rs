//! One connection: bounded packets out and in, each with at most one descriptor.
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;

use crate::deadline::{Deadline, poll_for};

/// Longest packet. A connection's send buffer (212,992 bytes by default) holds one with its bookkeeping.
pub(crate) const LONGEST: usize = 128 * 1024;

/// A connected socket that never blocks.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    /// Where packets land: one byte longer than a valid one, so that a longer one shows. Pages are touched when used.
    landing: Vec<u8>,
}

/// Why a packet was not sent.
#[derive(Debug)]
pub(crate) enum SendFailure {
    /// The other end is closed.
    Closed,
    /// The other end did not read until the deadline.
    Late,
    /// Longer than a packet may be.
    TooLarge(usize),
    /// The kernel said no.
    System(Errno),
}

/// What came in.
#[derive(Debug)]
pub(crate) enum Received {
    Packet(Packet),
    /// Nothing yet.
    Nothing,
    /// The other end is closed.
    Closed,
}

/// One packet.
#[derive(Debug)]
pub(crate) struct Packet {
    /// Empty where the packet was too long to be a valid one.
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptor: Option<OwnedFd>,
    /// The kernel dropped descriptors: too many were sent, or this process may open no more.
    pub(crate) lost: bool,
}

impl Link {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            landing: vec![0; LONGEST + 1],
        }
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends one packet. Waits only where the other end has not read earlier ones.
    pub(crate) fn send<T: Serialize>(
        &self,
        message: &T,
        descriptor: Option<BorrowedFd<'_>>,
        deadline: &Deadline,
    ) -> Result<(), SendFailure> {
        let bytes = serde_json::to_vec(message).map_err(|_| SendFailure::System(Errno::INVAL))?;
        if bytes.len() > LONGEST {
            return Err(SendFailure::TooLarge(bytes.len()));
        }
        loop {
            match self.try_send(&bytes, descriptor) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if deadline.passed() => return Err(SendFailure::Late),
                Err(Errno::AGAIN) => {
                    let mut room = [PollFd::new(&self.socket, PollFlags::OUT)];
                    poll_for(&mut room, deadline.slice()).map_err(SendFailure::System)?;
                }
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => return Err(SendFailure::Closed),
                Err(errno) => return Err(SendFailure::System(errno)),
            }
        }
    }

    fn try_send(&self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(Errno::INVAL);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags)
    }

    /// Takes one packet, if there is one. Never waits.
    pub(crate) fn receive(&mut self) -> Received {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut landing = [IoSliceMut::new(&mut self.landing)];
        let mut arrival = recvmsg(&self.socket, &mut landing, &mut control, flags);
        if let Err(Errno::CONNRESET) = arrival {
            // Said once where the other end closed with something of ours unread; what it sent before comes after that.
            arrival = recvmsg(&self.socket, &mut landing, &mut control, flags);
        }
        let found = match arrival {
            Ok(found) => found,
            Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
            Err(_) => return Received::Closed,
        };
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(arrived) = message {
                descriptors.extend(arrived);
            }
        }
        // A packet of no bytes cannot be told from the end, and is never sent.
        if found.bytes == 0 {
            return Received::Closed;
        }
        let whole = found.bytes <= LONGEST && !found.flags.contains(ReturnFlags::TRUNC);
        let bytes = if whole {
            self.landing.get(..found.bytes).unwrap_or_default().to_vec()
        } else {
            Vec::new()
        };
        Received::Packet(Packet {
            bytes,
            lost: found.flags.contains(ReturnFlags::CTRUNC),
            // Of several (a stranger's doing) one is kept and the others are closed here.
            descriptor: descriptors.pop(),
        })
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (Link, Link) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        (Link::new(one), Link::new(other))
    }

    fn now() -> Deadline {
        Deadline::after(std::time::Duration::ZERO)
    }

    fn packet(received: Received) -> Packet {
        match received {
            Received::Packet(packet) => packet,
            Received::Nothing | Received::Closed => panic!("{received:?}"),
        }
    }

    #[test]
    fn last_words_are_heard_though_the_speaker_left_something_unread() {
        let (mut one, other) = pair();
        one.send(&"never read", None, &now()).unwrap();
        other.send(&"why I leave", None, &now()).unwrap();
        drop(other);
        assert_eq!(packet(one.receive()).bytes, b"\"why I leave\"");
        assert!(matches!(one.receive(), Received::Closed));
        assert!(matches!(one.send(&"late", None, &now()), Err(SendFailure::Closed)));
    }

    #[test]
    fn a_descriptor_travels_with_its_packet_and_is_closed_on_exec() {
        let (one, mut other) = pair();
        let file = tempfile::tempfile().unwrap();
        one.send(&"with", Some(file.as_fd()), &now()).unwrap();
        one.send(&"without", None, &now()).unwrap();
        let arrived = packet(other.receive()).descriptor.unwrap();
        assert!(
            rustix::io::fcntl_getfd(&arrived)
                .unwrap()
                .contains(rustix::io::FdFlags::CLOEXEC)
        );
        assert!(packet(other.receive()).descriptor.is_none());
        assert!(matches!(other.receive(), Received::Nothing));
    }

    #[test]
    fn packets_are_bounded_both_ways_and_a_full_buffer_ends_at_the_deadline() {
        let (one, mut other) = pair();
        let longest = "x".repeat(LONGEST - 2);
        one.send(&longest, None, &now()).unwrap();
        assert_eq!(packet(other.receive()).bytes.len(), LONGEST);
        assert!(matches!(
            one.send(&format!("{longest}x"), None, &now()),
            Err(SendFailure::TooLarge(_))
        ));
        rustix::net::send(one.as_fd(), &[b'x'; LONGEST + 1], SendFlags::empty()).unwrap();
        assert!(packet(other.receive()).bytes.is_empty());
        let soon = Deadline::after(std::time::Duration::from_millis(50));
        let failure = (0..100).find_map(|_| one.send(&longest, None, &soon).err());
        assert!(matches!(failure, Some(SendFailure::Late)), "{failure:?}");
        assert!(soon.passed());
    }
}
