import { require } from "./errors.js";

export const MEDIA_TYPE = "application/vnd.sfumato.batch.v1";
export const MOST_REPORTS = 2 ** 20;
const MAGIC = [0x53, 0x46, 0x4d, 0x42]; // SFMB
const HEADER = 45;
const ID = 16;

export const toHex = (bytes) =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
export const fromHex = (text) =>
  Uint8Array.from(text.match(/../g) ?? [], (digits) => parseInt(digits, 16));

/** A number in so many bytes, the lowest first. */
function littleBytes(number, size) {
  const digits = number.toString(16).padStart(2 * size, "0");
  return size ? fromHex(digits).reverse() : new Uint8Array();
}

const littleNumber = (bytes) => BigInt(`0x0${toHex([...bytes].reverse())}`);

/** How the results of a report's blocks are written as bytes. */
export class Layout {
  /** @param {Array<[kind: "symbols" | "bits", count: number]>} blocks */
  constructor(blocks) {
    this.blocks = blocks;
    const total = (kind, start, join) =>
      blocks.reduce((sum, [each, count]) => (each === kind ? join(sum, count) : sum), start);
    this.combinations = total("symbols", 1n, (sum, count) => sum * BigInt(count));
    this.bits = total("bits", 0, (sum, count) => sum + count);
    const last = this.combinations - 1n;
    this.symbolBytes = last ? Math.ceil(last.toString(16).length / 2) : 0;
    this.size = this.symbolBytes + Math.ceil(this.bits / 8);
  }

  /** The bytes of a report, from the result of every block. */
  pack(results) {
    let [number, row, at] = [0n, 0n, 0n];
    this.blocks.forEach(([kind, count], i) => {
      if (kind === "symbols") number = number * BigInt(count) + results[i];
      else {
        row |= results[i] << at;
        at += BigInt(count);
      }
    });
    const report = new Uint8Array(this.size);
    report.set(littleBytes(number, this.symbolBytes));
    report.set(littleBytes(row, this.size - this.symbolBytes), this.symbolBytes);
    return report;
  }

  /** The result of every block, from the bytes of a report. */
  unpack(report) {
    require(report.length === this.size, "length", "A report has another length than its study's.");
    let number = littleNumber(report.subarray(0, this.symbolBytes));
    let row = littleNumber(report.subarray(this.symbolBytes));
    require(number < this.combinations, "symbol", "A report lies beyond the last symbol.");
    require(row >> BigInt(this.bits) === 0n, "padding", "A bit after the last one is set.");
    const results = [];
    for (const [kind, count] of this.blocks) {
      if (kind === "symbols") results.push(0n);
      else {
        results.push(BigInt.asUintN(count, row));
        row >>= BigInt(count);
      }
    }
    for (let i = this.blocks.length - 1; i >= 0; i--) {
      const [kind, count] = this.blocks[i];
      if (kind !== "symbols") continue;
      results[i] = number % BigInt(count);
      number /= BigInt(count);
    }
    return results;
  }
}

/**
 * The bytes of a batch.
 *
 * @param {string} fingerprint The study's, 64 hexadecimal digits.
 * @param {number} expires The day on which the batch expires.
 * @param {Array<{id: Uint8Array, report: Uint8Array}>} reports All of one study.
 */
export function packBatch(fingerprint, expires, reports) {
  require(
    reports.length >= 1 && reports.length <= MOST_REPORTS,
    "count",
    "A batch has 1 to 2^20 reports.",
  );
  const each = ID + reports[0].report.length;
  const batch = new Uint8Array(HEADER + each * reports.length);
  batch.set(MAGIC);
  batch[4] = 1;
  batch.set(fromHex(fingerprint), 5);
  const view = new DataView(batch.buffer);
  view.setUint32(37, reports.length, true);
  view.setUint32(41, expires, true);
  reports.forEach(({ id, report }, i) => {
    batch.set(id, HEADER + i * each);
    batch.set(report, HEADER + i * each + ID);
  });
  return batch;
}

/**
 * Reads a batch, and refuses everything that `packBatch` would not have written.
 *
 * @param {Uint8Array} batch
 * @param {Layout} layout
 * @param {string} fingerprint
 */
export function readBatch(batch, layout, fingerprint) {
  const check = (holds, code, message) => require(holds, code, `This batch is refused: ${message}.`);
  check(MAGIC.every((byte, i) => batch[i] === byte), "magic", "these are other bytes");
  check(batch.length <= 4 || batch[4] === 1, "version", "it has another version");
  check(batch.length >= HEADER, "length", "it is too short");
  check(toHex(batch.subarray(5, 37)) === fingerprint, "study", "it belongs to another study");
  const view = new DataView(batch.buffer, batch.byteOffset);
  const count = view.getUint32(37, true);
  check(count >= 1 && count <= MOST_REPORTS, "count", "it must have 1 to 2^20 reports");
  const each = ID + layout.size;
  check(batch.length === HEADER + count * each, "length", "its length is not that of its reports");
  const starts = Array.from({ length: count }, (_, i) => HEADER + i * each);
  const ids = starts.map((at) => toHex(batch.subarray(at, at + ID)));
  check(new Set(ids).size === count, "id", "an id occurs twice");
  const reports = starts.map((at, i) => {
    return { id: ids[i], results: layout.unpack(batch.subarray(at + ID, at + each)) };
  });
  return { expires: view.getUint32(41, true), reports };
}
