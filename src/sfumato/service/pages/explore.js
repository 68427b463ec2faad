// The page of analysts: what may be asked of a study, each answer with its picture, its numbers, and
// the same question for elsewhere.
import { ask, checked, asCommand, asCsv, asCurl, asGeoJson, asPython, between, entries, quoted } from "./asking.js";
import { chart, curve, heatmap, histogram, picture, rows, shown } from "./charts.js";
import { Refused, access, at, call, copier, day, download, facts, guarded, make, notice, scrolled, table, token } from "./page.js";

const WAIT = 250; // milliseconds after the last move of a range
const LOOKED_AT = {
  frequency: "how often each report came",
  bits: "how often each bit is set",
  identical: "how often the same report came",
  mixture: "how far all are from the nearest population",
};
const QUARTILES = [0.1, 0.25, 0.5, 0.75, 0.9];
const ENTRIES = 50;
const COORDINATES = ["_lat", "_lon"]; // endings of the names of the two axes of places
const ENDS = [["row-from", "column-from"], ["row-to", "column-to"]];

let study;
let panels = [];
let chosen = [0, 0];
let patch; // the first and the last row and column that are marked on the map
let lastEntry = 0;
let turn = 0; // goes up when what is being asked is not wanted any more

/** The notes below an answer: how it was found, and what to know. */
function said({ answer, tally, reports, entry }, question) {
  const level = Math.round(100 * answer.level);
  const where = question.where ? ` Only people with ${question.where}.` : "";
  const notes = (answer.notes ?? []).map((note) => ` Note: ${note}.`).join("");
  return `${reports.toLocaleString("en")} reports, ${answer.method}, ${level}% intervals; tally ${tally}, entry ${entry} of the log.${where}${notes}`;
}

/** A number with its error, and beside it the interval. */
function figure({ value, stderr, low, high, n }, fraction) {
  if (value === null) return make("p", { class: "figure" }, "–");
  const scale = fraction ? 100 : 1;
  const said = (each, error = stderr) => (each === null ? "–" : shown(each * scale, error * scale));
  const unit = fraction ? " %" : "";
  const share = fraction || !n ? "" : `, ${shown((100 * value) / n, (100 * stderr) / n)} % of all`;
  const text = `${fraction ? " of people" : " people"}, from ${said(low)} to ${said(high)}${unit}${share}`;
  return make("p", { class: "figure" }, `${said(value)} ± ${said(stderr)}${unit}`, make("small", {}, text));
}

/** An answer with its picture: asked, drawn, explained, and to be taken along. */
class Panel {
  #host;
  #show;
  #asking = new AbortController();

  /**
   * @param {string} id Of the element that holds it.
   * @param {(found: object, host: HTMLElement) => object | undefined} show Draws an answer; gives the chart, if there is one.
   */
  constructor(id, show) {
    this.#host = at(id);
    this.#show = show;
    this.picture = make("div", { class: "chart" });
    this.caption = make("figcaption", { "aria-live": "polite" });
    this.lead = make("div", {});
    this.numbers = make("div", {});
    this.actions = make("div", { class: "actions" });
    this.#host.replaceChildren(make("figure", {}, this.picture, this.lead, this.caption), this.numbers, this.actions);
    this.clear();
    panels.push(this);
  }

  clear(text = "") {
    this.#asking.abort();
    this.found = undefined;
    this.picture.hidden = true;
    this.caption.textContent = text;
    for (const each of [this.lead, this.numbers, this.actions]) each.replaceChildren();
  }

  /** Asks a question, and shows the answer; a question that comes later takes its place. */
  async ask(question) {
    this.#asking.abort();
    this.#asking = new AbortController();
    const { signal } = this.#asking;
    this.picture.classList.add("busy");
    const progress = (share) => (this.caption.textContent = `Decoding: ${Math.round(100 * share)} % done …`);
    try {
      this.found = await ask(study.fingerprint, question, { signal, progress });
      this.question = question;
      lastEntry = Math.max(lastEntry, this.found.entry);
      this.show();
      return this.found;
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      if (!(error instanceof Refused)) throw error;
      this.clear(error.message);
      return undefined;
    } finally {
      this.picture.classList.remove("busy");
    }
  }

