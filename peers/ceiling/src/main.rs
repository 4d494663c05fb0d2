//! A raw epoll loop with a constant response: the upper bound for the throughput of a server. It shows the
//! cost of the kernel's TCP path.
//!
//! It does not parse requests. It counts the ends of header sections, so that each pipelined request gets a
//! response.

mod responses;
mod connection;
mod request_ends;

use std::io;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use connection::{Connection, ConnectionState};
use responses::Responses;

/// Epoll data of the listener. Connections use their slot number.
const LISTENER: u64 = u64::MAX;

/// Maximum number of events per call.
const EVENTS: usize = 1024;

/// Maximum number of bytes per read: enough for a hundred pipelined requests.
const INPUT_BYTES: usize = 64 * 1024;

fn main() -> io::Result<()> {
    let listener = listen()?;
    let mut worker =
        Worker { epoll: epoll::create(CreateFlags::CLOEXEC)?, slots: Vec::new(), free: Vec::new() };
    epoll::add(&worker.epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let responses = Responses::new();
    let mut input = vec![0; INPUT_BYTES];
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
    loop {
        events.clear();
        match epoll::wait(&worker.epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => worker.accept(&listener)?,
                slot => worker.drive(slot, event.flags, &responses, &mut input),
            }
        }
    }
}

fn listen() -> io::Result<OwnedFd> {
    let address = contract::listen_address();
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let listener = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&listener, true)?;
    // Accepted sockets inherit the option, which saves one call per connection.
    sockopt::set_tcp_nodelay(&listener, true)?;
    rustix::net::bind(&listener, &address)?;
    rustix::net::listen(&listener, contract::BACKLOG)?;
    Ok(listener)
}

/// All connections of the process, and their epoll descriptor.
struct Worker {
    epoll: OwnedFd,
    slots: Vec<Option<Connection>>,
    free: Vec<usize>,
}

impl Worker {
    fn accept(&mut self, listener: impl AsFd) -> io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            match rustix::net::accept_with(&listener, flags) {
                Ok(socket) => self.insert(socket)?,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn insert(&mut self, socket: OwnedFd) -> io::Result<()> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        // Registers the socket once and edge-triggered. This avoids a call of `epoll_ctl` for each event, and
        // a second event for an empty socket.
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &socket, EventData::new_u64(slot as u64), interest)?;
        self.slots[slot] = Some(Connection::new(socket));
        Ok(())
    }

    fn drive(&mut self, slot: u64, flags: EventFlags, responses: &Responses, input: &mut [u8]) {
        let slot = usize::try_from(slot).expect("a slot number should fit into usize");
        let Some(connection) = &mut self.slots[slot] else { return };
        let ends = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if connection.drive(ends, responses, input) == ConnectionState::Closed {
            // Dropping the socket closes it, which also removes it from the epoll set.
            self.slots[slot] = None;
            self.free.push(slot);
        }
    }
}
