//! The contents of a report in order: the summary, a section for each workload, the method.

use crate::case::{ComparisonKind, Workload};
use crate::figures::{Figures, Metric};
use crate::floor::{self, RELAY};
use crate::html;
use crate::layout::LAYOUT;
use crate::results::{CandidateResult, CaseResult, SuiteReport};
use crate::tables::{self, Table};
use crate::targets::{CEILING, TargetResult, judge};
use serde::Serialize;
use thruway_bench::report::{bytes, three_digits};
use thruway_bench::statistics::Ratio;

/// A part of a report.
#[derive(Default, Serialize)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) paragraphs: Vec<String>,
    pub(crate) tables: Vec<Table>,
    /// Ratios of ours to theirs, drawn as bars.
    #[serde(serialize_with = "html::drawn")]
    pub(crate) bars: Vec<RatioBar>,
    /// Commands and configs, each with its name.
    pub(crate) listings: Vec<(String, String)>,
}

/// A ratio to be drawn.
pub(crate) struct RatioBar {
    pub(crate) label: String,
    pub(crate) ratio: Ratio,
    /// `true` if more is better.
    pub(crate) is_more_better: bool,
}

impl Section {
    fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }
}

/// All of them.
pub(crate) fn all(report: &SuiteReport) -> Vec<Section> {
    let mut sections = vec![summary(report)];
    sections.extend(Workload::all().iter().filter_map(|workload| of_workload(report, *workload)));
    sections.extend(cross_checks(report));
    sections.push(method(report));
    sections
}

/// Returns the summary: the targets, missed ones first, and the comparisons in which others are ahead.
pub(crate) fn summary(report: &SuiteReport) -> Section {
    let mut section = Section::new("Summary");
    let mut judged = judge(report);
    section.paragraphs.extend(caveats(report));
    section.paragraphs.push(in_a_sentence(&judged));
    judged.retain(is_measured);
    // A stable sort: the order of the table within each kind.
    judged.sort_by_key(|target| target.is_met);
    let rows = judged.iter().map(target_row).collect();
    let heads = ["target (ours / theirs)", "bound", "figure", "verdict"];
    section.tables.extend(Table::prose("Targets", &heads, rows).or_nothing());
    let (compared, behind) = behind(report);
    let chance = coverage(report).map_or_else(String::new, chance);
    let caption = format!(
        "Comparisons in which another candidate is shown to be ahead (of {compared} comparisons, {chance})"
    );
    section.tables.extend(
        Table::prose(caption, &["case", "in what", "candidate, and ours / theirs"], behind).or_nothing(),
    );
    section
        .tables
        .extend(Table::prose("What failed", &["case", "who", "how"], failures(report)).or_nothing());
    section.paragraphs.extend(dropped(report));
    let left_out = Table::prose("Left out", &["because", "what"], left_out(report));
    section.tables.extend(left_out.or_nothing());
    section
}

fn caveats(report: &SuiteReport) -> Vec<String> {
    let environment = &report.environment;
    let mut caveats = vec![format!(
        "{}, {}, on {} ({}), Linux {}.",
        environment.date,
        environment.version,
        environment.cpu,
        plural(environment.cores, "core"),
        environment.kernel
    )];
    if environment.is_debug_build {
        caveats.push(
            "The load generator was compiled without optimisation: it is often the limit, rates and times say nothing, and CPU times of servers are all that \
             counts here."
                .to_owned(),
        );
    }
    if report.is_interrupted {
        caveats.push("It was interrupted: this is what was measured until then.".to_owned());
    }
    if !report.is_clean() {
        caveats.push("Some requests failed, or a server did; see below.".to_owned());
    }
    caveats
}

/// Names the cases in which connections waited for a place in a queue.
fn dropped(report: &SuiteReport) -> Option<String> {
    let drops =
        |candidate: &CandidateResult| candidate.rounds.iter().map(|figures| figures.listen_drops).sum();
    let candidates = report.cases.iter().flat_map(|case| {
        case.candidates.iter().map(move |candidate| (&case.name, &candidate.name, drops(candidate)))
    });
    let found = candidates.filter(|(.., drops)| *drops > 0);
    let found: Vec<_> =
        found.map(|(case, name, drops): (_, _, u64)| format!("{case} ({name}: {drops})")).collect();
    let list = found.join("; ");
    (!found.is_empty()).then(|| {
        format!("Listeners had no room for connections, which then took a second or more, so that times there are those of a queue: {list}.")
    })
}

