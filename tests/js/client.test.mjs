// The client in JavaScript, with a store in memory and a collector that is a function.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Client, MemoryStore, Program } from "../../js/src/index.js";

const vector = JSON.parse(
  readFileSync(new URL("../../vectors/study-integers.json", import.meta.url), "utf8"),
);
const text = JSON.stringify(vector.program);
const { digest } = vector.program;
const program = await Program.read(text, { digest });

/** The program of another file of vectors. */
async function programOf(name) {
  const url = new URL(`../../vectors/${name}.json`, import.meta.url);
  const held = JSON.parse(readFileSync(url, "utf8")).program;
  return Program.read(JSON.stringify(held), { digest: held.digest });
}

const answered = (status, body = {}, headers = {}) =>
  new Response(JSON.stringify(body), { status, headers });

/** The answer of a collector that has stored a whole batch. */
const stored = (body) =>
  answered(202, { accepted: new DataView(body.buffer).getUint32(37, true), repeated: 0, refused: [] });

/** A client, what it sent, and how long it waited; answers are given one after the other. */
function made({ answers = [], ...more } = {}) {
  const [bodies, waits] = [[], []];
  const fetch = async (_, { body }) => {
    bodies.push(Buffer.from(body).toString("hex"));
    const next = answers.shift();
    if (next === "no answer") throw new TypeError("failed");
    return next ?? stored(body);
  };
  const wait = async (milliseconds) => waits.push(milliseconds);
  const store = new MemoryStore();
  const options = { url: "https://collector.example", store, fetch, wait, ...more };
  return { client: new Client(program, options), bodies, waits, store: options.store, options };
}

