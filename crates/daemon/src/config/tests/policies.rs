//! Tests of policy settings.

use std::time::Duration;

use thruway_gateway::{
    CountBy, DelayConfig, KeyPlace, OnStoreFailure, PolicyConfig, QuotaConfig, QuotaPeriod, RateLimitConfig,
};

use super::*;

const REST: &str = "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\ndemo = true\n";

/// Returns the policy `a` with `keys`, or the error.
fn policy(keys: &str) -> Result<PolicyConfig, String> {
    let config = resolved(&format!("{REST}[policies.a]\n{keys}\n"));
    config.map(|mut config| config.policies.remove("a").unwrap()).map_err(|failure| failure.to_string())
}

#[test]
fn rate_limit_settings_are_optional() {
    let limit = |keys: &str| match policy(&format!("rate_limit = {{ requests = 7{keys} }}")).unwrap() {
        PolicyConfig::RateLimit(limit) => limit,
        other => panic!("{other:?}"),
    };
    assert_eq!(limit(""), RateLimitConfig::per_second(7));
    let custom = limit(", per = \"1m\", burst = 3, by = { header = \"X-Key\" }, keys_max = 100");
    assert_eq!((custom.per, custom.burst, custom.keys_max), (Duration::from_mins(1), 3, 100));
    assert_eq!(custom.by, CountBy::Header("X-Key".to_owned()));
    assert_eq!(limit(", delay_max = \"2s\"").delay, Some(DelayConfig::up_to(Duration::from_secs(2))));
    let delay = limit(", delay_max = \"1ms\", delayed_requests_max = 5").delay.unwrap();
    assert_eq!((delay.time_max, delay.requests_max), (Duration::from_millis(1), 5));
    for (text, by) in [("route", CountBy::Route), ("all", CountBy::All), ("user", CountBy::User)] {
        assert_eq!(limit(&format!(", by = \"{text}\"")).by, by);
    }
}

#[test]
fn weak_password_hashes_get_a_warning() {
    let warnings = |users: &str| {
        let route = "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\ndemo = true\npolicies = [\"a\"]\n";
        let config = resolved(&format!("{route}[policies.a.basic_auth.users]\n{users}"));
        usage::unused(&config.unwrap()).iter().map(ToString::to_string).collect::<String>()
    };
    let bcrypt = format!("ada = \"$$2y$$04${}\"\n", "$".to_owned() + &"a".repeat(53));
    assert_eq!(warnings(&bcrypt), "");
    let weak = |name: &str| format!("{name} = \"$$apr1$$x$$ro/6RlB/jB4ZRUA9qJm6A0\"\n");
    let one = warnings(&(bcrypt + &weak("eve")));
    assert!(one.contains("the password hash of the user `eve` is weak, because `$apr1$` uses MD5"), "{one}");
    assert!(one.contains("use bcrypt: `htpasswd -nBC 10 NAME`") && !one.contains("ro/6"), "{one}");
    let two = warnings(&(weak("ada") + &weak("eve")));
    assert!(
        two.contains("the password hashes of 2 users are weak") && two.contains("the first is `ada`"),
        "{two}"
    );
}

#[test]
fn shared_limits_declare_their_behavior_without_the_store() {
    let limit = |keys: &str| match policy(&format!("quota = {{ requests = 7{keys} }}")).unwrap() {
        PolicyConfig::Quota(quota) => quota,
        other => panic!("{other:?}"),
    };
    assert_eq!(limit(""), QuotaConfig::of_user(7, QuotaPeriod::Day));
    assert_eq!(limit(", per = \"month\", by = \"all\"").per, QuotaPeriod::Month);
    for (keys, on_store_failure) in [
        ("", OnStoreFailure::Local { share: None }),
        (", share = 40", OnStoreFailure::Local { share: Some(40) }),
        (", on_store_failure = \"allow\"", OnStoreFailure::Allow),
        (", on_store_failure = \"deny\"", OnStoreFailure::Deny),
    ] {
        let shared = limit(&format!(", shared = true{keys}")).shared.unwrap();
        assert_eq!(shared.on_store_failure, on_store_failure);
    }
}

