//! The contents of a report: the summary, a section for each workload, and the method.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use thruway_bench::report::{bytes, rate, three_digits};
use thruway_bench::statistics::Ratio;

use crate::case::Workload;
use crate::figures::{Figures, Metric, as_f64};
use crate::peers::RELAY;
use crate::results::{CandidateResult, CaseResult, SuiteReport};
use crate::targets::{CEILING, TargetResult, evaluate};

/// The layout of all reports. The file is compiled into this program, and a test reads it.
pub(crate) static LAYOUT: LazyLock<Layout> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/report.toml")).unwrap_or_else(|error| panic!("report.toml: {error}"))
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layout {
    /// The paragraph about the method of measurement.
    method: String,
    pub(crate) workload: BTreeMap<Workload, WorkloadLayout>,
}

/// The section of a workload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkloadLayout {
    pub(crate) title: String,
    /// A paragraph about the figures of the workload.
    about: Option<String>,
    /// The columns of the table.
    metrics: Vec<Metric>,
    /// Pairs of cases. The table shows the rate in the first case divided by the rate in the second case.
    #[serde(default)]
    shares: Vec<[String; 2]>,
}

/// A part of a report.
#[derive(Default, Serialize)]
pub(crate) struct Section {
    title: String,
    paragraphs: Vec<String>,
    tables: Vec<Table>,
    /// Commands and configs, each with its name.
    listings: Vec<(String, String)>,
}

