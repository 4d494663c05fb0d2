//! Encodes DNS queries and decodes replies (RFC 1035 §4) with `simple-dns`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

/// The record type of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    A,
    Aaaa,
}

/// The addresses of a name, and the time for which the addresses are valid (TTL).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) holds: Duration,
}

/// The content of a server's reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reply {
    /// The name does not exist, or has no address of the requested kind.
    Nothing,
    Some(Answer),
    /// The reply was truncated.
    Truncated,
    /// The server could not resolve the name, or refused the query.
    Refused,
}

/// Returns the bytes of a query for `name` with the id `id`.
pub(super) fn question(id: u16, name: &str, kind: Kind) -> io::Result<Vec<u8>> {
    let qtype = match kind {
        Kind::A => TYPE::A,
        Kind::Aaaa => TYPE::AAAA,
    };
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).map_err(|error| invalid(&error))?;
    packet.questions.push(Question::new(name, QTYPE::TYPE(qtype), QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec().map_err(|error| invalid(&error))
}

/// Parses a reply to the query. Returns `None` if the message does not answer this query.
pub(super) fn reply(bytes: &[u8], id: u16, name: &str, kind: Kind) -> Option<Reply> {
    let packet = Packet::parse(bytes).ok()?;
    let asked = Name::new(name).ok()?;
    let is_answer = packet.id() == id && packet.has_flags(PacketFlag::RESPONSE);
    let repeats_question = match &packet.questions[..] {
        [question] => is_same(&question.qname, &asked),
        // A server that does not understand a query may omit the question from the reply.
        [] => !matches!(packet.rcode(), RCODE::NoError | RCODE::NameError),
        _ => false,
    };
    if !is_answer || !repeats_question {
        return None;
    }
    Some(match packet.rcode() {
        RCODE::NoError if packet.has_flags(PacketFlag::TRUNCATION) => Reply::Truncated,
        RCODE::NoError => addresses(&packet, asked, kind),
        RCODE::NameError => Reply::Nothing,
        _ => Reply::Refused,
    })
}

/// Returns the addresses of `name`, or of the name that it is an alias for (RFC 1034 §3.6.2). Ignores
/// records of other names.
fn addresses(packet: &Packet<'_>, mut name: Name<'_>, kind: Kind) -> Reply {
    let (mut addresses, mut holds) = (Vec::new(), u32::MAX);
    for _ in 0..ALIASES_MAX {
        let of_name = || packet.answers.iter().filter(|record| is_same(&record.name, &name));
        for record in of_name() {
            let address = match (&record.rdata, kind) {
                (RData::A(record), Kind::A) => IpAddr::V4(Ipv4Addr::from(record.address)),
                (RData::AAAA(record), Kind::Aaaa) => IpAddr::V6(Ipv6Addr::from(record.address)),
                _ => continue,
            };
            addresses.push(address);
            holds = holds.min(record.ttl);
        }
        let alias = of_name().find_map(|record| match &record.rdata {
            RData::CNAME(alias) => Some((alias.0.clone().into_owned(), record.ttl)),
            _ => None,
        });
        match alias {
            Some((alias, ttl)) if addresses.is_empty() => {
                holds = holds.min(ttl);
                name = alias;
            }
            _ => break,
        }
    }
    if addresses.is_empty() {
        return Reply::Nothing;
    }
    Reply::Some(Answer { addresses, holds: Duration::from_secs(holds.into()) })
}

/// Returns `true` if the names are equal, ignoring case (RFC 4343) and a final dot.
fn is_same(one: &Name<'_>, other: &Name<'_>) -> bool {
    one.to_string().trim_end_matches('.').eq_ignore_ascii_case(other.to_string().trim_end_matches('.'))
}

fn invalid(error: &simple_dns::SimpleDnsError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error.to_string())
}

/// Maximum length of a chain of aliases. Real chains are shorter, and the limit ends loops.
const ALIASES_MAX: usize = 16;
