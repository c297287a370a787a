// Small charts in SVG. Texts are set as text, never as markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const LOOKS = 7; // colours, markers and dashes, as in predgap.plots
const MARKERS = [
  (x, y) => `M${x - 3.6} ${y}a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0`,
  (x, y) => `M${x - 3.2} ${y - 3.2}h6.4v6.4h-6.4Z`,
  (x, y) => `M${x} ${y - 4.4}l4.4 4.4l-4.4 4.4l-4.4-4.4Z`,
  (x, y) => `M${x} ${y - 4.2}l4.2 7.4h-8.4Z`,
  (x, y) => `M${x - 3.3} ${y - 3.3}l6.6 6.6m0-6.6l-6.6 6.6`,
  (x, y) => `M${x} ${y + 4.2}l4.2-7.4h-8.4Z`,
  (x, y) => `M${x} ${y - 4.8}l1.2 3.3h3.5l-2.8 2.1l1 3.3l-2.9-2l-2.9 2l1-3.3l-2.8-2.1h3.5Z`,
];

function make(tag, attributes = {}, ...children) {
  const inSvg = ["svg", "path", "line", "text", "g", "rect", "circle", "use"].includes(tag);
  const node = inSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

// ---- numbers -------------------------------------------------------------------------------------

function decimalsOf(value, digits) {
  return value === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
}

function signed(text) {
  return text.replaceAll("-", "−");
}

// As number() in _numbers.py.
function number(value, digits = 4) {
  if (value === null || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e7) return signed(value.toFixed(Math.min(12, decimalsOf(value, digits))));
  const [mantissa, exponent] = value.toExponential(Math.max(0, digits - 1)).split("e");
  const short = mantissa.includes(".") ? mantissa.replace(/0+$/, "").replace(/\.$/, "") : mantissa;
  return signed(`${short}e${Number(exponent)}`);
}

// A number with the decimals that suit the largest one beside it.
function beside(value, largest, digits = 4) {
  if (value === null || !(largest >= 1e-4 && largest < 1e7)) return number(value, digits);
  const text = value.toFixed(Math.min(12, decimalsOf(largest, digits)));
  return Number(text) === 0 && value !== 0 ? number(value, 1) : Number(text) === 0 ? "0" : signed(text);
}

function percent(share) {
  if (share === null || !Number.isFinite(share)) return "–";
  const whole = Math.round(100 * share);
  return `${signed(String(whole === 100 && share < 1 - 1e-9 ? 99 : whole))}\u00a0%`; // 100 only if nothing is missing
}

// ---- parts of charts -----------------------------------------------------------------------------

function look(i) {
  return `look${i % LOOKS}${i >= LOOKS ? " again" : ""}`;
}

function mark(i) {
  const use = make("use", { href: `#mark${i % LOOKS}`, x: -6, y: -6, width: 12, height: 12 });
  return make("svg", { class: `mark ${look(i)}`, viewBox: "-6 -6 12 12", "aria-hidden": "true" }, use);
}

// A curve and the markers on it.
function drawn(i, path, points) {
  const d = points.map(([x, y]) => MARKERS[i % LOOKS](x, y)).join("");
  return [make("path", { class: "curve", d: path }), make("path", { class: i % LOOKS === 4 ? "points x" : "points", d })];
}

function ticks(high, most) {
  if (!(high > 0)) return [0, 1];
  const raw = high / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((s) => s * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let i = 0; i === 0 || (i - 1) * step < high * 0.9999; i++) found.push(i * step);
  return found;
}

// Round numbers on an axis of square roots.
function rootTicks(high, most) {
  const round = (v) => Number(v.toPrecision(1));
  return [...new Set(Array.from({ length: most + 1 }, (_, i) => round(high * (i / most) ** 2)))].filter((v) => v <= high);
}

function wholeTicks(high, most) {
  return [...new Set(ticks(high, most).map(Math.round))].filter((v) => v <= high);
}

// Curves of several rankings over places or strengths, with a cursor that the pointer and arrow keys move.
//   places: x of each point; series: [{ look, name, values }]; zero: whether all curves start at 0
//   best, random: values, drawn as dotted lines with a band between them; xText, yText, label: words; at: first place of the cursor
function lineChart(holder, { places, series, best, random, zero, xText, yText, xTicks, label, at, unit, format, height }) {
  const width = Math.max(280, Math.min(960, holder.clientWidth || 640));
  const tall = height ?? Math.round(Math.max(220, Math.min(380, width * 0.5)));
  const xs = zero ? [0, ...places] : places;
  const full = (values) => (zero ? [0, ...values] : values);
  const all = [...series.flatMap((one) => one.values), ...(best ?? []), ...(random ?? [])];
  const high = Math.max(...all.filter((v) => v !== null), 0) || 1;
  const yTicks = ticks(high, tall < 260 ? 3 : 5);
  const texts = yTicks.map((v) => (format ? format(v) : v === 0 ? "0" : number(v, 3).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "")));
  const left = Math.max(...texts.map((t) => t.length)) * 7.2 + 12, right = 14, top = 26, bottom = 42;
  const start = xs[0], end = xs[xs.length - 1];
  const X = (v) => left + ((v - start) / (end - start || 1)) * (width - left - right);
  const Y = (v) => tall - bottom - (v / Math.max(high, yTicks[yTicks.length - 1])) * (tall - top - bottom);
  const svg = make("svg", { viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": label });
  yTicks.forEach((v, i) => svg.append(
    make("line", { class: v === 0 ? "base" : "grid", x1: left, x2: width - right, y1: Y(v), y2: Y(v) }),
    make("text", { x: left - 8, y: Y(v) + 4, "text-anchor": "end" }, texts[i])));
  for (const v of xTicks ?? wholeTicks(end, width < 480 ? 6 : 12)) {
    svg.append(make("text", { x: X(v), y: tall - bottom + 18, "text-anchor": "middle" }, String(v)));
  }
  svg.append(make("text", { x: (left + width - right) / 2, y: tall - 4, "text-anchor": "middle" }, xText));
  svg.append(make("text", { x: 0, y: 11 }, yText));
  const path = (values) => full(values).map((v, i) => (v === null ? "" : `${i && full(values)[i - 1] !== null ? "L" : "M"}${X(xs[i]).toFixed(1)} ${Y(v).toFixed(1)}`)).join("");
  if (best && random) {
    const back = full(random).map((v, i) => `L${X(xs[i]).toFixed(1)} ${Y(v).toFixed(1)}`).reverse().join("");
    svg.append(make("path", { class: "band", d: `${path(best)}${back}Z` }), make("path", { class: "best", d: path(random) }));
  }
  if (best) svg.append(make("path", { class: "best", d: path(best) }));
  const cursor = make("line", { class: "cursor", y1: top, y2: tall - bottom });
  svg.append(cursor);
  const every = Math.max(1, Math.ceil(places.length / 16));
  [...series].reverse().forEach((one) => {
    const points = one.values.map((v, i) => [places[i], v, i]).filter(([, v, i]) => v !== null && (i % every === 0 || i === places.length - 1));
    svg.append(make("g", { class: look(one.look) }, ...drawn(one.look, path(one.values), points.map(([x, v]) => [X(x), Y(v)]))));
  });
  const plot = make("div", { class: "plot", tabindex: "0", role: "slider", "aria-label": `${label} Arrow keys move along it.`,
    "aria-valuemin": places[0], "aria-valuemax": end, "aria-orientation": "horizontal" }, svg);
  const heading = make("li", { class: "at" });
  const entries = series.map((one) => ({ ...one, out: make("span", { class: "value" }) }));
  if (best) entries.push({ name: "best", values: best, out: make("span", { class: "value" }) });
  if (random) entries.push({ name: "random (estimated)", values: random, out: make("span", { class: "value" }) });
  const legend = make("ul", { class: "legend" }, heading, ...entries.map((one) => make("li", {},
    make("svg", { class: "line", viewBox: "0 0 30 14", "aria-hidden": "true" }, one.look === undefined
      ? make("path", { class: "best", d: "M1 7H30" })
      : make("g", { class: look(one.look) }, ...drawn(one.look, "M0 7H30", [[15, 7]]))),
    make("span", {}, one.name), one.out)));
  let now = Math.max(0, places.indexOf(at));
  const show = () => {
    const largest = Math.max(...entries.map((one) => Math.abs(one.values[now] ?? 0)));
    entries.forEach((one) => { one.out.textContent = format ? format(one.values[now]) : beside(one.values[now], largest); });
    heading.textContent = `${unit(places[now])}:`;
    cursor.setAttribute("x1", X(places[now]));
    cursor.setAttribute("x2", X(places[now]));
    plot.setAttribute("aria-valuenow", places[now]);
    plot.setAttribute("aria-valuetext", `${unit(places[now])}: ${entries.map((one) => `${one.name} ${one.out.textContent}`).join(", ")}`);
  };
  const move = (to) => { now = Math.max(0, Math.min(places.length - 1, to)); show(); };
  plot.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, Home: 0, End: places.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(to);
  });
  const follow = (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width;
    move(places.reduce((nearest, v, i) => (Math.abs(X(v) - x) < Math.abs(X(places[nearest]) - x) ? i : nearest), 0));
  };
  plot.addEventListener("pointermove", follow);
  plot.addEventListener("pointerdown", follow);
  show();
  holder.replaceChildren(legend, plot);
  return { move };
}

