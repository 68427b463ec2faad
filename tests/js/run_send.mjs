// Reports for some rounds, sent to a collector over HTTP: `node run_send.mjs VECTOR URL ROUNDS`.
import { readFileSync } from "node:fs";
import { Client, MemoryStore, Program } from "../../js/src/index.js";

const [file, url, rounds] = process.argv.slice(2);
const held = JSON.parse(readFileSync(file, "utf8")).program;
const program = await Program.read(JSON.stringify(held), { digest: held.digest });
const wait = async () => {};
const client = new Client(program, { url, store: new MemoryStore(), token: "let me in", wait });
const reports = [];
for (let round = 0; round < Number(rounds); round++) {
  reports.push(await client.report({ age: 17 }, { round: `${round}` }));
}
const hex = reports.map((report) => Buffer.from(report).toString("hex"));
const first = await client.send({ tries: 9 });
console.log(JSON.stringify({ reports: hex, first, second: await client.send() }));
