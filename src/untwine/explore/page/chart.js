"use strict";
// A line chart as SVG: axes, lines and a reading at the pointer.

const chart = (() => {
  const [WIDTH, HEIGHT] = [420, 260];
  const MARGIN = { left: 56, right: 18, top: 10, bottom: 26 };
  const SETTLED = 0.1; // of a curve, whose steep beginning does not set the range

  function node(tag, attributes = {}, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  /** An exponential moving average, corrected for its start; each point weighs 1 − weight. */
  function smoothed(points, weight) {
    let [sum, norm] = [0, 0];
    return points.map(([x, y]) => {
      sum = weight * sum + (1 - weight) * y;
      norm = weight * norm + (1 - weight);
      return [x, sum / norm];
    });
  }

  /** Round numbers in a range: at most `count` of them, a decade or a 1-2-5 step apart. */
  function ticks(low, high, count, isLog) {
    if (isLog) {
      const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
      const stride = Math.max(1, Math.ceil((last - first + 1) / count));
      const decades = [];
      for (let power = first; power <= last; power += stride) decades.push(10 ** power);
      if (decades.length >= 2) return decades;
    }
    const rough = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough);
    const all = [];
    for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + 1e-9 * step; value += step) all.push(Math.abs(value) < step / 1e6 ? 0 : value);
    return all;
  }

  /** A number on an axis: 1,500 becomes 1.5k. */
  function short(value) {
    const size = Math.abs(value);
    const text = size >= 1e6 ? `${+(value / 1e6).toPrecision(3)}M` : size >= 1e4 ? `${+(value / 1e3).toPrecision(3)}k` : size && size < 1e-3 ? value.toExponential(0) : String(+value.toPrecision(4));
    return text.replace("-", "−");
  }

  /** The range of values: the first tenth of a curve, which may be steep, does not count at the top. */
  function range(lines, isLog) {
    const fits = (value) => !isLog || value > 0;
    const all = lines.flatMap((line) => line.points.map(([, y]) => y)).filter(fits);
    const settled = lines.flatMap((line) => line.points.slice(Math.floor(SETTLED * line.points.length)).map(([, y]) => y)).filter(fits);
    if (!all.length) return null;
    const [low, high] = [min(all), isLog ? max(all) : max(settled.length ? settled : all)];
    if (isLog) return [low / 1.05, high * 1.05];
    const pad = 0.06 * (high - low) || Math.abs(high) / 10 || 1;
    return [low - pad, high + pad];
  }

  const min = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
  const max = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

  /** A scale from values to places. */
  function scale([low, high], [start, end], isLog) {
    const turn = isLog ? Math.log : (value) => value;
    const span = turn(high) - turn(low) || 1;
    return (value) => start + ((turn(value) - turn(low)) / span) * (end - start);
  }

  function draw(lines, { smooth, logs, label }) {
    const [logX, logY] = [logs.has("x"), logs.has("y")];
    const soft = lines.map((line) => ({ ...line, raw: line.points, points: smooth ? smoothed(line.points, smooth) : line.points }));
    const ys = range(soft, logY);
    const steps = lines.flatMap((line) => line.points.map(([x]) => x));
    if (!ys || !steps.length) return parts.el("p", { class: "soft" }, logY ? "No value is above 0, so there is nothing to show on a logarithmic axis." : "No values yet.");
    const xs = [logX ? min(steps) : 0, max(steps)];
    const x = scale(xs, [MARGIN.left, WIDTH - MARGIN.right], logX);
    const y = scale(ys, [HEIGHT - MARGIN.bottom, MARGIN.top], logY);
    const path = (points) => points.filter(([, value]) => !logY || value > 0).map(([step, value], k) => `${k ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    const clip = `clip-${draw.count += 1}`;
    const svg = node("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${label} by step, ${parts.plural(lines.length, "curve")}${summary(soft)}`, class: "curve" });
    const inside = node("g", { "clip-path": `url(#${clip})` });
    svg.append(node("clipPath", { id: clip }, node("rect", { x: MARGIN.left, y: MARGIN.top - 4, width: WIDTH - MARGIN.left - MARGIN.right + 4, height: HEIGHT - MARGIN.top - MARGIN.bottom + 8 })));
    for (const value of ticks(...ys, 5, logY)) {
      svg.append(node("line", { x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: y(value), y2: y(value), class: "grid" }),
        node("text", { x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)));
    }
    for (const value of ticks(...xs, 5, logX)) svg.append(node("text", { x: x(value), y: HEIGHT - 6, "text-anchor": "middle" }, short(value)));
    for (const line of soft) {
      const style = { stroke: line.colour, class: `line ${line.kind}` };
      if (smooth) inside.append(node("path", { ...style, d: path(line.raw), class: "line raw" }));
      inside.append(line.points.length > 1 ? node("path", { ...style, d: path(line.points) })
        : node("circle", { cx: x(line.points[0][0]), cy: y(line.points[0][1]), r: 3, fill: line.colour }));
    }
    svg.append(inside);
    return withReading(svg, soft, x);
  }
  draw.count = 0;

  const summary = (lines) => lines.filter((line) => line.points.length).slice(0, 4).map((line) => `; ${line.label} ends at ${parts.short(line.points[line.points.length - 1][1])}`).join("");

  /** The chart with a reading: the values at the step nearest to the pointer. */
  function withReading(svg, lines, x) {
    const mark = node("line", { y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, class: "mark", visibility: "hidden" });
    const words = parts.el("div", { class: "reading note", "aria-hidden": "true" });
    svg.append(mark);
    function read(event) {
      const box = svg.getBoundingClientRect();
      const place = ((event.clientX - box.left) / box.width) * WIDTH;
      const near = lines.filter((line) => line.points.length).map((line) => ({ line, point: line.points.reduce((best, each) => (Math.abs(x(each[0]) - place) < Math.abs(x(best[0]) - place) ? each : best)) }));
      if (!near.length) return;
      const step = near.reduce((best, each) => (Math.abs(x(each.point[0]) - place) < Math.abs(x(best.point[0]) - place) ? each : best)).point[0];
      for (const [key, value] of [["x1", x(step)], ["x2", x(step)], ["visibility", "visible"]]) mark.setAttribute(key, value);
      words.replaceChildren(`Step ${step.toLocaleString("en")}`, ...near.map(({ line, point }) => {
        const swatch = parts.el("i", { class: `swatch ${line.kind}` });
        swatch.style.background = line.colour;
        return parts.el("span", {}, swatch, ` ${parts.short(point[1])}${line.kind === "validation" ? " (validation)" : ""}`);
      }));
    }
    svg.addEventListener("pointermove", read);
    svg.addEventListener("pointerdown", read);
    svg.addEventListener("pointerleave", () => { mark.setAttribute("visibility", "hidden"); words.replaceChildren(); });
    return parts.el("div", {}, svg, words);
  }

  return { draw, smoothed, ticks, short };
})();