// One row of dots per feature: to the right the gap when it moves alone, the colour its value.
function swarmChart(holder, { names, gaps, shades, label, xText }) {
  const width = Math.max(280, Math.min(960, holder.clientWidth || 640));
  const narrow = width < 520, left = narrow ? 4 : 210, right = 16, band = narrow ? 46 : 32, top = 6, bottom = 40;
  const tall = top + band * names.length + bottom;
  const high = Math.max(...gaps.flat().filter((v) => v !== null)) || 1;
  const X = (v) => left + 4 + Math.sqrt(Math.max(0, v) / high) * (width - left - right - 4); // gaps are squares
  const svg = make("svg", { viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": label, class: "swarm" });
  let last = -Infinity;
  for (const v of rootTicks(high, narrow ? 3 : 5)) {
    if (X(v) - last < 44) continue;
    last = X(v);
    svg.append(make("line", { class: "grid", x1: X(v), x2: X(v), y1: top, y2: tall - bottom }),
      make("text", { x: X(v), y: tall - bottom + 18, "text-anchor": v === 0 ? "start" : "middle" }, v === 0 ? "0" : number(v, 3).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "")));
  }
  svg.append(make("text", { x: (left + width - right) / 2, y: tall - 4, "text-anchor": "middle" }, xText));
  names.forEach((name, f) => {
    const middle = top + band * f + (narrow ? band * 0.68 : band / 2);
    const short = shorten(name, narrow ? Math.floor(width / 7.5) : 28);
    svg.append(make("text", { class: "name", x: narrow ? left : left - 10, y: narrow ? middle - 15 : middle + 4, "text-anchor": narrow ? "start" : "end" }, short));
    const columns = new Map(), paths = new Map();
    gaps[f].map((v, i) => [v, shades[f] ? shades[f][i] : -2]).filter(([v]) => v !== null).sort((a, b) => a[0] - b[0]).forEach(([v, shade]) => {
      const x = X(v), column = Math.round(x / 4.2), n = columns.get(column) ?? 0;
      columns.set(column, n + 1);
      const step = Math.ceil(n / 2) * 3.1 * (n % 2 ? 1 : -1);
      const y = middle + (Math.abs(step) <= (narrow ? 10 : band / 2 - 3) ? step : ((n * 7919) % 100 / 100 - 0.5) * (narrow ? 20 : band - 6));
      paths.set(shade, `${paths.get(shade) ?? ""}M${x.toFixed(1)} ${y.toFixed(1)}h0`);
    });
    for (const [shade, d] of paths) svg.append(make("path", { class: `v${shade === -2 ? "none" : shade === -1 ? "missing" : shade}`, d }));
  });
  holder.replaceChildren(make("div", { class: "plot" }, svg));
}

function shorten(text, longest) {
  return text.length <= longest ? text : `${text.slice(0, longest - 1)}…`;
}
