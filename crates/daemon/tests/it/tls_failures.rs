//! Failed TLS handshakes with clients in the metrics.

use std::io::{Read, Write};
use std::net::TcpStream;

use thruway_daemon::{ConfigSource, Daemon};
use thruway_testkit::CertificateAuthority;

use crate::client::{TIMEOUT, address_of, end};

#[test]
fn failed_handshake_is_counted_with_its_cause() {
    let authority = CertificateAuthority::new();
    let files = authority.issue("www", &["www.example"]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.toml");
    let config = format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\ntls.certificates = [{{ chain = \"{}\", key = \"{}\" }}]\n\
         [[routes]]\npath = \"/\"\nrespond.status = 204\n",
        files.chain.display(),
        files.key.display()
    );
    std::fs::write(&file, config).unwrap();
    let daemon = Daemon::from_source(ConfigSource::file(&file)).unwrap();
    let count = |cause: &str| {
        let line = format!("\nthruway_client_tls_failures_total{{error_type=\"{cause}\"}} ");
        let metrics = daemon.handle().metrics();
        metrics.split_once(&line).unwrap().1.lines().next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(count("not_tls"), 0);
    let mut stream = TcpStream::connect(address_of(&daemon).to_string()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // The server counts the failure before it closes the connection.
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    assert_eq!(count("not_tls"), 1);
    end(daemon);
}
