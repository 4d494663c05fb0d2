//! Checks of a store for `thruway check`.

use std::time::Duration;

use redis::{RedisError, Value};
use tokio::time::Instant;

use super::connector::{Connector, StoreConnectError, explain, identity_key};
use super::node::NodeConnection;
use super::scripts::{Connection, Request, TAKE_TOKENS};
use super::settings::StoreConfig;
use super::url::StoreLayout;

/// Result of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreInspection {
    /// Name and version of the server, such as `Redis 7.0.15`. `None` if the user may not read it.
    pub version: Option<String>,
    /// Time of the round trip, which is the maximum error of [`StoreInspection::store_time`].
    pub round_trip: Duration,
    /// Problems that need no immediate action.
    pub warnings: Vec<String>,
    /// Time of the store since the UNIX epoch, at a time of this machine.
    time: (Duration, Instant),
}

impl StoreInspection {
    /// Returns the result of a check now, at the time `time` of the store since the UNIX epoch.
    pub fn at(time: Duration, round_trip: Duration) -> Self {
        Self { version: None, round_trip, warnings: Vec::new(), time: (time, Instant::now()) }
    }

    /// Returns the current time of the store since the UNIX epoch.
    pub fn store_time(&self) -> Duration {
        self.time.0 + self.time.1.elapsed()
    }
}

/// Connects to the store, and checks its version, permissions, memory policy and identity. Changes nothing
/// except for one key that expires after a second.
///
/// # Errors
/// The store cannot be used. The error contains the reason and the next step.
pub async fn inspect(config: StoreConfig) -> Result<StoreInspection, StoreConnectError> {
    let connector = Connector::new(config);
    let mut inspection = StoreInspection::at(Duration::ZERO, Duration::ZERO);
    let mut node = connector.connect_to_node(None).await?;
    check_server(&connector, &mut node, &mut inspection).await?;
    if connector.config().url.layout == StoreLayout::Cluster {
        check_slots(&connector, &mut node, &mut inspection).await?;
    }
    let mut connection = connector.connect_unchecked().await?;
    check_commands(&connector, &mut connection).await?;
    check_subscription(&connector, &mut node).await?;
    check_identity(&connector, &mut connection).await?;
    Ok(inspection)
}

async fn check_server(
    connector: &Connector,
    node: &mut NodeConnection,
    inspection: &mut StoreInspection,
) -> Result<(), StoreConnectError> {
    match redis::cmd("INFO").query_async::<String>(node).await {
        Ok(info) => check_info(connector, &info, inspection)?,
        Err(_) => inspection.warnings.push(
            "the user may not run `INFO`, so the version and the memory policy are not checked".to_owned(),
        ),
    }
    let start = Instant::now();
    let time = redis::cmd("TIME").query_async::<(u64, u64)>(node).await;
    let (seconds, micros) = time.map_err(|error| failed(connector, "TIME", &error))?;
    inspection.round_trip = start.elapsed();
    inspection.time = (Duration::from_secs(seconds) + Duration::from_micros(micros), Instant::now());
    Ok(())
}

fn check_info(
    connector: &Connector,
    info: &str,
    inspection: &mut StoreInspection,
) -> Result<(), StoreConnectError> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let url = &connector.config().url;
    let version = field("redis_version").unwrap_or_default();
    inspection.version = Some(match field("valkey_version") {
        Some(valkey) => format!("Valkey {valkey}"),
        None => format!("Redis {version}"),
    });
    if !is_new_enough(version) {
        let reason =
            format!("{url}: Redis {version} is too old: use Redis 6.2 or Valkey 7.2, or a newer version");
        return Err(StoreConnectError::new(&reason));
    }
    let mode = field("redis_mode").or(field("server_mode")).unwrap_or("standalone");
    let expected = if url.layout == StoreLayout::Cluster { "cluster" } else { "standalone" };
    if mode != expected {
        let scheme = match mode {
            "cluster" => "redis+cluster://",
            "sentinel" => "redis+sentinel://",
            _ => "redis://",
        };
        let reason = format!("{url}: the server runs in the mode `{mode}`: use `{scheme}`");
        return Err(StoreConnectError::new(&reason));
    }
    // All keys of Thruway expire, so the policies for such keys (`volatile-…`) evict them too.
    if let Some(policy) = field("maxmemory_policy").filter(|policy| *policy != "noeviction")
        && field("maxmemory") != Some("0")
    {
        inspection.warnings.push(format!(
            "the store may evict locks and limits before they expire: set `maxmemory-policy noeviction` \
             instead of `{policy}`"
        ));
    }
    if field("role") == Some("slave") && url.layout == StoreLayout::Single {
        let reason = format!("{url}: the server is a replica: use the address of its master, or Sentinel");
        return Err(StoreConnectError::new(&reason));
    }
    Ok(())
}

fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (6, 2)
}

/// Checks that the cluster serves all keys.
async fn check_slots(
    connector: &Connector,
    node: &mut NodeConnection,
    inspection: &mut StoreInspection,
) -> Result<(), StoreConnectError> {
    let info = redis::cmd("CLUSTER").arg("INFO").query_async::<String>(node).await;
    let Ok(info) = info else {
        let warning = "the user may not run `CLUSTER INFO`, so the slots of the cluster are not checked";
        inspection.warnings.push(warning.to_owned());
        return Ok(());
    };
    check_cluster_info(&connector.config().url.to_string(), &info)
}

fn check_cluster_info(url: &str, info: &str) -> Result<(), StoreConnectError> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let slots = field("cluster_slots_assigned").and_then(|slots| slots.parse::<u32>().ok());
    if let Some(slots) = slots.filter(|slots| *slots < SLOTS) {
        return Err(StoreConnectError::new(&format!(
            "{url}: the cluster serves only {slots} of {SLOTS} slots: create the cluster with `redis-cli --cluster \
             create`, or repair it with `redis-cli --cluster fix HOST:PORT`"
        )));
    }
    match field("cluster_state") {
        Some(state) if state != "ok" => Err(StoreConnectError::new(&format!(
            "{url}: the cluster has the state `{state}`: start the missing nodes, or repair the cluster with \
             `redis-cli --cluster fix HOST:PORT`"
        ))),
        _ => Ok(()),
    }
}

/// Runs the commands that the operations need. Scripts also need the permission for each of their commands, but Redis
/// does not name a command that it refuses to a script. So each of these commands also runs alone.
async fn check_commands(connector: &Connector, connection: &mut Connection) -> Result<(), StoreConnectError> {
    let prefix = &connector.config().prefix;
    let key = format!("{prefix}:v1:check:{:016x}", fastrand::u64(..));
    let script = Request::script(&TAKE_TOKENS, key.clone());
    let script = script.number(1).number(1000).number(1).number(1).number(0).number(0).number(1000);
    let command = |name| Request::command(name).arg(key.clone());
    let eval = Request::command("EVAL").arg("return 1").number(1).arg(key.clone());
    let requests = [
        ("EVAL", eval),
        ("EVALSHA", script),
        ("GET", command("GET")),
        ("DEL", command("DEL")),
        ("SET", command("SET").arg("1").arg("PX").number(1000).arg("NX")),
        ("INCRBY", command("INCRBY").number(1)),
        ("DECRBY", command("DECRBY").number(1)),
        ("PTTL", command("PTTL")),
        ("STRLEN", command("STRLEN")),
        ("DEL", command("DEL")),
        ("HSET", command("HSET").arg("member").arg("1")),
        ("PEXPIRE", command("PEXPIRE").number(1000)),
        ("PEXPIREAT", command("PEXPIREAT").number(1 << 50)),
        ("PEXPIRE", command("PEXPIRE").number(1000)),
        ("HGET", command("HGET").arg("fence")),
        ("HMGET", command("HMGET").arg("fence")),
        ("HSTRLEN", command("HSTRLEN").arg("value")),
        ("HGETALL", command("HGETALL")),
        ("HLEN", command("HLEN")),
        ("HEXISTS", command("HEXISTS").arg("member")),
        ("HDEL", command("HDEL").arg("member")),
        ("DEL", command("DEL")),
        ("RPUSH", command("RPUSH").arg("entry")),
        ("PEXPIRE", command("PEXPIRE").number(1000)),
        ("LTRIM", command("LTRIM").arg("-1").arg("-1")),
        ("LINDEX", command("LINDEX").arg("-1")),
        ("LLEN", command("LLEN")),
        ("LRANGE", command("LRANGE").arg("0").arg("1")),
        ("DEL", command("DEL")),
        ("PUBLISH", command("PUBLISH").arg("check")),
        ("PING", Request::command("PING")),
    ];
    for (name, request) in requests {
        request.send(connection).await.map_err(|error| failed(connector, name, &error))?;
    }
    Ok(())
}

