// The chart: SVG of our own, with a place in the tab order and arrow keys that go from point to point. All text goes in as
// text, never as markup.

// -- small makers of elements

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const OUTLINES = {
  circle: (s) => `M${-s} 0a${s} ${s} 0 1 0 ${2 * s} 0a${s} ${s} 0 1 0 ${-2 * s} 0z`,
  square: (s) => `M${-0.9 * s} ${-0.9 * s}h${1.8 * s}v${1.8 * s}h${-1.8 * s}z`,
  diamond: (s) => `M0 ${-1.25 * s}L${1.1 * s} 0L0 ${1.25 * s}L${-1.1 * s} 0z`,
  "triangle-up": (s) => `M0 ${-1.15 * s}L${1.15 * s} ${0.95 * s}H${-1.15 * s}z`,
  "triangle-down": (s) => `M0 ${1.15 * s}L${1.15 * s} ${-0.95 * s}H${-1.15 * s}z`,
  cross: (s) => `M${-0.4 * s} ${-1.2 * s}h${0.8 * s}v${0.8 * s}h${0.8 * s}v${0.8 * s}h${-0.8 * s}v${0.8 * s}h${-0.8 * s}v${-0.8 * s}h${-0.8 * s}v${-0.8 * s}h${0.8 * s}z`,
};

function mark(look, size, filled) {
  return draw("path", { d: OUTLINES[look.shape](size), stroke: look.colour, fill: filled ? look.colour : "#fff" });
}

// -- the chart

const margin = { top: 30, right: 16, bottom: 46, left: 58 };
let places = []; // {point, x, y} in pixels, for the pointer and the keys

function scale(axis, from, to) {
  const f = axis.log ? Math.log : (v) => v;
  const low = f(axis.low), high = f(axis.high);
  return (value) => {
    const kept = Math.min(Math.max(value, axis.low), axis.high); // zero stands at the foot of a log axis
    return from + ((f(kept) - low) / (high - low)) * (to - from);
  };
}

