import { SfumatoError, require, rule } from "./errors.js";
import { MOST_DIGITS, operations, run, secureWords } from "./interpreter.js";
import { Axis } from "./values.js";
import { Layout, toHex } from "./wire.js";

const MOST = 2 ** 24; // bytes of a document, and cells of an axis
const MOST_ENTRIES = 2 ** 22; // of all tables
const MOST_DEPTH = 8; // of branches
const MOST_NESTING = 64; // of lists and objects; a program needs half of it
const HEX = /^[0-9a-f]{64}$/;
const INTEGER = /^(0|-?[1-9][0-9]*)$/;
const FRACTION = /^(0|[1-9][0-9]{0,400})(\/[1-9][0-9]{0,400})?$/;
const ENTRIES = "format version name fingerprint most axes tables blocks digest";
const AXIS_ENTRIES = {
  integers: "low high",
  reals: "edges rounding",
  dates: "first step cells",
  times: "first step cells of_day",
  categories: "labels",
};
const TABLE_ENTRIES = {
  numbers: "runs",
  weights: "bits runs mirrored",
  rows: "bits rows",
  products: "bits base shares factors shift places",
  chances: "bits runs",
};
const TABLE_OF = { take: "numbers", pick: "weights", row: "rows", flips: "chances" };
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const MOST_FACTORS = 8;
const ARGUMENTS = { lowbit: 1, parity: 1, select: 3, clamp: 3 };

