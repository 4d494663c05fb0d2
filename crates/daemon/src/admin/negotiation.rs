//! Selects the format of `/metrics` (RFC 9110 §12.5.1).

use thruway_server::FieldLinesBuf;

/// Format of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MetricsFormat {
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
    /// The text format of OpenMetrics, version 1.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// Returns the headers that describe a response in this format.
    pub(super) const fn fields(self) -> FieldLinesBuf {
        FieldLinesBuf::from_static(match self {
            Self::Prometheus => "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\nVary: Accept\r\n",
            Self::OpenMetrics => {
                "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\nVary: Accept\r\n"
            }
        })
    }

    /// Returns the format for a request with the header `Accept: accept`. This is OpenMetrics if the client
    /// names `application/openmetrics-text` and does not prefer `text/plain`. Without the header, it is the
    /// format of Prometheus.
    pub(super) fn accepted(accept: Option<&[u8]>) -> Self {
        let accept = accept.and_then(|accept| std::str::from_utf8(accept).ok()).unwrap_or_default();
        let quality = |name: &str| {
            let ranges = accept.split(',').filter(|range| is_type(range, name) && is_known_version(range));
            ranges.map(quality_of).fold(0.0, f32::max)
        };
        let open_metrics = quality("application/openmetrics-text");
        if open_metrics > 0.0 && open_metrics >= quality("text/plain") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }
}

fn is_type(range: &str, name: &str) -> bool {
    range.split(';').next().is_some_and(|found| found.trim().eq_ignore_ascii_case(name))
}

/// Returns `false` for versions of a format that we do not write.
fn is_known_version(range: &str) -> bool {
    parameter(range, "version").is_none_or(|version| matches!(version, "0.0.1" | "0.0.4" | "1.0.0"))
}

/// Returns the quality of a media range. Invalid qualities count as 0.
fn quality_of(range: &str) -> f32 {
    let quality = parameter(range, "q").map(|quality| quality.parse().unwrap_or(0.0));
    quality.filter(|quality| (0.0..=1.0).contains(quality)).unwrap_or(1.0)
}

fn parameter<'r>(range: &'r str, name: &str) -> Option<&'r str> {
    range.split(';').skip(1).find_map(|parameter| {
        let (found, value) = parameter.split_once('=')?;
        found.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_selected_only_for_clients_that_accept_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.75,application/openmetrics-text;\
                          version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.25,*/*;q=0.1";
        for (accept, expected) in [
            (prometheus, MetricsFormat::OpenMetrics),
            ("application/openmetrics-text", MetricsFormat::OpenMetrics),
            ("APPLICATION/OPENMETRICS-TEXT; Version=\"1.0.0\", text/plain", MetricsFormat::OpenMetrics),
            ("application/openmetrics-text; version=2.0.0, text/plain;q=0.1", MetricsFormat::Prometheus),
            ("application/openmetrics-text;q=0", MetricsFormat::Prometheus),
            ("application/openmetrics-text;q=x", MetricsFormat::Prometheus),
            ("application/openmetrics-text;q=0.4, text/plain;q=0.5", MetricsFormat::Prometheus),
            ("text/html, */*", MetricsFormat::Prometheus),
            ("", MetricsFormat::Prometheus),
        ] {
            assert_eq!(MetricsFormat::accepted(Some(accept.as_bytes())), expected, "{accept}");
        }
        assert_eq!(MetricsFormat::accepted(None), MetricsFormat::Prometheus);
        assert_eq!(MetricsFormat::accepted(Some(b"\xff")), MetricsFormat::Prometheus);
    }
}
