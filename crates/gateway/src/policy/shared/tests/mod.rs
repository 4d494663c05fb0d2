//! Several replicas with one store, in virtual time.

mod budget;
mod failures;
mod fleet;
mod simulation;
