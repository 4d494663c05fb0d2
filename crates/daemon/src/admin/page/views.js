// The views. Each view is a function that shows the newest state.

const SERVER_STATES = {
  up: ["up", "good"],
  check_failing: ["failing checks", "bad"],
  ejected: ["ejected", "bad"],
  retry_after: ["paused (Retry-After)", "warn"],
  draining: ["draining", "warn"],
  disabled: ["disabled", "warn"],
};

const ACTIONS = {
  drain: ["Drain", "New clients go to other servers. Clients with a sticky cookie stay. Requests in flight complete."],
  disable: ["Disable", "All new requests go to other servers. Requests in flight complete."],
  enable: ["Enable", "The server gets requests again, if it is healthy."],
};

function stateOf(server) {
  const [text, kind] = lookUp(SERVER_STATES, server.state) ?? [server.state, ""];
  const since = server.changed_at ? `${formatAgo(server.changed_at)}` : "";
  const note = [server.reason, since].filter(Boolean).join(", ");
  if (server.state === "up" && server.slow_start_percent !== undefined) {
    return { text: `slow start, ${server.slow_start_percent} %`, kind: "warn", note };
  }
  return { text, kind, note };
}

const failuresText = (failures) =>
  Object.entries(failures).map(([name, count]) => `${name}: ${formatNumber(count)}`).join(", ");

function serverTable(upstream) {
  const number = (label, text) => ({ label, text, isNumber: true });
  const rate = (label, key, format) => number(label, (server) => format(server.rates[key]));
  return new Table(`Servers of ${upstream}`, [
    { label: "Server", fill: fillServer },
    { label: "State", isWide: true, fill: (cell, server) => fillState(cell, stateOf(server)) },
    number("In flight", (server) => formatNumber(server.requests_in_flight)),
    rate("Requests/s", "requests", formatNumber),
    rate("Errors/s", "errors", formatNumber),
    rate("p50", "p50", formatMicroseconds),
    rate("p99", "p99", formatMicroseconds),
    number("No response", (server) => formatNumber(sum(Object.values(server.failures)))),
    { label: "Actions", isAction: true, fill: (cell, server) => fillActions(cell, upstream, server) },
  ], (server) => server.address, true);
}

function fillServer(cell, server) {
  if (!cell.address) {
    cell.address = element("span", { class: "mono address" });
    cell.note = element("span", { class: "note" });
    cell.append(element("div", {}, cell.address, cell.note));
  }
  setText(cell.address, server.address);
  const notes = [server.weight !== 1 && `weight ${server.weight}`, server.backup && "backup"];
  setText(cell.note, notes.filter(Boolean).join(", "));
}

function fillActions(cell, upstream, server) {
  if (!cell.buttons) {
    cell.buttons = Object.entries(ACTIONS).map(([action, [label]]) => {
      const button = element("button", { type: "button", "aria-label": `${label} ${server.address}` }, label);
      button.addEventListener("click", () => changeServer(upstream, server.address, action));
      return [action, button];
    });
    cell.append(element("div", { class: "buttons" }, ...cell.buttons.map(([, button]) => button)));
  }
  const isOut = server.state === "draining" || server.state === "disabled";
  const focused = document.activeElement;
  for (const [action, button] of cell.buttons) {
    button.hidden = action === "enable" ? !isOut : server.state === (action === "drain" ? "draining" : "disabled");
  }
  // A hidden button loses the focus. Another button of the server gets it.
  if (cell.contains(focused) && focused.hidden) cell.buttons.find(([, button]) => !button.hidden)[1].focus();
}

// Returns the number of requests that got no server because the queue was full, or because they waited too long.
const refusalsOf = ({ failures }) => lookUp(failures, "connection_limit_reached") ?? 0;

function showUpstreams(status) {
  syncChildren(byId("upstream-list"), status.upstreams, ({ name }) => name, ({ name }) => {
    const [facts, table] = [element("dl", { class: "facts" }), serverTable(name)];
    const update = (upstream) => {
      const { rates } = upstream;
      fillFacts(facts, [
        ["Queued requests", `${formatNumber(upstream.queued_requests)} of at most ${formatNumber(upstream.queued_requests_max)}`],
        ["Retries", `${formatNumber(upstream.retries_total)} (${formatNumber(rates.retries)}/s)`],
        ["p50", formatMicroseconds(rates.p50)],
        ["p99", formatMicroseconds(rates.p99)],
        ["Connections", `${formatNumber(upstream.open_connections)} open, ${formatNumber(upstream.idle_connections)} idle`],
        ["Requests without a server", failuresText(upstream.failures) || "0"],
      ]);
      table.update(upstream.servers);
    };
    return { node: element("div", {}, element("h3", {}, name), facts, table.node), update };
  });
  showEmpty("upstream-list", status.upstreams.length === 0, "The config has no upstreams.");
}

