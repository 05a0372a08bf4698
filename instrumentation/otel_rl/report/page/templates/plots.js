// Charts from their descriptions (report/core/plots.py), as report/core/figures.py makes them. All are in one document
// of Bokeh's, so that those over steps share their range and their crosshair. A chart is made when it comes into view.
class Plots {
  constructor() {
    this.charts = new Map(); // key -> what is known of a chart
    this.places = new Map(); // key -> its element
    this.targets = []; // the element of each root of the document
    this.seen = new IntersectionObserver((entries) => entries.forEach((entry) => this.#show(entry)), { rootMargin: "300px" });
  }

  // Values and structures of charts, as in a message.
  update(changes) {
    for (const [key, change] of Object.entries(changes)) {
      const before = this.charts.get(key);
      if (!before && !change.plot) continue;
      const chart = before ?? { data: [], drawn: null, visible: false, busy: false };
      const structure = change.plot ? JSON.stringify(change.plot) : chart.structure;
      if (structure !== chart.structure) Object.assign(chart, { plot: change.plot, structure, data: [] });
      chart.ranges = [change.x_range, change.y_range];
      chart.data = change.sources.map((source, place) => appended(chart.data[place], source));
      chart.stale = true;
      this.charts.set(key, chart);
      if (chart.visible) this.#draw(key, chart);
    }
  }

  // The range of the charts over steps; one that was zoomed stays.
  showSteps(ends) {
    this.steps = ends;
    if (this.range) follow(this.range, ends, true);
  }

  // Looks for elements of charts that came or went.
  findPlaces() {
    for (const place of document.querySelectorAll(".plot")) {
      const key = place.dataset.chart;
      if (this.places.get(key) === place) continue;
      this.places.set(key, place);
      this.seen.observe(place);
    }
    for (const [key, place] of this.places) {
      if (place.isConnected) continue;
      this.seen.unobserve(place);
      const chart = this.charts.get(key);
      if (chart) this.#remove(chart.drawn);
      this.places.delete(key);
      this.charts.delete(key);
    }
  }

  get areDrawn() {
    return ![...this.charts.values()].some((chart) => chart.visible && (chart.busy || chart.stale));
  }

  #show(entry) {
    const key = entry.target.dataset.chart;
    const chart = this.charts.get(key);
    if (!chart || this.places.get(key) !== entry.target) return;
    chart.visible = entry.isIntersecting;
    chart.left = performance.now();
    if (chart.visible) this.#draw(key, chart);
  }

  async #draw(key, chart) {
    if (!chart.stale || chart.busy || !window.Bokeh) return;
    chart.stale = false;
    if (chart.drawn?.structure === chart.structure) {
      chart.drawn.sources.forEach((source, place) => {
        if (hasValues(chart.data[place])) source.data = { ...chart.data[place] };
      });
      if (!chart.plot.over_steps) follow(chart.drawn.model.x_range, chart.ranges[0], false);
      follow(chart.drawn.model.y_range, chart.ranges[1], false);
      return;
    }
    chart.busy = true;
    const holder = document.createElement("div");
    holder.className = "coming";
    this.places.get(key).append(holder);
    const structure = chart.structure;
    const made = await this.#add(chart, holder);
    // What was there before stays until this has been painted.
    this.#remove(chart.drawn);
    holder.className = "";
    chart.drawn = { ...made, holder, structure };
    chart.busy = false;
    document.dispatchEvent(new CustomEvent("chart-drawn", { detail: key }));
    this.#forgetSome();
    if (!this.charts.has(key)) this.#remove(chart.drawn);
    else if (chart.visible) this.#draw(key, chart);
  }

