//! Tests of the access log: targets, sampling, and lines that a target does not accept.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;

use crate::admin::get_admin;
use crate::client::{Client, get};
use crate::process::{RELOADED, Signal, Thruway};

fn config(log: &str) -> String {
    format!(
        "access_log = {{ {log} }}\nworkers = 1\nlisteners = [{{ address = \"127.0.0.1:0\" }}]\n\
         routes = [{{ path = \"/\", demo = true }}]\nadmin.address = \"127.0.0.1:0\"\n"
    )
}

/// Receives a datagram, and returns its length.
type Receive<'r> = dyn Fn(&mut [u8]) -> std::io::Result<usize> + 'r;

/// Returns the number of lines that the log has dropped for `reason`.
fn dropped(admin: &str, reason: &str) -> u64 {
    let metrics = get_admin(admin, "/metrics").text().to_owned();
    let name = format!("thruway_access_log_dropped_lines_total{{reason=\"{reason}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse().unwrap()
}

#[test]
fn syslog_server_gets_a_message_for_each_request() {
    let directory = tempfile::tempdir().unwrap();
    let unix = UnixDatagram::bind(directory.path().join("log")).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp_address = format!("udp://{}", udp.local_addr().unwrap());
    let receive_unix = |bytes: &mut [u8]| unix.recv(bytes);
    let receive_udp = |bytes: &mut [u8]| udp.recv(bytes);
    let cases: [(&str, &Receive<'_>); 2] = [("unix:log", &receive_unix), (&udp_address, &receive_udp)];
    for (address, receive) in cases {
        let log = format!(
            "format = \"ecs\", syslog = {{ address = \"{address}\", facility = \"local0\", app_name = \"edge\" }}"
        );
        let mut thruway = Thruway::serve(directory.path(), &config(&log));
        let mut client = Client::connect(&thruway.address());
        // The priority contains the severity: info for 200, warning for 404.
        for (path, status, priority) in [("/ok", 200, "<134>1 "), ("/nothing", 404, "<132>1 ")] {
            client.get(path);
            let mut bytes = [0; 4096];
            let count = receive(&mut bytes).unwrap();
            let message = std::str::from_utf8(&bytes[..count]).unwrap();
            let (header, line) = message.split_once(" access - ").unwrap();
            assert!(header.starts_with(priority) && header.contains(" edge "), "{message}");
            let json: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(
                (&json["url.path"], &json["http.response.status_code"]),
                (&path.into(), &status.into())
            );
        }
        drop(client);
        assert_eq!(thruway.terminate().code, Some(0));
    }
}

#[test]
fn lines_for_a_socket_wait_until_its_program_starts() {
    let directory = tempfile::tempdir().unwrap();
    let log = "template = '{http.request.method} {url.path}', socket = \"log.sock\"";
    let mut thruway = Thruway::serve(directory.path(), &config(log));
    let address = thruway.address();
    assert_eq!(get(&address, "/ok").text(), "ok");
    thruway.wait_for_log("cannot send the access log");
    let listener = UnixListener::bind(directory.path().join("log.sock")).unwrap();
    let mut lines = BufReader::new(listener.accept().unwrap().0).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "GET /ok");
    get(&address, "/healthz");
    assert_eq!(lines.next().unwrap().unwrap(), "GET /healthz");
    drop((lines, listener));
    // The program has ended. Requests still work, and the line is counted at the end.
    assert_eq!(get(&address, "/ok").text(), "ok");
    assert_eq!(thruway.terminate().code, Some(0));
}

/// Each line has about 100 KiB, so that few requests fill all buffers.
#[test]
fn receiver_that_reads_nothing_does_not_block_requests() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let template = "{url.path} ".repeat(50);
    let syslog = format!("address = \"tcp://{}\"", listener.local_addr().unwrap());
    let log = format!("template = '{template}', syslog = {{ {syslog} }}");
    let mut thruway = Thruway::serve(directory.path(), &config(&log));
    let (address, admin) = (thruway.address(), thruway.admin_address());
    let target = format!("/{}", "a".repeat(2_000));
    let mut client = Client::connect(&address);
    while dropped(&admin, "buffer_full") == 0 {
        for _ in 0..20 {
            assert_eq!(client.get(&target).status(), "404");
        }
    }
    thruway.wait_for_log("lines were dropped");
    assert_eq!(client.get("/ok").text(), "ok");
    drop(listener);
    assert_eq!(thruway.terminate().code, Some(0));
}

#[test]
fn lines_for_a_full_disk_are_counted() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::serve(directory.path(), &config("path = \"/dev/full\""));
    let (address, admin) = (thruway.address(), thruway.admin_address());
    assert_eq!(get(&address, "/ok").text(), "ok");
    assert_eq!(get(&address, "/ok").text(), "ok");
    while dropped(&admin, "target_failed") < 2 {}
    assert_eq!(dropped(&admin, "buffer_full"), 0);
}

