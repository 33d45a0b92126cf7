"use strict";
// Compare: two runs whose sliders move together.

untwine.views.compare = {
  title: "Compare",

  async show(root, { run, summary, state, keep, alive }) {
    const { el, starts } = parts;
    const others = untwine.runs().filter((line) => line.name !== run);
    if (!others.length) {
      root.append(api.copy ? parts.empty("This export has one run, and Compare needs two.") : parts.empty("Compare needs a second finished run. Train one, for example with another seed; it appears here by itself.", againWith(summary)));
      return;
    }
    const mine = untwine.runs().find((line) => line.name === run);
    const other = others.some((line) => line.name === state.get("with")) ? state.get("with") : partner().name;
    const choose = parts.select("with", others.map((line) => [line.name, untwine.menuLabel(line)]), other,
      (name) => { location.hash = untwine.link("compare", run, { with: name, by: state.get("by") }); });

    /** The run that fits best: the same data, or else images of the same shape, or images; the newest of these. */
    function partner() {
      const sameShape = (line) => String(line.shape) === String(summary.shape);
      const fits = [(line) => line.data === mine.data && (sameShape(line) || !line.shape.length), sameShape, (line) => line.shape.length === summary.shape.length];
      return fits.map((fit) => others.find(fit)).find(Boolean) || others[0];
    }

    /** The command of a run with the next seed. */
    function againWith({ command }) {
      const next = command.replace(/--seed (\d+)/, (_, seed) => `--seed ${+seed + 1}`);
      return next === command ? `${command} --seed 1` : next;
    }

    const sides = await Promise.all([run, other].map(side));
    const [left, right] = sides;
    const factors = left.summary.factors.map((factor) => factor.name).filter((name) => best(left, name) && best(right, name));
    let by = state.get("by") === "rank" || !factors.length ? "rank" : "factor";
    let start = "";
    const flipped = new Set(); // latents of the second model that are flipped

    async function side(name) {
      const runSummary = name === run ? summary : await api.json(api.of(name));
      const decoded = parts.screen(`Decoded by ${runSummary.title}`, runSummary);
      const read = el("figure", { class: "origin" });
      return { name, summary: runSummary, decoded, read, examples: await starts.examples(name), hand: parts.hand(name, runSummary, decoded, alive), reels: new Map() };
    }

    /** The active latent that knows most of a factor. */
    function best({ summary: runSummary }, factor) {
      return runSummary.latents.filter((latent) => latent.active && latent.factor === factor && latent.share > parts.MIN_SHARE).sort((a, b) => b.share - a.share)[0];
    }

    // ---- pairs of latents ----

    function pairs() {
      if (by === "factor") return factors.map((factor) => [parts.plain(factor), best(left, factor), best(right, factor)]);
      const [a, b] = sides.map((each) => each.summary.latents.filter((latent) => latent.active));
      const count = Math.max(Math.min(a.length, b.length), 1);
      return Array.from({ length: count }, (_, k) => [`No. ${k + 1}`, a[k] || left.summary.latents[k], b[k] || right.summary.latents[k]]);
    }

    const list = el("div", { class: "card sliders" });
    let linked = []; // rows, each with a function that moves its slider

    function fill() {
      sides.forEach((each) => each.reels.clear());
      flipped.clear();
      linked = pairs().map(([title, ...latents]) => row(title, latents));
      list.replaceChildren(...linked.map((each) => each.element));
      reflect();
    }

    function row(title, latents) {
      const strips = sides.map((each, k) => {
        const strip = parts.strip(each.summary, { role: "img", "aria-label": `${each.summary.title}: ${parts.name(latents[k])} from low to high` });
        each.reels.set(latents[k].number, strip);
        return el("div", { class: "reel" }, el("div", { class: "note" }, el("b", {}, "AB"[k]), ` ${parts.name(latents[k])} · `, parts.latentLabel(latents[k]),
          k ? flip(latents, () => +input.value) : null), strip);
      });
      const { input, show } = parts.slider(`${title}, both models`, 0, 1, (place) => move(latents, place));
      const element = el("div", { class: "latent linked" }, el("b", {}, title), ...strips, el("div", { class: "reel" }, input));
      return { element, show, latents };
    }

    /** Flip a latent of the second model, because its direction is arbitrary. */
    function flip(latents, place) {
      const button = el("button", { type: "button", class: "quiet", title: "Flip B", "aria-label": `Flip ${parts.name(latents[1])} of B`, "aria-pressed": "false",
        onclick: () => {
          const { number } = latents[1];
          if (!flipped.delete(number)) flipped.add(number);
          button.setAttribute("aria-pressed", String(flipped.has(number)));
          if (!api.copy) right.hand.set(number, value(right, latents[1], place()));
          redraw();
        } }, "⇄");
      return button;
    }

    const value = (each, latent, place) =>
      latent.low + (each === right && flipped.has(latent.number) ? 1 - place : place) * (latent.high - latent.low);

    function move(latents, place) {
      sides.forEach((each, k) => each.hand.set(latents[k].number, value(each, latents[k], place)));
      if (api.copy) reflect(latents);
      redrawSoon();
    }

    /** Move the sliders to the code of the first model. */
    function reflect(except) {
      for (const { show, latents } of linked) {
        if (latents !== except) show((left.hand.code[latents[0].number] - latents[0].low) / (latents[0].high - latents[0].low));
      }
    }

    const redraw = parts.newest(async () => {
      await Promise.all(sides.map(async (each) => {
        const numbers = [...each.reels.keys()];
        const draw = await parts.traversals(each.name, each.summary, api.copy ? each.hand.origin : each.hand.code, numbers);
        if (alive()) for (const number of numbers) if (each.reels.has(number)) draw(each.reels.get(number), number, each === right && flipped.has(number));
      }));
    }, alive);
    const redrawSoon = parts.later(() => api.copy || redraw());

    // ---- where to start ----

    const isSame = left.summary.data === right.summary.data && String(left.summary.shape) === String(right.summary.shape);
    const common = left.examples.slice(0, right.examples.length).map((example, k) => [example, right.examples[k]])
      .filter(([a, b]) => !isSame || a.index === b.index);
    const draws = starts.draws(left.name).filter((seed) => starts.draws(right.name).includes(seed));
    const picker = parts.picker("Examples to start from", [
      ...starts.entries(left.name, left.summary, common.map(([a]) => a)),
      ...(api.copy ? draws.map((seed) => ({ key: `prior-${seed}`, text: `Prior ${seed + 1}`, title: `Draw ${seed + 1} from the prior` })) : [])], (key) => choosing(key));
    let drawn = 0; // from the prior, so far
    const prior = api.copy ? null : el("div", { class: "buttons" }, el("button", { type: "button", onclick: () => choosing(`prior-${drawn}`) }, "the prior"));
    const choosing = (key) => begin(key).then(remember, untwine.problem);

    async function begin(key) {
      const place = common.findIndex(([a]) => key === `example-${a.index}`);
      const keys = place < 0 ? [key, key] : common[place].map((example) => `example-${example.index}`);
      const answers = await Promise.all(sides.map((each, k) => api.json(starts.address(each.name, keys[k]))));
      if (!alive()) return;
      start = key;
      picker.mark(key);
      if (key.startsWith("prior")) drawn = +key.split("-")[1] + 1;
      sides.forEach((each, k) => each.read.replaceChildren(...(answers[k].picture
        ? [parts.image(answers[k].picture, "The encoded image"), el("figcaption", {}, "Encoded from ", starts.label(keys[k], answers[k].name))]
        : [el("figcaption", {}, starts.label(keys[k], answers[k].name))])));
      const painted = sides.map((each, k) => each.hand.begin(answers[k]));
      reflect();
      redraw(); // without waiting for the films
      await Promise.all(painted);
    }

    const remember = () => keep({ with: other, start, by });

    const link = factors.length ? parts.select("Link latents by", [["factor", "the factor they know most of"], ["rank", "how informative they are"]], by,
      (key) => { by = key; remember(); fill(); redraw(); }) : null;

    const lines = sides.map((each) => untwine.runs().find((line) => line.name === each.name));
    const captions = lines.map((line) => (lines[0].data === lines[1].data ? line.label : `${line.label} · ${line.data}`));

    root.append(
      el("div", { class: "controls" }, choose, link),
      el("div", { class: "stage" },
        el("div", { class: "card versus" }, sides.map((each, k) => el("div", {},
          el("figure", { class: "decoded" }, each.decoded.element, el("figcaption", {}, el("b", {}, "AB"[k]), ` ${captions[k]}`)), each.read))),
        el("div", { class: "from" }, el("h2", {}, "Start from"), prior, picker.element,
          isSame ? "" : el("p", { class: "note" }, "The two runs use different data, so each starts from its own example."))),
      parts.section("Move both", `Each slider moves one latent of each model over its own range${api.copy ? `, one pair at a time, in ${parts.COPY_FRAMES} steps` : ""}. Each model starts from its own code of the example.`, list));
    fill();
    const asked = state.get("start");
    const first = common.length ? `example-${common[0][0].index}` : "prior-0";
    const isPrior = api.copy ? draws.some((seed) => asked === `prior-${seed}`) : /^prior-\d{1,9}$/.test(asked || "");
    await begin(isPrior || common.some(([a]) => asked === `example-${a.index}`) ? asked : first);
  },
};
