//! Tests of the settings of the admin listener.

use super::*;

const DIGEST: &str = "sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";
const HASH: &str = "$2y$10$dGGXUJOVnuL1Np/cZJw9oebHuWep.Mm6TgDleeEAoOIaeqzUw/d7u";

/// Returns the line that `check` prints for an admin listener with `keys`, or the error.
fn admin(keys: &str) -> Result<String, String> {
    let rest = "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\ndemo = true\n";
    let config = resolved(&format!("{rest}[admin]\n{keys}\n"));
    config.map(|config| config.admin.unwrap().to_string()).map_err(|failure| failure.to_string())
}

/// Returns the keys of a local admin listener with `users`.
fn with_users(users: &str) -> String {
    format!("address = \"127.0.0.1:2\"\nauthentication.users = {{ {users} }}")
}

#[test]
fn local_admin_listener_needs_neither_tls_nor_users() {
    for address in ["127.0.0.1:2", "127.9.9.9:2", "[::1]:2", "unix:/run/a.sock"] {
        assert_eq!(admin(&format!("address = \"{address}\"")).as_deref(), Ok(address));
    }
    let users = format!("a = {{ role = \"read\", token_digest = \"{DIGEST}\" }}");
    assert_eq!(admin(&with_users(&users)).as_deref(), Ok("127.0.0.1:2, 1 users"));
}

#[test]
fn error_for_remote_admin_listener_names_the_missing_keys() {
    let users = format!("authentication.users.a = {{ role = \"read\", token_digest = \"{DIGEST}\" }}");
    let tls = "tls.certificates = [{ chain = \"none.pem\", key = \"none.key\" }]";
    for (keys, missing) in [
        (String::new(), Some("`tls` and `authentication`")),
        (users.clone(), Some("`tls`")),
        (tls.to_owned(), Some("`authentication`")),
        (format!("{tls}\n{users}"), None),
    ] {
        for address in ["0.0.0.0:2", "192.0.2.1:2", "[::]:2"] {
            let failure = admin(&format!("address = \"{address}\"\n{keys}")).unwrap_err();
            let Some(missing) = missing else {
                // Only the certificate is missing.
                assert!(!failure.contains("other machines") && failure.contains("none."), "{failure}");
                continue;
            };
            let message = format!("other machines can reach `{address}`, but `[admin]` lacks {missing}\n");
            let hint = "add both `[admin.tls]` (with `certificates`) and `[admin.authentication]`";
            assert!(failure.contains(&message) && failure.contains(hint), "{failure}");
        }
    }
}

#[test]
fn error_for_removed_key_names_its_replacement() {
    for value in ["true", "false"] {
        let failure = admin(&format!("address = \"127.0.0.1:2\"\nallow_remote = {value}")).unwrap_err();
        assert!(failure.contains("unknown key `allow_remote`"), "{failure}");
        assert!(failure.contains("needs `[admin.tls]` and `[admin.authentication]`"), "{failure}");
    }
}

#[test]
fn invalid_users_are_errors() {
    let token = format!("token_digest = \"{DIGEST}\"");
    for (users, message) in [
        (String::new(), "there are no users: set `users` or `users_file`"),
        ("a = { role = \"read\" }".to_owned(), "the user needs `password_hash` or `token_digest`"),
        (format!("a = {{ {token} }}"), "missing field `role`"),
        (format!("a = {{ role = \"admin\", {token} }}"), "unknown value `admin`"),
        (format!("\"a:b\" = {{ role = \"read\", {token} }}"), "this is not a valid user name"),
        (format!("\" a\" = {{ role = \"read\", {token} }}"), "this is not a valid user name"),
        ("a = { role = \"read\", password_hash = \"sesame\" }".to_owned(), "write a password hash"),
        (
            "a = { role = \"read\", password_hash = \"$$apr1$$x$$ro/6RlB/jB4ZRUA9qJm6A0\" }".to_owned(),
            "an MD5 hash is too weak for users of the admin listener: use bcrypt",
        ),
        ("a = { role = \"read\", token_digest = \"sesame\" }".to_owned(), "write the digest"),
        (format!("a = {{ role = \"read\", {token} }}, b = {{ role = \"operator\", {token} }}"), "same token"),
    ] {
        let failure = admin(&with_users(&users)).unwrap_err();
        assert!(failure.contains(message) && !failure.contains("sesame"), "{users}\n{failure}");
    }
}

#[test]
fn invalid_line_of_users_file_is_an_error_without_its_hash() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("users");
    let keys = format!(
        "address = \"127.0.0.1:2\"\nauthentication = {{ users_file = \"{}\", users = {{ own = {{ role = \"read\", token_digest = \"sha256:{}\" }} }} }}",
        file.display(),
        "0b".repeat(32)
    );
    let check = |text: String| {
        std::fs::write(&file, text).unwrap();
        admin(&keys)
    };
    assert_eq!(check(format!("a:read:{HASH}\na:read:{DIGEST}\n")).as_deref(), Ok("127.0.0.1:2, 2 users"));
    for (text, message) in [
        ("\na".to_owned(), "users`: write `NAME:ROLE:HASH`"),
        (format!("a:{HASH}"), "users`: the role must be `read` or `operator`"),
        (format!("a:admin:{HASH}"), "users`: the role must be `read` or `operator`"),
        ("a:read:sesame".to_owned(), "users`: write a password hash"),
        ("a:read:$apr1$x$ro/6RlB/jB4ZRUA9qJm6A0".to_owned(), "users`: an MD5 hash is too weak"),
        ("a:read:sha256:sesame".to_owned(), "users`: write the digest of the key"),
        (format!("a:read:{HASH}\na:operator:{DIGEST}"), "the user `a` has two roles"),
        (format!("own:operator:{HASH}"), "the user `own` has two roles"),
        (format!("a:read:{HASH}\na:read:{HASH}"), "the user `a` has two passwords"),
        (format!("a:read:{DIGEST}\nb:read:{DIGEST}"), "`a` and `b` have the same token"),
    ] {
        let failure = check(text).unwrap_err();
        assert!(failure.contains(message), "{message}: {failure}");
        assert!(!failure.contains("sesame") && !failure.contains(HASH), "{failure}");
    }
}

#[test]
fn hashes_of_users_are_masked() {
    let text = "[admin]\nauthentication.users = { a = { role = \"read\", password_hash = \"sesame\" }, \
                b = { role = \"read\", token_digest = \"sesame\", password = \"sesame\" } }\n\
                [admin.authentication.user]\nc = \"sesame\"\n";
    let shown = secrets::hidden(text);
    assert!(!shown.contains("sesame") && shown.contains("role = \"read\""), "{shown}");
}