fn in_a_sentence(judged: &[TargetResult]) -> String {
    let count = |is: fn(&TargetResult) -> bool| judged.iter().filter(|target| is(target)).count();
    let measured = count(is_measured);
    let met = count(|target| target.is_met);
    let sure = count(|target| is_measured(target) && !target.is_met && !target.is_close);
    format!(
        "Of {} targets, {measured} were measured: {met} are met, {} missed, {sure} of these with the whole interval.",
        judged.len(),
        measured - met
    )
}

/// Returns `true` if there is a figure, or failed requests prevented it.
const fn is_measured(judged: &TargetResult) -> bool {
    judged.figure.is_some() || judged.has_failed
}

fn target_row(judged: &TargetResult) -> Vec<String> {
    let figure = judged.figure.map_or_else(|| "–".to_owned(), tables::with_interval);
    let verdict = if judged.is_met { judged.verdict().to_owned() } else { judged.verdict().to_uppercase() };
    vec![judged.target.clone(), judged.bound.clone(), figure, verdict]
}

/// Counts the comparisons, and returns those in which the whole interval says that others are better: a row
/// for each case and metric.
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
                ahead.map(|(name, ratio)| format!("{name} {}", tables::with_interval(ratio))).collect();
            if !ahead.is_empty() {
                rows.push(vec![case.name.clone(), metric.label().to_owned(), ahead.join("; ")]);
            }
        }
    }
    (compared, rows)
}

/// Returns the ratio of ours to each other candidate, if there are enough rounds for an interval.
fn ratios(case: &CaseResult, metric: Metric) -> Vec<(&str, Ratio)> {
    let Some(ours) = case.ours() else { return Vec::new() };
    // Other servers of ours are a yardstick, and the relay and the ceiling do less work.
    let does_nothing = |name: &str| [CEILING, RELAY].contains(&name);
    let others = case.others().filter(|other| !other.name.starts_with(OURS) && !does_nothing(&other.name));
    let ratios = others.filter_map(|other| Some((other.name.as_str(), tables::ratio(metric, ours, other)?)));
    ratios.collect()
}

/// Returns the cases that were left out, by reason.
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
                let how = format!("a round with {answered} answers and {failed} failures: {failure}");
                how.trim_end_matches([':', ' ']).to_owned()
            });
            for how in candidate.failure.clone().into_iter().chain(failed) {
                rows.push(vec![case.name.clone(), candidate.name.clone(), how]);
            }
        }
    }
    rows
}

fn of_workload(report: &SuiteReport, workload: Workload) -> Option<Section> {
    let cases: Vec<_> = report
        .cases
        .iter()
        .filter(|case| {
            case.workload == workload && !case.between.is_about_generators() && case.ours().is_some()
        })
        .collect();
    if cases.is_empty() {
        return None;
    }
    let layout = LAYOUT.of(workload);
    let mut section = Section::new(&layout.title);
    section.paragraphs.extend(limited(&cases));
    section.paragraphs.extend(with_fewer_connections(&cases));
    match workload {
        Workload::McpHttp => section.tables = mcp_http(&cases),
        Workload::McpStdio => section.tables = mcp_stdio(&cases),
        Workload::Gateway => {
            section.tables = gateway(&cases, &layout.metrics);
            if floor::has_relay(&cases) {
                section.paragraphs.extend(layout.about.clone());
            }
            section.tables.extend(floor::tables(&cases));
        }
        _ => {
            section.paragraphs.extend(layout.about.clone());
            section.tables = beside(&cases, &layout.metrics);
        }
    }
    match workload {
        Workload::Persistence => section.tables.extend(tables::outcomes(&cases)),
        Workload::McpClient => section.tables.extend(tables::ratios_by_case(&cases, Metric::BothCpu)),
        Workload::Pipelining => section.tables.extend(gain_of_pipelining(&cases)),
        _ => {}
    }
    section.bars = bars(&cases);
    Some(section)
}

