// The page that designs a study: a form, and what the collector says about it.
import { chart, histogram, shown } from "./charts.js";
import { access, at, call, choice, copier, download, field, guarded, make, notice } from "./page.js";

const WAIT = 300; // milliseconds after the last change
const [LEAST, MOST] = [0.01, 10]; // of the slider for epsilon
const KINDS = {
  integers: "whole numbers, such as ages",
  reals: "numbers in bins, such as incomes",
  dates: "days, or periods of days",
  times: "times of day",
  categories: "one of a list of labels",
};
const VALUES = {
  integers: [["low", "From", "0"], ["high", "To", "99"]],
  reals: [["low", "From", "0"], ["high", "To", "60000"], ["bins", "Bins", "30"]],
  dates: [["start", "First day", "2026-01-05"], ["end", "Last day", "2026-12-27"], ["step", "Cells of", "1 week"]],
  times: [["start", "From", "00:00"], ["end", "To", "24:00"], ["step", "Cells of", "30 min"]],
  categories: [["labels", "Labels, with commas between them", "car, bus, bike, on foot"]],
};
const PER = { integers: "1", reals: "2000", dates: "1 week", times: "1 hour" };
const numeric = (text) => (/^-?\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : text.trim());

const axes = [];
let latest; // what the collector said last
let asking = new AbortController();
let timer;

/** The slider's place for an epsilon, and back: even steps of its logarithm. */
const placeOf = (epsilon) => (100 * Math.log(epsilon / LEAST)) / Math.log(MOST / LEAST);
const epsilonAt = (place) => Number((LEAST * (MOST / LEAST) ** (place / 100)).toPrecision(2));

/** One axis of the form. */
class AxisForm {
  constructor({ name, kind, epsilon, unit = "" }) {
    this.name = make("input", { value: name, maxlength: 100, required: true });
    this.kind = choice(Object.entries(KINDS), {});
    this.kind.value = kind;
    this.unit = make("input", { value: unit, maxlength: 20 });
    this.epsilon = make("input", { type: "number", min: "0.001", max: "50", step: "any", value: epsilon, required: true });
    this.slider = make("input", { type: "range", min: 0, max: 100, step: 1, value: placeOf(epsilon) });
    this.protect = choice([["distance", "by distance: near values are hidden best"], ["uniform", "all values equally"]]);
    this.per = make("input", {});
    this.optional = make("input", { type: "checkbox" });
    this.away = make("input", {});
    this.clip = make("input", { type: "checkbox" });
    this.values = make("div", { class: "fields" });
    this.meaning = make("p", { class: "big", "aria-live": "polite" });
    this.head = make("h2", {});
    const remove = make("button", { type: "button", class: "second small", click: () => this.remove() }, "Remove");
    const check = (box, text) => make("label", { class: "check" }, box, text);
    this.perField = field("Epsilon is for a distance of", this.per, { kind: "narrow" });
    this.unitField = field("Unit", this.unit, { kind: "narrow" });
    this.awayField = field("How far is no answer from every value", this.away);
    this.clipField = check(this.clip, "Values out of bounds move to the nearest end; otherwise they are refused.");
    this.protectField = field("Protection", this.protect, { kind: "grow" });
    this.element = make(
      "section", { class: "axis" }, this.head,
      make("div", { class: "fields" }, field("What is asked", this.name, { kind: "grow" }), this.unitField),
      field("Values", this.kind, { kind: "grow" }), this.values, this.protectField,
      make("div", { class: "fields" },
        field("Epsilon", this.epsilon, { kind: "narrow" }), this.perField),
      field("Stronger protection to the left, less noise to the right", this.slider, { kind: "grow" }),
      this.meaning,
      make("div", { class: "choices" }, check(this.optional, "People may leave it unanswered."), this.clipField), this.awayField,
      make("div", { class: "buttons" }, remove),
    );
    this.slider.addEventListener("input", () => (this.epsilon.value = epsilonAt(this.slider.value)));
    this.epsilon.addEventListener("input", () => (this.slider.value = placeOf(Number(this.epsilon.value) || LEAST)));
    this.kind.addEventListener("change", () => this.setKind());
    this.element.addEventListener("input", () => this.arrange());
    this.setKind();
  }

  /** Shows the fields of another kind of values. */
  setKind() {
    const kind = this.kind.value;
    this.fields = VALUES[kind].map(([key, , value]) => [key, make("input", { value, required: true })]);
    this.values.replaceChildren(
      ...this.fields.map(([, input], i) => field(VALUES[kind][i][1], input, { kind: kind === "categories" ? "grow" : "narrow" })),
    );
    this.per.value = PER[kind] ?? "";
    this.away.value = { integers: "20", reals: "20000", dates: "10 weeks", times: "6 hours" }[kind] ?? "";
    if (kind === "categories") this.protect.value = "uniform";
    this.arrange();
  }

  /** Hides what does not go with the rest. */
  arrange() {
    const kind = this.kind.value;
    const labels = kind === "categories";
    const byDistance = !labels && this.protect.value === "distance";
    this.protectField.hidden = labels;
    this.perField.hidden = !byDistance;
    this.awayField.hidden = !(byDistance && this.optional.checked);
    this.clipField.hidden = labels;
    this.unitField.hidden = !["integers", "reals"].includes(kind);
    this.head.textContent = this.name.value || "Without a name";
    this.slider.setAttribute("aria-valuetext", `epsilon ${this.epsilon.value}`);
    changed();
  }

