//! A compiled scenario file.

use std::ops::Range;
use std::time::Duration;

use thruway_http1::ResponseTo;
use thruway_message::Method;

use super::cookies::{COOKIE_LINE, Cookies};
use super::data::DataTable;
use super::file::{CookieUse, RowOrder};
use super::step::{Received, Step};
use super::user::{IterationValues, LoopProgress, UserState};
use crate::requests::template::mixed;
use crate::requests::url::LoadUrl;

/// A compiled scenario file.
///
/// ```
/// use std::path::Path;
/// use thruway_bench::Scenario;
///
/// let text = r#"
/// url = "http://127.0.0.1:8080"
///
/// [[steps]]
/// name = "login"
/// url = "/login"
/// body = "user={{ user }}"
/// extract = { token = { json = "/token" } }
/// think_time = ["1s", "3s"]
///
/// [[steps]]
/// name = "orders"
/// url = "/orders"
/// headers = { Authorization = "Bearer {{ token }}" }
/// "#;
/// let scenario = Scenario::parse(text, Path::new("shop.toml"), None, &[])?;
/// assert_eq!(scenario.step_names().collect::<Vec<_>>(), ["login", "orders"]);
/// # Ok::<(), thruway_bench::InvalidScenario>(())
/// ```
#[derive(Debug)]
pub struct Scenario {
    pub(super) url: LoadUrl,
    pub(super) steps: Vec<Step>,
    pub(super) flows: Vec<Flow>,
    pub(super) tables: Vec<(DataTable, RowOrder)>,
    pub(super) cookies: CookieUse,
    pub(super) response_bytes_max: usize,
    /// Number of extracted values.
    pub(super) slots: usize,
}

/// One of several alternative scenarios.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) name: String,
    /// The sum of the weights of this scenario and of all scenarios before it.
    pub(super) weight_end: u64,
    /// Indexes of its steps.
    pub(super) steps: Range<usize>,
}

