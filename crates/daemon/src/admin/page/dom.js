// Creates and updates elements. All text comes in as text, never as HTML.

const byId = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function svgElement(tag, attributes = {}) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setClass(node, text) {
  if (node.getAttribute("class") !== text) node.setAttribute("class", text);
}

// Makes screen readers speak a text. They announce changes only of an element that existed before.
function announce(text) {
  setText(byId("announcement"), text);
}

// Keeps one child for each item, in the order of `items`. Keeps existing children, so that focus and selection
// stay. `create` returns `{ node, update }`.
function syncChildren(parent, items, keyOf, create) {
  parent.childrenByKey ??= new Map();
  const known = parent.childrenByKey;
  const seen = new Set();
  let place = parent.firstElementChild;
  for (const item of items) {
    let key = keyOf(item);
    while (seen.has(key)) key += " again";
    seen.add(key);
    if (!known.has(key)) known.set(key, create(item));
    const { node, update } = known.get(key);
    update(item);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  for (const [key, { node }] of known) {
    if (seen.has(key)) continue;
    node.remove();
    known.delete(key);
  }
}

// A table with explicit roles, because its rows become cards on narrow screens. A column has `label`, and
// `text(item)` or `fill(cell, item)`. `isNumber` aligns it to the right. `isWide` shows it without its label on
// narrow screens. `isAction` shows it only to operators.
class Table {
  constructor(caption, columns, keyOf, hidesCaption = false) {
    this.columns = columns;
    this.keyOf = keyOf;
    this.body = element("tbody", { role: "rowgroup" });
    const heads = columns.map(({ label, isNumber, isAction }) =>
      element("th", { scope: "col", role: "columnheader", class: isNumber ? "number" : isAction ? "action" : null }, label));
    const head = element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...heads));
    this.node = element("table", { role: "table" }, element("caption", { class: hidesCaption ? "unseen" : null }, caption), head, this.body);
  }

  update(items) {
    this.node.hidden = items.length === 0;
    syncChildren(this.body, items, this.keyOf, () => this.createRow());
  }

  createRow() {
    const cells = this.columns.map(({ label, isNumber, isWide, isCode, isAction }) => {
      const classes = [isNumber && "number", isWide && "wide", isCode && "mono", isAction && "action"].filter(Boolean).join(" ");
      return element("td", { role: "cell", "data-label": label, class: classes || null });
    });
    const update = (item) => cells.forEach((cell, place) => {
      const { text, fill } = this.columns[place];
      if (fill) fill(cell, item);
      else setText(cell, text(item));
    });
    return { node: element("tr", { role: "row" }, ...cells), update };
  }
}

// Shows a state as a badge, with an optional note below.
function fillState(cell, { text, kind, note }) {
  if (!cell.badge) {
    cell.badge = element("span");
    cell.note = element("span", { class: "note" });
    cell.append(element("div", {}, cell.badge, cell.note));
  }
  setText(cell.badge, text);
  setClass(cell.badge, `badge ${kind}`);
  setText(cell.note, note ?? "");
}

// Shows names with values. `facts` are pairs of a name and a text.
function fillFacts(list, facts) {
  syncChildren(list, facts, ([name]) => name, ([name]) => {
    const value = element("dd");
    return { node: element("div", {}, element("dt", {}, name), value), update: ([, text]) => setText(value, text) };
  });
}

