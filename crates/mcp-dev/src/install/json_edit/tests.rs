//! Tests of changes to JSON files.

use serde_json::json;

use super::*;

fn entry() -> Value {
    json!({"command": "notes", "args": ["--all"]})
}

fn set_in(text: &str) -> String {
    set(text, "mcpServers", "notes", &entry()).unwrap().unwrap()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(without_comments(text).trim_matches(is_blank)).unwrap()
}

#[test]
fn empty_file_gets_the_section_and_the_entry() {
    let expected = "{\n  \"mcpServers\": {\n    \"notes\": {\n      \"command\": \"notes\",\n      \"args\": [\n        \
                    \"--all\"\n      ]\n    }\n  }\n}\n";
    for text in ["", " \n", "\u{feff}"] {
        assert_eq!(set_in(text), expected);
    }
    assert_eq!(set_in("{}\n"), expected);
}

#[test]
fn other_entries_keep_their_bytes() {
    let text =
        "{\n\t\"theme\" : 1e400,\n\t\"mcpServers\": {\n\t\t\"a\": {\"big\": 12345678901234567890123}\n\t}\n}";
    let written = set_in(text);
    assert!(written.starts_with(&text[..text.find("\n\t}").unwrap()]), "{written}");
    assert!(written.contains("},\n\t\t\"notes\": {\n\t\t\t\"command\": \"notes\""), "{written}");
    assert_eq!(remove(&written, "mcpServers", "notes").unwrap().unwrap(), text);
}

#[test]
fn same_entry_changes_nothing() {
    for text in ["", "{}", "{\"mcpServers\":{}}", "{\"mcpServers\":{\"a\":{}}}", "{\"other\":1}"] {
        let written = set_in(text);
        assert_eq!(parsed(&written)["mcpServers"]["notes"], entry());
        assert_eq!(set(&written, "mcpServers", "notes", &entry()), Ok(None), "{written}");
    }
}

#[test]
fn changed_entry_is_replaced() {
    let text = "{\"mcpServers\": {\"notes\": {\"command\": \"old\"}, \"z\": 1}, \"y\": 2}";
    let written = parsed(&set_in(text));
    assert_eq!(written, json!({"mcpServers": {"notes": entry(), "z": 1}, "y": 2}));
}

#[test]
fn comments_and_trailing_commas_survive() {
    let text = "// top\n{\n  \"mcpServers\": {\n    // first\n    \"a\": {\"url\": \"http://x//y\"}, /* \"b\": 1, */ // a\n  },\n}";
    let written = set_in(text);
    assert!(written.contains("/* \"b\": 1, */ // a") && written.starts_with("// top\n"), "{written}");
    assert_eq!(parsed(&written)["mcpServers"]["notes"], entry());
    assert_eq!(parsed(&written)["mcpServers"]["a"], json!({"url": "http://x//y"}));
    for end in ["", ","] {
        let text = format!("{{\"mcpServers\": {{\n    \"a\": 1{end} // about a\n  }}}}");
        let written = set_in(&text);
        assert!(written.contains("\"a\": 1, // about a\n        \"notes\": {"), "{written}");
        assert_eq!(parsed(&written)["mcpServers"]["notes"], entry());
    }
}

#[test]
fn comment_in_an_empty_object_survives() {
    let written = set_in("{\n  \"mcpServers\": {\n    // none yet\n  }\n}");
    assert!(
        written.contains("// none yet") && parsed(&written)["mcpServers"]["notes"] == entry(),
        "{written}"
    );
}

#[test]
fn removal_keeps_the_other_entries() {
    let text = "{\"s\": {\"a\": 1, \"b\": {\"x\": [2]}, \"c\": 3}, \"t\": 4}";
    for (name, rest) in [
        ("a", json!({"b": {"x": [2]}, "c": 3})),
        ("b", json!({"a": 1, "c": 3})),
        ("c", json!({"a": 1, "b": {"x": [2]}})),
    ] {
        let written = remove(text, "s", name).unwrap().unwrap();
        assert_eq!(parsed(&written), json!({"s": rest, "t": 4}), "{written}");
    }
    assert_eq!(remove("{\"s\": { \"a\": 1 }}", "s", "a").unwrap().unwrap(), "{\"s\": {}}");
    for text in ["", "{}", "{\"s\": {}}", "{\"s\": {\"b\": 1}}"] {
        assert_eq!(remove(text, "s", "a"), Ok(None), "{text}");
    }
}

#[test]
fn removal_keeps_the_comment_of_the_entry_before() {
    for (text, expected) in [
        ("{\"a\": 1, // a\n \"b\": 2\n}", "{\"a\": 1, // a\n}"),
        ("{\"a\": 1, // a\n \"b\": 2}", "{\"a\": 1, // a\n}"),
        ("{\"a\": 1, // a\n \"b\": 2,\n}", "{\"a\": 1, // a\n}"),
        ("{\"a\": 1, // a\n \"b\": 2,\n \"c\": 3}", "{\"a\": 1, // a\n \"c\": 3}"),
        ("{\"a\": 1, // a\n \"b\": 2, \"c\": 3}", "{\"a\": 1, // a\n \"c\": 3}"),
    ] {
        let written = remove(&format!("{{\"s\": {text}}}"), "s", "b").unwrap().unwrap();
        assert_eq!(written, format!("{{\"s\": {expected}}}"));
        assert!(parsed(&written)["s"].get("a").is_some());
    }
}

#[test]
fn change_that_would_lose_a_comment_is_refused() {
    let text = "{\"s\": {\"a\": {\"x\": 1 /* why */}, // about a\n \"b\": 2}}";
    assert_eq!(set(text, "s", "a", &entry()), Err(EditError::CommentInTheWay));
    assert_eq!(remove(text, "s", "a"), Err(EditError::CommentInTheWay));
    let text = "{\"s\": {\"a\": 1 // about a\n, \"b\": 2}}";
    assert_eq!(remove(text, "s", "b"), Err(EditError::CommentInTheWay));
    let text = "{\"s\": {\"a\": 1, // about a\n \"b\": 2 /* b */, \"c\": 3}}";
    assert_eq!(remove(text, "s", "b"), Err(EditError::CommentInTheWay));
}

#[test]
fn files_with_another_structure_are_refused() {
    for (text, reason) in [
        ("[]", EditError::NotAnObject(String::new())),
        ("1", EditError::NotAnObject(String::new())),
        ("{\"s\": []}", EditError::NotAnObject("s".into())),
        ("{\"s\": {}, \"s\": {}}", EditError::RepeatedName("s".into())),
        ("{\"s\": {\"a\": 1, \"a\": 2}}", EditError::RepeatedName("a".into())),
    ] {
        assert_eq!(set(text, "s", "a", &entry()), Err(reason.clone()), "{text}");
        assert_eq!(remove(text, "s", "a"), Err(reason), "{text}");
    }
    for text in ["{", "{\"s\": }", "/* {}", "{} {}", "{'s': 1}", "\"", "{\"a\\", "/"] {
        assert!(matches!(set(text, "s", "a", &entry()), Err(EditError::NotJson(_))), "{text}");
    }
}

#[test]
fn names_are_escaped() {
    let written = set("{\"a\\u0062\": {}}", "ab", "x\"\n", &entry()).unwrap().unwrap();
    assert_eq!(parsed(&written), json!({"ab": {"x\"\n": entry()}}));
}
