"use strict";
// Tables: rows of numbers as bars by column, and films of rows as lines.

const rows = (() => {
  const SHOWN_LINES = 5; // columns that change most, which are coloured and named
  const FAINT_LINES = 30; // further columns, in grey
  const SVG = "http://www.w3.org/2000/svg";
  const { el } = parts;

  const is = (summary) => summary.columns.length > 0;

  /** A value of a column, with as many decimals as its range needs. */
  function format(value, { low, high }) {
    const digits = Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(Math.max(high - low, 1e-9)))));
    const rounded = +value.toFixed(digits) || 0; // never −0
    return parts.minus(rounded.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  }

  /** Where a value lies in the range of its column, from 0 to 1 and a little beyond. */
  const place = (value, { low, high }) => (value - low) / (high - low || 1);
  const inside = (share) => Math.min(1, Math.max(0, share));

  const hidden = (summary) => (summary.hidden ? `${parts.plural(summary.hidden, "further column")} not shown: the model has least to say of them.` : "");

  /** One line per column: its name, a bar over the range of the data, and the value; a mark for another row. */
  function list(summary, label) {
    const lines = summary.columns.map((column) => {
      const [fill, mark, number] = [el("i", {}), el("em", {}), el("b", {})];
      return { column, fill, mark, number, element: el("li", {}, el("span", { title: column.name }, column.name), el("span", { class: "extent", "aria-hidden": "true" }, fill, mark), number) };
    });
    const element = el("div", { class: "rows" }, el("ul", { "aria-label": label }, lines.map((line) => line.element)), hidden(summary) ? el("p", { class: "note" }, hidden(summary)) : null);
    return {
      element,
      fill(values, other = null) {
        lines.forEach(({ column, fill, mark, number }, k) => {
          fill.style.width = `${100 * inside(place(values[k], column))}%`;
          mark.hidden = !other;
          if (other) mark.style.left = `${100 * inside(place(other[k], column))}%`;
          number.textContent = format(values[k], column);
        });
      },
    };
  }

  /** The columns in which rows differ most, as positions, most first. */
  function changing(summary, film) {
    const extent = summary.columns.map((column, c) => {
      const values = film.map((row) => row[c]);
      return (Math.max(...values) - Math.min(...values)) / (column.high - column.low || 1);
    });
    return extent.map((size, c) => [size, c]).sort((a, b) => b[0] - a[0]).map(([, c]) => c);
  }

  /** Draw a film of rows as lines, those that change most in colour and with a legend. */
  function lines(onto, summary, film, isTurned = false) {
    const frames = isTurned ? [...film].reverse() : film;
    const order = changing(summary, frames);
    const height = 100;
    const points = (c) => frames.map((row, k) => `${(k + 0.5) / frames.length * 1000},${height - 6 - (height - 12) * inside(place(row[c], summary.columns[c]))}`).join(" ");
    const chart = document.createElementNS(SVG, "svg");
    chart.setAttribute("viewBox", `0 0 1000 ${height}`);
    chart.setAttribute("preserveAspectRatio", "none");
    chart.setAttribute("aria-hidden", "true");
    const line = (c, name, colour) => {
      const drawn = document.createElementNS(SVG, "polyline");
      drawn.setAttribute("points", points(c));
      drawn.setAttribute("class", name);
      if (colour) drawn.style.stroke = colour;
      return drawn;
    };
    const named = order.slice(0, SHOWN_LINES);
    chart.append(...order.slice(SHOWN_LINES, SHOWN_LINES + FAINT_LINES).map((c) => line(c, "faint")),
      ...[...named].reverse().map((c) => line(c, "strong", `var(--level-${named.indexOf(c)})`)));
    const words = named.map((c, k) => {
      const swatch = el("i", {});
      swatch.style.background = `var(--level-${k})`;
      const [first, last] = [frames[0][c], frames[frames.length - 1][c]].map((value) => format(value, summary.columns[c]));
      return el("li", {}, swatch, `${summary.columns[c].name} `, el("span", { class: "soft" }, `${first} → ${last}`));
    });
    onto.replaceChildren(chart, el("ul", { class: "key" }, words));
  }

  /** A table of a row, its reconstruction and the error of each column; the largest errors first. */
  function table(summary, row, most) {
    const order = summary.columns.map((column, c) => [Math.abs(row.values[c] - row.reconstruction[c]) / (column.high - column.low || 1), c])
      .sort((a, b) => b[0] - a[0]);
    const body = order.slice(0, most).map(([error, c]) => {
      const bar = el("i", {});
      bar.style.width = `${100 * inside(error)}%`;
      const column = summary.columns[c];
      return el("tr", {}, el("th", { scope: "row" }, column.name), el("td", { class: "number" }, format(row.values[c], column)),
        el("td", { class: "number" }, format(row.reconstruction[c], column)),
        el("td", {}, el("span", { class: "extent", title: `${parts.percent(error)} of the column's range` }, bar)));
    });
    return el("table", { class: "plain row" }, el("thead", {}, el("tr", {}, ["column", "value", "decoded", "error"].map((word, k) =>
      el("th", { scope: "col", class: k === 1 || k === 2 ? "number" : "" }, word)))), el("tbody", {}, body));
  }

  return { is, format, place, inside, list, lines, table, hidden };
})();