#[test]
fn api_keys_are_read_from_header_query_or_bearer_token() {
    let digest = "0".repeat(64);
    let place = |keys: &str| {
        let keys = format!("api_keys = {{ {keys} keys = {{ a = \"sha256:{digest}\" }} }}");
        match policy(&keys).unwrap() {
            PolicyConfig::ApiKeys(config) => config.place,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(place(""), KeyPlace::Header("X-Api-Key".to_owned()));
    assert_eq!(place("query = \"k\","), KeyPlace::Query("k".to_owned()));
    assert_eq!(place("bearer = true,"), KeyPlace::Bearer);
}

#[test]
fn invalid_policy_error_names_its_line() {
    assert_errors(&[
        ("", "a policy needs exactly one kind: `allow` and `deny` (one or both), `basic_auth`"),
        ("allow = [\"::1\"]\nbody_bytes_max = 1", "a policy needs exactly one kind"),
        ("allow = []", "the list is empty"),
        ("allow = [\"10.0.0.0/33\"]", "the prefix length must be at most 32, or at most 128 for IPv6"),
        ("deny = [\"10.0.0.1/8\"]", "the network of this address is `10.0.0.0/8`"),
        ("deny = [\"::ffff:10.0.0.1\"]", "write an IPv4 address without"),
        ("deny = [\"localhost\"]", "not a network"),
        ("basic_auth = {}", "there are no users"),
        ("basic_auth.users_file = \"none\"", "cannot read `none`: No such file"),
        ("basic_auth.users = { \"a:b\\n\" = \"x\" }", "this is not a valid name: names become header values"),
        ("basic_auth.users = { a = \"x\" }", "write a password hash"),
        ("api_keys = {}", "there are no keys"),
        (
            "api_keys = { bearer = true, query = \"k\" }",
            "`api_keys` needs exactly one of `header`, `query` and `bearer`",
        ),
        ("api_keys = { header = \"a b\" }", "a field name"),
        (
            "api_keys = { header = \"Host\" }",
            "this header belongs to the connection or the body: use another name",
        ),
        ("api_keys.keys.a = \"k1\"", "write the digest of the key"),
        (
            "api_keys = { user_header = \"Content-Length\" }",
            "this header belongs to the connection or the body: use another name",
        ),
        ("api_keys.user_header = \"X-Forwarded-For\"", "the gateway sets this header: use another name"),
        ("basic_auth = { user_header = \"via\" }", "the gateway sets this header: use another name"),
        ("api_keys.query = \"\"", "the query parameter needs a name"),
        ("client_certificate = false", "expected `true` or a table with `subjects`"),
        ("client_certificate = {}", "the policy has no condition for certificates"),
        ("client_certificate = { subjects = [] }", "the list is empty"),
        ("client_certificate = { subjects = [\"ada\"] }", "no certificate can contain `ada`"),
        ("client_certificate = { subjects = [\"\"] }", "no certificate can contain ``"),
        (
            "client_certificate = { subjects = [\"CN=ada, O=Example\"] }",
            "no certificate can contain `CN=ada, O=Example`",
        ),
        ("client_certificate = { dns_names = [\"\"] }", "no certificate can contain ``"),
        ("client_certificate = { emails = [\"ada\"] }", "no certificate can contain `ada`"),
        ("client_certificate = { uris = [\"a b\"] }", "no certificate can contain `a b`"),
        ("client_certificate = { fingerprints = [\"ab:cd\"] }", "no certificate can contain `ab:cd`"),
        ("client_certificate = { names = [\"a\"] }", "unknown key `names`"),
        ("rate_limit = {}", "missing field `requests`"),
        ("rate_limit = { requests = 0 }", "the value must be from 1 to 1000000000"),
        ("rate_limit = { requests = 1, per = \"0s\" }", "the value must be from 1ms to 24h"),
        ("rate_limit = { requests = 1, status = 200 }", "the value must be from 400 to 599"),
        ("rate_limit = { requests = 1, by = \"host\" }", "unknown value `host`"),
        ("rate_limit = { requests = 1, share = 50 }", "only a shared limit with"),
        ("rate_limit = { requests = 1, delay_max = \"0s\" }", "the value must be from 1ms to 1h"),
        ("rate_limit = { requests = 1, delayed_requests_max = 5 }", "without `delay_max`, no request waits"),
        (
            "rate_limit = { requests = 1, shared = true, delay_max = \"1s\" }",
            "a shared limit cannot delay requests",
        ),
        ("rate_limit = { requests = 1, shared = true, share = 0 }", "the value must be from 1 to 100"),
        ("rate_limit = { requests = 1, on_store_failure = \"allow\" }", "only a shared limit uses the store"),
        (
            "concurrency = { requests_max = 1, shared = true, on_store_failure = \"deny\", share = 5 }",
            "only a shared limit with",
        ),
        ("quota = { per = \"day\" }", "missing field `requests`"),
        ("quota = { requests = 1, per = \"week\" }", "unknown value `week`"),
        ("rate_limit = { requests = 1, by = { field = \"a\" } }", "unknown key `field`"),
        ("concurrency = { requests_max = 0 }", "the value must be from 1 to 1000000"),
        ("body_bytes_max = -1", "invalid value: integer `-1`"),
    ]);
}

#[test]
fn invalid_jwt_policy_error_names_its_line() {
    assert_errors(&[
        ("jwt = {}", "a `jwt` policy needs one of `keys_file`, `keys_url` and `secret`"),
        (
            "jwt = { keys_url = \"https://a.example/\", secret = \"a secret of thirty-two bytes, at least\" }",
            "a `jwt` policy needs one of `keys_file`, `keys_url` and `secret`",
        ),
        ("jwt.keys_url = \"http://a.example/\"", "`http` is allowed only for hosts on this machine"),
        ("jwt.keys_url = \"a.example/keys\"", "not a URL that begins with `https://` (or `http://`"),
        (
            "jwt = { keys_url = \"https://a.example/\", algorithms = [\"HS256\"] }",
            "there is no key for this algorithm",
        ),
        ("jwt = { keys_url = \"https://a.example/\", keys_refresh_interval = \"1s\" }", "10s"),
        (
            "jwt = { secret = \"a secret of thirty-two bytes, at least\", keys_refresh_interval = \"1h\" }",
            "this key requires `keys_url`",
        ),
        (
            "jwt = { keys_url = \"https://a.example/\", keys_refresh_interval = \"1h\", keys_age_max = \"59m\" }",
            "the value must be from 1h to 168h",
        ),
        (
            "jwt = { keys_url = \"https://a.example/\", keys_age_max = \"169h\" }",
            "the value must be from 10m to 168h",
        ),
        (
            "jwt = { secret = \"a secret of thirty-two bytes, at least\", keys_age_max = \"1h\" }",
            "this key requires `keys_url`",
        ),
        ("jwt.secret = \"short\"", "a secret must have at least 32 bytes"),
        ("jwt.keys_file = \"Cargo.toml\"", "the text is neither a JSON Web Key Set nor public keys in PEM"),
        (
            "jwt = { secret = \"a secret of thirty-two bytes, at least\", algorithms = [\"none\"] }",
            "unknown algorithm",
        ),
        (
            "jwt = { secret = \"a secret of thirty-two bytes, at least\", algorithms = [\"RS256\"] }",
            "there is no key for this algorithm",
        ),
        (
            "jwt = { secret = \"a secret of thirty-two bytes, at least\", leeway = \"2h\" }",
            "the value must be from 0s to 1h",
        ),
        (
            "jwt = { secret = \"a secret of thirty-two bytes, at least\", audience = [] }",
            "`audience` is empty",
        ),
        (
            "jwt = { secret = \"a secret of thirty-two bytes, at least\", algorithms = [] }",
            "`algorithms` is empty",
        ),
        (
            "jwt = { secret = \"a secret of thirty-two bytes, at least\", types = [] }",
            "`types` is empty, so no token would be accepted",
        ),
        (
            "jwt = { secret = \"a secret of thirty-two bytes, at least\", types = [\"at+jwt\", \"at jwt\"] }",
            "this is not a valid token type",
        ),
        (
            "jwt = { secret = \"a secret of thirty-two bytes, at least\", types = [\"\"] }",
            "this is not a valid token type",
        ),
        (
            "jwt = { secret = \"a secret of thirty-two bytes, at least\", id_tokens = \"no\" }",
            "expected `true` or `false`",
        ),
    ]);
}

#[test]
fn jwt_policy_can_restrict_token_types() {
    let rules = |keys: &str| match policy(&format!(
        "jwt = {{ secret = \"a secret of thirty-two bytes, at least\"{keys} }}"
    ))
    .unwrap()
    {
        PolicyConfig::Jwt(jwt) => jwt.rules,
        other => panic!("{other:?}"),
    };
    assert!(rules("").types.is_empty() && rules("").allow_id_tokens);
    let strict = rules(", types = [\"at+jwt\", \"application/x\"], id_tokens = false");
    assert_eq!(strict.types, ["at+jwt", "application/x"]);
    assert!(!strict.allow_id_tokens);
}

/// Asserts that each of these policies fails with its message.
fn assert_errors(policies: &[(&str, &str)]) {
    for (keys, message) in policies {
        let failure = policy(keys).unwrap_err();
        let names_line = [6, 7].iter().any(|line| failure.contains(&format!("serve.toml:{line}")));
        assert!(failure.contains(message) && names_line, "{keys}\n{failure}");
    }
}

#[test]
fn certificate_policy_needs_listener_that_requests_certificates() {
    let rest = REST.replace("demo = true", "demo = true\npolicies = [\"a\"]");
    let policy = "[policies.a]\nclient_certificate = true\n";
    let failure = resolved(&format!("{rest}{policy}")).err().unwrap().to_string();
    assert!(
        failure.contains("no listener asks clients for a certificate") && failure.contains("serve.toml:7")
    );
    assert!(resolved(&format!("{REST}{policy}")).is_ok(), "no route uses the policy");
}

/// Regression test: of two passwords of a user or two names for a key, only one took effect, without a warning.
#[test]
fn duplicate_users_and_duplicate_api_keys_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let (users, keys) = (directory.path().join("users"), directory.path().join("keys"));
    let hash = "$2y$10$dGGXUJOVnuL1Np/cZJw9oebHuWep.Mm6TgDleeEAoOIaeqzUw/d7u";
    let digest = "0a".repeat(32);
    std::fs::write(&users, format!("a:{hash}\nb:{hash}\na:{hash}\n")).unwrap();
    let failure = policy(&format!("basic_auth.users_file = {users:?}")).unwrap_err();
    assert!(failure.contains("the user `a` is listed twice"), "{failure}");
    std::fs::write(&keys, format!("a:sha256:{digest}\nb:sha256:{}\n", digest.to_uppercase())).unwrap();
    let failure = policy(&format!("api_keys.keys_file = {keys:?}")).unwrap_err();
    assert!(failure.contains("`a` and `b` have the same key"), "{failure}");
    std::fs::write(&keys, format!("a:sha256:{digest}\na:sha256:{}\n", "1".repeat(64))).unwrap();
    assert!(policy(&format!("api_keys.keys_file = {keys:?}")).is_ok(), "one user with two keys");
}

#[test]
fn errors_do_not_show_secrets() {
    for keys in [
        "basic_auth = { users = { a = \"open sesame\" } }",
        "basic_auth = { relm = \"x\", users = { a = \"open sesame\" } }",
        "api_keys = { keys = { a = \"open sesame\" } }",
        "jwt = { secret = \"open sesame\" }",
        "jwt = { leeway = 5, secret = \"open sesame\" }",
        "jwt = { secert = \"open sesame\" }",
        "jwt = { secret = 731731 }",
        "jwt = { secret = 731731.5 }",
        "jwt = { secret = \"open sesame }",
    ] {
        let failure = policy(keys).unwrap_err();
        let is_shown = ["sesame", "731"].iter().any(|secret| failure.contains(secret));
        assert!(!is_shown && failure.contains("***"), "{failure}");
    }
}

/// Regression test: the rewrite replaced the policy's header without a warning.
#[test]
fn route_cannot_rewrite_headers_that_its_policies_set() {
    let config = |rewrite: &str, policies: &str| {
        let route = format!("upstream = \"a\"\npolicies = [{policies}]\nrewrite.request = {{ {rewrite} }}");
        let route = REST.replace("demo = true", &route);
        resolved(&format!(
            "{route}[upstreams.a]\nservers = [\"127.0.0.1:1\"]\n[policies.keys.api_keys]\nuser_header = \"X-User\"\n\
             keys = {{ a = \"sha256:{}\" }}\n[policies.tokens.jwt]\nsecret = \"a secret of thirty-two bytes, at least\"\n\
             headers = {{ X-Role = \"role\" }}\n",
            "0a".repeat(32)
        ))
        .map_err(|failure| failure.to_string())
    };
    for (rewrite, policies, owner) in [
        ("set = { X-User = \"bob\" }", "\"keys\"", "keys"),
        ("add = { x_user = \"bob\" }", "\"tokens\", \"keys\"", "keys"),
        ("remove = [\"X-ROLE\"]", "\"keys\", \"tokens\"", "tokens"),
    ] {
        let failure = config(rewrite, policies).err().unwrap();
        let message = format!("the policy `{owner}` of this route already sets this header");
        assert!(failure.contains(&message) && failure.contains("serve.toml:7"), "{failure}");
    }
    assert!(config("set = { X-User = \"bob\" }", "\"tokens\"").is_ok(), "the policy of another route");
}

#[test]
fn unknown_or_repeated_policy_of_a_route_is_an_error() {
    let route = |names: &str| {
        let route = REST.replace("demo = true", &format!("demo = true\npolicies = [{names}]"));
        resolved(&format!(
            "{route}[policies.office]\nallow = [\"::1\"]\n[policies.small]\nbody_bytes_max = 1\n"
        ))
        .map(|config| config.routes[0].policies.clone())
        .map_err(|failure| failure.to_string())
    };
    assert_eq!(route("\"small\", \"office\"").unwrap(), ["small", "office"]);
    for (names, message, hint) in [
        ("\"ofice\"", "there is no policy `ofice`", "did you mean `office`?"),
        ("\"x\"", "there is no policy `x`", "the config has `office`, `small`"),
        ("\"small\", \"small\"", "the route lists this policy twice", "remove the second entry"),
    ] {
        let failure = route(names).unwrap_err();
        assert!(failure.contains(message) && failure.contains(&format!("hint: {hint}")), "{failure}");
        assert!(failure.contains("serve.toml:6"), "{failure}");
    }
}

#[test]
fn example_config_shows_policy_defaults() {
    let config = resolved(EXAMPLE).unwrap();
    let PolicyConfig::Jwt(jwt) = &config.policies["tokens"] else { panic!("a policy of another kind") };
    let default = thruway_gateway::JwtConfig::new(jwt.keys.clone());
    assert_eq!(*jwt, default);
    let PolicyConfig::RateLimit(limit) = &config.policies["steady"] else {
        panic!("a policy of another kind")
    };
    assert_eq!(*limit, RateLimitConfig { burst: 20, ..RateLimitConfig::per_second(100) });
}

#[test]
fn forward_auth_names_an_upstream_and_headers() {
    let auth = |keys: &str| {
        let upstream = "[upstreams.auth]\nservers = [\"127.0.0.1:2\"]\n";
        policy(&format!("forward_auth = {{ {keys} }}\n{upstream}"))
    };
    let PolicyConfig::ForwardAuth(config) = auth("upstream = \"auth\"").unwrap() else {
        panic!("the policy has another kind")
    };
    assert_eq!((config.path.as_str(), config.timeout), ("/", Duration::from_secs(5)));
    let shown =
        auth("upstream = \"auth\", path = \"/verify?a=b\", headers = [\"X-User\", \"X-Groups\"]").unwrap();
    assert_eq!(shown.to_string(), "admitted by auth at /verify?a=b, which sets X-User, X-Groups");
    assert!(shown.owns_field("x_user") && !shown.owns_field("X-Other"));
    for (keys, message) in [
        ("", "missing field `upstream`"),
        ("upstream = \"aut\"", "there is no upstream `aut`"),
        ("upstream = \"auth\", path = \"verify\"", "hint: write `/verify` or `/verify?site=a`"),
        ("upstream = \"auth\", path = \"//a\"", "a path begins with one slash"),
        ("upstream = \"auth\", path = \"/a b\"", "a path begins with one slash"),
        ("upstream = \"auth\", headers = [\"Host\"]", "this header belongs to the connection"),
        ("upstream = \"auth\", headers = [\"X-Forwarded-For\"]", "the gateway sets this header"),
        ("upstream = \"auth\", timeout = \"0s\"", "the value must be from 1ms to 24h"),
        ("upstream = \"auth\", url = \"/\"", "unknown key `url`"),
    ] {
        let failure = auth(keys).unwrap_err();
        assert!(failure.contains(message), "{failure}");
    }
}

const OIDC: &str = "issuer = \"https://login.example/realms/a\"\nclient_id = \"gateway\"\nurl = \"https://shop.example\"\n\
                    secret = \"a secret of thirty-two bytes or more\"\n";

fn oidc(keys: &str) -> Result<PolicyConfig, String> {
    let config = resolved(&format!("{REST}[policies.a.oidc]\n{keys}\n"));
    config.map(|mut config| config.policies.remove("a").unwrap()).map_err(|failure| failure.to_string())
}

#[test]
fn login_settings_have_defaults() {
    let login = |keys: &str| match oidc(&format!("{OIDC}{keys}")).unwrap() {
        PolicyConfig::Oidc(config) => config,
        other => panic!("{other:?}"),
    };
    let default = login("");
    assert_eq!(
        default.discovery.url.as_str(),
        "https://login.example/realms/a/.well-known/openid-configuration"
    );
    assert_eq!(default.scopes, ["openid"]);
    assert_eq!((&*default.callback_path, &*default.logout_path), ("/oidc/callback", "/oidc/logout"));
    assert_eq!(default.session_max, Duration::from_hours(8));
    assert_eq!((default.refresh_interval, default.timeout), (Duration::from_mins(5), Duration::from_secs(5)));
    assert_eq!((&*default.user_claim, default.client_secret), ("sub", None));
    let custom = login(
        "client_secret = \"x\"\nscopes = [\"email\", \"openid\"]\ncallback_path = \"/a\"\nuser = \"email\"\n\
         timeout = \"2s\"\nheaders = { X-User = \"email\" }\nrequire = { groups = [\"ops\"] }\n",
    );
    assert_eq!(custom.scopes, ["openid", "email"]);
    assert_eq!((&*custom.callback_path, &*custom.user_claim), ("/a", "email"));
    assert_eq!(custom.discovery.fetch_timeout, Duration::from_secs(2));
    assert_eq!(custom.to_string(), "login at https://login.example/realms/a, groups is ops");
}

#[test]
fn mistakes_in_login_settings_are_errors() {
    let with = |from: &str, to: &str| OIDC.replace(from, to);
    for (keys, message) in [
        (with("https://login", "http://login"), "`http` is allowed only for hosts on this machine"),
        (with("realms/a", "realms/a?b"), "an issuer has no query and no fragment"),
        (with("https://shop.example", "http://shop.example"), "browsers send the cookies only with `https`"),
        (with("shop.example", "shop.example/app"), "the URL must have no path and no query"),
        (with("https://shop.example", "shop"), "this is not a URL"),
        (with("\"gateway\"", "\"\""), "the client id is empty"),
        (with("a secret of thirty-two bytes or more", "short"), "a secret must have at least 32 bytes"),
        (with("secret = ", "user = "), "`oidc` needs one of `secret` and `secrets_file`"),
        (format!("{OIDC}secrets_file = \"a\""), "`oidc` needs one of `secret` and `secrets_file`"),
        (
            format!("{OIDC}client_secret = \"a\"\nclient_secret_file = \"b\""),
            "set only one of `client_secret`",
        ),
        (format!("{OIDC}client_secret_file = \"/none\""), "cannot read `/none`"),
        (format!("{OIDC}callback_path = \"//a\""), "a path begins with one slash"),
        (format!("{OIDC}callback_path = \"/\""), "a path begins with one slash"),
        (
            format!("{OIDC}callback_path = \"/a\"\nlogout_path = \"/a\""),
            "`callback_path` and `logout_path` are equal",
        ),
        (format!("{OIDC}callback_path = \"/oidc/logout\""), "`callback_path` and `logout_path` are equal"),
        (format!("{OIDC}scopes = [\"a b\"]"), "this is not a valid scope"),
        (format!("{OIDC}require = {{ groups = [] }}"), "the list is empty, so no user would have access"),
        (format!("{OIDC}session_max = \"1s\""), "the value must be from 1m"),
        (format!("{OIDC}refresh_interval = \"1s\""), "the value must be from 10s"),
        (format!("{OIDC}headers = {{ Host = \"sub\" }}"), "this header belongs to the connection"),
    ] {
        let failure = oidc(&keys).unwrap_err();
        assert!(failure.contains(message), "{keys}\n{failure}");
        assert!(!failure.contains("thirty-two bytes or more"), "{failure}");
    }
}

#[test]
fn login_paths_outside_of_the_routes_get_a_warning() {
    let warnings = |path: &str, keys: &str| {
        let route = format!("[[routes]]\npath = \"{path}\"\ndemo = true\npolicies = [\"a\"]\n");
        let text =
            format!("[[listeners]]\naddress = \"127.0.0.1:1\"\n{route}[policies.a.oidc]\n{OIDC}{keys}");
        usage::unused(&resolved(&text).unwrap()).iter().map(ToString::to_string).collect::<String>()
    };
    assert_eq!(warnings("/", ""), "");
    assert_eq!(warnings("/app", "callback_path = \"/app/callback\"\nlogout_path = \"/app/logout\""), "");
    let both = warnings("/app", "");
    for (key, path) in [("callback_path", "/oidc/callback"), ("logout_path", "/oidc/logout")] {
        assert!(
            both.contains(&format!("no route with the policy `a` contains the `{key}` `{path}`")),
            "{both}"
        );
    }
}
