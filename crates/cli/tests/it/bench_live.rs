//! Tests of the screen of `thruway bench`, in a pseudo terminal.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::process::Thruway;

const OPEN: &str = "\x1b[?1049h";
const CLOSE: &str = "\x1b[?1049l";

/// Runs `thruway bench` in a terminal of this size, and returns its output and exit code. If `interrupts` is `true`,
/// sends SIGINT when the screen has a histogram.
fn in_terminal(args: &[&str], (columns, rows): (u16, u16), interrupts: bool) -> (String, Option<i32>) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let open = || {
        let file = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        Stdio::from(OwnedFd::from(file))
    };
    let mut command = Command::new(crate::PROGRAM);
    command.arg("bench").args(args).env("TERM", "xterm").stdin(open()).stdout(open()).stderr(open());
    let mut child = command.spawn().unwrap();
    // The end of the output needs all copies of the terminal to be closed.
    drop(command);
    let id = Pid::from_child(&child);
    let mut terminal = File::from(master);
    let (mut output, mut buffer, mut is_interrupted) = (Vec::new(), [0; 4096], false);
    // After the program has ended, Linux reports EIO.
    while let Ok(read @ 1..) = terminal.read(&mut buffer) {
        output.extend_from_slice(&buffer[..read]);
        if interrupts && !is_interrupted && String::from_utf8_lossy(&output).contains('≤') {
            kill_process(id, Signal::INT).unwrap();
            is_interrupted = true;
        }
    }
    (String::from_utf8(output).unwrap(), child.wait().unwrap().code())
}

/// Returns the content of the screen after each update. `output` contains only the sequences of the screen.
fn updates(output: &str, columns: usize, rows: usize) -> Vec<String> {
    let mut grid = vec![vec![' '; columns]; rows];
    let (mut x, mut y) = (0, 0);
    let mut updates = Vec::new();
    let mut rest = output;
    while let Some(character) = rest.chars().next() {
        if let Some(sequence) = rest.strip_prefix("\x1b[") {
            let end = sequence.find(|character: char| character.is_ascii_alphabetic()).unwrap();
            match (&sequence[..end], &sequence[end..=end]) {
                (place, "H") => {
                    let (row, column) = place.split_once(';').unwrap();
                    (x, y) = (column.parse::<usize>().unwrap() - 1, row.parse::<usize>().unwrap() - 1);
                }
                ("2", "J") => grid.iter_mut().for_each(|row| row.fill(' ')),
                ("0", "m") => updates.push(grid.iter().flat_map(|row| row.iter().chain(&['\n'])).collect()),
                _ => {}
            }
            rest = &sequence[end + 1..];
        } else {
            grid[y][x] = character;
            x = (x + 1).min(columns - 1);
            rest = &rest[character.len_utf8()..];
        }
    }
    updates
}

fn demo() -> (Thruway, String) {
    let mut demo = Thruway::demo(&[]);
    let url = format!("{}/plaintext", demo.address());
    (demo, url)
}

#[test]
fn screen_shows_a_histogram_and_disappears_before_the_report() {
    let (_demo, url) = demo();
    let stages = ["http", &url, "--stages", "500ms:200,1s:200", "-c", "2"];
    let (output, code) = in_terminal(&stages, (90, 30), false);
    assert_eq!(code, Some(0), "{output}");
    let (before, rest) = output.split_once(OPEN).unwrap();
    let (screen, report) = rest.split_once(CLOSE).unwrap();
    assert!(!before.contains("requests/s"), "{before}");
    for part in ["response times", "≤", "responses per second", "stage", "200/s"] {
        let updates = updates(screen, 90, 30);
        assert!(updates.iter().any(|update| update.contains(part)), "{part}: {updates:#?}");
    }
    assert!(report.contains("answered") && !report.contains(OPEN), "{report}");
    assert!(screen.contains("\x1b[?25h"), "the cursor stays hidden: {screen}");
}

#[test]
fn interrupt_restores_the_terminal_before_the_report() {
    let (_demo, url) = demo();
    let (output, code) = in_terminal(&["http", &url, "-d", "1m", "-c", "2"], (90, 30), true);
    assert_eq!(code, Some(130), "{output}");
    let (_, report) = output.rsplit_once(CLOSE).unwrap();
    assert!(report.contains("interrupted") && !report.contains(OPEN), "{report}");
}

#[test]
fn line_replaces_the_screen_on_request_and_on_small_terminals() {
    let (_demo, url) = demo();
    let load = ["http", &url, "-d", "500ms", "-c", "1"];
    for (args, size) in [(&["--no-live"][..], (90, 30)), (&[], (30, 30)), (&[], (90, 5))] {
        let (output, code) = in_terminal(&[&load[..], args].concat(), size, false);
        assert_eq!(code, Some(0), "{output}");
        assert!(!output.contains(OPEN) && output.contains("\r\x1b[2K["), "{output:?}");
    }
}

#[test]
fn earlier_rounds_of_a_comparison_stay_on_the_screen() {
    let (_demo, url) = demo();
    let args = ["compare", &url, &url, "--rounds", "2", "-d", "500ms", "-c", "1"];
    let (output, code) = in_terminal(&args, (120, 30), false);
    assert_eq!(code, Some(0), "{output}");
    let (screen, report) = output.rsplit_once(CLOSE).unwrap();
    assert_eq!(screen.matches(OPEN).count(), 1, "the screen stays open between the rounds");
    let (_, screen) = screen.split_once(OPEN).unwrap();
    let updates = updates(screen, 120, 30);
    assert!(updates.iter().any(|update| update.contains("\nround 1: ")), "{updates:#?}");
    assert!(report.contains("2 rounds"), "{report}");
}
