"use strict";
// Tables: a click on a title sorts by that column, numbers by their value and not by their text.
for (const table of document.querySelectorAll("table")) {
  const titles = [...table.querySelectorAll("th")];
  titles.forEach((title, column) => {
    title.querySelector("button").addEventListener("click", () => {
      const down = title.getAttribute("aria-sort") !== "descending";
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
      titles.forEach((other) => other.removeAttribute("aria-sort"));
      title.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  });
}
for (const button of document.querySelectorAll(".unfold")) {
  button.addEventListener("click", () => {
    button.previousElementSibling.classList.add("all");
    button.remove();
  });
}
// Charts are drawn on canvas, which no style sheet reaches: their text and lines follow the colours of the page.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
function colourCharts() {
  const style = getComputedStyle(document.documentElement);
  const [quiet, line] = ["--quiet", "--line"].map((name) => style.getPropertyValue(name).trim());
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
for (const fold of document.querySelectorAll("details")) {
  fold.addEventListener("toggle", () => window.dispatchEvent(new Event("resize")));
}
let coloured = false;
function whenDrawn(attempt) {
  const documents = window.Bokeh ? Bokeh.documents : [];
  if (documents.length && !coloured) {
    coloured = true;
    colourCharts();
  }
  if (coloured && documents.every((one) => one.is_idle)) {
    document.documentElement.dataset.charts = "drawn";
  } else if (attempt < 200) {
    setTimeout(whenDrawn, 50, attempt + 1);
  }
}
if (document.querySelector("figure")) whenDrawn(0);