test("only the pinned program runs", async () => {
  const refused = (given, options, code) =>
    assert.rejects(Program.read(given, options), { name: "SfumatoError", code });
  await refused(text, { digest: "0".repeat(64) }, "digest");
  await refused(text, undefined, "digest");
  const edited = text.replace('"high":"40"', '"high":"39"');
  assert.notEqual(edited, text);
  await refused(edited, { digest }, "digest");
  const table = text.replace(/"runs":\[\["(\d+)"/, (found, first) => found.replace(first, `${first}1`));
  assert.notEqual(table, text);
  await refused(table, { digest }, "digest");
  const newer = text.replace('"version":1', '"version":2');
  await refused(newer, { digest }, "version");
});

test("only the canonical text of a program is read", async () => {
  const other = [
    ['"version":1', '"version":1,"version":1'],
    ['"count":44', '"count":44.0'],
    ['"version":1', '"version": 1'],
  ];
  for (const [before, after] of other) {
    assert.ok(text.includes(before));
    const wrong = text.replace(before, after);
    await assert.rejects(Program.read(wrong, { digest }), { name: "SfumatoError" });
  }
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

test("by value the words are those of HMAC, as in Python", async () => {
  const bytes = new Uint8Array(32).map((_, k) => 7 * k);
  const { client, store } = made({ memory: "value" });
  const kind = { name: "HMAC", hash: "SHA-256" };
  await store.put("secret", await crypto.subtle.importKey("raw", bytes, kind, false, ["sign"]));
  for (const age of [-3, 0, 40]) {
    const words = [];
    for (let block = 0; words.length < program.draws; block++) {
      const text = `sfumato value\n${digest}\n${program.codes({ age }).join(",")}\n${block}`;
      const drawn = createHmac("sha256", bytes).update(text).digest();
      for (let at = 0; at < 32; at += 8) words.push(drawn.readBigUInt64BE(at));
    }
    const report = await client.report({ age }, { round: `${age}` });
    assert.deepEqual(report, program.encode({ age }, () => words.shift()));
  }
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

test("an id follows from nothing that the device has", async () => {
  const [one, other] = [made({ memory: "value" }), made({ memory: "value" })];
  const first = await one.client.report({ age: 17 }, { round: "1" });
  await other.store.put("secret", await one.store.get("secret"));
  assert.deepEqual(await other.client.report({ age: 17 }, { round: "1" }), first);
  const entries = await Promise.all([one, other].map(({ store }) => store.all("round ")));
  const [[[key, { id, ...rest }]], [[sameKey, { id: otherId, ...same }]]] = entries;
  assert.deepEqual([key, rest], [sameKey, same]);
  assert.notDeepEqual(id, otherId);
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

test("a pause outlives the page, grows, and ends with a success or a clock that went back", async () => {
  let now = Date.UTC(2026, 10, 18);
  const busy = () => answered(503);
  const answers = [busy(), busy(), answered(429, {}, { "Retry-After": "3600" })];
  const { client, options, bodies, waits } = made({ answers, now: () => now });
  await client.report({ age: 17 }, { round: "1" });
  await assert.rejects(client.send({ tries: 1 }), { code: "unreachable" });
  assert.equal(waits.length, 0);
  const again = () => new Client(program, options).send({ tries: 1 });
  await assert.rejects(again(), { code: "unreachable" });
  assert.ok(waits[0] >= 500 && waits[0] <= 1500);
  now += 3000; // longer than the second pause
  await assert.rejects(again(), { code: "unreachable" });
  assert.equal(waits.length, 1);
  assert.equal(bodies.length, 3);
  await assert.rejects(again(), { code: "unreachable" }); // an hour is too long to wait for
  assert.equal(bodies.length, 3);
  now -= 86_400_000;
  assert.equal((await again()).sent, 1);
  await client.report({ age: 17 }, { round: "2" });
  assert.equal((await again()).sent, 1);
  assert.equal(waits.length, 1);
});

const asked = [
  ["600", 600_000],
  ["-5", 500],
  ["1e3", 500],
  ["0x10", 500],
  ["1.5", 500],
  ["Infinity", 500],
  ["Fri, 20 Nov 2026 07:28:00 GMT", 500],
];
for (const [text, least] of asked) {
  test(`a pause of "${text}" is that of its whole seconds, or the client's own`, async () => {
    const { client, waits } = made({ answers: [answered(503, {}, { "Retry-After": text })] });
    await client.report({ age: 17 }, { round: "1" });
    assert.equal((await client.send()).sent, 1);
    assert.ok(waits[0] >= least && waits[0] <= Math.max(least, 1500));
  });
}

test("a pause without end is one of 31 days", async () => {
  const { client, store } = made({ answers: [answered(503, {}, { "Retry-After": "9".repeat(400) })] });
  await client.report({ age: 17 }, { round: "1" });
  await assert.rejects(client.send(), { code: "unreachable" });
  const [[, { wait }]] = await store.all("pause ");
  assert.equal(wait, 31 * 86_400_000);
});

test("the order of a batch does not tell that of the rounds", async () => {
  const { client, bodies } = made();
  for (let k = 10; k < 40; k++) await client.report({ age: 17 }, { round: `${k}` });
  await client.send();
  const ids = bodies[0].slice(90).match(/.{34}/g).map((each) => each.slice(0, 32));
  assert.equal(ids.length, 30);
  assert.deepEqual(ids, ids.toSorted());
});

test("refused and expired reports are not sent again", async () => {
  const refused = [{ place: 1, code: "symbol" }];
  const { client, bodies } = made({
    answers: [
      answered(207, { accepted: 2, repeated: 0, refused }),
      answered(410, { code: "expired" }),
    ],
  });
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

const wrong = [
  ["no counts", 202, {}],
  ["no list", 202, { accepted: 2, repeated: 0 }],
  ["too few", 202, { accepted: 1, repeated: 0, refused: [] }],
  ["too many", 202, { accepted: 3, repeated: -1, refused: [] }],
  ["a refusal beyond the end", 207, { accepted: 1, repeated: 0, refused: [{ place: 2, code: "id" }] }],
  ["a refusal twice", 207, { accepted: 0, repeated: 0, refused: [{ place: 1, code: "id" }, { place: 1, code: "id" }] }],
  ["a refusal in a full success", 202, { accepted: 1, repeated: 0, refused: [{ place: 0, code: "id" }] }],
  ["no refusal at all", 207, { accepted: 1, repeated: 0, refused: [7] }],
];
for (const [name, status, body] of wrong) {
  test(`an answer that does not add up forgets nothing: ${name}`, async () => {
    const { client, bodies } = made({ answers: [answered(status, body)] });
    for (const round of ["1", "2"]) await client.report({ age: 1 }, { round });
    assert.equal((await client.send()).sent, 2);
    assert.equal(bodies.length, 2);
    assert.equal(bodies[0], bodies[1]);
  });
}

test("another page that is gone drops nothing", async () => {
  const { client } = made({ answers: [answered(410)] });
  await client.report({ age: 1 }, { round: "1" });
  await assert.rejects(client.send(), { code: "refused" });
  assert.equal((await client.send()).sent, 1);
});

test("a clock that goes backwards makes no report, and a day of difference is forgiven", async () => {
  let day = 20_000;
  const { client } = made({ now: () => day * 86_400_000 });
  const first = await client.report({ age: 1 }, { round: "1" });
  day -= 1;
  await client.report({ age: 1 }, { round: "2" });
  day -= 1;
  const asked = client.report({ age: 17 }, { round: "3" });
  await assert.rejects(asked, (error) => error.code === "clock" && !error.message.includes("17"));
  assert.deepEqual(await client.report({ age: 1 }, { round: "1" }), first);
  assert.equal((await client.spent()).studies[0].rounds, 2);
  assert.equal((await client.send()).sent, 2);
  await client.acceptClock();
  await client.report({ age: 1 }, { round: "3" });
});

test("a store that cannot be written makes no report, and charges at most once", async () => {
  for (const works of [0, 1, 2]) {
    class Full extends MemoryStore {
      left = works;
      async put(key, value) {
        if (this.left-- <= 0) throw Object.assign(new Error("full"), { code: "store" });
        return super.put(key, value);
      }
    }
    const store = new Full();
    const { client, bodies } = made({ store });
    await assert.rejects(client.report({ age: 17 }, { round: "1" }), { code: "store" });
    assert.equal((await client.send()).sent, 0);
    assert.equal(bodies.length, 0);
    store.left = Infinity;
    await client.report({ age: 17 }, { round: "1" });
    assert.equal((await client.spent()).total, "43/2");
    assert.equal((await client.send()).sent, 1);
  }
});

test("a client sends no report of another study", async () => {
  const other = await programOf("study-times");
  const { client, bodies, options } = made();
  await client.report({ age: 1 }, { round: "1" });
  const second = new Client(other, options);
  assert.deepEqual(await second.send(), { sent: 0, expired: 0, refused: [] });
  await second.report({ at: "06:30" }, { round: "1" });
  assert.equal((await second.send()).sent, 1);
  assert.equal((await client.send()).sent, 1);
  const fingerprints = bodies.map((body) => body.slice(10, 74));
  assert.deepEqual(fingerprints, [other.fingerprint, program.fingerprint]);
  assert.equal((await client.spent()).studies.length, 2);
});

test("reports that another program has made are not sent", async () => {
  const { client, store } = made();
  await client.report({ age: 1 }, { round: "1" });
  const [[key, entry]] = await store.all("round ");
  assert.equal(entry.digest, digest);
  await store.put(key, { ...entry, digest: "0".repeat(64) }); // of the same study and size
  await assert.rejects(client.send(), { code: "queue" });
});

test("what was given away is said in decimal numbers where they are exact", async () => {
  const { client } = made({ limit: 43 });
  await client.report({ age: 1 }, { round: "1" });
  assert.match((await client.spent()).text, /^ages, 1 round: E = 21\.5: together at most 10\^10 times/);
});

test("a moment counts for its own day until midnight", async () => {
  const days = await programOf("study-dates"); // weeks from 2023-12-25
  assert.deepEqual(days.codes({ day: "2023-12-31T23:59:59.9" }), [0]);
  assert.deepEqual(days.codes({ day: "2024-01-01T00:00" }), [1]);
});

test("neither the store nor a message holds the value", async () => {
  const other = await programOf("study-categories");
  const { store, options } = made();
  const client = new Client(other, options);
  await client.report({ way: "car" }, { round: "1" });
  assert.ok(!JSON.stringify(await store.all("")).includes("car"));
  await assert.rejects(client.report({ way: "carpet" }, { round: "2" }), (error) => {
    return error.name === "SfumatoError" && !error.message.includes("carpet");
  });
  assert.equal((await client.spent()).studies[0].rounds, 1);
});
