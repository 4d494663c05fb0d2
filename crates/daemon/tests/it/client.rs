//! A client that sends one request per connection, and configs that tests share.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use thruway_daemon::{Config, Daemon, Ended, Route};
use thruway_gateway::{PathMatch, RouteMatch};
use thruway_server::{ListenAddr, Response};

/// A timeout that no test reaches.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the status and the body of the response to a GET.
pub(crate) fn get(address: &ListenAddr, target: &str) -> (String, String) {
    let mut stream = connect(address);
    let host = tcp(address);
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
}

/// Returns the header of the response to a GET.
pub(crate) fn head(address: &ListenAddr, target: &str) -> String {
    let mut stream = connect(address);
    let host = tcp(address);
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response.split_once("\r\n\r\n").unwrap().0.to_owned()
}

pub(crate) fn connect(address: &ListenAddr) -> TcpStream {
    let stream = TcpStream::connect(tcp(address)).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

pub(crate) fn tcp(address: &ListenAddr) -> SocketAddr {
    match address {
        ListenAddr::Tcp(address) => *address,
        ListenAddr::Unix(path) => panic!("{} is a socket", path.display()),
    }
}

/// Returns the address of the first listener.
pub(crate) fn address_of(daemon: &Daemon) -> ListenAddr {
    daemon.listeners()[0].address.clone()
}

pub(crate) fn everything() -> RouteMatch {
    RouteMatch::at(PathMatch::Prefix("/".to_owned()))
}

/// Returns a config that answers each request with `body`.
pub(crate) fn answering(body: &'static str) -> Config {
    let route = Route::handler(everything(), move || Response::text(body));
    Config::default().listen("127.0.0.1:0").unwrap().route(route).workers(1)
}

/// Returns the text of a config that answers each request with `body`, followed by `rest`.
pub(crate) fn file_answering(body: &str, rest: &str) -> String {
    format!(
        "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\n\
         respond.body = \"{body}\"\n{rest}\n"
    )
}

pub(crate) fn end(daemon: Daemon) {
    daemon.drain();
    assert_eq!(daemon.join(), Ended::Clean);
}
