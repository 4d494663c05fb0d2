//! The floor of W6: the cost of a relay that reads no HTTP, beside ours and beside the other gateways.

use crate::case::ComparisonKind;
use crate::figures::Metric;
use crate::results::CaseResult;
use crate::tables::{self, Table};
use thruway_bench::statistics::Ratio;

/// A relay that only passes on bytes.
pub(crate) const RELAY: &str = "relay";

/// With two hundred clients, and with ten thousand.
pub(crate) const TWO_HUNDRED: &str = "gateway 2 B c=200";
pub(crate) const TEN_THOUSAND: &str = "gateway 2 B c=10000";

/// Returns `true` if the relay has figures.
pub(crate) fn has_relay(cases: &[&CaseResult]) -> bool {
    !with_relay(cases).is_empty()
}

/// The relay beside each gateway, and what is left of the rates with ten thousand clients.
pub(crate) fn tables(cases: &[&CaseResult]) -> Vec<Table> {
    let cases = with_relay(cases);
    let metrics = [Metric::ServerCpu, Metric::Rate, Metric::P99];
    let beside = metrics.iter().filter_map(|metric| beside(&cases, *metric));
    beside.chain(left_of_rates(&cases)).collect()
}

fn with_relay<'a>(cases: &[&'a CaseResult]) -> Vec<&'a CaseResult> {
    let has_part =
        |case: &&&CaseResult| case.between == ComparisonKind::Gateways && case.candidate(RELAY).is_some();
    cases.iter().filter(has_part).copied().collect()
}

/// Returns ours as a multiple of the relay, and the relay as a multiple of each other gateway.
fn beside(cases: &[&CaseResult], metric: Metric) -> Option<Table> {
    let others: Vec<_> = tables::names(cases).into_iter().skip(1).filter(|name| *name != RELAY).collect();
    let mut heads = vec!["case".to_owned(), format!("ours / {RELAY}")];
    heads.extend(others.iter().map(|name| format!("{RELAY} / {name}")));
    let rows = cases.iter().filter_map(|case| {
        let relay = case.candidate(RELAY)?;
        let ours = tables::ratio(metric, case.ours()?, relay);
        let others = others.iter().map(|name| tables::ratio(metric, relay, case.candidate(name)?));
        let cells = [ours].into_iter().chain(others).map(|ratio| ratio.map(tables::with_interval));
        tables::row(&case.name, cells.collect())
    });
    Table::new(format!("The floor: {}", metric.label()), heads, rows.collect()).or_nothing()
}

/// Each one's rate with ten thousand clients as a share of its own with two hundred.
fn left_of_rates(cases: &[&CaseResult]) -> Option<Table> {
    let find = |name: &str| cases.iter().copied().find(|case| case.name == name);
    let (few, many) = (find(TWO_HUNDRED)?, find(TEN_THOUSAND)?);
    let rows = tables::names(&[many]).into_iter().filter_map(|name| {
        let rates = |case: &CaseResult| Metric::Rate.clean_values(&case.candidate(name)?.rounds);
        let share = Ratio::of_unpaired(&rates(many)?, &rates(few)?)?;
        Some(vec![name.to_owned(), tables::with_interval(share)])
    });
    let heads = [String::new(), format!("`{TEN_THOUSAND}` / `{TWO_HUNDRED}`")];
    let caption = "The floor: remaining requests/s with ten thousand clients";
    Table::new(caption, heads.into(), rows.collect()).or_nothing()
}
