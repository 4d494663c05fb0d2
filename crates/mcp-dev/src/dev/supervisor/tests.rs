//! Tests of the supervisor with a command that is not the server: the server listens in this process.

use std::fs;
use std::path::Path;

use thruway_mcp_sdk::McpServer;
use thruway_net::ListenAddr;
use thruway_server::{Router, Server};

use super::*;

/// Runs a supervisor of a shell script in `directory` until the journal has an entry with `expected`.
async fn run_until(directory: &Path, script: &str, expected: &str, react: impl Fn(&str)) -> Served {
    let endpoint = McpServer::new("demo", "1").endpoint();
    let listener = Server::new(Router::new().any("/mcp", endpoint)).workers(1);
    let listener = listener.listen_on(ListenAddr::Tcp(([127, 0, 0, 1], 0).into())).start().unwrap();
    let ListenAddr::Tcp(address) = listener.addresses()[0].clone() else { panic!("not a TCP address") };
    let script = format!("cd '{}'; {script}", directory.display());
    let options = DevOptions {
        command: vec!["sh".to_owned(), "-c".to_owned(), script],
        builds: false,
        url: Some(format!("http://{address}/mcp")),
        listen: address,
        watch: vec![directory.to_owned()],
        start_timeout: Duration::from_secs(30),
    };
    let watcher = SourceWatcher::new(&options.watch).unwrap();
    let (served, journal) = (Served::new(), Journal::new());
    let (_, mut entries) = journal.follow();
    let (_restart, restarts) = mpsc::channel(1);
    let mut supervisor = Supervisor::new(options, served.clone(), journal);
    let seen = async {
        loop {
            let entry = entries.recv().await.unwrap();
            react(&entry.text);
            if entry.text.contains(expected) {
                return;
            }
        }
    };
    tokio::select! {
        outcome = supervisor.run(watcher, restarts) => panic!("{outcome:?}"),
        () = seen => {}
    }
    supervisor.shut_down().await;
    served
}

/// Regression test: a crash of a running server with a URL was not noticed.
#[tokio::test]
async fn end_of_a_running_server_is_reported_with_its_status() {
    let directory = tempfile::tempdir().unwrap();
    // The watcher ignores hidden files.
    let script = "while [ ! -e .crash ]; do sleep 0.02; done; exit 3";
    let crash = |entry: &str| {
        if entry == "the server responds" {
            fs::write(directory.path().join(".crash"), "").unwrap();
        }
    };
    let served = run_until(directory.path(), script, "the server has ended", crash).await;
    assert_eq!(served.state().0, ServerState::Ended("exit status: 3".to_owned()));
    assert_eq!(served.serving().err().unwrap().reason(), "the server has ended: exit status: 3");
}

/// Regression test: a server that writes into a watched directory restarted without end.
#[tokio::test]
async fn server_that_writes_into_a_watched_directory_restarts_slowly() {
    let directory = tempfile::tempdir().unwrap();
    let script = "sleep 0.05; echo started >> server.log; exec sleep 600";
    run_until(directory.path(), script, "again and again: does it write files itself?", |_| ()).await;
    let starts = fs::read_to_string(directory.path().join("server.log")).unwrap();
    assert!(starts.lines().count() >= 5, "{starts}");
}

/// Regression test: a server behind a shell continued after a restart.
#[tokio::test]
async fn close_ends_a_server_behind_a_shell() {
    let journal = Journal::new();
    let (_, mut entries) = journal.follow();
    let words = ["sh", "-c", "sleep 600 & echo $!>&2; cat > /dev/null; true"].map(str::to_owned);
    let client = connect_to(McpClient::builder(), &words, None, &journal).unwrap();
    let server = format!("/proc/{}/stat", entries.recv().await.unwrap().text);
    client.close().await;
    while fs::read_to_string(&server).is_ok_and(|stat| !stat.contains(") Z ")) {
        tokio::task::yield_now().await;
    }
}
