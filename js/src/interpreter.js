import { rule } from "./errors.js";

/** No value has more binary digits. */
export const MOST_DIGITS = 2 ** 18;
const LIMIT = 1n << BigInt(MOST_DIGITS);
const LOWEST = -LIMIT; // made once: it takes 32 kB
const MULTIPLIERS = [0x9e3779b1n, 0x85ebca77n, 0xc2b2ae3dn, 0x27d4eb2fn];
const AT_ONCE = 32;

/** Random words from the platform's secure source, each given out once. */
export function secureWords() {
  const held = new BigUint64Array(AT_ONCE);
  let next = AT_ONCE;
  return () => {
    if (next === AT_ONCE) {
      crypto.getRandomValues(held);
      next = 0;
    }
    return held[next++];
  };
}

/** Refuse an operand outside its range; it may tell a value, so it is not shown. */
const operand = (holds, name) => rule(holds, `an operand of "${name}" is out of range`);

const flag = (holds) => (holds ? 1n : 0n);

function clamp(a, low, high) {
  operand(low <= high, "clamp");
  return a < low ? low : a > high ? high : a;
}

function parity(a) {
  let odd = false;
  for (const digit of a.toString(2)) odd = odd !== (digit === "1");
  return flag(odd);
}

function scatter(a, m) {
  operand(a < m && m <= 1n << 31n, "scatter");
  const digits = m === 1n ? 0 : (m - 1n).toString(2).length;
  const half = BigInt((digits + 1) >> 1);
  const last = (1n << BigInt(digits)) - 1n;
  do {
    for (const multiplier of MULTIPLIERS) a = ((a ^ (a >> half)) * multiplier) & last;
    a ^= a >> half;
  } while (a >= m);
  return a;
}

/** The operations that compute a number from others: any numbers, or only those from 0. */
const anyNumbers = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  lt: (a, b) => flag(a < b),
  eq: (a, b) => flag(a === b),
  select: (c, a, b) => (c === 0n ? b : a),
  clamp,
};
const fromZero = {
  div: (a, b) => (operand(b > 0n, "div"), a / b),
  mod: (a, b) => (operand(b > 0n, "mod"), a % b),
  and: (a, b) => a & b,
  xor: (a, b) => a ^ b,
  shl: (a, b) => (operand(b <= MOST_DIGITS, "shl"), a << b),
  shr: (a, b) => (b > MOST_DIGITS ? 0n : a >> b),
  lowbit: (a) => a & -a,
  parity,
  scatter,
};

/** Name of each operation without a draw or a table, and what it does. */
export const operations = new Map(Object.entries(anyNumbers));
for (const [name, compute] of Object.entries(fromZero)) {
  operations.set(name, (...given) => {
    operand(given.every((each) => each >= 0n), name);
    return compute(...given);
  });
}

/** How many of the rising numbers are at most u: the outcome of a table. */
function outcome(sums, u) {
  let [low, high] = [0, sums.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sums[middle] > u) high = middle;
    else low = middle + 1;
  }
  return BigInt(low);
}

function entry(list, place) {
  rule(place >= 0n && place < list.length, "a place lies outside its table");
  return list[Number(place)];
}

/**
 * Runs checked code: each instruction is [name, arguments], an argument a register (a number) or an
 * integer itself (a bigint).
 *
 * @param {Array} code
 * @param {bigint[]} registers Filled so far, the block's cell first.
 * @param {Array} tables As `readTable` makes them.
 * @param {() => bigint} words The next random word.
 * @returns {bigint} The last register.
 */
export function run(code, registers, tables, words) {
  const leading = (bits) => words() >> BigInt(64 - bits);
  for (const [name, first, ...rest] of code) {
    const read = (given) => (typeof given === "bigint" ? given : registers[given]);
    const table = tables[first];
    let value;
    switch (name) {
      case "branch": {
        const way = entry(rest[0], read(first));
        value = run(way, [...registers], tables, words);
        break;
      }
      case "take":
        value = entry(table.list, read(rest[0]));
        break;
      case "bits":
        value = leading(first);
        break;
      case "below":
        value = flag(leading(rest[0]) < read(first));
        break;
      case "remainder":
        operand(read(first) > 0n, name);
        value = leading(rest[0]) % read(first);
        break;
      case "pick":
        value = outcome(table.list, leading(table.bits));
        break;
      case "row":
        value = outcome(entry(table.list, read(rest[0])), leading(table.bits));
        break;
      case "flips": {
        const digits = table.list.map((chance) => (leading(table.bits) < chance ? "1" : "0"));
        value = BigInt(`0b0${digits.reverse().join("")}`);
        break;
      }
      default:
        value = operations.get(name)(...[first, ...rest].map(read));
    }
    rule(value < LIMIT && value > LOWEST, "it computes numbers that are too long");
    registers.push(value);
  }
  return registers.at(-1);
}
