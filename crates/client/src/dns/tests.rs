//! Tests with a small DNS server on the loopback interface.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use simple_dns::rdata::{A, AAAA, CNAME, RData};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};
use tokio::runtime::Builder;

use super::*;
use crate::UpstreamAddr;

/// A DNS server. It runs until the process ends.
struct Nameserver {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
}

/// The records and the behavior of the server.
#[derive(Clone, Default)]
struct Zone {
    /// Names with their addresses and TTL.
    names: BTreeMap<&'static str, (Vec<IpAddr>, u32)>,
    aliases: BTreeMap<&'static str, &'static str>,
    behavior: Behavior,
    queries: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Behavior {
    #[default]
    Normal,
    /// Fails for IPv6 addresses, and answers otherwise.
    FailsForIpv6,
    Refuses,
    Silent,
    /// Truncates answers over UDP.
    Truncates,
}

impl Nameserver {
    fn start(names: &[(&'static str, &[&str], u32)]) -> Self {
        let (tcp, udp) = (0..100)
            .find_map(|_| {
                let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
                let udp = UdpSocket::bind(tcp.local_addr().unwrap()).ok()?;
                Some((tcp, udp))
            })
            .unwrap();
        let address = udp.local_addr().unwrap();
        let zone = Arc::new(Mutex::new(Zone::default()));
        let nameserver = Self { address, zone: zone.clone() };
        nameserver.set(names);
        let by_udp = zone.clone();
        thread::spawn(move || {
            let mut bytes = [0; 1_500];
            while let Ok((length, from)) = udp.recv_from(&mut bytes) {
                if let Some(answer) = by_udp.lock().unwrap().answer(&bytes[..length], true) {
                    // Sends a forged answer with a wrong id first, like an attacker who guesses.
                    let mut forged = answer.clone();
                    forged[0] ^= 0xff;
                    udp.send_to(&forged, from).unwrap();
                    udp.send_to(&answer, from).unwrap();
                }
            }
        });
        thread::spawn(move || {
            for mut stream in tcp.incoming().map_while(Result::ok) {
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut bytes = vec![0; u16::from_be_bytes(length).into()];
                stream.read_exact(&mut bytes).unwrap();
                let answer = zone.lock().unwrap().answer(&bytes, false).unwrap();
                stream.write_all(&u16::try_from(answer.len()).unwrap().to_be_bytes()).unwrap();
                stream.write_all(&answer).unwrap();
            }
        });
        nameserver
    }

    fn set(&self, names: &[(&'static str, &[&str], u32)]) {
        let parse = |text: &&str| text.parse().unwrap();
        let names =
            names.iter().map(|(name, addresses, ttl)| (*name, (addresses.iter().map(parse).collect(), *ttl)));
        self.zone.lock().unwrap().names = names.collect();
    }

    fn behave(&self, behavior: Behavior) {
        self.zone.lock().unwrap().behavior = behavior;
    }

    fn resolver(&self) -> DnsResolver {
        let nowhere = PathBuf::from("/nonexistent");
        DnsResolver { nameservers: vec![self.address], hosts: nowhere.clone(), resolv_conf: nowhere }
    }
}

impl Zone {
    fn answer(&mut self, bytes: &[u8], is_udp: bool) -> Option<Vec<u8>> {
        let mut reply = Packet::parse(bytes).unwrap().into_reply();
        reply.set_flags(PacketFlag::RESPONSE);
        let question = reply.questions[0].clone();
        let is_v4 = question.qtype == QTYPE::TYPE(TYPE::A);
        let mut name = question.qname.to_string();
        self.queries.push(name.clone());
        match self.behavior {
            Behavior::Silent => return None,
            Behavior::FailsForIpv6 if !is_v4 => *reply.rcode_mut() = RCODE::ServerFailure,
            Behavior::Refuses => *reply.rcode_mut() = RCODE::Refused,
            Behavior::Truncates if is_udp => reply.set_flags(PacketFlag::TRUNCATION),
            _ => {
                if let Some(alias) = self.aliases.get(&*name) {
                    let data = RData::CNAME(CNAME(Name::new_unchecked(alias)));
                    reply.answers.push(ResourceRecord::new(question.qname, CLASS::IN, 5, data));
                    name = (*alias).to_owned();
                }
                let Some((addresses, ttl)) = self.names.get(&*name) else {
                    *reply.rcode_mut() = RCODE::NameError;
                    return reply.build_bytes_vec().ok();
                };
                for address in addresses.iter().filter(|address| address.is_ipv4() == is_v4) {
                    let data = match address {
                        IpAddr::V4(address) => RData::A(A { address: (*address).into() }),
                        IpAddr::V6(address) => RData::AAAA(AAAA { address: (*address).into() }),
                    };
                    let name = Name::new(&name).unwrap().into_owned();
                    reply.answers.push(ResourceRecord::new(name, CLASS::IN, *ttl, data));
                }
            }
        }
        reply.build_bytes_vec().ok()
    }
}

fn lookup(resolver: &DnsResolver, name: &str) -> io::Result<Resolved> {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(resolver.resolve_for(name, 80))
}

fn resolved(addresses: &[&str], seconds: Option<u64>) -> Resolved {
    let addresses = addresses.iter().map(|address| address.parse::<UpstreamAddr>().unwrap()).collect();
    Resolved { addresses, holds: seconds.map(Duration::from_secs) }
}

#[test]
fn resolver_returns_all_addresses_and_the_ttl() {
    let server = Nameserver::start(&[("a.example", &["192.0.2.1", "2001:db8::1", "192.0.2.2"], 30)]);
    let expected = resolved(&["192.0.2.1:80", "192.0.2.2:80", "[2001:db8::1]:80"], Some(30));
    assert_eq!(lookup(&server.resolver(), "a.example").unwrap(), expected);
    assert_eq!(lookup(&server.resolver(), "a.example.").unwrap(), expected);
    server.set(&[("a.example", &["192.0.2.3"], 7)]);
    assert_eq!(lookup(&server.resolver(), "a.example").unwrap(), resolved(&["192.0.2.3:80"], Some(7)));
}

#[test]
fn resolver_follows_an_alias_and_uses_its_shorter_ttl() {
    let server = Nameserver::start(&[("a.example", &["192.0.2.1"], 30)]);
    server.zone.lock().unwrap().aliases.insert("www.example", "a.example");
    assert_eq!(lookup(&server.resolver(), "www.example").unwrap(), resolved(&["192.0.2.1:80"], Some(5)));
}

#[test]
fn missing_name_or_name_without_addresses_is_not_found() {
    let server = Nameserver::start(&[("empty.example", &[], 30)]);
    for name in ["empty.example", "missing.example"] {
        let failure = lookup(&server.resolver(), name).unwrap_err();
        assert_eq!(failure.kind(), io::ErrorKind::NotFound, "{failure}");
    }
}

#[test]
fn truncated_answer_is_queried_again_over_tcp() {
    let server = Nameserver::start(&[("a.example", &["192.0.2.1"], 30)]);
    server.behave(Behavior::Truncates);
    assert_eq!(lookup(&server.resolver(), "a.example").unwrap(), resolved(&["192.0.2.1:80"], Some(30)));
}

#[test]
fn dns_failure_is_an_error_unless_only_the_ipv6_query_fails() {
    let server = Nameserver::start(&[("a.example", &["192.0.2.1"], 30)]);
    server.behave(Behavior::Refuses);
    let failure = lookup(&server.resolver(), "a.example").unwrap_err();
    assert_ne!(failure.kind(), io::ErrorKind::NotFound, "{failure}");
    server.behave(Behavior::FailsForIpv6);
    assert_eq!(lookup(&server.resolver(), "a.example").unwrap(), resolved(&["192.0.2.1:80"], Some(30)));
}

#[test]
fn resolver_skips_a_dns_server_that_does_not_answer() {
    let silent = Nameserver::start(&[]);
    silent.behave(Behavior::Silent);
    let server = Nameserver::start(&[("a.example", &["192.0.2.1"], 30)]);
    let query = |addresses: Vec<SocketAddr>| {
        let servers = Servers { addresses, timeout: Duration::from_millis(50), attempts: 1 };
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(servers.ask("a.example", Kind::A))
    };
    let answer = query(vec![silent.address, server.address]).unwrap().unwrap();
    assert_eq!(answer.addresses, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
    assert_eq!(query(vec![silent.address]).unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[test]
fn resolver_uses_hosts_file_and_resolv_conf() {
    let server = Nameserver::start(&[("b.search.example", &["192.0.2.2"], 30)]);
    let directory = tempfile::tempdir().unwrap();
    let (hosts, resolv_conf) = (directory.path().join("hosts"), directory.path().join("resolv.conf"));
    std::fs::write(&hosts, "# 192.0.2.9 a\n192.0.2.1 other A # a\n2001:db8::1 a\n").unwrap();
    std::fs::write(&resolv_conf, "search search.example\noptions ndots:1 attempts:1\n").unwrap();
    let resolver = DnsResolver { nameservers: vec![server.address], hosts, resolv_conf };
    let known = resolved(&["192.0.2.1:80", "[2001:db8::1]:80"], None);
    assert_eq!(lookup(&resolver, "a").unwrap(), known);
    assert_eq!(lookup(&resolver, "b").unwrap(), resolved(&["192.0.2.2:80"], Some(30)));
    assert_eq!(lookup(&resolver, "[::1]").unwrap(), resolved(&["[::1]:80"], None));
    assert!(server.zone.lock().unwrap().queries.iter().all(|name| name == "b.search.example"));
}

#[test]
fn search_domains_are_tried_in_the_order_of_resolv_conf() {
    let config = Config::parse("search one two\noptions ndots:2").unwrap();
    assert_eq!(candidates("a.b", &config), ["a.b.one", "a.b.two", "a.b"]);
    assert_eq!(candidates("a.b.c", &config), ["a.b.c", "a.b.c.one", "a.b.c.two"]);
    assert_eq!(candidates("a.", &config), ["a."]);
}
