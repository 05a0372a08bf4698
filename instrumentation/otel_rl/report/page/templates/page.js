"use strict";
// Tables: a click on a title sorts by that column, numbers by their value and not by their text.
function sortTable(table, column, down) {
  const value = (row) => {
    const cell = row.cells[column];
    return "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent;
  };
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (typeof x === "number" && typeof y === "number") return x - y;
    if (typeof x !== typeof y) return typeof x === "number" ? 1 : -1;
    return x.localeCompare(y);
  };
  const body = table.tBodies[0];
  const rows = [...body.rows].sort((a, b) => (down ? compare(b, a) : compare(a, b)));
  const shown = [...body.rows].filter((row) => !row.classList.contains("more")).length;
  rows.forEach((row, index) => row.classList.toggle("more", index >= shown));
  body.append(...rows);
}
// Filters: a text that the cell contains; for numbers also 3, 2..5, >0.5, <1, >=2 and <=2.
function fits(cell, wanted) {
  const number = "sort" in cell.dataset ? Number(cell.dataset.sort) : NaN;
  const range = wanted.match(/^(-?[\d.]+)\.\.(-?[\d.]+)$/);
  const bound = wanted.match(/^(>=|<=|>|<|=)\s*(-?[\d.]+)$/);
  if (range) return number >= Number(range[1]) && number <= Number(range[2]);
  if (bound) {
    const limit = Number(bound[2]);
    return { ">": number > limit, "<": number < limit, ">=": number >= limit, "<=": number <= limit, "=": number === limit }[bound[1]];
  }
  if ("sort" in cell.dataset && wanted.trim() !== "" && !Number.isNaN(Number(wanted))) return number === Number(wanted);
  return cell.textContent.toLowerCase().includes(wanted.toLowerCase());
}
function filterTable(table) {
  const wanted = [...table.querySelectorAll(".filters input")].map((field) => field.value.trim());
  table.classList.toggle("filtering", wanted.some((text) => text));
  for (const row of table.tBodies[0].rows) {
    row.hidden = wanted.some((text, column) => text && !fits(row.cells[column], text));
  }
}
document.addEventListener("click", (event) => {
  const title = event.target.closest("th");
  if (title) {
    const table = title.closest("table");
    const down = title.getAttribute("aria-sort") !== "descending";
    sortTable(table, title.cellIndex, down);
    for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
    title.setAttribute("aria-sort", down ? "descending" : "ascending");
  }
  const unfold = event.target.closest(".unfold");
  if (unfold) {
    unfold.previousElementSibling.classList.add("all");
    unfold.hidden = true;
  }
});
document.addEventListener(
  "input",
  (event) => {
    const table = event.target.closest("table.filtered");
    if (table) filterTable(table);
  },
  true,
);
// A link to something folded opens it.
function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  for (let part = target; part; part = part.parentElement) {
    if (part instanceof HTMLDetailsElement) part.open = true;
  }
  if (target instanceof HTMLDetailsElement) target.scrollIntoView();
}
window.addEventListener("hashchange", openTarget);
openTarget();
// Charts are drawn on canvas, which no style sheet reaches: their text and lines follow the colours of the page.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function chartColours() {
  const style = getComputedStyle(document.documentElement);
  return ["--quiet", "--line"].map((name) => style.getPropertyValue(name).trim());
}
function colourCharts() {
  const [quiet, line] = chartColours();
  for (const chart of window.Bokeh ? Bokeh.documents : []) {
    for (const model of chart.all_models ?? chart._all_models.values()) {
      if (model.type.endsWith("Axis")) {
        model.setv({ major_label_text_color: quiet, axis_label_text_color: quiet, axis_line_color: line, major_tick_line_color: line });
      } else if (model.type === "Grid") {
        if (model.grid_line_color !== null) model.setv({ grid_line_color: line });
      }
    }
  }
}
dark.addEventListener("change", colourCharts);
// A chart inside a closed fold has no width to draw in: let it measure again when the fold opens.
document.addEventListener("toggle", () => window.dispatchEvent(new Event("resize")), true);
