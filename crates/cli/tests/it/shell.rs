//! Tests of shell completions and manual pages.

use std::process::Command;

fn thruway(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_thruway")).args(args).output().unwrap()
}

#[test]
fn completions_exist_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = thruway(&["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("bridge"), "{shell}");
    }
    assert_eq!(thruway(&["completions", "unknown"]).status.code(), Some(2));
}

#[test]
fn man_command_writes_manual_pages() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    assert!(thruway(&["man", pages.to_str().unwrap()]).status.success());
    let page = std::fs::read_to_string(pages.join("thruway-mcp-bridge.1")).unwrap();
    assert!(page.starts_with(".ie") && page.contains("Exit codes"), "{page}");
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(thruway(&["man", file.to_str().unwrap()]).status.code(), Some(2));
}
