// The state timeline: draws the lanes that a reader chooses, over one step or the whole run. Its values are one packed
// text (report/subjects/state_timeline/packed.py), its figures are known by the names of their glyphs.
const stateTimeline = (() => {
  const MOST = 32, MOST_ENGINES = 8, MOST_SYNCS = 30, ROW = 22, AROUND = 60, WHOLE = "whole run", LAST = "last 10 steps", MANY_STEPS = 30;
  // What a reader has chosen outlives new values.
  const choice = { step: null, follows: true, lanes: "", pick: "first", rollouts: "longest", from: 0, to: 0 };
  const connected = new WeakSet();
  let data, figures, isNew = true, linking = false, scheduled = false;
  const controls = {};

  // -- values ---------------------------------------------------------------------------------------------------------

  function decoded(text) {
    const parts = [];
    let at = 0, step = -1;
    for (const part of text ? text.split(";") : []) {
      const [gap, length, kind, stepsOn = 0, share = 100] = part.split(",").map(Number);
      const start = at + gap;
      at = start + length;
      step += stepsOn;
      parts.push({ start, end: at, kind, step, share });
    }
    return parts;
  }

  // A rollout, and below it the servers of its requests.
  const withServers = (rollout) => [rollout, ...(rollout.beneath ?? [])];

  function load(text) {
    data = JSON.parse(text);
    for (const lane of [...data.lanes, ...data.rollouts.flatMap(withServers)]) lane.parts = decoded(lane.exact);
    data.inOrder = [...data.steps].sort((a, b) => a[1] - b[1]);
    data.ranks = data.lanes.filter((lane) => lane.group === "rank");
    data.engines = data.lanes.filter((lane) => lane.group === "engine");
  }

  function firstAfter(parts, moment) {
    let low = 0, high = parts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (parts[middle].end > moment) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  function addExact(found, lane, from, to) {
    for (let place = firstAfter(lane.parts, from); place < lane.parts.length; place++) {
      const part = lane.parts[place];
      if (part.start >= to) break;
      found.push({ ...part, start: Math.max(part.start, from), end: Math.min(part.end, to) });
    }
  }

  function addBins(found, lane, from, to) {
    const [begin, width] = data.bins;
    const last = Math.min(lane.bins.length / 2, Math.ceil((to - begin) / width));
    for (let bin = Math.max(Math.floor((from - begin) / width), 0); bin < last; bin++) {
      if (lane.bins[2 * bin] === ".") continue;
      const start = Math.max(begin + bin * width, from), end = Math.min(begin + (bin + 1) * width, to);
      if (end > start) {
        const kind = lane.bins.charCodeAt(2 * bin) - 65, share = Math.max((100 * Number(lane.bins[2 * bin + 1])) / 9, 1);
        found.push({ start, end, kind, step: null, share });
      }
    }
  }

  // What a lane did between two moments: exactly where that is known, else by bins.
  function stretches(lane, from, to) {
    const found = [];
    if (!lane.bins) {
      addExact(found, lane, from, to);
      return found;
    }
    let at = from;
    for (const [start, end] of data.windows) {
      addBins(found, lane, at, Math.min(start, to));
      addExact(found, lane, Math.max(start, at), Math.min(end ?? Infinity, to));
      at = Math.max(at, Math.min(end ?? Infinity, to));
    }
    addBins(found, lane, at, to);
    return found;
  }

  // Neighbours that together are narrower than a pixel become the state that took most of it; so do equal bins.
  function merged(found, shortest) {
    const result = [];
    let group = null;
    const close = () => {
      if (!group) return;
      const [kind, time] = [...group.times].reduce((most, one) => (one[1] > most[1] ? one : most));
      result.push({ ...group, kind, share: Math.min((100 * time) / (group.end - group.start), 100) });
      group = null;
    };
    for (const one of found) {
      const touches = group && one.start - group.end < shortest;
      const isSame = group && group.times.size === 1 && group.times.has(one.kind) && group.step === one.step;
      if (!touches || !(one.end - group.start <= shortest || isSame)) {
        close();
        group = { start: one.start, end: one.end, step: one.step, times: new Map() };
      }
      group.end = one.end;
      group.times.set(one.kind, (group.times.get(one.kind) ?? 0) + ((one.end - one.start) * one.share) / 100);
    }
    close();
    return result;
  }

  // -- words ----------------------------------------------------------------------------------------------------------

  function duration(us) {
    const digits = (value) => Number(value.toPrecision(3)).toString();
    if (us < 999.5) return `${digits(us)} µs`;
    if (us < 999500) return `${digits(us / 1e3)} ms`;
    if (us < 6e7) return `${digits(us / 1e6)} s`;
    const seconds = Math.round(us / 1e6), two = (value) => String(value).padStart(2, "0");
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
    return `${Math.floor(seconds / 3600)} h ${two(Math.floor((seconds % 3600) / 60))} min`;
  }

  function clock(seconds, every) {
    const digits = Math.max(0, Math.ceil(-Math.log10(every) - 1e-9));
    if (choice.to < 12e7) return `${seconds.toFixed(digits)} s`;
    const whole = Math.floor(seconds + 1e-9), two = (value) => String(value).padStart(2, "0");
    const rest = digits ? (seconds - whole).toFixed(digits).slice(1) : "";
    return `${Math.floor(whole / 3600)}:${two(Math.floor((whole % 3600) / 60))}:${two(whole % 60)}${rest}`;
  }

  function ticks(from, to, width) {
    const fewest = (to - from) / Math.max(width / 90, 3);
    const steps = [...Array(8).keys()].flatMap((power) => [1, 2, 5].map((one) => one * 10 ** (power - 6))).filter((one) => one < 15);
    const every = [...steps, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400].find((one) => one >= fewest) ?? 864000;
    const places = [];
    for (let number = Math.ceil(from / every); number * every <= to; number++) places.push(number * every);
    return [places, new Map(places.map((place) => [place, clock(place, every)]))];
  }

  function stepOf(one) {
    if (one.step !== null && one.step >= 0) return String(one.step);
    const inside = data.inOrder.filter(([, start, end]) => start < one.end && end > one.start).map(([label]) => label);
    return inside.length > 1 ? `${inside[0]} to ${inside[inside.length - 1]}` : inside[0] ?? "–";
  }

  // -- choice of lanes ------------------------------------------------------------------------------------------------

  function numbers(text) {
    const ranges = text.split(",").map((part) => part.match(/^(\d+)(?:-(\d+))?$/));
    if (ranges.some((range) => !range)) throw new Error("rank: takes numbers, such as rank:0-7,12");
    return (rank) => ranges.some(([, low, high]) => rank >= Number(low) && rank <= Number(high ?? low));
  }

  // The lanes of ranks that a text such as "rank:0-7 node:2 every:8" means.
  function named(text) {
    let lanes = data.ranks, every = 1;
    const ranks = [], nodes = [], names = [];
    for (const word of text.trim().split(/\s+/).filter((one) => one)) {
      const [, key, value] = word.match(/^(rank|node|every):(.*)$/) ?? [];
      if (key === "rank") ranks.push(numbers(value));
      else if (key === "node") nodes.push(...value.split(","));
      else if (key === "every") {
        if (!/^[1-9]\d*$/.test(value)) throw new Error("every: takes a number, such as every:8");
        every = Number(value);
      } else names.push(word.toLowerCase());
    }
    if (ranks.length) lanes = lanes.filter((lane) => lane.rank !== null && ranks.some((fits) => fits(lane.rank)));
    if (nodes.length) lanes = lanes.filter((lane) => nodes.includes(lane.node));
    if (names.length) lanes = lanes.filter((lane) => names.some((name) => lane.name.toLowerCase().includes(name)));
    return lanes.filter((_, place) => place % every === 0);
  }

  function timeIn(lane, kind) {
    return stretches(lane, choice.from, choice.to).reduce(
      (sum, one) => sum + (one.kind === kind ? ((one.end - one.start) * one.share) / 100 : 0), 0);
  }

  function chosenLanes() {
    let lanes = named(choice.lanes);
    const number = lanes.length;
    if (choice.pick !== "first") {
      // The others wait for the rank with the most work of its own.
      const isLatest = choice.pick === "latest";
      const times = new Map(lanes.map((lane) => [lane, isLatest ? lane.own ?? -1 : timeIn(lane, Number(choice.pick))]));
      lanes = [...lanes].sort((a, b) => times.get(b) - times.get(a));
    }
    const engines = data.engines.slice(0, data.ranks.length ? MOST_ENGINES : MOST);
    return [[...engines, ...lanes.slice(0, MOST - engines.length)], number];
  }

  function chosenRollouts() {
    const step = data.steps.findIndex(([label]) => label === choice.step);
    if (step < 0) return [data.chosen[choice.step === LAST ? "latest" : choice.rollouts].map((place) => data.rollouts[place]), null];
    const [places, number] = data.chosen.steps[step] ?? [[], 0];
    return [places.map((place) => data.rollouts[place]), number];
  }

  // -- drawing --------------------------------------------------------------------------------------------------------

  function columns(lanes, waits, shortest) {
    const shown = { row: [], left: [], right: [], lane: [], what: [], took: [], step: [], ...(waits ? {} : { fill: [], strength: [] }) };
    lanes.forEach((lane, place) => {
      for (const one of lane.shown ??= merged(stretches(lane, choice.from, choice.to), shortest)) {
        const [name, colour, isWaiting] = data.states[one.kind];
        if (isWaiting !== waits) continue;
        shown.row.push(lanes.length - 1 - place);
        shown.left.push(one.start / 1e6);
        shown.right.push(one.end / 1e6);
        shown.lane.push(lane.name);
        shown.what.push(one.share < 99.5 ? `${name}, ${Math.max(Math.round(one.share), 1)} % of it, rest mixed` : name);
        shown.took.push(duration(one.end - one.start));
        shown.step.push(stepOf(one));
        if (waits) continue;
        shown.fill.push(colour);
        shown.strength.push(one.share < 99.5 ? 0.25 + one.share / 200 : 1);
      }
    });
    return shown;
  }

  function drawLanes(figure, lanes, width) {
    const shortest = (choice.to - choice.from) / Math.max(width, 200);
    for (const lane of lanes) lane.shown = null;
    figure.work.data_source.data = columns(lanes, false, shortest);
    figure.waits.data_source.data = columns(lanes, true, shortest);
    const syncs = data.syncs.filter((moment) => moment >= choice.from && moment <= choice.to);
    figure.syncs.data_source.data = { x: syncs.length <= MOST_SYNCS ? syncs.map((moment) => moment / 1e6) : [] };
    const rows = Math.max(lanes.length, 2), axis = figure.model.left[0], most = width < 500 ? 10 : 22;
    const label = (name) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);
    figure.model.y_range.setv({ start: lanes.length - 0.4 - rows, end: lanes.length - 0.4 });
    axis.ticker.ticks = lanes.map((_, place) => place);
    axis.major_label_overrides = new Map(lanes.map((lane, place) => [lanes.length - 1 - place, label(lane.name)]));
    figure.longest = Math.max(0, ...lanes.map((lane) => label(lane.name).length));
    if (figure.model.height !== rows * ROW + AROUND) figure.model.height = rows * ROW + AROUND;
  }

  function showRange(figure, width) {
    const [from, to] = [choice.from / 1e6, choice.to / 1e6];
    figure.model.x_range.setv({ start: from, end: to });
    const axis = figure.model.below[0], FixedTicker = figures.find((one) => one.isOfLanes).model.left[0].ticker.constructor;
    if (axis.ticker.type !== "FixedTicker") {
      axis.ticker = new FixedTicker({ ticks: [] });
    }
    const [places, labels] = ticks(from, to, width);
    axis.major_label_overrides = labels;
    axis.ticker.ticks = places;
  }

  function saidOfRollouts(drawn, all) {
    if (all === null) return choice.step === LAST ? `The ${drawn} latest.` : "";
    if (!drawn) return "No rollout of this step is kept.";
    return all > drawn ? `The ${drawn} longest of ${all}.` : `${all} in this step.`;
  }

  function draw() {
    scheduled = false;
    addControls();
    let said = "", number = 0, lanes = [];
    try {
      [lanes, number] = chosenLanes();
      if (!lanes.length && data.ranks.length) said = "No lane fits.";
    } catch (problem) {
      said = problem.message;
    }
    controls.lanes?.setAttribute("aria-invalid", String(!!said));
    linking = true;
    for (const figure of figures) {
      const width = figure.element.clientWidth - 90;
      showRange(figure, width);
      if (figure.name === "ranks") drawLanes(figure, lanes, width);
      if (figure.name === "rollouts") {
        const [rollouts, all] = chosenRollouts();
        drawLanes(figure, rollouts.flatMap(withServers), width);
        controls.ofWholeRun.hidden = choice.step !== WHOLE;
        controls.rollouts.textContent = saidOfRollouts(rollouts.length, all);
      }
    }
    // One margin for all, so that a moment is at the same place in each.
    const margin = 20 + 6.5 * Math.max(0, ...figures.map((figure) => figure.longest ?? 0));
    for (const { model } of figures) model.min_border_left = Math.round(margin);
    linking = false;
    const ranks = lanes.filter((lane) => lane.group === "rank").length;
    if (!said && number > ranks) said = `${ranks} of ${number} lanes are drawn.`;
    const syncs = data.syncs.filter((moment) => moment >= choice.from && moment <= choice.to).length;
    if (syncs > MOST_SYNCS) said += ` ${syncs} weight syncs: zoom in to see them.`;
    if (controls.said) controls.said.textContent = `${duration(choice.to - choice.from)} shown. ${said}`;
    colour();
    document.documentElement.dataset.states = "drawn";
  }

  function schedule() {
    if (!scheduled) requestAnimationFrame(draw);
    scheduled = true;
  }

  function colour() {
    const style = getComputedStyle(document.documentElement);
    const [fill, hatch] = ["--waiting", "--hatch"].map((name) => style.getPropertyValue(name).trim());
    for (const renderer of figures.flatMap((figure) => figure.hatched)) {
      renderer.glyph.setv({ fill_color: { value: fill }, hatch_color: { value: hatch } });
    }
  }

  function show(from, to, follows = false) {
    choice.follows = follows;
    const shortest = 20, length = Math.max(Math.min(to - from, data.end), shortest);
    choice.from = Math.max(Math.min(from, data.end - length), 0);
    choice.to = choice.from + length;
    schedule();
  }

  // -- controls -------------------------------------------------------------------------------------------------------

  function element(tag, attributes, ...children) {
    const made = Object.assign(document.createElement(tag), attributes);
    made.append(...children);
    return made;
  }

  function select(label, options, chosen, take) {
    const field = element("select", {}, ...options.map(([value, text]) => element("option", { value, textContent: text })));
    field.value = chosen;
    if (field.selectedIndex < 0) field.selectedIndex = 0;
    field.addEventListener("change", () => take(field.value));
    return [element("label", {}, `${label} `, field), field];
  }

  function button(text, label, take) {
    const made = element("button", { type: "button", textContent: text, ariaLabel: label, title: label });
    made.addEventListener("click", take);
    return made;
  }

  // A page that follows a run shows what has been chosen of the new values too, unless somebody has zoomed since.
  function chooseStep(label) {
    choice.step = label;
    const last = data.inOrder.slice(-10), step = data.steps.find(([name]) => name === label);
    const margin = step ? (step[2] - step[1]) * 0.02 : 0;
    if (step) show(step[1] - margin, step[2] + margin, true);
    else if (label === LAST) show(last[0][1], Math.max(...last.map(([, , end]) => end)), true);
    else show(0, data.end, true);
  }

  function stepOptions() {
    const slowest = data.slowest < 0 ? [] : [[data.steps[data.slowest][0], `slowest: ${data.steps[data.slowest][0]}`]];
    const latest = [...data.inOrder].reverse().filter(([label]) => !slowest.some(([other]) => other === label));
    const last = data.steps.length > 10 ? [[LAST, LAST]] : [];
    return [[WHOLE, WHOLE], ...last, ...slowest, ...latest.map(([label]) => [label, label])];
  }

  function pickOptions() {
    const times = data.states.map((_, kind) => Math.max(0, ...data.ranks.map((lane) => lane.totals[kind])));
    const phases = data.states.map(([name], kind) => [String(kind), `longest: ${name}`]).filter(([kind]) => times[kind] > 0);
    const latest = data.ranks.some((lane) => lane.own !== null) ? [["latest", "latest: most own work"]] : [];
    return [["first", "in order"], ...latest, ...phases];
  }

  // Puts the controls in place: those of the whole section above the first chart, and what belongs to a chart above it.
  function addControls() {
    const ofLanes = figures.filter((figure) => figure.isOfLanes);
    const isComplete = ofLanes.every(({ element }) => element.querySelector(".lane-controls"));
    if (isComplete && (!isNew || document.activeElement?.closest(".lane-controls"))) return;
    isNew = false;
    ofLanes.forEach((figure, place) => {
      figure.element.querySelector(".lane-controls")?.remove();
      const bar = element("div", { className: "lane-controls" });
      if (place === 0) bar.append(...commonControls());
      if (figure.name === "ranks" && data.ranks.length > 1) bar.append(...laneControls());
      if (figure.name === "rollouts") bar.append(...rolloutControls());
      if (place === 0) bar.append(controls.said = element("output", {}));
      figure.element.querySelector("figcaption").after(bar);
    });
  }

  function commonControls() {
    const middle = () => (choice.from + choice.to) / 2, length = () => choice.to - choice.from;
    const moves = element("span", { className: "moves" },
      button("◀", "Earlier", () => show(choice.from - length() / 2, choice.to - length() / 2)),
      button("+", "Zoom in", () => show(middle() - length() / 4, middle() + length() / 4)),
      button("−", "Zoom out", () => show(middle() - length(), middle() + length())),
      button("▶", "Later", () => show(choice.from + length() / 2, choice.to + length() / 2)),
      button("Whole run", "Show the whole run", () => { if (controls.step) controls.step.value = WHOLE; chooseStep(WHOLE); }));
    if (!data.steps.length) return [moves];
    const [label, field] = select("Step", stepOptions(), choice.step, chooseStep);
    controls.step = field;
    return [label, moves];
  }

  function laneControls() {
    const field = element("input", { type: "search", value: choice.lanes, placeholder: "rank:0-7 node:2 every:8", size: 22, spellcheck: false });
    field.addEventListener("input", () => { choice.lanes = field.value; schedule(); });
    controls.lanes = field;
    const [pick] = select("Pick", pickOptions(), choice.pick, (value) => { choice.pick = value; schedule(); });
    return [element("label", {}, "Lanes ", field), pick];
  }

  function rolloutControls() {
    const options = [["longest", "the longest"], ["latest", "the latest"]];
    [controls.ofWholeRun] = select("Of the whole run", options, choice.rollouts, (value) => { choice.rollouts = value; schedule(); });
    controls.rollouts = element("output", {});
    return [controls.ofWholeRun, controls.rollouts];
  }

  // -- figures --------------------------------------------------------------------------------------------------------

  // All renderers of the state timeline by the names of their glyphs, and the figures that they are in.
  function found() {
    const renderers = new Map(), models = [];
    const documents = new Set(window.Bokeh ? Bokeh.documents : []);
    if (typeof plots !== "undefined" && plots.document) documents.add(plots.document);
    for (const one of documents) models.push(...(one.all_models ?? one._all_models.values()));
    for (const model of models) {
      const name = model.data_source && model.name;
      if (typeof name === "string" && name.startsWith("states-")) renderers.set(name, model);
    }
    const figure = (name, first) => {
      const model = renderers.has(first) && models.find((one) => one.renderers?.includes?.(renderers.get(first)));
      const element = document.getElementById(`chart-states-${name}`);
      // One that is still being made is left alone.
      if (!model || !element || !Bokeh.index[model.id]?.has_finished()) return [];
      const hatched = [...renderers.values()].filter((one) => model.renderers.includes(one) && one.glyph.hatch_pattern?.value);
      const [work, waits, syncs] = ["work", "waits", "syncs"].map((part) => renderers.get(`states-${name}-${part}`));
      return [{ name, model, element, work, waits, syncs, hatched, isOfLanes: !!work }];
    };
    const present = [["shares", "states-shares-0"], ["ranks", "states-ranks-work"], ["rollouts", "states-rollouts-work"]];
    return [renderers.get("states-packed")?.data_source, present.flatMap(([name, first]) => figure(name, first))];
  }

  function take(source) {
    load(source.data.packed[0]);
    choice.step ??= data.steps.length > MANY_STEPS ? LAST : WHOLE;
    if (![WHOLE, LAST].includes(choice.step) && !data.steps.some(([label]) => label === choice.step)) choice.step = WHOLE;
    if (choice.follows) chooseStep(choice.step);
    isNew = true;
  }

  function follow(figure) {
    if (connected.has(figure.model)) return;
    connected.add(figure.model);
    const range = figure.model.x_range;
    const zoomed = () => {
      const [from, to] = [range.start * 1e6, range.end * 1e6];
      if (!linking && (Math.abs(from - choice.from) > 1 || Math.abs(to - choice.to) > 1)) show(from, to);
    };
    // Not those of what a reset brings back.
    for (const end of [range.properties.start, range.properties.end]) end.change.connect(zoomed);
    // A page that follows a run empties the chart when it gets new values.
    figure.work?.data_source.properties.data.change.connect(() => linking || schedule());
    schedule();
  }

  // Finds the figures and draws them; again where a page that follows a run has made some of them anew.
  function connect() {
    const [packed, present] = found();
    if (!packed || !present.some((figure) => figure.isOfLanes)) return false;
    figures = present;
    if (!connected.has(packed)) {
      connected.add(packed);
      packed.properties.data.change.connect(() => { take(packed); schedule(); });
      take(packed);
    }
    figures.forEach(follow);
    if (figures.some(({ element }) => element.querySelector(".lane-controls") === null)) schedule();
    return true;
  }

  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => figures && colour());
  window.addEventListener("resize", () => figures && schedule());
  function whenThere(attempt) {
    if (!connect() && attempt < 200) setTimeout(whenThere, 50, attempt + 1);
  }
  if (typeof plots !== "undefined") setInterval(connect, 500);
  else if (document.querySelector("[id^=chart-states-]")) whenThere(0);
  return { connect };
})();
