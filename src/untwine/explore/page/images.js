"use strict";
// Images: examples and their reconstructions, side by side, in an order; rows of numbers for tables.

untwine.views.images = {
  title: "Images",
  examples: true,

  async show(root, { run, summary, state, keep, alive }) {
    const { el } = parts;
    const PAGE = CONSTANTS.examples;
    const MAX_COUNT = 20 * PAGE;
    const POLL = 1500; // milliseconds between questions for the progress
    const FEW_COLUMNS = 6; // of a row of a table, those with the largest errors
    const isTable = rows.is(summary);
    const NAMES = { unlikely: "Least likely first", likely: "Most likely first", worst: "Largest error first", best: "Smallest error first",
      informative: "Largest KL first", uninformative: "Smallest KL first", far: "Farthest from the mean code first", near: "Nearest to the mean code first",
      data: "As in the data", random: "At random" };
    const address = (which, start = 0) => api.of(run, "reconstructions", { count: PAGE, order: which, seed: 0, start });
    const NEEDS = { unlikely: "log_likelihood", likely: "log_likelihood", informative: "kl", uninformative: "kl" };
    const orders = Object.keys(NAMES).filter((key) => api.has(address(key)) && (!NEEDS[key] || summary.measures.includes(NEEDS[key])));
    let order = orders.includes(state.get("order")) ? state.get("order") : orders[0];
    let count = Math.min(MAX_COUNT, Math.max(PAGE, Math.round(+state.get("count") / PAGE) * PAGE || PAGE));
    let shown = []; // the examples on the page
    let listed = 0; // examples measured when the list was made

    const grid = el("div", { class: isTable ? "pairs tables" : "pairs" });
    const more = el("button", { type: "button", onclick: () => ask(order, count + PAGE) }, "Show more");
    const progress = el("p", { class: "note progress", role: "status" });

    // ---- one example ----

    const picture = (example, kind, alt) => parts.image(api.of(run, `${kind}.png`, { index: example.index }), alt, { loading: "lazy" });
    const difference = (original, made) => el("span", { class: "difference", role: "img", "aria-label": "their difference" }, original.cloneNode(), made.cloneNode());

    function three(example) {
      const [original, made] = [picture(example, "image", "the image"), picture(example, "reconstruction", "its reconstruction")];
      return [original, made, difference(original, made)];
    }

    function words(example) {
      const numbers = [["log_likelihood", "log-likelihood", 1], ["kl", "KL", 1], ["error", "error", 4], ["distance", "distance", 2]]
        .filter(([key]) => example[key] !== null).map(([key, word, digits]) => `${word} ${parts.minus(example[key].toFixed(digits))}`);
      return [...numbers, parts.levels(example.levels, summary)].filter(Boolean).join(" · ");
    }

    function caption(example) {
      const start = `example-${example.index}`;
      const name = parts.exampleName(example);
      return el("figcaption", {}, api.has(parts.starts.address(run, start)) ? el("a", { href: untwine.link("latents", run, { start }), title: "Open in Latents" }, name) : el("b", {}, name),
        el("span", { class: "soft" }, ` ${words(example)}`));
    }

    function card(example, k) {
      if (isTable) {
        const rest = summary.columns.length > FEW_COLUMNS
          ? el("button", { type: "button", onclick: () => enlarge(k) }, `All ${summary.columns.length} columns`) : null;
        return el("figure", { class: "card pair" }, caption(example), rows.table(summary, example.row, FEW_COLUMNS), rest);
      }
      return el("figure", { class: "card pair" },
        el("button", { type: "button", class: "three", title: "Enlarge", "aria-label": `Enlarge ${parts.exampleName(example)}`, onclick: () => enlarge(k) }, three(example)),
        caption(example));
    }

    // ---- enlarged ----

    const large = el("div", { class: "enlarged" });
    const step = (by) => enlarge((at + by + shown.length) % shown.length);
    let at = 0;
    const dialog = el("dialog", { class: "card", "aria-label": "Enlarged example", onclick: (event) => event.target === dialog && dialog.close(),
      onkeydown: (event) => {
        if (event.key === "ArrowLeft") step(-1);
        if (event.key === "ArrowRight") step(1);
      } },
    el("div", { class: "buttons" }, el("button", { type: "button", onclick: () => step(-1) }, "← Previous"), el("button", { type: "button", onclick: () => step(1) }, "Next →"),
      el("button", { type: "button", class: "close", onclick: () => dialog.close() }, "Close")), large);

    function enlarge(k) {
      at = k;
      const example = shown[k];
      const titles = ["Image", "Reconstruction", "Difference"];
      large.replaceChildren(caption(example), isTable
        ? el("div", { class: "scroll" }, rows.table(summary, example.row, summary.columns.length))
        : el("div", { class: "wide" }, three(example).map((each, n) => el("figure", {}, each, el("figcaption", {}, titles[n])))));
      if (!dialog.open) dialog.showModal();
    }

    // ---- the list ----

    async function fill() {
      const starts = Array.from({ length: Math.ceil(count / PAGE) }, (_, k) => k * PAGE).filter((start) => api.has(address(order, start)));
      const answers = await Promise.all(starts.map((start) => api.json(address(order, start))));
      if (!alive()) return;
      shown = answers.flatMap((answer) => answer.examples);
      grid.replaceChildren(...shown.map(card));
      const last = answers[answers.length - 1];
      listed = last.progress.done;
      more.hidden = count >= MAX_COUNT || count >= last.count || !api.has(address(order, count));
      tell(last.progress);
    }

    const again = parts.newest(() => fill().then(untwine.settle), alive);

    function ask(which, many) {
      [order, count] = [which, many];
      keep({ order: order === orders[0] ? "" : order, count: count === PAGE ? "" : count });
      again();
    }

    /** Say how many examples are measured, and look again while there are more to come. */
    function tell({ done, target, total, running, seconds, problem }) {
      if (api.copy) return progress.replaceChildren(`This export has ${parts.plural(shown.length, isTable ? "row" : "image")} in each order.`);
      const number = (value) => value.toLocaleString("en");
      const measured = done < total ? `${number(done)} of ${number(total)} examples` : `All ${parts.plural(total, "example")}`;
      const left = running && seconds !== null ? `; about ${parts.duration(Math.max(1, seconds))} left` : "";
      const aim = `${number(done)} of ${number(target)} examples${target < total ? ` (the data has ${number(total)})` : ""}`;
      const all = el("button", { type: "button", onclick: () => api.send(api.of(run, "measured"), {}).then(poll, untwine.problem) }, `Measure all ${number(total)}`);
      progress.classList.toggle("busy", running);
      progress.replaceChildren(problem ? `Measuring stopped: ${problem}.` : running ? `Measured ${aim}${left}. The list is of those measured so far.` : `${measured} ${done === 1 ? "is" : "are"} measured. `,
        ...(!running && done < total && !problem ? [" ", all] : []));
      if (running) setTimeout(poll, POLL);
    }

    async function poll() {
      if (!alive()) return;
      const now = await api.fresh(api.of(run, "measured")).catch(() => null);
      if (!now || !alive()) return;
      if (now.running && now.done < 1.5 * listed) return tell(now);
      api.forget(api.of(run, "reconstructions"));
      again();
    }

    const what = isTable ? "Rows, their reconstructions and the columns with the largest errors." : `Images, their reconstructions and their differences. ${parts.click} to enlarge.`;
    root.append(parts.section("Reconstructions", `${what} Log-likelihood and KL are in nats; the error is the mean squared one.`,
      el("div", { class: "controls" }, parts.select("Order", orders.map((key) => [key, NAMES[key]]), order, (key) => ask(key, PAGE)), progress), grid, el("p", { class: "buttons" }, more), dialog));
    await fill();
  },
};