impl Scenario {
    /// Returns the help of a command line option of loads, if the option has another meaning for virtual users.
    /// `option` is the name of the option in snake case.
    pub fn option_help(option: &str) -> Option<&'static str> {
        OPTION_HELP.iter().find(|(name, _)| *name == option).map(|(_, help)| *help)
    }

    /// Returns the URL of the server.
    pub const fn url(&self) -> &LoadUrl {
        &self.url
    }

    /// Returns the names of all steps, in the order of the file.
    pub fn step_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.steps.iter().map(|step| step.name.as_str())
    }

    /// Returns method and URL of the step with this index, as the file writes them.
    pub(crate) fn step_url(&self, step: usize) -> &str {
        &self.steps[step].url_text
    }

    /// Returns the name of the scenario to which the step with this index belongs.
    pub(crate) fn flow_name(&self, step: usize) -> &str {
        &self.flows[self.steps[step].flow].name
    }

    /// Returns the longest time of an iteration if each request takes at most `timeout`.
    pub(crate) fn duration_max(&self, timeout: Duration) -> Duration {
        let of_flow = |flow: &Flow| {
            let steps = &self.steps[flow.steps.clone()];
            let time_max = |(index, step): (usize, &Step)| {
                let think_time = step.think_time.map_or(Duration::ZERO, |(_, most)| most);
                let requests = timeout.saturating_mul(1 + step.redirects_max);
                let runs = u32::try_from(self.runs_max(flow.steps.start + index)).unwrap_or(u32::MAX);
                think_time.saturating_add(requests).saturating_mul(runs)
            };
            steps.iter().enumerate().map(time_max).fold(Duration::ZERO, Duration::saturating_add)
        };
        self.flows.iter().map(of_flow).max().unwrap_or_default()
    }

    /// Returns the state of the virtual user with this number. The number is the seed of its random values.
    pub(crate) fn new_user(&self, number: u64) -> UserState {
        UserState {
            number,
            iteration: 0,
            rows: vec![0; self.tables.len()],
            extracted: vec![String::new(); self.slots],
            cookies: Cookies::default(),
            loops: vec![LoopProgress::default(); self.steps.len()],
            random: fastrand::Rng::with_seed(mixed(number)),
            target: String::new(),
            body: Vec::new(),
        }
    }

    /// Begins the iteration with this number. Returns the indexes of its steps.
    pub(crate) fn begin_iteration(&self, user: &mut UserState, number: u64) -> Range<usize> {
        user.iteration = number;
        user.loops.fill(LoopProgress::default());
        if self.cookies == CookieUse::Iteration {
            user.cookies.clear();
        }
        for (row, (table, order)) in user.rows.iter_mut().zip(&self.tables) {
            let count = table.row_count() as u64;
            let index = if *order == RowOrder::Random { user.random.u64(..count) } else { number % count };
            *row = usize::try_from(index).unwrap_or(0);
        }
        let total = self.flows.last().map_or(1, |flow| flow.weight_end);
        let chosen = mixed(number) % total.max(1);
        let flow = self.flows.iter().find(|flow| chosen < flow.weight_end);
        flow.map_or(0..0, |flow| flow.steps.clone())
    }

    /// Returns the maximum number of runs of the step with this index in an iteration.
    pub(super) fn runs_max(&self, index: usize) -> u64 {
        runs_max(&self.steps, index)
    }

    /// Returns the index of the step after the step with this index. At the end of a loop, this may be the first
    /// step of the loop.
    pub(crate) fn step_after(&self, index: usize, user: &mut UserState) -> usize {
        let Some(repeat) = &self.steps[index].repeat else { return index + 1 };
        let progress = &mut user.loops[index];
        if progress.times == 0 {
            progress.times = user.random.u32(repeat.least..=repeat.most);
        }
        progress.done += 1;
        if progress.done < progress.times {
            return repeat.first;
        }
        // An outer loop may run this loop again.
        *progress = LoopProgress::default();
        index + 1
    }

    /// Returns the step with this index.
    pub(crate) fn step(&self, index: usize) -> &Step {
        &self.steps[index]
    }

    /// Appends the request of the step with this index to `output`. `now` is the time on the clock of the load.
    ///
    /// # Errors
    /// Returns a message if the values of the variables make the request invalid.
    pub(crate) fn write(
        &self,
        index: usize,
        user: &mut UserState,
        is_persistent: bool,
        now: Duration,
        output: &mut Vec<u8>,
    ) -> Result<ResponseTo, String> {
        let step = &self.steps[index];
        let mut target = std::mem::take(&mut user.target);
        let (mut head, mut body) = (String::new(), String::new());
        let mut values = IterationValues { user: &mut *user, tables: &self.tables };
        let written = step
            .write_target(&mut values, &self.url, &mut target)
            .and_then(|()| step.write_head(&mut values, &target, is_persistent, &mut head));
        step.body.write(&mut values, &mut body);
        if self.cookies != CookieUse::Off && !step.has_cookie_header {
            user.cookies.write(&target, self.url.is_https, now, &mut head);
        }
        user.target = target;
        written?;
        output.extend_from_slice(head.as_bytes());
        if step.needs_length || !body.is_empty() {
            output.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        output.extend_from_slice(b"\r\n");
        output.extend_from_slice(body.as_bytes());
        Ok(step.response_to)
    }

    /// Changes `request`, which is the request of the step with this index, so that it follows a redirect with the
    /// status `status` to `location`. 307 and 308 keep method and body of `request`. After the other statuses, the user
    /// sends GET, or HEAD if the step sends HEAD (RFC 9110 §15.4). The request contains the current cookies of the user.
    ///
    /// # Errors
    /// Returns a message if the URL is invalid, or belongs to another server.
    pub(crate) fn redirect(
        &self,
        index: usize,
        user: &mut UserState,
        (status, location): (u16, &str),
        is_persistent: bool,
        now: Duration,
        request: &mut Vec<u8>,
    ) -> Result<ResponseTo, String> {
        let step = &self.steps[index];
        let target = self.url.target_of_redirect(&user.target, location)?;
        target.clone_into(&mut user.target);
        if matches!(status, 307 | 308) {
            let end = request
                .windows(4)
                .position(|bytes| bytes == b"\r\n\r\n")
                .map_or(request.len(), |end| end + 2);
            let head = String::from_utf8_lossy(&request[..end]);
            // An earlier redirect may have changed the method of the step.
            let method = head.split(' ').next().unwrap_or_default();
            let to = if method == step.method { step.response_to } else { ResponseTo::from(Method::Get) };
            let mut changed = format!("{method} {target} HTTP/1.1\r\n");
            let sends_cookies = self.cookies != CookieUse::Off && !step.has_cookie_header;
            let is_kept = |line: &&str| !(sends_cookies && line.starts_with(COOKIE_LINE));
            changed.extend(head.split_inclusive("\r\n").skip(1).filter(is_kept));
            if sends_cookies {
                user.cookies.write(&target, self.url.is_https, now, &mut changed);
            }
            request.splice(..end, changed.into_bytes());
            return Ok(to);
        }
        let mut head = String::new();
        let mut values = IterationValues { user: &mut *user, tables: &self.tables };
        let to = step.write_head_of_redirect(&mut values, &target, is_persistent, &mut head)?;
        if self.cookies != CookieUse::Off && !step.has_cookie_header {
            user.cookies.write(&target, self.url.is_https, now, &mut head);
        }
        request.clear();
        request.extend_from_slice(head.as_bytes());
        request.extend_from_slice(b"\r\n");
        Ok(to)
    }

    /// Begins to receive the response to the step with this index.
    pub(crate) fn receive(&self, index: usize, user: &mut UserState) -> Received<'_> {
        let mut body = std::mem::take(&mut user.body);
        body.clear();
        Received::new(&self.steps[index], body, self.response_bytes_max, self.cookies != CookieUse::Off)
    }
}

/// Returns the maximum number of runs of the step with the index `index`: the product of the runs of all loops that
/// contain the step.
pub(super) fn runs_max(steps: &[Step], index: usize) -> u64 {
    let loops = steps.iter().enumerate().filter_map(|(end, step)| Some((end, step.repeat.as_ref()?)));
    let around = loops.filter(|(end, repeat)| (repeat.first..=*end).contains(&index));
    around.fold(1, |runs: u64, (_, repeat)| runs.saturating_mul(repeat.most.into()))
}

/// The help of command line options for virtual users.
const OPTION_HELP: [(&str, &str); 6] = [
    (
        "connections",
        "Number of virtual users. Each user runs one iteration after the other, on its own connection",
    ),
    ("requests", "Number of iterations to measure, instead of `--duration`"),
    (
        "rate",
        "Start this number of iterations per second (open loop), even if earlier iterations have not completed. The response time of the first step begins at the scheduled start of the iteration",
    ),
    (
        "stages",
        "Change the load over time: a list of `DURATION:TARGET`, such as `30s:100,1m:500`. In each stage, the load changes linearly to the target, from 0 in the first stage. A target is a number of iterations per second (open loop), or a number of virtual users such as `10c` (closed loop)",
    ),
    (
        "poisson",
        "With `--rate` or `--stages`: start iterations at random times, as independent users do (Poisson process)",
    ),
    ("pipeline", "Not supported: a virtual user sends one request at a time"),
];
