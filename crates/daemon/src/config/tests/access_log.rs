//! Tests of the access log section.

use std::path::Path;

use thruway_server::{AccessLogFormat, AccessLogTarget, SyslogAddress, SyslogFacility};

use super::*;

fn with_log(keys: &str) -> Result<Config, Failure> {
    resolved(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:1\"\n[[routes]]\npath = \"/\"\nrespond.status = 204\n\
         [access_log]\n{keys}\n"
    ))
}

#[test]
fn each_format_and_target_of_the_access_log_is_shown() {
    for (keys, shown) in [
        ("", "combined, to the standard output"),
        ("format = \"otel\"\npath = \"/a.log\"", "otel, to /a.log"),
        ("format = \"ecs\"\nsocket = \"/a.sock\"", "ecs, to the socket /a.sock"),
        (
            "template = '{timestamp}'\nsyslog = {}",
            "by the template of the config, to syslog at unix:/dev/log",
        ),
        (
            "members.a = \"timestamp\"\nsyslog.address = \"udp://[::1]:514\"\nsample.ratio = 0.5",
            "json with the members of the config, to syslog at udp://[::1]:514, a sample of 0.5",
        ),
    ] {
        let config = with_log(keys).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(config.to_string().contains(&format!("access log: {shown}\n")), "{config}");
    }
}

#[test]
fn syslog_keys_reach_the_target() {
    let keys = "[access_log.syslog]\naddress = \"tcp://logs.example:601\"\nfacility = \"daemon\"\napp_name = \"edge\"";
    let log = with_log(keys).unwrap().access_log.unwrap();
    let AccessLogTarget::Syslog(syslog) = &log.target else { panic!("{:?}", log.target) };
    assert_eq!(syslog.address, SyslogAddress::Tcp("logs.example:601".to_owned()));
    assert_eq!((syslog.facility, &*syslog.app_name), (SyslogFacility::Daemon, "edge"));
    let relative = with_log("syslog.address = \"unix:log\"").unwrap().access_log.unwrap().target;
    let AccessLogTarget::Syslog(syslog) = &relative else { panic!("{relative:?}") };
    assert_eq!(syslog.address, SyslogAddress::Unix(Path::new("log").to_owned()));
}

#[test]
fn unknown_variables_are_refused_with_a_hint() {
    for (keys, hint) in [
        ("template = '{http.response.status}'", "did you mean `http.response.status_code`?"),
        ("members.code = \"user.nam\"", "did you mean `user.name`?"),
        ("template = '{xyz}'", "possible here: `client.address`"),
        (
            "template = '{http.request.header.Host}'",
            "write the header name in lower case: `http.request.header.host`",
        ),
        ("template = '{timestamp'", "a brace has no partner"),
        ("template = 'a'", "contains no variable"),
        ("template = \"{timestamp}\\n\"", "control character"),
        ("members = {}", "the lines have no members"),
    ] {
        let failure = with_log(keys).err().unwrap().to_string();
        assert!(failure.contains(hint) && failure.contains("serve.toml:7"), "{failure}");
    }
}

#[test]
fn contradictions_of_the_access_log_are_refused() {
    for (keys, message) in [
        ("format = \"json\"\ntemplate = '{timestamp}'", "one format"),
        ("template = '{timestamp}'\nmembers.a = \"timestamp\"", "one format"),
        ("path = \"-\"\nsocket = \"a\"", "one target"),
        ("socket = \"a\"\nsyslog = {}", "one target"),
        ("sample.ratio = 1.5", "from 0 to 1"),
        ("sample.ratio = nan", "from 0 to 1"),
        ("syslog.address = \"localhost:514\"", "not the address of a syslog server"),
        ("syslog.address = \"udp://localhost\"", "not the address of a syslog server"),
        ("syslog.app_name = \"a b\"", "`app_name` must have 1 to 48"),
    ] {
        let failure = with_log(keys).err().unwrap().to_string();
        assert!(failure.contains(message), "{failure}");
    }
}

#[test]
fn only_common_and_combined_lines_need_no_data_about_forwarding() {
    for (keys, expected) in [
        ("format = \"common\"", false),
        ("format = \"combined\"", false),
        ("format = \"ecs\"", true),
        ("template = '{upstream}'", true),
    ] {
        let log = with_log(keys).unwrap().access_log.unwrap();
        assert_eq!(log.has_forwarding_fields(), expected, "{keys}");
        assert_eq!(matches!(log.lines.format, AccessLogFormat::Template(_)), keys.starts_with("template"));
    }
}
