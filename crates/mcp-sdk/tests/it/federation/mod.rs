//! Gateways with several members.

mod sites;
mod callers;
mod crossing;
mod names;
mod questions;
mod lists;
mod logs;
mod limits;
mod confirmation;
mod outages;
mod killed;
mod faults;
mod paging;
mod member_warnings;
mod shutdown;
mod changes;
mod tasks;
mod rules;
mod hidden_tools;
mod search;
mod uris;
mod tokens;
mod audit;
mod calls;
mod issuers;
mod access;
