//! Request states (`requestState`). Between two rounds of a request, the server does not store the state of
//! the request: the client stores it. A client could forge a state, or send the state with a different
//! request. So the server authenticates each state, and binds the state to one request of one caller. A state
//! expires after one hour.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use thruway_mcp::json_rpc::Error;
use thruway_mcp::members::append_members;
use thruway_mcp::params::Params;
use thruway_net::{Clock, random_bytes, unguessable_id};

use crate::authorization::Caller;
use crate::replica_ids::{ReplicaIdKind, ReplicaIds};
use crate::server::McpServerOptions;

/// The state of a request: the client's answers in the earlier rounds, and the number of these rounds.
#[derive(Default, Debug, Serialize, Deserialize)]
pub struct State {
    pub(crate) answers: BTreeMap<String, Box<RawValue>>,
    pub(crate) round: u32,
    /// The state that the upstream server of a bridge returned. `None` in servers that are not bridges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relayed: Option<String>,
    /// Distinguishes two relayed states with the same content, so that each of them can be used once. `None` in
    /// servers that are not bridges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nonce: Option<Box<str>>,
    /// Expiry time, in seconds since the Unix epoch.
    expires: u64,
}

impl State {
    pub(crate) const fn new(answers: BTreeMap<String, Box<RawValue>>, round: u32) -> Self {
        Self { answers, round, relayed: None, nonce: None, expires: 0 }
    }

    /// Returns a state that contains `state`, which the upstream server of a bridge returned.
    pub fn relayed(state: String) -> Self {
        Self { relayed: Some(state), nonce: Some(unguessable_id()), ..Self::default() }
    }
}

/// Identifies the request that a state belongs to. The value is a digest of the caller, the method, the
/// name, the URI and the arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestBinding([u8; 32]);

/// The data from which the server computes the [`RequestBinding`] of a request. The server computes the
/// binding only if the request needs a state.
#[derive(Clone, Debug)]
pub struct BoundRequest {
    caller: Option<String>,
    method: String,
    name: String,
    uri: String,
    arguments: Box<RawValue>,
}

impl BoundRequest {
    /// Copies the caller, the method and the relevant parameters of a request.
    pub fn new(caller: &Caller, method: &str, params: &Params<'_>) -> Self {
        Self {
            caller: caller.principal(),
            method: method.to_owned(),
            name: params.name.as_deref().unwrap_or_default().to_owned(),
            uri: params.uri.as_deref().unwrap_or_default().to_owned(),
            arguments: params.arguments.map_or_else(no_arguments, ToOwned::to_owned),
        }
    }

    /// Returns the method of the request.
    pub fn method(&self) -> &str {
        &self.method
    }

    pub(crate) fn arguments_bytes(&self) -> usize {
        self.arguments.get().len()
    }

    /// Returns the binding for sealing and opening the `requestState` of this request.
    pub fn binding(&self) -> RequestBinding {
        let request = [&*self.method, &*self.name, &*self.uri];
        RequestBinding::new(self.caller.as_deref(), request, &self.arguments)
    }
}

impl RequestBinding {
    /// Returns the binding, a digest of the caller and the request. `request` contains the method, the name
    /// and the URI. The order of object members in `arguments` does not affect the digest, because a client
    /// may change this order when it repeats a call. The other details of the JSON text affect it.
    pub fn new(caller: Option<&str>, request: [&str; 3], arguments: &RawValue) -> Self {
        let mut digest = Sha256::new();
        for part in [caller.unwrap_or_default()].into_iter().chain(request) {
            add_text(&mut digest, part);
        }
        digest.update([u8::from(caller.is_some())]);
        add_json(&mut digest, arguments, 0);
        Self(digest.finalize().into())
    }
}

/// Adds a JSON value to a digest. The order of object members does not affect the digest. Does not parse numbers,
/// because a parser rounds long numbers. `depth` is the number of objects and arrays around the value.
fn add_json(digest: &mut Sha256, json: &RawValue, depth: usize) {
    let added = match json.get().as_bytes() {
        [b'{', ..] if depth < DEPTH_MAX => add_object(digest, json, depth),
        [b'[', ..] if depth < DEPTH_MAX => add_array(digest, json, depth),
        [b'"', ..] => add_string(digest, json),
        _ => None,
    };
    if added.is_none() {
        add_text(digest, json.get());
    }
}

