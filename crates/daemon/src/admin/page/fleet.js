// The view of the fleet: replicas, the shared store, shared limits and shared health.

const STORE_STATES = { connected: "good", connecting: "warn", disconnected: "bad" };

// Age of a heartbeat above which a replica needs attention. Replicas send one every 2 s.
const HEARTBEAT_AGE_MAX_MS = 6_000;

const LIMIT_KINDS = { rate_limit: "rate limit", quota: "quota", concurrency: "concurrency" };

const isLate = (replica) => replica.heartbeat_age_ms > HEARTBEAT_AGE_MAX_MS;

function replicaState(replica) {
  if (isLate(replica)) return { text: "no heartbeat", kind: "bad", note: `last state: ${replica.state}` };
  return { text: replica.state, kind: replica.state === "live" ? "good" : "warn", note: replica.holds_certificate_lock ? "orders certificates" : "" };
}

const countColumn = (label, key) => ({ label, isNumber: true, text: (item) => formatNumber(item[key]) });

const replicaTable = new Table("Replicas", [
  { label: "Name", isWide: true, fill: (cell, replica) => fillPair(cell, replica.name, replica.isOwn ? `${replica.id}, this replica` : replica.id) },
  { label: "State", isWide: true, fill: (cell, replica) => fillState(cell, replicaState(replica)) },
  { label: "Address", isCode: true, text: (replica) => replica.address ?? UNKNOWN },
  { label: "Heartbeat", isNumber: true, text: (replica) => (replica.isOwn ? "now" : `${formatSeconds(replica.heartbeat_age_ms / 1000)} ago`) },
  countColumn("Sessions", "sessions"),
  countColumn("Pending calls", "pending_calls"),
  countColumn("Tasks", "tasks"),
  { label: "Version", text: (replica) => replica.version },
  { label: "Started", fill: (cell, replica) => fillTime(cell, replica.started_at) },
], (replica) => replica.id);

const storeTable = new Table("Shared store", [
  { label: "State", isWide: true, fill: (cell, store) => fillState(cell, { text: store.state, kind: lookUp(STORE_STATES, store.state) ?? "", note: store.last_error && `last error: ${store.last_error}` }) },
  { label: "Kind", text: (store) => store.kind },
  { label: "Address", isCode: true, isWide: true, text: (store) => store.url },
  { label: "p50", isNumber: true, text: (store) => formatMicroseconds(store.latency_p50_us) },
  { label: "p99", isNumber: true, text: (store) => formatMicroseconds(store.latency_p99_us) },
  { label: "Round trips", isNumber: true, text: ({ operations_total: all }) => formatNumber(all.succeeded + all.rejected) },
  { label: "Failures", isNumber: true, text: (store) => formatNumber(storeFailures(store)) },
  { label: "Connections", isNumber: true, text: (store) => `${formatNumber(store.connections)} of ${formatNumber(store.connections_max)}` },
  { label: "Waiting", isNumber: true, text: (store) => formatNumber(store.waiting_operations) },
], (store) => store.url);

const storeFailures = ({ operations_total: all }) => all.rejected + all.timed_out + all.not_sent;

const limitTable = new Table("Shared limits, as this replica applies them", [
  { label: "Policy", text: (limit) => limit.policy },
  { label: "Kind", text: ({ kind }) => lookUp(LIMIT_KINDS, kind) ?? kind },
  { label: "Mode", isWide: true, fill: (cell, limit) => fillState(cell, limit.isShared ? { text: "shared", kind: "good" } : { text: "without the store", kind: "bad", note: `on_store_failure: ${limit.on_store_failure}` }) },
  countColumn("Leased", "leased"),
  countColumn("Admitted", "admitted_total"),
  countColumn("Refused", "refused_total"),
  countColumn("Without the store", "without_store_total"),
], (limit) => limit.policy);

const fleetFacts = element("dl", { class: "facts" });

function factsOf({ replicas, forwarded, received, missing_owners: missing, limits, health }) {
  const holder = replicas.find((replica) => replica.holds_certificate_lock);
  const facts = [
    ["Replicas", formatNumber(replicas.length)],
    ["Requests forwarded to owners", formatNumber(forwarded)],
    ["Requests received as owner", formatNumber(received)],
    ["Requests without an owner", formatNumber(missing)],
    ["Orders certificates now", holder?.name ?? "none"],
  ];
  if (health) facts.push(["Health checks skipped", formatNumber(health.checks_skipped_total)]);
  if (limits) facts.push(["Round trips for limits", `${formatNumber(limits.round_trips_total)} (${formatNumber(limits.failures_total)} failed operations)`]);
  return facts;
}

function showFleet(status) {
  placeOnce("fleet-list", fleetFacts, replicaTable.node, storeTable.node, limitTable.node);
  const { fleet, shared_store: store } = status;
  fleetFacts.hidden = !fleet;
  if (fleet) fillFacts(fleetFacts, factsOf(fleet));
  replicaTable.update((fleet?.replicas ?? []).map((replica) => ({ ...replica, isOwn: replica.id === fleet.replica })));
  storeTable.update(store ? [store] : []);
  const { policies = [], store_available: isShared } = fleet?.limits ?? {};
  limitTable.update(policies.map((limit) => ({ ...limit, isShared })));
  showEmpty("fleet-list", !fleet, "This gateway belongs to no fleet. To share state with other gateways, set [shared] in the config.");
}

// Returns the problems of the fleet.
function fleetProblems({ fleet, shared_store: store }) {
  const stores = store && store.state !== "connected"
    ? [{ name: "Shared store", text: store.state, kind: store.state === "connecting" ? "warn" : "bad", note: store.last_error }] : [];
  const replicas = (fleet?.replicas ?? []).filter((replica) => isLate(replica) || replica.state !== "live")
    .filter(({ id }) => id !== fleet.replica)
    .map((replica) => ({ ...replicaState(replica), name: `Replica ${replica.name} (${replica.id})` }));
  const limits = fleet?.limits?.store_available === false && fleet.limits.policies.length > 0
    ? [{ name: "Shared limits", text: "without the store", kind: "bad", note: "each policy applies its on_store_failure" }] : [];
  return [...stores, ...replicas, ...limits];
}