  show() {
    const { answer, tally } = this.found;
    this.caption.textContent = said(this.found, this.question);
    this.lead.replaceChildren();
    const plot = this.#show(this.found, this.lead);
    this.picture.hidden = !plot;
    this.draw = plot ? chart(this.picture, plot) : () => {};
    this.numbers.replaceChildren(...(Array.isArray(answer.values) ? [numbers(answer)] : []));
    const name = [study.name, answer.kind ?? "answer", ...(answer.axes ?? []), `tally ${tally}`].join("-").replaceAll(/[^\p{L}\p{N}]+/gu, "-");
    const labels = answer.labels?.[0] ?? [];
    const save = (label, work) => make("button", { type: "button", class: "second small", click: () => guarded(work) }, label);
    this.actions.replaceChildren(
      make("span", { class: "hint" }, "Copy as"),
      copier("Python", () => asPython(study, this.question)),
      copier("command", () => asCommand(study, this.question, labels)),
      copier("curl", () => asCurl(study, this.question)),
      make("span", { class: "hint" }, "Save as"),
      save("CSV", () => download(`${name}.csv`, new Blob([asCsv(answer)], { type: "text/csv" }))),
    );
    if (placesOf(answer)) this.actions.append(save("GeoJSON", async () => download(`${name}.geojson`, new Blob([await asGeoJson(study.fingerprint, this.question)], { type: "application/geo+json" }))));
    if (plot) this.actions.append(save("PNG", async () => download(`${name}.png`, await picture(this.picture.querySelector("svg")))));
  }
}

/** All numbers of an answer as a table. */
function numbers(answer) {
  const list = entries(answer);
  const fraction = isShare(answer);
  const scale = fraction ? 100 : 1;
  const cells = list.map(([names, value, stderr, low, high]) => {
    const error = (stderr ?? (high - low) / 4) * scale;
    return [...names, ...[value, stderr, low, high].map((each) => (each === null ? "–" : shown(each * scale, error)))];
  });
  const axes = answer.axes ?? [];
  const columns = [...(names(list).length === axes.length ? axes : ["answer"]), fraction ? "percent" : answer.unit || "value", "± standard error", "from", "to"];
  const places = [0, 1, 2, 3].map((i) => columns.length - 4 + i);
  return make("details", {}, make("summary", {}, "The same as a table"), scrolled(`Numbers of the ${answer.kind} of ${axes.join(" and ")}`, table(`${list.length.toLocaleString("en")} numbers`, columns, cells, places)));
}
const names = (list) => list[0]?.[0] ?? [];

const axisOf = (name) => study.axes.find((axis) => axis.name === name);
const where = () => at("where").value.trim() || undefined;
const isShare = (answer) => answer.unit === "fraction";

/** Whether an answer is the heat map of places, latitude down the side. */
function placesOf({ kind, axes }) {
  if (kind !== "heatmap" || axes.some((name) => axisOf(name).unit !== "°")) return false;
  const [one, other] = axes.map((name, i) => name.endsWith(COORDINATES[i]) && name.slice(0, -COORDINATES[i].length));
  return one !== false && one === other;
}

/** The ends of a cell, to ten metres. */
const inDegrees = (label) => label.split("..").map((end) => `${+Number(end).toFixed(4)}°`).join("..");

/** The height of a cell on the ground over its width, in the middle of the map. */
function ratioOf({ edges: [up, across] }) {
  const [tall, wide] = [up, across].map((ends) => (ends.at(-1) - ends[0]) / (ends.length - 1));
  return tall / (wide * Math.cos((Math.PI / 360) * (up[0] + up.at(-1))));
}

