"use strict";
// Images: what the model makes of examples, side by side.

untwine.views.images = {
  title: "Images",
  pictured: true,

  async show(root, { run, facts, state, keep, alive }) {
    const { el } = parts;
    const names = [["worst", "Biggest errors first"], ["best", "Smallest errors first"], ["random", "At random"]];
    const address = (order, count) => api.of(run, "reconstructions", { count, order, seed: 0 });
    const orders = names.filter(([order]) => api.has(address(order, 24)));
    let order = orders.some(([key]) => key === state.get("order")) ? state.get("order") : orders[0][0];
    let count = Math.min(96, Math.max(24, Math.round(+state.get("count") / 24) * 24 || 24));
    if (api.copy) count = 24;

    const grid = el("div", { class: "pairs" });
    const more = el("button", { type: "button", onclick: () => ask(order, count + 24) }, "Show more");

    function card(found) {
      const original = parts.image(api.of(run, "image.png", { index: found.index }), "the image", { loading: "lazy" });
      const made = parts.image(api.of(run, "reconstruction.png", { index: found.index }), "its reconstruction", { loading: "lazy" });
      const error = el("span", { class: "difference", role: "img", "aria-label": "their difference" },
        original.cloneNode(), made.cloneNode());
      const start = untwine.link("latents", run, { start: `example-${found.index}` });
      const held = api.has(parts.starts.address(run, `example-${found.index}`));
      const words = [`error ${Number(found.error.toPrecision(3))}`, parts.levels(found.levels, facts)].filter(Boolean).join(" · ");
      return el("figure", { class: "card pair" },
        el("div", { class: "three" }, original, made, error),
        el("figcaption", {}, held ? el("a", { href: start, title: "Start from it in Latents" }, `Example ${found.index}`) : `Example ${found.index}`,
          el("span", { class: "soft" }, ` ${words}`)));
    }

    async function fill() {
      const found = await api.json(address(order, count));
      if (!alive()) return;
      grid.replaceChildren(...found.map(card));
      more.hidden = api.copy || count >= 96 || found.length < count;
    }

    const again = parts.newest(() => fill().then(untwine.settle), alive);

    function ask(which, many) {
      [order, count] = [which, many];
      keep({ order, count: count === 24 ? "" : count });
      again();
    }

    root.append(
      parts.section("Reconstructions", `Of ${facts.examples.toLocaleString("en")} examples: the image, what the model makes of it, and where the two differ. The error is squared and summed over pixels.`,
      el("div", { class: "controls" }, parts.select("Order", orders, order, (key) => ask(key, 24))), grid, el("p", { class: "buttons" }, more)));
    await fill();
  },
};
