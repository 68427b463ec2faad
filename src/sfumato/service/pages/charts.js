// Charts drawn by hand: a histogram with its intervals, a cumulative curve with its band, a heat map
// whose cells below the noise are grey, and a table of the same numbers.
const NS = "http://www.w3.org/2000/svg";
const HEIGHT = 250;
const TALLEST = 640; // pixels of a map
const NEAR = 12; // pixels between labels
const LETTER = 6.6; // pixels of a letter, at most on average

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

/** A number for people: as many digits as its error is worth. */
export function shown(value, error = 0) {
  if (value === null || !Number.isFinite(value)) return "–";
  const decimals = error > 0 ? 1 - Math.floor(Math.log10(error)) : Math.abs(value) >= 100 ? 0 : 3;
  const digits = Math.min(Math.max(decimals, 0), 12);
  const scale = 10 ** Math.max(-decimals, 0);
  const rounded = decimals < 0 ? Math.round(value / scale) * scale : value;
  return rounded.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: error > 0 ? digits : 0, signDisplay: "negative" });
}

function draw(name, attributes = {}, ...children) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function titled(element, text) {
  element.append(draw("title", {}, text));
  return element;
}

/** Round numbers from 0 to at least the largest. */
function ticks(most, share) {
  if (share && most > 0.5) return [0, 0.25, 0.5, 0.75, 1];
  const rough = (most || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, i) => i * step);
}

/** The frame of a chart: ticks on the left, labels below; gives where things are. */
function framed(width, most, labels, { fraction, summary, middle }) {
  const height = HEIGHT;
  const marks = ticks(most, fraction);
  const said = marks.map((mark) => (fraction ? `${+(100 * mark).toPrecision(3)} %` : compact.format(mark)));
  const left = 10 + LETTER * Math.max(...said.map((each) => each.length));
  const [right, top, bottom] = [6, 8, 24];
  const inner = Math.max(width - left - right, 40);
  const tall = height - top - bottom;
  const x = (place) => left + (inner * place) / labels.length;
  const y = (value) => top + tall * (1 - value / marks.at(-1));
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": summary });
  marks.forEach((mark, i) => {
    svg.append(draw("line", { x1: left, x2: width - right, y1: y(mark), y2: y(mark), class: mark ? "rule" : "axis" }));
    svg.append(draw("text", { x: left - 6, y: y(mark) + 4, "text-anchor": "end" }, said[i]));
  });
  below(svg, labels, x, height - 7, width, middle);
  return { svg, x, y, left, inner };
}

/** The label of a group of cells by where it begins, or in short. */
function brief(label, most) {
  const start = label.split("..")[0];
  return start.length > most ? `${start.slice(0, most - 1)}…` : start;
}

/** Labels below their places: every one, or every second, or as many as fit. */
function below(svg, labels, x, at, width, middle = 0.5) {
  const texts = labels.map((label) => brief(label, 16));
  const longest = Math.max(...texts.map((text) => text.length)) * LETTER + NEAR;
  const stride = Math.ceil(longest / (x(1) - x(0)));
  texts.forEach((text, i) => {
    if (i % stride) return;
    const half = (LETTER * text.length) / 2;
    const place = Math.min(Math.max(x(i + middle), half), width - half);
    svg.append(draw("text", { x: place, y: at, "text-anchor": "middle" }, text));
  });
}

/** Bars with intervals. `chosen` is the first and the last bar that are marked. */
export function histogram(width, { labels, values, low, high, fraction = false, band = false, chosen, summary }) {
  const most = Math.max(...values, ...high.map((end) => end ?? 0), 1e-9);
  const frame = framed(width, most, labels, { fraction, summary });
  const { svg, x, y } = frame;
  const wide = frame.inner / labels.length;
  const gap = wide > 6 ? Math.min(wide * 0.16, 5) : 0;
  values.forEach((value, i) => {
    const marked = chosen && chosen[0] <= i && i <= chosen[1];
    const tip = Math.max(value ?? 0, 0);
    const rect = draw("rect", { x: x(i) + gap / 2, y: y(tip), width: Math.max(wide - gap, 0.5), height: y(0) - y(tip), class: marked ? "bar chosen" : "bar" });
    svg.append(titled(rect, `${labels[i]}: ${shown(value, (high[i] - low[i]) / 4)} (${shown(low[i])} to ${shown(high[i])})`));
    if (low[i] === null || high[i] === null) return;
    const [from, to] = [y(Math.max(high[i], 0)), y(Math.max(low[i], 0))];
    if (band) {
      svg.append(draw("rect", { x: x(i), y: from, width: wide, height: Math.max(to - from, 1), class: "reach" }));
    } else {
      svg.append(draw("line", { x1: x(i + 0.5), x2: x(i + 0.5), y1: from, y2: to, class: "whisker" }));
    }
  });
  return { svg, placeOf: (at) => Math.min(Math.max(Math.floor(((at - frame.left) / frame.inner) * labels.length), 0), labels.length - 1) };
}

/** A cumulative curve with its band. */
export function curve(width, { labels, values, low, high, summary }) {
  const { svg, x, y } = framed(width, 1, labels, { fraction: true, summary, middle: 0 });
  const inside = (share) => y(Math.min(Math.max(share ?? 0, 0), 1));
  const line = (list) => list.map((share, i) => `L${x(i + 1).toFixed(1)} ${inside(share).toFixed(1)}`).join("");
  const back = low.map((share, i) => `L${x(i + 1).toFixed(1)} ${inside(share).toFixed(1)}`).reverse().join("");
  svg.append(draw("path", { d: `M${x(0)} ${y(0)}${line(high)}${back}Z`, class: "reach" }));
  svg.append(draw("path", { d: `M${x(0)} ${y(0)}${line(values)}`, class: "curve" }));
  return { svg };
}