// The panels

const bars = new Panel("histogram", ({ answer }) => {
  const { values, low, high } = answer;
  const [labels] = answer.labels;
  const most = values.indexOf(Math.max(...values));
  const summary = `Histogram of ${answer.axes[0]}: ${labels.length} bars from ${labels[0]} to ${labels.at(-1)}; the largest is ${labels[most]}.`;
  return (width) => histogram(width, { labels, values, low, high, fraction: isShare(answer), chosen, summary });
});

const range = new Panel("range", ({ answer }, host) => void host.append(figure(answer, false)));

const steps = new Panel("cdf", ({ answer }) => {
  const { values, low, high } = answer;
  const [labels] = answer.labels;
  const summary = `Share of people up to each value of ${answer.axes[0]}, with the band of its intervals.`;
  return (width) => curve(width, { labels, values, low, high, summary });
});

const quantiles = new Panel("quantile", ({ answer }, host) => {
  const unit = axisOf(at("axis").value)?.unit ?? "";
  const cells = entries(answer).map(([[label], ...rest], i) => [label ?? `${100 * QUARTILES[i]}%`, ...rest.filter((_, k) => k !== 1).map((value) => written(value))]);
  host.append(scrolled("Table of quantiles", table(`Below which value a share of people lies${unit ? `, in ${unit}` : ""}`, ["share", "value", "from", "to"], cells, [1, 2, 3])));
});
const written = (value) => (typeof value === "number" ? value.toLocaleString("en", { maximumSignificantDigits: 5 }) : value ?? "–");

const map = new Panel("heatmap", ({ answer }, host) => {
  const { values, low, high } = answer;
  const ratio = placesOf(answer) ? ratioOf(answer) : undefined;
  const labels = ratio ? answer.labels.map((list) => list.map(inDegrees)) : answer.labels;
  host.append(make("p", { class: "hint" }, make("span", { class: "key cell" }), "people, the more the stronger ", make("span", { class: "key noise" }), "below the noise: the interval begins at zero"));
  const summary = `Heat map of ${answer.axes.join(" and ")}: ${labels[0].length} by ${labels[1].length} cells.`;
  return (width) => heatmap(width, { labels, values, low, high, fraction: isShare(answer), chosen: patch, ratio, summary });
});

const part = new Panel("part", ({ answer }, host) => void host.append(figure(answer, false)));

const groups = new Panel("groups", ({ answer }) => {
  const { values, low, high } = answer;
  const [labels] = answer.labels;
  const summary = `Groups of ${answer.axes[0]} compared: ${labels.map((label, i) => `${label} ${shown(values[i], (high[i] - low[i]) / 4)}`).join(", ")}.`;
  return (width) => rows(width, { labels, values, low, high, summary });
});

const own = new Panel("count", ({ answer }, host) => void host.append(figure(answer, "fraction" in own.question)));

// Asking

/** The bars of an axis, some of which are marked. */
async function askBars() {
  const axis = axisOf(at("axis").value);
  chosen = [-1, -1];
  clearTimeout(choose.timer);
  range.clear();
  const fraction = at("shares").checked || undefined;
  const found = await bars.ask(pruned({ histogram: axis.name, bins: groupsOf("bins"), where: where(), fraction }));
  at("brush").hidden = !found;
  if (!found) return;
  const last = found.answer.labels[0].length - 1;
  const ends = [Math.round(last / 4), Math.round(last / 2)];
  for (const id of ["from", "to"]) at(id).max = last;
  choose(...ends);
}

/** The curve and the quantiles of an axis that has an order. */
async function askCurve() {
  const axis = axisOf(at("axis").value);
  at("ordered").hidden = !axis.ordered;
  if (!axis.ordered) return;
  await steps.ask(pruned({ cdf: axis.name, bins: groupsOf("bins"), where: where() }));
  if (axis.numeric) await quantiles.ask(pruned({ quantile: axis.name, at: QUARTILES, where: where() }));
  else quantiles.clear("Only axes of numbers have quantiles.");
}

