//! Several replicas with one store, in virtual time.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the numbers of the tests are small and positive"
)]

mod budget;
mod counts;
mod failures;
mod fleet;
mod simulation;
