// The line at the top: whether the run runs, its step, and the last sign of each process, which is counted here.
class Status {
  constructor() {
    this.root = document.querySelector(".live");
    this.now = document.querySelector(".now");
    this.connected = true;
    this.status = { state: "starting", processes: [] };
    setInterval(() => this.show(), 1000);
  }

  update(message) {
    if (message.status) {
      this.status = message.status;
      this.received = performance.now();
      this.#showFindings(message.status.findings ?? []);
    }
    if (message.progress) this.progress = message.progress;
    this.show();
  }

  setConnected(connected) {
    if (connected === this.connected) return;
    this.connected = connected;
    this.show();
  }

  show() {
    const { processes, step } = this.status;
    const state = this.connected ? this.status.state : "lost";
    const signs = processes.map((one) => this.#silent(one)).filter((seconds) => seconds !== undefined);
    this.root.dataset.state = state;
    setText(this.root.querySelector("b"), WORDS[state] ?? state);
    setText(this.root.querySelector(".step"), step === null || step === undefined ? "" : `step ${step.toLocaleString("en")}`);
    setText(this.root.querySelector(".sign"), signs.length ? `last sign ${seconds(Math.min(...signs))} ago` : "");
    setText(this.root.querySelector(".progress"), this.#progress());
    setText(this.root.querySelector(".unseen"), WORDS[state] ?? state);
    this.#showSigns(processes);
  }

  // Seconds since the last sign of a process that is not known to have ended.
  #silent(process) {
    const known = typeof process.silent === "number" && ["running", "stopped", "unknown"].includes(process.state);
    return known ? process.silent + (performance.now() - this.received) / 1000 : undefined;
  }

  #progress() {
    const { read, left, shows_all: showsAll } = this.progress ?? {};
    if (!left) return "";
    const percent = `${Math.floor((100 * read) / (read + left))} %`;
    return showsAll ? `reading: ${percent}` : `only the last steps so far, counts and onsets may change; reading the rest: ${percent}`;
  }

  #showSigns(processes) {
    const list = this.root.querySelector(".signs");
    const silent = (one) => this.#silent(one) ?? -1;
    const shown = processes.length > MOST_SIGNS ? [...processes].sort((a, b) => silent(b) - silent(a)).slice(0, MOST_LATE) : processes;
    const entries = shown.map((one) => ({ text: `${one.label} ${said(one, this.#silent(one))}`, tone: toneOf(one, this.#silent(one)), title: placeOf(one) }));
    if (shown.length < processes.length) entries.unshift({ text: `${processes.length} processes; silent for longest:`, tone: "", title: "" });
    while (list.children.length > entries.length) list.lastChild.remove();
    entries.forEach(({ text, tone, title }, place) => {
      const item = list.children[place] ?? list.appendChild(document.createElement("li"));
      setText(item, text);
      if (item.className !== tone) item.className = tone;
      if (item.title !== title) item.title = title;
    });
  }

  #showFindings(findings) {
    this.now.hidden = findings.length === 0;
    const items = findings.map((one) => {
      const item = document.createElement("li");
      item.className = { critical: "bad", warning: "warn" }[one.severity] ?? "notice";
      const said = item.appendChild(document.createElement("b"));
      said.textContent = one.text;
      for (const line of one.evidence ?? []) {
        const paragraph = item.appendChild(document.createElement("p"));
        paragraph.className = "evidence";
        paragraph.textContent = line;
      }
      return item;
    });
    const list = this.now.querySelector("ol");
    const html = items.map((item) => item.outerHTML).join("");
    if (list.innerHTML !== html) list.replaceChildren(...items);
  }
}
const MOST_SIGNS = 32;
const MOST_LATE = 8;
// A process writes every 5 s.
const LATE = 60;
const WORDS = {
  starting: "starting",
  running: "running",
  ended: "ended",
  gone: "gone without an end",
  unknown: "runs on another machine, or ended without a record",
  lost: "connection lost, reconnecting",
};
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
function seconds(value) {
  if (value < 120) return `${Math.max(0, Math.round(value))} s`;
  return value < 7200 ? `${Math.round(value / 60)} min` : `${Math.round(value / 3600)} h`;
}
function said(process, silent) {
  if (silent === undefined) return process.state;
  return process.state === "stopped" ? `stopped, ${seconds(silent)}` : seconds(silent);
}
// Where a process is, or how it ended.
function placeOf(process) {
  const isKnown = process.step !== null && process.step !== undefined;
  return process.cause || [isKnown ? `step ${process.step.toLocaleString("en")}` : "", process.phase].filter(Boolean).join(", ");
}
function toneOf(process, silent) {
  if (process.state === "gone" || process.cause) return "bad";
  return process.state === "stopped" || silent > LATE ? "warn" : "";
}
