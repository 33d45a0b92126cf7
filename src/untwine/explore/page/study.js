"use strict";
// Study: a sortable table of runs, and the figures of the report.

untwine.views.study = {
  title: "Study",
  alone: true,

  async show(root, { state, keep, alive }) {
    const { el } = parts;
    const MAX_ROWS = 200; // until all are asked for
    const study = await api.json("/api/study");
    const values = study.columns.map((_, column) => [...new Set(study.rows.map((row) => row[column]))]);
    const isSame = values.map((distinct, column) => column > 0 && distinct.length < 2 && study.rows.length > 1); // the first leads to the run
    const isNumber = values.map((distinct) => distinct.some((value) => typeof value === "number"));
    const shown = study.columns.map((_, column) => column).filter((column) => !isSame[column]);
    const filtered = shown.filter((column) => values[column].length <= 20 && values[column].length > 1
      && (values[column].every((value) => typeof value === "string") || ["seed", "steps"].includes(study.columns[column])));
    const filters = new Map(filtered.map((column) => [column, state.get(study.columns[column]) || ""]));
    let text = state.get("find") || "";
    let [sorted, down] = [study.columns.indexOf(state.get("sort")), state.get("down") === "1"];
    let maxRows = MAX_ROWS;

    const format = (value) => (value === null ? "–" : typeof value === "number" ? parts.short(value) : value);

    function rows() {
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = (row) => [...filters].every(([column, value]) => !value || String(row[column]) === value)
        && words.every((word) => row.some((cell) => String(cell ?? "").toLowerCase().includes(word)));
      const matching = study.rows.map((row, k) => ({ row, run: study.runs[k] })).filter(({ row }) => fits(row));
      if (sorted < 0) return matching;
      return matching.sort((a, b) => (down ? -1 : 1) * compared(a.row[sorted], b.row[sorted]) || 0);
    }

    function compared(a, b) {
      if (a === null || b === null) return (down ? -1 : 1) * ((a === null) - (b === null)); // missing values come last
      return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    }

    const body = el("tbody", {});
    const count = el("p", { class: "note", role: "status" });
    const more = el("button", { type: "button", onclick: () => { maxRows = Infinity; fill(); } }, "Show all");

    function fill() {
      const matching = rows();
      body.replaceChildren(...matching.slice(0, maxRows).map(({ row, run }) => el("tr", {}, shown.map((column, k) => {
        const cell = format(row[column]);
        const inside = k === 0 && run ? el("a", { href: untwine.link("latents", run) }, cell) : cell;
        return k === 0 ? el("th", { scope: "row" }, inside) : el("td", { class: isNumber[column] ? "number" : "" }, inside);
      }))));
      count.textContent = matching.length === study.rows.length ? parts.plural(matching.length, "run") : `${matching.length} of ${parts.plural(study.rows.length, "run")}`;
      more.hidden = matching.length <= maxRows;
      heads.forEach((head, column) => head.setAttribute("aria-sort", column === sorted ? (down ? "descending" : "ascending") : "none"));
    }

    function again() {
      const chosen = Object.fromEntries([...filters].map(([column, value]) => [study.columns[column], value]));
      keep({ ...chosen, find: text, sort: sorted < 0 ? "" : study.columns[sorted], down: down ? "1" : "" });
      fill();
    }

    function sort(column) {
      [sorted, down] = sorted === column ? [column, !down] : [column, isNumber[column]];
      again();
    }

    const heads = new Map(shown.map((column) => [column, el("th", { scope: "col" },
      el("button", { type: "button", onclick: () => sort(column) }, study.columns[column].replaceAll("_", " ")))]));
    const search = el("input", { type: "search", value: text, placeholder: "words", oninput: () => { text = search.value; again(); } });
    const controls = el("div", { class: "controls" },
      el("label", { class: "choose" }, el("span", {}, "Find"), " ", search),
      [...filters].map(([column, value]) => parts.select(study.columns[column],
        [["", "all"], ...values[column].map((each) => [String(each), String(each)]).sort((a, b) => a[0].localeCompare(b[0], "en", { numeric: true }))], value,
        (chosen) => { filters.set(column, chosen); again(); })));
    const same = study.columns.flatMap((name, column) => (isSame[column] && values[column][0] !== null ? [`${name} ${format(values[column][0])}`] : []));

    root.append(el("h1", {}, study.title),
      el("p", { class: "soft lead" }, "Click a name to open its run, a heading to sort by it.", same.length ? ` Common to all: ${same.join(", ")}.` : ""));
    if (!study.rows.length) root.append(el("p", {}, "No runs yet."));
    else root.append(controls, count, el("div", { class: "card scroll table", tabindex: 0, role: "region", "aria-label": "Runs" }, el("table", { class: "runs" }, el("thead", {}, el("tr", {}, ...heads.values())), body)), el("p", { class: "buttons" }, more));
    if (study.rows.length) fill();

    // The table is shown at once; drawing the figures of a large study takes seconds.
    const drawing = el("p", { class: "soft" }, "Drawing the figures …");
    root.append(drawing);
    api.json("/api/study/figures").then((figures) => drawing.replaceWith(...figures.map((figure) => parts.section(figure.title, figure.note,
      el("div", { class: "card sheet" }, parts.image(`/api/study/figures/${encodeURIComponent(figure.name)}.svg`, figure.title, { class: "", loading: "lazy" }))))),
    (error) => { drawing.remove(); if (alive()) untwine.problem(error); });
  },
};
