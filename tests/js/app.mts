// An app that uses all of the client; TypeScript checks it against the types, and runs nothing.
import {
  BrowserStore,
  Client,
  Layout,
  MEDIA_TYPE,
  MemoryStore,
  Program,
  SfumatoError,
  canonical,
  digestOf,
  packBatch,
  readBatch,
} from "../../js/src/index.js";

const program: Program = await Program.read("{}", { digest: await digestOf({}) });
const report: Uint8Array = program.encode({ age: 31, mode: "bike", income: null });
const most: string | null = program.most;
// @ts-expect-error A program is made by `read`, which checks its digest.
new Program({});
// @ts-expect-error The digest must be pinned.
Program.read("{}");

const client = new Client(program, { url: "https://collector.example", limit: "3/2", memory: "value" });
new Client(program, { url: "https://collector.example", store: new MemoryStore() });
new Client(program, { url: "https://collector.example", store: new BrowserStore("person") });
// @ts-expect-error There is no such memory.
new Client(program, { url: "https://collector.example", memory: "none" });
const again: Uint8Array = await client.report({ age: 31 }, { round: "2026-11" });
// @ts-expect-error A round has a name.
client.report({ age: 31 });
const { sent, refused } = await client.send({ tries: 2 });
const spent: string = (await client.spent()).text;

const batch = packBatch(program.fingerprint, 20_000, [{ id: new Uint8Array(16), report }]);
const { expires, reports } = readBatch(batch, new Layout([["symbols", 7]]), program.fingerprint);
const codes: string[] = [new SfumatoError("value", "…").code, ...refused.map(({ code }) => code)];
export default [most, again, sent, spent, expires, reports, codes, canonical({}), MEDIA_TYPE];
