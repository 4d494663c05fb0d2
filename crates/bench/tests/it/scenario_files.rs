//! Tests of errors in scenario files.

use std::path::Path;

use thruway_bench::Scenario;

const STEP: &str = "[[steps]]\nname = 'a'\nurl = '/'\n";

/// Asserts that the text of each file is refused, and that the error contains the expected text.
fn assert_refused(files: &[(&str, &str)]) {
    for (text, error) in files {
        let found = Scenario::parse(text, Path::new("a.toml"), Some("http://127.0.0.1"), &[]);
        let found = found.unwrap_err().to_string();
        assert!(found.contains(error), "{text}\nfound: {found}\nexpected: {error}");
    }
}

#[test]
fn errors_in_the_file_name_line_and_key() {
    assert_refused(&[
        ("", "`a.toml`: it has neither `[[steps]]` nor `[[scenarios]]`"),
        ("url = 5", "`a.toml`, line 1, key `url`: invalid type: integer `5`, expected a string"),
        ("a = ", "`a.toml`, line 1, key `a`: "),
        ("[[steps]]\nname = 'a'\nuri = '/'\n", "`a.toml`, line 3, key `uri`: unknown field `uri`"),
        ("[[steps]]\nname = 'a'\n", "`a.toml`, line 1: missing field `url`"),
        ("[[steps]]\nname = 'a: b'\nurl = '/'\n", "`a.toml`, line 2, key `name`: a name has"),
        (&format!("{STEP}{STEP}"), "`a.toml`, line 5, key `name`: another step has the same name"),
        ("[[steps]]\nname = 'a'\nurl = 'orders'\n", "`a.toml`, line 3, key `url`: expected a path"),
        ("[[steps]]\nname = 'a'\nurl = '/{{ b }}'\n", "`a.toml`, line 3, key `url`: unknown variable `b`"),
        ("[[steps]]\nname = 'a'\nurl = '/{{ b'\n", "`a.toml`, line 3, key `url`: `{{` has no matching `}}`"),
        (
            "[[steps]]\nname = 'a'\nurl = '/{{ env.THRUWAY_NONE }}'\n",
            "key `url`: the environment variable `THRUWAY_NONE` is not set",
        ),
        ("[[steps]]\nname = 'a'\nurl = '/{{ b.c }}'\n", "key `url`: unknown data table `b`"),
    ]);
}

#[test]
fn invalid_values_of_steps_name_line_and_key() {
    assert_refused(&[
        (&format!("{STEP}method = 'CONNECT'"), "line 4, key `method`: `CONNECT` is not a supported method"),
        (
            &format!("{STEP}method = \"\\u001B[2J\""),
            r"line 4, key `method`: `\u{1b}[2J` is not a supported method",
        ),
        (&format!("{STEP}status = 99"), "line 4, key `status`: a status is a number from 200 to 599"),
        (&format!("{STEP}status = 'a'"), "line 4, key `status`: expected a status such as `200`"),
        (&format!("{STEP}think_time = 5"), "line 4, key `think_time`: expected a time such as"),
        (&format!("{STEP}think_time = '5x'"), "line 4, key `think_time`: invalid time `5x`: "),
        (&format!("{STEP}think_time = ['2s', '1s']"), "the first time is longer than the second time"),
        (
            &format!("{STEP}headers = {{ Connection = 'close' }}"),
            "line 4, key `headers.Connection`: the load generator",
        ),
        (&format!("{STEP}headers = {{ 'A B' = 'c' }}"), "key `headers.A B`: it is not a valid header name"),
        (
            &format!("{STEP}headers = {{ A = \"b\\nc\" }}"),
            "key `headers.A`: the value contains control characters",
        ),
        (
            &format!("{STEP}extract = {{ a = {{ }} }}"),
            "line 4, key `extract.a`: expected exactly one of `json`, `header`",
        ),
        (
            &format!("{STEP}extract = {{ user = {{ json = '/a' }} }}"),
            "key `extract.user`: `user` is a built-in variable",
        ),
        (
            &format!("{STEP}extract = {{ a = {{ regex = '(' }} }}"),
            "key `extract.a`: the regular expression is invalid",
        ),
        (&format!("{STEP}[[scenarios]]\nname = 'b'"), "use either `[[steps]]` or `[[scenarios]]`, not both"),
        ("[[scenarios]]\nname = 'b'", "`a.toml`, line 2, key `steps`: the scenario `b` has no steps"),
        (
            "[[scenarios]]\nname = 'b'\nweight = 0\n[[scenarios.steps]]\nname = 'a'\nurl = '/'",
            "`a.toml`, line 3, key `weight`: expected a number from 1 to 1000",
        ),
        (
            &format!("response_bytes_max = 0\n{STEP}"),
            "line 1, key `response_bytes_max`: expected a number of bytes",
        ),
        (&format!("[data.a]\nfile = 'none.csv'\n{STEP}"), "`none.csv`: cannot read it: "),
    ]);
}

#[test]
fn invalid_loops_and_redirects_name_line_and_key() {
    let second = "[[steps]]\nname = 'b'\nurl = '/'\n";
    let third = "[[steps]]\nname = 'c'\nurl = '/'\n";
    assert_refused(&[
        (&format!("{STEP}redirects = 21"), "line 4, key `redirects`: expected a number from 0 to 20"),
        (&format!("redirects = 21\n{STEP}"), "line 1, key `redirects`: expected a number from 0 to 20"),
        (&format!("{STEP}repeat = 0"), "line 4, key `repeat`: expected a number from 1 to 10000"),
        (&format!("{STEP}repeat = [3, 2]"), "line 4, key `repeat`: expected a number from 1 to 10000"),
        (
            &format!("{STEP}repeat = 'a'"),
            "line 4, key `repeat`: expected a number such as `3`, a range such as",
        ),
        (
            &format!("{STEP}repeat = {{ times = 2, from = 'b\\n' }}\n{second}"),
            "line 4, key `repeat`: neither this step nor an earlier step of the scenario has the name",
        ),
        (
            &format!(
                "{STEP}{second}repeat = {{ times = 2, from = 'a' }}\n{third}repeat = {{ times = 2, from = 'b' }}"
            ),
            "line 11, key `repeat`: this loop begins inside the loop of the step `b`, but ends after it",
        ),
        (
            &format!("{STEP}repeat = 1000\n{second}repeat = {{ times = 200, from = 'a' }}"),
            "line 8, key `repeat`: an iteration can have up to 200200 steps, but the maximum is 100000",
        ),
    ]);
}

#[test]
fn url_of_the_server_comes_from_the_file_or_from_the_caller() {
    let of_url = |text: &str, url: Option<&str>| {
        Scenario::parse(text, Path::new("a.toml"), url, &[]).unwrap_err().to_string()
    };
    assert!(of_url(STEP, None).contains("it has no `url`: add `url = \"http://HOST:PORT\"`"));
    let path = of_url(&format!("url = 'http://a/b'\n{STEP}"), None);
    assert_eq!(
        path,
        "`a.toml`, line 1, key `url`: the URL of the server has no path: write the path in each step"
    );
    assert!(of_url(STEP, Some("ftp://a")).contains("the URL of the server is invalid"));
    let missing = Scenario::read(Path::new("/none.toml"), None, &[]).unwrap_err().to_string();
    assert!(missing.starts_with("`/none.toml`: cannot read it: "), "{missing}");
}
