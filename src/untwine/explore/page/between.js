"use strict";
// Between: from one image to another, shared latents, and clusters.

untwine.views.between = {
  title: "Between",

  async show(root, context) {
    const { summary } = context;
    const { el } = parts;
    const pieces = [untwine.between.path(context)];
    if (summary.shared && !rows.is(summary)) pieces.push(untwine.between.groups(context));
    if (summary.clusters) pieces.push(untwine.between.clusters(context));
    root.append(...(await Promise.all(pieces)).filter(Boolean));
    if (!summary.shared && !summary.clusters) {
      root.append(el("p", { class: "note" }, "Models with clusters (such as gm-vae) or with shared latents (ml-vae, ug-vae) show them here, too."));
    }
  },
};

untwine.between = {
  STEPS: CONSTANTS.pathSteps,

  /** Two examples and the path between their codes. */
  async path({ run, summary, state, keep, alive }) {
    const { el, starts } = parts;
    const { STEPS } = untwine.between;
    const isTable = rows.is(summary);
    const thing = isTable ? "row" : "image";
    const address = (start, end) => api.of(run, isTable ? "between.json" : "between.png", { start, end, steps: STEPS });
    const all = await api.json(api.of(run, "examples", { count: CONSTANTS.examples, seed: 0 }));
    const examples = api.copy
      ? all.filter((one) => all.some((other) => api.has(address(one.index, other.index)) || api.has(address(other.index, one.index)))) : all;
    if (examples.length < 2) return parts.missing(summary);
    const indices = examples.map((example) => example.index);
    const named = new Map(examples.map((example) => [example.index, parts.exampleName(example)]));
    const indexFrom = (key, otherwise) => (/^\d+$/.test(state.get(key) || "") && (!api.copy || indices.includes(+state.get(key))) ? +state.get(key) : otherwise);
    let from = indexFrom("from", indices[0]);
    let to = indexFrom("to", indices[1]);
    let at = Math.floor(STEPS / 2);

    const large = parts.screen(`The ${thing} at this point of the path`, summary);
    const strip = el("div", { class: isTable ? "way lines" : "way" });
    const slider = el("input", { type: "range", min: 0, max: STEPS - 1, step: 1, value: at, "aria-label": "Position on the path",
      oninput: () => point(+slider.value) });
    const ends = [el("figure", {}), el("figure", {})];
    let frames = []; // canvases of the path
    let path = null; // a picture, or rows of numbers
    let turned = false;

    const step = (k) => (turned ? STEPS - 1 - k : k);

    function point(place) {
      at = place;
      slider.value = at;
      slider.setAttribute("aria-valuetext", `${Math.round(100 * at / (STEPS - 1))} % of the path`);
      frames.forEach((frame, k) => frame.classList.toggle("chosen", k === at));
      if (isTable) large.values(path[step(at)]);
      else large.picture(path, { column: step(at), columns: STEPS });
    }

    const draw = parts.newest(async (start, end) => {
      turned = !api.has(address(start, end)); // a copy includes each path in one direction only
      const where = turned ? address(end, start) : address(start, end);
      const loaded = await (isTable ? api.json(where) : api.picture(where));
      if (!alive()) return;
      path = loaded;
      if (isTable) rows.lines(strip, summary, path, turned);
      else strip.replaceChildren(...pictures());
      point(at);
      untwine.settle();
    }, alive);

    function pictures() {
      frames = Array.from({ length: STEPS }, (_, k) => {
        const frame = el("canvas", { class: "pixels", "aria-hidden": "true", onclick: () => point(k) });
        parts.tile(frame, path, { column: step(k), columns: STEPS });
        return frame;
      });
      return frames;
    }

    async function choose(which, key) {
      const index = +key.split("-")[1];
      const before = [from, to];
      [from, to] = which === 0 ? [index, index === to ? before[0] : to] : [index === from ? before[1] : from, index];
      keep({ from, to });
      await mark();
    }

    function mark() {
      pickers[0].mark(`example-${from}`);
      pickers[1].mark(`example-${to}`);
      [from, to].forEach((index, k) => {
        const name = named.get(index) || `Example ${index}`;
        const shown = isTable ? el("p", {}, name) : parts.image(api.of(run, "image.png", { index }), k ? "The last image" : "The first image", { title: name });
        ends[k].replaceChildren(shown, el("figcaption", {}, k ? "To" : "From", isTable ? "" : el("span", { class: "soft" }, ` ${name}`)));
      });
      return draw(from, to);
    }

    const entries = starts.entries(run, summary, examples);
    const pickers = ["From", "To"].map((label, which) => parts.picker(label, entries, (key) => choose(which, key)));
    await mark();
    return parts.section(`From one ${thing} to another`, `Codes on the straight line between the codes of two ${thing}s, decoded. The ends are the reconstructions of the two ${thing}s.${summary.labels.length ? " The label changes in the middle." : ""}${isTable ? " Lines show the columns that change most, each over the range of its data." : ""}`,
      el("div", { class: `card along${isTable ? " table-path" : ""}` },
        el("div", { class: "end" }, ends[0], pickers[0].element), el("figure", { class: "large" }, large.element, isTable ? null : slider),
        el("div", { class: "end" }, ends[1], pickers[1].element), isTable ? el("div", { class: "reel path" }, strip, slider) : strip));
  },

  /** Shared latents change down, an image's own latents across. */
  async groups({ run, summary, alive }) {
    const { el } = parts;
    const [rows, columns] = [CONSTANTS.groupRows, CONSTANTS.groupColumns];
    const clusters = Array.from({ length: Math.max(1, summary.clusters) }, (_, k) => k);
    const address = (cluster, seed) => api.of(run, "groups.png", { cluster, seed, rows, columns });
    const available = clusters.filter((cluster) => api.has(address(cluster, 0)));
    if (!available.length) return null;
    let cluster = available[0];
    let seed = 0;
    const picture = parts.canvas("A grid of images: shared latents change down, an image's own latents across", { class: "pixels grid" });
    const draw = parts.newest(async () => {
      const sheet = await api.picture(address(cluster, seed));
      if (!alive()) return;
      untwine.between.spaced(picture, sheet, rows, columns);
      untwine.settle();
    }, alive);
    const again = () => {
      seed = api.has(address(cluster, seed + 1)) ? seed + 1 : 0;
      draw();
    };
    await draw();
    const choice = available.length > 1
      ? parts.select("Cluster", available.map((k) => [k, `Cluster ${k}`]), cluster, (key) => { [cluster, seed] = [+key, 0]; draw(); }) : null;
    return parts.section("Shared latents", `Each row is one group, for which ${parts.plural(summary.shared, "latent")} ${summary.shared === 1 ? "is" : "are"} drawn once. Each column draws an image's own latents.`,
      el("div", { class: "controls" }, choice, el("button", { type: "button", onclick: again }, "Resample")),
      el("div", { class: "card axes" }, el("span", { class: "across soft" }, "own latents →"), el("span", { class: "down soft" }, "shared latents →"), picture));
  },

  /** Draw a sheet with gaps between its images; `room` is the width in columns. */
  spaced(onto, sheet, rows, columns, room = columns) {
    const width = sheet.naturalWidth / columns;
    const height = sheet.naturalHeight / rows;
    const gap = Math.max(1, Math.round(width / 16));
    onto.width = room * (width + gap) - gap;
    onto.height = rows * (height + gap) - gap;
    const pen = onto.getContext("2d");
    for (let r = 0; r < rows; r += 1) {
      for (let c = 0; c < columns; c += 1) {
        pen.drawImage(sheet, c * width, r * height, width, height, c * (width + gap), r * (height + gap), width, height);
      }
    }
  },

  /** Every cluster with images drawn from the prior, and examples assigned to it. */
  async clusters({ run, summary, alive }) {
    const { el } = parts;
    const count = CONSTANTS.clusterImages;
    const address = (number, seed) => api.of(run, "cluster.png", { number, seed, count });
    const all = await api.json(api.of(run, "clusters"));
    const full = all.filter((cluster) => cluster.share > 0).sort((a, b) => b.share - a.share);

    function card(cluster) {
      if (rows.is(summary)) return means(cluster);
      let seed = 0;
      const drawn = parts.canvas(`Images drawn from cluster ${cluster.number}`, { class: "pixels line" });
      const draw = parts.newest(async () => {
        const sheet = await api.picture(address(cluster.number, seed)).catch((error) => error);
        const hasImages = sheet instanceof Image; // no draw from the prior may fall into a cluster
        if (alive() && hasImages) untwine.between.spaced(drawn, sheet, 1, Math.round(sheet.naturalWidth / summary.tile[1]), count);
        drawn.hidden = !hasImages;
        none.textContent = hasImages ? "" : sheet.message;
      });
      draw();
      const none = el("p", { class: "note" });
      const members = cluster.members.slice(0, count).filter((index) => api.has(api.of(run, "image.png", { index })));
      const again = api.copy ? null : el("button", { type: "button", class: "quiet", title: "Resample", "aria-label": `Resample cluster ${cluster.number}`,
        onclick: () => { seed += 1; draw(); } }, "↻");
      return el("article", { class: "card cluster" },
        el("h3", {}, `Cluster ${cluster.number} `, el("span", { class: "soft" }, `${parts.percent(cluster.share)} of the ${summary.missing ? "draws" : "examples"}`)),
        cluster.most.length ? el("p", { class: "soft" }, parts.plain(cluster.most.join(" · "))) : null,
        el("p", { class: "note" }, "Drawn from the prior ", again), drawn, none,
        members.length ? el("p", { class: "note" }, "Examples assigned to it") : null,
        el("div", { class: "members" }, members.map((index) => parts.image(api.of(run, "image.png", { index }), `Example ${index}`, { loading: "lazy" }))));
    }

    /** A cluster of a table: the columns in which its mean differs most from that of all. */
    function means(cluster) {
      const overall = summary.columns.map((_, c) => full.reduce((sum, each) => sum + each.share * each.means[c], 0));
      const order = summary.columns.map((column, c) => [Math.abs(cluster.means[c] - overall[c]) / (column.high - column.low || 1), c]).sort((a, b) => b[0] - a[0]);
      return el("article", { class: "card cluster" },
        el("h3", {}, `Cluster ${cluster.number} `, el("span", { class: "soft" }, `${parts.percent(cluster.share)} of the examples`)),
        cluster.most.length ? el("p", { class: "soft" }, parts.plain(cluster.most.join(" · "))) : null,
        el("table", { class: "plain row" }, el("thead", {}, el("tr", {}, ["column", "mean", "of all"].map((word, k) => el("th", { scope: "col", class: k ? "number" : "" }, word)))),
          el("tbody", {}, order.slice(0, 6).map(([, c]) => el("tr", {}, el("th", { scope: "row" }, summary.columns[c].name),
            el("td", { class: "number" }, rows.format(cluster.means[c], summary.columns[c])), el("td", { class: "number" }, rows.format(overall[c], summary.columns[c])))))));
    }

    const empty = all.length - full.length;
    return parts.section("Clusters", `${parts.plural(all.length, "cluster")}, largest first${empty ? `; ${empty} of them ${empty === 1 ? "is" : "are"} empty` : ""}.`,
      el("div", { class: "clusters" }, full.map(card)));
  },
};
