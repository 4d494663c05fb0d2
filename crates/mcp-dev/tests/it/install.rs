//! Tests of entries in the configs of applications, with a temporary home directory.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};
use thruway_mcp_dev::{Application, ConfigChange, Places, Plan, Scope, ServerEntry, ServerTarget};

fn places(root: &Path) -> Places {
    Places {
        home: root.join("home"),
        project: root.join("project"),
        file: None,
        xdg_config: Some(root.join("home/.config")),
        program: "/opt/thruway".into(),
    }
}

fn command(name: &str) -> ConfigChange {
    let target = ServerTarget::Command {
        program: "/opt/notes".into(),
        args: vec!["--all".into()],
        env: vec![("KEY".into(), "secret".into())],
    };
    ConfigChange::Set(ServerEntry { name: name.into(), target })
}

fn url(headers: &[(&str, &str)]) -> ConfigChange {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let target = ServerTarget::Url { url: "https://docs.example/mcp".into(), headers };
    ConfigChange::Set(ServerEntry { name: "docs".into(), target })
}

fn apply(root: &Path, application: Application, scope: Scope, change: &ConfigChange) -> Value {
    let plan = Plan::new(application, scope, &places(root), change).unwrap();
    let path = plan.path().to_owned();
    plan.apply().unwrap();
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn error(root: &Path, application: Application, scope: Scope, change: &ConfigChange) -> (String, String) {
    let error = Plan::new(application, scope, &places(root), change).unwrap_err();
    (error.to_string(), error.hint().unwrap_or_default().to_owned())
}

#[test]
fn each_application_gets_its_own_format() {
    let root = tempfile::tempdir().unwrap();
    let env = json!({"KEY": "secret"});
    let entry = json!({"command": "/opt/notes", "args": ["--all"], "env": env});
    let code = json!({"type": "stdio", "command": "/opt/notes", "args": ["--all"], "env": env});
    for (application, scope, expected) in [
        (Application::ClaudeDesktop, Scope::User, json!({"mcpServers": {"notes": entry}})),
        (Application::Cursor, Scope::User, json!({"mcpServers": {"notes": entry}})),
        (Application::Cursor, Scope::Project, json!({"mcpServers": {"notes": entry}})),
        (Application::VsCode, Scope::User, json!({"servers": {"notes": code}})),
        (Application::VsCode, Scope::Project, json!({"servers": {"notes": code}})),
    ] {
        assert_eq!(apply(root.path(), application, scope, &command("notes")), expected, "{application:?}");
    }
    for file in [
        "home/.config/Claude/claude_desktop_config.json",
        "home/.config/Code/User/mcp.json",
        "home/.cursor/mcp.json",
        "project/.cursor/mcp.json",
        "project/.vscode/mcp.json",
    ] {
        let mode = fs::metadata(root.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file} may contain secrets");
    }
}

#[test]
fn servers_with_urls_have_the_format_of_the_application() {
    let root = tempfile::tempdir().unwrap();
    let with_header = url(&[("X-Key", "secret")]);
    let written = apply(root.path(), Application::VsCode, Scope::User, &with_header);
    let expected = json!({"type": "http", "url": "https://docs.example/mcp", "headers": {"X-Key": "secret"}});
    assert_eq!(written["servers"]["docs"], expected);
    let written = apply(root.path(), Application::Cursor, Scope::User, &url(&[]));
    assert_eq!(written["mcpServers"]["docs"], json!({"url": "https://docs.example/mcp"}));
    let written = apply(root.path(), Application::ClaudeDesktop, Scope::User, &url(&[]));
    let args = json!(["mcp", "bridge", "https://docs.example/mcp", "--login"]);
    assert_eq!(written["mcpServers"]["docs"], json!({"command": "/opt/thruway", "args": args}));
    let (error, _) = error(root.path(), Application::ClaudeDesktop, Scope::User, &with_header);
    assert_eq!(error, "the config of Claude Desktop cannot contain headers");
}

#[test]
fn other_entries_and_the_backup_survive() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("project/.vscode/mcp.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let before = "{\n    // our servers\n    \"servers\": {\n        \"a\": {\"url\": \"http://a\"}, // a\n    },\n    \"inputs\": []\n}\n";
    fs::write(&path, before).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    // The backup must not follow a link that the project contains.
    let victim = root.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    symlink(&victim, root.path().join("project/.vscode/mcp.json.thruway-backup")).unwrap();
    let plan =
        |change: &ConfigChange| Plan::new(Application::VsCode, Scope::Project, &places(root.path()), change);
    let written = plan(&command("notes")).unwrap().apply().unwrap();
    let backup = written.backup.unwrap();
    assert_eq!(
        (fs::read_to_string(&backup).unwrap(), fs::read_to_string(&victim).unwrap()),
        (before.into(), "mine".into())
    );
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with(&before[..before.find("\n    },").unwrap()]), "{text}");
    assert!(text.contains("\n        \"notes\": {\n            \"type\": \"stdio\","), "{text}");
    for file in [&path, &backup] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o640, "{}", file.display());
    }
    // The second run changes nothing.
    let again = plan(&command("notes")).unwrap();
    assert!(!again.has_change() && again.describe().ends_with("already contains this entry\n"));
    assert_eq!(again.apply().unwrap().backup, None);
    let remove = ConfigChange::Remove("notes".into());
    plan(&remove).unwrap().apply().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    assert!(!plan(&remove).unwrap().has_change());
}

