// Connects to the event stream, and shows each update in the open view.

// Number of seconds that rates and latencies describe.
const RATE_SECONDS = 10;
const LIVE_SECONDS = 900;
const RANGE_TEXTS = { 900: "15 min", 7200: "2 h", 86400: "24 h" };
const COLUMNS = ["requests", "errors", "p50_us", "p99_us", "connections", "cpu_percent", "memory_bytes"];

const state = {
  // The last status documents with their times, the oldest first.
  statuses: [],
  // The last 15 minutes, one value per second.
  live: null,
  // The columns of a longer range, if one is selected.
  older: null,
  range: LIVE_SECONDS,
  view: "overview",
  lastReload: null,
};

const charts = CHARTS.map((chart) => new Chart(chart));
byId("charts").append(...charts.map(({ node }) => node));

// Adds rates to routes, upstreams and servers, from the difference to the state of some seconds ago.
function withRates(status, before, seconds) {
  const bounds = status.duration_bounds_us;
  const find = (list, key, value) => list?.find((item) => item[key] === value);
  for (const route of status.routes) {
    route.rates = rates(route, find(before?.routes, "requests", route.requests), seconds, bounds);
  }
  for (const upstream of status.upstreams) {
    const earlier = find(before?.upstreams, "name", upstream.name);
    upstream.rates = rates(upstream, earlier, seconds, bounds);
    upstream.refused = refusalsOf(upstream) - refusalsOf(earlier ?? upstream);
    for (const server of upstream.servers) {
      server.rates = rates(server, find(earlier?.servers, "address", server.address), seconds, bounds);
    }
  }
  return status;
}

function onStatus(status) {
  const now = performance.now() / 1000;
  while (state.statuses.length > 1 && state.statuses[1].at <= now - RATE_SECONDS) state.statuses.shift();
  const [oldest] = state.statuses;
  withRates(status, oldest?.status, oldest ? now - oldest.at : 0);
  state.statuses.push({ at: now, status });
  setText(byId("version"), status.version);
  setText(byId("uptime"), `up ${formatSeconds(status.uptime_seconds)}`);
  showProblems(status);
  show();
}

// Merges new samples into the last 15 minutes.
function onHistory(columns) {
  const end = columns.start + columns.requests.length;
  const start = end - LIVE_SECONDS;
  const merged = { start, step_seconds: 1 };
  for (const name of COLUMNS) {
    merged[name] = Array.from({ length: LIVE_SECONDS }, (_, place) =>
      valueAt(columns, name, start + place) ?? valueAt(state.live, name, start + place) ?? null);
  }
  state.live = merged;
  if (state.view === "overview") showCharts();
}

const valueAt = (columns, name, second) => columns?.[name][second - columns.start];

function showCharts() {
  const all = state.range === LIVE_SECONDS ? state.live : state.older;
  if (!all || !state.live) return;
  const columns = withoutUnknownStart(all);
  const seconds = columns.requests.length * columns.step_seconds;
  const rangeText = seconds === state.range ? RANGE_TEXTS[state.range] : formatSeconds(seconds);
  const current = Object.fromEntries(COLUMNS.map((name) => [name, state.live[name].at(-1)]));
  charts.forEach((chart) => chart.update(columns, current, rangeText));
}

// Removes the steps before the start of the process, so that the charts of a young process are readable. Keeps at
// least 60 steps.
function withoutUnknownStart(columns) {
  const { length } = columns.connections;
  const known = columns.connections.findIndex((value) => value !== null);
  const first = Math.max(0, Math.min(known < 0 ? length : known, length - 60));
  const rest = COLUMNS.map((name) => [name, columns[name].slice(first)]);
  return { ...Object.fromEntries(rest), start: columns.start + first * columns.step_seconds, step_seconds: columns.step_seconds };
}

// Reads a longer range from the service, in 360 steps.
async function loadRange() {
  const { range } = state;
  if (range === LIVE_SECONDS) return;
  const response = await fetch(`/history?seconds=${range}&step=${range / 360}`);
  const columns = await response.json();
  if (state.range === range) state.older = columns;
  showCharts();
}

async function loadConfig() {
  const response = await fetch("/config");
  showConfig(await response.json());
}

