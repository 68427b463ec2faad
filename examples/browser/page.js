// What the page does. `sfumato` is the client, `pinned` the program's text and digest, both put in
// front of this script when the page is built.
const { BrowserStore, Client, MemoryStore, Program, SfumatoError, readBatch } = sfumato;
const EPSILON = 0.1; // E per year, as the study says
const LIMIT = pinned.limit;
const ONE =
  "There is one report per round: pressing again gives the same one, so that the noise cannot be averaged away.";
const STORE = "sfumato example";

const at = (id) => document.getElementById(id);
const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const percent = (share) => `${Number((100 * share).toPrecision(2))}\u00a0%`;
const svg = (name) => document.createElementNS("http://www.w3.org/2000/svg", name);

let client;
let round = 1;
let batch; // the bytes that the client hands out for sending

/** Where a request would go: it is shown and refused, so the client keeps the reports. */
async function shown(_, { body }) {
  batch = body;
  return new Response(null, { status: 404 });
}

/** A client that remembers in the browser's storage, or, where that is blocked, in this page. */
async function opened(program) {
  const options = { url: "https://collector.example", limit: LIMIT, fetch: shown };
  const kept = new Client(program, { ...options, store: new BrowserStore(STORE) });
  try {
    await kept.spent();
    return kept;
  } catch (error) {
    if (error.code !== "store") throw error;
    at("store").textContent =
      "This browser blocks storage for this page, so the report and the account last only until you close or reload it. An app needs storage that lasts.";
    return new Client(program, { ...options, store: new MemoryStore() });
  }
}

/** Deletes what the browser has stored; a page whose storage is blocked has nothing there. */
function forgotten() {
  return new Promise((resolve) => {
    try {
      const asked = indexedDB.deleteDatabase(STORE);
      asked.onsuccess = asked.onerror = resolve;
    } catch {
      resolve();
    }
  });
}

/**
 * Gives the chance of each report from an age: the program is run once for every outcome of its
 * draw, and the outcome's weight is its chance.
 */
function lawOf(program) {
  const [{ bits, list: sums }] = program.tables;
  const starts = [0n, ...sums];
  const ends = [...sums, 1n << BigInt(bits)];
  const shares = starts.map((start, i) => Number(ends[i] - start) / 2 ** bits);
  const rows = [];
  return (age) => {
    if (!rows[age]) {
      const row = new Array(100).fill(0);
      starts.forEach((start, i) => {
        const report = program.encode({ age }, () => start << BigInt(64 - bits));
        row[Number(program.layout.unpack(report)[0])] += shares[i];
      });
      rows[age] = row;
    }
    return rows[age];
  };
}

/** The age that is entered, or null. */
function entered() {
  const text = at("age").value;
  return /^\d{1,2}$/.test(text) ? Number(text) : null;
}

/** Steps at the heights of all chances, as a path. */
const steps = (chances, height) =>
  chances.map((share, i) => `${i ? "L" : "M"}${i} ${100 - height(share)}H${i + 1}`).join("");

/** Draws the chances of all reports from an age, and marks the report that was made. */
function drawHill(law, age, made) {
  const older = age + 10 <= 99;
  const own = law(age);
  const other = law(older ? age + 10 : age - 10);
  const most = Math.max(...own, ...other);
  const height = (share) => (96 * share) / most;
  at("own").setAttribute("d", `${steps(own, height)}V100H0Z`);
  at("other").setAttribute("d", steps(other, height));
  at("drawn").setAttribute("x", made ?? 0);
  at("drawn").setAttribute("y", 100 - height(own[made] ?? 0));
  at("drawn").setAttribute("height", height(own[made] ?? 0));
  document.querySelector(".own").textContent = age;
  at("side").textContent = older ? "older" : "younger";
  const sure = own.reduce((sum, share, i) => sum + (Math.abs(i - age) <= 10 ? share : 0), 0);
  const likeliest = own.indexOf(Math.max(...own));
  at("hill-text").textContent =
    `Across: what the report may say. The likeliest is ${likeliest}, with a chance of ${percent(own[likeliest])}; ` +
    `the report is within ten years of your age with a chance of ${percent(sure)}.`;
}

/** Draws how likely the report is from every age. */
function drawReading(law, age, made) {
  const chances = Array.from({ length: 100 }, (_, each) => law(each)[made]);
  const most = Math.max(...chances);
  at("shades").replaceChildren(
    ...chances.map((chance, i) => {
      const stop = svg("stop");
      stop.setAttribute("offset", `${i + 0.5}%`);
      stop.setAttribute("stop-opacity", chance / most);
      return stop;
    }),
  );
  at("here").style.left = `clamp(1.6rem, ${age + 0.5}%, calc(100% - 1.6rem))`;
  const likely = chances.flatMap((chance, i) => (chance > most / 2 ? [i] : []));
  at("reading").replaceChildren(
    words("p", `It says ${made}. That is not your answer: it is your answer and a random number, added up in your browser${made % 99 ? "" : " and kept within 0 to 99"}.`),
  );
  at("melt-text").textContent =
    `The stronger the colour, the likelier this report is from that age. Ages ${likely[0]} to ${likely.at(-1)} melt together: ` +
    `the report is less than twice as likely from one of them as from another. From your age it had a chance of ${percent(chances[age])}` +
    [-10, 10]
      .filter((by) => chances[age + by] !== undefined)
      .map((by) => `, from ${age + by} of ${percent(chances[age + by])}`)
      .join("") +
    ".";
  at("melt").hidden = false;
}