async fn check_subscription(
    connector: &Connector,
    node: &mut NodeConnection,
) -> Result<(), StoreConnectError> {
    let channel = format!("{}:v1:check:messages", connector.config().prefix);
    node.subscribe(&channel).await.map_err(|error| failed(connector, "SUBSCRIBE", &error))
}

async fn check_identity(connector: &Connector, connection: &mut Connection) -> Result<(), StoreConnectError> {
    let config = connector.config();
    let request = Request::command("GET").arg(identity_key(&config.prefix));
    match request.send(connection).await.map_err(|error| failed(connector, "GET", &error))? {
        Value::BulkString(saved)
            if !config.identities.is_empty()
                && !config.identities.iter().any(|identity| identity.as_bytes() == saved) =>
        {
            Err(StoreConnectError::other_fleet(&config.prefix))
        }
        _ => Ok(()),
    }
}

fn failed(connector: &Connector, command: &str, error: &RedisError) -> StoreConnectError {
    let reason = explain(error, &connector.config().url.to_string());
    StoreConnectError::new(&format!("`{command}` failed: {reason}"))
}

/// Number of slots of a cluster.
const SLOTS: u32 = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    fn inspected(info: &str) -> Result<StoreInspection, String> {
        let config = StoreConfig::new("redis://localhost".parse().unwrap());
        let mut inspection = StoreInspection::at(Duration::ZERO, Duration::ZERO);
        let result = check_info(&Connector::new(config), info, &mut inspection);
        result.map(|()| inspection).map_err(|error| error.to_string())
    }

    #[test]
    fn old_servers_and_other_modes_are_explained() {
        let good = "redis_version:7.0.15\r\nredis_mode:standalone\r\nmaxmemory:0\r\nrole:master\r\n";
        assert_eq!(inspected(good).unwrap().version.unwrap(), "Redis 7.0.15");
        let old = inspected("redis_version:6.0.16\r\nredis_mode:standalone\r\n").unwrap_err();
        assert!(old.contains("6.0.16 is too old"), "{old}");
        let cluster = inspected("redis_version:7.0.15\r\nredis_mode:cluster\r\n").unwrap_err();
        assert!(cluster.contains("redis+cluster://"), "{cluster}");
        let replica = inspected(&good.replace("master", "slave")).unwrap_err();
        assert!(replica.contains("is a replica"), "{replica}");
        let valkey = inspected("redis_version:7.2.4\r\nvalkey_version:8.1.0\r\nserver_mode:standalone\r\n");
        assert_eq!(valkey.unwrap().version.unwrap(), "Valkey 8.1.0");
    }

    #[test]
    fn a_cluster_that_does_not_serve_all_keys_is_explained() {
        let good = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\n";
        assert_eq!(check_cluster_info("redis+cluster://a", good), Ok(()));
        let explained = |info: &str| check_cluster_info("redis+cluster://a", info).unwrap_err().to_string();
        let error = explained("cluster_state:ok\r\ncluster_slots_assigned:8000\r\n");
        assert!(error.contains("only 8000 of 16384 slots"), "{error}");
        assert!(explained(&good.replace("ok", "fail")).contains("the state `fail`"));
    }

    #[test]
    fn a_store_that_evicts_locks_gets_a_warning() {
        let warnings = |memory: &str, policy: &str| {
            let info = format!("redis_version:7.0.15\r\nmaxmemory:{memory}\r\nmaxmemory_policy:{policy}\r\n");
            inspected(&info).unwrap().warnings
        };
        for policy in ["allkeys-lru", "volatile-ttl"] {
            assert!(warnings("100", policy)[0].contains("noeviction"));
            assert!(warnings("0", policy).is_empty());
        }
        assert!(warnings("100", "noeviction").is_empty());
    }
}
