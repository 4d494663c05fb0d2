//! Evaluates the results of health checks. A single failed check does not mean that the server is down.

use super::config::CheckConfig;
use crate::upstream::health::server_health::Checked;

/// The health check results of one server.
#[derive(Debug)]
pub(crate) struct Tally {
    is_up: bool,
    /// Number of consecutive results that contradict the current state of the server. `None` before the
    /// first result.
    contrary: Option<u32>,
}

impl Default for Tally {
    fn default() -> Self {
        Self { is_up: true, contrary: None }
    }
}

impl Tally {
    /// Returns empty counts for a server. `checked` is the state of the server from earlier checks.
    pub(crate) fn after(checked: Checked) -> Self {
        let contrary = (checked != Checked::NotYet).then_some(0);
        Self { is_up: checked != Checked::Down, contrary }
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

    /// State changes reported after each answer. `+` is a good answer, `-` a bad one.
    fn news(answers: &str) -> String {
        let config = CheckConfig { rise: 2, fall: 3, ..CheckConfig::new(CheckKind::Tcp) };
        let mut tally = Tally::default();
        let mut news = |answer| match tally.record(answer == '+', &config) {
            None => '.',
            Some(true) => 'U',
            Some(false) => 'D',
        };
        answers.chars().map(&mut news).collect()
    }

    #[test]
    fn what_was_known_before_takes_several_answers_to_change() {
        let config = CheckConfig { rise: 2, fall: 2, ..CheckConfig::new(CheckKind::Tcp) };
        for (checked, is_good) in [(Checked::Up, false), (Checked::Down, true)] {
            let mut tally = Tally::after(checked);
            assert_eq!(tally.record(is_good, &config), None);
            assert_eq!(tally.record(is_good, &config), Some(is_good));
        }
        assert_eq!(Tally::after(Checked::NotYet).record(false, &config), Some(false));
    }

    #[test]
    fn the_first_answer_decides_at_once() {
        assert_eq!(news("+"), ".");
        assert_eq!(news("-"), "D");
    }

    #[test]
    fn after_that_it_takes_several_in_a_row() {
        assert_eq!(news("+--+--+---"), ".........D");
        assert_eq!(news("-+-+-++"), "D.....U");
        assert_eq!(news("---++---"), "D...U..D");
    }
}