#[test]
fn link_to_a_config_stays_a_link() {
    let root = tempfile::tempdir().unwrap();
    let real = root.path().join("dotfiles.json");
    fs::write(&real, "{}").unwrap();
    let link = root.path().join("home/.cursor/mcp.json");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink(&real, &link).unwrap();
    apply(root.path(), Application::Cursor, Scope::User, &command("notes"));
    assert!(link.is_symlink() && fs::read_to_string(&real).unwrap().contains("/opt/notes"));
    fs::remove_file(&real).unwrap();
    let (message, _) = error(root.path(), Application::Cursor, Scope::User, &command("notes"));
    assert!(message.starts_with("cannot read `"), "a link without a file is an error: {message}");
}

#[test]
fn planned_change_is_not_written() {
    let root = tempfile::tempdir().unwrap();
    let plan = Plan::new(Application::Cursor, Scope::User, &places(root.path()), &command("notes")).unwrap();
    let text = plan.describe();
    assert!(
        plan.has_change() && text.contains(".cursor/mcp.json, in `mcpServers`:\n\"notes\": {\n  \"command\""),
        "{text}"
    );
    drop(plan);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn file_that_changed_meanwhile_is_not_overwritten() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("home/.cursor/mcp.json");
    for before in [None, Some("{}")] {
        if let Some(before) = before {
            fs::write(&path, before).unwrap();
        }
        let plan =
            Plan::new(Application::Cursor, Scope::User, &places(root.path()), &command("notes")).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "{\"theirs\": 1}").unwrap();
        let error = plan.apply().unwrap_err().to_string();
        assert!(
            error.ends_with("another program has just changed the file; run the command again"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"theirs\": 1}");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file remains");
    }
}

#[test]
fn invalid_files_are_refused_with_the_entry_to_paste() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("home/.cursor/mcp.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    for (text, reason) in [
        ("{\"mcpServers\": ", "is not JSON: EOF while parsing"),
        ("[]", "does not contain a JSON object"),
        ("{\"mcpServers\": 5}", "`mcpServers` in `"),
        ("{\"mcpServers\": {\"notes\": {/* why */}}}", "has a comment at the entry"),
        ("{\"mcpServers\": {}, \"mcpServers\": {}}", "contains `mcpServers` more than once"),
    ] {
        fs::write(&path, text).unwrap();
        let (message, hint) = error(root.path(), Application::Cursor, Scope::User, &command("notes"));
        assert!(message.contains(reason), "{message}");
        assert!(hint.contains("\"notes\": {\n  \"command\": \"/opt/notes\""), "{hint}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    fs::write(&path, [0xff]).unwrap();
    let (message, _) = error(root.path(), Application::Cursor, Scope::User, &command("notes"));
    assert!(message.starts_with("cannot read `") && message.contains("UTF-8"), "{message}");
    fs::write(&path, " ".repeat((4 << 20) + 1)).unwrap();
    let (message, _) = error(root.path(), Application::Cursor, Scope::User, &command("notes"));
    assert!(message.ends_with("it is larger than 4 MiB"), "{message}");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let (message, _) = error(root.path(), Application::Cursor, Scope::User, &command("notes"));
    assert!(message.ends_with("it is not a regular file"), "{message}");
}

#[test]
fn invalid_names_and_scopes_are_refused() {
    let root = tempfile::tempdir().unwrap();
    for name in ["", "a b", "a\u{1b}", "ä", &"a".repeat(65)] {
        let (message, hint) = error(root.path(), Application::Cursor, Scope::User, &command(name));
        assert!(message.ends_with("is not a server name") && !message.contains('\u{1b}'), "{message}");
        assert!(hint.starts_with("a server name has 1 to 64 letters"));
    }
    let other = Places { file: Some(root.path().join("other.json")), ..places(root.path()) };
    Plan::new(Application::ClaudeDesktop, Scope::User, &other, &command("notes")).unwrap().apply().unwrap();
    assert!(root.path().join("other.json").is_file());
    let (message, _) = error(root.path(), Application::ClaudeDesktop, Scope::Project, &command("notes"));
    assert_eq!(message, "Claude Desktop has no config for projects");
}
