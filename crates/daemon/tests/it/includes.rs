//! Tests of the key `include`: the files of a config, their order, their errors, and reloads.

use std::fs;

use tempfile::TempDir;
use thruway_daemon::{Daemon, Finding, check};

use crate::client::{address_of, end, get};

const MAIN: &str = "include = [\"conf.d/*.toml\"]\nworkers = 1\n[[listeners]]\naddress = \"127.0.0.1:0\"\n";

/// Returns a directory with the file `main.toml` and with `files`.
fn directory_of(main: &str, files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("conf.d")).unwrap();
    for (name, text) in [("main.toml", main)].iter().chain(files) {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

fn start(directory: &TempDir) -> Daemon {
    Daemon::from_file(directory.path().join("main.toml")).unwrap()
}

/// Returns the findings about a config, and the text of all findings without the path of the directory.
fn findings_of(main: &str, files: &[(&str, &str)]) -> (Vec<Finding>, String) {
    let directory = directory_of(main, files);
    let failure = Daemon::from_file(directory.path().join("main.toml")).unwrap_err();
    let text = failure.to_string().replace(&format!("{}/", directory.path().display()), "");
    (failure.findings().to_vec(), text)
}

/// Returns a route that responds with `body`.
fn route(path: &str, body: &str) -> String {
    format!("[[routes]]\npath = \"{path}\"\nrespond.body = \"{body}\"\n")
}

#[test]
fn files_of_a_pattern_add_their_routes_in_the_order_of_their_names() {
    let b = "[[routes]]\npath = \"/\"\nmethods = [\"GET\"]\nrespond.body = \"b\"\n";
    let a = "[[routes]]\npath = \"/\"\nheaders = { Host = true }\nrespond.body = \"a\"\n";
    let files = [
        ("conf.d/b.toml", b),
        ("conf.d/a.toml", a),
        ("conf.d/c.txt", "no TOML"),
        ("conf.d/.d.toml", "x = 1"),
    ];
    let directory = directory_of(&format!("{MAIN}{}", route("/x", "main")), &files);
    let daemon = start(&directory);
    // Both routes have one condition, so the first file wins.
    assert_eq!(get(&address_of(&daemon), "/").1, "a");
    assert_eq!(get(&address_of(&daemon), "/x").1, "main");
    end(daemon);
}

#[test]
fn sections_of_named_objects_are_joined() {
    let main =
        format!("{MAIN}[upstreams.a]\nservers = [\"127.0.0.1:9\"]\n[policies.p]\nallow = [\"10.0.0.0/8\"]\n");
    let file = "[[routes]]\npath = \"/\"\nupstream = \"b\"\npolicies = [\"p\"]\n[[routes]]\npath = \"/a\"\nupstream = \"a\"\n\
                [upstreams.b]\nservers = [\"127.0.0.1:8\"]\n[limits]\nheader_bytes = 1024\n[[listeners]]\naddress = \"127.0.0.2:0\"\n";
    let directory = directory_of(&main, &[("conf.d/a.toml", file)]);
    let checked = check(&directory.path().join("main.toml"), true).unwrap();
    for line in ["listens on 127.0.0.2:0", "upstream a: 127.0.0.1:9", "upstream b: 127.0.0.1:8", "policy p:"]
    {
        assert!(checked.description.contains(line), "{}", checked.description);
    }
}

#[test]
fn reload_notices_changed_new_and_removed_files() {
    let directory = directory_of(MAIN, &[("conf.d/a.toml", &*route("/", "one"))]);
    let daemon = start(&directory);
    let address = address_of(&daemon);
    assert_eq!(get(&address, "/").1, "one");
    fs::write(directory.path().join("conf.d/a.toml"), route("/", "two")).unwrap();
    fs::write(directory.path().join("conf.d/b.toml"), route("/b", "new")).unwrap();
    daemon.reload().unwrap();
    assert_eq!((get(&address, "/").1, get(&address, "/b").1), ("two".to_owned(), "new".to_owned()));
    fs::remove_file(directory.path().join("conf.d/b.toml")).unwrap();
    daemon.reload().unwrap();
    assert_eq!(get(&address, "/b").1, "two");
    fs::write(directory.path().join("conf.d/a.toml"), "[[routes]]\npath = 5\n").unwrap();
    let failure = daemon.reload().unwrap_err().to_string();
    assert!(failure.contains("conf.d/a.toml:2:8"), "{failure}");
    assert_eq!(get(&address, "/").1, "two");
    end(daemon);
}

#[test]
fn errors_show_the_included_file_and_its_line() {
    for (text, line, message) in [
        ("[[routes]]\npath = \"/\"\nupstrem = \"a\"\n", 3, "unknown key `upstrem`"),
        ("[[routes]]\npath = \"/\"\nupstream = \"a\"\n", 3, "there is no upstream `a`"),
        ("[[routes]]\npath = \"x\"\ndemo = true\n", 2, "a path begins with `/`"),
        ("[[routes]]\npath = \n", 2, ""),
        ("# ä\n[[routes]]\npath = \"/\"\ndemo = 5\n", 4, "invalid type"),
        ("workers = \"${THRUWAY_TEST_UNSET_VARIABLE}\"\n", 1, "THRUWAY_TEST_UNSET_VARIABLE"),
    ] {
        let main = MAIN.replace("workers = 1\n", "");
        let (findings, shown) =
            findings_of(&main, &[("conf.d/0.toml", "# first\n"), ("conf.d/a.toml", text)]);
        let finding = findings
            .iter()
            .find(|finding| finding.file().is_some_and(|file| file.ends_with("conf.d/a.toml")));
        let finding = finding.unwrap_or_else(|| panic!("{shown}"));
        assert_eq!(finding.line(), Some(line), "{shown}");
        assert!(
            finding.to_string().contains(message) && shown.contains(&format!("conf.d/a.toml:{line}:")),
            "{shown}"
        );
    }
}

#[test]
fn key_or_name_in_two_files_is_an_error_that_shows_both() {
    let upstream = "[upstreams.a]\nservers = [\"127.0.0.1:9\"]\n";
    for (main, file, message, hint) in [
        ("", "workers = 2\n", "another file also sets `workers`", "hint: set `workers` in one file only"),
        (upstream, upstream, "another file has the upstream `a`", "hint: give each upstream its own name"),
        (
            "[limits]\nheader_bytes = 1024\n",
            "[limits]\n",
            "another file also sets `limits`",
            "in one file only",
        ),
        (
            "",
            "[listeners]\naddress = \"127.0.0.1:0\"\n",
            "`listeners` is an array of tables",
            "hint: write `[[listeners]]`",
        ),
        (
            "",
            "include = [\"b.toml\"]\n",
            "an included file cannot include other files",
            "hint: add the pattern to `include` of",
        ),
    ] {
        let (findings, shown) =
            findings_of(&format!("{MAIN}{main}"), &[("conf.d/a.toml", &*format!("\n{file}"))]);
        assert!(shown.contains(message) && shown.contains(hint), "{shown}");
        assert!(findings[0].file().unwrap().ends_with("conf.d/a.toml"), "{shown}");
        assert!(message.contains("include") || shown.contains(" main.toml:"), "{shown}");
    }
    let routes = format!("{MAIN}{}", route("/", "main"));
    let (_, shown) = findings_of(&routes, &[("conf.d/a.toml", &*format!("\n{}", route("/", "a")))]);
    assert!(
        shown.contains("no request reaches this route") && shown.contains("conf.d/a.toml:2:1"),
        "{shown}"
    );
    assert!(shown.contains("main.toml:5:1") && shown.contains("this route matches all requests"), "{shown}");
}

#[test]
fn invalid_patterns_are_errors() {
    for (include, message) in [
        ("\"a.toml\"", "invalid type: string, expected an array"),
        ("[5]", "invalid type: integer `5`, expected a string"),
        ("[\"missing.toml\"]", "cannot read `missing.toml`"),
        ("[\"missing/*.toml\"]", "cannot read the directory `missing`"),
        ("[\"*/a.toml\"]", "`*` is only possible in the name of the file"),
        ("[\"conf.d\"]", "cannot read `conf.d`"),
        ("[\"\"]", "`` is not the name of a file"),
        ("[\"..\"]", "`..` is not the name of a file"),
    ] {
        let main = MAIN.replace("[\"conf.d/*.toml\"]", include);
        let (findings, shown) = findings_of(&format!("{main}{}", route("/", "")), &[]);
        assert!(shown.contains(message), "{include}: {shown}");
        assert_eq!(findings[0].line(), Some(1), "{shown}");
    }
}

#[test]
fn no_file_is_included_twice() {
    let main = MAIN.replace("conf.d/*.toml", "conf.d/b.toml\", \"conf.d/../conf.d/*.toml\", \"*.toml");
    let (a, b) = (route("/a", "a"), route("/b", "b"));
    let daemon = start(&directory_of(&main, &[("conf.d/a.toml", &*a), ("conf.d/b.toml", &*b)]));
    assert_eq!(get(&address_of(&daemon), "/a").1, "a");
    end(daemon);
}

#[test]
fn admin_listener_shows_included_files_without_secrets() {
    let main = format!("{MAIN}[admin]\naddress = \"127.0.0.1:0\"\n{}", route("/", ""));
    let digest = "5e".repeat(32);
    let key =
        format!("[policies.k.api_keys]\nheader = \"X-Key\"\nkeys = {{ robot = \"sha256:{digest}\" }}\n");
    let directory = directory_of(&main, &[("conf.d/a.toml", &*key)]);
    let daemon = start(&directory);
    let document = get(&daemon.admin_addresses()[0], "/config").1;
    end(daemon);
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert!(document["included"][0]["file"].as_str().unwrap().ends_with("conf.d/a.toml"));
    assert!(document["included"][0]["text"].as_str().unwrap().starts_with("[policies.k.api_keys]\n"));
    assert!(!document.to_string().contains(&digest), "{document}");
    // The warning about the unused policy has the position in the included file.
    let finding = &document["findings"][0];
    assert!(finding["file"].as_str().unwrap().ends_with("conf.d/a.toml"), "{document}");
    assert_eq!(finding["line"], 1);
}
