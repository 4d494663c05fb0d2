//! Compiles the keys of a scenario file: resolves variables, and checks all values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use thruway_http1::ResponseTo;
use thruway_message::{FieldName, FieldValue, Method};
use toml::Spanned;

use super::data::DataTable;
use super::error::{InvalidScenario, escaped};
use super::extract::{Extraction, Place};
use super::file::{ExtractKeys, FlowKeys, RowOrder, ScenarioFile, StatusKeys, StepKeys, ThinkTimeKeys};
use super::plan::{Flow, Scenario};
use super::step::Step;
use super::template::{Meaning, Source, Template};
use crate::duration::parse_pause;
use crate::requests::url::LoadUrl;

impl Scenario {
    /// Reads the scenario file `path`. `url` replaces the URL of the file. `headers` are additional headers of
    /// each request, as names and values.
    ///
    /// # Errors
    /// Returns an error with file, line and key if the file cannot be used.
    pub fn read(
        path: &Path,
        url: Option<&str>,
        headers: &[(String, String)],
    ) -> Result<Self, InvalidScenario> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| InvalidScenario::new(file, 0, "", format!("cannot read it: {error}")))?;
        Self::parse(&text, path, url, headers)
    }

    /// Compiles the text of a scenario file. `path` is the path of the file, for error messages and for the paths
    /// of data files.
    ///
    /// # Errors
    /// Returns an error with file, line and key if the file cannot be used.
    pub fn parse(
        text: &str,
        path: &Path,
        url: Option<&str>,
        headers: &[(String, String)],
    ) -> Result<Self, InvalidScenario> {
        let file = path.display().to_string();
        let keys: ScenarioFile =
            toml::from_str(text).map_err(|error| InvalidScenario::of_toml(&file, text, &error))?;
        let compiler = Compiler { file: &file, text, path, constants: BTreeMap::new(), tables: Vec::new() };
        compiler.compile(keys, url, headers)
    }
}

/// The file, and the names that its templates can use.
pub(super) struct Compiler<'a> {
    file: &'a str,
    text: &'a str,
    path: &'a Path,
    constants: BTreeMap<String, String>,
    /// The data tables with their names.
    tables: Vec<(String, DataTable, RowOrder)>,
}

/// The steps that were compiled so far.
#[derive(Default)]
struct Compiled {
    steps: Vec<Step>,
    flows: Vec<Flow>,
    /// Names of all steps.
    names: BTreeSet<String>,
    /// Number of extracted values.
    slots: usize,
}

