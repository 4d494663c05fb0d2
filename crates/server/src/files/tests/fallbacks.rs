//! Tests of files to try, of directory lists and of additional media types.

use super::*;

fn handler(files: Files) -> Arc<dyn Handler> {
    Arc::new(Router::new().mount("/", files))
}

#[test]
fn first_existing_candidate_is_the_response() {
    let site = Site::new(&[
        ("index.html", "app"),
        ("about.html", "about"),
        ("docs/index.html", "docs"),
        ("empty/a.txt", "a"),
        ("assets/a.js", "script"),
        (".hidden.html", "hidden"),
    ]);
    let files = site.files().try_files(["{path}", "{path}.html", "/index.html"]).unwrap();
    let handler = handler(files);
    for (target, expected) in [
        ("/", "app"),
        ("/about", "about"),
        ("/about.html", "about"),
        ("/assets/a.js", "script"),
        ("/docs/", "docs"),
        ("/users/5?a=b", "app"),
        ("/about/", "app"),
        ("/about/x", "app"),
        ("/empty", "app"),
        ("/empty/", "app"),
        ("/a%2Fb", "app"),
        ("/../etc/passwd", "app"),
        ("/.hidden", "app"),
        ("/.hidden.html", "app"),
    ] {
        let reply = get(&handler, target, &[]);
        assert_eq!((reply.status(), reply.text()), (200, expected), "{target}");
    }
    let reply = get(&handler, "/docs", &[]);
    assert_eq!((reply.status(), reply.field("Location")), (301, "/docs/"));
    let about = get(&handler, "/about", &[]);
    assert_eq!(about.field("Content-Type"), "text/html; charset=utf-8");
    let known = get(&handler, "/about", &[("If-None-Match", about.field("ETag"))]);
    assert_eq!(known.status(), 304);
    assert_eq!(request(&handler, "POST", "/about", &[]).status(), 405);
}

#[test]
fn request_without_an_existing_candidate_gets_404() {
    let site = Site::new(&[("docs/about.html", "about"), ("docs/index.html", "docs")]);
    let handler = handler(site.files().try_files(["{path}/index.html", "{path}.html"]).unwrap());
    for (target, status) in
        [("/docs", 200), ("/docs/about", 200), ("/docs/", 200), ("/", 404), ("/none", 404), ("/%", 404)]
    {
        assert_eq!(get(&handler, target, &[]).status(), status, "{target}");
    }
}

#[test]
fn candidate_cannot_leave_root() {
    let outside = Site::new(&[("secret.html", "secret")]);
    let site = Site::new(&[]);
    symlink(outside.path("secret.html"), site.path("link.html")).unwrap();
    let handler = handler(site.files().try_files(["{path}.html", "/link.html"]).unwrap());
    assert_eq!(get(&handler, "/link", &[]).status(), 404);
    for text in [
        "index.html",
        "",
        "/",
        "/a/",
        "/../a",
        "{path}/../a",
        "{path}/..",
        "/{path}",
        "{rest}",
        "/.a",
        "/a\\b",
    ] {
        assert!(Files::check_candidate(text, false).is_err(), "{text}");
    }
    for text in ["{path}", "{path}.html", "{path}/index.html", "/index.html", "/50%.html", "/a/b.html"] {
        assert!(Files::check_candidate(text, false).is_ok(), "{text}");
    }
    assert!(Files::check_candidate("/.a", true).is_ok());
}

