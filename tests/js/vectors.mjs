// Runs vectors through the JavaScript client, in Node and in a browser alike.
const value = (held) => (held?.$number ? Number(held.$number) : held);
const record = (held) => Object.fromEntries(Object.entries(held).map(([k, v]) => [k, value(v)]));
const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
const bytes = (text) => Uint8Array.from(text.match(/../g) ?? [], (two) => parseInt(two, 16));

/** The code of the refusal; undefined if nothing was refused. */
function refusal(SfumatoError, work) {
  try {
    work();
    return undefined;
  } catch (error) {
    return error instanceof SfumatoError ? error.code : `not our error: ${error}`;
  }
}

async function programs({ Program, SfumatoError }, check, name, vector) {
  const text = JSON.stringify(vector.program);
  const program = await Program.read(text, { digest: vector.program.digest });
  vector.cases.forEach((held, place) => {
    let drawn = 0;
    const report = program.encode(record(held.record), () => BigInt(held.words[drawn++]));
    check(hex(report) === held.report && drawn === held.words.length, name, "case", place);
  });
  vector.refused.forEach((held, place) => {
    const code = refusal(SfumatoError, () => program.encode(record(held)));
    check(code !== undefined && !code.startsWith("not"), name, "refused", place, code);
  });
}

function batches({ Layout, SfumatoError, readBatch }, check, vector) {
  vector.cases.forEach((held, place) => {
    const layout = new Layout(held.layout);
    const found = readBatch(bytes(held.batch), layout, held.fingerprint);
    const rows = found.reports.map(({ id, results }) => [id, results.map(String)]);
    check(JSON.stringify(rows) === JSON.stringify(held.reports), "batch", place);
    check(found.expires === held.expires, "expiry of batch", place);
  });
  vector.refused.forEach((held) => {
    const code = refusal(SfumatoError, () => readBatch(bytes(held.batch), new Layout(held.layout), held.fingerprint));
    check(code === held.code, "refusal of a batch", held.code, "came out as", code);
  });
}

/**
 * What passed and what did not.
 *
 * @param {object} client The client's module.
 * @param {Object<string, object>} vectors By the names of their files.
 */
export async function run(client, vectors) {
  const failed = [];
  let passed = 0;
  const check = (holds, ...what) => {
    if (holds) passed += 1;
    else failed.push(what.join(" "));
  };
  for (const [file, vector] of Object.entries(vectors)) {
    if (file === "batches.json") batches(client, check, vector);
    else await programs(client, check, file, vector);
  }
  return { passed, failed };
}
