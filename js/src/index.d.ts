/** What sfumato refuses. `code` is for programs, the message for people; no message shows a value. */
export class SfumatoError extends Error {
  constructor(code: string, message: string);
  readonly code: string;
}

/** A value of an axis: a number, a text (dates and times as ISO text), or none on an optional axis. */
export type Value = number | bigint | string | null | undefined;

/** Values by the names of their axes. */
export type AnswerRecord = Record<string, Value>;

/** Gives the next random word, from 0 to 2^64 − 1. */
export type Words = () => bigint;

/** A study compiled for devices: all that encoding one record needs. */
export class Program {
  private constructor();
  /**
   * Reads a program, and refuses one that is damaged, newer, or has not the pinned digest.
   *
   * @param text The JSON document that `sfumato program` has written, bundled with the app.
   * @param options.digest The digest that is pinned in the app.
   */
  static read(text: string, options: { digest: string }): Promise<Program>;
  readonly name: string;
  /** The study's fingerprint, 64 hexadecimal digits. */
  readonly fingerprint: string;
  readonly digest: string;
  /** The largest E between two records, such as "3/2"; null if it is unbounded. */
  readonly most: string | null;
  /** How the results of a report's blocks are written as bytes. */
  readonly layout: Layout;
  /** The most random words that one report takes. */
  readonly draws: number;
  /** The codes of a record's values, one for each axis. */
  codes(record: AnswerRecord): number[];
  /**
   * The report of a record: all that needs to leave the device.
   *
   * @param words Left out: the platform's secure source. Others are for tests only.
   */
  encode(record: AnswerRecord, words?: Words): Uint8Array;
}

/** The one form of a document from which its digest is computed. */
export function canonical(value: unknown): string;

/** SHA-256 of the canonical form of all entries but the digest. */
export function digestOf(document: object): Promise<string>;

/** Where a client keeps its memory, queue and ledger. */
export interface Store {
  get(key: string): Promise<any>;
  put(key: string, value: unknown): Promise<unknown>;
  /** All entries whose key begins so, in the order of their keys. */
  all(prefix: string): Promise<Array<[string, any]>>;
  /** Runs work that must not run twice at a time. */
  lock<T>(name: string, work: () => Promise<T>): Promise<T>;
}

/** Memory and ledger in IndexedDB, shared by all pages of an origin. */
export class BrowserStore implements Store {
  /** @param name Of the database; "sfumato" if left out. One database is one person. */
  constructor(name?: string);
  get(key: string): Promise<any>;
  put(key: string, value: unknown): Promise<unknown>;
  all(prefix: string): Promise<Array<[string, any]>>;
  lock<T>(name: string, work: () => Promise<T>): Promise<T>;
}

/** Memory and ledger that end with the process: for tests, and where each start is a new person. */
export class MemoryStore implements Store {
  get(key: string): Promise<any>;
  put(key: string, value: unknown): Promise<unknown>;
  all(prefix: string): Promise<Array<[string, any]>>;
  lock<T>(name: string, work: () => Promise<T>): Promise<T>;
}

export interface ClientOptions {
  /** The collector's address, without `/v1/…`. */
  url: string;
  /** Left out: a `BrowserStore`. */
  store?: Store;
  /** "round" (left out): one report per round, whatever the value. "value": the same value gives the same report. */
  memory?: "round" | "value";
  /** The largest E over all rounds and studies of the store, such as 3, "1.5" or "3/2". */
  limit?: number | string;
  /** For collectors that ask for one. */
  token?: string;
  fetch?: typeof fetch;
  /** Milliseconds since 1970-01-01 (UTC). */
  now?: () => number;
  /** Waits so many milliseconds between two tries. */
  wait?: (milliseconds: number) => Promise<void>;
}

/** What became of the queue. */
export interface Sent {
  sent: number;
  expired: number;
  refused: Array<{ code: string }>;
}

/** What all reports so far give away. `total` is null where that is unbounded. */
export interface Spent {
  total: string | null;
  studies: Array<{ study: string; fingerprint: string; rounds: number; total: string | null }>;
  /** The same in plain words. */
  text: string;
}

/**
 * What an app embeds: it encodes, remembers, keeps account of what was given away, and sends. True
 * values are neither stored nor sent.
 */
export class Client {
  constructor(program: Program, options: ClientOptions);
  readonly program: Program;
  readonly url: string;
  readonly store: Store;
  readonly memory: "round" | "value";
  readonly token?: string;
  /**
   * The report of a round. The first time it is encoded and queued; asking again gives the stored
   * one, whatever the value. A new round is charged before anything is encoded.
   */
  report(record: AnswerRecord, options: { round: string }): Promise<Uint8Array>;
  /** Sends all reports that wait, with the same ids however often it tries. */
  send(options?: { tries?: number }): Promise<Sent>;
  /** What all reports so far give away, in all studies of this store. */
  spent(): Promise<Spent>;
  /** Takes today's date as right, if the clock was ahead before and has been set right. */
  acceptClock(): Promise<void>;
}

/** The media type of a batch. */
export const MEDIA_TYPE: string;

/** How the results of a report's blocks are written as bytes. */
export class Layout {
  constructor(blocks: Array<[kind: "symbols" | "bits", count: number]>);
  readonly blocks: Array<[kind: "symbols" | "bits", count: number]>;
  readonly combinations: bigint;
  readonly bits: number;
  readonly symbolBytes: number;
  /** The bytes of a report. */
  readonly size: number;
  pack(results: bigint[]): Uint8Array;
  unpack(report: Uint8Array): bigint[];
}

/** The bytes of a batch of reports, all of one study. */
export function packBatch(
  fingerprint: string,
  expires: number,
  reports: Array<{ id: Uint8Array; report: Uint8Array }>,
): Uint8Array;

/** Reads a batch, and refuses everything that `packBatch` would not have written. */
export function readBatch(
  batch: Uint8Array,
  layout: Layout,
  fingerprint: string,
): { expires: number; reports: Array<{ id: string; results: bigint[] }> };
