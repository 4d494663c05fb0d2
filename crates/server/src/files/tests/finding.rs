//! File lookup: index files, redirects, hidden files and forbidden paths.

use super::*;

#[test]
fn file_response_has_all_metadata_headers() {
    let site = Site::new(&[("a b.txt", "text")]);
    let handler: Arc<dyn Handler> =
        Arc::new(Router::new().mount("/static", site.files().cache_control("max-age=60")));
    let reply = get(&handler, "/static/a%20b.txt?version=1", &[]);
    assert_eq!((reply.status(), reply.text()), (200, "text"));
    let expected = [
        ("Accept-Ranges", "bytes"),
        ("X-Content-Type-Options", "nosniff"),
        ("ETag", "\"2ebc98a1-75bcd15-4\""),
        ("Vary", "Accept-Encoding"),
        ("Cache-Control", "max-age=60"),
        ("Last-Modified", MODIFIED_DATE),
        ("Content-Type", "text/plain; charset=utf-8"),
    ];
    assert_eq!(reply.field_names(), expected.map(|(name, _)| name));
    for (name, value) in expected {
        assert_eq!(reply.field(name), value);
    }
}

#[test]
fn head_response_has_headers_of_get_without_body() {
    let site = Site::new(&[("a.html", "<p>")]);
    let handler = site.mounted();
    let (by_get, by_head) = (get(&handler, "/a.html", &[]), head(&handler, "/a.html", &[]));
    assert_eq!(by_head.response.field_lines().bytes(), by_get.response.field_lines().bytes());
    assert_eq!((by_head.status(), by_head.content.len()), (200, 0));
    assert_eq!(head(&handler, "/none", &[]).status(), 404);
}

#[test]
fn methods_except_get_head_and_options_give_405() {
    let site = Site::new(&[("a", "")]);
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get"] {
        for target in ["/a", "/none", "/.."] {
            let reply = request(&site.mounted(), method, target, &[]);
            assert_eq!(
                (reply.status(), reply.field("Allow")),
                (405, "GET, HEAD, OPTIONS"),
                "{method} {target}"
            );
        }
    }
    let reply = request(&site.mounted(), "OPTIONS", "/a", &[]);
    assert_eq!((reply.status(), reply.field("Allow")), (204, "GET, HEAD, OPTIONS"));
}

#[test]
fn directory_url_serves_index_file() {
    let site = Site::new(&[("index.html", "root"), ("a/index.html", "a"), ("b/home.htm", "b"), ("c/x", "")]);
    let handler = site.mounted();
    for (target, expected) in [("/", "root"), ("/?q", "root"), ("/a/", "a"), ("//a//", "a")] {
        let reply = get(&handler, target, &[]);
        assert_eq!((reply.status(), reply.text()), (200, expected), "{target}");
        assert_eq!(reply.field("Content-Type"), "text/html; charset=utf-8");
    }
    for target in ["/b/", "/c/", "/none/", "/a/index.html/", "/c/x/"] {
        assert_eq!(get(&handler, target, &[]).status(), 404, "{target}");
    }
    let handler: Arc<dyn Handler> = Arc::new(site.files().index("home.htm"));
    assert_eq!(get(&handler, "/b/", &[]).text(), "b");
    assert_eq!(get(&handler, "/a/", &[]).status(), 404);
}

#[test]
fn directory_named_like_index_file_is_not_served_as_index() {
    let site = Site::new(&[("a/index.html/index.html", "deep")]);
    assert_eq!(get(&site.mounted(), "/a/", &[]).status(), 404);
    assert_eq!(get(&site.mounted(), "/a/index.html/", &[]).text(), "deep");
}

