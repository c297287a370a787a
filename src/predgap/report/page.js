// What moves on the page: the curves, the table of rows, the slider, the swarm.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const PAGE = 15; // rows of the table that are shown at first
const redraw = new Map(); // what to draw again when the width changes

// ---- rows ----------------------------------------------------------------------------------------

// Of the rankings that dispute a row: random ones do not.
function extreme(scores, most) {
  const wanted = most(...data.disputing.map((i) => scores[i]));
  return data.disputing.find((i) => scores[i] === wanted);
}

const names = [...data.rankings, "best"];

const rows = data.rows.labels.map((label, r) => {
  const scores = [...data.rows.scores.map((of) => of[r]), data.rows.best[r]];
  const highest = extreme(scores, Math.max), lowest = extreme(scores, Math.min);
  const difference = scores[highest] - scores[lowest];
  const firsts = data.rows.firsts.map((of) => of[r]);
  return {
    r, label, scores, highest, lowest, difference, prediction: data.rows.predictions[r],
    share: data.rows.best[r] > 0 ? difference / data.rows.best[r] : 0, firsts: new Set(firsts).size,
    words: [label, names[highest], names[lowest], ...firsts.map((j) => data.features[j])].join("\n").toLowerCase(),
  };
});
const largest = Math.max(...rows.map((row) => row.difference), 0);
const largestPrediction = Math.max(...rows.map((row) => Math.abs(row.prediction)), 0);
const state = { key: "difference", down: true, words: "", shown: PAGE, open: rows.length ? 0 : null };
const TEXTS = new Set(["label", "highest", "lowest"]);

function sortValue(row, key) {
  if (key === "highest" || key === "lowest") return names[row[key]];
  return row[key];
}

function sorted() {
  const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = rows.filter((row) => words.every((word) => row.words.includes(word)));
  const way = state.down ? -1 : 1;
  const compare = TEXTS.has(state.key)
    ? (a, b) => String(sortValue(a, state.key)).localeCompare(String(sortValue(b, state.key)), "en", { numeric: true })
    : (a, b) => (sortValue(a, state.key) ?? -Infinity) - (sortValue(b, state.key) ?? -Infinity);
  return found.sort((a, b) => way * compare(a, b) || a.r - b.r);
}

function by(i) {
  return make("span", { class: "by" }, i < data.rankings.length ? mark(i) : null, make("span", {}, names[i]));
}

function rowLine(row, first) {
  const open = state.open === row.r;
  const button = make("button", { type: "button", "aria-expanded": String(open), "aria-controls": open ? "detail" : null, tabindex: first ? "0" : "-1", "data-row": row.r }, row.label);
  const line = make("tr", { class: open ? "row open" : "row", "data-row": row.r },
    make("th", { scope: "row" }, button),
    make("td", { class: "num optional" }, beside(row.prediction, largestPrediction)),
    make("td", { class: "num" }, beside(row.difference, largest)),
    make("td", { class: "num optional" }, percent(row.share)),
    make("td", {}, by(row.highest)), make("td", {}, by(row.lowest)),
    make("td", { class: "num optional" }, String(row.firsts)));
  return line;
}

function showRows() {
  const found = sorted(), shown = found.slice(0, state.shown);
  const body = byId("rows").tBodies[0];
  const at = Math.max(0, shown.findIndex((row) => row.r === state.open));
  body.replaceChildren();
  shown.forEach((row, i) => {
    body.append(rowLine(row, i === at));
    if (row.r === state.open) body.append(make("tr", { class: "detail-row" }, make("td", { colspan: columns(), class: "detail", id: "detail" })));
  });
  const n = data.rows.labels.length, all = data.n;
  byId("found").textContent = `${shown.length} of ${found.length === n ? "" : `${found.length} that match, of `}${n} rows${n < all ? ` listed, the most disputed of ${all}` : ""}`;
  byId("more").hidden = shown.length === found.length;
  for (const head of byId("rows").tHead.querySelectorAll("button")) {
    const here = head.dataset.key === state.key;
    if (here) head.parentElement.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    else head.parentElement.removeAttribute("aria-sort");
  }
  if (byId("detail")) showDetail(byId("detail"), rows[state.open]);
}

function columns() {
  return [...byId("rows").tHead.rows[0].cells].filter((cell) => cell.offsetParent !== null).length;
}

function toggle(r) {
  state.open = state.open === r ? null : r;
  showRows();
  byId("rows").querySelector(`button[data-row="${r}"]`)?.focus({ preventScroll: false });
}

