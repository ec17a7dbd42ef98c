"use strict";
// What is chosen, and in what words: the points of a search, judged again whenever the threshold, the scenario or a measure
// changes. chart.js draws them, controls.js has the table and what the reader can move.

const model = JSON.parse(document.getElementById("data").textContent);
const state = {
  risk: 0,
  utility: model.first,
  scenario: "", // all of them: the worst counts
  thresholds: model.risks.map((risk) => risk.threshold), // null: not limited
  looked: null, // the point that is hovered or has the focus
  sort: { by: "safe", down: true },
};
const $ = (id) => document.getElementById(id);

// -- numbers

const VALUE = 0, LOW = 1, HIGH = 2, LIMIT = 3; // of a reading

/** A risk at a point under the scenario, or the worst of all; a risk that the scenario lacks counts with its own worst. */
function riskAt(point, which) {
  const kept = (point.kept ??= {}), key = `${which} ${state.scenario}`; // asked for again and again
  return key in kept ? kept[key] : (kept[key] = riskUnder(point.risks[which], state.scenario));
}

function riskUnder(by, scenario) {
  const known = (scenario in by ? [by[scenario]] : Object.values(by)).filter((reading) => reading !== null);
  if (!known.length) return null;
  const worst = known.reduce((a, b) => (b[VALUE] > a[VALUE] ? b : a)).slice();
  worst[LIMIT] = Math.max(...known.map((reading) => reading[LIMIT]));
  return worst;
}

const useAt = (point) => point.utilities[state.utility];
const within = (limit, threshold) => limit <= threshold * (1 + 1e-9);

/** The risks whose thresholds a point does not meet. */
function exceeded(point) {
  return model.risks.filter((_, k) => {
    if (state.thresholds[k] === null) return false;
    const reading = riskAt(point, k);
    return reading === null || !within(reading[LIMIT], state.thresholds[k]);
  });
}

const isSafe = (point) => exceeded(point).length === 0;

/** Whether everything is as the search had it: then its own choice stands, which was confirmed with fresh seeds. */
const asSearched = () =>
  state.utility === model.first && state.scenario === "" && model.risks.every((r, k) => r.threshold === state.thresholds[k]);

/** The most useful point whose limits meet the thresholds; of equals the safer, then the first. Null if none does. */
function choice() {
  if (asSearched()) return model.points.find((point) => point.chosen) || null;
  const limit = (point) => (riskAt(point, state.risk) || [0, 0, 0, Infinity])[LIMIT];
  const better = (a, b) => useAt(b)[VALUE] - useAt(a)[VALUE] || limit(a) - limit(b) || a.id - b.id;
  return model.points.filter((point) => useAt(point) !== null && isSafe(point)).sort(better)[0] || null;
}

const shown = () => model.points.filter((point) => riskAt(point, state.risk) !== null && useAt(point) !== null);

/** The shown points that no other beats in both measures, safest first. */
function frontier() {
  const places = shown().map((point) => ({ point, r: riskAt(point, state.risk)[VALUE], u: useAt(point)[VALUE] }));
  places.sort((a, b) => a.r - b.r || b.u - a.u);
  let best = -Infinity;
  return places.filter(({ u }) => u > best && ((best = u), true));
}

/** Probabilities belong to the first measures under all scenarios. */
const first = () => state.risk === 0 && state.utility === model.first && state.scenario === "";

// -- words

/** A number with three significant digits. */
function short(value) {
  if (value === null) return "–";
  if (Math.abs(value) >= 1e299) return value > 0 ? "∞" : "−∞";
  const kept = Number(value.toPrecision(3));
  const text = Math.abs(kept) >= 1000 && Math.abs(kept) < 1e7 ? kept.toLocaleString("en-US") : String(kept);
  return text.startsWith("-") ? "−" + text.slice(1) : text;
}

function interval(reading) {
  const known = reading[LOW] !== null && reading[HIGH] !== null;
  return short(reading[VALUE]) + (known ? ` (95 % interval ${short(reading[LOW])} to ${short(reading[HIGH])})` : "");
}

const named = (measure) => measure.name + (measure.unit ? ` (${measure.unit})` : "");
/** The scenario, to follow a phrase; empty where there is only one. */
function underScenario() {
  if (model.scenarios.length < 2) return "";
  return state.scenario ? ` under the scenario ${state.scenario}` : " under the worst scenario";
}

/** What a point is, line by line. */
function told(point) {
  const risk = riskAt(point, state.risk), use = useAt(point), over = exceeded(point);
  const lines = [`${point.family}: ${point.recipe}.`];
  if (risk) {
    lines.push(`Risk, ${named(model.risks[state.risk])}: ${interval(risk)}; 95 % of releases stay below ${short(risk[LIMIT])}.`);
  }
  if (use) lines.push(`Utility, ${named(model.utilities[state.utility])}: ${interval(use)}.`);
  lines.push(over.length ? `Exceeds the threshold of ${over.map((r) => r.name).join(" and of ")}.` : "Meets every threshold.");
  if (first() && point.probability !== null) {
    lines.push(`Probability of being non-dominated: ${Math.round(100 * point.probability)}\u00a0%.`);
  }
  return lines;
}

/** Why no point is safe, and what would be. */
function refusal() {
  const threshold = state.thresholds[state.risk], risk = model.risks[state.risk];
  const limits = shown().map((point) => ({ point, limit: riskAt(point, state.risk)[LIMIT] }));
  const safest = limits.reduce((a, b) => (b.limit < a.limit ? b : a), limits[0]);
  if (!safest) return "No point is safe: none has both the risk and the utility shown.";
  if (threshold !== null && !within(safest.limit, threshold)) {
    return (
      `No point is safe: even the safest (${safest.point.family}: ${safest.point.recipe}) has a limit of ` +
      `${short(safest.limit)} for ${risk.name}${underScenario()}, above ${short(threshold)}. Search stronger settings, or ` +
      `tolerate more.`
    );
  }
  if (model.points.some(isSafe)) {
    return "The search chose no point: those that meet the thresholds by its estimates did not hold with fresh seeds.";
  }
  const others = model.risks.filter((r, k) => k !== state.risk && state.thresholds[k] !== null).map((r) => r.name);
  return (
    `No point is safe: some meet the threshold of ${risk.name}, but none of them also meets that of ` +
    `${others.join(" and of ")}. Choose it under "Risk shown" to see how far the points are from it.`
  );
}
