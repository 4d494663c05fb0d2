//! Gateways between real sockets: clients that are simple, and upstreams that are not.

// both sides
mod backend;
mod gateway;

// servers that fail
mod ejection;
mod checks;

// who is next
mod names;
mod succession;
mod sticky;
mod speed;

// what is spoken with them
mod secured;

// how many
mod limits;

// what becomes of messages on their way
mod forward;
mod http2;
mod smuggling;

// which requests may go on
mod policies;

// tunnels to where clients name
mod connect;

// streams that are no messages
mod tcp;