/// Names the cases in which the load generator was the limit in most rounds.
fn limited(cases: &[&CaseResult]) -> Option<String> {
    let is_limited = |candidate: &&CandidateResult| {
        let limited = candidate.rounds.iter().filter(|figures| figures.is_generator_limit).count();
        limited * 2 > candidate.rounds.len()
    };
    let limited = cases.iter().filter_map(|case| {
        let names: Vec<_> =
            case.candidates.iter().filter(is_limited).map(|candidate| candidate.name.as_str()).collect();
        (!names.is_empty()).then(|| format!("{} ({})", case.name, names.join(", ")))
    });
    let limited: Vec<_> = limited.collect();
    let list = limited.join("; ");
    (!limited.is_empty()).then(|| {
        format!(
            "The load generator used up its core, or waited for one, so that rates say little there: {list}."
        )
    })
}

/// Names the candidates with fewer connections than the others.
fn with_fewer_connections(cases: &[&CaseResult]) -> Option<String> {
    let of_case = |case: &CaseResult| {
        let fewer = case.candidates.iter().filter_map(|candidate| {
            Some(format!("{} had {} in {}", candidate.name, candidate.connections?, case.name))
        });
        fewer.collect::<Vec<_>>()
    };
    let fewer: Vec<_> = cases.iter().flat_map(|case| of_case(case)).collect();
    (!fewer.is_empty()).then(|| {
        format!("Fewer connections than the case has, as descriptors are not enough: {}.", fewer.join("; "))
    })
}

/// Medians in each metric, then the ratios in rate and CPU time.
fn beside(cases: &[&CaseResult], metrics: &[Metric]) -> Vec<Table> {
    let medians = metrics.iter().filter_map(|metric| tables::by_case(cases, *metric));
    let ratios = [Metric::ServerCpu, Metric::Rate];
    medians.chain(ratios.iter().filter_map(|metric| tables::ratios_by_case(cases, *metric))).collect()
}

fn gain_of_pipelining(cases: &[&CaseResult]) -> Option<Table> {
    let (first, deeper) = cases.split_first()?;
    let mut heads = vec![String::new()];
    heads.extend(deeper.iter().map(|case| format!("depth {}", case.pipeline)));
    let rows = tables::names(cases).into_iter().filter_map(|name| {
        let one = Metric::Rate.clean_values(&first.candidate(name)?.rounds)?;
        let gains = deeper.iter().map(|case| {
            let many = Metric::Rate.clean_values(&case.candidate(name)?.rounds)?;
            Ratio::of_unpaired(&many, &one).map(|gain| format!("×{}", three_digits(gain.median)))
        });
        let gains = gains.map(|gain| gain.unwrap_or_else(|| "–".to_owned()));
        Some([name.to_owned()].into_iter().chain(gains).collect())
    });
    let caption = "requests/s with pipelining, as a multiple of those without";
    Table::new(caption, heads, rows.collect()).or_nothing()
}

fn mcp_http(cases: &[&CaseResult]) -> Vec<Table> {
    let is_closing = |case: &CaseResult| case.name.contains("a connection for each request");
    let chosen = |is: &dyn Fn(&CaseResult) -> bool| -> Vec<&CaseResult> {
        cases.iter().copied().filter(|case| is(case)).collect()
    };
    let by_operation = chosen(&|case| case.connections == 1 && !is_closing(case));
    let is_echo = |case: &CaseResult| case.name.starts_with("mcp tools/call echo c=");
    let by_concurrency = chosen(&|case| is_echo(case) && !is_closing(case));
    let persistence = chosen(&|case| is_echo(case) && case.connections == 1);
    let with_peers = chosen(&|case| case.others().next().is_some());
    let mut all = Vec::new();
    all.extend(tables::in_full("By operation, on one connection (ours)", &by_operation));
    all.extend(tables::in_full("By concurrency (ours)", &by_concurrency));
    all.extend(tables::in_full("With and without a connection for each request (ours)", &persistence));
    all.extend(beside(&with_peers, &[Metric::Rate, Metric::ServerCpu, Metric::P99]));
    all
}