/**
 * Cells of two axes: the stronger the more people; grey where the interval begins at zero. `chosen`
 * holds the first and the last row and column of the part that is marked. On a map the first row is
 * at the bottom, and `ratio` is the height of a cell over its width.
 */
export function heatmap(width, { labels, values, low, high, fraction = false, chosen, ratio, summary }) {
  const [rows, columns] = labels;
  const left = 10 + LETTER * Math.min(Math.max(...rows.map((label) => brief(label, 12).length)), 12);
  const room = width - left - 6;
  const inner = ratio ? Math.min(room, (TALLEST * columns.length) / (ratio * rows.length)) : room;
  const wide = inner / columns.length;
  const tall = ratio ? wide * ratio : Math.max(Math.min(wide, 34), 11);
  const bottom = 8 + tall * rows.length;
  const height = bottom + 24;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": summary });
  const x = (place) => left + wide * place;
  const y = (place) => 8 + tall * (ratio ? rows.length - 1 - place : place); // the upper end of a row
  const most = Math.max(...values.flat().filter((value) => value !== null), 1e-12);
  let last = -Infinity;
  rows.forEach((row, i) => {
    if (Math.abs(y(i) - last) >= 14) {
      svg.append(draw("text", { x: left - 6, y: y(i) + tall / 2 + 4, "text-anchor": "end" }, brief(row, 12)));
      last = y(i);
    }
    columns.forEach((column, j) => {
      const noise = !(low[i][j] > 0);
      const gap = Math.min(1, wide / 8, tall / 8);
      const rect = draw("rect", { x: x(j), y: y(i), width: wide - gap, height: tall - gap, class: noise ? "noise" : "cell" });
      if (!noise) rect.setAttribute("fill-opacity", (0.12 + 0.88 * Math.min(values[i][j] / most, 1)).toFixed(3));
      const number = fraction ? `${shown(100 * values[i][j])} %` : shown(values[i][j], (high[i][j] - low[i][j]) / 4);
      svg.append(titled(rect, `${row}, ${column}: ${number}${noise ? ", below the noise" : ""}`));
    });
  });
  if (ratio) svg.append(draw("rect", { x: left, y: 8, width: inner, height: bottom - 8, class: "outline" }));
  below(svg, columns, x, height - 7, width);
  const frame = draw("rect", { class: "brush", visibility: "hidden" });
  svg.append(frame);
  const mark = ([[top, end], [first, final]]) => {
    const ends = [y(top), y(end)];
    const sides = { x: x(first), y: Math.min(...ends), width: x(final + 1) - x(first), height: Math.abs(ends[1] - ends[0]) + tall, visibility: "visible" };
    for (const [name, value] of Object.entries(sides)) frame.setAttribute(name, value);
  };
  if (chosen) mark(chosen);
  const within = (place, count) => Math.min(Math.max(Math.floor(place), 0), count - 1);
  const placeOf = (across, down) => {
    const row = within((down - 8) / tall, rows.length);
    return [ratio ? rows.length - 1 - row : row, within((across - left) / wide, columns.length)];
  };
  return { svg, mark, placeOf };
}

/** One row for each label: a dot at the value, and a line over its interval. */
export function rows(width, { labels, values, low, high, summary }) {
  const ends = [...low, ...high, ...values].filter((end) => end !== null);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const pad = (most - least) * 0.06 || 1;
  const left = 10 + LETTER * Math.min(Math.max(...labels.map((label) => brief(label, 16).length)), 16);
  const right = 76;
  const tall = 26;
  const height = 10 + tall * labels.length;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": summary });
  const x = (value) => left + ((width - left - right) * (value - least + pad)) / (most - least + 2 * pad);
  labels.forEach((label, i) => {
    const y = 5 + tall * (i + 0.5);
    svg.append(draw("line", { x1: left, x2: width - right, y1: y, y2: y, class: "rule" }));
    svg.append(draw("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, brief(label, 16)));
    if (values[i] === null) return;
    if (low[i] !== null && high[i] !== null) svg.append(draw("line", { x1: x(low[i]), x2: x(high[i]), y1: y, y2: y, class: "whisker" }));
    svg.append(draw("circle", { cx: x(values[i]), cy: y, r: 5, class: "dot" }));
    svg.append(draw("text", { x: width - right + 8, y: y + 4 }, shown(values[i], ((high[i] ?? 0) - (low[i] ?? 0)) / 4)));
  });
  return { svg };
}

/** Draws a chart in a host, and again when its width changes; gives what draws it once more. */
export function chart(host, plot) {
  let last;
  const redraw = () => {
    last = Math.floor(host.clientWidth);
    host.drawn = plot(Math.max(last, 200));
    host.replaceChildren(host.drawn.svg);
  };
  host.watch?.disconnect();
  host.watch = new ResizeObserver(() => host.clientWidth && Math.floor(host.clientWidth) !== last && redraw());
  redraw();
  host.watch.observe(host);
  return redraw;
}

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "font-family", "font-size", "text-anchor"];

/** A chart as a picture of twice its size. */
export async function picture(svg) {
  const { width, height } = svg.getBoundingClientRect();
  const copy = svg.cloneNode(true);
  const [from, to] = [svg, copy].map((each) => each.querySelectorAll("*"));
  from.forEach((each, i) => {
    const style = getComputedStyle(each);
    for (const name of STYLES) to[i].setAttribute(name, style.getPropertyValue(name));
  });
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const url = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    const context = canvas.getContext("2d");
    context.fillStyle = getComputedStyle(svg.closest("section") ?? document.body).backgroundColor;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}