#[test]
fn directory_without_trailing_slash_is_redirected() {
    let site = Site::new(&[("a b/c/x", ""), ("é/x", "")]);
    let handler: Arc<dyn Handler> = Arc::new(Router::new().mount("/static", site.files()));
    for (target, location) in [
        ("/static", "/static/"),
        ("/static?q=1&r", "/static/?q=1&r"),
        ("/static/a%20b", "/static/a%20b/"),
        ("/static/a%20b/c?", "/static/a%20b/c/?"),
        ("/static/%C3%A9?a=//b", "/static/%C3%A9/?a=//b"),
        ("http://other.example/static/a%20b?q", "/static/a%20b/?q"),
    ] {
        let reply = get(&handler, target, &[]);
        assert_eq!((reply.status(), reply.field("Location")), (301, location), "{target}");
        assert!(reply.content.is_empty());
    }
}

#[test]
fn redirect_never_points_to_another_host() {
    let site = Site::new(&[("evil.example/x", ""), ("\\evil.example/x", "")]);
    for target in ["//evil.example", "///evil.example", "/evil.example"] {
        let reply = get(&site.mounted(), target, &[]);
        assert_eq!((reply.status(), reply.field("Location")), (301, "/evil.example/"), "{target}");
    }
    for target in ["/%5cevil.example", "/%2fevil.example", "/%2Fevil.example/..", "/.//evil.example"] {
        assert_eq!(get(&site.mounted(), target, &[]).status(), 404, "{target}");
    }
}

#[test]
fn files_outside_root_are_not_served() {
    let site = Site::new(&[("secret", "secret"), ("root/a/file", "a")]);
    symlink("../secret", site.path("root/link")).unwrap();
    symlink("/etc", site.path("root/etc")).unwrap();
    symlink("..", site.path("root/up")).unwrap();
    let absolute = format!("/{}", site.path("secret").display());
    let handler: Arc<dyn Handler> = Arc::new(Files::new(site.path("root")).unwrap().hidden_files(true));
    for target in [
        "/../secret",
        "/a/../../secret",
        "/%2e%2e/secret",
        "/%2E./secret",
        "/a/%2e%2e/%2e%2e/secret",
        "/..%2fsecret",
        "/%2e%2e%2fsecret",
        "/..%5csecret",
        "/%252e%252e/secret",
        "/%c0%ae%c0%ae/secret",
        "/..",
        "/../",
        "/link",
        "/etc/passwd",
        "/up/secret",
        "/up/root/a/file",
        "/a/file%00",
        "/a/file%00.html",
        "/a%2ffile",
        "/%2fetc/passwd",
        "//etc/passwd",
        "/%",
        "/a/file%2",
        &absolute,
    ] {
        let reply = get(&handler, target, &[("Accept-Encoding", "gzip")]);
        assert_eq!((reply.status(), reply.text()), (404, "not found\n"), "{target}");
    }
}

#[test]
fn symlinks_inside_root_are_served_unless_disabled() {
    let site = Site::new(&[("a/file", "a"), ("a/index.html", "index")]);
    symlink("a/file", site.path("link")).unwrap();
    symlink("a", site.path("b")).unwrap();
    let handler = site.mounted();
    assert_eq!(get(&handler, "/link", &[]).text(), "a");
    assert_eq!(get(&handler, "/b/", &[]).text(), "index");
    assert_eq!(get(&handler, "/b", &[]).field("Location"), "/b/");
    let handler: Arc<dyn Handler> = Arc::new(site.files().symlinks(false));
    for target in ["/link", "/b/", "/b", "/b/file"] {
        assert_eq!(get(&handler, target, &[]).status(), 404, "{target}");
    }
    assert_eq!(get(&handler, "/a/file", &[]).text(), "a");
}

#[test]
fn hidden_files_are_served_only_if_allowed() {
    let site = Site::new(&[(".env", "env"), (".git/config", "git"), ("a/.b", "b")]);
    let handler = site.mounted();
    for target in ["/.env", "/.git/config", "/.git", "/.git/", "/a/.b", "/%2eenv"] {
        assert_eq!(get(&handler, target, &[]).status(), 404, "{target}");
    }
    let handler: Arc<dyn Handler> = Arc::new(site.files().hidden_files(true));
    for (target, expected) in [("/.env", "env"), ("/.git/config", "git"), ("/a/.b", "b")] {
        assert_eq!(get(&handler, target, &[]).text(), expected);
    }
}

