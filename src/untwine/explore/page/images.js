"use strict";
// Images: examples and their reconstructions, side by side.

untwine.views.images = {
  title: "Images",
  pictured: true,
  examples: true,

  async show(root, { run, summary, state, keep, alive }) {
    const { el } = parts;
    const PAGE = CONSTANTS.examples;
    const MAX_COUNT = 4 * PAGE;
    const names = [["worst", "Largest errors first"], ["best", "Smallest errors first"], ["random", "Random"]];
    const address = (order, count) => api.of(run, "reconstructions", { count, order, seed: 0 });
    const orders = names.filter(([order]) => api.has(address(order, PAGE)));
    let order = orders.some(([key]) => key === state.get("order")) ? state.get("order") : orders[0][0];
    let count = Math.min(MAX_COUNT, Math.max(PAGE, Math.round(+state.get("count") / PAGE) * PAGE || PAGE));
    if (api.copy) count = PAGE;

    const grid = el("div", { class: "pairs" });
    const more = el("button", { type: "button", onclick: () => ask(order, count + PAGE) }, "Show more");

    function card(example) {
      const original = parts.image(api.of(run, "image.png", { index: example.index }), "the image", { loading: "lazy" });
      const made = parts.image(api.of(run, "reconstruction.png", { index: example.index }), "its reconstruction", { loading: "lazy" });
      const error = el("span", { class: "difference", role: "img", "aria-label": "their difference" },
        original.cloneNode(), made.cloneNode());
      const start = untwine.link("latents", run, { start: `example-${example.index}` });
      const canStart = api.has(parts.starts.address(run, `example-${example.index}`));
      const words = [`error ${Number(example.error.toPrecision(3))}`, parts.levels(example.levels, summary)].filter(Boolean).join(" · ");
      return el("figure", { class: "card pair" },
        el("div", { class: "three" }, original, made, error),
        el("figcaption", {}, canStart ? el("a", { href: start, title: "Open in Latents" }, `Example ${example.index}`) : `Example ${example.index}`,
          el("span", { class: "soft" }, ` ${words}`)));
    }

    async function fill() {
      const examples = await api.json(address(order, count));
      if (!alive()) return;
      grid.replaceChildren(...examples.map(card));
      more.hidden = api.copy || count >= MAX_COUNT || examples.length < count;
    }

    const again = parts.newest(() => fill().then(untwine.settle), alive);

    function ask(which, many) {
      [order, count] = [which, many];
      keep({ order, count: count === PAGE ? "" : count });
      again();
    }

    root.append(
      parts.section("Reconstructions", `From ${summary.examples.toLocaleString("en")} examples: the image, its reconstruction and their difference. Errors are squared and summed over pixels.`,
      el("div", { class: "controls" }, parts.select("Order", orders, order, (key) => ask(key, PAGE))), grid, el("p", { class: "buttons" }, more)));
    await fill();
  },
};