/** The one form of a document from which its digest is computed. */
export function canonical(value, depth = 0) {
  rule(depth < MOST_NESTING, "it is nested too deep");
  if (Array.isArray(value)) return `[${value.map((each) => canonical(each, depth + 1))}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const entries = Object.keys(value).sort();
  const written = entries.map(
    (key) => `${JSON.stringify(key)}:${canonical(value[key], depth + 1)}`,
  );
  return `{${written}}`;
}

/** SHA-256 of the canonical form of all entries but the digest. */
export async function digestOf({ digest: _, ...rest }) {
  require(
    globalThis.crypto?.subtle,
    "platform",
    "WebCrypto is missing: serve the page over HTTPS, or use a newer browser.",
  );
  const bytes = new TextEncoder().encode(canonical(rest));
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
}

const isObject = (held) => typeof held === "object" && held !== null && !Array.isArray(held);
const isFlag = (held) => typeof held === "boolean";
const isSmall = (held, low, high) => Number.isSafeInteger(held) && held >= low && held <= high;

function entriesOf(held, wanted, what) {
  const found = isObject(held) ? Object.keys(held).sort().join(" ") : "";
  rule(found === wanted.split(" ").sort().join(" "), `${what} must have the entries ${wanted}`);
}

function list(held, what) {
  rule(Array.isArray(held), `${what} must be a list`);
  return held;
}

function small(held, what, low, high) {
  rule(isSmall(held, low, high), `${what} must be a whole number from ${low} to ${high}`);
  return held;
}

function integer(held) {
  rule(
    typeof held === "string" && held.length <= MOST_DIGITS / 3 && INTEGER.test(held),
    "an integer must be a text of decimal digits",
  );
  return BigInt(held);
}

function checkAxis(held) {
  const entries = isObject(held) && Object.hasOwn(AXIS_ENTRIES, held.kind);
  rule(entries, "an axis is of no known kind");
  entriesOf(held, `name optional outside kind ${AXIS_ENTRIES[held.kind]}`, "an axis");
  rule(typeof held.name === "string", "the name of an axis must be a text");
  rule(
    isFlag(held.optional) && (held.outside === "refuse" || held.outside === "clip"),
    "an axis must be optional or not, and refuse or clip",
  );
  if (held.kind === "integers") {
    const [low, high] = [integer(held.low), integer(held.high)];
    const bound = 1n << 53n;
    rule(-bound < low && low <= high && high < bound, "low and high must be in order, below 2^53");
  } else if (held.kind === "reals") {
    rule(held.rounding === 0 || held.rounding === 20, "rounding must be 0 or 20");
    checkEdges(held.edges);
  } else if (held.kind === "categories") {
    const labels = list(held.labels, "labels");
    rule(
      labels.length > 0 &&
        labels.every((label) => typeof label === "string" && label !== "") &&
        new Set(labels).size === labels.length,
      "labels must be texts that differ and are not empty",
    );
  } else {
    small(held.first, "first", -Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
    small(held.step, "step", 1, Number.MAX_SAFE_INTEGER);
    small(held.cells, "cells", 1, MOST);
    rule(held.kind === "dates" || isFlag(held.of_day), "of_day must be true or false");
  }
  const axis = new Axis(held);
  rule(!(axis.rounds && axis.optional), "an axis with rounding must not be optional");
  rule(axis.cells <= MOST + 1, `an axis must have at most ${MOST} cells`);
  return axis;
}

function checkEdges(edges) {
  if (Array.isArray(edges)) {
    const doubles = edges.every((edge) => typeof edge === "string" && /^[0-9a-f]{16}$/.test(edge));
    rule(doubles, "an edge must be a double as 16 hexadecimal digits");
    return;
  }
  entriesOf(edges, "first step below count", "edges");
  const [first, step, below] = [edges.first, edges.step, edges.below].map(integer);
  const last = first + step * BigInt(small(edges.count, "count", 1, MOST));
  rule(
    step > 0n && below > 0n && [first, last, below].every((each) => each < 1n << 53n && -each < 1n << 53n),
    "the rule of edges must rise and stay below 2^53",
  );
}

/** Expands tables, at most so many entries in all. */
class TableReader {
  #left = MOST_ENTRIES;

  take(count) {
    this.#left -= count;
    rule(this.#left >= 0, `tables must have at most ${MOST_ENTRIES} entries in all`);
  }

  /** The integers that runs stand for; none may be negative. */
  runs(held) {
    const found = [];
    for (const item of list(held, "runs")) {
      const parts = Array.isArray(item) ? item : [item, 1];
      rule(parts.length >= 2 && parts.length <= 4, "a run must have two to four parts");
      const count = small(parts.at(-1), "the length of a run", 0, MOST_ENTRIES);
      this.take(count);
      const [first, by, times] = parts.slice(0, -1).map(integer);
      rule(
        times === undefined || (first >= 0n && by > 0n && times >= 0n),
        "a ratio must be that of positive integers",
      );
      for (let i = 0, next = first; i < count; i++) {
        rule(next >= 0n, "entries of tables must not be negative");
        rule(next >> BigInt(MOST_DIGITS) === 0n, "an entry of a table is too long");
        found.push(next);
        if (times !== undefined) next = (next * times + by - 1n) / by;
        else if (by !== undefined) next += by;
      }
    }
    return found;
  }

  /** Sums of the weights up to each outcome, as long as they are below 2^bits. */
  sums(weights, bits) {
    const total = 1n << BigInt(bits);
    const sums = [];
    let sum = 0n;
    for (const weight of weights) {
      rule(weight >= 0n, "weights must not be negative");
      sum += weight;
      if (sum < total) sums.push(sum);
    }
    rule(sum === total, "the weights of a table must sum to 2^bits");
    return BigUint64Array.from(sums);
  }

  /** Rows of weights: base + (share · factors >> shift), and last what is left of 2^bits. */
  products(held, bits) {
    const base = integer(held.base);
    const shares = this.runs(held.shares);
    const factors = list(held.factors, "factors").map((factor) => this.runs(factor));
    const shift = BigInt(small(held.shift, "shift", 0, MOST_DIGITS));
    const places = list(held.places, "places");
    const [count, length] = [factors.length, places[0]?.length];
    rule(
      base >= 0n && count > 0 && count <= MOST_FACTORS && shares.length > 0 &&
        shares.length === places.length && length % count === 0 &&
        factors.flat().every((factor) => factor <= 1n << 64n) &&
        places.every((line) => typeof line === "string" && line.length === length),
      "products must have one to eight factors, and places for each share",
    );
    this.take((length / count) * (shares.length + 1));
    return Array.from({ length: length / count }, (_, row) => {
      const weights = shares.map((share, outcome) => {
        const product = factors.reduce((value, factor, i) => {
          const entry = factor[DIGITS.indexOf(places[outcome][row * count + i])];
          rule(entry !== undefined, "places must be digits of entries of their factors");
          return value * entry;
        }, share);
        return base + (product >> shift);
      });
      const rest = weights.reduce((left, weight) => left - weight, 1n << BigInt(bits));
      return this.sums([...weights, rest], bits);
    });
  }

  read(held) {
    rule(isObject(held) && Object.hasOwn(TABLE_ENTRIES, held.kind), "a table is of no known kind");
    const { kind } = held;
    entriesOf(held, `kind ${TABLE_ENTRIES[kind]}`, "a table");
    if (kind === "numbers") return { kind, list: this.runs(held.runs) };
    const bits = small(held.bits, "bits", 1, 64);
    if (kind === "products") return { kind: "rows", bits, list: this.products(held, bits) };
    if (kind === "rows") {
      const rows = list(held.rows, "rows").map((row) => this.sums(this.runs(row), bits));
      return { kind, bits, list: rows };
    }
    const runs = this.runs(held.runs);
    if (kind === "chances") {
      rule(runs.every((chance) => chance <= 1n << BigInt(bits)), "a chance must be at most 2^bits");
      return { kind, bits, list: runs };
    }
    rule(isFlag(held.mirrored), "mirrored must be true or false");
    if (!held.mirrored) return { kind, bits, list: this.sums(runs, bits) };
    this.take(runs.length);
    return { kind, bits, list: this.sums([...runs.slice(1).reverse(), ...runs], bits) };
  }
}

/** Checked code, and the most words that it draws. */
function readCode(code, filled, depth, tables) {
  rule(depth <= MOST_DEPTH, `branches must be at most ${MOST_DEPTH} deep`);
  let draws = 0;
  const read = list(code, "code").map((instruction, i) => {
    const [name, ...given] = list(instruction, "an instruction");
    rule(typeof name === "string", "an instruction must begin with the name of an operation");
    const value = (held) =>
      typeof held === "string" ? integer(held) : small(held, "a register", 0, filled + i - 1);
    const wanted = (count) => rule(given.length === count, `"${name}" lacks arguments or has more`);
    if (operations.has(name)) {
      wanted(ARGUMENTS[name] ?? 2);
      return [name, ...given.map(value)];
    }
    if (name === "branch") {
      wanted(2);
      const ways = list(given[1], "branches").map((way) =>
        readCode(way, filled + i, depth + 1, tables),
      );
      draws += Math.max(0, ...ways.map((way) => way.draws));
      return [name, value(given[0]), ways.map((way) => way.code)];
    }
    if (Object.hasOwn(TABLE_OF, name)) {
      wanted(name === "take" || name === "row" ? 2 : 1);
      const table = tables[small(given[0], "a table", 0, tables.length - 1)];
      rule(table.kind === TABLE_OF[name], `"${name}" needs a table of ${TABLE_OF[name]}`);
      draws += name === "take" ? 0 : name === "flips" ? table.list.length : 1;
      return [name, given[0], ...given.slice(1).map(value)];
    }
    rule(["bits", "below", "remainder"].includes(name), "an operation is not known");
    wanted(name === "bits" ? 1 : 2);
    small(given.at(-1), "bits", 1, 64);
    draws += 1;
    return [name, ...given.slice(0, -1).map(value), given.at(-1)];
  });
  return { code: read, draws };
}

function readBlock(held, axes, tables) {
  entriesOf(held, "axes sizes kind count code", "a block");
  const own = list(held.axes, "axes").map((place) => axes[place]);
  rule(own.length > 0 && own.every(Boolean), "a block must have axes of the program");
  rule(
    canonical(list(held.sizes, "sizes")) === canonical(own.map((axis) => axis.size)),
    "the sizes of a block must be those of its axes",
  );
  rule(own.length === 1 || !own.some((axis) => axis.rounds), "rounding needs a block of its own");
  rule(held.kind === "symbols" || held.kind === "bits", "a block must give symbols or bits");
  const most = held.kind === "bits" ? MOST_DIGITS : Number.MAX_SAFE_INTEGER;
  const count = small(held.count, "count", 1, most);
  rule(list(held.code, "code").length > 0, "the code of a block must have an instruction");
  const results = held.kind === "bits" ? 1n << BigInt(count) : BigInt(count);
  const { axes: places, sizes, kind } = held;
  return { places, sizes, kind, count, results, ...readCode(held.code, 1, 0, tables) };
}

/** A study compiled for devices: values become cells, and cells reports, by integers alone. */
export class Program {
  /** Use `Program.read`, which also checks the digest. */
  constructor(document) {
    entriesOf(document, ENTRIES, "it");
    const { name, fingerprint, most, digest } = document;
    rule(typeof name === "string", "its name must be a text");
    rule(typeof fingerprint === "string" && HEX.test(fingerprint), "its fingerprint is none");
    rule(most === null || (typeof most === "string" && FRACTION.test(most)), "its E is none");
    Object.assign(this, { name, fingerprint, most, digest });
    const reader = new TableReader();
    this.tables = list(document.tables, "tables").map((table) => reader.read(table));
    this.axes = list(document.axes, "axes").map(checkAxis);
    const names = new Set(this.axes.map((axis) => axis.name));
    rule(names.size === this.axes.length, "names of axes must differ");
    this.blocks = list(document.blocks, "blocks").map((block) =>
      readBlock(block, this.axes, this.tables),
    );
    const covered = this.blocks.flatMap((block) => block.places);
    rule(
      covered.length > 0 && canonical(covered) === canonical(this.axes.map((_, i) => i)),
      "blocks must cover every axis once, in their order",
    );
    this.layout = new Layout(this.blocks.map(({ kind, count }) => [kind, count]));
    /** The most random words that one report draws. */
    this.draws = this.blocks.reduce((sum, block) => sum + block.draws, 0);
  }

  /**
   * Reads a device program; a damaged, edited or newer one is refused.
   *
   * @param {string} text The document (JSON).
   * @param {{digest: string}} pinned The digest that was released with the app.
   */
  static async read(text, { digest } = {}) {
    require(
      typeof digest === "string" && HEX.test(digest),
      "digest",
      "Pin the program's digest, 64 hexadecimal digits: a server must not choose the program.",
    );
    require(
      typeof text === "string" && text.length <= MOST && new TextEncoder().encode(text).length <= MOST,
      "size",
      "A device program must be a text of at most 16 MiB.",
    );
    let document;
    try {
      document = JSON.parse(text);
    } catch {
      throw new SfumatoError("json", "A device program must be JSON, and this is not.");
    }
    require(
      isObject(document) && document.format === "sfumato-program",
      "format",
      "This is not a device program.",
    );
    // Doubled entries, 1.0 for 1 and integers beyond doubles are gone once they are parsed.
    rule(canonical(document) === text, "its text is not the canonical one");
    require(
      document.version === 1,
      "version",
      "This device program has another version than 1: update the client.",
    );
    const found = await digestOf(document);
    require(
      found === document.digest && found === digest,
      "digest",
      "This device program is not the pinned one, or was edited: use the one released with the app.",
    );
    return new Program(document);
  }

  /** The code of a record on every axis; a value that does not fit is refused, and never shown. */
  codes(record) {
    require(isObject(record), "value", "A record must be an object of values by axis name.");
    return this.axes.map(({ name }, i) =>
      this.axes[i].code(Object.hasOwn(record, name) ? record[name] : null),
    );
  }

  /**
   * Perturbs one record: the bytes of its report.
   *
   * @param {Object<string, unknown>} record Values by axis name; others are ignored.
   * @param {() => bigint} [words] Where random words come from; left out, the secure source.
   */
  encode(record, words = secureWords()) {
    const codes = this.codes(record);
    const results = this.blocks.map(({ places, sizes, code, results: most }) => {
      const cell = places.reduce((sum, place, i) => sum * sizes[i] + codes[place], 0);
      const result = run(code, [BigInt(cell)], this.tables, words);
      rule(result >= 0n && result < most, "a result lies outside its block");
      return result;
    });
    return this.layout.pack(results);
  }
}
