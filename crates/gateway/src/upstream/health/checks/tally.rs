//! Evaluates the results of health checks. A single failed check does not mean that the server is down.

use super::config::CheckConfig;
use crate::upstream::health::server_health::Checked;

/// The health check results of one server.
#[derive(Debug)]
pub(crate) struct Tally {
    is_up: bool,
    /// Number of consecutive results that differ from the current state of the server. `None` before the
    /// first result.
    contrary: Option<u32>,
}

impl Default for Tally {
    fn default() -> Self {
        Self { is_up: true, contrary: None }
    }
}

impl Tally {
    /// Returns a tally without results. `checked` is the state of the server after earlier checks.
    pub(crate) fn after(checked: Checked) -> Self {
        let contrary = (checked != Checked::NotYet).then_some(0);
        Self { is_up: checked != Checked::Down, contrary }
    }

    /// Returns `true` if the server is up. A server without results counts as up.
    pub(crate) const fn is_up(&self) -> bool {
        self.is_up
    }

    /// Adds the result of one check. If the result changes the state of the server, returns `true` if the
    /// server is now up, or `false` if it is now down.
    pub(crate) fn record(&mut self, is_good: bool, config: &CheckConfig) -> Option<bool> {
        if is_good == self.is_up {
            self.contrary = Some(0);
            return None;
        }
        let enough = match (self.contrary, is_good) {
            // The first result alone decides the state of the server.
            (None, _) => 1,
            (Some(_), true) => config.rise,
            (Some(_), false) => config.fall,
        };
        let contrary = self.contrary.unwrap_or_default() + 1;
        if contrary < enough {
            self.contrary = Some(contrary);
            return None;
        }
        *self = Self { is_up: is_good, contrary: Some(0) };
        Some(is_good)
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::CheckKind;
    use super::*;

    /// Returns the state change after each check result. `+` is a success, `-` is a failure.
    fn changes(results: &str) -> String {
        let config = CheckConfig { rise: 2, fall: 3, ..CheckConfig::new(CheckKind::Tcp) };
        let mut tally = Tally::default();
        let mut change = |result| match tally.record(result == '+', &config) {
            None => '.',
            Some(true) => 'U',
            Some(false) => 'D',
        };
        results.chars().map(&mut change).collect()
    }

    #[test]
    fn previous_check_state_changes_only_after_rise_or_fall() {
        let config = CheckConfig { rise: 2, fall: 2, ..CheckConfig::new(CheckKind::Tcp) };
        for (checked, is_good) in [(Checked::Up, false), (Checked::Down, true)] {
            let mut tally = Tally::after(checked);
            assert_eq!(tally.record(is_good, &config), None);
            assert_eq!(tally.record(is_good, &config), Some(is_good));
        }
        assert_eq!(Tally::after(Checked::NotYet).record(false, &config), Some(false));
    }

    #[test]
    fn first_check_result_counts_at_once() {
        assert_eq!(changes("+"), ".");
        assert_eq!(changes("-"), "D");
    }

    #[test]
    fn later_changes_need_consecutive_check_results() {
        assert_eq!(changes("+--+--+---"), ".........D");
        assert_eq!(changes("-+-+-++"), "D.....U");
        assert_eq!(changes("---++---"), "D...U..D");
    }
}