#[test]
fn directory_list_is_sorted_and_escaped() {
    let site = Site::new(&[
        ("a/b.txt", "12345"),
        ("a/<script>&\"'.txt", ""),
        ("a/javascript:alert(1)", ""),
        ("a/\u{e9} %.txt", ""),
        ("a/z/x", ""),
        ("a/.hidden", ""),
        ("a/c/index.html", "index"),
    ]);
    symlink("b.txt", site.path("a/link")).unwrap();
    UnixListener::bind(site.path("a/socket")).unwrap();
    let listed = handler(site.files().listing(true));
    let reply = get(&listed, "/a/", &[]);
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.field("Content-Type"), "text/html; charset=utf-8");
    assert!(reply.field("Content-Security-Policy").starts_with("default-src 'none'"));
    let links: Vec<_> = reply.text().split("<a href=\"").skip(1).collect();
    let links: Vec<_> = links.iter().map(|link| link.split("</a>").next().unwrap()).collect();
    assert_eq!(
        links,
        [
            "../\">../",
            "./c/\"><bdi>c</bdi>/",
            "./z/\"><bdi>z</bdi>/",
            "./%3Cscript%3E%26%22%27.txt\"><bdi>&lt;script&gt;&amp;&quot;&#39;.txt</bdi>",
            "./b.txt\"><bdi>b.txt</bdi>",
            "./javascript%3Aalert%281%29\"><bdi>javascript:alert(1)</bdi>",
            "./link\"><bdi>link</bdi>",
            "./%C3%A9%20%25.txt\"><bdi>\u{e9} %.txt</bdi>",
        ]
    );
    assert!(reply.text().contains("<td>5</td><td>Sun, 06 Nov 1994 08:49:37 GMT</td>"), "{}", reply.text());
    assert_eq!(get(&listed, "/a", &[]).field("Location"), "/a/");
    assert_eq!(get(&listed, "/a/c/", &[]).text(), "index");
    assert_eq!(get(&listed, "/none/", &[]).status(), 404);
    assert!(!get(&listed, "/", &[]).text().contains("../"));
    let described = head(&listed, "/a/", &[]);
    assert_eq!((described.status(), described.text()), (200, ""));
    let shown = handler(site.files().hidden_files(true).listing(true));
    assert!(get(&shown, "/a/", &[]).text().contains(".hidden"));
    assert_eq!(get(&site.mounted(), "/a/", &[]).status(), 404);
}

/// Regression test: a name with characters that change the direction of text looked like a name with another
/// extension, and the list had links to names that always get 404.
#[test]
fn directory_list_shows_only_names_that_the_server_serves() {
    let site = Site::new(&[
        ("a\u{202e}gpj.exe", "bidi"),
        ("b\u{1b}[2J\n.txt", "control"),
        ("c\u{200b}\u{feff}.txt", "no width"),
        ("d\\e.txt", "backslash"),
        ("f\u{2028}.txt", "line"),
        ("g.txt", ""),
    ]);
    symlink("g.txt", site.path("link")).unwrap();
    let names = |handler: &_| -> Vec<(String, String)> {
        let reply = get(handler, "/", &[]);
        let links = reply.text().split("<a href=\"./").skip(1).map(|link| {
            let (target, name) = link.split_once("\"><bdi>").unwrap();
            (format!("/{target}"), name.split("</bdi>").next().unwrap().to_owned())
        });
        links.collect()
    };
    let listed = handler(site.files().listing(true));
    let found = names(&listed);
    let shown: Vec<_> = found.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(
        shown,
        [
            "a\\u{202e}gpj.exe",
            "b\\u{1b}[2J\\u{a}.txt",
            "c\\u{200b}\\u{feff}.txt",
            "f\\u{2028}.txt",
            "g.txt",
            "link"
        ]
    );
    for (target, name) in &found {
        assert_eq!(get(&listed, target, &[]).status(), 200, "{name}");
    }
    let strict = handler(site.files().symlinks(false).listing(true));
    assert!(names(&strict).iter().all(|(_, name)| name != "link"));
    assert_eq!(get(&strict, "/link", &[]).status(), 404);
}

#[test]
fn time_to_read_a_directory_is_bounded_with_hidden_files_too() {
    let site = Site::new(&[]);
    for number in 0..20_001 {
        fs::write(site.path(&format!(".{number}")), "").unwrap();
    }
    let handler = handler(site.files().listing(true));
    assert!(get(&handler, "/", &[]).text().contains("only a part"));
}

#[test]
fn directory_outside_of_root_is_not_listed() {
    let outside = Site::new(&[("secret.txt", "secret")]);
    let site = Site::new(&[("a.txt", "a")]);
    symlink(outside.0.path(), site.path("link")).unwrap();
    let handler = handler(site.files().listing(true));
    assert_eq!(get(&handler, "/link/", &[]).status(), 404);
    assert_eq!(get(&handler, "/..%2f/", &[]).status(), 404);
}

#[test]
fn additional_media_types_take_precedence() {
    let site = Site::new(&[("a.md", "a"), ("a.JS", "b"), ("md", "c"), ("d.d/e", "d")]);
    let files = site.files().content_type("md", "text/x-notes").content_type("js", "text/x-script");
    let handler = handler(files.content_type("d/e", "text/x-none"));
    for (target, expected) in [
        ("/a.md", "text/x-notes"),
        ("/a.JS", "text/x-script"),
        ("/md", "application/octet-stream"),
        ("/d.d/e", "application/octet-stream"),
    ] {
        assert_eq!(get(&handler, target, &[]).field("Content-Type"), expected, "{target}");
    }
}
