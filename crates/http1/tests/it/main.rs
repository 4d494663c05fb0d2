//! Tests of the crate from outside, in one binary.

mod samples;

// what comes in
mod verdicts;
mod cuts;
mod heads;
mod body_length;
mod server_connection;
mod client_connection;

// what goes out
mod generate;
mod write;

// against another parser
mod differential;