/// A table of text.
#[derive(Serialize)]
struct Table {
    caption: String,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Section {
    fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// Adds a table, unless it has no rows.
    fn table(&mut self, caption: impl Into<String>, heads: &[&str], rows: Vec<Vec<String>>) {
        if !rows.is_empty() {
            let heads = heads.iter().map(|head| (*head).to_owned()).collect();
            self.tables.push(Table { caption: caption.into(), heads, rows });
        }
    }
}

/// Returns all sections.
pub(crate) fn sections(report: &SuiteReport) -> Vec<Section> {
    let mut sections = vec![summary(report)];
    sections.extend(LAYOUT.workload.iter().filter_map(|(name, layout)| of_workload(report, *name, layout)));
    sections.push(method(report));
    sections
}

/// Returns the summary: the targets, missed ones first, and the comparisons in which a peer is ahead.
fn summary(report: &SuiteReport) -> Section {
    let mut section = Section::new("Summary");
    let mut evaluated = evaluate(report);
    section.paragraphs.extend(caveats(report));
    section.paragraphs.push(target_counts(&evaluated));
    evaluated.retain(is_measured);
    // The sort is stable, so it keeps the order of the table within each group.
    evaluated.sort_by_key(|target| target.is_met);
    let rows = evaluated.iter().map(target_row).collect();
    section.table("Targets", &["target (ours / theirs)", "bound", "figure", "verdict"], rows);
    let (compared, behind) = behind(report);
    let chance = coverage(report).map_or_else(String::new, chance);
    let caption =
        format!("Comparisons in which another candidate is ahead (of {compared} comparisons{chance})");
    section.table(caption, &["case", "metric", "candidate (ours / theirs)"], behind);
    section.table("Failures", &["case", "candidate", "failure"], failures(report));
    let all: Vec<_> = report.cases.iter().collect();
    let drops = |candidate: &CandidateResult| {
        let drops: u64 = candidate.rounds.iter().map(|figures| figures.listen_drops).sum();
        (drops > 0).then(|| format!(": {drops}"))
    };
    let text = "Accept queues were full, so some connections took a second or more, and the times include \
                this wait";
    section.paragraphs.extend(note(text, &all, drops));
    section.table("Left out", &["reason", "left out"], left_out(report));
    section
}

fn caveats(report: &SuiteReport) -> Vec<String> {
    let environment = &report.environment;
    let mut caveats = vec![format!(
        "{}, {}, on {} ({} cores), Linux {}.",
        environment.date, environment.version, environment.cpu, environment.cores, environment.kernel
    )];
    if environment.is_debug_build {
        let text = "The load generator was compiled without optimization, so it is often the limit. Rates and \
                    times have no meaning. Use only the CPU times of servers.";
        caveats.push(text.to_owned());
    }
    if report.is_interrupted {
        caveats.push("The run was interrupted. The report has the results up to this time.".to_owned());
    }
    if !report.is_clean() {
        caveats.push("Some requests or servers failed; see below.".to_owned());
    }
    caveats
}

/// Returns a sentence that lists the candidates for which `found` returns a text.
fn note(
    text: &str,
    cases: &[&CaseResult],
    found: impl Fn(&CandidateResult) -> Option<String>,
) -> Option<String> {
    let candidates =
        cases.iter().flat_map(|case| case.candidates.iter().map(move |candidate| (case, candidate)));
    let list: Vec<_> = candidates
        .filter_map(|(case, candidate)| {
            Some(format!("{} ({}{})", case.name, candidate.name, found(candidate)?))
        })
        .collect();
    (!list.is_empty()).then(|| format!("{text}: {}.", list.join("; ")))
}

fn target_counts(evaluated: &[TargetResult]) -> String {
    let count = |is: fn(&TargetResult) -> bool| evaluated.iter().filter(|target| is(target)).count();
    let measured = count(is_measured);
    let met = count(|target| target.is_met);
    let sure = count(|target| is_measured(target) && !target.is_met && !target.is_close);
    format!(
        "Of {} targets, {measured} were measured: {met} met and {} missed. For {sure} of the missed \
         targets, the whole interval misses the bound.",
        evaluated.len(),
        measured - met
    )
}

/// Returns `true` if the target has a figure, or if the figure is missing because requests failed.
const fn is_measured(evaluated: &TargetResult) -> bool {
    evaluated.figure.is_some() || evaluated.has_failed
}

fn target_row(evaluated: &TargetResult) -> Vec<String> {
    let verdict =
        if evaluated.is_met { evaluated.verdict().to_owned() } else { evaluated.verdict().to_uppercase() };
    vec![
        evaluated.target.clone(),
        evaluated.bound.clone(),
        cell(evaluated.figure.map(with_interval)),
        verdict,
    ]
}

/// Returns the number of comparisons, and the rows of a table. Each row is a case and a metric for which a
/// whole confidence interval favors a peer.
fn behind(report: &SuiteReport) -> (usize, Vec<Vec<String>>) {
    let (mut compared, mut rows) = (0, Vec::new());
    for case in report.cases.iter().filter(|case| !case.between.is_about_generators()) {
        for metric in COMPARED {
            let ratios = ratios(case, metric);
            compared += ratios.len();
            let is_ahead = |ratio: Ratio| {
                if metric.is_more_better() { ratio.high < 1.0 } else { ratio.low > 1.0 }
            };
            let ahead = ratios.into_iter().filter(|(_, ratio)| is_ahead(*ratio));
            let ahead: Vec<_> =
                ahead.map(|(name, ratio)| format!("{name} {}", with_interval(ratio))).collect();
            if !ahead.is_empty() {
                rows.push(vec![case.name.clone(), metric.label().to_owned(), ahead.join("; ")]);
            }
        }
    }
    (compared, rows)
}

/// Returns the ratio of Thruway to each peer, if there are enough rounds for an interval.
fn ratios(case: &CaseResult, metric: Metric) -> Vec<(&str, Ratio)> {
    let Some(ours) = case.ours() else { return Vec::new() };
    // Skips other Thruway candidates, which are only references. Skips the relay and the ceiling, which do
    // less work.
    let does_nothing = |name: &str| [CEILING, RELAY].contains(&name);
    let others =
        case.other_candidates().filter(|other| !other.name.starts_with(OURS) && !does_nothing(&other.name));
    others.filter_map(|other| Some((&*other.name, metric.ratio(&ours.rounds, &other.rounds)?))).collect()
}

/// Returns the omitted cases, servers and tools, grouped by reason.
fn left_out(report: &SuiteReport) -> Vec<Vec<String>> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for left in &report.left_out {
        match reasons.iter_mut().find(|(because, _)| *because == left.because) {
            Some((_, what)) => what.push(&left.what),
            None => reasons.push((&left.because, vec![&left.what])),
        }
    }
    reasons.into_iter().map(|(because, what)| vec![because.to_owned(), what.join("; ")]).collect()
}

fn failures(report: &SuiteReport) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for case in &report.cases {
        for candidate in &case.candidates {
            let failed = candidate.rounds.iter().find(|figures| !figures.is_clean()).map(|figures| {
                let Figures { answered, failed, failure, .. } = figures;
                let how = format!("a round with {answered} responses and {failed} failures: {failure}");
                how.trim_end_matches([':', ' ']).to_owned()
            });
            for how in candidate.failure.clone().into_iter().chain(failed) {
                rows.push(vec![case.name.clone(), candidate.name.clone(), how]);
            }
        }
    }
    rows
}

