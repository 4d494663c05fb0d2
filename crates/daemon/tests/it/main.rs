//! A daemon as a program embeds it: from a file, and from code. The examples are tested as they are.

mod client;
mod configs_from_code;
mod examples;
mod files_with_mistakes;
mod reload;
mod service;
