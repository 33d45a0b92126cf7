"use strict";
// Latents: one slider per latent, and the decoded image.

untwine.views.latents = {
  title: "Latents",

  async show(root, { run, summary, state, keep, alive }) {
    const { el, starts } = parts;
    const byNumber = new Map(summary.latents.map((latent) => [latent.number, latent]));
    const examples = await starts.examples(run);
    const thing = summary.tile.length ? "image" : "row";
    const decoded = parts.screen(`The decoded ${thing}`, summary);
    const hand = parts.hand(run, summary, decoded, alive);
    const rows = new Map();
    let start = "";
    let draws = 0; // from the prior, so far

    // ---- the code ----

    function remember() {
      const move = hand.moved().map((number) => `${number}:${api.number(hand.code[number])}`).join(",");
      if (start === "upload") keep({ code: hand.code.map(api.number).join(",") });
      else keep({ start, move });
    }

    const redraw = parts.newest(async () => {
      const numbers = [...rows].filter(([, row]) => row.isOpen()).map(([number]) => number);
      if (!numbers.length || !hand.code.length) return;
      const draw = await parts.traversals(run, summary, api.copy ? hand.origin : hand.code, numbers);
      if (alive()) for (const number of numbers) draw(rows.get(number).reel.strip, number);
    }, alive);
    const redrawSoon = parts.later(redraw);

    function reflect() {
      for (const [number, row] of rows) row.show(hand.code[number], hand.origin[number]);
      labels.forEach(({ menu, number }) => { menu.querySelector("select").value = hand.code[number]; });
      undo.disabled = !hand.moved().length;
    }

    function move(number, value) {
      hand.set(number, value);
      reflect();
      remember();
      if (!api.copy) redrawSoon();
    }

    function reset() {
      hand.reset();
      reflect();
      remember();
      if (!api.copy) redrawSoon();
    }

    async function begin(key, knownStart) {
      const answer = knownStart || await api.json(starts.address(run, key));
      if (!alive()) return;
      start = key;
      picker.mark(key);
      if (key.startsWith("prior")) draws = Math.max(draws, +key.split("-")[1] + 1);
      origin.replaceChildren(...(answer.picture
        ? [parts.image(answer.picture, "The encoded image"), el("figcaption", {}, "Encoded from ", starts.label(key, answer.name))]
        : [el("figcaption", {}, answer.row ? `Encoded from ${starts.label(key, answer.name)}, whose values are the marks` : starts.label(key))]));
      note.textContent = answer.note;
      const drawn = hand.begin(answer);
      reflect();
      redraw(); // without waiting for the films
      await drawn;
    }

    const choose = (key, answer) => begin(key, answer).then(remember, untwine.problem);

    // ---- where to start ----

    const origin = el("figure", { class: "origin" });
    const note = el("p", { class: "note", role: "status" });
    const undo = el("button", { type: "button", onclick: reset, disabled: true }, "Reset all");
    const drawn = starts.draws(run).map((seed) => ({ key: `prior-${seed}`, text: `Prior ${seed + 1}`, title: `Draw ${seed + 1} from the prior` }));
    const picker = parts.picker("Examples to start from",
      [...starts.entries(run, summary, examples), ...(api.copy ? drawn : [])], (key) => choose(key));

    async function upload(file) {
      if (!file) return;
      try {
        const levels = labels.map(({ number }) => hand.code[number]);
        await choose("upload", await api.send(api.of(run, "start", levels.length ? { labels: levels } : {}), file));
      } catch (error) {
        untwine.problem(error);
      }
    }

    const file = el("input", { type: "file", accept: "image/*", class: "unseen", onchange: () => upload(file.files[0]).then(() => { file.value = ""; }) });
    const others = api.copy ? null : el("div", { class: "buttons" },
      el("button", { type: "button", onclick: () => choose(`prior-${draws}`) }, "the prior"),
      summary.shape.length === 3 ? el("label", { class: "button" }, file, "your picture") : null);

    // ---- the labels of a conditional model, whose levels end the code ----

    const labels = (api.copy ? [] : summary.labels).map(({ name, levels }, k) => {
      const number = summary.latents.length + k;
      const options = levels.map((level, value) => [String(value), level]);
      return { number, menu: parts.select(parts.plain(name), options, "0", (value) => move(number, +value)) };
    });

    // ---- the sliders ----

    /** Take a typed value, with a comma or a typographic minus too; leave the latent if it is no number. */
    function typed(number, text) {
      const value = Number(text.trim().replace("−", "-").replace(",", ".") || NaN);
      if (Math.abs(value) <= CONSTANTS.maxCodeValue) move(number, value);
      else reflect();
    }

    function row(latent) {
      const label = `Latent ${parts.name(latent)}, ${parts.about(latent)}`;
      const reel = parts.reel(label, latent, summary, (value) => move(latent.number, value));
      const value = el("input", { type: "text", inputmode: "decimal", class: "value", "aria-label": `Value of ${parts.name(latent)}`, readonly: api.copy, autocomplete: "off",
        onfocus: () => value.select(), onchange: () => typed(latent.number, value.value) });
      const back = el("button", { type: "button", class: "quiet", "aria-label": `Reset ${parts.name(latent)}`, title: "Reset",
        onclick: () => move(latent.number, hand.origin[latent.number]) }, "↺");
      const bar = el("i", {});
      bar.style.width = `${Math.min(100, 100 * latent.nats / maxNats)}%`;
      const element = el("div", { class: "latent", id: `latent-${latent.number}` },
        el("div", { class: "head" }, el("b", {}, parts.name(latent)), el("span", { class: "meter", "aria-hidden": "true" }, bar),
          parts.latentLabel(latent, { class: "soft words" }), back, value),
        reel.element);
      rows.set(latent.number, {
        element, reel,
        isOpen: () => latent.active || folded.open,
        show(now, first) {
          reel.show(now);
          value.value = parts.minus(now.toFixed(2));
          value.title = parts.minus(api.number(now));
          back.disabled = now === first;
        },
      });
      return element;
    }

    const moves = (what) => `Drag the slider${parts.isTouch ? ` or tap ${what}` : `, click ${what} or use the arrow keys`}.`;
    const maxNats = Math.max(...summary.latents.map((latent) => latent.nats), 1e-9);
    const [active, inactive] = [true, false].map((isActive) => summary.latents.filter((latent) => latent.active === isActive));
    const folded = el("details", { open: !active.length, ontoggle: () => folded.open && redraw() });
    folded.append(el("summary", { title: "They say less than 0.05 nats of an example, or change nothing that can be seen." }, parts.plural(inactive.length, "inactive latent")), ...inactive.map(row));
    const sliders = el("div", { class: "card sliders" },
      active.length ? active.map(row) : el("p", {}, `No latent of this model is active: all codes decode to nearly the same ${thing}.`),
      inactive.length ? folded : null);

    root.append(
      el("div", { class: "stage" },
        el("div", { class: "card now" }, el("figure", { class: "decoded" }, decoded.element, el("figcaption", {}, `Decoded ${thing}`), labels.map(({ menu }) => menu)), origin),
        el("div", { class: "from" }, el("h2", {}, "Start from"), others, note, picker.element, parts.missing(summary))),
      el("section", {},
        el("div", { class: "headed" }, el("h2", {}, "Move the latents"), undo),
        el("p", { class: "soft" }, "Most informative first. ", api.copy
          ? `This export moves one latent at a time, in ${parts.COPY_FRAMES} steps.`
          : summary.tile.length ? `Each film shows how its latent changes the image. ${moves("a frame")}`
            : `Lines show how each latent changes the columns, each over the range of its data. ${moves("the lines")}`), sliders));

    // ---- restore the state in the address ----

    await restore();

    async function restore() {
      const code = (state.get("code") || "").split(",").map(Number);
      const asked = state.get("start");
      if (!api.copy && code.length === summary.latents.length + labels.length && code.every(Number.isFinite)) {
        await begin("upload", { code, picture: "", note: "" });
      } else {
        const first = examples.length ? `example-${examples[0].index}` : "prior-0";
        await begin(starts.isKey(asked) && api.has(starts.address(run, asked)) ? asked : first);
      }
      for (const pair of (state.get("move") || "").split(",").filter(Boolean)) {
        const [number, value] = pair.split(":").map(Number);
        if ((byNumber.has(number) || labels.some((label) => label.number === number)) && Math.abs(value) <= CONSTANTS.maxCodeValue) move(number, value);
      }
      root.addEventListener("shown", () => point(Number(state.get("latent") ?? NaN)));
    }

    function point(number) {
      if (!rows.has(number)) return;
      if (!byNumber.get(number).active) folded.open = true;
      const { element, reel } = rows.get(number);
      element.classList.add("pointed");
      element.scrollIntoView({ block: "center" });
      reel.input.focus({ preventScroll: true });
    }
  },
};
