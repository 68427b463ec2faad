import { require, rule } from "./errors.js";

const DAY = 86400;
const PLACES = 2 ** 20;

/** The double whose IEEE 754 bits are given as 16 hexadecimal digits. */
function double(digits) {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(`0x${digits}`));
  return view.getFloat64(0);
}

/** Rounds to the nearest integer, ties to even. */
function nearest(x) {
  const below = Math.floor(x);
  const rest = x - below;
  return below + (rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? 1 : 0);
}

/** The day number of YYYY-MM-DD, counted from 1970-01-01; null if there is no such day. */
function dayNumber(text) {
  if (!/^\d{4}-\d\d-\d\d$/.test(text) || text.startsWith("0000")) return null;
  const moment = new Date(`${text}T00:00:00Z`);
  // Date accepts 2023-02-30 in some engines, and moves it.
  if (Number.isNaN(+moment) || moment.toISOString().slice(0, 10) !== text) return null;
  return moment / 1000 / DAY;
}

/** The second of the day of HH:MM[:SS[.…]], rounded down, 24:00 included; null if bad. */
function clockSecond(text) {
  const found = /^(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?$/.exec(text);
  if (!found) return null;
  const [hours, minutes, seconds] = [found[1], found[2], found[3] ?? 0].map(Number);
  const total = (hours * 60 + minutes) * 60 + seconds;
  const within = total < DAY || (total === DAY && !/[1-9]/.test(found[4] ?? ""));
  return minutes < 60 && seconds < 60 && within ? total : null;
}

/** The second of YYYY-MM-DDTHH:MM…, counted from 1970-01-01T00:00; null if bad. */
function momentSecond(text) {
  if (text[10] !== "T" && text[10] !== " ") return null;
  const day = dayNumber(text.slice(0, 10));
  const second = clockSecond(text.slice(11));
  if (day === null || second === null) return null;
  return text.startsWith("9999-12-31") && second === DAY ? null : day * DAY + second;
}

/** For each kind: a function from a value to its place, null if the type is wrong, and the cells. */
const kinds = {
  integers({ low, high }) {
    const first = Number(low);
    return [
      Number(high) - first + 1,
      (value) => {
        const number = typeof value === "bigint" ? Number(value) : value;
        if (typeof number !== "number") return null;
        return Number.isInteger(number) || Math.abs(number) === Infinity ? number - first : null;
      },
    ];
  },
  reals({ edges, rounding }) {
    const list = Array.isArray(edges);
    const [first, step, below] = list ? [] : [edges.first, edges.step, edges.below].map(Number);
    const cuts = list
      ? Float64Array.from(edges, double)
      : Float64Array.from({ length: edges.count + 1 }, (_, i) => (first + step * i) / below);
    const bins = cuts.length - 1;
    rule(
      bins >= 1 && cuts.every((cut, i) => Number.isFinite(cut) && (i === 0 || cuts[i - 1] < cut)),
      "edges must be finite and rise",
    );
    return [
      bins + (rounding ? 1 : 0),
      (value, clip) => {
        if (typeof value !== "number") return null;
        const inside = Math.min(Math.max(value, cuts[0]), cuts[bins]);
        if (inside !== value && !clip) return null;
        let [bin, above] = [0, bins - 1]; // the last of these bins whose lower edge is at most v
        while (bin < above) {
          const middle = Math.ceil((bin + above) / 2);
          if (cuts[middle] <= inside) bin = middle;
          else above = middle - 1;
        }
        if (!rounding) return bin;
        const share = (inside - cuts[bin]) / (cuts[bin + 1] - cuts[bin]);
        return bin * PLACES + nearest(Math.min(Math.max(share, 0), 1) * PLACES);
      },
    ];
  },
  dates({ first, step, cells }) {
    return [
      cells,
      (value) => {
        if (typeof value !== "string") return null;
        const second = momentSecond(value);
        const day = second === null ? dayNumber(value) : Math.floor(second / DAY);
        return day === null ? null : Math.floor((day - first) / step);
      },
    ];
  },
  times({ first, step, cells, of_day: ofDay }) {
    return [
      cells,
      (value) => {
        if (typeof value !== "string") return null;
        const second = ofDay ? clockSecond(value) : momentSecond(value);
        if (second === null || (ofDay && second === DAY)) return null;
        return Math.floor((second - first) / step);
      },
    ];
  },
  categories({ labels }) {
    const places = new Map(labels.map((label, place) => [label, place]));
    return [labels.length, (value) => places.get(value) ?? null];
  },
};

/** How a value becomes a code, as an axis of a program (already checked) states it. */
export class Axis {
  constructor(held) {
    this.name = held.name;
    this.optional = held.optional;
    this.clip = held.outside === "clip";
    this.rounds = held.kind === "reals" && held.rounding > 0;
    [this.cells, this.place] = kinds[held.kind](held);
    this.size = this.cells + (held.optional ? 1 : 0);
  }

  /** The code of a value; a value that does not fit is refused, and never shown. */
  code(value) {
    if (value === undefined || value === null || value === "" || Number.isNaN(value)) {
      require(this.optional, "value", `Axis "${this.name}" needs an answer.`);
      return this.cells;
    }
    let place = this.place(value, this.clip);
    if (place !== null && !this.rounds) {
      const inside = Math.min(Math.max(place, 0), this.cells - 1);
      if (place !== inside) place = this.clip ? inside : null;
    }
    require(
      place !== null,
      "value",
      `Axis "${this.name}" does not take this value: it has another type or lies out of bounds.`,
    );
    return place;
  }
}
