//! Servers as their clients see them: over HTTP, with connections in memory and virtual time, and on streams.
//!
//! Time stands still while there is something to do; where a test waits, it goes on by itself, at once.

// tools
mod fixtures;
mod http;
mod stream;

// the modern era over HTTP
mod modern;
mod refusals;
mod mirroring;
mod handlers;
mod rounds;
mod authorization;
mod subscriptions;
mod tasks;

// what servers offer, in both eras
mod lists;
mod tools;
mod tool_attribute;

// the legacy era over HTTP
mod layers;
mod legacy;
mod sessions;
mod resumption;
mod batches;
mod sse;

// the same in applications of others
mod tower;

// streams
mod stdio;
mod in_memory;

// the other side
mod client;

// between
mod bridge;
mod pages;
mod given_up;

// anything at all, and what it costs
mod mutations;
mod memory;