impl Compiler<'_> {
    /// Compiles the file.
    ///
    /// # Errors
    /// Returns an error with line and key if a value is invalid.
    fn compile(
        mut self,
        keys: ScenarioFile,
        url: Option<&str>,
        headers: &[(String, String)],
    ) -> Result<Scenario, InvalidScenario> {
        let url = self.server(url, keys.url.as_ref())?;
        for (name, value) in keys.variables {
            check_name(&name).map_err(|message| self.invalid(&value, &name, message))?;
            self.constants.insert(name, value.into_inner());
        }
        for (name, table) in keys.data {
            check_name(&name).map_err(|message| self.invalid(&table, &name, message))?;
            let table = table.into_inner();
            let file = self.path.parent().unwrap_or(Path::new("")).join(table.file);
            self.tables.push((name, DataTable::read(&file)?, table.order));
        }
        let flows = match (keys.steps.is_empty(), keys.scenarios.is_empty()) {
            (false, true) => None,
            (true, false) => Some(keys.scenarios),
            (true, true) => return Err(self.whole("it has neither `[[steps]]` nor `[[scenarios]]`")),
            (false, false) => return Err(self.whole("use either `[[steps]]` or `[[scenarios]]`, not both")),
        };
        let redirects = self.redirects(keys.redirects)?.unwrap_or(0);
        let common = CommonKeys { headers: keys.headers, more_headers: headers, redirects };
        let mut compiled = Compiled::default();
        match flows {
            None => self.flow(&mut compiled, ONLY_FLOW.to_owned(), 1, keys.steps, &common, &url)?,
            Some(flows) => {
                for flow in flows {
                    self.named_flow(&mut compiled, flow, &common, &url)?;
                }
            }
        }
        if compiled.steps.len() > STEPS_MAX {
            let count = compiled.steps.len();
            return Err(self.whole(&format!("it has {count} steps, but the maximum is {STEPS_MAX}")));
        }
        let response_bytes_max = keys.response_bytes_max.map_or(Ok(RESPONSE_BYTES), |value| {
            let range = 1..=RESPONSE_BYTES_MAX;
            let is_valid = range.contains(value.get_ref());
            let message = format!("expected a number of bytes from 1 to {RESPONSE_BYTES_MAX}");
            if is_valid {
                Ok(*value.get_ref())
            } else {
                Err(self.invalid(&value, "response_bytes_max", message))
            }
        })?;
        Ok(Scenario {
            url,
            steps: compiled.steps,
            flows: compiled.flows,
            tables: self.tables.into_iter().map(|(_, table, order)| (table, order)).collect(),
            cookies: keys.cookies,
            response_bytes_max,
            slots: compiled.slots,
        })
    }

    pub(super) fn invalid<T>(
        &self,
        value: &Spanned<T>,
        key: &str,
        message: impl Into<String>,
    ) -> InvalidScenario {
        InvalidScenario::at(self.file, self.text, &value.span(), key, message.into())
    }

    fn whole(&self, message: &str) -> InvalidScenario {
        InvalidScenario::new(self.file, 0, "", message)
    }

    /// Returns the URL of the server. `given` replaces the URL of the file.
    fn server(&self, given: Option<&str>, url: Option<&Spanned<String>>) -> Result<LoadUrl, InvalidScenario> {
        let invalid = |message: String| match (given, url) {
            (None, Some(url)) => self.invalid(url, "url", message),
            _ => self.whole(&message),
        };
        let text = given.or(url.map(|url| url.get_ref().as_str()));
        let text =
            text.ok_or_else(|| invalid("it has no `url`: add `url = \"http://HOST:PORT\"`".to_owned()))?;
        let url = LoadUrl::parse(text)
            .map_err(|error| invalid(format!("the URL of the server is invalid: {error}")))?;
        if url.target != "/" || url.weight != 1 {
            return Err(invalid("the URL of the server has no path: write the path in each step".to_owned()));
        }
        Ok(url)
    }

    fn named_flow(
        &self,
        compiled: &mut Compiled,
        flow: Spanned<FlowKeys>,
        common: &CommonKeys<'_>,
        url: &LoadUrl,
    ) -> Result<(), InvalidScenario> {
        let FlowKeys { name, weight, steps } = flow.into_inner();
        let flow_name = name.get_ref();
        if let Some(message) = refused_name(flow_name) {
            return Err(self.invalid(&name, "name", message));
        }
        if compiled.flows.iter().any(|known| known.name == *flow_name) {
            return Err(self.invalid(&name, "name", "another scenario has the same name"));
        }
        if steps.is_empty() {
            return Err(self.invalid(&name, "steps", format!("the scenario `{flow_name}` has no steps")));
        }
        let weight = match weight {
            None => 1,
            Some(weight) if (1..=WEIGHT_MAX).contains(weight.get_ref()) => *weight.get_ref(),
            Some(weight) => {
                return Err(self.invalid(
                    &weight,
                    "weight",
                    format!("expected a number from 1 to {WEIGHT_MAX}"),
                ));
            }
        };
        self.flow(compiled, name.into_inner(), weight, steps, common, url)
    }

    fn flow(
        &self,
        compiled: &mut Compiled,
        name: String,
        weight: u32,
        steps: Vec<Spanned<StepKeys>>,
        common: &CommonKeys<'_>,
        url: &LoadUrl,
    ) -> Result<(), InvalidScenario> {
        let first = compiled.steps.len();
        let mut extracted = BTreeMap::new();
        for step in steps {
            let mut keys = step.into_inner();
            let repeat = keys.repeat.take();
            let step = self.step(compiled, keys, &mut extracted, common, url)?;
            compiled.steps.push(step);
            self.add_loop(&mut compiled.steps, first, repeat)?;
        }
        let weight_before = compiled.flows.last().map_or(0, |flow| flow.weight_end);
        let steps = first..compiled.steps.len();
        compiled.flows.push(Flow { name, weight_end: weight_before + u64::from(weight), steps });
        Ok(())
    }

    /// Compiles a step. `extracted` contains the variables of earlier steps, and receives the variables of this
    /// step.
    fn step(
        &self,
        compiled: &mut Compiled,
        keys: StepKeys,
        extracted: &mut BTreeMap<String, usize>,
        common: &CommonKeys<'_>,
        url: &LoadUrl,
    ) -> Result<Step, InvalidScenario> {
        let name = keys.name.get_ref().clone();
        if let Some(message) = refused_name(&name) {
            return Err(self.invalid(&keys.name, "name", message));
        }
        if !compiled.names.insert(name.clone()) {
            return Err(self.invalid(&keys.name, "name", "another step has the same name"));
        }
        let template = |key: &str, text: &Spanned<String>| {
            Template::parse(text.get_ref(), &mut |name| self.meaning(name, extracted))
                .map_err(|message| self.invalid(text, key, message))
        };
        let target = template("url", &keys.url)?;
        self.check_target(&target, &keys.url)?;
        let body = keys.body.as_ref().map(|body| template("body", body)).transpose()?;
        let default = if body.is_some() { "POST" } else { "GET" };
        let method_text = keys.method.as_ref().map_or(default, |method| method.get_ref());
        let method =
            Method::from_token(method_text.as_bytes()).ok().filter(|method| *method != Method::Connect);
        let Some(method) = method else {
            let value = keys.method.as_ref().unwrap_or(&keys.name);
            return Err(self.invalid(value, "method", format!("`{method_text}` is not a supported method")));
        };
        let mut step = Step {
            name,
            flow: compiled.flows.len(),
            method: method.as_str().to_owned(),
            response_to: ResponseTo::from(method),
            needs_length: matches!(method, Method::Post | Method::Put | Method::Patch),
            target,
            fixed_lines: String::new(),
            headers: Vec::new(),
            has_cookie_header: false,
            body: body.unwrap_or_default(),
            url_text: format!("{} {}", method.as_str(), escaped(keys.url.get_ref())),
            redirects_max: self.redirects(keys.redirects)?.unwrap_or(common.redirects),
            repeat: None,
            statuses: self.statuses(keys.status)?,
            think_time: self.think_time(keys.think_time)?,
            extractions: Vec::new(),
        };
        let mut has_host = false;
        for (name, text) in
            common.headers.iter().filter(|(name, _)| !has_name(&keys.headers, name)).chain(&keys.headers)
        {
            let key = format!("headers.{name}");
            let value = template(&key, text)?;
            check_header(name, &value).map_err(|message| self.invalid(text, &key, message))?;
            has_host |= name.eq_ignore_ascii_case("host");
            step.add_header(name, value);
        }
        for (name, value) in common.more_headers {
            let value = Template::of_text(value);
            check_header(name, &value).map_err(|message| InvalidScenario::new("-H", 0, name, message))?;
            has_host |= name.eq_ignore_ascii_case("host");
            step.add_header(name, value);
        }
        if !has_host {
            step.fixed_lines.insert_str(0, &format!("Host: {}\r\n", url.host));
        }
        for (name, keys) in keys.extract {
            step.extractions.push(self.extraction(name, keys, extracted, &mut compiled.slots)?);
        }
        Ok(step)
    }

    /// Compiles an extraction. Adds its variable to `extracted`. `slots` is the number of extracted values.
    fn extraction(
        &self,
        name: String,
        keys: Spanned<ExtractKeys>,
        extracted: &mut BTreeMap<String, usize>,
        slots: &mut usize,
    ) -> Result<Extraction, InvalidScenario> {
        let invalid = |message: String| self.invalid(&keys, &format!("extract.{name}"), message);
        check_name(&name).map_err(invalid)?;
        if self.constants.contains_key(&name) {
            return Err(invalid("`[variables]` already has this variable".to_owned()));
        }
        let place = place(keys.get_ref()).map_err(invalid)?;
        let slot = *extracted.entry(name.clone()).or_insert_with(|| {
            *slots += 1;
            *slots - 1
        });
        Ok(Extraction { name, slot, place, default: keys.into_inner().default })
    }

    /// Resolves the name of a variable.
    fn meaning(&self, name: &str, extracted: &BTreeMap<String, usize>) -> Result<Meaning, String> {
        let source = match name {
            "iteration" => Some(Source::Iteration),
            "user" => Some(Source::User),
            "random" => Some(Source::Random),
            _ => extracted.get(name).copied().map(Source::Extracted),
        };
        if let Some(source) = source {
            return Ok(Meaning::Source(source));
        }
        if let Some(value) = self.constants.get(name) {
            return Ok(Meaning::Constant(value.clone()));
        }
        match name.split_once('.') {
            Some(("env", variable)) => {
                let value = env::var(variable);
                let value = value.map_err(|_| format!("the environment variable `{variable}` is not set"))?;
                Ok(Meaning::Constant(value))
            }
            Some((table, column)) => self.column(table, column).map(Meaning::Source),
            None => Err(format!(
                "unknown variable `{}`: neither `[variables]` nor an earlier step of the scenario defines it",
                name.escape_debug()
            )),
        }
    }

    fn column(&self, table: &str, column: &str) -> Result<Source, String> {
        let mut tables = self.tables.iter().enumerate();
        let found = tables.find(|(_, (name, ..))| name == table);
        let (index, (_, data, _)) =
            found.ok_or_else(|| format!("unknown data table `{}`", table.escape_debug()))?;
        let found = data.column(column).map(|column| Source::Column { table: index, column });
        found.ok_or_else(|| {
            let known = data.columns().join("`, `");
            format!("`data.{table}` has no column `{}`: its columns are `{known}`", column.escape_debug())
        })
    }

    /// Checks the beginning of a URL. The values of variables are checked when the request is sent.
    fn check_target(&self, target: &Template, text: &Spanned<String>) -> Result<(), InvalidScenario> {
        let beginning = target.beginning();
        let is_url = ["/", "http://", "https://"].iter().any(|start| beginning.starts_with(start));
        let has_only_graphic = beginning.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if (is_url || beginning.is_empty() && target.fixed().is_none()) && has_only_graphic {
            return Ok(());
        }
        let message = "expected a path such as `/orders`, with special characters percent-encoded";
        Err(self.invalid(text, "url", message))
    }

    fn statuses(&self, keys: Option<Spanned<StatusKeys>>) -> Result<Vec<u16>, InvalidScenario> {
        let Some(keys) = keys else { return Ok(Vec::new()) };
        let statuses = match keys.get_ref() {
            StatusKeys::One(status) => vec![*status],
            StatusKeys::Several(statuses) => statuses.clone(),
        };
        if statuses.is_empty() || statuses.iter().any(|status| !(200..600).contains(status)) {
            return Err(self.invalid(&keys, "status", "a status is a number from 200 to 599"));
        }
        Ok(statuses)
    }

    fn think_time(
        &self,
        keys: Option<Spanned<ThinkTimeKeys>>,
    ) -> Result<Option<(Duration, Duration)>, InvalidScenario> {
        let Some(keys) = keys else { return Ok(None) };
        let parse = |text: &String| {
            parse_pause(text).map_err(|error| {
                self.invalid(&keys, "think_time", format!("invalid time `{}`: {error}", text.escape_debug()))
            })
        };
        let (least, most) = match keys.get_ref() {
            ThinkTimeKeys::Fixed(time) => (parse(time)?, parse(time)?),
            ThinkTimeKeys::Range([least, most]) => (parse(least)?, parse(most)?),
        };
        if least > most {
            return Err(self.invalid(&keys, "think_time", "the first time is longer than the second time"));
        }
        Ok(Some((least, most)).filter(|(_, most)| !most.is_zero()))
    }
}