  /** The axis as a study file has it. */
  get table() {
    const kind = this.kind.value;
    const entries = this.fields.map(([key, input]) => [key, input.value.trim()]);
    const domain = { kind };
    for (const [key, text] of entries) {
      if (key === "labels") domain.labels = text.split(",").map((label) => label.trim()).filter(Boolean);
      else domain[key] = ["low", "high", "bins"].includes(key) ? numeric(text) : text;
    }
    const protect = { kind: kind === "categories" ? "uniform" : this.protect.value, epsilon: numeric(this.epsilon.value) };
    if (protect.kind === "distance") {
      protect.per = numeric(this.per.value);
      if (this.optional.checked) protect.no_answer = numeric(this.away.value);
    }
    return {
      name: this.name.value.trim(), domain, protect, optional: this.optional.checked,
      outside: this.clip.checked && kind !== "categories" ? "clip" : "refuse",
      unit: this.unitField.hidden ? "" : this.unit.value.trim(),
    };
  }

  remove() {
    if (axes.length === 1) return notice("A study asks at least one thing.");
    axes.splice(axes.indexOf(this), 1);
    this.element.remove();
    axes[0].name.focus();
    return changed();
  }
}

/** Asks the collector about the design, a little after the last change. */
function changed() {
  clearTimeout(timer);
  timer = setTimeout(() => guarded(ask), WAIT);
}

async function ask() {
  asking.abort();
  asking = new AbortController();
  at("found").setAttribute("aria-busy", "true");
  const given = { name: at("name").value.trim(), people: numeric(at("people").value), axes: axes.map((axis) => axis.table) };
  latest = await call("POST", "/v1/design", { body: JSON.stringify(given), signal: asking.signal });
  show();
}

function show() {
  latest.axes.forEach((found, i) => axes[i] && (axes[i].meaning.textContent = meaning(found)));
  at("found").replaceChildren(...latest.axes.map(card));
  for (const [i, found] of latest.axes.entries()) drawExample(at("found").children[i], found);
  at("file").textContent = latest.study;
  at("python").textContent = latest.python;
  at("command").textContent = latest.command;
  at("explanation").textContent = latest.explanation;
  at("found").setAttribute("aria-busy", "false");
}

/** The sentence that says what epsilon means: the second pair, which is some units apart. */
const meaning = ({ words }) => words[words.length > 3 ? 1 : 0];

/** What is found about one axis. */
function card(found) {
  const { example } = found;
  const host = make("div", { class: "chart" });
  const level = Math.round(100 * example.level);
  return make(
    "section", {},
    make("h2", {}, `${found.name}: what to expect`),
    make("figure", {}, host,
      make("figcaption", {},
        make("span", { class: "key" }), "invented people, ", make("span", { class: "key reach" }),
        `where ${level}% of the answers about them would lie: ± ${shown(example.reach, example.reach)} people on average (${example.method} answers, ${latest.people.toLocaleString("en")} people).`)),
    make("p", {}, `Sent by ${found.channel} as ${found.sends}${found.reason ? `, because ${found.reason}` : ""}.`),
    make("details", {}, make("summary", {}, `The guarantee in words: ${found.guarantee}`), make("ul", {}, ...found.words.map((line) => make("li", {}, line)))),
  );
}

function drawExample(element, { name, example }) {
  const summary = `An example histogram of ${name} with a band of ± ${shown(example.reach, example.reach)} people, from ${example.labels[0]} to ${example.labels.at(-1)}.`;
  chart(element.querySelector(".chart"), (width) =>
    histogram(width, { labels: example.labels, values: example.people, low: example.low, high: example.high, band: true, summary }),
  );
}

function add(options) {
  const axis = new AxisForm(options);
  axes.push(axis);
  at("axes").append(axis.element);
  return axis;
}

const file = () => `${latest?.name.replaceAll(/[^\p{L}\p{N}]+/gu, "-") || "study"}.toml`;
at("name").value = "commute";
at("people").value = "10000";
add({ name: "age", kind: "integers", epsilon: 0.2, unit: "years" });
add({ name: "mode", kind: "categories", epsilon: 1 });
at("form").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["name", "people"]) at(id).addEventListener("input", changed);
at("add").addEventListener("click", () => add({ name: `question ${axes.length + 1}`, kind: "integers", epsilon: 0.2 }).name.focus());
at("file-actions").append(
  make("button", { type: "button", class: "small", click: () => latest && download(file(), new Blob([latest.study], { type: "application/toml" })) }, "Download the file"),
  copier("Copy the file", () => at("file").textContent),
  make("button", { type: "button", class: "second small", click: publish }, "Publish it"),
);
at("python-actions").append(copier("Copy the Python", () => at("python").textContent));
at("command-actions").append(copier("Copy the command", () => at("command").textContent));

/** Takes the file along to the page that publishes. */
function publish() {
  if (!latest) return;
  sessionStorage.setItem("sfumato study", latest.study);
  location.assign("/operate#publish");
}

access("an analyst, for more designs at a time", changed);