/// Adds all members, also members with the same name: a server may use any of them.
fn add_object(digest: &mut Sha256, json: &RawValue, depth: usize) -> Option<()> {
    let mut members = Vec::new();
    let collected = append_members(&mut Vec::new(), json, |name, value| {
        members.push((name.to_owned(), value));
        false
    });
    collected.ok()?;
    // The sort is stable, so it keeps the order of members with the same name.
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    digest.update(b"{");
    for (name, value) in members {
        add_text(digest, &name);
        add_json(digest, value, depth + 1);
    }
    digest.update(b"}");
    Some(())
}

fn add_array(digest: &mut Sha256, json: &RawValue, depth: usize) -> Option<()> {
    let values: Vec<&RawValue> = serde_json::from_str(json.get()).ok()?;
    digest.update(b"[");
    for value in values {
        add_json(digest, value, depth + 1);
    }
    digest.update(b"]");
    Some(())
}

/// Adds a string in its usual spelling, because a client may escape other characters when it repeats a call.
fn add_string(digest: &mut Sha256, json: &RawValue) -> Option<()> {
    let string: Value = serde_json::from_str(json.get()).ok()?;
    add_text(digest, &string.to_string());
    Some(())
}

/// Adds a text and its length to a digest.
fn add_text(digest: &mut Sha256, text: &str) {
    digest.update((text.len() as u64).to_le_bytes());
    digest.update(text);
}

/// The keys that authenticate request states: the first key signs, and all keys verify. All servers behind one load
/// balancer need the same keys.
#[derive(Clone)]
pub struct StateKey {
    keys: Arc<[[u8; 32]]>,
    replica_ids: Option<ReplicaIds>,
}

impl StateKey {
    /// Lifetime of a request state. The client must answer the questions within this time.
    pub const LIFETIME: Duration = Duration::from_hours(1);

    /// Returns the keys in `options`, or a random key.
    ///
    /// # Panics
    /// Panics if the operating system provides no random bytes.
    pub(crate) fn of(options: &McpServerOptions) -> Self {
        let first = options.state_key.unwrap_or_else(random_bytes);
        let keys = [first].into_iter().chain(options.older_state_keys.iter().copied());
        Self { keys: keys.collect(), replica_ids: options.replica_ids.clone() }
    }

    /// Sets the expiry time of a state and seals the state for `binding`. Returns
    /// `base64(state).base64(mac)`.
    ///
    /// # Errors
    /// Returns an error if the state cannot be written as JSON.
    pub fn seal(&self, mut state: State, binding: &RequestBinding) -> Result<String, Error> {
        state.expires = now() + Self::LIFETIME.as_secs();
        let bytes = serde_json::to_vec(&state)
            .map_err(|_| Error::internal("cannot write the request state as JSON"))?;
        let mac = mac(&self.keys[0], &bytes, binding).finalize().into_bytes();
        Ok(format!("{}.{}", URL_SAFE_NO_PAD.encode(bytes), URL_SAFE_NO_PAD.encode(mac)))
    }

    /// Seals a state as [`seal`](Self::seal) does, so that only this replica can open the state.
    ///
    /// # Errors
    /// Returns an error if the state cannot be written as JSON.
    pub fn seal_for_replica(&self, state: State, binding: &RequestBinding) -> Result<String, Error> {
        let sealed = self.seal(state, binding)?;
        Ok(self.pinned(ReplicaIdKind::State, sealed))
    }

    /// Returns `true` if this replica must see each use of a state.
    pub fn pins_states(&self) -> bool {
        self.replica_ids.as_ref().is_some_and(ReplicaIds::pins_states)
    }

    /// Verifies and decodes a sealed state that a client returned.
    ///
    /// # Errors
    /// Returns an error if the state was sealed with a different key or for a different binding, or if the
    /// state has expired.
    pub fn open(&self, sealed: &str, binding: &RequestBinding) -> Result<State, Error> {
        let invalid = || Error::invalid_params("`requestState` is not valid for this request");
        let bytes = self.verified(ReplicaIdKind::State, sealed, binding).ok_or_else(invalid)?;
        let state: State = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
        if state.expires < now() {
            return Err(Error::invalid_params("`requestState` has expired: repeat the request without it"));
        }
        Ok(state)
    }