const VIEWS = {
  overview: () => showCharts(),
  upstreams: showUpstreams,
  routes: showRoutes,
  mcp: showMcp,
  fleet: showFleet,
  tls: showTls,
  config: (status) => {
    const reload = status.changes.find(({ kind }) => kind === "reload")?.at ?? "start";
    if (reload === state.lastReload) return;
    state.lastReload = reload;
    loadConfig().catch((error) => showMessage(`The config could not be loaded: ${error.message}`, true));
  },
  changes: showChanges,
};

function show() {
  const newest = state.statuses.at(-1);
  if (newest) VIEWS[state.view](newest.status);
}

function selectView() {
  const name = location.hash.slice(1);
  if (name === "main") return;
  const before = state.view;
  state.view = Object.hasOwn(VIEWS, name) ? name : "overview";
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== state.view;
  for (const link of document.querySelectorAll("#tabs a")) {
    if (link.hash === `#${state.view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  show();
  if (before !== state.view) {
    byId(`${state.view}-title`).focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function showMessage(text, isBad) {
  const message = byId("message");
  setText(message, text);
  setClass(message, isBad ? "notice bad" : "notice");
  message.hidden = false;
  announce(text);
  clearTimeout(message.timer);
  if (!isBad) message.timer = setTimeout(() => (message.hidden = true), 8000);
}

// Asks for confirmation. Resolves to `true` if the operator confirms.
function confirmed(title, text, label) {
  const dialog = byId("confirm");
  setText(byId("confirm-title"), title);
  setText(byId("confirm-text"), text);
  setText(byId("confirm-yes"), label);
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

async function changeServer(upstream, server, action) {
  const [label, effect] = ACTIONS[action];
  if (!(await confirmed(`${label} ${server}?`, effect, label))) return;
  const path = ["upstreams", upstream, "servers", server, action].map(encodeURIComponent).join("/");
  try {
    const response = await fetch(`/${path}`, { method: "POST" });
    if (!response.ok) throw new Error(await response.text());
    showMessage(`${label}: ${server} of ${upstream}`, false);
  } catch (error) {
    showMessage(`${label} failed: ${error.message}`, true);
  }
}

const THEMES = ["system", "light", "dark"];
const darkScheme = matchMedia("(prefers-color-scheme: dark)");

// The browser may forbid storage. Then the choice lasts until the page is closed.
function storedTheme() {
  try {
    return THEMES.find((theme) => theme === localStorage.getItem("theme")) ?? "system";
  } catch {
    return "system";
  }
}

function showTheme() {
  const theme = byId("theme").dataset.theme;
  const isDark = theme === "dark" || (theme === "system" && darkScheme.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  setText(byId("theme"), `Theme: ${theme}`);
}

function nextTheme() {
  const button = byId("theme");
  button.dataset.theme = THEMES[(THEMES.indexOf(button.dataset.theme) + 1) % THEMES.length];
  try {
    localStorage.setItem("theme", button.dataset.theme);
  } catch {
    // The choice lasts until the page is closed.
  }
  showTheme();
}

function showConnection(text, kind) {
  setText(byId("connection"), text);
  setClass(byId("connection"), `badge ${kind}`);
}

// Shows the buttons only to operators. The listener refuses the changes of other users in any case.
function onAccess({ role }) {
  document.documentElement.dataset.role = role;
  byId("read-only").hidden = role === "operator";
}

function connect() {
  const source = new EventSource("/events");
  source.addEventListener("open", () => showConnection("live", "good"));
  source.addEventListener("access", ({ data }) => onAccess(JSON.parse(data)));
  source.addEventListener("status", ({ data }) => onStatus(JSON.parse(data)));
  source.addEventListener("history", ({ data }) => onHistory(JSON.parse(data)));
  source.addEventListener("error", () => {
    showConnection("no connection", "bad");
    // After a refusal, such as 401 or 503, the browser does not connect again on its own. The pause is long enough
    // that invalid credentials do not exceed the limit of failed logins.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 10_000);
  });
}

byId("theme").dataset.theme = storedTheme();
byId("theme").addEventListener("click", nextTheme);
darkScheme.addEventListener("change", showTheme);
byId("range").addEventListener("change", ({ target }) => {
  state.range = Number(target.value);
  state.older = null;
  loadRange().catch((error) => showMessage(`The history could not be loaded: ${error.message}`, true));
  showCharts();
});
setInterval(() => loadRange().catch(() => {}), 60_000);
addEventListener("hashchange", selectView);
showTheme();
selectView();
connect();
