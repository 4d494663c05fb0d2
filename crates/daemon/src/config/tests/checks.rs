//! Tests of the description of a config and of warnings about it.

use super::*;

const SITE: &str = "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\ndemo = true\n";

/// Returns the warnings about the use of policies in a config with these policies of a route.
fn warnings_of(policies: &str) -> Vec<String> {
    let text = format!(
        "{SITE}policies = [{policies}]\n[policies.users]\nbasic_auth.users = {{ a = \"{HASH}\" }}\n\
         [policies.rate]\nrate_limit = {{ requests = 1, by = \"user\" }}\n"
    );
    let config = resolved(&text).unwrap_or_else(|failure| panic!("{failure}"));
    let warnings = usage::unused(&config);
    let warnings = warnings.iter().flat_map(Failure::findings).map(Finding::message);
    warnings.filter(|message| message.contains("counts by user")).collect()
}

#[test]
fn limit_by_user_without_earlier_user_is_a_warning() {
    assert_eq!(warnings_of("\"users\", \"rate\""), [""; 0]);
    assert_eq!(warnings_of("\"rate\"").len(), 1);
    let warnings = warnings_of("\"rate\", \"users\"");
    assert!(
        warnings[0].starts_with("the policy `rate` counts by user, but no earlier policy"),
        "{warnings:?}"
    );
}

#[test]
fn check_shows_servers_checks_limits_and_files() {
    let text = "[[listeners]]\naddress = \"127.0.0.1:1\"\n\
        [[routes]]\npath = \"/\"\nfiles = { root = \"www\", try_files = [\"{path}\", \"/index.html\"], listing = true, types = { md = \"text/markdown\" } }\n\
        [[routes]]\npath = \"/a\"\nupstream = \"a\"\naccess_log = false\n\
        [upstreams.a]\nservers = [\"127.0.0.1:1\", { address = \"127.0.0.1:2\", backup = true, weight = 3, requests_max = 5 }]\n\
        sticky = { cookie = \"srv\" }\nrequests_max = 9\nconnections_max = 8\ncheck = { path = \"/up\", interval = \"2s\" }\n";
    let shown = resolved(text).unwrap_or_else(|failure| panic!("{failure}")).to_string();
    for line in [
        "/ and below: files of www, tries {path}, /index.html, lists directories, types .md = text/markdown\n",
        "/a and below: forwarded to a; not in the access log\n",
        "upstream a: 127.0.0.1:1, 127.0.0.1:2 (backup, weight 3, at most 5 requests), checked by GET /up every 2s, \
         sticky by the cookie srv, at most 9 requests at a time, at most 8 connections, queue of 1000 requests for 5s\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

const HASH: &str = "$$2b$$04$$abcdefghijklmnopqrstuu5LR4NOrOhaS.xGF5fHEuU6CDjqMmhPe";
