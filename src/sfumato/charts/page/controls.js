// The table, the slider and the switches; last of the three scripts, so that it can start the page.

// -- the table

const COLUMNS = [
  { key: "id", head: () => "point", number: true, value: (p) => p.id },
  { key: "family", head: () => "family", value: (p) => p.family },
  { key: "recipe", head: () => "recipe", value: (p) => p.recipe },
  { key: "risk", head: () => model.risks[state.risk].name, number: true, value: (p) => riskAt(p, state.risk)?.[VALUE] ?? null },
  { key: "limit", head: () => "95 % below", number: true, value: (p) => riskAt(p, state.risk)?.[LIMIT] ?? null },
  { key: "utility", head: () => model.utilities[state.utility].name, number: true, value: (p) => useAt(p)?.[VALUE] ?? null },
  { key: "probability", head: () => "non-dominated", number: true, value: sureness, text: (p) => surenessWords(p) },
  { key: "safe", head: () => "thresholds", value: (p) => (p === chosenNow ? 2 : isSafe(p) ? 1 : 0), text: (p) => (p === chosenNow ? "met: chosen" : isSafe(p) ? "met" : "exceeded") },
];
let chosenNow = null, bestNow = new Set();

function sureness(point) {
  if (!first()) return bestNow.has(point) ? 1 : null;
  return point.probability;
}

function surenessWords(point) {
  const sure = sureness(point);
  return sure === null ? "no" : first() ? `${Math.round(100 * sure)}\u00a0%` : "yes";
}

function drawTable() {
  const { by, down } = state.sort;
  const column = COLUMNS.find((c) => c.key === by);
  const compare = (a, b) => {
    const [v, w] = [column.value(a), column.value(b)];
    if (v === null || w === null) return (v === null) - (w === null); // what is not known stands last
    const use = (p) => useAt(p)?.[VALUE] ?? -Infinity;
    return (typeof v === "string" ? v.localeCompare(w) : v - w) * (down ? -1 : 1) || use(b) - use(a) || a.id - b.id;
  };
  const focused = document.activeElement?.dataset?.sort;
  $("heads").replaceChildren(
    ...COLUMNS.map((c) => {
      const button = make("button", { type: "button", "data-sort": c.key }, c.head());
      const sorted = c.key === by ? (down ? "descending" : "ascending") : "none";
      return make("th", { scope: "col", class: c.number ? "number" : "", "aria-sort": sorted }, button);
    }),
  );
  $("rows").replaceChildren(
    ...[...model.points].sort(compare).map((point) => {
      const cells = COLUMNS.map((c, k) => {
        const value = c.value(point);
        const text = c.text ? c.text(point) : typeof value === "string" ? value : c.key === "id" ? String(value) : short(value);
        const kind = c.number ? "number" : ["family", "recipe"].includes(c.key) ? c.key : "";
        return k === 0 ? make("th", { scope: "row", class: kind }, text) : make("td", { class: kind }, text);
      });
      const row = make("tr", { "data-point": point.id }, ...cells);
      if (point === chosenNow) {
        row.className = "chosen";
        row.setAttribute("aria-current", "true");
      }
      return row;
    }),
  );
  $("caption").textContent =
    `${model.points.length} recipes, each with its expected risk and utility${underScenario()}, and the limit that ` +
    `95 % of releases stay below. Press a column's name to sort by it.`;
  if (focused) document.querySelector(`[data-sort="${focused}"]`)?.focus();
}

// -- the threshold's slider

const STEPS = 400;

function sliderValue(position) {
  const { low, high, log, zero } = model.risks[state.risk].slider;
  if (position <= 0 && zero) return 0;
  const share = position / STEPS;
  return Number((log ? low * (high / low) ** share : low + (high - low) * share).toPrecision(3));
}

function sliderPosition(value) {
  const { low, high, log } = model.risks[state.risk].slider;
  if (value === null) return STEPS;
  if (log && value <= low) return value <= 0 ? 0 : 1;
  const share = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.round(Math.min(Math.max(share, 0), 1) * STEPS);
}

function setControls() {
  const threshold = state.thresholds[state.risk];
  $("of").textContent = `${named(model.risks[state.risk])}, ${threshold === null ? "not limited" : short(threshold)}`;
  $("slider").value = sliderPosition(threshold);
  $("slider").setAttribute("aria-valuetext", threshold === null ? "not limited" : short(threshold));
  $("threshold").value = threshold === null ? "" : threshold;
}

// -- all together

let soon = 0;

function say() {
  const threshold = state.thresholds[state.risk];
  const lead = threshold === null ? `With ${model.risks[state.risk].name} not limited` : `With at most ${short(threshold)} tolerated`;
  const again = asSearched() ? "" : " These are the search's estimates: search again with these thresholds to confirm it.";
  const words = chosenNow ? `${lead}${underScenario()}, the choice is ${told(chosenNow).join(" ")}${again}` : refusal();
  $("choice").classList.toggle("none", chosenNow === null);
  $("choice").textContent = words;
  clearTimeout(soon); // a reader hears the choice when the slider rests, not at every step of it
  soon = setTimeout(() => ($("status").textContent = words), 400);
  const others = model.risks.filter((_, k) => k !== state.risk && state.thresholds[k] !== null);
  const each = others.map((r) => `${r.name} at most ${short(state.thresholds[model.risks.indexOf(r)])}`);
  $("others").textContent = each.length ? `Also required: ${each.join("; ")}.` : "";
}

function update() {
  chosenNow = choice();
  bestNow = new Set(frontier().map(({ point }) => point));
  setControls();
  say();
  drawChart(chosenNow);
  drawTable();
  look(state.looked);
}

function limit(value) {
  state.thresholds[state.risk] = value;
  update();
}

$("controls").addEventListener("submit", (event) => event.preventDefault());
$("slider").addEventListener("input", () => limit(sliderValue(Number($("slider").value))));
$("threshold").addEventListener("change", () => {
  const text = $("threshold").value.trim(), value = Number(text);
  if (text !== "" && Number.isFinite(value) && value >= 0) limit(value);
  else setControls();
});
for (const radio of document.querySelectorAll('input[name="scenario"]')) {
  radio.addEventListener("change", () => {
    state.scenario = radio.value;
    update();
  });
}
for (const which of ["risk", "utility"]) {
  $(which)?.addEventListener("change", () => {
    state[which] = Number($(which).value);
    update();
  });
}
$("chart").addEventListener("pointermove", (event) => look(nearest(event) || focusedPoint()));
$("chart").addEventListener("pointerdown", (event) => look(nearest(event) || focusedPoint()));
$("chart").addEventListener("pointerleave", () => look(focusedPoint()));
const figure = document.querySelector("figure"); // on the SVG itself, these listeners would make Chromium stop at it too
figure.addEventListener("focusin", () => look(focusedPoint()));
figure.addEventListener("focusout", () => look(null));
figure.addEventListener("keydown", step);
$("heads").addEventListener("click", (event) => {
  const by = event.target.dataset.sort;
  if (!by) return;
  const numeric = COLUMNS.find((c) => c.key === by).number && by !== "id";
  state.sort = { by, down: state.sort.by === by ? !state.sort.down : Boolean(numeric) };
  drawTable();
  look(state.looked);
});
let frameAsked = 0;
new ResizeObserver(() => {
  cancelAnimationFrame(frameAsked);
  frameAsked = requestAnimationFrame(() => {
    drawChart(chosenNow);
    look(state.looked);
  });
}).observe(figure);

drawLegend();
update();