function words(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

/** Shows the bytes of the batch, part by part. */
function showBatch(program) {
  const { expires, reports } = readBatch(batch, program.layout, program.fingerprint);
  const day = new Date(expires * 86_400_000).toISOString().slice(0, 10);
  const rows = [
    ["The format and its version", batch.subarray(0, 5)],
    ["Which study", batch.subarray(5, 37)],
    [`How many reports: ${reports.length}`, batch.subarray(37, 41)],
    [`Until when it counts: ${day}`, batch.subarray(41, 45)],
  ];
  const each = 16 + program.layout.size;
  reports.forEach(({ results }, i) => {
    const start = 45 + i * each;
    const name = reports.length > 1 ? ` ${i + 1}` : "";
    rows.push([`A random number, so that ${name ? `report${name}` : "the report"} counts once`, batch.subarray(start, start + 16)]);
    rows.push([`Report${name}: ${results[0]}`, batch.subarray(start + 16, start + each), "report"]);
  });
  at("parts").replaceChildren(
    ...rows.map(([what, bytes, kind = ""]) => {
      const row = document.createElement("tr");
      const head = words("th", what);
      head.scope = "row";
      const cell = document.createElement("td");
      cell.append(words("code", hex(bytes)));
      row.append(head, cell);
      row.className = kind;
      return row;
    }),
  );
  at("size").textContent = `${batch.length} bytes, of which your answer has touched ${reports.length * program.layout.size}:`;
  at("batch").textContent = hex(batch);
  at("sent").hidden = false;
}

/** Shows the account. */
async function showSpent() {
  const { total, studies, text } = await client.spent();
  const [above, below = 1] = total.split("/").map(Number);
  const near = Math.exp(10 * EPSILON * (studies[0]?.rounds ?? 0)).toPrecision(2);
  at("near").textContent = studies.length
    ? `That is for the two ages furthest apart, 0 and 99. For ages ten years apart it is about ${near} times.`
    : "";
  at("spent").textContent = text;
  at("meter").setAttribute("aria-valuenow", above / below);
  at("filled").style.width = `${Math.min(100, (100 * above) / below / LIMIT)}%`;
}

async function roundsSoFar() {
  return (await client.spent()).studies[0]?.rounds ?? 0;
}

/** Says what went wrong; no message of the client holds an answer. */
function trouble(text = "") {
  at("trouble").textContent = text;
  at("trouble").hidden = !text;
}

function failed(error) {
  trouble(error instanceof SfumatoError ? error.message : "Something went wrong in this page. Reload it.");
  throw error;
}

try {
  const program = await Program.read(pinned.text, { digest: pinned.digest });
  const law = lawOf(program);
  client = await opened(program);
  let made = null;

  const draw = () => {
    const age = entered();
    if (age === null) return;
    drawHill(law, age, made);
    if (made !== null) drawReading(law, age, made);
  };

  const begin = async () => {
    made = null;
    round = Math.max(1, await roundsSoFar());
    at("memory").textContent = (await roundsSoFar())
      ? `This browser holds the report of round ${round} from before. The button shows that one again, whatever you enter.`
      : ONE;
    at("make").disabled = at("forget").disabled = false;
    await showSpent();
    draw();
  };

  const press = async () => {
    trouble();
    const before = await roundsSoFar();
    let report;
    try {
      report = await client.report({ age: entered() ?? at("age").value }, { round: `${round}` });
    } catch (error) {
      if (!(error instanceof SfumatoError)) throw error;
      if (error.code === "limit") round = before;
      trouble(error.code === "value" ? "Enter your age in whole years, from 0 to 99. Nothing was made or charged." : error.message);
      return;
    }
    await client.send().catch((error) => {
      if (error.code !== "refused") throw error; // it is shown, and kept
    });
    made = Number(program.layout.unpack(report)[0]);
    const fresh = (await roundsSoFar()) > before;
    at("result").replaceChildren(
      words("p", fresh
        ? `This is the report of round ${round}, made just now.`
        : `This is the report of round ${round} once more, byte for byte: a round has one report, whatever you enter.`),
    );
    at("memory").textContent = ONE;
    showBatch(program);
    await showSpent();
    draw();
    at("next").disabled = false;
  };

  const answer = (id, name, work) =>
    at(id).addEventListener(name, (event) => {
      event.preventDefault();
      work().catch(failed);
    });
  answer("form", "submit", press);
  at("age").addEventListener("input", () => {
    if (entered() !== null) at("slider").value = entered();
    draw();
  });
  at("slider").addEventListener("input", () => {
    at("age").value = at("slider").value;
    draw();
  });
  answer("next", "click", () => {
    round += 1;
    return press();
  });
  answer("forget", "click", async () => {
    trouble();
    await forgotten();
    client = await opened(program);
    at("sent").hidden = at("melt").hidden = true;
    at("result").replaceChildren(words("p", "Everything is forgotten: the report, the account and the limit. Clearing the data of a site does the same to an app."));
    at("reading").replaceChildren(words("p", "Nothing yet."));
    at("next").disabled = true;
    await begin();
  });
  await begin();
} catch (error) {
  failed(error);
}