    /// Seals a text, without an expiry time. Returns `base64(text).base64(mac)`. `binding` must not contain
    /// the method of a real request. Otherwise, a client could present the sealed text as a [`State`].
    pub fn seal_text(&self, text: &str, binding: &RequestBinding) -> String {
        let mac = mac(&self.keys[0], text.as_bytes(), binding).finalize().into_bytes();
        format!("{}.{}", URL_SAFE_NO_PAD.encode(text), URL_SAFE_NO_PAD.encode(mac))
    }

    /// Seals the id of a task that runs in a child process of this replica.
    pub fn seal_task_for_replica(&self, id: &str, binding: &RequestBinding) -> String {
        self.pinned(ReplicaIdKind::Task, self.seal_text(id, binding))
    }

    /// Verifies a sealed id of a task, and returns the original id. Returns `None` if
    /// [`seal_text`](Self::seal_text) or [`seal_task_for_replica`](Self::seal_task_for_replica) did not create the
    /// sealed id with the same key and binding.
    pub fn open_task(&self, sealed: &str, binding: &RequestBinding) -> Option<String> {
        String::from_utf8(self.verified(ReplicaIdKind::Task, sealed, binding)?).ok()
    }

    /// Adds the name of this replica to a sealed value. Returns the value unchanged if there are no other replicas.
    fn pinned(&self, kind: ReplicaIdKind, sealed: String) -> String {
        match &self.replica_ids {
            Some(ids) => ids.pin(kind, &sealed),
            None => sealed,
        }
    }

    /// Returns the content of a sealed value, if its signature is valid and it does not belong to another replica.
    fn verified(&self, kind: ReplicaIdKind, sealed: &str, binding: &RequestBinding) -> Option<Vec<u8>> {
        let sealed = match &self.replica_ids {
            Some(ids) => ids.unpin(kind, sealed)?,
            None => sealed,
        };
        let (content, signature) = sealed.split_once('.')?;
        let content = URL_SAFE_NO_PAD.decode(content).ok()?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let is_of = |key| mac(key, &content, binding).verify_slice(&signature).is_ok();
        self.keys.iter().any(is_of).then_some(content)
    }
}

fn mac(key: &[u8; 32], bytes: &[u8], binding: &RequestBinding) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
    mac.update(&binding.0);
    mac.update(bytes);
    mac
}

fn no_arguments() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("the text is JSON")
}

fn now() -> u64 {
    let since_epoch = Clock::system().time_of_day().duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.unwrap_or_default().as_secs()
}

/// Maximum number of objects and arrays around a value whose members may change their order. Each level costs one
/// pass over the text.
const DEPTH_MAX: usize = 32;

