// Runs all vectors in a folder through the JavaScript client: node vectors.mjs FOLDER
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Layout, Program, SfumatoError, readBatch } from "../../js/src/index.js";

const folder = process.argv[2];
const failed = [];
let passed = 0;

const value = (held) => (held?.$number ? Number(held.$number) : held);
const record = (held) => Object.fromEntries(Object.entries(held).map(([k, v]) => [k, value(v)]));
const hex = (bytes) => Buffer.from(bytes).toString("hex");

function check(holds, ...what) {
  if (holds) passed += 1;
  else failed.push(what.join(" "));
}

/** The code of the refusal; undefined if nothing was refused. */
function refusal(work) {
  try {
    work();
    return undefined;
  } catch (error) {
    return error instanceof SfumatoError ? error.code : `not our error: ${error}`;
  }
}

async function programs(name, vector) {
  const text = JSON.stringify(vector.program);
  const program = await Program.read(text, { digest: vector.program.digest });
  vector.cases.forEach((held, place) => {
    let drawn = 0;
    const report = program.encode(record(held.record), () => BigInt(held.words[drawn++]));
    check(hex(report) === held.report && drawn === held.words.length, name, "case", place);
  });
  vector.refused.forEach((held, place) => {
    const code = refusal(() => program.encode(record(held)));
    check(code !== undefined && !code.startsWith("not"), name, "refused", place, code);
  });
}

function batches(vector) {
  vector.cases.forEach((held, place) => {
    const layout = new Layout(held.layout);
    const bytes = new Uint8Array(Buffer.from(held.batch, "hex"));
    const found = readBatch(bytes, layout, held.fingerprint);
    const rows = found.reports.map(({ id, results }) => [id, results.map(String)]);
    check(JSON.stringify(rows) === JSON.stringify(held.reports), "batch", place);
    check(found.expires === held.expires, "expiry of batch", place);
  });
  vector.refused.forEach((held) => {
    const bytes = new Uint8Array(Buffer.from(held.batch, "hex"));
    const code = refusal(() => readBatch(bytes, new Layout(held.layout), held.fingerprint));
    check(code === held.code, "refusal of a batch", held.code, "came out as", code);
  });
}

for (const file of readdirSync(folder).sort()) {
  const vector = JSON.parse(readFileSync(join(folder, file), "utf8"));
  if (file === "batches.json") batches(vector);
  else await programs(file, vector);
}
console.log(JSON.stringify({ passed, failed }));