function startRows() {
  const table = byId("rows");
  table.tHead.addEventListener("click", (event) => {
    const key = event.target.closest("button")?.dataset.key;
    if (!key) return;
    state.down = key === state.key ? !state.down : !TEXTS.has(key);
    state.key = key;
    showRows();
  });
  table.tBodies[0].addEventListener("click", (event) => {
    const line = event.target.closest("tr.row");
    if (line) toggle(Number(line.dataset.row));
  });
  table.tBodies[0].addEventListener("keydown", (event) => {
    const buttons = [...table.tBodies[0].querySelectorAll("tr.row button")], at = buttons.indexOf(event.target);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = buttons[Math.max(0, Math.min(buttons.length - 1, to))];
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  byId("search").addEventListener("input", (event) => {
    state.words = event.target.value;
    state.shown = PAGE;
    showRows();
  });
  redraw.set("rows", showRows);
  byId("more").addEventListener("click", () => { state.shown += 4 * PAGE; showRows(); });
  showRows();
}

// ---- one row -------------------------------------------------------------------------------------

function showDetail(cell, row) {
  const detail = data.details.rows[row.r];
  const random = data.rows.random[row.r], best = data.rows.best[row.r];
  const head = make("p", { class: "sub" }, `Prediction ${number(row.prediction)}. PGI² of a random ranking ${number(random)}, of the best one ${data.rows.proven[row.r] ? "possible" : "found"} ${number(best)}.`);
  if (!detail) {
    cell.replaceChildren(head, make("p", { class: "sub" }, `Values, gains and curves are kept for the ${data.details.rows.length} rows most in dispute, so that this file stays small.`));
    return;
  }
  const top = Math.max(...detail.curves.flat(), 0);
  const ladders = names.map((name, i) => ladder(name, i, row.scores[i], detail, top));
  const curves = make("figure", {});
  const entries = Object.entries(detail.values);
  const values = make("dl", { class: "values" }, ...entries.map(([j, value]) => make("div", {}, make("dt", {}, data.features[j]), make("dd", {}, value))));
  const folded = entries.length > 24 ? make("details", {}, make("summary", {}, `${entries.length} values`), values) : values;
  cell.replaceChildren(head, make("h4", {}, "Values"), folded,
    make("h4", {}, "Gains, place by place"),
    make("div", { class: "ladders" }, ...ladders),
    make("p", { class: "sub" }, "Each bar goes from the gap before a place to the gap after it. Outlined bars go back: the gap became smaller."),
    make("h4", {}, "Curves of this row"), curves);
  lineChart(curves, {
    places: data.details.places, series: data.rankings.map((name, i) => ({ look: i, name, values: detail.curves[i] })),
    best: detail.curves[names.length - 1], zero: true, xText: `features moved, most important first`, yText: "gap PG²",
    label: `Gaps of row ${row.label} along the rankings.`, at: data.details.places[0], unit: (k) => `${k} ${k === 1 ? "feature" : "features"}`, height: 260,
  });
}

function ladder(name, i, score, detail, top) {
  const isBest = i === data.rankings.length;
  const curve = detail.curves[i];
  const steps = detail.order[i].map((feature, p) => ({ feature, from: p ? curve[p - 1] : 0, to: curve[p] }));
  const rest = data.details.places[data.details.places.length - 1] - steps.length;
  if (rest > 0) steps.push({ rest, from: curve[steps.length - 1], to: curve[curve.length - 1] });
  const at = (v) => `${(top > 0 ? (100 * v) / top : 0).toFixed(2)}%`;
  const lines = steps.map((step) => {
    const low = Math.min(step.from, step.to), wide = Math.abs(step.to - step.from);
    const gain = step.to - step.from;
    const bar = make("svg", { "aria-hidden": "true" }, make("line", { x1: 0, x2: 0, y1: "-20%", y2: "120%" }),
      make("rect", { class: gain < 0 ? "down" : null, x: at(low), y: "15%", height: "70%", width: at(wide) }));
    const value = detail.values[step.feature];
    const label = step.rest
      ? make("th", { scope: "row" }, make("span", {}, `${step.rest} further`))
      : make("th", { scope: "row" }, shorten(data.features[step.feature], 60), ...(value === undefined ? [] : [" ", make("span", {}, `= ${value}`)]));
    return make("tr", {}, label, make("td", {}, bar), make("td", { class: "num" }, gain > 0 ? `+${beside(gain, top, 3)}` : beside(gain, top, 3)));
  });
  const caption = make("caption", {}, isBest ? null : mark(i), `${name} `, make("span", {}, `PGI² ${number(score)}`));
  const header = make("thead", { class: "hear" }, make("tr", {}, ...["feature", "drawn", "gain"].map((text) => make("th", { scope: "col" }, text))));
  return make("table", { class: isBest ? "ladder" : `ladder look${i % LOOKS}` }, caption, header, make("tbody", {}, ...lines));
}

// ---- strength ------------------------------------------------------------------------------------

function startSweep() {
  const sweep = data.sweep;
  if (!sweep) return;
  const looks = sweep.rankings.map((name) => Math.max(0, data.rankings.indexOf(name)));
  const slider = byId("slider");
  const highest = sweep.means.map((of) => Math.max(...of));
  const shares = sweep.rankings.map((_, i) => sweep.means.map((of, s) => (highest[s] > 0 ? of[i] / highest[s] : null)));
  const bars = () => {
    const s = Number(slider.value);
    const order = sweep.rankings.map((_, i) => i).sort((a, b) => sweep.means[s][b] - sweep.means[s][a] || a - b);
    const lines = order.map((i) => make("tr", { class: `look${looks[i] % LOOKS}` },
      make("th", { scope: "row" }, mark(looks[i]), sweep.rankings[i]),
      make("td", {}, make("div", { class: "bar" }, make("svg", { class: "bar", "aria-hidden": "true" }, make("rect", { height: "100%", width: `${(100 * (shares[i][s] ?? 0)).toFixed(1)}%` })),
        make("span", { class: "num" }, beside(sweep.means[s][i], highest[s])))),
      make("td", { class: "num" }, percent(shares[i][s])), make("td", { class: "num optional" }, percent(sweep.same[s][i]))));
    const heads = [["Ranking", ""], ["Mean PGI²", "num"], ["Of highest", "num"], ["Same first feature as at own noise", "num optional"]];
    byId("sweep-bars").replaceChildren(make("table", { class: "strength-bars" },
      make("caption", {}, `Mean PGI² at strength ${sweep.strengths[s]}`),
      make("thead", {}, make("tr", {}, ...heads.map(([text, kind]) => make("th", { scope: "col", class: kind }, text)))),
      make("tbody", {}, ...lines)));
    byId("strength-now").textContent = String(sweep.strengths[s]);
    slider.setAttribute("aria-valuetext", `strength ${sweep.strengths[s]}, highest ${sweep.rankings[order[0]]}`);
    redraw.chart?.move(s);
  };
  const draw = () => {
    redraw.chart = lineChart(byId("sweep-chart"), {
      places: sweep.strengths, xTicks: sweep.strengths, series: sweep.rankings.map((name, i) => ({ look: looks[i], name, values: shares[i] })),
      xText: "strength of the noise", yText: "mean PGI², in percent of the highest", label: "Mean PGI² of each ranking by strength, in percent of the highest.",
      at: sweep.strengths[Number(slider.value)], unit: (s) => `strength ${s}`, format: percent, height: 280,
    });
  };
  slider.value = String(sweep.start);
  slider.addEventListener("input", bars);
  redraw.set("sweep", draw);
  draw();
  bars();
}

// ---- charts of all rows --------------------------------------------------------------------------

function startCurves() {
  const curves = data.curves;
  const draw = () => lineChart(byId("curve-chart"), {
    places: curves.places, series: data.rankings.map((name, i) => ({ look: i, name, values: curves.means[i] })), best: curves.best, random: curves.random,
    zero: true, xText: `features moved, most important first`, yText: "mean gap PG²", label: "Mean gap along each ranking.",
    at: curves.places[0], unit: (k) => `${k} ${k === 1 ? "feature" : "features"}`,
  });
  redraw.set("curves", draw);
  draw();
}

function startSwarm() {
  const swarm = data.swarm;
  const chart = make("div", {});
  const key = make("p", { class: "key" });
  if (swarm.shades.some((of) => of)) {
    const ramp = make("svg", { viewBox: "0 0 70 7", "aria-hidden": "true", class: "swarm" }, ...[0, 1, 2, 3, 4, 5, 6].map((v) => make("path", { class: `v${v}`, d: `M${v * 10 + 5} 3.5h0` })));
    key.append(`Value of the feature: low `, ramp, " high; grey: missing, or a label");
  }
  const rest = data.features.length - swarm.features.length;
  const caption = make("figcaption", {}, `One dot per row${swarm.gaps[0].length < swarm.n ? ` (${swarm.gaps[0].length} of ${swarm.n}, evenly chosen)` : ""}: the gap when this feature moves alone.${rest > 0 ? ` The ${swarm.features.length} features with the largest mean gaps of ${data.features.length}.` : ""}`);
  byId("swarm-chart").replaceChildren(key, chart, caption);
  const draw = () => swarmChart(chart, {
    names: swarm.features.map((j) => data.features[j]), gaps: swarm.gaps, shades: swarm.shades, xText: "gap PG² alone (axis of square roots)",
    label: `Gaps of single features, one dot per row; the table below has the means.`,
  });
  redraw.set("swarm", draw);
  draw();
}

// ---- start ---------------------------------------------------------------------------------------

document.querySelectorAll(".needs-script").forEach((part) => { part.hidden = false; });
startCurves();
startRows();
startSweep();
startSwarm();

let width = document.body.clientWidth;
new ResizeObserver(() => {
  if (document.body.clientWidth === width) return;
  width = document.body.clientWidth;
  redraw.forEach((draw) => draw());
}).observe(document.body);

byId("copy")?.addEventListener("click", async () => {
  const text = byId("command").textContent;
  try {
    await navigator.clipboard.writeText(text);
    byId("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(byId("command")); // so that the keyboard can copy it
  }
});
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
