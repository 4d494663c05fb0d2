//! Writes reports as tables: as plain text that is readable without color, or as Markdown.

use std::fmt::Write as _;

use super::contents::{Generator, Handshakes, Report};
use super::figures::{NONE, bytes, count, rate, three_digits, time};
use super::times::TimesReport;
use super::{stages, steps, thresholds};

/// Formats the report as plain text.
pub(super) fn report(report: &Report) -> String {
    let mut text = format!("{}\n{}\n\n", report.target, connection_options(report));
    rows(&mut text, &overview(report));
    times(&mut text, report);
    aligned(&mut text, &stages::table(&report.stages));
    aligned(&mut text, &steps::table(&report.steps));
    aligned(&mut text, &steps::table_of_urls(&report.urls, &report.steps));
    let failures = steps::failures(&report.steps);
    if !failures.is_empty() {
        text.push_str("\nfailed steps\n");
        rows(&mut text, &failures);
    }
    if !report.errors.is_empty() {
        text.push_str("\nerrors\n");
        rows(&mut text, &errors(report));
    }
    if !report.thresholds.is_empty() {
        text.push_str("\nthresholds\n");
        rows(&mut text, &thresholds::rows(&report.thresholds));
    }
    for warning in &report.warnings {
        let _ = write!(text, "\nwarning: {warning}\n");
    }
    text
}

/// Formats the report as Markdown.
pub(super) fn markdown(report: &Report) -> String {
    let mut markdown = format!("# {}\n\n{}\n\n", escaped(&report.target), connection_options(report));
    markdown_table(&mut markdown, ["", ""], &overview(report));
    markdown.push_str("\n| time | p50 | p90 | p99 | p99.9 | max |\n|---|--:|--:|--:|--:|--:|\n");
    let rows = [("response", &report.response_time), ("service", &report.service_time)];
    let closed = [("time", &report.response_time)];
    let shown = if report.is_open() { &rows[..] } else { &closed[..] };
    for (name, times) in shown {
        let _ = write!(markdown, "| {name} |");
        for value in [times.p50_us, times.p90_us, times.p99_us, times.p99_9_us, times.max_us] {
            let _ = write!(markdown, " {} |", times.format_time(value));
        }
        markdown.push('\n');
    }
    wide_table(&mut markdown, &stages::table(&report.stages));
    wide_table(&mut markdown, &steps::table(&report.steps));
    wide_table(&mut markdown, &steps::table_of_urls(&report.urls, &report.steps));
    let failures = steps::failures(&report.steps);
    if !failures.is_empty() {
        markdown.push('\n');
        markdown_table(&mut markdown, ["step", "failed"], &failures);
    }
    if !report.errors.is_empty() {
        markdown.push('\n');
        markdown_table(&mut markdown, ["failed", "how"], &errors(report));
    }
    if !report.thresholds.is_empty() {
        markdown.push('\n');
        markdown_table(&mut markdown, ["threshold", "outcome"], &thresholds::rows(&report.thresholds));
    }
    for warning in &report.warnings {
        let _ = write!(markdown, "\n**Warning:** {warning}\n");
    }
    markdown
}

fn markdown_table(markdown: &mut String, heads: [&str; 2], rows: &[[String; 2]]) {
    let _ = write!(markdown, "| {} | {} |\n|---|---|\n", heads[0], heads[1]);
    for [name, value] in rows {
        let _ = writeln!(markdown, "| {} | {} |", escaped(name), escaped(value));
    }
}

/// Writes a table with a heading and aligned columns. The first and the last column of `rows` may have any
/// width. Writes nothing if there are no rows.
fn aligned(text: &mut String, rows: &[Vec<String>]) {
    let Some(heads) = rows.first() else { return };
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..heads.len()).map(width).collect();
    text.push('\n');
    for row in rows {
        let _ = write!(text, "{:<first$}", row[0], first = widths[0]);
        for (value, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(text, "  {value:>width$}");
        }
        text.push('\n');
    }
}

