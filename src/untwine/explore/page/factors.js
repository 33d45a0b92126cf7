"use strict";
// Factors: what each latent knows of each factor, and the scores.

untwine.views.factors = {
  title: "Factors",

  async show(root, { run, summary, state, keep, alive }) {
    const { el } = parts;
    const REFERENCES = [["random", "noise"], ["rotated", "rotated factors"], ["perfect", "true factors"]];
    const table = await api.json(api.of(run, "factors"));
    const byNumber = new Map(summary.latents.map((latent) => [latent.number, latent]));

    // ---- which latent knows which factor ----

    function matrix() {
      const body = el("tbody", {});
      const rest = el("tbody", { hidden: true });
      table.latents.forEach((number, row) => (byNumber.get(number)?.active ? body : rest).append(line(number, row)));
      if (!body.children.length) rest.hidden = false;
      const inactive = rest.children.length;
      const more = el("button", { type: "button", onclick: () => { rest.hidden = !rest.hidden; more.setAttribute("aria-expanded", String(!rest.hidden)); }, "aria-expanded": "false" },
        parts.plural(inactive, "inactive latent"));
      const steep = table.factors.length > 9 || table.factors.some((name) => name.length > 14);
      return parts.section("Which latent knows which factor",
        "The share of a factor's entropy that a latent knows, in percent. A disentangled code has one strong cell per column." + (summary.tile.length ? ` ${parts.click} a cell to see how the latent changes images.` : ""),
        el("div", { class: "card scroll" }, el("table", { class: `matrix${steep ? " steep" : ""}` },
          el("thead", {}, el("tr", {}, el("td", {}), table.factors.map((name) => el("th", { scope: "col" }, el("span", {}, parts.plain(name)))))), body, rest),
        inactive && body.children.length ? more : null),
        explained);
    }

    function line(number, row) {
      return el("tr", {}, el("th", { scope: "row" }, `z${number}`), table.matrix[row].map((share, column) => {
        const button = el("button", { type: "button", "data-cell": `${number}:${column}`, "aria-pressed": "false",
          "aria-label": `z${number} knows ${parts.percent(share)} of ${parts.plain(table.factors[column])}`, onclick: () => explain(number, column) },
        String(Math.round(100 * share)));
        button.style.background = `rgba(var(--fill), ${Math.min(1, share).toFixed(3)})`;
        button.classList.toggle("strong", share > 0.65); // where the text colour changes to stay readable
        button.classList.toggle("strongest", share > 0.85);
        return el("td", {}, button);
      }));
    }

    const explained = el("div", { class: "explained", "aria-live": "polite" });

    const explain = parts.newest(async (number, column) => {
      if (!summary.tile.length) return; // such data has no pictures
      const row = table.latents.indexOf(number);
      root.querySelectorAll("[data-cell]").forEach((cell) => cell.setAttribute("aria-pressed", String(cell.dataset.cell === `${number}:${column}`)));
      keep({ latent: number, factor: table.factors[column] });
      const films = await traversals(number);
      if (!alive()) return;
      const latent = byNumber.get(number);
      explained.replaceChildren(el("div", { class: "card" },
        el("p", {}, el("b", {}, `z${number}`), ` knows ${parts.percent(table.matrix[row][column])} of `, el("b", {}, parts.plain(table.factors[column])),
          `. Here it moves from ${latent.low} to ${latent.high}, in ${films.length === 1 ? "an image" : "three images"}. `,
          el("a", { href: untwine.link("latents", run, { latent: number }) }, "Move it with the slider")),
        films));
      untwine.settle();
    }, alive);

    async function traversals(number) {
      const examples = (await parts.starts.examples(run)).slice(0, 3);
      return Promise.all(examples.map(async (example) => {
        const start = await api.json(parts.starts.address(run, `example-${example.index}`));
        const draw = await parts.traversals(run, summary, start.code.map((value) => +api.number(value)), [number]);
        const strip = el("canvas", { class: "film", role: "img", "aria-label": `Example ${example.index} as z${number} moves` });
        draw(strip, number);
        return strip;
      }));
    }

    if (table.note) root.append(el("p", { class: "note" }, table.note));
    if (table.factors.length) root.append(matrix());
    if (table.scores.length) root.append(scores());

    const column = table.factors.indexOf(state.get("factor"));
    const asked = Number(state.get("latent") ?? NaN);
    if (column >= 0 && table.latents.includes(asked)) explain(asked, column);

    // ---- scores ----

    function scores() {
      const metric = (score) => score.name.split(".")[0];
      const large = table.scores.filter((score, k) => score.references.perfect > 0 // the first value of each metric
        && !table.scores.slice(0, k).some((before) => metric(before) === metric(score)));
      const kinds = REFERENCES.filter(([kind]) => table.scores.some((score) => kind in score.references));
      const all = el("div", { class: "card scroll" }, el("table", { class: "plain" },
        el("thead", {}, el("tr", {}, ["score", "value", ...kinds.map(([, word]) => word), ""].map((word) => el("th", { scope: "col" }, word)))),
        el("tbody", {}, table.scores.map((score) => el("tr", {}, el("th", { scope: "row" }, score.title), el("td", {}, parts.short(score.value)),
          kinds.map(([kind]) => el("td", {}, kind in score.references ? parts.short(score.references[kind]) : "")),
          el("td", { class: "note" }, score.better ? `${score.better} is better` : ""))))));
      if (!large.length) return parts.section("Scores", "", all);
      return parts.section("Scores", "The full bar is the score of the true factors. The mark is the score of the rotated factors, which hold the same information, mixed.",
        el("div", { class: "scores" }, large.map(card)),
        el("details", {}, el("summary", {}, `All ${parts.plural(table.scores.length, "value")}`), all));
    }

    function card(score) {
      const top = score.references.perfect;
      const place = (value) => `${100 * Math.min(1, Math.max(0, value / top))}%`;
      const fill = el("i", {});
      fill.style.width = place(score.value);
      const mark = "rotated" in score.references ? el("em", {}) : null;
      if (mark) mark.style.left = place(score.references.rotated);
      const references = REFERENCES
        .filter(([kind]) => kind in score.references).map(([kind, word]) => `${word} ${parts.short(score.references[kind])}`).join(" · ");
      return el("div", { class: "card score" }, el("div", {}, score.title), el("b", {}, parts.short(score.value)),
        el("div", { class: "scale", "aria-hidden": "true" }, fill, mark), el("div", { class: "note" }, references));
    }
  },
};
