// What the tests in a browser share.
import { Client, Program } from "/js/index.js";

const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");

/** Random bytes that a seed decides (sfc32), in place of the browser's own. */
export function seedRandomness(seed) {
  let [a, b, c, d] = [Number(seed & 0xffffffffn), Number(seed >> 32n), 0, 1];
  const next = () => {
    const sum = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum;
  };
  for (let i = 0; i < 15; i++) next();
  crypto.getRandomValues = (held) => {
    const places = new Uint32Array(held.buffer, held.byteOffset, held.byteLength / 4);
    for (let i = 0; i < places.length; i++) places[i] = next();
    return held;
  };
}

/** How often each report came out. */
export async function counted(text, digest, record, count) {
  const program = await Program.read(text, { digest });
  const found = {};
  for (let i = 0; i < count; i++) {
    const report = hex(program.encode(record));
    found[report] = (found[report] ?? 0) + 1;
  }
  return found;
}

/** Milliseconds of one encoding: the median over repetitions of so many each. */
export async function timed(text, digest, record, count, repeats = 7) {
  const program = await Program.read(text, { digest });
  const found = [];
  for (let turn = 0; turn <= repeats; turn++) {
    const start = performance.now();
    for (let i = 0; i < count; i++) program.encode(record);
    found.push((performance.now() - start) / count);
  }
  return found.slice(1).sort((a, b) => a - b)[repeats >> 1];
}

/** A client of a program at a collector that the test answers for. */
export async function client(held, options = {}) {
  const program = await Program.read(held.text, { digest: held.digest });
  return new Client(program, { url: "https://collector.example", ...options });
}

/** The report of a round, as hexadecimal digits. */
export async function reported(made, record, round) {
  return hex(await made.report(record, { round }));
}

/** All that a store holds, as text, but for keys of WebCrypto. */
export async function contents(store) {
  const shown = (_, held) => (held instanceof Uint8Array ? hex(held) : held);
  return JSON.stringify(await store.all(""), shown);
}
