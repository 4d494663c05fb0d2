//! Tests of paths that upstream servers may interpret differently.

use super::*;

/// Returns routes with the policy `users` for `/admin` and `/a/{x}/d`. `/` and `/open` have no policies.
fn guarded(readings: PathReadings) -> Routes {
    let policies: [&[&str]; 5] = [&[], &["users"], &["users"], &[], &["users", "steady"]];
    let policies = policies.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    let routes = routes(&[at("/"), at("/admin"), at("/a/{x}/d"), at("/open"), at("/admin/both")]);
    routes.guarding(readings, policies.to_vec())
}

fn status_of(scene: &TestServer, path: &str) -> String {
    let response = ask(scene, &format!("GET {path}"));
    response.split(' ').nth(1).unwrap().to_owned()
}

/// Regression test: such paths bypassed the policy. They matched `/` in the gateway, but an upstream server
/// read them as `/admin/users`.
#[test]
fn ambiguous_path_that_would_bypass_a_policy_gets_400() {
    let scene = TestServer::new(guarded(PathReadings::default()));
    for path in [
        "/admin%2Fusers",
        "/admin%2fusers",
        "/admin%5Cusers",
        "/admin\\users",
        "/admin;x/users",
        "/admin%3Bx",
        "/x/..%2Fadmin",
        "/%2Fadmin",
        "/;x/admin",
        "/admin;x%2Fusers",
        "/a/b%5Cc%2Fd",
        "/admin%2Fboth",
        "/admin;/both",
        "/open/y/;x/../../admin",
        "/open/y/%2F/../../admin",
        "/admin%2Fx/../users",
        // Servers that remove spaces read these paths as `/admin`, so the requests bypassed the policy of
        // `/admin`.
        "/admin%20",
        "/admin%20%20/users",
        "/%20admin/users",
        "/%20/admin",
        "/admin%20;x",
        "/x%2Fadmin%20/../admin",
        "/admin%20%2Fusers",
        "/a/b/d%20",
    ] {
        assert_eq!(status_of(&scene, path), "400", "{path}");
    }
    for path in [
        "/x%2Fy",
        "/x;y=z",
        "/open%2Fa",
        "/open;a/b",
        "/admin/a%2Fb",
        "/admin/a;b",
        "/admins%2F",
        "/a%252F",
        "/x%20",
        "/open%20/a",
        "/admin/a%20/%20",
        "/ad%20min",
        "/admin%2520",
    ] {
        assert_eq!(status_of(&scene, path), "200", "{path}");
    }
}

#[test]
fn settings_keep_or_reject_all_ambiguous_paths() {
    let (keep, reject) = (AmbiguousPath::Keep, AmbiguousPath::Reject);
    let with =
        |encoded_slashes, parameters| TestServer::new(guarded(PathReadings { encoded_slashes, parameters }));
    for (scene, slash, parameter) in [
        (with(keep, keep), "200", "200"),
        (with(reject, keep), "400", "200"),
        (with(keep, reject), "200", "400"),
        (with(reject, reject), "400", "400"),
    ] {
        for (path, status) in
            [("/admin%2Fa", slash), ("/x%5Ca", slash), ("/admin;a", parameter), ("/x;a", parameter)]
        {
            assert_eq!(status_of(&scene, path), status, "{path}");
        }
        assert_eq!(status_of(&scene, "/admin%20"), "400", "spaces have no setting");
        assert_eq!(status_of(&scene, "/admin/a%20b"), "200");
    }
    // The same holds for a single route.
    let readings = PathReadings { encoded_slashes: reject, parameters: keep };
    let scene = TestServer::new(routes(&[at("/")]).guarding(readings, vec![Vec::new()]));
    assert_eq!(
        (status_of(&scene, "/a%2Fb"), status_of(&scene, "/a;b")),
        ("400".to_owned(), "200".to_owned())
    );
}
