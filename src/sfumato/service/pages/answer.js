// The page on which people answer. The device program is pinned by the digest in the page; answers
// stay in its fields, and the client alone makes, remembers and sends the report.
import { BrowserStore, Client, MemoryStore, Program, SfumatoError } from "/client/sfumato.js";
import { at, choice, make, notice, table } from "./page.js";

const DAY = 86_400_000;
const MOST_RADIOS = 8;
const LANGUAGES = ["en", "de"];
const ROUND = new URLSearchParams(location.search).get("round") || "1";
const fingerprint = location.pathname.split("/").pop();
const digest = document.querySelector("meta[name=sfumato-digest]").content;

let words; // of the language that is shown
let language;
let program;
let client;
let questions = [];
let shown; // what the page says below its parts, by the names of words, to be said in any language
let units = {};

/** A word of the page, with what it names filled in. */
const say = (name, held = {}) => words[name].replace(/{(\w+)}/g, (_, key) => held[key]);

async function speak(wanted) {
  language = wanted;
  words = await (await fetch(`/pages/answer.${language}.json`)).json();
  document.documentElement.lang = language;
  at("language").value = language;
  for (const each of document.querySelectorAll("[data-word]")) each.textContent = say(each.dataset.word);
  for (const each of document.querySelectorAll("[data-label]")) each.setAttribute("aria-label", say(each.dataset.label));
  for (const question of questions) question.speak();
  if (program) await retell();
}

/** A number as the language writes it. */
const number = (value, options = {}) => value.toLocaleString(language, { maximumSignificantDigits: 15, ...options });

/** The double that 16 hexadecimal digits stand for. */
const double = (digits) => new DataView(Uint8Array.from(digits.match(/../g), (pair) => parseInt(pair, 16)).buffer).getFloat64(0);

/** The first and the last value of an axis of numbers. */
function bounds({ kind, low, high, edges }) {
  if (kind === "integers") return [Number(low), Number(high)];
  if (Array.isArray(edges)) return [double(edges[0]), double(edges.at(-1))];
  const [first, step, below] = [edges.first, edges.step, edges.below].map(Number);
  return [first / below, (first + step * edges.count) / below];
}

/** One question: its control, and the value that is entered. */
class Question {
  constructor(axis) {
    Object.assign(this, axis);
    this.legend = make("legend", {}, this.name);
    this.hint = make("span", { class: "hint", id: `hint-${Question.count}` });
    this.skip = make("input", { type: "checkbox", change: () => this.skipped() });
    this.skipText = make("span", {});
    this.controls = this.make();
    const skip = this.optional ? make("label", { class: "check" }, this.skip, this.skipText) : null;
    this.element = make("fieldset", {}, this.legend, this.controls, this.hint, skip);
    Question.count += 1;
    this.speak();
  }

  make() {
    const label = { "aria-label": this.name, "aria-describedby": this.hint.id };
    if (this.kind === "categories" && this.labels.length <= MOST_RADIOS) {
      const radio = (text) => make("label", { class: "check" }, make("input", { type: "radio", name: `question ${Question.count}`, value: text }), text);
      return make("div", { class: "choices" }, ...this.labels.map(radio));
    }
    if (this.kind === "categories") return choice([["", ""], ...this.labels], label);
    if (this.kind === "dates" || this.kind === "times") {
      const type = this.kind === "dates" ? "date" : this.of_day ? "time" : "datetime-local";
      return make("input", { type, ...label });
    }
    const [min, max] = bounds(this);
    return make("input", { type: "number", inputmode: this.kind === "integers" ? "numeric" : "decimal", min, max, step: this.kind === "integers" ? 1 : "any", ...label });
  }

  /** What a value may be, in words. */
  get rule() {
    const unit = units[this.name] ? ` ${units[this.name]}` : "";
    if (this.kind === "categories") return "";
    if (this.kind === "integers" || this.kind === "reals") {
      const [low, high] = bounds(this).map((end) => number(end));
      return say("between", { low, high }) + unit;
    }
    if (this.of_day) return "";
    const ends = [this.first, this.first + this.step * this.cells - 1];
    const [low, high] = ends.map((end) => new Date(this.kind === "dates" ? end * DAY : end * 1000).toLocaleDateString(language, { timeZone: "UTC" }));
    return say("between", { low, high });
  }

  speak() {
    this.hint.textContent = this.rule;
    this.hint.hidden = !this.rule;
    this.skipText.textContent = say("skipped");
    if (this.controls.options) this.controls.options[0].textContent = say("choose");
  }

  skipped() {
    for (const each of this.inputs) each.disabled = this.skip.checked;
  }

  get inputs() {
    return this.controls.matches("input, select") ? [this.controls] : [...this.controls.querySelectorAll("input")];
  }

  /** The value that is entered; null for none. */
  get value() {
    if (this.skip.checked) return null;
    if (this.controls.matches(".choices")) return this.controls.querySelector(":checked")?.value ?? null;
    const { value } = this.controls;
    if (value === "") return null;
    return this.kind === "integers" || this.kind === "reals" ? Number(value) : value;
  }

  /** Whether the value is one of the axis; the client decides about the rest. */
  get complete() {
    return this.skip.checked || (this.value !== null && this.inputs.every((each) => each.validity.valid));
  }
}
Question.count = 0;

