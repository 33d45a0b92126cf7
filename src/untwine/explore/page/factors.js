"use strict";
// Factors: what each latent knows of each factor, and the scores.

untwine.views.factors = {
  title: "Factors",

  async show(root, { run, summary, state, keep, alive }) {
    const { el } = parts;
    const REFERENCES = [["random", "noise"], ["rotated", "rotated"], ["perfect", "true factors"]];
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
      const width = table.factors.length < 5 ? `max-width: ${5 + 12 * table.factors.length}rem` : null;
      const steep = table.factors.length > 9 || table.factors.some((name) => name.length > 14);
      return parts.section("Which latent knows which factor",
        `The share of a factor's entropy that a latent knows, in percent. A disentangled code has one strong cell per column. ${parts.click} a cell to see how the latent changes ${summary.tile.length ? "images" : "rows"}.`,
        el("div", { class: "card scroll" }, el("table", { class: `matrix${steep ? " steep" : ""}`, style: width },
          el("thead", {}, el("tr", {}, el("td", {}), table.factors.map((name) => el("th", { scope: "col" }, el("span", {}, parts.plain(name)))))), body, rest),
        inactive && body.children.length ? more : null),
        explained);
    }

    function line(number, row) {
      return el("tr", {}, el("th", { scope: "row" }, `z${number}`), table.matrix[row].map((share, column) => {
        const button = el("button", { type: "button", "data-cell": `${number}:${column}`, "aria-pressed": "false",
          "aria-label": `z${number} knows ${parts.percent(share)} of ${parts.plain(table.factors[column])}`, onclick: () => explain(number, column) },
        String(Math.round(100 * share)));
        button.style.setProperty("--share", share.toFixed(3));
        return el("td", {}, button);
      }));
    }

    const explained = el("div", { class: "explained", "aria-live": "polite" });

    const explain = parts.newest(async (number, column) => {
      const row = table.latents.indexOf(number);
      root.querySelectorAll("[data-cell]").forEach((cell) => cell.setAttribute("aria-pressed", String(cell.dataset.cell === `${number}:${column}`)));
      keep({ latent: number, factor: table.factors[column] });
      const films = await traversals(number);
      if (!alive()) return;
      const latent = byNumber.get(number);
      explained.replaceChildren(el("div", { class: "card" },
        el("p", {}, el("b", {}, `z${number}`), ` knows ${parts.percent(table.matrix[row][column])} of `, el("b", {}, parts.plain(table.factors[column])),
          `. Here it moves from ${parts.minus(String(latent.low))} to ${parts.minus(String(latent.high))}, in ${parts.plural(films.length, summary.tile.length ? "image" : "row")}. `,
          el("a", { href: untwine.link("latents", run, { latent: number }) }, "Move it with the slider")),
        films));
      untwine.settle();
    }, alive);

    async function traversals(number) {
      const examples = (await parts.starts.examples(run)).slice(0, 3);
      return Promise.all(examples.map(async (example) => {
        const start = await api.json(parts.starts.address(run, `example-${example.index}`));
        const draw = await parts.traversals(run, summary, start.code.map((value) => +api.number(value)), [number]);
        const strip = parts.strip(summary, { role: "img", "aria-label": `${parts.exampleName(example)} as z${number} moves` });
        draw(strip, number);
        return strip;
      }));
    }

    if (table.note) root.append(el("p", { class: "note" }, table.note));
    if (table.factors.length) root.append(matrix());
    root.append(table.scores.length ? scores() : parts.section("Scores", "", parts.empty("There are no scores to show. This computes them:", `untwine evaluate ${run}`)));

    const column = table.factors.indexOf(state.get("factor"));
    const asked = Number(state.get("latent") ?? NaN);
    if (column >= 0 && table.latents.includes(asked)) explain(asked, column);

    // ---- scores ----

    function scores() {
      const kinds = REFERENCES.filter(([kind]) => table.scores.some((score) => kind in score.references));
      const all = el("div", { class: "card scroll" }, el("table", { class: "plain" },
        el("thead", {}, el("tr", {}, ["score", "value", ...kinds.map(([, word]) => word), ""].map((word, k) => el("th", { scope: "col", class: k && word ? "number" : "" }, word)))),
        el("tbody", {}, table.scores.map((score) => el("tr", {}, el("th", { scope: "row" }, score.title), el("td", { class: "number" }, parts.short(score.value)),
          kinds.map(([kind]) => el("td", { class: "number" }, kind in score.references ? parts.short(score.references[kind]) : "")),
          el("td", { class: "note" }, score.note || (score.better ? `${score.better} is better` : "")))))));
      const cards = table.scores.filter((score) => score.card);
      if (!cards.length) return parts.section("Scores", "", all);
      const groups = [...new Set(cards.map((score) => score.question))].flatMap((question) => [
        el("h3", { class: "question" }, question),
        el("div", { class: "scores" }, cards.filter((score) => score.question === question).map(card))]);
      const words = cards.some((score) => score.place !== null)
        ? "A bar runs from the score of noise to that of the true factors. The mark is the score of the rotated factors, which hold the same information, mixed." : "";
      return parts.section("Scores", words, groups, el("details", {}, el("summary", {}, `All ${parts.plural(table.scores.length, "value")}`), all));
    }

    function card(score) {
      const bar = score.place === null ? null : el("div", { class: "scale", "aria-hidden": "true" },
        placed(el("i", {}), "width", score.place), score.rotated === null ? null : placed(el("em", {}), "left", score.rotated));
      const references = REFERENCES
        .filter(([kind]) => kind in score.references).map(([kind, word]) => `${word} ${parts.short(score.references[kind])}`).join(" · ");
      return el("div", { class: "card score" }, el("div", {}, score.title), el("b", {}, parts.short(score.value)),
        bar, el("div", { class: "note" }, score.note || references || `${score.better} is better`));
    }

    function placed(element, side, share) {
      element.style[side] = `${100 * share}%`;
      return element;
    }
  },
};
