//! Gateways with several members.

mod sites;
mod crossing;
mod names;
mod questions;
mod lists;
mod outages;
mod changes;
mod tasks;
