//! One step of a scenario: writes its request, and checks its response.

use std::time::Duration;

use thruway_client::Url;
use thruway_http1::ResponseTo;
use thruway_message::{FieldLines, FieldValue};

use super::extract::Extraction;
use super::template::{Template, Values};
use super::user::UserState;
use crate::failure::{Failure, FailureKind};
use crate::requests::url::LoadUrl;

/// A compiled step.
#[derive(Debug)]
pub(crate) struct Step {
    /// Name for reports and thresholds.
    pub(super) name: String,
    /// Index of the scenario to which the step belongs.
    pub(super) flow: usize,
    pub(super) method: String,
    pub(super) response_to: ResponseTo,
    pub(super) target: Template,
    /// Header lines without variables. Each line ends with CRLF.
    pub(super) fixed_lines: String,
    /// Names and values of other headers.
    pub(super) headers: Vec<(String, Template)>,
    /// `true` if the step has a header `Cookie`, so that the cookies of the user are not sent.
    pub(super) has_cookie_header: bool,
    pub(super) body: Template,
    /// `true` if an empty body needs `Content-Length: 0` (RFC 9110 §8.6).
    pub(super) needs_length: bool,
    /// Expected statuses. If empty, any 2xx or 3xx status is expected.
    pub(super) statuses: Vec<u16>,
    /// Range of the time after the response.
    pub(super) think_time: Option<(Duration, Duration)>,
    pub(super) extractions: Vec<Extraction>,
}

impl Step {
    /// Returns the range of the time between the response and the next step.
    pub(crate) const fn think_time(&self) -> Option<(Duration, Duration)> {
        self.think_time
    }

    /// Returns `true` if the step extracts a value from the body of its response.
    pub(super) fn keeps_body(&self) -> bool {
        self.extractions.iter().any(|extraction| extraction.place.is_in_body())
    }

    /// Writes path and query of the request to `target`.
    ///
    /// # Errors
    /// Returns a message if the values of the variables make the URL invalid.
    pub(super) fn write_target(
        &self,
        values: &mut dyn Values,
        server: &LoadUrl,
        target: &mut String,
    ) -> Result<(), String> {
        target.clear();
        self.target.write(values, target);
        if !target.starts_with('/') {
            let url = Url::for_request(target).map_err(|_| invalid_url(target))?;
            if (url.authority(), url.is_https()) != (&*server.host, server.is_https) {
                let other = shown(url.authority());
                return Err(format!("the URL belongs to another server: `{other}`"));
            }
            url.target().clone_into(target);
        }
        if target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            Ok(())
        } else {
            Err(invalid_url(target))
        }
    }

    /// Appends the request line and the headers to `head`, without the headers for cookies and for the body.
    ///
    /// # Errors
    /// Returns a message if the values of the variables make a header invalid.
    pub(super) fn write_head(
        &self,
        values: &mut dyn Values,
        target: &str,
        is_persistent: bool,
        head: &mut String,
    ) -> Result<(), String> {
        for part in [&self.method, " ", target, " HTTP/1.1\r\n", &self.fixed_lines] {
            head.push_str(part);
        }
        if !is_persistent {
            head.push_str("Connection: close\r\n");
        }
        for (name, template) in &self.headers {
            head.push_str(name);
            head.push_str(": ");
            let start = head.len();
            template.write(values, head);
            if FieldValue::new(&head.as_bytes()[start..]).is_err() {
                return Err(format!("the value of the header `{name}` contains control characters"));
            }
            head.push_str("\r\n");
        }
        Ok(())
    }

    fn expects(&self, status: u16) -> bool {
        if self.statuses.is_empty() { (200..400).contains(&status) } else { self.statuses.contains(&status) }
    }
}