#[test]
fn sample_contains_failed_and_slow_requests_only_if_the_ratio_is_zero() {
    let directory = tempfile::tempdir().unwrap();
    let log = "template = '{url.path}', path = \"access.log\", sample = { ratio = 0, slow = \"1h\" }";
    let routes = "[[routes]]\npath = \"/failed\"\nrespond.status = 500\n";
    let text = config(log).replace("routes = [{ path = \"/\", demo = true }]\n", "");
    let routes = format!("{routes}[[routes]]\npath = \"/\"\ndemo = true\n");
    let mut thruway = Thruway::serve(directory.path(), &format!("{text}{routes}"));
    let mut client = Client::connect(&thruway.address());
    for target in ["/ok", "/failed", "/nothing"] {
        client.get(target);
    }
    assert_eq!(thruway.terminate().code, Some(0));
    assert_eq!(fs::read_to_string(directory.path().join("access.log")).unwrap(), "/failed\n");
}

#[test]
fn reload_reopens_the_access_log_after_rotation() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::serve(directory.path(), &config("path = \"access.log\""));
    thruway.address();
    let path = directory.path().join("access.log");
    fs::rename(&path, directory.path().join("access.log.1")).unwrap();
    thruway.signal(Signal::HUP);
    thruway.wait_for_log("access log reopened");
    assert!(path.exists());
}

#[test]
fn reload_moves_the_log_from_an_absent_receiver_to_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut thruway = Thruway::serve(directory.path(), &config("socket = \"absent\""));
    let address = thruway.address();
    get(&address, "/ok");
    thruway.wait_for_log("cannot send the access log");
    let text = config("template = '{url.path}', path = \"access.log\"");
    thruway.reload(directory.path(), &text, RELOADED);
    get(&address, "/healthz");
    assert_eq!(thruway.terminate().code, Some(0));
    let log = fs::read_to_string(directory.path().join("access.log")).unwrap();
    assert!(log.lines().any(|line| line == "/healthz" || line.contains("\"GET /healthz ")), "{log}");
}

#[test]
fn own_log_is_json_if_the_config_demands_it() {
    let directory = tempfile::tempdir().unwrap();
    let config = |format: &str| {
        format!(
            "[[listeners]]\naddress = \"127.0.0.1:0\"\n[[routes]]\npath = \"/\"\ndemo = true\n[log]\nformat = \"{format}\"\n"
        )
    };
    let mut thruway = Thruway::serve(directory.path(), &config("json"));
    thruway.address();
    let line = thruway.reload(directory.path(), &config("json"), RELOADED);
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&value["level"], &value["message"]), (&"INFO".into(), &RELOADED.into()));
    assert_eq!(value["target"], "thruway_daemon::reload");
    assert!(value["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
    let failed = thruway.reload(directory.path(), "workers = 0", "reload failed");
    let value: serde_json::Value = serde_json::from_str(&failed).unwrap();
    assert!(value["message"].as_str().unwrap().contains("\nerror: "), "{failed}");
    let text = thruway.reload(directory.path(), &config("text"), RELOADED);
    assert!(!text.starts_with('{'), "{text}");
}