async function askSpread() {
  await askBars();
  await askCurve();
}

const groupsOf = (id) => Number(at(id).value) || undefined;

const pruned = (question) => Object.fromEntries(Object.entries(question).filter(([, value]) => value !== undefined));

/** Marks bars, and asks how many people are in them, a little after the last move. */
function choose(one, other) {
  chosen = [Math.min(one, other), Math.max(one, other)];
  const [labels] = bars.found.answer.labels;
  for (const [id, place] of [["from", one], ["to", other]]) {
    at(id).value = place;
    at(id).setAttribute("aria-valuetext", labels[place]);
  }
  bars.draw();
  clearTimeout(choose.timer);
  const question = between(axisOf(at("axis").value), labels, ...chosen);
  choose.timer = setTimeout(() => range.ask(pruned({ count: [question, where()].filter(Boolean).join(", ") })), WAIT);
}

/** Marks cells of the map, and asks how many people are in them, a little after the last move. */
function choosePatch(...corners) {
  const { axes, labels } = map.found.answer;
  patch = labels.map((_, i) => corners.map((corner) => corner[i]).sort((a, b) => a - b));
  corners.forEach((corner, k) => corner.forEach((place, i) => {
    at(ENDS[k][i]).value = place;
    at(ENDS[k][i]).setAttribute("aria-valuetext", labels[i][place]);
  }));
  map.picture.drawn.mark(patch);
  clearTimeout(choosePatch.timer);
  const question = patch.map(([from, to], i) => between(axisOf(axes[i]), labels[i], from, to)).join(", ");
  choosePatch.timer = setTimeout(() => part.ask({ count: question }), WAIT);
}

/** Lets a pointer choose from one place of a picture to another. */
function dragging(panel, choose) {
  let start = null;
  const place = (event) => {
    const { left, top } = panel.picture.getBoundingClientRect();
    return panel.picture.drawn.placeOf(event.clientX - left, event.clientY - top);
  };
  panel.picture.addEventListener("pointerdown", (event) => {
    if (!panel.found) return;
    start = place(event);
    panel.picture.setPointerCapture(event.pointerId);
    choose(start, start);
  });
  panel.picture.addEventListener("pointermove", (event) => start !== null && choose(start, place(event)));
  for (const name of ["pointerup", "pointercancel"]) panel.picture.addEventListener(name, () => (start = null));
}

async function askMap() {
  const [first, second] = [at("first").value, at("second").value];
  patch = undefined;
  clearTimeout(choosePatch.timer);
  part.clear();
  at("patch").hidden = true;
  if (first === second) return map.clear("Choose two different things.");
  const found = await map.ask(pruned({ heatmap: [first, second], bins: groupsOf("cells") }));
  if (!found) return;
  at("patch").hidden = false;
  const last = found.answer.labels.map((labels) => labels.length - 1);
  for (const ids of ENDS) ids.forEach((id, i) => (at(id).max = last[i]));
  choosePatch(...[4, 2].map((share) => last.map((most) => Math.round(most / share))));
}

async function askGroups() {
  const [kind, name] = JSON.parse(at("of").value);
  at("share-field").hidden = kind !== "fraction";
  const axis = axisOf(at("by").value);
  if (kind === "fraction" && !at("share").value.trim()) return groups.clear("Say which people the share is of, such as age=18..30.");
  const of = { [kind]: kind === "fraction" ? at("share").value.trim() : kind === "count" ? "" : name };
  return groups.ask(pruned({ groups: axis.name, of, bins: axis.ordered ? 8 : undefined }));
}

// What is known without a question

