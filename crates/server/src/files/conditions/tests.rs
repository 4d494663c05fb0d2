use super::*;
use crate::files::tests::with_fields;

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn validators() -> Validators {
    Validators { entity_tag: "\"now\"".to_owned(), last_modified: Some(parse_http_date(DATE).unwrap()) }
}

fn verdict(lines: &[(&str, &str)]) -> Verdict {
    with_fields(lines, |fields| evaluate(fields, &validators()))
}

fn is_range_allowed(lines: &[(&str, &str)]) -> bool {
    with_fields(lines, |fields| allows_range(fields, &validators()))
}

use Verdict::{NotModified, PreconditionFailed, Proceed};

#[test]
fn request_without_preconditions_proceeds() {
    assert_eq!(verdict(&[]), Proceed);
    assert_eq!(verdict(&[("Host", "a"), ("If", "x")]), Proceed);
}

#[test]
fn if_match_compares_strongly() {
    for (value, expected) in [
        ("\"now\"", Proceed),
        ("\"then\", \"now\"", Proceed),
        ("*", Proceed),
        ("W/\"now\"", PreconditionFailed),
        ("\"then\"", PreconditionFailed),
        ("\"NOW\"", PreconditionFailed),
        ("now", PreconditionFailed),
        ("", PreconditionFailed),
        ("\"then\", *", PreconditionFailed),
    ] {
        assert_eq!(verdict(&[("If-Match", value)]), expected, "{value}");
    }
}

#[test]
fn if_none_match_compares_weakly() {
    for (value, expected) in [
        ("\"now\"", NotModified),
        ("W/\"now\"", NotModified),
        ("\"a,b\", W/\"then\",\"now\"", NotModified),
        ("*", NotModified),
        ("\"then\"", Proceed),
        ("\"NOW\"", Proceed),
        ("now", Proceed),
        ("", Proceed),
    ] {
        assert_eq!(verdict(&[("If-None-Match", value)]), expected, "{value}");
    }
}

#[test]
fn entity_tag_list_may_span_several_field_lines() {
    assert_eq!(verdict(&[("If-None-Match", "\"a\""), ("if-none-match", "\"now\"")]), NotModified);
    assert_eq!(verdict(&[("If-Match", "\"a\""), ("if-match", "\"now\"")]), Proceed);
    assert_eq!(verdict(&[("If-Match", "\"a\""), ("if-match", "\"b\"")]), PreconditionFailed);
}

#[test]
fn if_modified_since_accepts_all_date_formats() {
    for (value, expected) in [
        (DATE, NotModified),
        (AFTER, NotModified),
        (BEFORE, Proceed),
        ("Fri, 31 Dec 9999 23:59:59 GMT", NotModified),
        ("Sunday, 06-Nov-94 08:49:37 GMT", NotModified),
        ("Sun Nov  6 08:49:37 1994", NotModified),
        ("Sun Nov  6 08:49:36 1994", Proceed),
    ] {
        assert_eq!(verdict(&[("If-Modified-Since", value)]), expected, "{value}");
    }
}

#[test]
fn if_unmodified_since_compares_dates() {
    for (value, expected) in [(DATE, Proceed), (AFTER, Proceed), (BEFORE, PreconditionFailed)] {
        assert_eq!(verdict(&[("If-Unmodified-Since", value)]), expected, "{value}");
    }
}

#[test]
fn conditions_with_invalid_dates_are_ignored() {
    let two_dates = format!("{DATE}, {DATE}");
    let no_dates = ["", "0", "yesterday", "Sun, 06 Nov 1994 08:49:37 PST", "1994-11-06", &two_dates];
    for value in no_dates {
        assert_eq!(verdict(&[("If-Modified-Since", value)]), Proceed, "{value}");
        assert_eq!(verdict(&[("If-Unmodified-Since", value)]), Proceed, "{value}");
        assert!(!is_range_allowed(&[("If-Range", value)]), "{value}");
    }
    assert_eq!(verdict(&[("If-Modified-Since", DATE), ("If-Modified-Since", DATE)]), Proceed);
    assert_eq!(verdict(&[("If-Unmodified-Since", BEFORE), ("If-Unmodified-Since", BEFORE)]), Proceed);
}

#[test]
fn file_without_last_modified_ignores_date_conditions() {
    let validators = Validators { last_modified: None, ..validators() };
    for name in ["If-Modified-Since", "If-Unmodified-Since"] {
        for value in [BEFORE, DATE, AFTER] {
            with_fields(&[(name, value)], |fields| assert_eq!(evaluate(fields, &validators), Proceed));
        }
    }
    for value in [DATE, "no date"] {
        with_fields(&[("If-Range", value)], |fields| assert!(!allows_range(fields, &validators)));
    }
}

/// Tests the order of RFC 9110 §13.2.2 for every combination of conditions that are true, false or absent.
#[test]
fn preconditions_have_rfc_9110_precedence() {
    const HOLDS: [Option<bool>; 3] = [None, Some(true), Some(false)];
    let line = |name, holds: Option<bool>, if_true, if_false| {
        holds.map(|holds| (name, if holds { if_true } else { if_false }))
    };
    for combination in 0..81 {
        let [match_, unmodified, none_match, modified] = [1, 3, 9, 27].map(|i| HOLDS[combination / i % 3]);
        let lines: Vec<(&str, &str)> = [
            line("If-Match", match_, "\"now\"", "\"then\""),
            line("If-Unmodified-Since", unmodified, DATE, BEFORE),
            line("If-None-Match", none_match, "\"then\"", "\"now\""),
            line("If-Modified-Since", modified, BEFORE, DATE),
        ]
        .into_iter()
        .flatten()
        .collect();
        let expected = match (match_, unmodified, none_match, modified) {
            (Some(false), ..) | (None, Some(false), ..) => PreconditionFailed,
            (_, _, Some(false), _) | (_, _, None, Some(false)) => NotModified,
            _ => Proceed,
        };
        assert_eq!(verdict(&lines), expected, "{lines:?}");
    }
}

#[test]
fn if_range_allows_range_only_for_unchanged_file() {
    assert!(is_range_allowed(&[]));
    for (value, expected) in [
        ("\"now\"", true),
        (DATE, true),
        ("Sunday, 06-Nov-94 08:49:37 GMT", true),
        ("W/\"now\"", false),
        ("\"then\"", false),
        ("\"now\", \"now\"", false),
        ("*", false),
        ("now", false),
        (AFTER, false),
        (BEFORE, false),
    ] {
        assert_eq!(is_range_allowed(&[("If-Range", value)]), expected, "{value}");
    }
    assert!(!is_range_allowed(&[("If-Range", "\"now\""), ("If-Range", "\"now\"")]));
}

#[test]
fn last_modified_has_whole_seconds_and_is_never_in_the_future() {
    let at = |seconds, nanoseconds| SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    assert_eq!(last_modified(at(5, 999_999_999), at(100, 0)), Some(at(5, 0)));
    assert_eq!(last_modified(at(200, 0), at(100, 7)), Some(at(100, 0)));
    assert_eq!(last_modified(at(0, 0), at(100, 0)), Some(at(0, 0)));
    assert_eq!(last_modified(at(0, 0) - Duration::from_nanos(1), at(100, 0)), None);
    assert_eq!(last_modified(at(YEAR_10000, 0), at(YEAR_10000, 0)), None);
    let last = last_modified(at(YEAR_10000 - 1, 0), at(YEAR_10000, 0)).unwrap();
    assert_eq!(httpdate::fmt_http_date(last), "Fri, 31 Dec 9999 23:59:59 GMT");
}
