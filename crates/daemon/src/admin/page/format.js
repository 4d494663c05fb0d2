// Formats numbers, durations and times for operators.

const UNKNOWN = "–";

function formatNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  const digits = value !== 0 && Math.abs(value) < 10 && !Number.isInteger(value) ? 1 : 0;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

function formatMicroseconds(us) {
  if (us === null || us === undefined) return UNKNOWN;
  const steps = [[1e6, "s"], [1e3, "ms"], [1, "µs"]];
  const [size, unit] = steps.find(([size]) => us >= size) ?? steps[2];
  const value = us / size;
  return `${value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 })} ${unit}`;
}

function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return UNKNOWN;
  const steps = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
  const [size, unit] = steps.find(([size]) => bytes >= size) ?? steps[3];
  const value = bytes / size;
  return `${value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 })} ${unit}`;
}

// Formats a duration with its two largest units.
function formatSeconds(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = Math.max(0, units.findIndex(([size]) => seconds >= size));
  const [size, unit] = seconds < 1 ? units[3] : units[first];
  const rest = units[first + 1];
  const text = `${Math.floor(seconds / size)} ${unit}`;
  const more = rest && seconds >= 60 ? Math.floor((seconds % size) / rest[0]) : 0;
  return more > 0 ? `${text} ${more} ${rest[1]}` : text;
}

const formatClock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en", { hour12: false });

const formatDate = (text) => new Date(text).toLocaleString("en", { dateStyle: "medium", timeStyle: "medium", hour12: false });

function formatAgo(text, now = Date.now()) {
  const seconds = (now - Date.parse(text)) / 1000;
  return seconds >= 0 ? `${formatSeconds(seconds)} ago` : `in ${formatSeconds(-seconds)}`;
}

// Returns the duration in microseconds that the share `q` of all counted requests did not exceed. Returns null
// without requests. `bounds` are the upper bounds of the buckets; the last bucket has none.
function percentile(buckets, bounds, q) {
  const total = buckets.reduce((sum, count) => sum + count, 0);
  const rank = Math.max(1, Math.ceil(total * q));
  let below = 0;
  for (const [place, count] of buckets.entries()) {
    if (count > 0 && below + count >= rank) {
      const lower = place > 0 ? bounds[place - 1] : 0;
      const upper = bounds[place] ?? lower;
      return lower + ((upper - lower) * (rank - below)) / count;
    }
    below += count;
  }
  return null;
}

// Returns the changes between two states of the same counters. Without an earlier state, returns null.
function rates(after, before, seconds, bounds) {
  if (!before || seconds <= 0) return { requests: null, errors: null, p50: null, p99: null };
  const buckets = after.duration_buckets.map((count, place) => Math.max(0, count - before.duration_buckets[place]));
  const perSecond = (key) => (key in after ? Math.max(0, after[key] - before[key]) / seconds : null);
  return {
    requests: perSecond("requests_total"),
    errors: perSecond("errors_total"),
    retries: perSecond("retries_total"),
    p50: percentile(buckets, bounds, 0.5),
    p99: percentile(buckets, bounds, 0.99),
  };
}

// Returns the entry of a table. A name such as `constructor` is not an entry.
const lookUp = (table, name) => (Object.hasOwn(table, name) ? table[name] : undefined);

const sum = (values) => values.reduce((total, value) => total + value, 0);

