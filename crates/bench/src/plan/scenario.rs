//! Creates the load of a scenario.

use std::sync::Arc;

use thruway_http1::ResponseTo;

use super::error::PlanError;
use super::options::LoadOptions;
use super::reach::{reachable_address, resolve_origin};
use crate::requests::{Expected, Requests, Scenario};
use crate::run::Load;
use crate::stop::StopFlag;

impl Scenario {
    /// Creates the load in which virtual users run this scenario. Each connection of `options` is one virtual user.
    /// The rate, the stages and the number of requests of `options` apply to iterations. Checks that the server
    /// accepts connections.
    ///
    /// # Errors
    /// Returns an error if the options cannot be used, or if the server cannot be reached.
    pub fn load(self, options: &LoadOptions, stop: &StopFlag) -> Result<Load, PlanError> {
        options.check()?;
        if options.pipeline > 1 {
            return Err(PlanError::UserPipeline);
        }
        let tls = options.tls(self.url(), "http/1.1")?;
        options.check_tls(tls.is_some())?;
        let addresses = vec![reachable_address(&resolve_origin(&self.url().origin)?)?];
        let load = options.load(Arc::new(ScenarioRequests::from(self)), addresses, stop);
        Ok(Load { tls, ..load })
    }
}

/// The requests of virtual users that run a scenario. Each number of a request is an iteration.
#[derive(Clone, Debug)]
pub struct ScenarioRequests {
    scenario: Arc<Scenario>,
    /// Not used, because each step has its own expectations.
    expected: Expected,
}

impl From<Scenario> for ScenarioRequests {
    fn from(scenario: Scenario) -> Self {
        Self { scenario: Arc::new(scenario), expected: Expected::default() }
    }
}

impl Requests for ScenarioRequests {
    /// Writes nothing, because the requests depend on the state of a virtual user.
    fn write(&self, _number: u64, _output: &mut Vec<u8>) -> ResponseTo {
        ResponseTo::Other
    }

    fn expected(&self, _number: u64) -> &Expected {
        &self.expected
    }

    fn scenario(&self) -> Option<&Arc<Scenario>> {
        Some(&self.scenario)
    }
}