async function showCounters() {
  const { tally, reports, counters } = await call("GET", `/v1/studies/${study.fingerprint}/counts`);
  const words = { accepted: "accepted", repeated: "repeated: ids that had come before, counted once" };
  const lines = Object.entries(counters).map(([reason, count]) => [words[reason] ?? `refused: ${reason}`, count.toLocaleString("en")]);
  at("counters").replaceChildren(
    make("p", { class: "figure" }, reports.toLocaleString("en"), make("small", {}, ` reports are counted, in version ${tally} of the tally`)),
    lines.length ? table("By what became of them", ["what became of it", "reports"], lines, [1]) : make("p", { class: "quiet" }, "None has come yet."),
  );
}

/** Whether a population could explain the reports; a collector may not check. */
async function showCheck() {
  let found;
  try {
    found = await checked(study.fingerprint);
  } catch (error) {
    at("check").hidden = error.status === 404;
    at("checked").replaceChildren(make("p", {}, error.message));
    if (!(error instanceof Refused)) throw error;
    return;
  }
  at("check").hidden = false;
  const { alarm, p_value: chance, significance, tests, left_out: left, unseen } = found.answer;
  const cells = tests.map(({ axes, kind, p_value: each }) => [axes.join(", "), LOOKED_AT[kind] ?? kind, each.toPrecision(2)]);
  const odd = tests.filter(({ p_value: each }) => each <= significance);
  at("checked").replaceChildren(
    make("p", { class: "big" }, alarm ? "No population explains these reports: somebody may have made them up." : "Nothing speaks against it."),
    odd.length ? make("ul", {}, ...odd.map(({ axes, words }) => make("li", {}, `${axes.join(", ")}: ${words}.`))) : "",
    make("p", { class: "hint" }, `The smallest p-value is ${chance.toPrecision(2)}; below ${significance} is an alarm.`),
    scrolled("Table of tests", table(`${tests.length} tests, each for any population`, ["about", "what is looked at", "p-value"], cells, [2])),
    make("p", { class: "quiet" }, unseen),
    left.length ? make("ul", { class: "quiet" }, ...left.map((each) => make("li", {}, `Not checked: ${each}`))) : "",
  );
}

/** The newest entries of the log. */
async function showLog() {
  const text = await call("GET", `/v1/questions?after=${Math.max(0, lastEntry - ENTRIES)}`);
  const lines = text.trim().split("\n").filter(Boolean).map((line) => JSON.parse(line)).reverse();
  const cells = lines.map((line) => [`${line.number}`, line.time.replace("T", " ").replace("Z", ""), line.who, JSON.stringify(line.asked), `${line.tally}`]);
  at("entries").replaceChildren(scrolled("Table of questions", table("The newest first; each is sealed with a digest of those before", ["entry", "time (UTC)", "who", "asked", "tally"], cells)));
}

// The study

function link(path, text) {
  return make("a", { href: `/v1/studies/${study.fingerprint}/${path}` }, text);
}

function showFacts() {
  const answer = `/answer/${study.fingerprint}`;
  at("facts").replaceChildren(
    facts([
      ["Fingerprint", make("code", {}, study.fingerprint)],
      ["Digest of the program", make("code", {}, study.digest)],
      ["Published", `${day(study.published)}; answers from ${study.minimum.toLocaleString("en")} reports on`],
      ["What is kept", study.retention],
      ["See", make("span", {}, link("explanation", "the guarantee in words"), ", ", link("study", "the study file"), ", ", link("program", "the device program"), ", ", link("audit", "the exact audit"), ", ", make("a", { href: answer }, "the page on which people answer"))],
    ]),
  );
}

const fill = (id, pairs) => at(id).replaceChildren(...pairs.map(([value, text]) => make("option", { value }, text)));