/** A client that remembers in the browser's storage, or, where that is blocked, in this page. */
async function opened() {
  const kept = new Client(program, { url: location.origin, store: new BrowserStore() });
  try {
    await kept.spent();
    return kept;
  } catch (error) {
    if (error.code !== "store") throw error;
    notice(say("storage"));
    return new Client(program, { url: location.origin, store: new MemoryStore() });
  }
}

const rounds = async () => (await client.spent()).studies.find((each) => each.fingerprint === fingerprint)?.rounds ?? 0;

/** E as a number, from "3/2". */
function ratio(total) {
  const [above, below = 1] = total.split("/").map(Number);
  return above / below;
}

/** e^E in words. */
function times(e) {
  const value = Math.exp(e);
  return value < 1e6 ? number(Number(value.toPrecision(2))) : `10${`${Math.ceil(e / Math.LN10)}`.replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit])}`;
}

/** Says everything that is not a fixed word once more. */
async function retell() {
  const { total, studies } = await client.spent();
  const lines = studies.map(({ study, rounds: count, total: own }) => {
    const held = { study, rounds: count === 1 ? say("round") : say("several", { count: number(count) }) };
    if (own === null) return say("unbounded", held);
    return say("rounds", { ...held, e: number(ratio(own), { maximumSignificantDigits: 4 }), times: times(ratio(own)) });
  });
  if (lines.length > 1 && total !== null) lines.push(say("all", { e: number(ratio(total), { maximumSignificantDigits: 4 }) }));
  at("spent").textContent = lines.join("\n") || say("none");
  at("memory").textContent = shown.memory ? say(shown.memory) : "";
  at("outcome").textContent = shown.outcome ? say(shown.outcome) : "";
  if (shown.report) tell(shown.report);
}

/** Shows a report, block by block and as bytes. */
function tell(report) {
  const results = program.layout.unpack(report);
  const rows = program.blocks.map(({ places, kind, count }, i) => {
    const about = places.map((place) => program.axes[place].name).join(", ");
    const bits = () => Array.from({ length: count }, (_, place) => (results[i] >> BigInt(place)) & 1n).join("");
    const text = kind === "bits" ? say("bits", { bits: bits(), count: number(count) }) : say("symbol", { symbol: number(Number(results[i]) + 1), count: number(count) });
    return [about, text];
  });
  at("parts").replaceChildren(table(say("caption"), [say("part"), say("says")], rows));
  at("bytes").textContent = Array.from(report, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
  at("report").replaceChildren(shown.outcome ? "" : make("p", {}, say(shown.fresh ? "fresh" : "again")));
  at("made").hidden = false;
}

/** Makes the report, or gives the one that was made before. */
async function blur() {
  notice();
  const wrong = questions.find((question) => !question.complete);
  const before = await rounds();
  if (wrong && !shown.held) {
    const { name, rule } = wrong;
    notice(rule ? say("missing", { name, rule }) : say("incomplete", { name }));
    wrong.inputs[0].focus();
    return;
  }
  const record = Object.fromEntries(questions.map((question) => [question.name, question.value]));
  const report = await client.report(record, { round: ROUND });
  shown = { report, fresh: (await rounds()) > before, memory: shown.memory, held: true };
  at("send").disabled = false;
  await retell();
}

/** Sends what waits. */
async function send() {
  notice();
  at("send").disabled = true;
  try {
    const { sent, expired, refused } = await client.send({ tries: 3 });
    shown.outcome = refused.length ? "refused" : expired ? "expired" : sent ? "thanks" : "before";
  } finally {
    at("send").disabled = !shown.report || shown.outcome === "thanks";
  }
  await retell();
}

function failed(error) {
  notice(error instanceof SfumatoError ? error.message : say("failed"));
  if (!(error instanceof SfumatoError)) throw error;
}

async function begin() {
  const wanted = new URLSearchParams(location.search).get("lang") ?? navigator.language.slice(0, 2);
  await speak(LANGUAGES.includes(wanted) ? wanted : "en");
  at("language").addEventListener("change", () => speak(at("language").value).catch(failed));
  if (!digest) {
    at("main").replaceChildren(make("section", {}, make("p", { class: "big" }, say("unknown"))));
    return;
  }
  const base = `/v1/studies/${fingerprint}`;
  const text = await (await fetch(`${base}/program`)).text();
  program = await Program.read(text, { digest });
  at("title").textContent = document.title = program.name;
  at("digest").textContent = digest;
  const { axes = [] } = await (await fetch(base)).json();
  units = Object.fromEntries(axes.map(({ name, unit }) => [name, unit]));
  at("explanation").textContent = await (await fetch(`${base}/explanation`)).text();
  questions = JSON.parse(text).axes.map((axis) => new Question(axis));
  at("questions").replaceChildren(...questions.map((question) => question.element));
  client = await opened();
  const held = (await rounds()) > 0;
  shown = { held, memory: held ? "held" : "" };
  at("form").addEventListener("submit", (event) => {
    event.preventDefault();
    blur().catch(failed);
  });
  at("send").addEventListener("click", () => send().catch(failed));
  at("make").disabled = false;
  await retell();
}

begin().catch(failed);
