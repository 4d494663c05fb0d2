//! One case after the other: its candidates are started, loaded in turn and ended.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use crate::case::{Case, ComparisonKind, LoadCondition, OUR_SDK, Peers, Role};
use crate::plan::{Plan, PlannedCase};
use crate::results::{CandidateResult, CaseResult, Omission};
use thruway_bench::compare::measure_in_turn;
use thruway_net::Clock;

use crate::contender::{Cell, Contender, Entry, Measured};
use crate::cores::run_on;
use crate::found::Found;
use crate::generators::Generator;
use crate::process;
use crate::server::{Server, ServerResources};
use crate::terminal::Failure;
use crate::terminal::ProgressLine;

/// The servers, and the results so far.
pub(crate) struct Session<'a> {
    pub(crate) servers: &'a [Found],
    pub(crate) python: Option<PathBuf>,
    pub(crate) ground: ServerResources<'a>,
    pub(crate) limit: Duration,
    pub(crate) results: Vec<CaseResult>,
    pub(crate) left_out: Vec<Omission>,
}

/// When it began, and how far it should be.
struct Progress<'a> {
    plan: &'a Plan,
    start: Duration,
    limit: Duration,
}

impl Session<'_> {
    /// Returns the cases of `all` that this machine can measure, with the number of their candidates.
    pub(crate) fn feasible(&mut self, all: Vec<Case>) -> Vec<PlannedCase> {
        let mut feasible = Vec::new();
        for case in all {
            let candidates = self.entries(&case).len();
            match self.obstacle(&case, candidates) {
                Some(because) => self.leave_out(&case.name, because),
                None => feasible.push(PlannedCase { case, candidates }),
            }
        }
        feasible
    }

    /// Measures the planned cases, until all are done, the time is over, or a signal comes.
    pub(crate) fn run(&mut self, plan: &Plan) -> Result<(), Failure> {
        let progress = Progress { plan, start: Clock::system().now_exact(), limit: self.limit };
        for name in &plan.left_out {
            self.leave_out(name, "there is no time for it within `--limit`");
        }
        for (place, planned) in plan.cases.iter().enumerate() {
            if self.ground.stop.is_set() {
                self.leave_out(&planned.case.name, "it was interrupted before");
            } else if progress.is_over() {
                self.leave_out(&planned.case.name, "the time of `--limit` was over");
            } else {
                self.measure(&planned.case, place, &progress)?;
            }
        }
        Ok(())
    }

    /// On the cores that the case asks for.
    fn measure(&mut self, case: &Case, place: usize, progress: &Progress<'_>) -> Result<(), Failure> {
        let apart = self.ground.cores;
        let (shared, one) = (apart.shared(), apart.one());
        let cores = match case.circumstance {
            LoadCondition::SharedCores => &shared,
            LoadCondition::OneCore => &one,
            LoadCondition::Usual | LoadCondition::Reloads => apart,
        };
        let ground = ServerResources { cores, ..self.ground };
        run_on(&ground.cores.load);
        let measured = self.measure_on(ground, case, place, progress);
        run_on(&apart.load);
        measured
    }

    fn measure_on(
        &mut self,
        ground: ServerResources<'_>,
        case: &Case,
        place: usize,
        progress: &Progress<'_>,
    ) -> Result<(), Failure> {
        let (mut backend, mut shared) = match self.surroundings(case, ground) {
            Ok(surroundings) => surroundings,
            Err(because) => {
                self.leave_out(&case.name, because);
                return Ok(());
            }
        };
        let duration = progress.plan.duration_of(case);
        let (warm_up, rounds) = (Plan::warm_up_of(case), progress.plan.rounds);
        let our_sdk = self.servers.iter().find(|found| found.peer.name == OUR_SDK);
        // As the kernel names programs.
        let behind_bridges = our_sdk.and_then(|found| found.program.canonicalize().ok());
        let cell = Cell {
            case,
            duration,
            warm_up,
            ground,
            backend: backend.as_ref(),
            shared: shared.as_ref(),
            behind_bridges: behind_bridges.as_deref(),
        };
        let mut contenders: Vec<_> =
            self.entries(case).into_iter().map(|entry| Contender::start(entry, cell)).collect();
        let mut cells = 0;
        measure_in_turn(&mut contenders, rounds, |contender, round| {
            if ground.stop.is_set() || progress.is_over() {
                return Ok::<_, Failure>(ControlFlow::Break(()));
            }
            let left = minutes(progress.left(place, cells));
            let what = format!("{}, round {} of {rounds}, {}", case.name, round + 1, contender.name());
            contender.measure(cell, &ProgressLine::new(format!("{left} left in all   {what}   ")));
            cells += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        let mut candidates: Vec<_> = contenders.into_iter().map(Contender::into_result).collect();
        // A failed backend has failed for all of them.
        let deaths = [&mut backend, &mut shared].map(|server| server.as_mut().and_then(Server::death));
        for candidate in &mut candidates {
            candidate.failure = candidate.failure.take().or_else(|| deaths.iter().flatten().next().cloned());
        }
        self.results.push(result(case, duration, candidates));
        Ok(())
    }

    /// The backend of gateways, and the server that all load generators share, as far as the case needs them.
    fn surroundings(
        &self,
        case: &Case,
        ground: ServerResources<'_>,
    ) -> Result<(Option<Server>, Option<Server>), String> {
        let ours = &self.servers[0];
        Ok(match (case.between, &self.python) {
            (ComparisonKind::Commands, _) => (Some(Server::start(ours, Role::Http, None, ground)?), None),
            (ComparisonKind::Gateways, _) => (Some(Server::start_backend(ours, ground)?), None),
            (ComparisonKind::GatewaysBeforeClosing, Some(python)) => {
                (Some(Server::start_closing_backend(python, ground)?), None)
            }
            (ComparisonKind::Generators, _) => (None, Some(Server::start(ours, case.role(), None, ground)?)),
            _ => (None, None),
        })
    }

    /// Returns the candidates of a case; ours first.
    fn entries(&self, case: &Case) -> Vec<Entry> {
        let (Some(ours), role) = (self.ours(case), case.role()) else { return Vec::new() };
        let entry = |name: &str, what| Entry { name: name.to_owned(), what };
        if case.between == ComparisonKind::PipeGenerators {
            let own = entry("thruway bench", Measured::Server(ours.clone(), Role::Pipes));
            return vec![own, entry("hand-written loop", Measured::HandWritten(ours.clone()))];
        }
        if case.between == ComparisonKind::Generators {
            let others = Generator::of(case).iter().filter(|generator| generator.is_there());
            let own = entry("thruway bench", Measured::Ours(None));
            let others = others.map(|generator| entry(generator.name(), Measured::Ours(Some(*generator))));
            return [own].into_iter().chain(others).collect();
        }
        if case.circumstance == LoadCondition::Reloads {
            let left_alone = entry("thruway left alone", Measured::Server(ours.clone(), role));
            return vec![entry(&ours.peer.name, Measured::Reloaded(ours.clone())), left_alone];
        }
        let mut entries = vec![entry(&ours.peer.name, Measured::Server(ours.clone(), role))];
        // One request at a time on pipes is compared with one at a time on a connection.
        if case.between == ComparisonKind::Pipes && case.peers == Peers::None {
            entries.push(entry("thruway over HTTP", Measured::Server(ours.clone(), Role::Mcp)));
        }
        let peers = self.servers.iter().filter(|found| found.peer.takes_part(case));
        entries.extend(peers.map(|found| entry(&found.peer.name, Measured::Server(found.clone(), role))));
        entries
    }

    /// Returns the server that is ours in a case, if it is there.
    fn ours(&self, case: &Case) -> Option<&Found> {
        self.servers.iter().find(|found| found.peer.name == case.ours)
    }

    /// Returns the reason why this machine cannot measure a case.
    fn obstacle(&self, case: &Case, candidates: usize) -> Option<String> {
        let needed = process::descriptors_needed(case.connections);
        if let Some(limit) = process::descriptor_limit().filter(|limit| *limit < needed) {
            return Some(format!("it needs {needed} descriptors, and a process may have {limit}"));
        }
        if self.ours(case).is_none() {
            return Some(format!("`{}` is not there", case.ours));
        }
        let needs_our_sdk = case.between == ComparisonKind::Bridges;
        if needs_our_sdk && !self.servers.iter().any(|found| found.peer.name == OUR_SDK) {
            return Some(format!("`{OUR_SDK}` is not there"));
        }
        match case.between {
            ComparisonKind::GatewaysBeforeClosing if self.python.is_none() => {
                Some("its backend needs `python3`, which is not on the `PATH`".to_owned())
            }
            ComparisonKind::Generators if candidates < 2 => {
                let names: Vec<_> = Generator::of(case).iter().map(|generator| generator.name()).collect();
                Some(format!("`{}` is not on the `PATH`", names.join("` or `")))
            }
            _ => None,
        }
    }

    fn leave_out(&mut self, what: &str, because: impl Into<String>) {
        self.left_out.push(Omission { what: what.to_owned(), because: because.into() });
    }
}

impl Progress<'_> {
    fn elapsed(&self) -> Duration {
        Clock::system().now_exact().saturating_sub(self.start)
    }

    fn is_over(&self) -> bool {
        self.elapsed() >= self.limit
    }

    /// Estimates the time from cell `cell` of case `case` on, at the speed so far.
    fn left(&self, case: usize, cell: usize) -> Duration {
        let planned = self.plan.estimated_from(case, cell);
        let done = self.plan.estimated_from(0, 0).saturating_sub(planned);
        // The first few cells say little.
        let factor = if done < Duration::from_secs(5) {
            1.0
        } else {
            self.elapsed().as_secs_f64() / done.as_secs_f64()
        };
        planned.mul_f64(factor).min(self.limit.saturating_sub(self.elapsed()))
    }
}

fn result(case: &Case, duration: Duration, candidates: Vec<CandidateResult>) -> CaseResult {
    CaseResult {
        workload: case.workload,
        name: case.name.clone(),
        between: case.between,
        command: case.command(duration),
        connections: case.connections.into(),
        pipeline: case.pipeline.into(),
        candidates,
    }
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
