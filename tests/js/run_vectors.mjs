// All vectors of a folder in Node: node run_vectors.mjs FOLDER
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import * as client from "../../js/src/index.js";
import { run } from "./vectors.mjs";

const folder = process.argv[2];
const read = (file) => [file, JSON.parse(readFileSync(join(folder, file), "utf8"))];
console.log(JSON.stringify(await run(client, Object.fromEntries(readdirSync(folder).sort().map(read)))));
