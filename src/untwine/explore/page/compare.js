"use strict";
// Compare: two runs whose sliders move together.

untwine.views.compare = {
  title: "Compare",
  pictured: true,

  async show(root, { run, facts, state, keep, alive }) {
    const { el, starts } = parts;
    const others = untwine.runs().filter((line) => line.name !== run);
    if (!others.length) {
      root.append(el("p", {}, "There is only this run here. Give several to untwine explore to compare two of them."));
      return;
    }
    const mine = untwine.runs().find((line) => line.name === run);
    const alike = others.filter((line) => mine && line.data === mine.data);
    const other = others.some((line) => line.name === state.get("with")) ? state.get("with") : (alike[0] || others[0]).name;
    const choose = parts.select("with", others.map((line) => [line.name, `${untwine.label(line)} · ${line.data}`]), other,
      (name) => { location.hash = untwine.link("compare", run, { with: name, by: state.get("by") }); });
    const sides = await Promise.all([run, other].map(side));
    const [left, right] = sides;
    if (!right.facts.tile.length) {
      root.append(el("div", { class: "controls" }, choose), el("p", {}, "The data of the other run is not images; choose another run."));
      return;
    }
    const factors = left.facts.factors.map((factor) => factor.name).filter((name) => best(left, name) && best(right, name));
    let by = state.get("by") === "rank" || !factors.length ? "rank" : "factor";
    let start = "";
    const turned = new Set(); // latents of the second model that are shown from high to low

    async function side(name) {
      const known = name === run ? facts : await api.json(api.of(name));
      const canvas = parts.canvas(`What ${known.title} decodes`);
      const read = el("figure", { class: "origin" });
      return { name, facts: known, canvas, read, examples: await starts.examples(name), hand: parts.hand(name, known, canvas, alive), reels: new Map() };
    }

    /** The active latent that knows most of a factor. */
    function best({ facts: known }, factor) {
      return known.latents.filter((latent) => latent.active && latent.factor === factor && latent.share > 0.1).sort((a, b) => b.share - a.share)[0];
    }

    // ---- pairs of latents ----

    function pairs() {
      if (by === "factor") return factors.map((factor) => [parts.plain(factor), best(left, factor), best(right, factor)]);
      const [a, b] = sides.map((each) => each.facts.latents.filter((latent) => latent.active));
      const count = Math.max(Math.min(a.length, b.length), 1);
      return Array.from({ length: count }, (_, k) => [`No. ${k + 1}`, a[k] || left.facts.latents[k], b[k] || right.facts.latents[k]]);
    }

    const list = el("div", { class: "card sliders" });
    let together = []; // by row how to show a place between low and high

    function fill() {
      sides.forEach((each) => each.reels.clear());
      turned.clear();
      together = pairs().map(([title, ...latents]) => row(title, latents));
      list.replaceChildren(...together.map((each) => each.element));
      reflect();
    }

    function row(title, latents) {
      const strips = sides.map((each, k) => {
        const strip = el("canvas", { class: "film", role: "img", "aria-label": `${each.facts.title}: ${parts.name(latents[k])} from low to high`,
          width: 11 * (each.facts.tile[1] + 2), height: each.facts.tile[0] });
        each.reels.set(latents[k].number, strip);
        return el("div", { class: "reel" }, el("div", { class: "note" }, el("b", {}, "AB"[k]), ` ${parts.name(latents[k])} · ${parts.about(latents[k])}`,
          k ? turn(latents, () => +input.value) : null), strip);
      });
      const { input, show } = parts.slider(`${title}, both models`, 0, 1, (place) => move(latents, place));
      const element = el("div", { class: "latent linked" }, el("b", {}, title), ...strips, el("div", { class: "reel" }, input));
      return { element, show, latents };
    }

    /** A latent may run the other way in the other model: which way is chance. */
    function turn(latents, place) {
      const button = el("button", { type: "button", class: "quiet", title: "Turn B round", "aria-label": `Turn ${parts.name(latents[1])} of B round`, "aria-pressed": "false",
        onclick: () => {
          const { number } = latents[1];
          if (!turned.delete(number)) turned.add(number);
          button.setAttribute("aria-pressed", String(turned.has(number)));
          if (!api.copy) right.hand.set(number, value(right, latents[1], place()));
          redraw();
        } }, "⇄");
      return button;
    }

    const value = (each, latent, place) =>
      latent.low + (each === right && turned.has(latent.number) ? 1 - place : place) * (latent.high - latent.low);

    function move(latents, place) {
      sides.forEach((each, k) => each.hand.set(latents[k].number, value(each, latents[k], place)));
      if (api.copy) reflect(latents);
      redrawSoon();
    }

    /** Put the sliders where the first model's code is. */
    function reflect(except) {
      for (const { show, latents } of together) {
        if (latents !== except) show((left.hand.code[latents[0].number] - latents[0].low) / (latents[0].high - latents[0].low));
      }
    }

    const redraw = parts.newest(async () => {
      await Promise.all(sides.map(async (each) => {
        const shown = [...each.reels.keys()];
        const draw = await parts.traversals(each.name, each.facts, api.copy ? each.hand.origin : each.hand.code, shown);
        if (alive()) for (const number of shown) if (each.reels.has(number)) draw(each.reels.get(number), number, each === right && turned.has(number));
      }));
    }, alive);
    const redrawSoon = parts.later(() => api.copy || redraw());

    // ---- where to start ----

    const isSame = left.facts.data === right.facts.data && String(left.facts.shape) === String(right.facts.shape);
    const common = left.examples.slice(0, right.examples.length).map((example, k) => [example, right.examples[k]])
      .filter(([a, b]) => !isSame || a.index === b.index);
    const draws = starts.kept(left.name).filter((seed) => starts.kept(right.name).includes(seed));
    const picker = parts.picker("Start from", [
      ...starts.entries(left.name, left.facts, common.map(([a]) => a)),
      ...draws.map((seed) => ({ key: `prior-${seed}`, text: `Draw ${seed + 1}` }))], (key) => begin(key).then(remember, untwine.problem));

    async function begin(key) {
      const place = common.findIndex(([a]) => key === `example-${a.index}`);
      const keys = place < 0 ? [key, key] : common[place].map((example) => `example-${example.index}`);
      const found = await Promise.all(sides.map((each, k) => api.json(starts.address(each.name, keys[k]))));
      if (!alive()) return;
      start = key;
      picker.mark(key);
      sides.forEach((each, k) => each.read.replaceChildren(...(found[k].picture
        ? [parts.image(found[k].picture, "The image it was read from"), el("figcaption", {}, "Read from ", starts.named(keys[k]))]
        : [el("figcaption", {}, starts.named(key))])));
      const painted = sides.map((each, k) => each.hand.begin(found[k]));
      reflect();
      redraw(); // the films may come later
      await Promise.all(painted);
    }

    const remember = () => keep({ with: other, start, by });

    const link = factors.length ? parts.select("Link latents by", [["factor", "the factor they know most of"], ["rank", "how much they say"]], by,
      (key) => { by = key; remember(); fill(); redraw(); }) : null;

    root.append(
      el("div", { class: "controls" }, choose, link),
      el("div", { class: "stage" },
        el("div", { class: "card versus" }, sides.map((each, k) => el("div", {},
          el("figure", { class: "decoded" }, each.canvas, el("figcaption", {}, el("b", {}, "AB"[k]), ` ${each.facts.title} on ${each.facts.data}`)), each.read))),
        el("div", { class: "from" }, el("h2", {}, "Start from"), picker.element,
          isSame ? "" : el("p", { class: "note" }, "The two runs have different data: each starts from an image of its own."))),
      parts.section("Move both", `One slider moves a latent of each model over its own range; each starts from its own code of the image${api.copy ? ", one pair at a time, in 21 steps" : ""}.`, list));
    fill();
    const asked = state.get("start");
    const first = common.length ? `example-${common[0][0].index}` : "prior-0";
    await begin(common.some(([a]) => asked === `example-${a.index}`) || draws.some((seed) => asked === `prior-${seed}`) ? asked : first);
  },
};