const routeTable = new Table("Routes in the order of the config", [
  { label: "Route", isCode: true, text: (route) => (route.name ? `${route.name}: ${route.requests}` : route.requests) },
  { label: "Action", text: (route) => route.action },
  { label: "Policies", text: (route) => (route.policies ?? []).join(", ") || "none" },
  { label: "Requests/s", isNumber: true, text: (route) => formatNumber(route.rates.requests) },
  { label: "Errors/s", isNumber: true, text: (route) => formatNumber(route.rates.errors) },
  { label: "p50", isNumber: true, text: (route) => formatMicroseconds(route.rates.p50) },
  { label: "p99", isNumber: true, text: (route) => formatMicroseconds(route.rates.p99) },
  { label: "Total", isNumber: true, text: (route) => formatNumber(route.requests_total) },
  { label: "Refused", isNumber: true, text: (route) => formatNumber(route.refused_total) },
], (route) => route.requests);

const streamTable = new Table("Listeners that forward TCP connections", [
  { label: "Listener", isCode: true, text: (stream) => stream.listener },
  { label: "Upstream", text: (stream) => stream.upstream },
  { label: "Open streams", isNumber: true, text: (stream) => formatNumber(stream.open_streams) },
], (stream) => stream.listener);

const routeFacts = element("dl", { class: "facts" });

function showRoutes(status) {
  placeOnce("route-list", routeFacts, routeTable.node, streamTable.node);
  fillFacts(routeFacts, [
    ["Listeners", status.listeners.join(", ") || "none"],
    ["Requests without a route", formatNumber(status.unrouted_requests_total)],
  ]);
  routeTable.update(status.routes);
  streamTable.update(status.streams);
}

const MEMBER_STATES = { connected: "good", connecting: "warn", failed: "bad" };

const milliseconds = (value) => formatMicroseconds(value === undefined ? null : value * 1000);

const callColumns = (calls) => [
  { label: "Calls", isNumber: true, text: (item) => formatNumber(calls(item).total) },
  { label: "Errors", isNumber: true, text: (item) => formatNumber(calls(item).errors) },
  { label: "Mean", isNumber: true, text: (item) => milliseconds(calls(item).mean_ms) },
  { label: "p50", isNumber: true, text: (item) => milliseconds(calls(item).p50_ms) },
  { label: "p99", isNumber: true, text: (item) => milliseconds(calls(item).p99_ms) },
];

function memberTable() {
  const count = (label, key) => ({ label, isNumber: true, text: (server) => formatNumber(server[key] ?? null) });
  return new Table("Members", [
    { label: "Member", text: (server) => server.name },
    {
      label: "State",
      isWide: true,
      fill: (cell, server) => fillState(cell, {
        text: server.state, kind: lookUp(MEMBER_STATES, server.state) ?? "", note: server.last_error,
      }),
    },
    { label: "Revision", text: (server) => server.revision ?? UNKNOWN },
    count("Tools", "tools"), count("Resources", "resources"), count("Prompts", "prompts"),
    ...callColumns((server) => server.calls),
  ], (server) => server.name);
}

const toolTable = () => new Table("Called tools", [
  { label: "Tool", isCode: true, text: (tool) => tool.tool },
  { label: "Member", text: (tool) => tool.member },
  ...callColumns((tool) => tool),
], (tool) => `${tool.member} ${tool.tool}`);

const withheldTable = () => new Table("Withheld names", [
  { label: "Name", isCode: true, text: (item) => item.name },
  { label: "Member", text: (item) => item.member },
  { label: "Reason", isWide: true, text: (item) => item.reason },
], (item) => `${item.member} ${item.name}`);

