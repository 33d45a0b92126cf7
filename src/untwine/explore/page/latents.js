"use strict";
// Latents: a slider for each, the decoded image changing under the hand.

untwine.views.latents = {
  title: "Latents",
  pictured: true,

  async show(root, { run, facts, state, keep, alive }) {
    const { el, starts } = parts;
    const byNumber = new Map(facts.latents.map((latent) => [latent.number, latent]));
    const examples = await starts.examples(run);
    const decoded = parts.canvas("The decoded image");
    const hand = parts.hand(run, facts, decoded, alive);
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
      const shown = [...rows].filter(([, row]) => row.isOpen()).map(([number]) => number);
      if (!shown.length || !hand.code.length) return;
      const draw = await parts.traversals(run, facts, api.copy ? hand.origin : hand.code, shown);
      if (alive()) for (const number of shown) draw(rows.get(number).reel.strip, number);
    }, alive);
    const redrawSoon = parts.later(redraw);

    function reflect() {
      for (const [number, row] of rows) row.show(hand.code[number], hand.origin[number]);
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

    async function begin(key, found) {
      const answer = found || await api.json(starts.address(run, key));
      if (!alive()) return;
      start = key;
      picker.mark(key);
      if (key.startsWith("prior")) draws = Math.max(draws, +key.split("-")[1] + 1);
      origin.replaceChildren(...(answer.picture
        ? [parts.image(answer.picture, "The image it was read from"), el("figcaption", {}, "Read from ", starts.named(key))]
        : [el("figcaption", {}, starts.named(key))]));
      note.textContent = answer.note;
      const drawn = hand.begin(answer);
      reflect();
      redraw(); // the films may come later
      await drawn;
    }

    const choose = (key, found) => begin(key, found).then(remember, untwine.problem);

    // ---- where to start ----

    const origin = el("figure", { class: "origin" });
    const note = el("p", { class: "note", role: "status" });
    const undo = el("button", { type: "button", onclick: reset, disabled: true }, "Put all back");
    const drawn = starts.kept(run).map((seed) => ({ key: `prior-${seed}`, text: `Draw ${seed + 1}` }));
    const picker = parts.picker("Examples to start from",
      [...starts.entries(run, facts, examples), ...(api.copy ? drawn : [])], (key) => choose(key));

    async function upload(file) {
      if (!file) return;
      try {
        await choose("upload", await api.send(api.of(run, "start"), file));
      } catch (error) {
        untwine.problem(error);
      }
    }

    const file = el("input", { type: "file", accept: "image/*", class: "unseen", onchange: () => upload(file.files[0]).then(() => { file.value = ""; }) });
    const others = api.copy ? null : el("div", { class: "buttons" },
      el("button", { type: "button", onclick: () => choose(`prior-${draws}`) }, "the prior"),
      facts.shape.length === 3 ? el("label", { class: "button" }, file, "your picture") : null);

    // ---- the sliders ----

    function row(latent) {
      const label = `Latent ${parts.name(latent)}, ${parts.about(latent)}`;
      const reel = parts.reel(label, latent, facts.tile, (value) => move(latent.number, value));
      const value = el("input", { type: "number", step: "any", class: "value", "aria-label": `Value of ${parts.name(latent)}`, readonly: api.copy,
        onchange: () => value.value !== "" && Math.abs(+value.value) <= 100 ? move(latent.number, +value.value) : reflect() });
      const back = el("button", { type: "button", class: "quiet", "aria-label": `Put ${parts.name(latent)} back`, title: "Put back",
        onclick: () => move(latent.number, hand.origin[latent.number]) }, "↺");
      const bar = el("i", {});
      bar.style.width = `${Math.min(100, 100 * latent.nats / most)}%`;
      const element = el("div", { class: "latent", id: `latent-${latent.number}` },
        el("div", { class: "told" }, el("b", {}, parts.name(latent)), el("span", { class: "meter", "aria-hidden": "true" }, bar),
          el("span", { class: "soft words" }, parts.about(latent)), value, back),
        reel.element);
      rows.set(latent.number, {
        element, reel,
        isOpen: () => latent.active || folded.open,
        show(now, first) {
          reel.show(now);
          value.value = api.number(now);
          back.disabled = now === first;
        },
      });
      return element;
    }

    const most = Math.max(...facts.latents.map((latent) => latent.nats), 1e-9);
    const [used, idle] = [true, false].map((active) => facts.latents.filter((latent) => latent.active === active));
    const folded = el("details", { open: !used.length, ontoggle: () => folded.open && redraw() });
    folded.append(el("summary", {}, `${parts.plural(idle.length, "latent")} that ${idle.length === 1 ? "says" : "say"} next to nothing`), ...idle.map(row));
    const sliders = el("div", { class: "card sliders" },
      used.length ? used.map(row) : el("p", {}, "No latent of this model is in use: every code gives much the same image."),
      idle.length ? folded : null);

    root.append(
      el("div", { class: "stage" },
        el("div", { class: "card now" }, el("figure", { class: "decoded" }, decoded, el("figcaption", {}, "What the code decodes to")), origin),
        el("div", { class: "from" }, el("h2", {}, "Start from"), others, note, picker.element)),
      el("section", {},
        el("div", { class: "headed" }, el("h2", {}, "Move the latents"), undo),
        el("p", { class: "soft" }, "The one that says most first. ", api.copy
          ? "This copy moves one latent at a time, in 21 steps, from where it starts."
          : "Each film shows what its latent does to the image; drag the slider, click a frame, or use the arrow keys."), sliders));

    // ---- as the address says ----

    await recall();

    async function recall() {
      const code = (state.get("code") || "").split(",").map(Number);
      const asked = state.get("start");
      if (!api.copy && code.length === facts.latents.length && code.every(Number.isFinite)) {
        await begin("upload", { code, picture: "", note: "" });
      } else {
        const first = examples.length ? `example-${examples[0].index}` : "prior-0";
        await begin(starts.isKey(asked) && api.has(starts.address(run, asked)) ? asked : first);
      }
      for (const pair of (state.get("move") || "").split(",").filter(Boolean)) {
        const [number, value] = pair.split(":").map(Number);
        if (byNumber.has(number) && Math.abs(value) <= 100) move(number, value);
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