function drawChart(chosen) {
  const svg = $("chart");
  const width = Math.max(280, svg.clientWidth || 640), height = Math.round(Math.min(460, Math.max(320, width * 0.6)));
  const risk = model.risks[state.risk], use = model.utilities[state.utility];
  const x = scale(use.axis, margin.left, width - margin.right), y = scale(risk.axis, height - margin.bottom, margin.top);
  const [left, right, top, bottom] = [margin.left, width - margin.right, margin.top, height - margin.bottom];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);

  const back = draw("g", { "aria-hidden": "true" });
  let free = -Infinity; // where the last label ended
  for (const tick of use.axis.ticks) {
    const at = x(tick.at), half = 4 + 3.5 * tick.label.length;
    back.append(draw("line", { class: "grid", x1: at, x2: at, y1: top, y2: bottom }));
    if (at - half < free) continue;
    free = at + half;
    back.append(draw("text", { x: at, y: bottom + 17, "text-anchor": "middle" }, tick.label));
  }
  for (const tick of risk.axis.ticks) {
    const at = y(tick.at);
    back.append(draw("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }));
    back.append(draw("text", { x: left - 7, y: at + 4, "text-anchor": "end" }, tick.label));
  }
  back.append(draw("path", { class: "axis", fill: "none", d: `M${left} ${top}V${bottom}H${right}` }));
  back.append(draw("text", { x: 4, y: 14 }, `↑ risk: ${named(risk)}${risk.axis.log ? ", log scale" : ""}`));
  back.append(draw("text", { x: right, y: bottom + 38, "text-anchor": "end" }, `utility: ${named(use)}${use.unmasked ? `; ${use.unmasked}` : ""} →`));

  // the threshold
  const threshold = state.thresholds[state.risk];
  if (threshold !== null) {
    const at = y(threshold);
    back.append(draw("line", { class: "threshold", x1: left, x2: right, y1: at, y2: at }));
    const above = at - top > 18;
    back.append(draw("text", { class: "words", x: left + 6, y: above ? at - 6 : at + 15 }, `at most ${short(threshold)}`));
  }

  // the frontier: a point's utility is the best to be had until the next one's risk is tolerated
  const best = frontier();
  best.forEach(({ point, r, u }, k) => {
    const next = best[k + 1];
    if (!next) return;
    const sure = first() && point.probability !== null ? 0.25 + 0.75 * point.probability : 1;
    back.append(draw("path", { class: "steps", "stroke-opacity": sure, d: `M${x(u)} ${y(r)}V${y(next.r)}H${x(next.u)}` }));
  });

  // the points, those on the frontier last and larger
  const onFrontier = new Set(best.map(({ point }) => point));
  const visible = shown().filter((point) => useAt(point)[VALUE] >= use.axis.low);
  visible.sort((a, b) => onFrontier.has(a) - onFrontier.has(b) || (a === chosen) - (b === chosen));
  places = visible.map((point) => ({ point, x: x(useAt(point)[VALUE]), y: y(riskAt(point, state.risk)[VALUE]) }));
  const current = state.looked || chosen || visible[0] || null;
  const list = draw("g", { role: "listbox", id: "points", "aria-label": `${visible.length} recipes, by risk and utility` });
  for (const place of places) {
    const { point } = place, look = model.families[point.family];
    const group = draw("g", {
      class: "point", role: "option", id: `point-${point.id}`, transform: `translate(${place.x} ${place.y})`,
      tabindex: point === current ? "0" : "-1", "aria-selected": String(point === chosen),
      "aria-label": (point === chosen ? "Chosen. " : "") + told(point).join(" "), "data-point": point.id,
    });
    if (onFrontier.has(point) || point === chosen) group.append(...bars(place, look, x, y));
    group.append(mark(look, onFrontier.has(point) || point === chosen ? 5 : 4, isSafe(point)));
    list.append(group);
  }
  const front = draw("g", { "aria-hidden": "true", "pointer-events": "none" });
  front.append(draw("g", { id: "look" }));
  const ringed = places.find(({ point }) => point === chosen);
  if (ringed) {
    front.append(draw("circle", { class: "ring", r: 10, cx: ringed.x, cy: ringed.y }));
    const text = `chosen: ${chosen.family}`;
    front.append(draw("text", { class: "words name", ...clearing(ringed, text, best, { left, right, top, bottom, x, y }) }, text));
  }
  const lost = shown().length - visible.length;
  if (lost) front.append(draw("text", { x: left + 6, y: bottom - 8 }, `← ${lost} more with utility below ${short(use.axis.low)}`));

  const focused = svg.contains(document.activeElement) ? document.activeElement.id : null;
  svg.replaceChildren(back, list, front);
  if (focused && $(focused)) $(focused).focus();
}

/** Where a text of the chosen point covers fewest points and steps, near it; the lower right is often empty. */
function clearing(at, text, best, { left, right, top, bottom, x, y }) {
  const wide = 7.4 * text.length, drawn = places.map((p) => [p.x, p.y]);
  best.forEach(({ r, u }, k) => {
    const next = best[k + 1] || { r, u };
    for (let s = 0; s <= 1; s += 0.1) {
      drawn.push([x(u), y(r) + s * (y(next.r) - y(r))], [x(u) + s * (x(next.u) - x(u)), y(next.r)]);
    }
  });
  let found = null, least = Infinity;
  for (let dy = -60; dy <= 130; dy += 10) {
    for (const start of [at.x + 14, at.x - 14 - wide, at.x - wide / 2, right - wide]) {
      const [a, b] = [Math.min(Math.max(start, left + 2), right - wide), at.y + dy];
      if (b < top + 14 || b > bottom - 6) continue;
      const covered = drawn.filter(([px, py]) => px > a - 6 && px < a + wide + 6 && py > b - 17 && py < b + 7).length;
      const away = Math.hypot(Math.max(a - at.x, at.x - a - wide, 0), b - 5 - at.y);
      const cost = covered + away / 30 + (away < 12 ? 5 : 0);
      if (cost < least) [found, least] = [{ x: a, y: b }, cost];
    }
  }
  return found || { x: left + 6, y: top + 14 };
}

/** Intervals of both measures, and a thin line up to the limit that 95 % of releases stay below. */
function bars({ point, x: px, y: py }, look, x, y) {
  const r = riskAt(point, state.risk), u = useAt(point), out = [];
  if (u[LOW] !== null) {
    out.push(draw("line", { class: "bar", stroke: look.colour, x1: x(u[LOW]) - px, x2: x(u[HIGH]) - px, y1: 0, y2: 0 }));
  }
  if (r[LOW] !== null) {
    out.push(draw("line", { class: "bar", stroke: look.colour, x1: 0, x2: 0, y1: y(r[LOW]) - py, y2: y(r[HIGH]) - py }));
  }
  const end = y(r[LIMIT]) - py;
  out.push(draw("path", { class: "limit", fill: "none", d: `M0 0V${end}M-4 ${end}H4` }));
  return out;
}

function drawLegend() {
  for (const part of model.legend) {
    if (part.head) $("legend").append(make("b", {}, part.head));
    for (const entry of part.entries) {
      const symbol = draw("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" });
      symbol.append(mark(entry, 5, true));
      $("legend").append(make("span", {}, symbol, entry.name));
    }
  }
}

