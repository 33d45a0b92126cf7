"use strict";
// Study: what was learned, a table of runs that is sorted, filtered and saved, and the report's tables and figures.

untwine.views.study = {
  title: "Study",
  alone: true,

  async show(root, { state, keep, alive }) {
    const { el } = parts;
    const MAX_ROWS = 200; // until all are asked for
    const FIRST = ["learned", "recommendations", "table"]; // sections before the table of runs
    const study = await api.json("/api/study");
    const { columns } = study;
    const values = columns.map((_, column) => [...new Set(study.rows.map((row) => row[column]))]);
    const isNumber = values.map((distinct) => distinct.some((value) => typeof value === "number"));
    const asked = (state.get("columns") || "").split(",").filter(Boolean).map(decodeURIComponent);
    const isAsked = (column, k) => (asked.length ? k === 0 || asked.includes(column.name) : column.shown);
    let shown = columns.map((_, k) => k).filter((k) => isAsked(columns[k], k));
    const filtered = shown.filter((column) => values[column].length <= 20 && values[column].length > 1 && column > 0
      && (values[column].every((value) => typeof value === "string") || ["seed", "steps"].includes(columns[column].name)));
    const filters = new Map(filtered.map((column) => [column, state.get(columns[column].name) || ""]));
    let text = state.get("find") || "";
    let [sorted, down] = [columns.findIndex((column) => column.name === state.get("sort")), state.get("down") === "1"];
    let maxRows = MAX_ROWS;

    const number = (value, column) => (Math.abs(value) >= 1e6 || (value && Math.abs(value) < 1e-5) ? value.toExponential(2)
      : value.toLocaleString("en", { minimumFractionDigits: columns[column].decimals, maximumFractionDigits: columns[column].decimals })).replace("-", "−");
    const format = (value, column) => (value === null ? "–" : typeof value === "number" ? number(value, column) : value);
    const heading = (column) => `${column.title}${column.unit ? ` (${column.unit})` : ""}`;

    // ---- rows ----

    const phase = new Map(untwine.runs(true).map((line) => [line.name, line.phase]));

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

    const head = el("tr", {});
    const body = el("tbody", {});
    const count = el("p", { class: "note", role: "status" });
    const more = el("button", { type: "button", onclick: () => { maxRows = Infinity; fill(); } }, "Show all");

    function cell(row, run, column, k) {
      const words = format(row[column], column);
      if (k) return el("td", { class: isNumber[column] ? "number" : "" }, words);
      return el("th", { scope: "row" }, phase.has(run) ? el("a", { href: untwine.link(phase.get(run) === "finished" ? "latents" : "curves", run) }, words) : words);
    }

    function fill() {
      const matching = rows();
      head.replaceChildren(...shown.map((column) => el("th", {
        scope: "col", class: isNumber[column] ? "number" : "", "aria-sort": column === sorted ? (down ? "descending" : "ascending") : "none",
      }, el("button", { type: "button", onclick: () => sort(column), title: columns[column].better ? `${columns[column].better} is better` : false }, heading(columns[column])))));
      body.replaceChildren(...matching.slice(0, maxRows).map(({ row, run }) => el("tr", {}, shown.map((column, k) => cell(row, run, column, k)))));
      count.textContent = matching.length === study.rows.length ? parts.plural(matching.length, "run") : `${matching.length} of ${parts.plural(study.rows.length, "run")}`;
      more.hidden = matching.length <= maxRows;
    }

    function again() {
      const chosen = Object.fromEntries([...filters].map(([column, value]) => [columns[column].name, value]));
      const isDefault = columns.every((column, k) => column.shown === shown.includes(k));
      keep({ ...chosen, find: text, sort: sorted < 0 ? "" : columns[sorted].name, down: down ? "1" : "",
        columns: isDefault ? "" : shown.map((column) => encodeURIComponent(columns[column].name)).join(",") });
      fill();
    }

    function sort(column) {
      [sorted, down] = sorted === column ? [column, !down] : [column, isNumber[column] && columns[column].better !== "lower"];
      again();
    }

    // ---- columns and files ----

    const GROUPS = [["score", "Scores"], ["parameter", "Parameters"], ["name", "Other"], ["time", "Other"]];

    function chooser() {
      const titles = [...new Set(GROUPS.map(([, title]) => title))];
      return el("details", { class: "chooser" }, el("summary", {}, "Columns"), titles.map((title) => {
        const kinds = GROUPS.filter(([, each]) => each === title).map(([kind]) => kind);
        const members = columns.map((_, k) => k).filter((k) => k && kinds.includes(columns[k].kind));
        return members.length ? el("fieldset", { class: "checks" }, el("legend", {}, title), members.map((column) => parts.check(heading(columns[column]), shown.includes(column), (isOn) => {
          shown = columns.map((_, k) => k).filter((k) => (k === column ? isOn : shown.includes(k)));
          again();
        }))) : null;
      }));
    }

    /** The rows that are shown, with all columns and all digits. */
    function csv() {
      const head = [...columns.map((column) => column.name), "directory"];
      parts.saveCsv(`${study.title.replace(/[^\w-]+/g, "-")}.csv`, [head, ...rows().map(({ row, run }) => [...row, run])]);
    }

    const search = el("input", { type: "search", value: text, placeholder: "words", oninput: () => { text = search.value; again(); } });
    const controls = el("div", { class: "controls" },
      el("label", { class: "choose" }, el("span", {}, "Find"), " ", search),
      [...filters].map(([column, value]) => parts.select(columns[column].title,
        [["", "all"], ...values[column].map((each) => [String(each), format(each, column)]).sort((a, b) => a[0].localeCompare(b[0], "en", { numeric: true }))], value,
        (chosen) => { filters.set(column, chosen); again(); })),
      chooser(), el("button", { type: "button", onclick: csv }, "Download CSV"));
    const isSame = (k) => k > 0 && values[k].length < 2 && study.rows.length > 1 && values[k][0] !== null && ["data", "seed", "steps"].includes(columns[k].name);
    const same = columns.flatMap((column, k) => (isSame(k) ? [`${column.title} ${format(values[k][0], k)}`] : []));

    // ---- the page ----

    const runsTitle = untwine.overview.view === "study" ? "Runs" : "";
    const before = el("div", {});
    const after = el("div", {});
    const note = `${parts.click} a name to open its run, a heading to sort.${same.length ? ` Common to all: ${same.join(", ")}.` : ""}`;
    root.append(el("h1", {}, study.title), ...study.about.map((sentence) => el("p", { class: "soft lead" }, sentence)), before);
    if (!study.rows.length) root.append(parts.empty("No run has begun yet.", untwine.overview.view === "study" ? `untwine study run ${study.title}` : "untwine train beta-tcvae sprites"));
    else {
      root.append(el("section", {}, runsTitle ? el("h2", {}, runsTitle) : null, el("p", { class: "soft" }, note), controls, count,
        el("div", { class: "card scroll table", tabindex: 0, role: "region", "aria-label": "Runs" }, el("table", { class: "runs" }, el("thead", {}, head), body)), el("p", { class: "buttons" }, more)));
      fill();
    }
    root.append(after);

    // The table of runs is shown at once; drawing the figures of a large study takes seconds.
    if (untwine.overview.view !== "study") return;
    before.append(el("p", { class: "soft busy" }, "Comparing the settings …"));
    api.json("/api/study/sections").then((sections) => {
      if (!alive()) return;
      for (const part of [before, after]) part.replaceChildren();
      for (const one of sections) (FIRST.includes(one.name) ? before : after).append(section(one));
      if (!sections.length) before.append(parts.empty("The report needs at least two scored runs that differ. This resumes the study:", `untwine study run ${study.title}`));
    }, (error) => { before.replaceChildren(); if (alive()) untwine.problem(error); });

    /** A section of the report. */
    function section(one) {
      const best = new Set(one.best.map(String));
      const isFigures = (text) => /^[−\d<[–]/.test(text);
      const numeric = one.header.map((_, k) => one.rows.every((row) => row[k] === "" || isFigures(row[k])));
      const table = one.header.length ? el("div", { class: "card scroll table whole", tabindex: 0, role: "region", "aria-label": one.title }, el("table", { class: "runs report" },
        el("thead", {}, el("tr", {}, one.header.map((title, k) => el("th", { scope: "col", class: numeric[k] ? "number" : "" }, title)))),
        el("tbody", {}, one.rows.map((row, r) => el("tr", {}, row.map((each, c) => el(c ? "td" : "th", { class: numeric[c] ? "number" : "", scope: c ? false : "row" }, best.has(`${r},${c}`) ? el("b", {}, each) : each))))))) : null;
      const folded = table && one.folded ? el("details", {}, el("summary", {}, `Show ${one.rows.length} rows`), table) : table;
      const figure = one.figure ? el("div", { class: "card sheet" }, parts.image(`/api/study/figures/${encodeURIComponent(one.name)}.svg`, one.title, { class: "" })) : null;
      const points = one.points.length ? el("div", { class: "card" }, el("ul", { class: "points" }, one.points.map((point) => el("li", {}, point)))) : null;
      return parts.section(one.title, one.note ? one.note.split("`").map((words, k) => (k % 2 ? el("code", {}, words) : words)) : "", points, folded, figure);
    }
  },
};