fn of_workload(report: &SuiteReport, workload: Workload, layout: &WorkloadLayout) -> Option<Section> {
    let measured = report.cases.iter().filter(|case| case.workload == workload && case.ours().is_some());
    let (generators, cases): (Vec<_>, Vec<_>) = measured.partition(|case| case.between.is_about_generators());
    if cases.is_empty() && generators.is_empty() {
        return None;
    }
    let mut section = Section::new(&layout.title);
    section.paragraphs.extend(layout.about.clone());
    let is_limit = |candidate: &CandidateResult| {
        let limited = candidate.rounds.iter().filter(|figures| figures.is_generator_limit).count();
        (limited * 2 > candidate.rounds.len()).then(String::new)
    };
    let text = "The load generator was the limit, so the rates have little meaning in these cases";
    section.paragraphs.extend(note(text, &cases, is_limit));
    let fewer = |candidate: &CandidateResult| Some(format!(": {}", candidate.connections?));
    let text = "Fewer connections than in the case, because of the descriptor limit";
    section.paragraphs.extend(note(text, &cases, fewer));
    figures(&mut section, "Figures", &cases, &layout.metrics);
    floor(&mut section, &cases);
    shares(&mut section, &cases, &layout.shares);
    // The load generators ran the same load on the same Thruway server.
    let caption = "Check of the load generator: rates must agree if the server is the limit";
    figures(&mut section, caption, &generators, &[Metric::Rate, Metric::GeneratorCpu]);
    Some(section)
}

/// Adds a table with a row for each candidate of each case: the medians of `metrics`, and the ratio of
/// Thruway to this candidate. Skips metrics without figures.
fn figures(section: &mut Section, caption: &str, cases: &[&CaseResult], metrics: &[Metric]) {
    let measured: Vec<_> = cases
        .iter()
        .flat_map(|case| {
            case.ours().into_iter().chain(case.other_candidates()).map(move |candidate| (case, candidate))
        })
        .collect();
    let is_known =
        |metric: &&Metric| measured.iter().any(|(_, candidate)| metric.median(&candidate.rounds).is_some());
    let metrics: Vec<_> = metrics.iter().filter(is_known).copied().collect();
    let compared: Vec<_> = metrics.iter().filter(|metric| RATIOS.contains(metric)).copied().collect();
    let ratio_heads: Vec<_> =
        compared.iter().map(|metric| format!("ours / theirs: {}", metric.label())).collect();
    let mut heads = vec!["case", "candidate"];
    heads.extend(metrics.iter().map(|metric| metric.label()));
    heads.extend(ratio_heads.iter().map(String::as_str));
    heads.push("succeeded / failed");
    let row = |(case, candidate): &(&&CaseResult, &CandidateResult)| {
        let medians = metrics.iter().map(|metric| metric.median(&candidate.rounds));
        let ours = case.ours().filter(|ours| ours.name != candidate.name);
        let ratios = compared
            .iter()
            .map(|metric| Some(with_interval(metric.ratio(&ours?.rounds, &candidate.rounds)?)));
        let mut row = vec![case.name.clone(), candidate.name.clone()];
        row.extend(medians.chain(ratios).map(cell));
        row.push(outcome(&candidate.rounds));
        row
    };
    section.table(caption, &heads, measured.iter().map(row).collect());
}

