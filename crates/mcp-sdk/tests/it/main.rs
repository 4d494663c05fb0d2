//! Tests of servers from the view of clients: over HTTP with in-memory connections and virtual time, and on
//! streams.
//!
//! The virtual clock stands still while a task can run. It advances at once when all tasks wait.

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
mod test_client;

// offers of servers, in both eras
mod lists;
mod tools;
mod tool_attribute;
mod typed_forms;
mod offer_attribute;
mod plain_results;
mod prompt_and_resource_attributes;

// the legacy era over HTTP
mod layers;
mod legacy;
mod sessions;
mod session_state;
mod resumption;
mod batches;
mod sse;

// endpoints in other applications
mod tower;

// streams
mod stdio;
mod in_memory;

// clients
mod client;

// bridges
mod bridge;
mod pages;
mod given_up;

// several servers behind one endpoint
mod federation;

// random messages, and memory use
mod mutations;
mod memory;