// -- looking at a point

function look(point) {
  state.looked = point;
  const place = places.find((p) => p.point === point);
  const ring = place ? [draw("circle", { class: "look", r: 13, cx: place.x, cy: place.y })] : [];
  $("look").replaceChildren(...ring);
  for (const row of $("rows").rows) row.classList.toggle("looked", point !== null && row.dataset.point === String(point.id));
  const box = $("details");
  box.hidden = !place;
  if (!place) return;
  box.replaceChildren(...told(point).map((line) => make("p", {}, line)));
  const { width, height } = $("chart").viewBox.baseVal; // one unit is one pixel
  box.style.left = `${Math.max(0, Math.min(place.x - box.offsetWidth / 2, width - box.offsetWidth))}px`;
  const below = place.y < height / 2;
  box.style.top = `${below ? place.y + 20 : place.y - 20 - box.offsetHeight}px`;
}

function nearest(event) {
  const box = $("chart").getBoundingClientRect(), view = $("chart").viewBox.baseVal;
  const px = ((event.clientX - box.left) * view.width) / box.width, py = ((event.clientY - box.top) * view.height) / box.height;
  let found = null, away = 24;
  for (const place of places) {
    const d = Math.hypot(place.x - px, place.y - py);
    if (d < away) [found, away] = [place.point, d];
  }
  return found;
}

const focusedPoint = () => model.points.find((p) => String(p.id) === document.activeElement?.dataset?.point) || null;

function step(event) {
  if (event.key === "Escape") look(null);
  const here = focusedPoint();
  if (!here) return;
  const along = { ArrowLeft: ["u", -1], ArrowRight: ["u", 1], ArrowDown: ["r", -1], ArrowUp: ["r", 1], Home: ["u", -Infinity], End: ["u", Infinity] };
  if (!(event.key in along)) return;
  event.preventDefault();
  const [way, by] = along[event.key];
  const size = ({ point }) => (way === "u" ? useAt(point) : riskAt(point, state.risk))[VALUE];
  const order = [...places].sort((a, b) => size(a) - size(b) || a.point.id - b.point.id);
  const at = order.findIndex(({ point }) => point === here);
  const next = order[Math.min(Math.max(at + by, 0), order.length - 1)].point;
  $(`point-${here.id}`).setAttribute("tabindex", "-1");
  const element = $(`point-${next.id}`);
  element.setAttribute("tabindex", "0");
  element.focus();
}