/// Writes a Markdown table with a heading. Writes nothing if there are no rows.
fn wide_table(markdown: &mut String, rows: &[Vec<String>]) {
    let Some((heads, rows)) = rows.split_first() else { return };
    let _ = write!(markdown, "\n| {} |\n|---|{}\n", heads.join(" | "), "--:|".repeat(heads.len() - 1));
    for row in rows {
        let row: Vec<_> = row.iter().map(|value| escaped(value)).collect();
        let _ = writeln!(markdown, "| {} |", row.join(" | "));
    }
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Describes the settings of the load in a line.
pub(super) fn connection_options(report: &Report) -> String {
    let settings = &report.settings;
    let connections = match report.deliveries {
        // The publisher also has a connection, which is not a subscriber.
        Some(_) => plural(settings.connections.saturating_sub(1), "subscriber"),
        None if report.iterations.is_some() => plural(settings.connections, "user"),
        None => plural(settings.connections, "connection"),
    };
    let mut connection_options = format!("{connections}, {}", plural(settings.workers, "worker"));
    if settings.http_version.as_deref() == Some("2") {
        let _ = write!(connection_options, ", HTTP/2, {} each", plural(settings.pipeline, "stream"));
    } else if settings.pipeline > 1 {
        let _ = write!(connection_options, ", pipelines of {}", settings.pipeline);
    }
    if !settings.is_persistent {
        connection_options.push_str(", a connection for each request");
    }
    let pace = match (settings.pace.as_str(), settings.seed) {
        ("poisson", Some(seed)) => format!("open loop (Poisson, seed {seed})"),
        ("poisson", None) => "open loop (Poisson)".to_owned(),
        ("constant", _) => "open loop".to_owned(),
        ("stages", seed) => {
            let kind = if report.is_open() { "open" } else { "closed" };
            let seed = seed.map_or_else(String::new, |seed| format!(", Poisson, seed {seed}"));
            let stages = settings.stages.as_deref().unwrap_or_default();
            let unit = match (report.iterations.is_some(), report.is_open()) {
                (true, true) => " (iterations/s)",
                (true, false) => " (users)",
                (false, _) => "",
            };
            format!("{kind} loop with stages {stages}{unit}{seed}")
        }
        _ => "closed loop".to_owned(),
    };
    let _ = write!(connection_options, ", {pace}, {} s", three_digits(report.elapsed_seconds));
    if report.is_interrupted {
        connection_options.push_str(", interrupted");
    }
    connection_options
}

/// Returns the rows of the overview: all results except times and errors.
pub(super) fn overview(report: &Report) -> Vec<[String; 2]> {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| rows.push([name.to_owned(), value]);
    if let Some(offered) = report.offered_requests_per_second {
        let due = report.due_requests_per_second.filter(|_| report.settings.seed.is_some());
        let due = due.map_or_else(String::new, |due| format!(", {} due by chance", rate(due)));
        row("offered rate", format!("{} requests/s{due}", rate(offered)));
    }
    if let Some(iterations) = &report.iterations {
        for [name, value] in iterations.overview() {
            row(&name, value);
        }
    }
    row("achieved rate", format!("{} requests/s", rate(report.achieved_requests_per_second)));
    let requests = &report.requests;
    row("requests", format!("{} answered, {} failed", count(requests.answered), count(requests.failed)));
    if !report.statuses.is_empty() {
        let statuses: Vec<_> = report
            .statuses
            .iter()
            .map(|found| format!("{} × {}", count(found.count), found.status))
            .collect();
        row("statuses", statuses.join(", "));
    }
    if let Some(deliveries) = &report.deliveries {
        let [p50, p99, max] = [deliveries.p50_us, deliveries.p99_us, deliveries.max_us].map(time);
        row("deliveries", format!("{}, p50 {p50}, p99 {p99}, max {max}", count(deliveries.count)));
        rows.extend(costs(report));
        return rows;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "three digits are shown")]
    let received_rate = bytes(report.received_rate() as u64);
    // The bytes belong only to requests that got the expected response.
    let transferred = match requests.answered {
        0 => NONE.to_owned(),
        _ => format!(
            "{} received ({received_rate}/s), {} sent",
            bytes(report.bytes.received_bytes),
            bytes(report.bytes.sent_bytes)
        ),
    };
    row("bytes", transferred);
    row("connections", format!("{} opened", count(report.connections.opened)));
    if let Some(handshakes) =
        report.handshakes.as_ref().filter(|handshakes| handshakes.handshakes_per_second > 0.0)
    {
        let Handshakes { full, resumed, handshakes_per_second } = handshakes;
        let counts = format!("{} full, {} resumed", count(*full), count(*resumed));
        row("handshakes", format!("{} handshakes/s: {counts}", rate(*handshakes_per_second)));
    }
    if requests.sent_again > 0 {
        row("sent again", format!("{} after an announced close", count(requests.sent_again)));
    }
    if requests.event_streams > 0 {
        row("event streams", format!("{} of the responses", count(requests.event_streams)));
    }
    rows.extend(costs(report));
    rows
}