function showMcp(status) {
  const endpoints = status.mcp_endpoints ?? [];
  syncChildren(byId("mcp-list"), endpoints, ({ name }) => name, ({ name }) => {
    const facts = element("dl", { class: "facts" });
    const [members, tools, withheld] = [memberTable(), toolTable(), withheldTable()];
    const update = ({ sessions, subscriptions, servers }) => {
      const ofMembers = (key) => servers.flatMap((server) =>
        (server[key] ?? []).map((item) => ({ ...item, member: server.name })));
      fillFacts(facts, [["Sessions", formatNumber(sessions)], ["Subscriptions", formatNumber(subscriptions)]]);
      members.update(servers);
      tools.update(ofMembers("tool_calls"));
      withheld.update(ofMembers("withheld"));
    };
    return { node: element("div", {}, element("h3", {}, name), facts, members.node, tools.node, withheld.node), update };
  });
  showEmpty("mcp-list", endpoints.length === 0, "The config has no MCP endpoints.");
}

// Returns the badge for the expiry of a certificate.
function expiryOf(text) {
  if (!text) return { text: "missing", kind: "bad" };
  const days = (Date.parse(text) - Date.now()) / 86_400_000;
  const kind = days < 0 ? "bad" : days < 14 ? "warn" : "good";
  return { text: days < 0 ? "expired" : `${Math.floor(days)} days left`, kind, note: formatDate(text) };
}

function progressOf({ consecutive_failures: failures, last_error: error }) {
  return failures > 0 ? { text: `${failures} failures`, kind: "bad", note: error } : { text: "no failures", kind: "good", note: error };
}

const certificateTable = new Table("Certificates of listeners", [
  { label: "Listener", isCode: true, text: (certificate) => certificate.listener },
  { label: "Names", text: (certificate) => certificate.names.join(", ") },
  { label: "File", isCode: true, isWide: true, text: (certificate) => certificate.file },
  { label: "Expiry", isWide: true, fill: (cell, certificate) => fillState(cell, expiryOf(certificate.not_after)) },
], (certificate) => `${certificate.listener} ${certificate.file}`);

const orderTable = new Table("Certificates from the ACME server", [
  { label: "Names", text: (order) => order.names.join(", ") },
  { label: "Expiry", isWide: true, fill: (cell, order) => fillState(cell, expiryOf(order.not_after)) },
  { label: "Next order", text: (order) => formatAgo(order.next_at) },
  { label: "Orders", isWide: true, fill: (cell, order) => fillState(cell, progressOf(order)) },
], (order) => order.names.join(" "));

const stapleTable = new Table("OCSP responses", [
  { label: "File", isCode: true, isWide: true, text: (staple) => staple.file },
  { label: "Expiry", text: (staple) => (staple.next_update ? formatDate(staple.next_update) : UNKNOWN) },
  { label: "Requests", isWide: true, fill: (cell, staple) => fillState(cell, progressOf(staple)) },
], (staple) => staple.file);

function showTls(status) {
  placeOnce("tls-list", certificateTable.node, orderTable.node, stapleTable.node);
  const lists = [status.certificates ?? [], status.orders ?? [], status.staples ?? []];
  [certificateTable, orderTable, stapleTable].forEach((table, place) => table.update(lists[place]));
  showEmpty("tls-list", lists.every((list) => list.length === 0), "No listener has TLS.");
}

const findingTable = new Table("Findings", [
  { label: "Severity", fill: (cell, finding) => fillState(cell, { text: finding.severity, kind: finding.severity === "error" ? "bad" : "warn" }) },
  { label: "Line", isNumber: true, text: (finding) => (finding.line ? String(finding.line) : UNKNOWN) },
  { label: "File", text: (finding) => finding.file ?? UNKNOWN },
  { label: "Message", isWide: true, fill: (cell, finding) => fillPair(cell, finding.message, (finding.hints ?? []).join("; ")) },
], (finding) => `${finding.line} ${finding.message}`);

const configParts = {
  none: element("p", { class: "muted" }, "The config has no findings."),
  effective: element("pre", { tabindex: "0", class: "text", role: "region", "aria-labelledby": "effective-title" }),
  file: element("pre", { tabindex: "0", role: "region", "aria-labelledby": "file-title" }),
  fileTitle: element("h3", { id: "file-title" }),
};

function showConfig(config) {
  const { none, effective, file, fileTitle } = configParts;
  placeOnce("config-list", findingTable.node, none, element("h3", { id: "effective-title" }, "Settings in effect"), effective, fileTitle, file);
  findingTable.update(config.findings);
  none.hidden = config.findings.length > 0;
  setText(effective, config.effective);
  setText(fileTitle, `File ${config.file ?? ""}, without secrets`);
  const included = (config.included ?? []).map((other) => `\n# ${other.file}\n${other.text}`);
  setText(file, [config.text ?? "", ...included].join("\n"));
  fileTitle.hidden = file.hidden = config.text === undefined;
}

