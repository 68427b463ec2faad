import { SfumatoError } from "./errors.js";

const tails = new Map();

/** Runs work after all earlier work of that name in this page or process. */
async function queued(name, work) {
  const before = tails.get(name) ?? Promise.resolve();
  const turn = before.then(work, work);
  const settled = turn.catch(() => {});
  tails.set(name, settled);
  try {
    return await turn;
  } finally {
    if (tails.get(name) === settled) tails.delete(name);
  }
}

/** Memory and ledger that end with the process: for tests, and where each start is a new person. */
export class MemoryStore {
  #held = new Map();
  #name = crypto.randomUUID();

  async get(key) {
    return structuredClone(this.#held.get(key));
  }

  async put(key, value) {
    this.#held.set(key, structuredClone(value));
  }

  /** All entries whose key begins so, in the order of their keys. */
  async all(prefix) {
    const keys = [...this.#held.keys()].filter((key) => key.startsWith(prefix)).sort();
    return keys.map((key) => [key, structuredClone(this.#held.get(key))]);
  }

  /** Runs work that must not run twice at a time. */
  lock(name, work) {
    return queued(`${this.#name} ${name}`, work);
  }
}

/** Memory and ledger in IndexedDB, shared by all pages of an origin. */
export class BrowserStore {
  #name;
  #opened;

  /** @param {string} [name] Of the database. */
  constructor(name = "sfumato") {
    this.#name = name;
  }

  async get(key) {
    const [value] = await this.#ask("readonly", (held) => [held.get(key)]);
    return value;
  }

  async put(key, value) {
    await this.#ask("readwrite", (held) => [held.put(value, key)]);
  }

  /** All entries whose key begins so, in the order of their keys. */
  async all(prefix) {
    const range = IDBKeyRange.lowerBound(prefix);
    const [keys, values] = await this.#ask("readonly", (held) => [
      held.getAllKeys(range),
      held.getAll(range),
    ]);
    return keys.map((key, i) => [key, values[i]]).filter(([key]) => key.startsWith(prefix));
  }

  /** Runs work that must not run twice at a time, in any page of the origin (Web Locks). */
  lock(name, work) {
    const whole = `${this.#name} ${name}`;
    return navigator.locks ? navigator.locks.request(whole, work) : queued(whole, work);
  }

  #open() {
    this.#opened ??= new Promise((resolve, reject) => {
      const asked = indexedDB.open(this.#name, 1);
      asked.onupgradeneeded = () => asked.result.createObjectStore("held");
      asked.onsuccess = () => {
        const base = asked.result;
        base.onversionchange = () => {
          base.close(); // somebody deletes the database, and would wait for this page
          this.#opened = undefined;
        };
        resolve(base);
      };
      asked.onerror = () => reject(asked.error);
    });
    return this.#opened;
  }

  /** The results of some requests in one transaction, between which nobody else writes. */
  async #ask(mode, requests) {
    try {
      const base = await this.#open();
      return await new Promise((resolve, reject) => {
        const change = base.transaction("held", mode, { durability: "strict" });
        const asked = requests(change.objectStore("held"));
        change.oncomplete = () => resolve(asked.map((each) => each.result));
        change.onabort = change.onerror = () => reject(change.error);
      });
    } catch {
      this.#opened = undefined;
      throw new SfumatoError(
        "store",
        "The browser's storage cannot be read or written: it may be full, blocked or private.",
      );
    }
  }
}
