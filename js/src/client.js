import { SfumatoError, require } from "./errors.js";
import { BrowserStore } from "./store.js";
import { MEDIA_TYPE, MOST_REPORTS, packBatch, toHex } from "./wire.js";

const KEPT_DAYS = 30;
const DAY = 86_400_000;
const FIRST_WAIT = 1000;
const LONGEST_WAIT = 600_000;
const LONGEST_ASKED = 31 * DAY; // by then every report that waits has expired
const STOPS = {
  400: "The collector says that the batch is damaged",
  401: "The collector asks for a valid token",
  403: "The collector asks for a valid token",
  404: "The collector does not know this study",
  415: "The collector takes another version of batches",
};

/** An exact fraction from "3", "3/2" or "1.5". */
function fraction(given) {
  const found = /^(\d+)(?:\.(\d+)|\/([1-9]\d*))?$/.exec(String(given));
  require(found, "limit", 'The limit must be a number such as 3, 1.5 or "3/2".');
  const [, whole, decimals = "", below = "1"] = found;
  return [BigInt(whole + decimals), BigInt(below) * 10n ** BigInt(decimals.length)];
}

/** The sum of fractions, reduced; null if one of them is unbounded. */
function sum(parts) {
  if (parts.includes(null)) return null;
  const [a, b] = parts
    .map(fraction)
    .reduce(([p, q], [r, s]) => [p * s + r * q, q * s], [0n, 1n]);
  let [shared, rest] = [b, a];
  while (rest) [shared, rest] = [rest, shared % rest];
  return b === shared ? `${a / shared}` : `${a / shared}/${b / shared}`;
}

/** Whether the first fraction is above the second. */
function exceeds(first, second) {
  const [[a, b], [c, d]] = [fraction(first), fraction(second)];
  return a * d > c * b;
}

/** A fraction as a decimal number where it is one, as "9.9", or else as it is, as "1/3". */
function plain(total) {
  const [a, b] = fraction(total);
  for (let places = 0, scale = 1n; places <= 6; places++, scale *= 10n) {
    if (scale % b === 0n) {
      const digits = `${(a * scale) / b}`.padStart(places + 1, "0");
      return places ? `${digits.slice(0, -places)}.${digits.slice(-places)}` : digits;
    }
  }
  return String(total);
}

/** How much likelier a report may be from one record than from another, in words. */
function odds(total) {
  if (total === null) return "unbounded: a report may give a value away";
  const [a, b] = fraction(total);
  const e = Number((a * 1_000_000n) / b) / 1e6;
  const times = Math.exp(e);
  const shown =
    times < 1e6
      ? Number(times.toPrecision(2)).toLocaleString("en")
      : `10^${Math.ceil(e / Math.LN10)}`;
  return `E = ${plain(total)}: together at most ${shown} times likelier from one answer than from another`;
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Whether the body of an answer accounts for every report of a batch, and a 202 refuses none. */
function addsUp({ accepted, repeated, refused }, status, count) {
  const whole = (number, most) => Number.isInteger(number) && number >= 0 && number <= most;
  if (!whole(accepted, count) || !whole(repeated, count) || !Array.isArray(refused)) return false;
  const places = new Set(refused.map((each) => (typeof each?.code === "string" ? each.place : -1)));
  return (
    accepted + repeated + refused.length === count &&
    places.size === refused.length &&
    [...places].every((place) => whole(place, count - 1)) &&
    (status === 207 || !refused.length)
  );
}

/** The milliseconds that `Retry-After` asks for; none if it is no whole number of seconds. */
function asked(answer) {
  const seconds = answer?.headers.get("Retry-After") ?? "";
  return /^\d+$/.test(seconds) ? Math.min(1000 * Number(seconds), LONGEST_ASKED) : 0;
}

/** Words from a device secret: the same codes give the same words, and so the same report. */
async function valueWords(key, program, codes) {
  const words = [];
  for (let i = 0; words.length < program.draws; i++) {
    const message = `sfumato value\n${program.digest}\n${codes.join(",")}\n${i}`;
    const block = await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(message));
    for (let at = 0; at < 32; at += 8) words.push(new DataView(block).getBigUint64(at));
  }
  let next = 0;
  return () => words[next++];
}

/** Refuses to wait longer than the longest pause between two tries. */
function refuseLater(wait) {
  require(
    wait && wait <= 1.5 * LONGEST_WAIT,
    "unreachable",
    "The collector does not answer, or is too busy. The reports are kept: send them later.",
  );
}

/**
 * What an app embeds: it encodes, remembers, keeps account of what was given away, and sends. True
 * values are neither stored nor sent.
 */
export class Client {
  #limit;
  #fetch;
  #now;
  #wait;

