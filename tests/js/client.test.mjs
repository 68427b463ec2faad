// The client in JavaScript, with a store in memory and a collector that is a function.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Client, MemoryStore, Program } from "../../js/src/index.js";

const vector = JSON.parse(
  readFileSync(new URL("../../vectors/study-integers.json", import.meta.url), "utf8"),
);
const text = JSON.stringify(vector.program);
const { digest } = vector.program;
const program = await Program.read(text, { digest });

const answered = (status, body = {}, headers = {}) =>
  new Response(JSON.stringify(body), { status, headers });

/** A client, what it sent, and how long it waited; answers are given one after the other. */
function made({ answers = [], ...more } = {}) {
  const [bodies, waits] = [[], []];
  const fetch = async (_, { body }) => {
    bodies.push(Buffer.from(body).toString("hex"));
    const next = answers.shift();
    if (next === "no answer") throw new TypeError("failed");
    return next ?? answered(202, { accepted: 1, repeated: 0, refused: [] });
  };
  const wait = async (milliseconds) => waits.push(milliseconds);
  const store = new MemoryStore();
  const options = { url: "https://collector.example", store, fetch, wait, ...more };
  return { client: new Client(program, options), bodies, waits, store: options.store, options };
}

test("only the pinned program runs", async () => {
  await assert.rejects(Program.read(text, { digest: "0".repeat(64) }), { name: "SfumatoError" });
  await assert.rejects(Program.read(text), { name: "SfumatoError" });
  const edited = text.replace('"high":"40"', '"high":"39"');
  assert.notEqual(edited, text);
  await assert.rejects(Program.read(edited, { digest }), { name: "SfumatoError" });
  const newer = text.replace('"version":1', '"version":2');
  await assert.rejects(Program.read(newer, { digest }), { name: "SfumatoError" });
});

test("a round has one report, whatever the value", async () => {
  const { client, options } = made();
  const first = await client.report({ age: 17 }, { round: "1" });
  for (let age = 0; age < 20; age++) {
    assert.deepEqual(await client.report({ age }, { round: "1" }), first);
  }
  const again = new Client(program, options);
  assert.deepEqual(await again.report({ age: 3 }, { round: "1" }), first);
  const { total, studies } = await client.spent();
  assert.equal(total, "43/2");
  assert.equal(studies[0].rounds, 1);
});

test("the limit refuses, whatever the value", async () => {
  const { client } = made({ limit: 43 });
  await client.report({ age: 1 }, { round: "1" });
  await client.report({ age: 1 }, { round: "2" });
  for (const age of [1, 40, -99, null]) {
    await assert.rejects(client.report({ age }, { round: "3" }), { code: "limit" });
  }
  assert.equal((await client.spent()).total, "43");
});

test("by value the same value gives the same report", async () => {
  const { client } = made({ memory: "value" });
  const reports = new Set();
  for (let k = 0; k < 6; k++) {
    reports.add(String(await client.report({ age: 17 }, { round: `${k}` })));
  }
  assert.equal(reports.size, 1);
});

test("a retry has the same bytes, and waits as it is asked to", async () => {
  const answers = [answered(429, {}, { "Retry-After": "7" }), "no answer", answered(500)];
  const { client, bodies, waits } = made({ answers });
  await client.report({ age: 17 }, { round: "1" });
  const { sent } = await client.send();
  assert.equal(sent, 1);
  assert.equal(new Set(bodies).size, 1);
  assert.equal(bodies.length, 4);
  assert.ok(waits[0] >= 7000 && waits[1] >= 1000 && waits[2] >= 2000);
  assert.deepEqual(await client.send(), { sent: 0, expired: 0, refused: [] });
  assert.equal(bodies.length, 4);
});

test("refused and expired reports are not sent again", async () => {
  const refused = [{ place: 1, code: "symbol" }];
  const { client, bodies } = made({ answers: [answered(207, { refused }), answered(410)] });
  for (const round of ["1", "2", "3"]) await client.report({ age: 1 }, { round });
  assert.deepEqual(await client.send(), { sent: 2, expired: 0, refused: [{ code: "symbol" }] });
  await client.report({ age: 1 }, { round: "4" });
  assert.equal((await client.send()).expired, 1);
  assert.equal((await client.send()).sent, 0);
  assert.equal(bodies.length, 2);
});

test("large batches are split, and reports of a day that has passed are dropped", async () => {
  let now = Date.UTC(2026, 10, 18);
  const { client, bodies } = made({ answers: [answered(413, { most: 2 })], now: () => now });
  for (const round of ["1", "2", "3"]) await client.report({ age: 1 }, { round });
  assert.equal((await client.send()).sent, 3);
  assert.equal(bodies.length, 3);
  await client.report({ age: 1 }, { round: "4" });
  now += 40 * 86_400_000;
  assert.equal((await client.send()).expired, 1);
  assert.equal(bodies.length, 3);
});

test("a refusal for good keeps the queue", async () => {
  const { client } = made({ answers: [answered(404)] });
  await client.report({ age: 1 }, { round: "1" });
  await assert.rejects(client.send(), { code: "refused" });
  assert.equal((await client.send()).sent, 1);
});

test("neither the store nor a message holds the value", async () => {
  const url = new URL("../../vectors/study-categories.json", import.meta.url);
  const ways = JSON.parse(readFileSync(url, "utf8")).program;
  const other = await Program.read(JSON.stringify(ways), { digest: ways.digest });
  const { store, options } = made();
  const client = new Client(other, options);
  await client.report({ way: "car" }, { round: "1" });
  assert.ok(!JSON.stringify(await store.all("")).includes("car"));
  await assert.rejects(client.report({ way: "carpet" }, { round: "2" }), (error) => {
    return error.name === "SfumatoError" && !error.message.includes("carpet");
  });
  assert.equal((await client.spent()).studies[0].rounds, 1);
});
