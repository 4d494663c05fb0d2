
"use strict";
(() => {
// Texts of the server come in as text, never as HTML.

const byId = (id) => document.getElementById(id);
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
const LOG_LINES_MAX = 1000;

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function notify(text) {
  byId("notice").hidden = !text;
  byId("notice").textContent = text;
}

async function request(path, body) {
  const options = { headers: { Authorization: `Bearer ${token}` } };
  if (body !== undefined) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(`/inspector/${path}`, options);
  if (!response.ok) throw new Error((await response.text()).trim() || `status ${response.status}`);
  return response;
}

// --- calls ---

async function call(body) {
  const result = byId("result");
  result.textContent = "…";
  result.classList.remove("failed");
  try {
    const answer = await (await request("call", body)).json();
    result.classList.toggle("failed", "error" in answer || answer.result?.isError === true);
    result.textContent = "error" in answer ? answer.error : JSON.stringify(answer.result, null, 2);
  } catch (error) {
    result.classList.add("failed");
    result.textContent = error.message;
  }
}

// Returns the input for a property of a JSON Schema, and a function that reads its value. The value `undefined`
// leaves the property out.
function field(name, schema, isRequired) {
  const types = [schema?.type].flat();
  const first = schema?.default ?? "";
  let input, read;
  if (Array.isArray(schema?.enum)) {
    const values = schema.enum;
    input = element("select", {}, ...(isRequired ? [] : [element("option", { value: "" }, "")]),
      ...values.map((value, n) => element("option", { value: String(n) }, typeof value === "string" ? value : JSON.stringify(value))));
    read = () => (input.value === "" ? undefined : values[Number(input.value)]);
  } else if (types.includes("boolean")) {
    input = element("select", {}, ...["", "true", "false"].map((text) => element("option", { value: text }, text)));
    input.value = String(first);
    read = () => (input.value === "" ? undefined : input.value === "true");
  } else if (types.includes("integer") || types.includes("number")) {
    input = element("input", { type: "number", step: types.includes("number") ? "any" : "1" });
    input.value = String(first);
    read = () => (input.value === "" ? undefined : Number(input.value));
  } else if (types.includes("string")) {
    input = element("textarea", { rows: "1" });
    input.value = String(first);
    read = () => (input.value === "" && !isRequired ? undefined : input.value);
  } else {
    input = element("textarea", { rows: "2", placeholder: "JSON" });
    input.value = first === "" ? "" : JSON.stringify(first);
    read = () => {
      if (input.value.trim() === "") return undefined;
      try {
        return JSON.parse(input.value);
      } catch (error) {
        throw new Error(`${name}: ${error.message}`);
      }
    };
  }
  const label = element("label", {}, element("span", {}, name + (isRequired ? " (required)" : "")));
  if (schema?.description) label.append(element("span", { class: "hint" }, schema.description));
  label.append(input);
  return { label, read };
}

// Returns a form. `send` gets the values of its fields.
function form(fields, button, send) {
  const node = element("form", {}, ...fields.map(([, one]) => one.label), element("button", {}, button));
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    try {
      const values = {};
      for (const [name, one] of fields) {
        const value = one.read();
        if (value !== undefined) Object.defineProperty(values, name, { value, enumerable: true, configurable: true });
      }
      send(values);
    } catch (error) {
      byId("result").classList.add("failed");
      byId("result").textContent = error.message;
    }
  });
  return node;
}

// --- offers ---

function entry(title, description, ...children) {
  const node = element("details", {}, element("summary", {}, title));
  if (description) node.append(element("p", { class: "hint" }, description));
  node.append(...children);
  return node;
}

function toolEntry(tool) {
  const schema = tool.inputSchema ?? {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  const fields = Object.entries(schema.properties ?? {})
    .map(([name, property]) => [name, field(name, property, required.includes(name))]);
  const hints = Object.entries(tool.annotations ?? {}).filter(([, value]) => value === true).map(([name]) => name);
  const title = tool.name + (hints.length > 0 ? ` [${hints.join(", ")}]` : "");
  return entry(title, tool.description,
    form(fields, "Call", (values) => call({ kind: "tool", name: tool.name, arguments: values })),
    element("details", {}, element("summary", {}, "Schema"), element("pre", {}, JSON.stringify(schema, null, 2))));
}

function promptEntry(prompt) {
  const fields = (prompt.arguments ?? []).map((argument) =>
    [argument.name, field(argument.name, { type: "string", description: argument.description }, argument.required === true)]);
  return entry(prompt.name, prompt.description,
    form(fields, "Get", (values) => call({ kind: "prompt", name: prompt.name, arguments: values })));
}

function resourceEntry(resource) {
  return entry(resource.uri, resource.description,
    form([], "Read", () => call({ kind: "resource", uri: resource.uri })));
}

function templateEntry(template) {
  const uri = ["uri", field("URI", { type: "string", default: template.uriTemplate }, true)];
  return entry(template.uriTemplate, template.description,
    form([uri], "Read", (values) => call({ kind: "resource", uri: values.uri })));
}

async function load() {
  try {
    const { status, restarts, inspection, error } = await (await request("server")).json();
    byId("state").textContent = status.state + (restarts > 0 ? `, ${restarts} restarts` : "");
    byId("state").setAttribute("class", `badge ${status.state}`);
    const problems = [error ?? status.reason, ...(inspection?.errors ?? []).map((one) => `${one.list}: ${one.error}`)];
    notify(problems.filter((problem) => problem).join("\n"));
    // The entries of the previous version stay while the server restarts.
    if (!inspection) return;
    const server = inspection.server ?? {};
    byId("title").textContent = `${server.name ?? "MCP server"} ${server.version ?? ""} · MCP ${inspection.revision}`;
    const sections = [["Tools", inspection.tools, toolEntry], ["Prompts", inspection.prompts, promptEntry],
      ["Resources", inspection.resources, resourceEntry], ["Resource templates", inspection.resourceTemplates, templateEntry]];
    const filled = sections.filter(([, items]) => items.length > 0);
    byId("offers").replaceChildren(...filled.flatMap(([title, items, create]) =>
      [element("h3", {}, `${title} (${items.length})`), ...items.map(create)]));
    if (filled.length === 0) byId("offers").replaceChildren("The server offers nothing.");
  } catch (error) {
    byId("state").textContent = "unreachable";
    notify(error.message);
  }
}

// --- log ---

function addLine(entry) {
  const log = byId("log");
  const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
  const kind = entry.omitted ? "state" : entry.kind;
  const text = entry.omitted ? `${entry.omitted} entries are missing` : entry.text;
  log.append(element("li", { class: kind }, element("b", {}, kind), text));
  while (log.childElementCount > LOG_LINES_MAX) log.firstElementChild.remove();
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

// Reads the events of the log. `EventSource` cannot send the token.
async function follow() {
  const reader = (await request("log")).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let last = 0;
  byId("log").replaceChildren();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    let hasNewState = false;
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim());
      if (data.length === 0) continue;
      const entry = JSON.parse(data.join("\n"));
      if (entry.number <= last) continue;
      last = entry.number ?? last;
      addLine(entry);
      hasNewState ||= entry.kind === "state";
    }
    if (hasNewState) load();
  }
}

async function followAlways() {
  for (;;) {
    try {
      await follow();
    } catch (error) {
      notify(error.message);
    }
    byId("state").textContent = "unreachable";
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

byId("reload").addEventListener("click", load);
byId("restart").addEventListener("click", () => request("restart", {}).catch((error) => notify(error.message)));
byId("messages").addEventListener("change", (event) => byId("log").classList.toggle("quiet", !event.target.checked));
load();
followAlways();
})();