const CHANGE_KINDS = {
  admin_state: ["server state set", ""],
  reload: ["reload", "good"],
  reload_failed: ["reload failed", "bad"],
  server_state: ["server state", "warn"],
};

const changeTable = new Table("The newest change is first", [
  { label: "Time", fill: (cell, change) => fillTime(cell, change.at) },
  {
    label: "Kind",
    fill: (cell, { kind }) => {
      const [text, badge] = lookUp(CHANGE_KINDS, kind) ?? [kind, ""];
      fillState(cell, { text, kind: badge });
    },
  },
  { label: "Change", isWide: true, fill: fillChangeText },
], (change) => `${change.at} ${change.text}`);

function fillTime(cell, text) {
  fillPair(cell, formatDate(text), formatAgo(text));
}

function fillPair(cell, text, note) {
  if (!cell.note) {
    cell.main = element("span");
    cell.note = element("span", { class: "note" });
    cell.append(element("div", {}, cell.main, cell.note));
  }
  setText(cell.main, text);
  setText(cell.note, note);
}

function fillChangeText(cell, change) {
  cell.main ??= cell.appendChild(element("span", { class: "text" }));
  setText(cell.main, change.text);
}

function showChanges(status) {
  placeOnce("change-list", changeTable.node);
  changeTable.update(status.changes);
  showEmpty("change-list", status.changes.length === 0, "Nothing has changed since the start.");
}

// Returns the problems that an operator must know.
function problemsOf(status) {
  const servers = status.upstreams.flatMap((upstream) => upstream.servers
    .map((server) => ({ ...stateOf(server), name: `${upstream.name}, server ${server.address}` }))
    .filter(({ kind }) => kind !== "good"));
  const queues = status.upstreams
    .filter(({ refused }) => refused > 0)
    .map(({ name, refused, queued_requests: queued }) => ({
      name: `${name}, queue`,
      text: "full",
      kind: "bad",
      note: `waiting: ${formatNumber(queued)}; without a server in the last 10 s: ${formatNumber(refused)}`,
    }));
  const members = (status.mcp_endpoints ?? []).flatMap((endpoint) => endpoint.servers
    .filter(({ state }) => state !== "connected")
    .map(({ name, state, last_error: note }) => ({ text: state, kind: lookUp(MEMBER_STATES, state) ?? "", note, name: `${endpoint.name}, MCP member ${name}` })));
  const certificates = (status.certificates ?? [])
    .map((certificate) => ({ ...expiryOf(certificate.not_after), name: `Certificate ${certificate.file}` }))
    .filter(({ kind }) => kind !== "good");
  const orders = (status.orders ?? []).filter((order) => order.consecutive_failures > 0)
    .map((order) => ({ ...progressOf(order), name: `ACME order for ${order.names.join(", ")}` }));
  const reload = status.changes.find(({ kind }) => kind.startsWith("reload"));
  const reloads = reload?.kind === "reload_failed"
    ? [{ name: "The last reload", text: "failed", kind: "bad", note: `The previous config stays in effect. See Changes.` }] : [];
  const draining = status.draining ? [{ name: "This gateway", text: "shuts down", kind: "warn" }] : [];
  return [...draining, ...reloads, ...fleetProblems(status), ...servers, ...queues, ...members, ...certificates, ...orders];
}

function showProblems(status) {
  const problems = problemsOf(status);
  syncChildren(byId("problems"), problems, ({ name }) => name, () => {
    const [name, badge, note] = [element("strong"), element("span"), element("span", { class: "muted" })];
    const node = element("li", {}, name, " ", badge, " ", note);
    const update = (problem) => {
      setText(name, problem.name);
      setText(badge, problem.text);
      setClass(badge, `badge ${problem.kind}`);
      setClass(node, problem.kind);
      setText(note, problem.note ?? "");
    };
    return { node, update };
  });
  byId("no-problems").hidden = problems.length > 0;
  setText(document.querySelector("title"), problems.length > 0 ? `(${problems.length}) Thruway` : "Thruway");
}

// Adds nodes to a list, unless the list already contains them.
function placeOnce(id, ...nodes) {
  const list = byId(id);
  if (!list.contains(nodes[0])) list.append(...nodes);
}

function showEmpty(id, isEmpty, text) {
  const list = byId(id);
  list.emptyNote ??= list.insertAdjacentElement("afterend", element("p", { class: "muted" }, text));
  list.emptyNote.hidden = !isEmpty;
}

