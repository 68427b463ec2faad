// Questions to the collector: asking them, the same elsewhere (Python, a command, curl), and answers
// as tables.
import { Refused, call, word } from "./page.js";

const LOOK = 400; // milliseconds between looks at an answer that takes long
const KINDS = ["count", "mean", "total", "histogram", "cdf", "heatmap", "quantile", "groups", "fraction"];

const kindOf = (question) => KINDS.find((kind) => kind in question && typeof question[kind] !== "boolean");
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** An answer once there is one; `progress` is told the share of the work done, where it takes long. */
async function settled(found, { signal, progress }) {
  while (found.job) {
    progress?.(found.progress);
    await pause(LOOK);
    if (signal?.aborted) {
      call("DELETE", `/v1/jobs/${found.job}`).catch((error) => error instanceof Refused);
      signal.throwIfAborted();
    }
    found = await call("GET", `/v1/jobs/${found.job}`, { signal });
  }
  return found;
}

/** Asks a question. */
export async function ask(fingerprint, question, options) {
  const body = JSON.stringify(question);
  return settled(await call("POST", `/v1/studies/${fingerprint}/ask?wait=2`, { body, signal: options.signal }), options);
}

/** The heat map of places as GeoJSON, a text. */
export const asGeoJson = async (fingerprint, question) =>
  settled(await call("POST", `/v1/studies/${fingerprint}/ask?wait=2&format=geojson`, { body: JSON.stringify(question) }), {});

/** The check of the reports. */
export const checked = async (fingerprint, options = {}) => settled(await call("GET", `/v1/studies/${fingerprint}/check?wait=2`), options);

/** A word in the language of questions, in quotes where it needs them. */
export const quoted = (text) => (/[,=|.'"]|^\s|\s$|^$/.test(text) ? `'${text.replaceAll("'", "''")}'` : text);

/** The question about the people from one bar of a histogram to another. */
export function between(axis, labels, from, to) {
  if (!axis.ordered) return `${quoted(axis.name)}=${labels.slice(from, to + 1).map((label) => (label === "no answer" ? label : quoted(label))).join("|")}`;
  const values = labels.slice(from, to + 1).filter((label) => label !== "no answer");
  const range = values.length ? [`${values[0].split("..")[0]}..${values.at(-1).split("..").at(-1)}`] : [];
  return `${quoted(axis.name)}=${[...range, ...(values.length < to - from + 1 ? ["no answer"] : [])].join("|")}`;
}

const python = (value) => {
  if (value === true) return "True";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([key, held]) => `${python(key)}: ${python(held)}`).join(", ")}}`;
  return JSON.stringify(value);
};

/** The same question in Python. */
export function asPython(study, question) {
  const kind = kindOf(question);
  const { [kind]: about, of, at, ...options } = question;
  const first = Array.isArray(about) ? about.map(python) : [python(about)];
  if (of) first.push(...Object.entries(of).map(([key, value]) => `${key}=${python(value)}`));
  if (at) first.push(python(at));
  const more = Object.entries(options).map(([key, value]) => `${key}=${python(value)}`);
  return [
    "import os",
    "",
    "import sfumato as sf",
    "",
    `est = sf.connect(${python(location.origin)}, os.environ["SFUMATO_TOKEN"], study=${python(study.fingerprint)})`,
    `print(est.${kind}(${[...first, ...more].join(", ")}))`,
    "",
  ].join("\n");
}

/** The same question as commands, about a tally that is taken out of the collector. */
export function asCommand(study, question, labels) {
  const kind = kindOf(question);
  const files = "study.toml tally.parquet";
  const { [kind]: about, where, bins, fraction, at, of } = question;
  const filter = where ? ` --where ${word(where)}` : "";
  const groups = bins ? ` --bins ${bins}` : "";
  const asks = (inner, among) => {
    const [[name, text]] = Object.entries(inner);
    const asked = { count: word(text), fraction: `${word(text)} --fraction`, mean: `--mean ${word(text)}`, total: `--total ${word(text)}` }[name];
    return `sfumato ask ${files} ${asked}${among ? ` --where ${word(among)}` : ""}`;
  };
  const lines = {
    histogram: () => [`sfumato histogram ${files} ${word(about)}${groups}${filter}${fraction ? " --fraction" : ""}`],
    heatmap: () => [`sfumato heatmap ${files} ${about.map(word).join(" ")}${groups}${filter}`],
    quantile: () => [`sfumato quantile ${files} ${word(about)} ${at.join(" ")}${filter}`],
    cdf: () => [`sfumato ask ${files} --fraction${filter} ${labels.map((label) => word(`${quoted(about)}=..${label.split("..").at(-1)}`)).join(" ")}`],
    groups: () => labels.map((label) => asks(of, [where, `${quoted(about)}=${quoted(label)}`].filter(Boolean).join(", "))),
  };
  const asked = lines[kind]?.() ?? [asks({ [kind]: about }, where)];
  return [
    `curl -o study.toml ${word(`${location.origin}/v1/studies/${study.fingerprint}/study`)}`,
    `sfumato export tally study.toml --out tally.parquet --store collector --force`,
    ...asked,
    "",
  ].join("\n");
}

/** The same question for curl, with the token in a variable. */
export const asCurl = (study, question) =>
  `curl -H "Authorization: Bearer $SFUMATO_TOKEN" -d ${word(JSON.stringify(question))} ${word(`${location.origin}/v1/studies/${study.fingerprint}/ask`)}\n`;

/** The cells of an answer, one after another: their labels, and four numbers. */
export function entries({ labels, values, stderr, low, high, question = "" }) {
  if (!Array.isArray(values)) {
    return [[[question], arguments[0].value, stderr, low, high]];
  }
  if (labels.length === 1) return values.map((value, i) => [[labels[0][i]], value, stderr[i], low[i], high[i]]);
  return values.flatMap((row, i) => row.map((value, j) => [[labels[0][i], labels[1][j]], value, stderr[i][j], low[i][j], high[i][j]]));
}

/** An answer as comma-separated values. */
export function asCsv(answer) {
  const cell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const head = [...(answer.axes ?? ["question"]), "value", "stderr", "low", "high"];
  const lines = entries(answer).map(([names, ...numbers]) => [...names, ...numbers.map((number) => number ?? "")]);
  return `${[head, ...lines].map((line) => line.map((each) => cell(String(each))).join(",")).join("\n")}\n`;
}
