//! Tests of new projects. The template is a test program of its own, `template`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use thruway_mcp_dev::{CrateSource, NewProject};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn project(parent: &Path, crates: CrateSource) -> NewProject {
    NewProject { name: "my-notes".parse().unwrap(), parent: parent.to_owned(), crates }
}

fn manifest(directory: &Path) -> toml::Table {
    fs::read_to_string(directory.join("Cargo.toml")).unwrap().parse().unwrap()
}

#[test]
fn project_depends_on_the_registry_or_on_a_checkout() {
    let parent = tempfile::tempdir().unwrap();
    let directory = project(parent.path(), CrateSource::Registry).create().unwrap();
    let written = manifest(&directory);
    assert_eq!(written["package"]["name"].as_str(), Some("my-notes"));
    assert_eq!(written["dependencies"]["thruway-mcp-sdk"].as_str(), Some(env!("CARGO_PKG_VERSION")));
    assert!(!written.contains_key("patch"));
    assert!(fs::read_to_string(directory.join("README.md")).unwrap().starts_with("# my-notes\n"));
    fs::remove_dir_all(&directory).unwrap();

    let directory = project(parent.path(), CrateSource::Checkout(repository())).create().unwrap();
    let written = manifest(&directory);
    let server = written["dependencies"]["thruway-server"]["path"].as_str().unwrap();
    assert!(Path::new(server).is_absolute() && Path::new(server).join("Cargo.toml").is_file(), "{server}");
    let h2 = written["patch"]["crates-io"]["h2"]["path"].as_str().unwrap();
    assert!(Path::new(h2).join("Cargo.toml").is_file(), "{h2}");
}

#[test]
fn path_of_a_checkout_is_quoted() {
    let parent = tempfile::tempdir().unwrap();
    let checkout = parent.path().join("a \"b\\ '''c");
    fs::create_dir_all(checkout.join("crates/mcp-sdk")).unwrap();
    fs::write(checkout.join("crates/mcp-sdk/Cargo.toml"), "").unwrap();
    let directory = project(parent.path(), CrateSource::Checkout(checkout.clone())).create().unwrap();
    let sdk = manifest(&directory)["dependencies"]["thruway-mcp-sdk"]["path"].as_str().unwrap().to_owned();
    assert_eq!(Path::new(&sdk), fs::canonicalize(checkout).unwrap().join("crates/mcp-sdk"));
}

#[test]
fn existing_files_are_never_changed() {
    let parent = tempfile::tempdir().unwrap();
    let existing = parent.path().join("my-notes");
    for is_directory in [true, false] {
        if is_directory {
            fs::create_dir(&existing).unwrap();
        } else {
            fs::remove_dir(&existing).unwrap();
            fs::write(&existing, "mine").unwrap();
        }
        let error = project(parent.path(), CrateSource::Registry).create().unwrap_err();
        assert!(error.to_string().ends_with("my-notes` already exists"), "{error}");
        assert!(error.hint().unwrap().contains("--in DIR"));
    }
    assert_eq!(fs::read_to_string(&existing).unwrap(), "mine");
}

#[test]
fn failed_creation_leaves_no_directory() {
    let parent = tempfile::tempdir().unwrap();
    let error = project(&parent.path().join("missing"), CrateSource::Registry).create().unwrap_err();
    assert!(error.to_string().starts_with("cannot write `"), "{error}");
    for (checkout, reason) in [("missing", "cannot open the checkout `"), (".", "has no `crates/mcp-sdk`")] {
        let checkout = CrateSource::Checkout(parent.path().join(checkout));
        let error = project(parent.path(), checkout).create().unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

/// Builds a project with the crates of this repository, and runs its tests. Uses the lock file of the
/// repository, so that the test needs no network.
#[test]
#[ignore = "a build takes minutes; continuous integration runs this test"]
fn new_project_builds_and_passes_its_tests() {
    let parent = tempfile::tempdir().unwrap();
    let directory = project(parent.path(), CrateSource::Checkout(repository())).create().unwrap();
    fs::copy(repository().join("Cargo.lock"), directory.join("Cargo.lock")).unwrap();
    // With the profiles of the repository, the build can use its compiled dependencies.
    let text = fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let profiles = &text[text.find("[profile.dev]").unwrap()..];
    let manifest = fs::read_to_string(directory.join("Cargo.toml")).unwrap();
    fs::write(directory.join("Cargo.toml"), manifest + "\n" + profiles).unwrap();
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    let output = Command::new(env!("CARGO"))
        .args(["test", "--offline", "--quiet"])
        .current_dir(&directory)
        .env("CARGO_TARGET_DIR", fs::canonicalize(target).unwrap())
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("2 passed") && !text.contains("warning:"), "{text}");
}
