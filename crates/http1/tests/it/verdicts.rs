//! Tests that every sample has its expected result, and that every rule has a sample that breaks it.

use std::collections::HashSet;

use thruway_http1::Error;
use thruway_testkit::transcript::Transcript;

use crate::samples;

#[test]
fn every_sample_has_the_expected_result() {
    let mut wrong = Vec::new();
    for sample in samples::all() {
        let transcript = Transcript::read(&sample.reader, sample.limits, [sample.input.as_slice()]);
        let expected = sample.transcript.join("\n");
        if transcript.to_string() != expected {
            wrong.push(format!(
                "{}\n  input    {}\n  expected {expected}\n  got      {transcript}",
                sample.name,
                sample.input.escape_ascii()
            ));
        }
    }
    assert!(wrong.is_empty(), "{} samples:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_error_has_a_sample_that_causes_it() {
    let broken: HashSet<Error> = samples::all()
        .iter()
        .filter_map(|sample| Transcript::read(&sample.reader, sample.limits, [sample.input.as_slice()]).error)
        .collect();
    let missing: Vec<_> = Error::ALL.iter().filter(|error| !broken.contains(error)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn errors_are_sorted_and_have_an_error_status() {
    let names: Vec<String> = Error::ALL.iter().map(|error| format!("{error:?}")).collect();
    assert!(names.is_sorted(), "{names:?}");
    for error in Error::ALL {
        assert!((400..600).contains(&error.status().as_u16()), "{error:?}");
        let message = error.to_string();
        assert!(!message.is_empty() && !message.ends_with('.'), "{message}");
    }
}

#[test]
fn errors_with_a_status_other_than_400_are_listed() {
    let others: Vec<String> = Error::ALL
        .iter()
        .filter(|error| error.status().as_u16() != 400)
        .map(|error| format!("{error:?} {}", error.status()))
        .collect();
    assert_eq!(
        others,
        [
            "ContentTooLarge 413",
            "ExpectationUnknown 417",
            "FieldLinesTooMany 431",
            "HeaderSectionTooLarge 431",
            "InterimResponsesTooMany 502",
            "MethodTooLong 501",
            "RequestTargetTooLong 414",
            "StatusLineInvalid 502",
            "TrailerSectionTooLarge 431",
            "TransferCodingUnknown 501",
            "UnexpectedMessage 502",
            "VersionNotSupported 505",
        ]
    );
}
