// Opens the dashboard in headless Chromium and checks every view.
//
// usage: node check.mjs NODE_MODULES ADMIN_URL HEALTHY_SERVER DIRECTORY GUIDE_DIRECTORY
//
// ADMIN_URL is the admin listener of a gateway with load, one failing server, a slow route with a full queue, an MCP
// endpoint, a certificate that expires soon, and another gateway in its fleet. The upstream `backend` contains HEALTHY_SERVER. DIRECTORY gets the
// screenshots of all views. GUIDE_DIRECTORY gets the screenshots of the guide.

import { createRequire } from "node:module";
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import assert from "node:assert/strict";

const [modules, admin, healthy, directory, guideDirectory] = process.argv.slice(2);
const require = createRequire(join(modules, "none.js"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const VIEWS = ["overview", "upstreams", "routes", "mcp", "fleet", "tls", "config", "changes"];
const SIZES = [
  { name: "desktop", width: 1280, height: 900 },
  { name: "tablet", width: 912, height: 1100 },
  { name: "phone", width: 390, height: 844, isMobile: true, hasTouch: true },
];
const LIMIT_MS = 30_000;

// Opens a page, and collects everything that must not happen: console messages, errors, failed requests, requests to
// other hosts, and dialogs.
async function open(browser, url, size, scheme) {
  const page = await browser.newPage();
  page.setDefaultTimeout(LIMIT_MS);
  page.faults = [];
  const note = (text) => page.faults.push(text);
  page.on("console", (message) => note(`console: ${message.text()}`));
  page.on("pageerror", (error) => note(`error: ${error.message}`));
  page.on("requestfailed", (request) => note(`failed: ${request.url()} ${request.failure()?.errorText}`));
  page.on("response", (response) => response.status() >= 400 && note(`status ${response.status()}: ${response.url()}`));
  page.on("request", (request) => {
    const isOwn = request.url().startsWith(`${url}/`) || request.url().startsWith("data:");
    if (!isOwn) note(`other host: ${request.url()}`);
  });
  page.on("dialog", (dialog) => {
    note(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  await page.setViewport(size);
  await page.emulateMediaFeatures([
    { name: "prefers-color-scheme", value: scheme },
    { name: "prefers-reduced-motion", value: "reduce" },
  ]);
  await page.goto(`${url}/`);
  await page.waitForFunction(() => document.getElementById("connection").textContent === "live");
  return page;
}

async function showView(page, view) {
  await page.click(`#tabs a[href="#${view}"]`);
  await page.waitForFunction((name) => !document.getElementById(name).hidden, {}, view);
}

const textOf = (page, selector) => page.$eval(selector, (node) => node.innerText);

const waitForText = (page, selector, pattern) =>
  page.waitForFunction(
    (where, source) => new RegExp(source, "i").test(document.querySelector(where)?.innerText ?? ""),
    {},
    selector,
    pattern.source,
  );

// Each view must show these texts.
const EXPECTED = {
  overview: [/backend, server .*(ejected|failing checks)/, /reports, queue.*full/, /certificate .*days left/, /requests per second/, /latency/, /connections/, /cpu/, /memory/],
  upstreams: [/backend/, /of at most 4/, /up/, /(ejected|failing checks)/, /(last failure|health checks fail)/],
  routes: [/\/dev/, /forwarded to backend/, /\/download/],
  mcp: [/dev/, /connected/, /echo/, /p99/, /hidden by the filter/, /sessions/],
  fleet: [/gateway-1/, /gateway-2/, /this replica/, /live/, /connected/, /redis:\/\//, /rate limit/, /quota/, /shared/],
  tls: [/days left/, /localhost/],
  config: [/\[upstreams.backend\]/, /listens on/, /nothing uses the upstream/],
  changes: [/config reloaded/, /server .* is (ejected|check_failing)/],
};

async function checkLayout(page, place) {
  const wide = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const isBeyond = (node) =>
      node.getBoundingClientRect().right > width + 1 && !node.closest("pre, .skip, thead, .unseen, legend");
    return [...document.querySelectorAll("body *")].filter(isBeyond).map((node) => `${node.tagName}.${node.className}`);
  });
  assert.deepEqual(wide, [], `${place}: elements beyond the right edge`);
}

async function checkAccess(page, place) {
  // The policy of the page forbids scripts, but the debugger may evaluate them.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const texts = serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join("; ")}`);
  assert.deepEqual(texts, [], `${place}: axe`);
  return violations.length;
}

async function checkViews(browser, size, scheme) {
  const page = await open(browser, admin, size, scheme);
  for (const view of VIEWS) {
    const place = `${view}-${size.name}-${scheme}`;
    await showView(page, view);
    for (const pattern of EXPECTED[view]) {
      await waitForText(page, `#${view}`, pattern).catch(async () => {
        assert.match(await textOf(page, `#${view}`), pattern, place);
      });
    }
    await checkLayout(page, place);
    const minor = await checkAccess(page, place);
    await page.screenshot({ path: join(directory, `${place}.png`), fullPage: true });
    console.log(`${place}: no fault, ${minor} minor findings of axe`);
  }
  assert.deepEqual(page.faults, [], size.name);
  await page.close();
}

// The charts must show the load, and change without a reload of the page.
async function checkLiveData(browser) {
  const page = await open(browser, admin, SIZES[0], "light");
  const label = () => page.$eval("#charts .plot", (plot) => plot.getAttribute("aria-label"));
  await page.waitForFunction(() => /now [1-9]/.test(document.querySelector("#charts .plot").getAttribute("aria-label") ?? ""));
  const path = () => page.$eval("#charts .line", (line) => line.getAttribute("d"));
  const before = await path();
  await page.waitForFunction((old) => document.querySelector("#charts .line").getAttribute("d") !== old, {}, before);
  console.log(`live data: ${await label()}`);
  await page.click('#range input[value="7200"]');
  // The process is young, so the chart shows 60 steps of 20 s.
  await page.waitForFunction(() => /last 20 min/.test(document.querySelector("#charts .plot").getAttribute("aria-label")));
  assert.deepEqual(page.faults, []);
  await page.close();
}

// Serves the documents of the gateway with other names, so that screenshots do not show the addresses and paths of
// this machine.
async function renamingServer() {
  const { upstreams, fleet, shared_store: store } = await (await fetch(`${admin}/status`)).json();
  const failing = upstreams.find(({ name }) => name === "backend").servers.find(({ address }) => address !== healthy);
  const names = [[healthy, "10.0.0.11:8080"], [failing.address, "10.0.0.12:8080"], [directory, "/etc/thruway"]];
  names.push([store.url, "redis://valkey.internal:6379"]);
  fleet.replicas.forEach(({ address }, place) => names.push([address, `10.0.0.${place + 1}:9300`]));
  const renamed = (text) => names.reduce((result, [name, other]) => result.replaceAll(name, other), text);
  const server = createServer(async (request, response) => {
    const stop = new AbortController();
    response.on("close", () => stop.abort());
    const answer = await fetch(`${admin}${request.url}`, { signal: stop.signal });
    for (const name of ["content-type", "content-security-policy"]) {
      if (answer.headers.has(name)) response.setHeader(name, answer.headers.get(name));
    }
    let unsent = "";
    const decoder = new TextDecoder();
    try {
      for await (const chunk of answer.body) {
        unsent += decoder.decode(chunk, { stream: true });
        const end = unsent.lastIndexOf("\n\n") + 1;
        response.write(renamed(unsent.slice(0, end)));
        unsent = unsent.slice(end);
      }
      response.end(renamed(unsent));
    } catch {
      // The page has closed the stream.
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

// Writes the screenshots of the guide: few views, without the empty part below their content.
async function writeGuide(browser) {
  const server = await renamingServer();
  const url = `http://127.0.0.1:${server.address().port}`;
  const page = await open(browser, url, { width: 1280, height: 300 }, "light");
  // The charts of a young process are partly empty.
  const isFilled = () => document.getElementById("uptime").textContent.includes("min");
  await page.waitForFunction(isFilled, { timeout: 2 * LIMIT_MS });
  for (const view of ["overview", "upstreams", "routes", "mcp", "fleet", "tls"]) {
    await showView(page, view);
    for (const pattern of EXPECTED[view]) await waitForText(page, `#${view}`, pattern);
    await page.screenshot({ path: join(guideDirectory, `dashboard-${view}.png`), fullPage: true });
  }
  assert.deepEqual(page.faults, []);
  await page.close();
  server.closeAllConnections();
  server.close();
  console.log("guide: screenshots are written");
}

// Uses only the keyboard to reach a view, to change the theme, and to read a chart.
async function checkKeyboard(browser) {
  const page = await open(browser, admin, SIZES[0], "light");
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
  const order = [];
  for (let presses = 0; presses < 6; presses += 1) {
    await page.keyboard.press("Tab");
    order.push(await focused());
  }
  assert.deepEqual(order, ["Skip to the content", "theme", "Overview", "Upstreams", "Routes", "MCP"]);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement.id === "mcp-title");
  await page.focus("#theme");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await showView(page, "overview");
  await page.focus("#charts .plot");
  const spoken = () => page.$eval("#announcement", (node) => node.textContent);
  await page.keyboard.press("ArrowLeft");
  const newest = await spoken();
  assert.match(newest, /^\d\d:\d\d:\d\d: [\d,]+$/, "the readout is spoken");
  await page.keyboard.press("ArrowLeft");
  assert.ok((await spoken()) < newest, "the cursor moves to the left");
  assert.match(await textOf(page, "#charts .axis"), new RegExp(await spoken()), "the readout is visible");
  await page.keyboard.press("Escape");
  assert.equal(await page.$eval("#charts .cursor", (line) => line.getAttribute("visibility")), "hidden");
  assert.deepEqual(page.faults, []);
  await page.close();
  console.log("keyboard: views, theme, focus and chart readout work");
}

// A user with the role `read` sees no buttons.
async function checkReadRole(browser) {
  const server = await fakeServer({ access: { role: "read" } });
  const page = await open(browser, `http://127.0.0.1:${server.address().port}`, SIZES[0], "light");
  await showView(page, "upstreams");
  await waitForText(page, "#upstreams", /backend/);
  const visible = () => page.$$eval("#upstreams button, #upstreams .action", (all) => all.filter((node) => node.checkVisibility()).length);
  assert.equal(await visible(), 0, "a reader sees no buttons");
  await waitForText(page, "header", /read only/);
  server.send("access", { role: "operator" });
  await page.waitForFunction(() => document.querySelector("#upstreams button").checkVisibility());
  assert.equal(await page.$eval("#read-only", (node) => node.hidden), true);
  assert.deepEqual(page.faults, []);
  await page.close();
  server.closeAllConnections();
  server.close();
  console.log("roles: only operators see buttons");
}

const stateOf = async (server) => {
  const status = await (await fetch(`${admin}/status`)).json();
  return status.upstreams.flatMap(({ servers }) => servers).find(({ address }) => address === server).state;
};

async function clickAction(page, label, answer) {
  await page.click(`button[aria-label="${label} ${healthy}"]`);
  await page.waitForSelector("#confirm[open]");
  if (label === "Drain") await page.screenshot({ path: join(directory, "confirmation.png") });
  await page.click(answer === "yes" ? "#confirm-yes" : '#confirm button[value="cancel"]');
  await page.waitForFunction(() => !document.getElementById("confirm").open);
}

async function checkActions(browser) {
  const page = await open(browser, admin, SIZES[0], "light");
  await showView(page, "upstreams");
  await page.waitForSelector(`button[aria-label="Drain ${healthy}"]`);
  await clickAction(page, "Drain", "cancel");
  assert.equal(await stateOf(healthy), "up", "a canceled action changes nothing");
  const row = `tr:has(button[aria-label="Drain ${healthy}"])`;
  for (const [label, state, shown] of [["Drain", "draining", /draining/], ["Enable", "up", /\bup\b/], ["Disable", "disabled", /disabled/], ["Enable", "up", /\bup\b/]]) {
    await clickAction(page, label, "yes");
    await waitForText(page, row, shown);
    assert.equal(await stateOf(healthy), state);
    const focus = await page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? "");
    assert.ok(focus.endsWith(healthy), `after ${label}, a button of the server has the focus: ${focus}`);
  }
  await showView(page, "changes");
  await waitForText(page, "#changes", new RegExp(`${healthy.replaceAll(".", "\\.")}: drain`));
  assert.deepEqual(page.faults, []);
  await page.close();
  console.log("actions: drain, disable and enable work after confirmation");
}

const ATTACKS = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "\"><svg onload=alert(1)>",
  "' onmouseover='alert(1)' autofocus onfocus='alert(1)",
  "javascript:alert(1)",
  "</title></style></script><script>alert(1)</script>",
  "{{constructor.constructor('alert(1)')()}}",
  "<iframe srcdoc='<script>parent.alert(1)</script>'></iframe>",
  "\u202e\u0000<a href=javascript:alert(1)>x</a>",
  "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
  "__proto__",
  "constructor",
];

// Keys whose values the service itself chooses.
const OWN_KEYS = new Set(["changed_at", "started_at", "at", "not_after", "next_at", "next_update", "version"]);

// Returns a copy of a document with an attack in place of each text, and as each key of `failures`.
function poisoned(value, attack, key) {
  if (typeof value === "string") return OWN_KEYS.has(key) ? value : attack;
  if (Array.isArray(value)) return value.map((item) => poisoned(item, attack, key));
  if (value === null || typeof value !== "object") return value;
  const copy = Object.fromEntries(Object.entries(value).map(([name, item]) => [name, poisoned(item, attack, name)]));
  if ("failures" in copy) copy.failures = { [attack]: 1 };
  return copy;
}

// Serves the page and the documents of the gateway. `change` edits the texts of the documents.
async function fakeServer({ access = { role: "operator" }, change = (value) => value }) {
  const page = await fetch(`${admin}/`);
  const html = await page.text();
  const [status, history, config] = await Promise.all(
    ["status", "history", "config"].map(async (name) => (await fetch(`${admin}/${name}`)).json()),
  );
  const order = { names: ["a.example"], not_after: "2030-01-01T00:00:00Z", next_at: "2029-01-01T00:00:00Z", consecutive_failures: 1, last_error: "refused" };
  status.orders = [order];
  const event = (name, value) => `event: ${name}\ndata: ${JSON.stringify(value)}\n\n`;
  const streams = [];
  const server = createServer((request, response) => {
    response.setHeader("Content-Security-Policy", page.headers.get("content-security-policy"));
    if (request.url === "/events") {
      response.setHeader("Content-Type", "text/event-stream");
      response.write(event("access", access) + event("status", change(status)) + event("history", history));
      streams.push(response);
    } else if (request.url === "/config") {
      response.setHeader("Content-Type", "application/json");
      response.end(JSON.stringify(change(config)));
    } else {
      response.setHeader("Content-Type", "text/html; charset=utf-8");
      response.end(html);
    }
  });
  server.send = (name, value) => streams.forEach((stream) => stream.write(event(name, value)));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

async function checkEscaping(browser) {
  for (const attack of ATTACKS) {
    const server = await fakeServer({ change: (value) => poisoned(value, attack) });
    const page = await open(browser, `http://127.0.0.1:${server.address().port}`, SIZES[0], "light");
    const elements = () => page.$$eval("script, iframe, img, math, a[href^='javascript'], [onerror], [onload], [onfocus]", (all) => all.length);
    for (const view of VIEWS) {
      await showView(page, view);
      // Control characters are not visible, so only the visible part must be there.
      const visible = attack.replaceAll(/[\u0000\u202e]/g, "");
      const isShown = (name, text) => document.getElementById(name).textContent.includes(text);
      await page.waitForFunction(isShown, {}, view, visible).catch(() => assert.fail(`${view} does not show ${attack}`));
      assert.equal(await elements(), 1, `${view}: ${attack}`);
      await page.evaluate(() => document.querySelectorAll("main *").forEach((node) => node.dispatchEvent(new Event("mouseover"))));
    }
    assert.deepEqual(page.faults, [], attack);
    await page.close();
    server.closeAllConnections();
    server.close();
  }
  console.log(`escaping: ${ATTACKS.length} attacks are shown as text in all views`);
}

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"],
});
try {
  await checkLiveData(browser);
  for (const scheme of ["light", "dark"]) {
    for (const size of SIZES) await checkViews(browser, size, scheme);
  }
  await checkKeyboard(browser);
  await checkReadRole(browser);
  if (guideDirectory) await writeGuide(browser);
  await checkActions(browser);
  await checkEscaping(browser);
} finally {
  await browser.close();
}
