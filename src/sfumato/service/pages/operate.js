// The page of administrators: how the collector is, and publishing and deleting studies.
import { Refused, access, at, call, day, facts, guarded, make, notice, scrolled, size, table, token } from "./page.js";

const EVERY = 5_000; // milliseconds between looks
const PARTS = ["state", "held", "publish", "people", "asked", "damaged"];
const DRAFT = "sfumato study";

let deleting;

const count = (number) => number.toLocaleString("en");
const moment = (seconds) => (seconds === null ? "none yet" : `${new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ")} UTC`);
const rate = (number) => (number === null ? "not known yet" : `${number.toLocaleString("en", { maximumSignificantDigits: 2 })} per second`);

/** How long a time is, in words. */
function lasting(seconds) {
  const [unit, name] = [[86_400, "days"], [3_600, "hours"], [60, "minutes"], [1, "seconds"]].find(([length]) => seconds >= 2 * length) ?? [1, "seconds"];
  return `${Math.floor(seconds / unit)} ${name}`;
}

/** One large figure with what it means. */
const figure = (value, text, more) => make("div", {}, make("p", { class: "figure" }, value), make("p", { class: "hint" }, text), more ?? null);

function meter(share, label) {
  const bar = make("div", {});
  bar.style.width = `${Math.min(100, 100 * share)}%`;
  return make("div", { class: "meter", role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * share) }, bar);
}

function showState({ version, seconds, ready, queue, disk, questions, last_backup: backup, studies }) {
  at("ready").textContent = ready ? "takes reports" : "does not take reports";
  at("ready").className = ready ? "tag" : "tag out";
  const total = studies.reduce((sum, study) => sum + study.reports, 0);
  const minute = studies.reduce((sum, { rates }) => (rates.minute === null ? sum : (sum ?? 0) + rates.minute), null);
  at("figures").replaceChildren(
    figure(count(total), `reports in ${count(studies.length)} ${studies.length === 1 ? "study" : "studies"}`),
    figure(rate(minute), "reports accepted in the last minute"),
    figure(size(queue.bytes), `wait to be stored, of at most ${size(queue.most_bytes)}`, meter(queue.bytes / queue.most_bytes, "Queue, in percent")),
    figure(size(disk.free_bytes), `of the disk are free; the store has ${size(disk.store_bytes)}. Below ${size(disk.reserve_bytes)} no reports are taken.`),
    figure(count(questions), "questions in the log"),
    figure(moment(backup), "last backup"),
    figure(version, `of sfumato, running for ${lasting(seconds)}`),
  );
}

const words = { accepted: "accepted", repeated: "repeated" };

function showStudies(studies) {
  if (!studies.length) return at("studies").replaceChildren(make("p", { class: "quiet" }, "None is published yet."));
  return at("studies").replaceChildren(
    ...studies.map((study) =>
      make("article", { class: "held", "aria-label": study.name },
        make("h3", {}, study.name),
        facts([
          ["Reports", `${count(study.reports)} counted, ${count(study.waiting)} waiting; tally ${study.tally}`],
          ["Rate", study.rates.minute === null ? rate(null) : `${rate(study.rates.minute)} in the last minute, ${rate(study.rates.hour)} in the last hour`],
          ["What became of them", Object.entries(study.counters).map(([reason, number]) => `${words[reason] ?? `refused (${reason})`}: ${count(number)}`).join(", ") || "none has come yet"],
          ["Published", `${day(study.published)}; answers from ${count(study.minimum)} reports on; ${study.report_bytes} bytes per report`],
          ["Fingerprint", make("code", {}, study.fingerprint)],
          ["Digest to pin", make("code", {}, study.digest)],
        ]),
        make("div", { class: "buttons" },
          make("a", { href: `/answer/${study.fingerprint}` }, "Answer"),
          make("a", { href: `/explore?study=${study.fingerprint}` }, "Explore"),
          make("button", { type: "button", class: "second small", click: () => confirm(study) }, "Delete …")),
      ),
    ),
  );
}

function showTokens(tokens) {
  const cells = tokens.map(({ name, role, created, revoked }) => [name, role, day(created), revoked === null ? "valid" : `revoked ${day(revoked)}`]);
  at("tokens").replaceChildren(scrolled("Table of tokens", table(`${count(tokens.length)} tokens`, ["name", "role", "made", "state"], cells)));
}

function showRequests(requests) {
  const cells = Object.entries(requests).map(([name, statuses]) => [name, Object.entries(statuses).map(([status, number]) => `${status}: ${count(number)}`).join(", ")]);
  at("requests").replaceChildren(scrolled("Table of requests", table("By route and status of HTTP; nothing is known of who sent them", ["route", "answers"], cells)));
}

function showQuarantine({ batches, bytes, reasons, days }) {
  const cells = Object.entries(reasons).map(([reason, number]) => [reason, count(number)]);
  at("quarantine").replaceChildren(
    make("p", {}, `${count(batches)} kept, ${size(bytes)} in all; each for ${days} days.`),
    cells.length ? table("By what is wrong with them", ["reason", "batches"], cells, [1]) : "",
  );
}

/** Asks before a study is deleted. */
function confirm(study) {
  deleting = study;
  at("sure-text").textContent = `Study “${study.name}” would be deleted with all of its ${count(study.reports)} reports, for good. The log of questions stays.`;
  at("sure-name").value = "";
  at("sure-yes").disabled = true;
  at("sure").returnValue = "no";
  at("sure").showModal();
}

async function remove() {
  if (at("sure").returnValue !== "yes") return;
  await call("DELETE", `/v1/studies/${deleting.fingerprint}`);
  await look();
}

async function publish() {
  const query = new URLSearchParams({ minimum: at("minimum").value, keep: at("keep").value });
  const study = await call("POST", `/v1/studies?${query}`, { body: at("text").value, type: "application/toml" });
  sessionStorage.removeItem(DRAFT);
  at("published").replaceChildren(
    `Published “${study.name}”. People answer it at `,
    make("a", { href: `/answer/${study.fingerprint}`, id: "answer-link" }, `/answer/${study.fingerprint.slice(0, 12)}…`), ".",
  );
  await look();
}

async function look() {
  const found = await call("GET", "/v1/status");
  showState(found);
  showStudies(found.studies);
  showTokens(found.tokens);
  showRequests(found.requests);
  showQuarantine(found.quarantine);
  for (const part of PARTS) at(part).hidden = false;
}

async function begin() {
  for (const part of PARTS) at(part).hidden = true;
  if (!token()) return notice("Enter the token of an administrator above. It stays in this tab.");
  await guarded(look);
  const draft = sessionStorage.getItem(DRAFT);
  if (draft) at("text").value = draft;
  if (location.hash) document.querySelector(location.hash)?.scrollIntoView();
  return undefined;
}

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(publish);
});
at("upload").addEventListener("change", async () => {
  const [file] = at("upload").files;
  if (file) at("text").value = await file.text();
});
at("sure-name").addEventListener("input", () => (at("sure-yes").disabled = at("sure-name").value !== deleting.name));
at("sure").addEventListener("close", () => guarded(remove));
access("an administrator", begin);
setInterval(() => {
  if (document.visibilityState === "visible" && !at("state").hidden && !at("sure").open) look().catch((error) => error instanceof Refused && notice(error.message));
}, EVERY);