/// Describes the resource use of the load generator and of the server.
fn costs(report: &Report) -> Vec<[String; 2]> {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| rows.push([name.to_owned(), value]);
    let generator = &report.generator;
    row(
        "generator",
        format!(
            "{} CPU per request, busiest worker {:.0} %",
            time_or_none(generator.cpu_us_per_request),
            generator.busiest_worker_share * 100.0
        ),
    );
    if let Some(server) = &report.server {
        row(
            "server",
            format!(
                "{} CPU per request, {} of memory (at most {})",
                time_or_none(server.cpu_us_per_request),
                bytes(server.resident_after_bytes),
                bytes(server.resident_max_bytes)
            ),
        );
    }
    rows
}

fn time_or_none(microseconds: Option<f64>) -> String {
    microseconds.map_or_else(|| NONE.to_owned(), time)
}

fn times(text: &mut String, report: &Report) {
    let is_open = report.is_open();
    text.push_str("\n                  p50       p90       p99     p99.9       max\n");
    time_row(text, if is_open { "response" } else { "time" }, &report.response_time);
    if is_open {
        time_row(text, "service", &report.service_time);
    }
}

fn time_row(text: &mut String, name: &str, times: &TimesReport) {
    let _ = write!(text, "{name:<11}");
    for value in [times.p50_us, times.p90_us, times.p99_us, times.p99_9_us, times.max_us] {
        let _ = write!(text, "{:>10}", times.format_time(value));
    }
    text.push('\n');
}

/// Returns the count and the description of each kind of failure. If the report has details of the first
/// failure, the description contains them.
pub(super) fn errors(report: &Report) -> Vec<[String; 2]> {
    let rows = report.errors.iter().map(|error| {
        let example =
            if error.example.is_empty() { String::new() } else { format!(" (first: {})", error.example) };
        [count(error.count), format!("{}{example}", error.kind)]
    });
    rows.collect()
}

/// Returns the warnings of the report.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(of_generator(&report.generator));
    if report.server.as_ref().is_some_and(|server| server.is_incomplete) {
        warnings.push(
            "CPU time of the server is incomplete: some of its processes ended, and their parents did not wait for them"
                .to_owned(),
        );
    }
    if report.is_given_up {
        warnings.push("stopped early, because no connection to the server could be opened".to_owned());
    }
    if let Some(found) = report.listen_queue.filter(|found| found.drops.max(found.overflows) > 0) {
        let dropped = plural(found.drops.max(found.overflows), "connection");
        warnings.push(format!(
            "full listen queues on this machine dropped {dropped}, and clients retry only after a second or more. Increase the queue of the server (`backlog`, `net.core.somaxconn`)"
        ));
    }
    if let Some(because) = &report.connections.missing_because {
        warnings.push(format!(
            "{} failed before the start: {because}",
            plural(report.connections.missing, "connection")
        ));
    }
    if let Some(most) = report.connections.streams_max {
        warnings.push(format!("the server allows only {} per connection", plural(most, "stream")));
    }
    if let Some(share) = report.achieved_share().filter(|share| *share < 0.99)
        && !report.is_interrupted
    {
        warnings.push(format!("the achieved rate is {:.1} % of the requested rate", share * 100.0));
    }
    if report.is_stalled {
        warnings.push(format!(
            "the server stopped responding: {} had waited for up to {} when the load ended. The times include these requests, but the counts do not",
            plural(report.requests.cut_off, "request"),
            time(report.response_time.max_us)
        ));
    } else if report.response_time.at_least_from_us.is_some() {
        warnings.push(
            "times with ≥ are lower bounds, because the end of the load cut off requests that had waited this long"
                .to_owned(),
        );
    }
    if report.requests.answered == 0 {
        warnings.push("no request got the expected response".to_owned());
    }
    warnings
}

/// Returns a warning if the load generator was the bottleneck or was late.
fn of_generator(generator: &Generator) -> Option<String> {
    let Generator { busiest_worker_share, waiting_worker_share, is_limit, .. } = *generator;
    if is_limit && busiest_worker_share >= waiting_worker_share {
        let words = "the load generator was the limit, not the server: use more workers on separate cores";
        return Some(words.to_owned());
    }
    generator.is_late().then(|| {
        format!(
            "the load generator was late: for {:.0} % of the time, it was ready to run but had no CPU core, so rates and times are distorted. Pin it to separate cores, or use fewer workers",
            waiting_worker_share * 100.0
        )
    })
}

fn rows(text: &mut String, rows: &[[String; 2]]) {
    for [name, value] in rows {
        let _ = writeln!(text, "{name:<14} {value}");
    }
}

fn plural(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}