/** Shows a study, and asks it what one would ask first. */
async function open() {
  close();
  study = await call("GET", `/v1/studies/${at("study").value}`);
  history.replaceState(null, "", `?study=${study.fingerprint}`);
  showFacts();
  const pairs = study.axes.map(({ name, unit }) => [name, unit ? `${name}, in ${unit}` : name]);
  const [first, second] = study.axes;
  for (const id of ["axis", "first", "second", "by"]) fill(id, pairs);
  const place = Math.max(0, study.axes.findIndex(({ name, unit }) => unit === "°" && name.endsWith(COORDINATES[0])));
  at("first").value = study.axes[place].name;
  at("second").value = (study.axes[place + 1] ?? second ?? first).name;
  at("by").value = (study.axes.find((axis) => !axis.ordered) ?? first).name;
  fill("of", [
    [JSON.stringify(["count", ""]), "how many people"],
    [JSON.stringify(["fraction", ""]), "the share of people with …"],
    ...study.axes.filter((axis) => axis.numeric).map(({ name }) => [JSON.stringify(["mean", name]), `the mean of ${name}`]),
  ]);
  const mean = study.axes.find((axis) => axis.numeric && axis.name !== at("by").value);
  at("of").value = JSON.stringify(mean ? ["mean", mean.name] : ["count", ""]);
  at("text").value = at("where").value = "";
  at("text").placeholder = `such as ${quoted(first.name)}=${first.ordered ? "18..30" : first.labels[0]}`;
  at("pairs").hidden = at("compared").hidden = study.axes.length < 2;
  at("asked").hidden = false;
  await refresh();
}

/** Asks everything again, until the study or the token is another one. */
async function refresh() {
  turn += 1;
  const mine = turn;
  const several = study.axes.length > 1;
  const works = [showCounters, askBars, askCurve, ...(several ? [askMap, askGroups] : []), again, showCheck];
  await guarded(async () => {
    for (const work of works) if (mine === turn) await work();
  });
}

const again = () => (own.found ? own.ask(own.question) : undefined);

/** Ends what is being asked, and hides what was answered. */
function close() {
  turn += 1;
  for (const each of [choose, choosePatch]) clearTimeout(each.timer);
  for (const panel of panels) panel.clear();
  at("asked").hidden = true;
  for (const id of ["facts", "entries"]) at(id).replaceChildren();
}

async function begin() {
  close();
  at("study").replaceChildren();
  if (!token()) return notice("Enter the token of an analyst above. It stays in this tab.");
  const { studies } = await call("GET", "/v1/studies");
  if (!studies.length) return notice("No study is published here yet.");
  fill("study", studies.map(({ fingerprint, name }) => [fingerprint, `${name} (${fingerprint.slice(0, 12)})`]));
  const wanted = new URLSearchParams(location.search).get("study");
  at("study").value = studies.some(({ fingerprint }) => fingerprint === wanted) ? wanted : studies.at(-1).fingerprint;
  notice();
  return open();
}

const answers = (id, work) =>
  at(id).addEventListener("submit", (event) => {
    event.preventDefault();
    guarded(work);
  });
answers("spread", askSpread);
answers("map", askMap);
answers("compare", askGroups);
answers("own", () => own.ask({ [at("kind").value]: at("text").value.trim() }));
at("axis").addEventListener("change", () => guarded(askSpread));
at("shares").addEventListener("change", () => guarded(askSpread));
for (const id of ["by", "of"]) at(id).addEventListener("change", () => guarded(askGroups));
for (const id of ["from", "to"]) at(id).addEventListener("input", () => choose(Number(at("from").value), Number(at("to").value)));
at("study").addEventListener("change", () => guarded(open));
at("again").addEventListener("click", () => study && refresh());
at("show-log").addEventListener("click", () => guarded(showLog));
for (const id of ENDS.flat()) at(id).addEventListener("input", () => choosePatch(...ENDS.map((ids) => ids.map((each) => Number(at(each).value)))));
dragging(bars, choose);
dragging(map, choosePatch);
access("an analyst", () => begin().catch((error) => (error instanceof Refused ? notice(error.message) : Promise.reject(error))));
