//! One step of a scenario: writes its request, and checks its response.

use std::time::Duration;

use thruway_client::Url;
use thruway_http1::ResponseTo;
use thruway_message::{FieldLines, FieldValue, Method};

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
    /// Method and URL as the file writes them.
    pub(super) url_text: String,
    /// Maximum number of redirects to follow.
    pub(super) redirects_max: u32,
    /// The loop that ends with this step.
    pub(super) repeat: Option<Repeat>,
}

/// A loop over steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeat {
    /// Index of the first step.
    pub(super) first: usize,
    /// Minimum number of runs, at least 1.
    pub(super) least: u32,
    /// Maximum number of runs.
    pub(super) most: u32,
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

    /// Appends the request line and the headers of a redirected request, which has no body.
    ///
    /// # Errors
    /// Returns a message if the values of the variables make a header invalid.
    pub(super) fn write_head_of_redirect(
        &self,
        values: &mut dyn Values,
        target: &str,
        is_persistent: bool,
        head: &mut String,
    ) -> Result<ResponseTo, String> {
        let mut lines = String::new();
        self.write_head(values, target, is_persistent, &mut lines)?;
        let is_head = self.method == "HEAD";
        head.push_str(if is_head { "HEAD " } else { "GET " });
        head.push_str(target);
        head.push_str(" HTTP/1.1\r\n");
        let is_of_body = |line: &str| line.get(..8).is_some_and(|name| name.eq_ignore_ascii_case("content-"));
        let lines = lines.split_inclusive("\r\n").skip(1).filter(|line| !is_of_body(line));
        lines.for_each(|line| head.push_str(line));
        Ok(if is_head { self.response_to } else { ResponseTo::from(Method::Get) })
    }

    /// Returns `true` if the user follows a redirect with this status after `followed` redirects.
    pub(crate) fn follows(&self, status: u16, followed: u32) -> bool {
        let is_redirect = matches!(status, 301 | 302 | 303 | 307 | 308);
        is_redirect && followed < self.redirects_max && !self.statuses.contains(&status)
    }

    /// Returns `true` if the response is a redirect although the step follows redirects: there were too many, or the
    /// redirect had no URL.
    fn is_redirect_left(&self, status: u16) -> bool {
        self.redirects_max > 0 && self.follows(status, 0)
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
    /// The value of `Location`, if the step can follow redirects.
    location: Option<String>,
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
            location: None,
        }
    }

    /// Processes the header section.
    pub(crate) fn begin(&mut self, status: u16, fields: FieldLines<'_>) {
        self.status = status;
        self.of_headers =
            self.step.extractions.iter().map(|extraction| extraction.place.of_headers(fields)).collect();
        if self.step.redirects_max > 0 {
            let location = fields.field("location");
            self.location = location.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        }
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

    /// Returns the URL of the redirect, if the user follows it after `followed` redirects. In this case, stores the
    /// cookies of the response in `user`.
    pub(crate) fn redirect(
        &mut self,
        followed: u32,
        user: &mut UserState,
        now: Duration,
        date: Duration,
    ) -> Option<String> {
        let location = self.location.take().filter(|_| self.step.follows(self.status, followed))?;
        for header in self.set_cookies.drain(..) {
            user.cookies.set(&header, &user.target, now, date);
        }
        user.body = std::mem::take(&mut self.body);
        Some(location)
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
        if !step.expects(status) || step.is_redirect_left(status) {
            let reason = if step.is_redirect_left(status) {
                format!("status {status}: no `Location`, or more than {} redirects", step.redirects_max)
            } else {
                format!("status {status}")
            };
            return Err((Failure::status(status), reason));
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