impl Step {
    fn add_header(&mut self, name: &str, value: Template) {
        self.has_cookie_header |= name.eq_ignore_ascii_case("cookie");
        match value.fixed() {
            Some(text) => {
                for part in [name, ": ", text, "\r\n"] {
                    self.fixed_lines.push_str(part);
                }
            }
            None => self.headers.push((name.to_owned(), value)),
        }
    }
}

/// Values for all steps.
struct CommonKeys<'a> {
    /// Headers of the file.
    headers: BTreeMap<String, Spanned<String>>,
    /// Headers of the command line.
    more_headers: &'a [(String, String)],
    redirects: u32,
}

fn has_name(headers: &BTreeMap<String, Spanned<String>>, name: &str) -> bool {
    headers.keys().any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns the reason why a text cannot be the name of a step or of a scenario.
fn refused_name(name: &str) -> Option<String> {
    let is_printable = name.chars().all(|character| !character.is_control() && character != ':');
    let is_trimmed = name.trim() == name && !name.is_empty();
    let is_short = name.len() <= NAME_BYTES_MAX;
    (!(is_printable && is_trimmed && is_short))
        .then(|| format!("a name has 1 to {NAME_BYTES_MAX} bytes, no colon, and no space at its ends"))
}

fn check_header(name: &str, value: &Template) -> Result<(), String> {
    FieldName::new(name.as_bytes()).map_err(|_| "it is not a valid header name".to_owned())?;
    let framing = ["content-length", "transfer-encoding", "connection", "upgrade", "expect"];
    if framing.iter().any(|known| name.eq_ignore_ascii_case(known)) {
        return Err("the load generator sets this header itself".to_owned());
    }
    match value.fixed().map(|text| FieldValue::new(text.as_bytes())) {
        Some(Err(_)) => Err("the value contains control characters".to_owned()),
        _ => Ok(()),
    }
}

fn place(keys: &ExtractKeys) -> Result<Place, String> {
    match (&keys.json, &keys.header, &keys.regex) {
        (Some(pointer), None, None) => Place::json(pointer),
        (None, Some(name), None) => Place::header(name),
        (None, None, Some(regex)) => Place::regex(regex),
        _ => Err("expected exactly one of `json`, `header` and `regex`".to_owned()),
    }
}

/// Checks the name of a variable or of a data table.
fn check_name(name: &str) -> Result<(), String> {
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_word || name.is_empty() || name.as_bytes()[0].is_ascii_digit() {
        return Err(
            "a variable has letters, digits and `_` in its name, and no digit at the beginning".to_owned()
        );
    }
    if ["iteration", "user", "random", "env"].contains(&name) {
        return Err(format!("`{name}` is a built-in variable"));
    }
    Ok(())
}

/// Name of the scenario of a file with `[[steps]]`.
const ONLY_FLOW: &str = "main";

/// Maximum number of steps of a file. The results of each step need about 200 KB in each worker.
const STEPS_MAX: usize = 100;

const WEIGHT_MAX: u32 = 1000;
const NAME_BYTES_MAX: usize = 60;

/// Default size limit of bodies from which a step extracts values.
const RESPONSE_BYTES: usize = 1 << 20;
const RESPONSE_BYTES_MAX: usize = 64 << 20;