impl std::fmt::Debug for StateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StateKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica_ids::ReplicaId;
    use serde_json::json;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn binding(caller: Option<&str>, arguments: &Value) -> RequestBinding {
        RequestBinding::new(caller, ["tools/call", "ask", ""], &raw(&arguments.to_string()))
    }

    impl StateKey {
        fn random() -> Self {
            Self::of(&McpServerOptions::default())
        }

        fn of_replica(replica: ReplicaId) -> Self {
            let replica_ids = Some(ReplicaIds::new(replica, "tools", vec![[1; 32]]));
            let state_key = Some([2; 32]);
            Self::of(&McpServerOptions { state_key, replica_ids, ..McpServerOptions::default() })
        }
    }

    #[test]
    fn state_of_a_replica_opens_only_on_this_replica() {
        let (own, other) = (ReplicaId::random(), ReplicaId::random());
        let (own, other) = (StateKey::of_replica(own), StateKey::of_replica(other));
        let binding = binding(None, &Value::Null);
        let pinned = own.seal_for_replica(State::default(), &binding).unwrap();
        assert!(own.open(&pinned, &binding).is_ok() && other.open(&pinned, &binding).is_err());
        let free = own.seal(State::default(), &binding).unwrap();
        assert!(own.open(&free, &binding).is_ok() && other.open(&free, &binding).is_ok());
        let task = own.seal_task_for_replica("1", &binding);
        assert_eq!(own.open_task(&task, &binding).as_deref(), Some("1"));
        assert_eq!(other.open_task(&task, &binding), None);
    }

    #[test]
    fn older_key_opens_request_states() {
        let options = |first, older: &[_]| McpServerOptions {
            state_key: Some(first),
            older_state_keys: older.to_vec(),
            ..McpServerOptions::default()
        };
        let binding = binding(None, &Value::Null);
        let sealed = StateKey::of(&options([1; 32], &[])).seal(State::default(), &binding).unwrap();
        assert!(StateKey::of(&options([2; 32], &[[1; 32]])).open(&sealed, &binding).is_ok());
        assert!(StateKey::of(&options([2; 32], &[])).open(&sealed, &binding).is_err());
    }

    #[test]
    fn request_state_opens_only_for_its_request() {
        let key = StateKey::random();
        let arguments = json!({"a": 1, "b": [true, {"c": "d", "e": null}]});
        let ada = RawValue::from_string(r#""Ada""#.to_owned()).unwrap();
        let state = State { answers: [("name".to_owned(), ada)].into(), round: 2, ..State::default() };
        let sealed = key.seal(state, &binding(Some("ada"), &arguments)).unwrap();
        let other_order = json!({"b": [true, {"e": null, "c": "d"}], "a": 1});
        let opened = key.open(&sealed, &binding(Some("ada"), &other_order)).unwrap();
        assert_eq!((opened.round, opened.answers["name"].get()), (2, r#""Ada""#));
        for binding in [
            binding(None, &arguments),
            binding(Some(""), &arguments),
            binding(Some("ada"), &json!({"a": 2})),
            RequestBinding::new(Some("ada"), ["tools/call", "other", ""], &raw(&arguments.to_string())),
            RequestBinding::new(Some("ada"), ["tools/call", "ask", "other"], &raw(&arguments.to_string())),
        ] {
            assert!(key.open(&sealed, &binding).is_err());
        }
        assert!(StateKey::random().open(&sealed, &binding(Some("ada"), &arguments)).is_err());
    }

    /// Regression test: the digest used rounded numbers, and only the last member of each name.
    #[test]
    fn different_arguments_have_different_bindings() {
        let binding = |json: &str| RequestBinding::new(None, ["", "", ""], &raw(json));
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(200), "]".repeat(200));
        for (one, other) in [
            (r#"{"a":100000000000000000001}"#, r#"{"a":100000000000000000002}"#),
            (r#"{"a":0.10000000000000000001}"#, r#"{"a":0.1}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#),
            (r#"{"a":1,"\u0061":2}"#, r#"{"a":2}"#),
            (r#"["a","b"]"#, r#"["b","a"]"#),
            (&deep("1"), &deep("2")),
        ] {
            assert_ne!(binding(one), binding(other), "{one}");
        }
        for (one, other) in [
            (r#"{"a":1,"b":[{"c":2,"d":"\u00e9"}]}"#, "{ \"b\" : [ {\"d\":\"é\", \"c\":2} ], \"a\":1 }"),
            (&deep("1"), &deep("1")),
        ] {
            assert_eq!(binding(one), binding(other), "{one}");
        }
    }

    #[test]
    fn modified_request_state_is_rejected() {
        let key = StateKey::random();
        let binding = binding(None, &Value::Null);
        let sealed = key.seal(State::default(), &binding).unwrap();
        for place in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(key.open(&changed, &binding).is_err(), "byte {place}");
        }
        assert!(key.open("", &binding).is_err() && key.open(".", &binding).is_err());
    }

    #[test]
    fn expired_request_state_is_rejected() {
        let key = StateKey::random();
        let binding = binding(None, &Value::Null);
        let bytes = serde_json::to_vec(&State::default()).unwrap();
        let mac = mac(&key.keys[0], &bytes, &binding).finalize().into_bytes();
        let sealed = format!("{}.{}", URL_SAFE_NO_PAD.encode(bytes), URL_SAFE_NO_PAD.encode(mac));
        assert!(key.open(&sealed, &binding).unwrap_err().message.contains("expired"));
    }
}
