//! Commands and scripts, and the connections that send them.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use redis::cluster_async::ClusterConnection;
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};
use sha1::{Digest as _, Sha1};

use super::node::{ClusterNodes, NodeConnection};

/// A script that the store runs as one atomic operation.
pub(super) struct Script {
    code: &'static str,
    /// The SHA-1 value of the code, in hexadecimal digits. It identifies the script in the store.
    hash: OnceLock<String>,
}

impl Script {
    fn hash(&self) -> &str {
        self.hash.get_or_init(|| {
            Sha1::digest(self.code).iter().fold(String::new(), |mut digits, byte| {
                // Writing to a string cannot fail.
                let _ = write!(digits, "{byte:02x}");
                digits
            })
        })
    }
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) static $name: Script =
            Script { code: include_str!(concat!("scripts/", $file)), hash: OnceLock::new() };)*
    };
}

scripts! {
    ADD = "add.lua";
    APPEND = "append.lua";
    CLAIM = "claim.lua";
    GET = "get.lua";
    GET_FENCED = "get_fenced.lua";
    LEASE = "lease.lua";
    LIST = "list.lua";
    LOCK = "lock.lua";
    PUT_MEMBER = "put_member.lua";
    READ_AFTER = "read_after.lua";
    RENEW_LOCK = "renew_lock.lua";
    SET_FENCED = "set_fenced.lua";
    SUBTRACT = "subtract.lua";
    TAKE_TOKENS = "take_tokens.lua";
}

/// An open connection. Several operations use it at the same time.
#[derive(Clone)]
pub(super) enum Connection {
    Node(NodeConnection),
    /// The connections to a cluster, and the settings for new connections.
    Cluster(
        ClusterConnection<NodeConnection>,
        #[expect(dead_code, reason = "new connections find the settings only as long as this value lives")]
        Arc<ClusterNodes>,
    ),
}

impl Connection {
    pub(super) async fn request(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Node(node) => command.query_async(node).await,
            Self::Cluster(cluster, _) => command.query_async(cluster).await,
        }
    }
}

/// A command, or a call of a script with one key.
pub(super) struct Request {
    script: Option<&'static Script>,
    /// The name of the command and its arguments, or the key and the arguments of the script.
    arguments: Vec<Bytes>,
}

impl Request {
    /// Returns a request for the command `name`.
    pub(super) fn command(name: &'static str) -> Self {
        Self { script: None, arguments: vec![Bytes::from_static(name.as_bytes())] }
    }

    /// Returns a call of `script`.
    pub(super) fn script(script: &'static Script, key: String) -> Self {
        Self { script: Some(script), arguments: vec![key.into()] }
    }

    /// Adds an argument.
    pub(super) fn arg(mut self, argument: impl Into<Bytes>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds a number.
    pub(super) fn number(self, number: u64) -> Self {
        self.arg(number.to_string())
    }

    /// Sends the request, and waits for the response.
    pub(super) async fn send(&self, connection: &mut Connection) -> RedisResult<Value> {
        let Some(script) = self.script else {
            let mut command = Cmd::new();
            self.add_arguments(&mut command);
            return connection.request(&command).await;
        };
        let result = connection.request(&self.script_command("EVALSHA", script.hash())).await;
        match result {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                connection.request(&self.script_command("EVAL", script.code)).await
            }
            result => result,
        }
    }

    fn script_command(&self, name: &str, script: &str) -> Cmd {
        let mut command = Cmd::new();
        command.arg(name).arg(script).arg(1);
        self.add_arguments(&mut command);
        command
    }

    fn add_arguments(&self, command: &mut Cmd) {
        for argument in &self.arguments {
            command.arg(argument.as_ref());
        }
    }
}