  /**
   * @param {import("./program.js").Program} program
   * @param {object} options
   * @param {string} options.url The collector's address, without `/v1/…`.
   * @param {object} [options.store] Left out: IndexedDB.
   * @param {"round" | "value"} [options.memory] "value": the same value gives the same report.
   * @param {number | string} [options.limit] The largest E over all rounds and studies.
   * @param {string} [options.token] For collectors that ask for one.
   */
  constructor(
    program,
    { url, store, memory = "round", limit, token, fetch, now = Date.now, wait = pause },
  ) {
    require(/^https?:\/\//.test(url), "url", "The collector's url must begin with https://.");
    require(
      memory === "round" || memory === "value",
      "memory",
      'The memory must be "round" or "value".',
    );
    require(
      store || globalThis.indexedDB,
      "store",
      "There is no IndexedDB here: pass a store. A MemoryStore forgets when the process ends.",
    );
    if (limit !== undefined) fraction(limit);
    this.program = program;
    this.url = `${url.replace(/\/+$/, "")}/v1/studies/${program.fingerprint}/reports`;
    this.store = store ?? new BrowserStore();
    this.memory = memory;
    this.token = token;
    this.#limit = limit;
    this.#fetch = fetch ?? globalThis.fetch.bind(globalThis);
    this.#now = now;
    this.#wait = wait;
  }

  /**
   * The report of a round. The first time it is encoded and queued; asking again gives the stored
   * one, whatever the value. A new round is charged before anything is encoded.
   *
   * @param {Object<string, unknown>} record
   * @param {{round: string}} options The name of the round, such as "2026-11".
   * @returns {Promise<Uint8Array>}
   */
  async report(record, { round } = {}) {
    require(typeof round === "string" && round, "round", 'Name the round, such as "2026-11".');
    const { program, store } = this;
    const key = `${this.#prefix}${round}`;
    return store.lock("report", async () => {
      const held = await store.get(key);
      if (held?.report) return held.report;
      const charge = { study: program.name, most: program.most, digest: program.digest };
      const today = await this.#refuseEarlier();
      if (!held) {
        await this.#afford();
        program.codes(record); // what does not fit is refused, and not charged
        await store.put(key, charge);
      }
      // A crash from here on leaves the round charged, and nothing sent.
      const words = this.memory === "value" ? await this.#remembered(record) : undefined;
      const report = program.encode(record, words);
      const id = crypto.getRandomValues(new Uint8Array(16));
      await store.put(key, { ...charge, report, id, expires: today + KEPT_DAYS });
      return report;
    });
  }

  /**
   * Sends all reports that wait, with the same ids however often it tries.
   *
   * @param {{tries?: number}} [options] How often a batch is tried before this gives up for now.
   * @returns {Promise<{sent: number, expired: number, refused: Array<{code: string}>}>}
   */
  async send({ tries = 8 } = {}) {
    return this.store.lock(`send ${this.program.fingerprint}`, async () => {
      const outcome = { sent: 0, expired: 0, refused: [] };
      let most = MOST_REPORTS;
      await this.#rest();
      for (;;) {
        const batch = (await this.#waiting(outcome)).slice(0, most);
        if (!batch.length) return outcome;
        const [status, body] = await this.#deliver(batch, tries);
        if (status === 413) {
          require(batch.length > 1, "size", "The collector refuses even a single report as too long.");
          const half = batch.length >> 1;
          most = Number.isInteger(body.most) && body.most > 0 ? Math.min(body.most, batch.length - 1) : half;
          continue;
        }
        const refused = new Map(body.refused?.map(({ place, code }) => [place, code.slice(0, 100)]));
        for (const [i, entry] of batch.entries()) {
          const code = status === 410 ? "expired" : refused.get(i);
          await this.#finish(entry, code ?? "sent");
          if (code === undefined) outcome.sent += 1;
          else if (status === 410) outcome.expired += 1;
          else outcome.refused.push({ code });
        }
      }
    });
  }

  /**
   * What all reports so far give away, in all studies of this store.
   *
   * @returns {Promise<{total: string | null, studies: Array, text: string}>}
   */
  async spent() {
    const found = new Map();
    for (const [key, { study, most }] of await this.store.all("round ")) {
      const fingerprint = key.split(" ")[1];
      const held = found.get(fingerprint) ?? { study, fingerprint, charges: [] };
      held.charges.push(most);
      found.set(fingerprint, held);
    }
    const studies = [...found.values()].map(({ study, fingerprint, charges }) => {
      return { study, fingerprint, rounds: charges.length, total: sum(charges) };
    });
    const total = sum(studies.map((each) => each.total));
    const lines = studies.map(({ study, rounds, total: own }) => {
      return `${study}, ${rounds} ${rounds === 1 ? "round" : "rounds"}: ${odds(own)}.`;
    });
    if (!lines.length) lines.push("Nothing was reported so far.");
    if (lines.length > 1) lines.push(`All studies: ${odds(total)}.`);
    if (this.#limit !== undefined) lines.push(`The limit is E = ${this.#limit}.`);
    return { total, studies, text: lines.join("\n") };
  }

  /** Takes today's date as right, if the clock was ahead before and has been set right. */
  async acceptClock() {
    await this.store.put("day", this.#today());
  }

  get #prefix() {
    return `round ${this.program.fingerprint} `;
  }

  #today() {
    return Math.floor(this.#now() / DAY);
  }

  /** Today; refused if this device has seen a day that is later by more than one. */
  async #refuseEarlier() {
    const today = this.#today();
    const latest = (await this.store.get("day")) ?? today;
    require(
      today >= latest - 1,
      "clock",
      `The clock has gone back by ${latest - today} days, so no report is made: it would expire too early. Set the clock right, or call acceptClock() if it is right now and was ahead before.`,
    );
    if (today >= latest) await this.store.put("day", today);
    return today;
  }

  /** Refuses a new round beyond the limit; the value plays no part. */
  async #afford() {
    if (this.#limit === undefined) return;
    const held = await this.store.all("round ");
    const total = sum([...held.map(([, { most }]) => most), this.program.most]);
    require(
      total !== null && !exceeds(total, this.#limit),
      "limit",
      "The limit of this device is spent: this round is not reported.",
    );
  }

  /** Words of the permanent report of a record; the device secret is made at its first use. */
  async #remembered(record) {
    let key = await this.store.get("secret");
    if (!key) {
      const kind = { name: "HMAC", hash: "SHA-256", length: 256 };
      key = await crypto.subtle.generateKey(kind, false, ["sign"]);
      await this.store.put("secret", key);
    }
    return valueWords(key, this.program, this.program.codes(record));
  }

  /** The reports of the earliest expiry day that wait; those whose day has passed are dropped. */
  async #waiting(outcome) {
    const today = this.#today();
    const waiting = [];
    for (const [key, held] of await this.store.all(this.#prefix)) {
      if (!held.id) continue;
      if (held.expires < today) {
        await this.#finish({ key, held }, "expired");
        outcome.expired += 1;
      } else waiting.push({ key, held });
    }
    require(
      waiting.every(({ held }) => held.digest === this.program.digest),
      "queue",
      "Reports wait that this program did not make: send them with the program that did.",
    );
    const first = Math.min(...waiting.map(({ held }) => held.expires));
    const order = ({ held }) => toHex(held.id); // random, unlike the names of rounds
    return waiting
      .filter(({ held }) => held.expires === first)
      .sort((one, other) => (order(one) < order(other) ? -1 : 1));
  }

  /** Notes the outcome; the report stays as the memory of its round, its id goes. */
  async #finish({ key, held: { id, expires, ...kept } }, outcome) {
    await this.store.put(key, { ...kept, outcome });
  }

  /** Tries a batch until its outcome is known: the status, and what the body says. */
  async #deliver(entries, tries) {
    const reports = entries.map(({ held }) => held);
    const body = packBatch(this.program.fingerprint, reports[0].expires, reports);
    const headers = { "Content-Type": MEDIA_TYPE };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    for (let tried = 1; ; tried++) {
      const answer = await this.#post(body, headers);
      let status = answer?.status ?? 0;
      if ([202, 207, 410, 413].includes(status)) {
        const found = (await answer.json().catch(() => null)) ?? {};
        const known =
          status < 300
            ? addsUp(found, status, entries.length)
            : status === 413 || found.code === "expired";
        if (known) {
          await this.store.put(this.#pauseKey, null);
          return [status, found];
        }
        if (status < 300) status = 0; // not an answer of the protocol: the same ids go out again
      }
      if (![0, 429, 500, 502, 503, 504, 507].includes(status)) {
        const why = STOPS[status] ?? `The collector gave the unknown answer ${status}`;
        throw new SfumatoError("refused", `${why}. The reports are kept.`);
      }
      const wait = await this.#backOff(asked(answer));
      refuseLater(tried < tries && wait);
      await this.#wait(wait);
    }
  }

  get #pauseKey() {
    return `pause ${this.program.fingerprint}`;
  }

  /** Notes a failure, for later pages too; how long to wait after it. */
  async #backOff(least) {
    const { tries = 0 } = (await this.store.get(this.#pauseKey)) ?? {};
    const backoff = Math.min(FIRST_WAIT * 2 ** tries, LONGEST_WAIT) * (0.5 + Math.random());
    const wait = Math.max(least, backoff);
    await this.store.put(this.#pauseKey, { tries: tries + 1, since: this.#now(), wait });
    return wait;
  }

  /** Waits for what is left of the pause after the last failure; none if the clock went back. */
  async #rest() {
    const { since = 0, wait = 0 } = (await this.store.get(this.#pauseKey)) ?? {};
    const passed = this.#now() - since;
    const left = passed < 0 ? 0 : wait - passed;
    if (left <= 0) return;
    refuseLater(left);
    await this.#wait(left);
  }

  /** One try; undefined if there was no answer. */
  async #post(body, headers) {
    const fetch = this.#fetch;
    try {
      return await fetch(this.url, {
        method: "POST",
        body,
        headers,
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
        redirect: "error",
        signal: AbortSignal.timeout(60_000),
      });
    } catch {
      return undefined;
    }
  }
}
