//! Load tests during constant changes of certificates and ticket keys.

use std::fs;
use std::path::Path;
use std::thread;

use tempfile::TempDir;
use thruway_testkit::CertificateAuthority;

use crate::process::{Ended, RELOADED, Thruway};

/// Returns a config that uses the files of `certificate`. Each change of certificate also changes the TLS
/// settings, and so the ticket keys.
fn config(certificate: &str) -> String {
    format!(
        "workers = 2\n[[listeners]]\naddress = \"127.0.0.1:0\"\nhttp2 = true\n\
         tls.certificates = [{{ chain = \"{certificate}.pem\", key = \"{certificate}.key\" }}]\n\
         [[routes]]\npath = \"/\"\ndemo = true\n"
    )
}

/// A server that switches between two certificates.
struct Rotating {
    thruway: Thruway,
    directory: TempDir,
    authority: CertificateAuthority,
    url: String,
    generation: usize,
}

impl Rotating {
    fn start() -> Self {
        let authority = CertificateAuthority::new();
        let directory = tempfile::tempdir().unwrap();
        for name in CERTIFICATES {
            let files = authority.issue(name, &["127.0.0.1"]);
            fs::copy(&files.chain, directory.path().join(format!("{name}.pem"))).unwrap();
            fs::copy(&files.key, directory.path().join(format!("{name}.key"))).unwrap();
        }
        let mut thruway = Thruway::serve(directory.path(), &config(CERTIFICATES[0]));
        let url = thruway.address();
        Self { thruway, directory, authority, url, generation: 0 }
    }

    fn rotate(&mut self) {
        self.generation += 1;
        let config = config(CERTIFICATES[self.generation % CERTIFICATES.len()]);
        self.thruway.reload(self.directory.path(), &config, RELOADED);
    }

    /// Sends `requests` requests to `url` and rotates certificates until all are answered.
    fn load(&mut self, url: &str, requests: usize, arguments: &[&str]) {
        let before = self.generation;
        let root = self.authority.root();
        let directory = self.directory.path().to_owned();
        let requests = requests.to_string();
        let common = ["bench", "http", url, "-n", &requests, "-c", "8", "--output", "json"];
        let trusted = ["--ca", root.to_str().unwrap()];
        let trusted = if url.starts_with("https:") { &trusted[..] } else { &[] };
        let arguments = [&common, arguments, trusted].concat();
        let ended = thread::scope(|scope| {
            let load = scope.spawn(|| bench(&directory, &arguments));
            while !load.is_finished() {
                self.rotate();
            }
            load.join().unwrap()
        });
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        assert!(ended.stdout.contains(&format!("\"answered\": {requests}")), "{}", ended.stdout);
        assert!(self.generation > before + 1, "no rotation happened during the load");
    }
}

fn bench(directory: &Path, arguments: &[&str]) -> Ended {
    Thruway::start_in(directory, arguments).end()
}

#[test]
fn no_request_fails_during_certificate_and_ticket_key_rotation() {
    let mut server = Rotating::start();
    let url = format!("{}/plaintext", server.url);
    // The gateway connects to the server over HTTP/2. Its own clients use plain text.
    let root = fs::copy(server.authority.root(), server.directory.path().join("root.pem"));
    assert!(root.is_ok());
    let backend = server.url.strip_prefix("https://").unwrap();
    let gateway_directory = tempfile::tempdir_in(server.directory.path()).unwrap();
    let gateway = format!(
        "workers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\nupstream = \"a\"\n\
         [upstreams.a]\nservers = [\"{backend}\"]\nhttp2 = true\ntls.roots = [\"../root.pem\"]\n"
    );
    let mut gateway = Thruway::serve(gateway_directory.path(), &gateway);
    let through = format!("{}/plaintext", gateway.address());

    let mut round = |requests: usize| {
        server.load(&url, requests, &[]);
        server.load(&url, requests / 8, &["--no-keep-alive"]);
        server.load(&url, requests / 16, &["--no-keep-alive", "--full-handshakes"]);
        server.load(&through, requests, &[]);
        (server.thruway.descriptors(), server.thruway.resident_bytes())
    };
    // The first round fills the pools, so only later growth counts.
    let (descriptors, resident) = round(1000);
    let (descriptors_after, resident_after) = round(4000);
    assert!(descriptors_after <= descriptors + DESCRIPTORS_MORE_MAX, "{descriptors} to {descriptors_after}");
    assert!(
        resident_after < resident + GROWTH_BYTES_MAX,
        "memory grew from {resident} to {resident_after} bytes"
    );
    assert_eq!(server.thruway.terminate().code, Some(0));
}

const CERTIFICATES: [&str; 2] = ["one", "other"];

/// Connections that are just being closed.
const DESCRIPTORS_MORE_MAX: usize = 8;

/// Memory that allocators may keep. A leak of one kilobyte per request would exceed it.
const GROWTH_BYTES_MAX: u64 = 6 << 20;