fn mcp_stdio(cases: &[&CaseResult]) -> Vec<Table> {
    let (varied, by_operation): (Vec<_>, Vec<_>) =
        cases.iter().copied().partition(|case| case.name.contains(','));
    let with_peers: Vec<_> = varied.iter().copied().filter(|case| case.candidates.len() > 1).collect();
    let mut all = Vec::new();
    all.extend(tables::in_full("By operation, one request at a time (ours)", &by_operation));
    for metric in [Metric::Rate, Metric::Mean, Metric::ServerCpu] {
        let table = tables::by_candidate(&by_operation, metric);
        all.extend(
            table.map(|table| Table { caption: format!("Pipes against HTTP: {}", metric.label()), ..table }),
        );
    }
    all.extend(tables::in_full("By number of requests and by window (ours)", &varied));
    all.extend(beside(&with_peers, &[Metric::Rate, Metric::ServerCpu, Metric::P99]));
    all
}

fn gateway(cases: &[&CaseResult], metrics: &[Metric]) -> Vec<Table> {
    let mut all = Vec::new();
    for (group, caption) in GATEWAY_GROUPS {
        let cases: Vec<_> = cases.iter().copied().filter(|case| gateway_group(case) == group).collect();
        for table in metrics.iter().filter_map(|metric| tables::by_candidate(&cases, *metric)) {
            all.push(Table { caption: format!("{caption}: {}", table.caption), ..table });
        }
        all.extend(tables::outcomes(&cases));
    }
    all
}

/// The cases of W6 that stand together, as they have the same candidates.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GatewayGroup {
    BySize,
    Closing,
    Edges,
    Settings,
}

const GATEWAY_GROUPS: [(GatewayGroup, &str); 4] = [
    (GatewayGroup::BySize, "Before a backend that keeps its connections"),
    (GatewayGroup::Closing, "Before a backend that closes after each response"),
    (GatewayGroup::Edges, "One connection, ten thousand, and shared cores"),
    (GatewayGroup::Settings, "Ours with more in the config, and while it is read again"),
];

fn gateway_group(case: &CaseResult) -> GatewayGroup {
    let is_by_size = [50, 200, 500].iter().any(|count| case.name.ends_with(&format!("B c={count}")));
    match case.between {
        ComparisonKind::GatewaysBeforeClosing => GatewayGroup::Closing,
        _ if is_by_size => GatewayGroup::BySize,
        _ if case.candidates.iter().all(|candidate| candidate.name.starts_with(OURS)) => {
            GatewayGroup::Settings
        }
        _ => GatewayGroup::Edges,
    }
}

/// Of the cases that are never left out, in the metric that says most.
fn bars(cases: &[&CaseResult]) -> Vec<RatioBar> {
    let mut bars = Vec::new();
    for case in cases {
        let Some(ours) = case.ours() else { continue };
        for other in case.others() {
            let metric = if other.rounds.iter().any(|figures| figures.server_cpu.is_none()) {
                Metric::Rate
            } else {
                Metric::ServerCpu
            };
            let ratio = tables::ratio(metric, ours, other);
            bars.extend(ratio.map(|ratio| RatioBar {
                label: bar_label(&case.name, &other.name, metric, ratio.median),
                ratio,
                is_more_better: metric.is_more_better(),
            }));
        }
    }
    bars
}

/// Returns the label of a bar, as wide as a phone: of a long case name, its beginning.
fn bar_label(case: &str, other: &str, metric: Metric, ratio: f64) -> String {
    let metric = if metric == Metric::ServerCpu { "server CPU" } else { metric.label() };
    let rest = format!(" / {other}: {metric} ×{ratio:.2}");
    let (case, room) = (tables::shortened(case), LABEL_MAX.saturating_sub(rest.chars().count()));
    if case.chars().count() <= room {
        return format!("{case}{rest}");
    }
    let beginning: String = case.chars().take(room.saturating_sub(1)).collect();
    format!("{}…{rest}", beginning.trim_end())
}