#[test]
fn special_files_give_404() {
    let site = Site::new(&[("a/x", "")]);
    mknodat(CWD, site.path("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = UnixListener::bind(site.path("socket")).unwrap();
    symlink("fifo", site.path("a/index.html")).unwrap();
    for target in ["/fifo", "/socket", "/a/"] {
        assert_eq!(get(&site.mounted(), target, &[]).status(), 404, "{target}");
    }
}

#[test]
fn too_long_names_give_404() {
    let site = Site::new(&[]);
    for target in [format!("/{}", "x".repeat(300)), "/x".repeat(2500)] {
        assert_eq!(get(&site.mounted(), &target, &[]).status(), 404);
    }
}

#[test]
fn fallback_lookup_without_openat2_serves_the_same_files() {
    let site = Site::new(&[("index.html", "index"), ("a/file", "a"), ("a/file.br", "br")]);
    symlink("../..", site.path("a/out")).unwrap();
    let mut files = site.files();
    files.root = files.root.with_lookup(open::Lookup::Walk);
    let handler: Arc<dyn Handler> = Arc::new(files);
    for (target, status, content) in [
        ("/", 200, "index"),
        ("/a", 301, ""),
        ("/a/file", 200, "br"),
        ("/a/none", 404, "not found\n"),
        ("/a/out/etc", 404, "not found\n"),
    ] {
        let reply = get(&handler, target, &[("Accept-Encoding", "br")]);
        assert_eq!((reply.status(), reply.text()), (status, content), "{target}");
    }
}

#[test]
fn mount_prefix_is_removed_from_file_path() {
    let site = Site::new(&[("static/a", "inner"), ("a", "outer")]);
    let handler: Arc<dyn Handler> = Arc::new(
        Router::new()
            .mount("/static", site.files())
            .mount("/one", Router::new().mount("/two", site.files()).get("/two-and-a-half", || "x")),
    );
    assert_eq!(get(&handler, "/static/a", &[]).text(), "outer");
    assert_eq!(get(&handler, "/static/static/a", &[]).text(), "inner");
    assert_eq!(get(&handler, "/one/two/a", &[]).text(), "outer");
    assert_eq!(get(&handler, "/one/two/static", &[]).field("Location"), "/one/two/static/");
    assert_eq!(get(&handler, "/statics/a", &[]).status(), 404);
}

#[test]
fn open_errors_map_to_status_codes() {
    for (error, status) in [
        (Errno::NOENT, 404),
        (Errno::LOOP, 404),
        (Errno::XDEV, 404),
        (Errno::ACCESS, 403),
        (Errno::MFILE, 503),
        (Errno::NFILE, 503),
        (Errno::AGAIN, 503),
        (Errno::IO, 500),
    ] {
        assert_eq!(respond::unopened(error).status().as_u16(), status, "{error:?}");
    }
}

#[test]
#[should_panic = "invalid header value"]
fn cache_control_with_line_break_panics() {
    let site = Site::new(&[]);
    let _ = site.files().cache_control("max-age=1\r\nSet-Cookie: a=b");
}

#[test]
fn files_dated_before_epoch_or_in_the_future_are_served() {
    let site = Site::new(&[("old", "old"), ("new", "new")]);
    let day_before_epoch = SystemTime::UNIX_EPOCH - Duration::from_hours(24);
    File::options().write(true).open(site.path("old")).unwrap().set_modified(day_before_epoch).unwrap();
    let reply = get(&site.mounted(), "/old", &[("If-Modified-Since", MODIFIED_DATE)]);
    assert_eq!((reply.status(), reply.text(), reply.field("Last-Modified")), (200, "old", ""));
    // `Last-Modified` is never in the future (RFC 9110 §8.8.2.1).
    site.set_modified("new", MODIFIED + Duration::from_hours(24 * 365 * 100));
    let before = Clock::system().time_of_day() - Duration::from_secs(1);
    let reply = get(&site.mounted(), "/new", &[]);
    let shown = httpdate::parse_http_date(reply.field("Last-Modified")).unwrap();
    assert!(before <= shown && shown <= Clock::system().time_of_day());
}
