// Hostile inputs in Node: one JSON list per line in, what became of each out.
import { createInterface } from "node:readline";
import { Layout, Program, SfumatoError, readBatch } from "../../js/src/index.js";

const hex = (bytes) => Buffer.from(bytes).toString("hex");
const cycled = (words) => {
  let next = 0;
  return () => BigInt(words[next++ % words.length]);
};
const programs = new Map();

/** A program that other inputs have read before. */
async function known(text) {
  if (!programs.has(text)) programs.set(text, await Program.read(text, JSON.parse(text)));
  return programs.get(text);
}

const kinds = {
  async program(text, digest, words) {
    const program = await Program.read(text, { digest });
    const record = Object.fromEntries(program.axes.map(({ name }) => [name, 1]));
    return hex(program.encode(record, cycled(words)));
  },
  async vector(text, record, words) {
    return hex((await known(text)).encode(record, cycled(words)));
  },
  async batch(data, blocks, fingerprint) {
    const layout = new Layout(blocks);
    const { expires, reports } = readBatch(Buffer.from(data, "hex"), layout, fingerprint);
    return `${expires} ${reports.map(({ id, results }) => id + hex(layout.pack(results))).join(" ")}`;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [kind, ...given] = JSON.parse(line);
  let outcome;
  try {
    outcome = await kinds[kind](...given);
  } catch (error) {
    outcome = error instanceof SfumatoError ? `refused: ${error.code}` : `foreign: ${error.stack}`;
  }
  console.log(JSON.stringify(outcome));
}
