// Charts of the history. Each chart has a description as its text alternative.

const PLOT_WIDTH = 600;
const PLOT_HEIGHT = 100;

const nextPowerOfTwo = (value) => 2 ** Math.ceil(Math.log2(Math.max(1, value)));

// Returns the next number of the form 1, 2 or 5 times a power of ten.
function niceMaximum(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= value) ?? value;
}

// Each chart has one or two columns of the history.
const CHARTS = [
  { title: "Requests per second", format: formatNumber, series: [{ column: "requests" }] },
  { title: "Errors (5xx) per second", format: formatNumber, series: [{ column: "errors" }], kind: "errors" },
  {
    title: "Latency",
    format: formatMicroseconds,
    series: [{ column: "p50_us", name: "p50" }, { column: "p99_us", name: "p99" }],
  },
  { title: "Client connections", format: formatNumber, series: [{ column: "connections" }] },
  { title: "CPU, in percent of one core", format: (value) => (value === null ? UNKNOWN : `${formatNumber(value)} %`), series: [{ column: "cpu_percent" }] },
  { title: "Memory", format: formatBytes, maximum: nextPowerOfTwo, series: [{ column: "memory_bytes" }] },
];

class Chart {
  constructor({ title, format, series, kind, maximum = niceMaximum }) {
    Object.assign(this, { title, format, series, maximum });
    this.most = element("span", { class: "most", "aria-hidden": "true" });
    this.svg = svgElement("svg", { viewBox: `0 0 ${PLOT_WIDTH} ${PLOT_HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    // A screen reader passes the arrow keys only to an application.
    this.plot = element("div", { class: "plot", tabindex: "0", role: "application", "aria-roledescription": "chart" }, this.svg, this.most);
    this.paths = series.map((_, place) => ({
      area: place === 0 ? this.addPath("area") : null,
      line: this.addPath(place === 0 ? "line" : "line second"),
    }));
    this.cursor = this.svg.appendChild(svgElement("line", { class: "cursor", y1: 0, y2: PLOT_HEIGHT, visibility: "hidden" }));
    this.values = series.map(() => element("span"));
    const now = this.values.map((value, place) => {
      const { name } = series[place];
      return element("span", { class: "value" }, value, ...(name ? [element("small", {}, ` ${name}`)] : []));
    });
    [this.left, this.middle, this.right] = [element("span"), element("span"), element("span", {}, "now")];
    this.node = element("div", { class: `chart ${kind ?? ""}` },
      element("h3", {}, title),
      element("div", { class: "now" }, ...now),
      this.plot,
      element("div", { class: "axis", "aria-hidden": "true" }, this.left, this.middle, this.right));
    // Start of the step with the cursor, in seconds since 1970.
    this.second = null;
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.unpoint());
    this.plot.addEventListener("keydown", (event) => this.move(event));
    this.plot.addEventListener("blur", () => this.unpoint());
  }

  addPath(name) {
    return this.svg.appendChild(svgElement("path", { class: name }));
  }

  // `columns` covers the whole range. `current` contains the newest value of each series.
  update(columns, current, rangeText) {
    this.columns = columns;
    const all = this.series.map(({ column }) => columns[column]);
    const known = all.flat().filter((value) => value !== null);
    const top = this.maximum(Math.max(0, ...known));
    all.forEach((values, place) => {
      const { area, line } = this.paths[place];
      const runs = runsOf(values, top);
      line.setAttribute("d", runs.map(lineOf).join(""));
      area?.setAttribute("d", runs.map(areaOf).join(""));
    });
    this.values.forEach((node, place) => setText(node, this.format(current[this.series[place].column] ?? null)));
    setText(this.most, this.format(top));
    setText(this.left, `${rangeText} ago`);
    this.showCursor();
    // A screen reader repeats the name of the focused element when the name changes.
    if (document.activeElement !== this.plot) this.describe(all, current, rangeText);
  }

  describe(all, current, rangeText) {
    const parts = this.series.map(({ column, name }, place) => {
      const known = all[place].filter((value) => value !== null);
      const most = known.length ? this.format(Math.max(...known)) : UNKNOWN;
      return `${name ? `${name} ` : ""}now ${this.format(current[column] ?? null)}, maximum ${most}`;
    });
    this.plot.setAttribute("aria-label", `${this.title}, last ${rangeText}: ${parts.join("; ")}. Arrow keys show single values.`);
  }

  get length() {
    return this.columns?.[this.series[0].column].length ?? 0;
  }

  // Shows the values at the pointer.
  point(event) {
    if (this.length === 0) return;
    const box = this.svg.getBoundingClientRect();
    this.setPlace(Math.floor(((event.clientX - box.left) / box.width) * this.length));
  }

  // Moves the cursor with the keyboard, and announces the values.
  move(event) {
    const place = this.place();
    const step = Math.max(1, Math.round(this.length / 20));
    const places = {
      ArrowLeft: (place ?? this.length) - 1,
      ArrowRight: (place ?? this.length - 2) + 1,
      PageUp: (place ?? this.length) - step,
      PageDown: (place ?? this.length - 1) + step,
      Home: 0,
      End: this.length - 1,
    };
    if (event.key === "Escape") this.unpoint();
    const next = lookUp(places, event.key);
    if (next === undefined || event.altKey || event.ctrlKey || event.metaKey || this.length === 0) return;
    event.preventDefault();
    this.setPlace(next);
    announce(this.middle.textContent);
  }

  setPlace(place) {
    const inside = Math.min(this.length - 1, Math.max(0, place));
    this.second = this.columns.start + inside * this.columns.step_seconds;
    this.showCursor();
  }

  // Returns the step with the cursor, or null. New samples move the step to the left.
  place() {
    if (this.second === null || !this.columns) return null;
    const place = Math.floor((this.second - this.columns.start) / this.columns.step_seconds);
    return place >= 0 && place < this.length ? place : null;
  }

  showCursor() {
    const place = this.place();
    if (place === null) {
      this.unpoint();
      return;
    }
    const x = ((place + 0.5) / this.length) * PLOT_WIDTH;
    for (const [name, value] of [["x1", x], ["x2", x], ["visibility", "visible"]]) this.cursor.setAttribute(name, value);
    const values = this.series.map(({ column, name }) => `${name ? `${name} ` : ""}${this.format(this.columns[column][place])}`);
    setText(this.middle, `${formatClock(this.columns.start + place * this.columns.step_seconds)}: ${values.join(", ")}`);
  }

  unpoint() {
    this.second = null;
    this.cursor.setAttribute("visibility", "hidden");
    setText(this.middle, "");
  }
}

// Splits values into runs of points without gaps.
function runsOf(values, top) {
  const runs = [];
  let run = null;
  values.forEach((value, place) => {
    if (value === null) {
      run = null;
      return;
    }
    if (!run) runs.push((run = []));
    const x = ((place + 0.5) / values.length) * PLOT_WIDTH;
    const y = PLOT_HEIGHT - 1 - (top > 0 ? value / top : 0) * (PLOT_HEIGHT - 4);
    run.push([x.toFixed(1), y.toFixed(1)]);
  });
  return runs;
}

// A run with a single point is drawn as a short line.
const lineOf = (run) => `M${run.map((point) => point.join(" ")).join("L")}${run.length === 1 ? "h1" : ""}`;

const areaOf = (run) => `M${run[0][0]} ${PLOT_HEIGHT}L${run.map((point) => point.join(" ")).join("L")}V${PLOT_HEIGHT}Z`;

