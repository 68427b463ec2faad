// What all pages share: elements, requests with a token, notices, copying and downloads.
const KEPT = "sfumato token";

export const at = (id) => document.getElementById(id);

/** An element with attributes (functions are listeners; null leaves one out) and children. */
export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A field: a label above a control, and a hint below. */
export function field(label, control, { hint, kind = "" } = {}) {
  control.id ||= `field-${++field.count}`;
  return make("div", { class: `field ${kind}` }, make("label", { for: control.id }, label), control, hint ? make("span", { class: "hint" }, hint) : null);
}
field.count = 0;

/** A select of pairs of value and text, or of texts. */
export function choice(options, attributes = {}) {
  const pairs = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  return make("select", attributes, ...pairs.map(([value, text]) => make("option", { value }, text)));
}

/** Says what is wrong, or that nothing is. */
export function notice(text = "") {
  const held = at("notice");
  held.textContent = text;
  held.hidden = !text;
}

/** A request that the collector refused. */
export class Refused extends Error {
  constructor(status, { code = "", message } = {}) {
    super(message ?? `The collector answered ${status}.`);
    this.status = status;
    this.code = code;
  }
}

/** The token that was typed in; it stays in this tab. */
export const token = () => {
  try {
    return sessionStorage.getItem(KEPT) ?? "";
  } catch {
    return token.held ?? "";
  }
};

function keep(text) {
  token.held = text;
  try {
    if (text) sessionStorage.setItem(KEPT, text);
    else sessionStorage.removeItem(KEPT);
  } catch {
    // Storage is blocked: it is held in this page.
  }
}

/** An answer of the collector; JSON is read, other text is given as it is. */
export async function call(method, path, { body, signal, type = "application/json" } = {}) {
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  if (body !== undefined) headers["Content-Type"] = type;
  let answer;
  try {
    answer = await fetch(path, { method, headers, body, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { code: "offline", message: "The collector does not answer. Is it running?" });
  }
  const json = (answer.headers.get("Content-Type") ?? "").split(";")[0] === "application/json";
  const found = json ? await answer.json() : await answer.text();
  if (!answer.ok) throw new Refused(answer.status, json ? found : {});
  return answer.status === 202 ? { ...found, waiting: answer.headers.get("Location") } : found;
}

/** Runs work, and says so if the collector refuses; what was stopped on purpose is no failure. */
export async function guarded(work) {
  try {
    const found = await work();
    notice();
    return found;
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    if (!(error instanceof Refused)) throw error;
    notice(error.message);
    return undefined;
  }
}

/** The form for a token in the head of the page; calls back whenever it changes, and at once. */
export function access(role, changed) {
  const host = at("access");
  const show = () => {
    if (token()) {
      const forget = make("button", { type: "button", class: "second small", click: () => (keep(""), show(), changed()) }, "Forget it");
      host.replaceChildren(make("div", { class: "kept" }, make("span", {}, "A token is held in this tab."), forget));
      return;
    }
    const input = make("input", { type: "password", id: "token", autocomplete: "off", required: true, spellcheck: "false" });
    const submit = (event) => {
      event.preventDefault();
      keep(input.value.trim());
      show();
      changed();
    };
    host.replaceChildren(make("form", { submit }, make("label", { for: "token" }, `Token of ${role}`), input, make("button", { class: "small" }, "Use it")));
  };
  show();
  changed();
}

/** A button that copies a text, and says that it has. */
export function copier(label, text) {
  const button = make("button", { type: "button", class: "second small" }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      notice(`This browser does not let the page copy. The text is: ${text()}`);
    }
    setTimeout(() => (button.textContent = label), 1500);
  });
  return button;
}

/** Saves a file. */
export function download(name, blob) {
  const url = URL.createObjectURL(blob);
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A table; columns of numbers are set to the right. */
export function table(caption, columns, rows, numbers = []) {
  const kind = (i) => (numbers.includes(i) ? "number" : null);
  const head = columns.map((name, i) => make("th", { scope: "col", class: kind(i) }, name));
  const body = rows.map((row) =>
    make("tr", {}, ...row.map((cell, i) => (i ? make("td", { class: kind(i) }, cell) : make("th", { scope: "row" }, cell)))),
  );
  return make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
}

/** A part that scrolls by itself, also by keyboard. */
export const scrolled = (label, ...children) =>
  make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, ...children);

/** Pairs of a name and a value. */
export const facts = (pairs) =>
  make("dl", { class: "facts" }, ...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));

/** A day, counted from 1970-01-01, as people write it. */
export const day = (number) => (number === null || number === undefined ? "–" : new Date(number * 86_400_000).toISOString().slice(0, 10));

/** Bytes in words. */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const step = bytes < 1000 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), 4);
  return `${(bytes / 1000 ** step).toLocaleString("en", { maximumSignificantDigits: 3 })} ${units[step]}`;
}

/** A word of a shell. */
export const word = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`);