/// Adds a table with the ratio of the relay, which does not read HTTP, to each gateway.
fn floor(section: &mut Section, cases: &[&CaseResult]) {
    let mut rows = Vec::new();
    for case in cases {
        let Some(relay) = case.candidate(RELAY) else { continue };
        for other in
            case.ours().into_iter().chain(case.other_candidates()).filter(|other| other.name != RELAY)
        {
            let ratios = COMPARED.map(|metric| metric.ratio(&relay.rounds, &other.rounds).map(with_interval));
            rows.push([case.name.clone(), other.name.clone()].into_iter().chain(ratios.map(cell)).collect());
        }
    }
    let heads = COMPARED.map(|metric| format!("{RELAY} / candidate: {}", metric.label()));
    let heads: Vec<_> = ["case", "candidate"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    section.table("Minimum cost: a relay that does not read HTTP", &heads, rows);
}

/// Adds a table with the rate of each candidate in one case divided by its rate in another case.
fn shares(section: &mut Section, cases: &[&CaseResult], pairs: &[[String; 2]]) {
    let find = |name: &String| cases.iter().find(|case| case.name == *name);
    let mut rows = Vec::new();
    for [case, base] in pairs {
        let (Some(measured), Some(base_case)) = (find(case), find(base)) else { continue };
        for candidate in &measured.candidates {
            let rates =
                |case: &CaseResult| Metric::Rate.clean_values(&case.candidate(&candidate.name)?.rounds);
            let share = rates(measured).zip(rates(base_case));
            if let Some(share) = share.and_then(|(rates, base)| Ratio::of_unpaired(&rates, &base)) {
                let share = with_interval(share);
                rows.push(vec![format!("`{case}` / `{base}`"), candidate.name.clone(), share]);
            }
        }
    }
    section.table("Requests/s in one case, divided by those in another", &["cases", "candidate", "×"], rows);
}

fn method(report: &SuiteReport) -> Section {
    let mut section = Section::new("Method, and how to repeat the run");
    section.paragraphs.push(LAYOUT.method.clone());
    section.paragraphs.extend(coverage(report).map(|coverage| {
        format!(
            "At least {:.1} of 100 intervals contain the true ratio, for any distribution.",
            coverage * 100.0
        )
    }));
    let environment = &report.environment;
    let descriptors =
        environment.descriptors.map_or_else(|| "without limit".to_owned(), |most| most.to_string());
    let settings = &report.settings;
    let times = format!("{} s after {} s of warm-up", settings.duration_seconds, settings.warm_up_seconds);
    let mut rows = vec![
        ("date", environment.date.clone()),
        ("version", environment.version.clone()),
        ("processor", format!("{}, {} cores", environment.cpu, environment.cores)),
        ("placement", environment.placement.clone()),
        ("memory", bytes(environment.memory)),
        ("kernel", format!("Linux {}", environment.kernel)),
        ("descriptor limit of a process", descriptors),
        ("rounds", settings.rounds.to_string()),
        ("each measurement", format!("{times}; longer with ten thousand connections or large responses")),
        ("total", format!("{:.0} s of at most {:.0} s", report.elapsed_seconds, settings.limit_seconds)),
    ];
    rows.extend(environment.tools.iter().map(|tool| (tool.name.as_str(), tool.version.clone())));
    let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    section.table("Environment", &["what", "value"], rows);
    let servers = report.servers.iter().map(|server| {
        vec![server.name.clone(), server.version.clone(), server.about.clone(), server.command.clone()]
    });
    section.table("Servers", &["server", "version", "setup", "command"], servers.collect());
    section.listings.push(("Command to repeat the run".to_owned(), settings.command.clone()));
    let configs = report.servers.iter().filter_map(|server| Some((&server.name, server.config.clone()?)));
    section.listings.extend(configs.map(|(name, config)| (format!("The config of {name}"), config)));
    section
}

/// Returns the share of comparisons in which one of two equal servers appears ahead by chance. If an interval
/// misses the true ratio, it is equally likely to be too high or too low.
fn chance(coverage: f64) -> String {
    format!("; by chance, one in {:.0} appears ahead", 2.0 / (1.0 - coverage))
}

/// Returns the smallest coverage of the ratio intervals.
fn coverage(report: &SuiteReport) -> Option<f64> {
    let ratios = report.cases.iter().flat_map(|case| ratios(case, Metric::Rate));
    ratios.map(|(_, ratio)| ratio.coverage).min_by(f64::total_cmp)
}

fn cell(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

fn with_interval(Ratio { median, low, high, .. }: Ratio) -> String {
    format!("{} ({} to {})", three_digits(median), three_digits(low), three_digits(high))
}

/// Returns the numbers of successful and failed requests in all rounds.
fn outcome(rounds: &[Figures]) -> String {
    let sum = |count: fn(&Figures) -> u64| rate(as_f64(rounds.iter().map(count).sum()));
    format!("{} / {}", sum(|figures| figures.answered), sum(|figures| figures.failed))
}

/// The compared metrics.
const COMPARED: [Metric; 3] = [Metric::Rate, Metric::ServerCpu, Metric::P99];

/// The metrics with a column of ratios.
const RATIOS: [Metric; 5] =
    [Metric::Rate, Metric::ServerCpu, Metric::P99, Metric::BothCpu, Metric::GeneratorCpu];

/// Prefix of the names of Thruway candidates.
const OURS: &str = "thruway";
