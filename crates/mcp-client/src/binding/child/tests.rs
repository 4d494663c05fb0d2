//! Tests of child processes that lead a process group: shells with children of their own.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::*;

/// Starts a shell script in a process group of its own. Returns its ends, and the lines of its standard error.
fn start(script: &str) -> (StreamIo, mpsc::UnboundedReceiver<String>) {
    let mut command = Command::new("sh");
    command.args(["-c", script]).process_group(0);
    let (sender, lines) = mpsc::unbounded_channel();
    let on_stderr: OnStderr = Arc::new(move |line: &str| drop(sender.send(line.to_owned())));
    let (_, ends) = Origin::start(command, Some(on_stderr), Duration::ZERO).unwrap();
    (ends, lines)
}

async fn wait_until_ended(id: &str) {
    let path = format!("/proc/{id}/stat");
    while fs::read_to_string(&path).is_ok_and(|stat| !stat.contains(") Z ")) {
        tokio::task::yield_now().await;
    }
}

async fn close(ends: StreamIo, exit_wait: Duration) {
    let output = ends.output;
    let writing = tokio::spawn(async move { drop(output) });
    ends.child.unwrap().wait_for_exit(writing, exit_wait).await;
}

/// Regression test: the child of a shell continued after the shell had ended.
#[tokio::test]
async fn close_ends_the_children_of_a_shell() {
    for script in [
        "sleep 600 & echo $! >&2; cat > /dev/null; true",
        "sh -c 'echo $$ >&2; exec sleep 600'; true",
        "sh -c 'trap \"\" TERM; echo $$ >&2; while :; do sleep 0.02; done' & cat > /dev/null",
    ] {
        let (ends, mut lines) = start(script);
        let child = lines.recv().await.unwrap();
        close(ends, Duration::from_millis(100)).await;
        wait_until_ended(&child).await;
    }
}

#[tokio::test]
async fn children_get_time_to_end() {
    let script = "sh -c 'trap \"sleep 0.3; echo done >&2; exit\" TERM; echo $$ >&2; \
                  while :; do sleep 0.02; done' & cat > /dev/null";
    let (ends, mut lines) = start(script);
    lines.recv().await.unwrap();
    close(ends, Duration::from_secs(20)).await;
    // The shell may also print that a signal has ended `sleep`.
    while lines.recv().await.expect("the client has killed the child") != "done" {}
}

#[tokio::test]
async fn drop_kills_the_children_of_a_shell() {
    let (ends, mut lines) = start("sleep 600 & echo $! >&2; exec sleep 600");
    let child = lines.recv().await.unwrap();
    drop(ends);
    wait_until_ended(&child).await;
}