  // Every chart on the page makes the next one slower: of many those that were out of view for longest are made again.
  #forgetSome() {
    const drawn = [...this.charts.values()].filter((chart) => chart.drawn && !isFilledByScript(chart));
    const hidden = drawn.filter((chart) => !chart.visible && !chart.busy).sort((a, b) => a.left - b.left);
    for (const chart of hidden.slice(0, Math.max(drawn.length - MOST_DRAWN, 0))) {
      this.#remove(chart.drawn);
      chart.drawn = null;
      chart.stale = true;
    }
  }

  async #add(chart, holder) {
    this.opened ??= this.#open();
    await this.opened;
    const made = figureOf(chart.plot, chart.data, chart.ranges, this.range, this.crosshair);
    this.targets.push(holder);
    this.document.add_root(made.model);
    await painted(made.model);
    return made;
  }

  async #open() {
    this.range = new Bokeh.Models.Range1d(rangeOf(this.steps ?? [0.5, 1.5], true));
    this.crosshair = new Bokeh.Models.Span({ dimension: "height", line_color: "#8a8f98", line_alpha: 0.6 });
    this.document = new (Bokeh.require("document/document").Document)();
    await Bokeh.embed.add_document_standalone(this.document, document.body, this.targets);
  }

  #remove(drawn) {
    if (!drawn) return;
    const place = this.targets.indexOf(drawn.holder);
    if (place >= 0) {
      this.document.remove_root(drawn.model);
      this.targets.splice(place, 1);
      // A document keeps every model that it ever had for the next message to a server, and there is none:
      // https://github.com/bokeh/bokeh/blob/3.9.2/bokehjs/src/lib/document/document.ts
      this.document._new_models?.clear();
    }
    drawn.holder.remove();
  }
}
const MOST_DRAWN = 40;
// Columns that are sent without values are filled by another script.
function hasValues(columns) {
  return Object.values(columns).some((values) => values.length);
}
function isFilledByScript(chart) {
  return !chart.data.every(hasValues);
}
// Columns with what came from the n-th value on; JSON has null for what is no number.
function appended(before, { from, columns }) {
  const known = (values) => values.map((value) => (value === null ? NaN : value));
  const entries = Object.entries(columns).map(([name, values]) => [name, [...(before?.[name] ?? []).slice(0, from), ...known(values)]]);
  return Object.fromEntries(entries);
}
function rangeOf([start, end], isBound) {
  return { start, end, reset_start: start, reset_end: end, ...(isBound ? { bounds: [start, end] } : {}) };
}
// Lets a range follow the values unless somebody has zoomed.
function follow(range, ends, isBound) {
  if (!ends) return;
  const isZoomed = range.start !== range.reset_start || range.end !== range.reset_end;
  const { start, end, ...others } = rangeOf(ends, isBound);
  // Ends are cut at the bounds that hold when they are set.
  range.setv(others);
  if (!isZoomed) range.setv({ start, end });
}
async function painted(model) {
  for (let attempt = 0; attempt < 300; attempt++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    const view = Bokeh.index[model.id];
    if (view?.has_finished()) return;
  }
}
// The models of one chart.
function figureOf(plot, data, ranges, steps, crosshair) {
  const M = Bokeh.Models;
  const [quiet, line] = chartColours();
  const sources = data.map((columns) => new M.ColumnDataSource({ data: { ...columns } }));
  const drawn = plot.glyphs.map((glyph) => renderersOf(glyph, sources[glyph.source]));
  const tools = plot.hovers.map(
    (hover) =>
      new M.HoverTool({
        renderers: drawn[hover.glyph].slice(-1),
        tooltips: hover.tooltips,
        mode: hover.mode,
        ...(hover.follows ? { point_policy: "follow_mouse" } : {}),
      }),
  );
  if (plot.over_steps) tools.unshift(new M.CrosshairTool({ dimensions: "height", overlay: crosshair }));
  const zoom = new M.BoxZoomTool({ dimensions: "width" });
  const font = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  const style = {
    axis_line_color: line, major_tick_line_color: line, minor_tick_line_color: null, major_label_text_color: quiet,
    major_label_text_font: font, axis_label_text_color: quiet, axis_label_text_font: font,
    axis_label_text_font_style: "normal", axis_label_text_font_size: "11px",
  };
  const below = new M.LinearAxis({ axis_label: plot.x_label, ...style });
  if (plot.over_steps) below.ticker.min_interval = 1;
  const label = plot.y_label ? { axis_label: plot.y_label } : {};
  const left = new M[plot.is_logarithmic ? "LogAxis" : "LinearAxis"]({ ...label, visible: plot.has_y_axis, ...style });
  if (plot.rows.length) {
    left.ticker = new M.FixedTicker({ ticks: plot.rows.map((_, place) => place) });
    left.major_label_overrides = new Map(plot.rows.map((name, place) => [plot.rows.length - 1 - place, name]));
  }
  const hasLines = !plot.rows.length && plot.has_y_axis;
  const marks = plot.marks.map(
    (location) => new M.Span({ location, dimension: "height", line_color: "#c92a2a", line_dash: "dashed", line_width: 1.5 }),
  );
  const xRange = plot.over_steps ? steps : rangeFrom(ranges[0], {});
  const model = new M.Figure({
    height: plot.height,
    sizing_mode: "stretch_width",
    x_range: xRange,
    y_range: rangeFrom(ranges[1], plot.from_zero ? { start: 0 } : {}),
    x_scale: new M.LinearScale(),
    y_scale: new M[plot.is_logarithmic ? "LogScale" : "LinearScale"](),
    renderers: drawn.flat(),
    below: [below],
    left: [left],
    center: [
      new M.Grid({ axis: below, dimension: 0, grid_line_color: line }),
      new M.Grid({ axis: left, dimension: 1, grid_line_color: hasLines ? line : null }),
      ...marks,
    ],
    toolbar: new M.Toolbar({ tools: [...tools, zoom, new M.ResetTool(), new M.SaveTool()], active_drag: zoom, logo: null, autohide: true }),
    toolbar_location: "right",
    background_fill_color: null,
    border_fill_color: null,
    outline_line_color: null,
    min_border: 4,
  });
  return { model, sources };
}
function rangeFrom(ends, options) {
  return ends ? new Bokeh.Models.Range1d(rangeOf(ends, false)) : new Bokeh.Models.DataRange1d(options);
}
// Of properties that every kind has, Bokeh's ``figure`` takes ``color`` for those of its lines and its filling.
const GLYPHS = { line: "Line", scatter: "Scatter", varea: "VArea", vbar: "VBar", hbar: "HBar", segment: "Segment", vbar_stack: "VBar", varea_stack: "VArea" };
const ENDS = { vbar_stack: ["bottom", "top"], varea_stack: ["y1", "y2"] };
function renderersOf(glyph, source) {
  const M = Bokeh.Models;
  const { color, alpha, name, visible, ...values } = glyph.values;
  const ofRenderer = { ...(name === undefined ? {} : { name }), ...(visible === undefined ? {} : { visible }) };
  const coloured = (value) => ({
    ...(value === undefined || glyph.kind.startsWith("varea") ? {} : { line_color: value }),
    ...(value === undefined || ["line", "segment"].includes(glyph.kind) ? {} : { fill_color: value }),
  });
  const opacity = alpha === undefined ? {} : { line_alpha: alpha, fill_alpha: alpha };
  const fields = Object.fromEntries(Object.entries(glyph.fields).map(([name, field]) => [name, { field }]));
  const make = (own, value) =>
    new M.GlyphRenderer({
      ...ofRenderer,
      data_source: source,
      glyph: new M[GLYPHS[glyph.kind]]({ ...fields, ...own, ...coloured(value), ...opacity, ...values }),
    });
  if (!(glyph.kind in ENDS)) return [make({}, color)];
  const [low, high] = ENDS[glyph.kind];
  const sum = (count) => ({ expr: new M.Stack({ fields: glyph.stacked.slice(0, count) }) });
  return glyph.stacked.map((_, place) => make({ [low]: sum(place), [high]: sum(place + 1) }, color[place]));
}
