//! Tests of the crate through its public interface, in one binary.

mod samples;

// incoming messages
mod verdicts;
mod cuts;
mod heads;
mod body_length;
mod server_connection;
mod client_connection;

// outgoing messages
mod generate;
mod write;

// comparison with another parser
mod differential;