fn cross_checks(report: &SuiteReport) -> Option<Section> {
    let cases: Vec<_> = report
        .cases
        .iter()
        .filter(|case| case.between.is_about_generators() && case.ours().is_some())
        .collect();
    let mut section = Section::new("Is the load generator to be trusted?");
    section.paragraphs.push(
        "The same load on the same server of ours, made by `thruway bench` and by other load generators in turn. Rates must agree where the server is the limit."
            .to_owned(),
    );
    for metric in [Metric::Rate, Metric::GeneratorCpu] {
        section.tables.extend(tables::by_candidate(&cases, metric));
    }
    (!section.tables.is_empty()).then_some(section)
}

fn method(report: &SuiteReport) -> Section {
    let mut section = Section::new("How it was measured, and how to repeat it");
    section.paragraphs.push(LAYOUT.method.clone());
    section.paragraphs.extend(coverage(report).map(|coverage| {
        format!(
            "Intervals hold the true ratio in {:.1} of 100 cases at least, whatever the distribution: their ends are the least and the greatest ratio, or \
             further in where there are more than eight rounds.",
            coverage * 100.0
        )
    }));
    let environment = &report.environment;
    let descriptors =
        environment.descriptors.map_or_else(|| "without limit".to_owned(), |most| most.to_string());
    let settings = &report.settings;
    let mut rows = vec![
        ("date", environment.date.clone()),
        ("version", environment.version.clone()),
        ("processor", format!("{}, {}", environment.cpu, plural(environment.cores, "core"))),
        ("placement", environment.placement.clone()),
        ("memory", bytes(environment.memory)),
        ("kernel", format!("Linux {}", environment.kernel)),
        ("descriptors of a process", descriptors),
        ("rounds", settings.rounds.to_string()),
        (
            "measured each time",
            format!(
                "{} s, after {} s of warm-up; more with ten thousand connections or large answers",
                settings.duration_seconds, settings.warm_up_seconds
            ),
        ),
        ("took", format!("{:.0} s of at most {:.0} s", report.elapsed_seconds, settings.limit_seconds)),
    ];
    rows.extend(environment.tools.iter().map(|tool| (tool.name.as_str(), tool.version.clone())));
    let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    section.tables.extend(Table::prose("Environment", &["what", "value"], rows).or_nothing());
    let servers = report.servers.iter().map(|server| {
        vec![server.name.clone(), server.version.clone(), server.about.clone(), server.command.clone()]
    });
    let heads = ["server", "version", "how it is set up", "command"];
    section.tables.extend(Table::prose("Servers", &heads, servers.collect()).or_nothing());
    section.listings.push(("To repeat it".to_owned(), settings.command.clone()));
    let commands: Vec<_> =
        report.cases.iter().map(|case| format!("# {}\n{}", case.name, case.command)).collect();
    section.listings.push(("The loads".to_owned(), commands.join("\n")));
    let configs = report.servers.iter().filter_map(|server| Some((&server.name, server.config.clone()?)));
    section.listings.extend(configs.map(|(name, config)| (format!("The config of {name}"), config)));
    section
}

fn plural(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns the share of comparisons of equals in which one looks ahead: half of the cases outside of the
/// interval lie on each side.
fn chance(coverage: f64) -> String {
    format!("one in {:.0} by chance", 2.0 / (1.0 - coverage))
}

/// Returns the smallest coverage of the intervals of ratios.
fn coverage(report: &SuiteReport) -> Option<f64> {
    let ratios = report.cases.iter().flat_map(|case| ratios(case, Metric::Rate));
    ratios.map(|(_, ratio)| ratio.coverage).min_by(f64::total_cmp)
}

/// The metrics in which others may be ahead.
const COMPARED: [Metric; 3] = [Metric::Rate, Metric::ServerCpu, Metric::P99];

/// Characters above a bar.
const LABEL_MAX: usize = 60;

/// Prefix of the names of ours.
const OURS: &str = "thruway";