/// The parts of a response that a step uses.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    step: &'a Step,
    /// The status, or 0 before the header section has arrived.
    pub(crate) status: u16,
    /// Size of the body in bytes.
    pub(crate) content_bytes: u64,
    /// Beginning of the body, if the step extracts values from it.
    body: Vec<u8>,
    keeps_body: bool,
    body_bytes_max: usize,
    /// Values from headers, in the order of the extractions.
    of_headers: Vec<Option<String>>,
    set_cookies: Vec<String>,
    keeps_cookies: bool,
}

impl<'a> Received<'a> {
    pub(super) fn new(step: &'a Step, body: Vec<u8>, body_bytes_max: usize, keeps_cookies: bool) -> Self {
        Self {
            step,
            status: 0,
            content_bytes: 0,
            body,
            keeps_body: step.keeps_body(),
            body_bytes_max,
            of_headers: Vec::new(),
            set_cookies: Vec::new(),
            keeps_cookies,
        }
    }

    /// Processes the header section.
    pub(crate) fn begin(&mut self, status: u16, fields: FieldLines<'_>) {
        self.status = status;
        self.of_headers =
            self.step.extractions.iter().map(|extraction| extraction.place.of_headers(fields)).collect();
        if self.keeps_cookies {
            let headers = fields.all("set-cookie").take(SET_COOKIES_MAX);
            self.set_cookies =
                headers.filter_map(|value| String::from_utf8(value.as_bytes().to_vec()).ok()).collect();
        }
    }

    /// Processes the next part of the body.
    pub(crate) fn take_content(&mut self, content: &[u8]) {
        self.content_bytes += content.len() as u64;
        if self.keeps_body {
            let room = self.body_bytes_max.saturating_sub(self.body.len());
            self.body.extend_from_slice(&content[..content.len().min(room)]);
        }
    }

    /// Checks the complete response, and stores its cookies and values in `user`. `now` is the time on the clock of
    /// the load, and `date` the time since 1970.
    ///
    /// # Errors
    /// Returns the failure and its description if the status is unexpected, or if a value is missing.
    pub(crate) fn finish(
        mut self,
        user: &mut UserState,
        now: Duration,
        date: Duration,
    ) -> Result<(), (Failure, String)> {
        for header in &self.set_cookies {
            user.cookies.set(header, &user.target, now, date);
        }
        let outcome = self.check(user);
        user.body = self.body;
        outcome
    }

    fn check(&mut self, user: &mut UserState) -> Result<(), (Failure, String)> {
        let (step, status) = (self.step, self.status);
        if !step.expects(status) {
            return Err((Failure::status(status), format!("status {status}")));
        }
        let is_whole = self.content_bytes <= self.body_bytes_max as u64;
        let needs_json = step.extractions.iter().any(|extraction| extraction.place.is_json());
        let json = if needs_json && is_whole { serde_json::from_slice(&self.body).ok() } else { None };
        for (index, extraction) in step.extractions.iter().enumerate() {
            let found = if !extraction.place.is_in_body() {
                self.of_headers.get_mut(index).and_then(Option::take)
            } else if is_whole {
                extraction.place.of_body(&self.body, json.as_ref())
            } else {
                None
            };
            let Some(value) = found.or_else(|| extraction.default.clone()) else {
                let why = if extraction.place.is_in_body() && !is_whole {
                    format!("the body has more than {} bytes", self.body_bytes_max)
                } else {
                    format!("{} matches nothing", extraction.place.describe())
                };
                let example = format!("no value for `{}`: {why}", extraction.name);
                return Err((Failure::of(FailureKind::NotExtracted), example));
            };
            user.extracted[extraction.slot] = value;
        }
        Ok(())
    }
}

fn invalid_url(url: &str) -> String {
    format!("the URL is invalid: `{}` (encode values with `| urlencode`)", shown(url))
}

/// Escapes a value of a variable for an error message, and limits its length.
fn shown(text: &str) -> String {
    let beginning: String = text.chars().take(SHOWN_CHARACTERS).collect();
    beginning.escape_debug().to_string()
}

const SHOWN_CHARACTERS: usize = 100;

/// Maximum number of cookies that a response can set.
const SET_COOKIES_MAX: usize = 50;
