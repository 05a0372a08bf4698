// Puts new HTML of blocks into the page. What a reader has done stays: open folds, order and filter of tables, focus.
// The HTML is parsed where nothing of it runs or loads, and the text of a run is escaped in it.
class Blocks {
  update(changes) {
    this.known = new Map([...document.querySelectorAll("[data-block]")].map((one) => [one.dataset.block, one]));
    this.plots = new Map([...document.querySelectorAll(".plot")].map((one) => [one.dataset.chart, one]));
    this.fresh = new Map();
    for (const [key, html] of Object.entries(changes)) {
      const template = document.createElement("template");
      template.innerHTML = html;
      this.fresh.set(key, template.content.firstElementChild);
    }
    const focused = document.activeElement;
    for (const [key, fresh] of [...this.fresh]) {
      const old = this.known.get(key);
      if (old) this.#become(old, fresh);
    }
    if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  }

  // Makes an element like a new one, with as little change as possible.
  #become(old, fresh) {
    if (old.tagName !== fresh.tagName) {
      this.#fill(fresh);
      if (fresh.dataset.block) this.known.set(fresh.dataset.block, fresh);
      old.replaceWith(fresh);
      return;
    }
    takeAttributes(old, fresh);
    const isTable = old.tagName === "TABLE";
    if (isTable) putInOrder(old);
    this.#takeChildren(old, fresh);
    if (isTable) restoreTable(old);
  }

  #takeChildren(old, fresh) {
    const left = new Set([...old.childNodes].filter((node) => !isOfScript(node)));
    const pairs = [...fresh.childNodes].map((node) => {
      const kept = this.#isKept(node) ? this.#kept(node) : [...left].find((one) => isAlike(one, node) && !this.#isKept(one));
      left.delete(kept);
      return [kept, node];
    });
    for (const node of left) node.remove();
    let previous = null;
    for (const [kept, node] of pairs) {
      const next = kept ?? this.#fill(node);
      let place = previous ? previous.nextSibling : old.firstChild;
      while (place && isOfScript(place)) place = place.nextSibling;
      if (next !== place) old.insertBefore(next, place);
      previous = next;
      if (!kept || this.#isKept(kept)) continue;
      if (kept.nodeType === Node.ELEMENT_NODE) this.#become(kept, node);
      else if (kept.data !== node.data) kept.data = node.data;
    }
  }

  // Blocks and charts are where they were, wherever that is.
  #kept(node) {
    const key = node.dataset.block;
    if (key === undefined) {
      const plot = this.plots.get(node.dataset.chart);
      if (plot) plot.style.minHeight = node.style.minHeight;
      return plot;
    }
    if (!this.known.has(key) && this.fresh.has(key)) {
      const fresh = this.fresh.get(key);
      this.known.set(key, fresh);
      this.#fill(fresh);
    }
    return this.known.get(key);
  }

  #isKept(node) {
    return node.nodeType === Node.ELEMENT_NODE && (node.dataset.block !== undefined || node.classList.contains("plot"));
  }

  // Puts blocks and charts into the empty elements of new HTML.
  #fill(fresh) {
    if (fresh.nodeType !== Node.ELEMENT_NODE) return fresh;
    for (const slot of fresh.querySelectorAll("[data-block], .plot")) {
      const kept = this.#kept(slot);
      if (kept && kept !== slot) slot.replaceWith(kept);
    }
    return fresh;
  }
}
// What a script has put beside a chart stays there.
function isOfScript(node) {
  return node.nodeType === Node.ELEMENT_NODE && node.classList.contains("lane-controls");
}
function isAlike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id ?? "") === (other.id ?? "");
}
// What a reader sets; the server never sends these.
const OF_READER = ["open", "hidden", "aria-sort"];
const CLASSES_OF_READER = ["all", "filtering"];
function takeAttributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (name !== "class" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (name !== "class" && !fresh.hasAttribute(name) && !OF_READER.includes(name)) old.removeAttribute(name);
  }
  const own = CLASSES_OF_READER.filter((name) => old.classList.contains(name));
  const wanted = [...new Set([...fresh.classList, ...own])].join(" ");
  if (wanted !== old.className && (wanted || old.className) && typeof old.className === "string") old.className = wanted;
}
// Rows in the order in which they came, as the new ones are.
const placeOfRow = new WeakMap();
function putInOrder(table) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  if (!table.querySelector("th[aria-sort]")) return;
  const ordered = [...rows].sort((a, b) => (placeOfRow.get(a) ?? 0) - (placeOfRow.get(b) ?? 0));
  body.append(...ordered);
}
function restoreTable(table) {
  const rows = [...table.tBodies[0].rows];
  rows.forEach((row, place) => placeOfRow.set(row, place));
  const title = table.querySelector("th[aria-sort]");
  if (title) sortTable(table, title.cellIndex, title.getAttribute("aria-sort") === "descending");
  if (table.classList.contains("filtered")) filterTable(table);
}
function rememberOrder(root) {
  for (const table of root.querySelectorAll("table")) [...table.tBodies[0].rows].forEach((row, place) => placeOfRow.set(row, place));
}
