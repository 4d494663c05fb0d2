//! A compiled scenario file.

use std::ops::Range;
use std::time::Duration;

use thruway_http1::ResponseTo;

use super::cookies::Cookies;
use super::data::DataTable;
use super::file::{CookieUse, RowOrder};
use super::step::{Received, Step};
use super::user::{IterationValues, UserState};
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
    /// Returns the URL of the server.
    pub const fn url(&self) -> &LoadUrl {
        &self.url
    }

    /// Returns the names of all steps, in the order of the file.
    pub fn step_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.steps.iter().map(|step| step.name.as_str())
    }

    /// Returns the name of the scenario to which the step with this index belongs.
    pub(crate) fn flow_name(&self, step: usize) -> &str {
        &self.flows[self.steps[step].flow].name
    }

    /// Returns the longest time of an iteration if each request takes at most `timeout`.
    pub(crate) fn duration_max(&self, timeout: Duration) -> Duration {
        let of_flow = |flow: &Flow| {
            let steps = &self.steps[flow.steps.clone()];
            steps
                .iter()
                .map(|step| step.think_time.map_or(timeout, |(_, most)| most.saturating_add(timeout)))
                .fold(Duration::ZERO, Duration::saturating_add)
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
            random: fastrand::Rng::with_seed(mixed(number)),
            target: String::new(),
            body: Vec::new(),
        }
    }

    /// Begins the iteration with this number. Returns the indexes of its steps.
    pub(crate) fn begin_iteration(&self, user: &mut UserState, number: u64) -> Range<usize> {
        user.iteration = number;
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

    /// Begins to receive the response to the step with this index.
    pub(crate) fn receive(&self, index: usize, user: &mut UserState) -> Received<'_> {
        let mut body = std::mem::take(&mut user.body);
        body.clear();
        Received::new(&self.steps[index], body, self.response_bytes_max, self.cookies != CookieUse::Off)
    }
}
