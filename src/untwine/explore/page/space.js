"use strict";
// Space: the codes of examples in two dimensions.

untwine.views.space = {
  title: "Space",
  examples: true,

  async show(root, { run, summary, state, keep, alive }) {
    const { el } = parts;
    const COLUMNS = CONSTANTS.sheetColumns;
    const MAX_THUMBNAILS = 18; // of a selection
    const MAX_LINKS = 5; // to examples that a search found
    const POLL = 2500; // milliseconds between questions for colours that are still measured
    const isTable = rows.is(summary);
    const isTouch = matchMedia("(pointer: coarse)").matches;
    const numbers = summary.latents.map((latent) => latent.number);
    const DOTS = [1000, 5000, 20000].filter((count, k, all) => !k || all[k - 1] < summary.total);
    let dots = api.copy ? CONSTANTS.copyDots : DOTS.includes(+state.get("dots")) ? +state.get("dots") : Math.min(CONSTANTS.dots, DOTS[DOTS.length - 1]);
    const address = (by, x, y) => api.of(run, "space", { by, x, y, dots });
    const preset = { pca: [0, 1], tsne: [0, 1], latents: [numbers[0], numbers[1] ?? numbers[0]] };
    const ways = [["pca", "Main directions (PCA)"], ["tsne", "t-SNE"], ["latents", "Two latents"]]
      .filter(([by]) => api.has(address(by, ...preset[by])) && (by !== "latents" || numbers.length > 1));

    let by = ways.some(([key]) => key === state.get("by")) ? state.get("by") : ways[0][0];
    let axes = [state.get("x"), state.get("y")].map((text, k) =>
      (by === "latents" && !api.copy && numbers.includes(Number(text ?? NaN)) ? Number(text) : preset[by][k]));
    const clearest = summary.latents.reduce((best, latent) => (latent.share > best.share ? latent : best), { factor: "", share: 0 });
    let colour = state.get("colour") || (summary.clusters ? "cluster" : clearest.factor);
    let space = null; // the answer of the server
    let colouring = null;
    let sheet = null; // the images of dots
    let sheetCount = 0; // how many
    let hasImages = state.get("images") === "1" && !isTable;
    const chosen = new Set();

    // ---- the plot ----

    const plot = scatterPlot({ point, click, choose, moved: parts.later(remember) });
    plot.element.append(el("div", { class: "tools" },
      ["select", "move"].map((tool) => el("button", { type: "button", "data-tool": tool, "aria-pressed": String(tool === "select"), hidden: isTouch,
        title: tool === "select" ? "Drag to select dots" : "Drag to move the plot", onclick: () => use(tool) }, tool === "select" ? "Select" : "Move")),
      el("button", { type: "button", title: "Zoom in (+)", "aria-label": "Zoom in", onclick: () => plot.zoomBy(1.5) }, "+"),
      el("button", { type: "button", title: "Zoom out (−)", "aria-label": "Zoom out", onclick: () => plot.zoomBy(1 / 1.5) }, "−"),
      el("button", { type: "button", title: "Show all dots (0)", "aria-label": "Show all dots", onclick: () => plot.reset() }, "⤢")));

    function use(tool) {
      plot.use(tool);
      plot.element.querySelectorAll("[data-tool]").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.tool === tool)));
    }

    // ---- pointing ----

    const preview = isTable ? rows.list(summary, "The values of the dot") : parts.canvas("The image of the dot");
    const words = el("p", { class: "soft", "aria-live": "polite" });
    const nameOf = (k) => parts.exampleName({ index: space.index[k], name: space.names[k] });

    function point(k) {
      if (k < 0) return;
      describeDot(k);
      const levels = parts.levels(Object.fromEntries(space.colourings.map((each) => [each.name, each.levels[k]])), summary);
      const number = colouring && colouring.values && colouring.values[k] !== null ? `${colouring.label} ${parts.short(colouring.values[k])}` : "";
      const link = `example-${space.index[k]}`;
      words.replaceChildren(api.has(parts.starts.address(run, link)) ? el("a", { href: untwine.link("latents", run, { start: link }) }, nameOf(k)) : nameOf(k),
        ...[levels, number].filter(Boolean).map((text) => ` · ${text}`));
    }

    const describeDot = parts.newest(async (k) => {
      if (!isTable) return draw(preview, k);
      const where = api.of(run, "row.json", { index: space.index[k] });
      if (!api.has(where)) return preview.element.replaceChildren(el("p", { class: "note" }, "This export has no values of this row."));
      const row = await api.json(where);
      if (alive()) preview.fill(row.reconstruction, row.values);
    }, alive);

    const place = (k) => ({ row: Math.floor(k / COLUMNS), column: k % COLUMNS, rows: Math.ceil(sheetCount / COLUMNS), columns: COLUMNS });

    async function draw(onto, k) {
      if (!api.copy) return parts.tile(onto, await api.picture(api.of(run, "image.png", { index: space.index[k] })));
      if (sheet) parts.tile(onto, sheet, place(k));
    }

    /** Load the images of all dots, for images as dots and for copies. */
    const loadSheet = parts.newest(async () => {
      const count = space.index.length;
      if (isTable || !(api.copy || hasImages) || sheetCount >= count) return;
      const loaded = await api.picture(api.of(run, "sheet.png", { dots: count }));
      if (!alive()) return;
      [sheet, sheetCount] = [loaded, count];
      imagesAsDots();
      if (plot.current >= 0) point(plot.current);
    }, alive);

    function imagesAsDots() {
      plot.images(hasImages && sheetCount >= space.index.length ? (pen, k, x, y, size) => {
        const { row, column, rows: many } = place(k);
        const [width, height] = [sheet.naturalWidth / COLUMNS, sheet.naturalHeight / many];
        pen.imageSmoothingEnabled = false;
        pen.drawImage(sheet, column * width, row * height, width, height, x, y, size, size);
      } : null);
    }

    // ---- selecting ----

    const panel = el("div", { class: "selection" });

    function click(k, more) {
      if (k < 0) return choose([], false);
      if (more && chosen.has(k)) chosen.delete(k);
      else {
        if (!more) chosen.clear();
        chosen.add(k);
      }
      changed();
    }

    function choose(positions, more) {
      if (!more) chosen.clear();
      positions.forEach((k) => chosen.add(k));
      changed();
    }

    function changed() {
      plot.select(chosen);
      legend();
      remember();
      describe([...chosen]);
    }

    function help() {
      const hasLevels = key.querySelector("button") !== null; // colours to choose
      if (isTouch) return `Tap dots to see and select them. Pinch to zoom.${hasLevels ? " A colour below the plot selects its dots." : ""}`;
      const ways = `Drag over dots${hasLevels ? ", click them (Shift adds more) or choose a colour below the plot" : " or click them (Shift adds more)"}`;
      return `Point at a dot to see it. ${ways} to see what distinguishes them. The wheel zooms.`;
    }

    const describe = parts.newest(async (picked) => {
      if (!picked.length) {
        panel.replaceChildren(el("p", { class: "note" }, help()));
        return;
      }
      const head = el("h3", {}, `${parts.plural(picked.length, "dot")} selected `, el("span", { class: "buttons" },
        el("button", { type: "button", onclick: () => save(picked) }, "Save as CSV"), el("button", { type: "button", onclick: () => choose([], false) }, "Clear")));
      const answer = api.copy ? null : await api.send(api.of(run, "selection"), { indices: picked.map((k) => space.index[k]), dots });
      if (!alive()) return;
      panel.replaceChildren(head, ...(answer ? differences(answer) : [el("p", { class: "note" }, "What distinguishes them is computed by untwine explore.")]), isTable ? "" : thumbnails(picked));
      untwine.settle();
    }, alive);

    function thumbnails(picked) {
      const step = Math.max(1, picked.length / MAX_THUMBNAILS);
      const evenly = Array.from({ length: Math.min(MAX_THUMBNAILS, picked.length) }, (_, k) => picked[Math.floor(k * step)]);
      return el("div", { class: "members" }, evenly.map((k) => {
        const small = parts.canvas(nameOf(k), { title: nameOf(k) });
        draw(small, k);
        return small;
      }));
    }

    function differences(answer) {
      const away = (each) => `${Math.abs(each.deviations).toFixed(1)} standard deviations ${each.deviations < 0 ? "below" : "above"} the overall mean`;
      const factors = answer.factors.slice(0, 4).map((each) => el("li", {},
        el("b", {}, `${parts.plain(each.factor)} = ${each.level_name}`), `: ${parts.percent(each.share)} of them, ${parts.percent(each.overall)} of all`));
      const columns = answer.columns.slice(0, 6).map((each) => el("li", {}, el("b", {}, each.name), `: mean ${parts.short(each.mean)}, ${away(each)}`));
      const latents = answer.latents.slice(0, 4).map((each) => el("li", {}, el("a", { href: untwine.link("latents", run, { latent: each.number }) }, `z${each.number}`), `: ${away(each)}`));
      return [
        answer.picture ? el("figure", { class: "mean" }, parts.image(answer.picture, "Mean image of the selected dots"), el("figcaption", {}, "Their mean image")) : "",
        el("p", { class: "note" }, factors.length || columns.length || latents.length ? "What distinguishes them" : "Nothing distinguishes them from the others."),
        el("ul", {}, factors, columns, latents)].filter(Boolean);
    }

    /** The selected rows as a file. */
    function save(picked) {
      const named = space.names.length > 0;
      const head = ["row", ...(named ? ["example"] : []), ...space.colourings.map((each) => each.name), space.across, space.up];
      const lines = picked.map((k) => [space.index[k], ...(named ? [space.names[k]] : []), ...space.colourings.map((each) => levelName(each.name, each.levels[k])), space.x[k], space.y[k]]);
      parts.saveCsv(`${run}-selection.csv`, [head, ...lines]);
    }

    // ---- finding ----

    const answerTo = el("span", { class: "note", role: "status" });
    const box = el("input", { type: "search", placeholder: "file, row or level", "aria-label": "Find dots", oninput: () => findSoon(box.value.trim()) });
    const findSoon = parts.later((text) => alive() && find(text), 250);

    /** Select the dots whose name contains a text, that have this row, or a level of this name; look for names in all examples. */
    const find = parts.newest(async (text) => {
      answerTo.replaceChildren();
      if (!text) return choose([], false);
      const wanted = parts.plain(text.toLowerCase()).replace(/\s*=\s*/, " ");
      const levels = space.colourings.map((each) => {
        const known = new Map();
        return (k) => {
          const level = each.levels[k];
          if (!known.has(level)) {
            const name = levelName(each.name, level).toLowerCase();
            known.set(level, name === wanted && Number.isNaN(+name) || `${parts.plain(each.name.toLowerCase())} ${name}` === wanted);
          }
          return known.get(level);
        };
      });
      const hasName = space.index.map((_, k) => (space.names[k] || "").toLowerCase().includes(text.toLowerCase()));
      const matches = space.index.flatMap((index, k) => (String(index) === wanted || hasName[k] || levels.some((has) => has(k)) ? [k] : []));
      choose(matches, false);
      if (matches.length) plot.show(matches[0]);
      const isAll = space.index.length === space.total;
      const shown = isAll ? "" : ` of the ${parts.plural(space.index.length, "dot")} shown`;
      answerTo.append(matches.length ? (isAll ? "" : `Selected ${matches.length.toLocaleString("en")}${shown}.`) : isAll ? "No dot matches." : `None${shown} matches.`);
      if (!isAll) answerTo.append(...await amongAll(text, hasName.filter(Boolean).length));
    }, alive);

    /** Links to examples that are not dots: the one of this row, or those whose names contain a text. */
    async function amongAll(text, named) {
      const open = ({ index, name }) => el("a", { href: untwine.link("latents", run, { start: `example-${index}` }) }, parts.exampleName({ index, name }));
      const isRow = /^\d+$/.test(text) && +text < summary.total && !space.index.includes(+text) && api.has(parts.starts.address(run, `example-${text}`));
      if (isRow) return [" Open ", open({ index: +text })];
      if (!space.names.length || api.copy) return [];
      const all = await api.json(api.of(run, "find", { text, count: MAX_LINKS }));
      if (all.count <= named) return [];
      const links = all.examples.flatMap((example, k) => [k ? ", " : "", open(example)]);
      return [` In all data ${parts.plural(all.count, "example")}: `, ...links, all.count > all.examples.length ? " …" : ""];
    }

    // ---- colours ----

    const key = el("div", { class: "legend", role: "group", "aria-label": "Colours" });
    const MEASURES = [["log_likelihood", "log-likelihood"], ["kl", "KL"], ["error", "error"], ["distance", "distance"]];
    const levelName = (factor, level) => parts.levelName(factor, level, summary);
    const colourAddress = (name) => {
      const latent = /^z(\d+)$/.exec(name);
      return api.of(run, "colour", latent ? { by: "latent", number: +latent[1], dots } : { by: name, number: 0, dots });
    };

    /** The colourings to choose from: factors and clusters, what the model says, latents. */
    function colourChoices() {
      const factors = space.colourings.map((each) => [each.name, parts.plain(each.name)]);
      const measured = MEASURES.filter(([name]) => summary.measures.includes(name) && api.has(colourAddress(name)));
      const latents = summary.latents.map((latent) => [parts.name(latent), `${parts.name(latent)} (${parts.about(latent)})`]).filter(([name]) => api.has(colourAddress(name)));
      return [["Factors", factors], ["What the model says", measured], ["Latents", latents]].filter(([, options]) => options.length);
    }

    /** Load the colouring of this name; another one if there is none. */
    async function loadColour() {
      const options = colourChoices().flatMap(([, each]) => each);
      const [name, label] = options.find(([option]) => option === colour) || options[0] || ["", ""];
      colour = name;
      const levels = space.colourings.find((each) => each.name === name);
      if (levels) colouring = { ...levels, label, levelName: (level) => levelName(name, level) };
      else if (name) {
        const answer = await api.fresh(colourAddress(name));
        colouring = { label: label.replace(/ \(.*/, ""), values: answer.values.slice(0, space.index.length), running: answer.running };
        if (answer.running && !api.copy) setTimeout(() => alive() && colour === name && recolour(name), POLL);
      } else colouring = null;
    }

    const recolour = parts.newest(async (name) => {
      colour = name;
      await loadColour();
      if (!alive()) return;
      remember();
      plot.colour(colours.painter(colouring));
      legend();
      if (!chosen.size) describe([]); // the colours that can be chosen
    }, alive);

    function legend() {
      key.replaceChildren(...colours.legend(colouring, colouring ? colouring.label : "", {
        has: (members) => members.length > 0 && members.every((k) => chosen.has(k)),
        toggle(members, level) {
          const isChosen = members.every((k) => chosen.has(k));
          members.forEach((k) => (isChosen ? chosen.delete(k) : chosen.add(k)));
          changed();
          key.querySelector(`[data-level="${level}"]`).focus({ preventScroll: true });
        },
      }));
    }

    // ---- controls ----

    const controls = el("div", { class: "controls" });

    function remember() {
      if (!space) return;
      keep({ by, ...(by === "latents" && !api.copy ? { x: axes[0], y: axes[1] } : {}), colour, dots: api.copy || dots === CONSTANTS.dots ? "" : dots,
        images: hasImages ? 1 : "", view: plot.view ? plot.view.map(api.number).join(",") : "", ...packed() });
    }

    /** The selection for the address: a few examples by their numbers, many as bits of all dots. */
    function packed() {
      if (chosen.size <= 40) return { chosen: [...chosen].map((k) => space.index[k]).join(",") };
      const bytes = new Uint8Array(Math.ceil(space.index.length / 8));
      chosen.forEach((k) => { bytes[k >> 3] |= 1 << (k & 7); });
      return { bits: btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "") };
    }

    function unpack() {
      const named = (state.get("chosen") || "").split(",").filter(Boolean).map(Number);
      named.forEach((index) => { const k = space.index.indexOf(index); if (k >= 0) chosen.add(k); });
      try {
        const text = atob((state.get("bits") || "").replaceAll("-", "+").replaceAll("_", "/"));
        space.index.forEach((_, k) => { if (text.charCodeAt(k >> 3) & (1 << (k & 7))) chosen.add(k); });
      } catch { /* not bits: nothing is selected */ }
    }

    function choices() {
      const latents = summary.latents.map((latent) => [latent.number, `${parts.name(latent)} (${parts.about(latent)})`]);
      const groups = colourChoices();
      const colourBy = el("select", { onchange: () => recolour(colourBy.value) }, groups.map(([label, options]) =>
        el("optgroup", { label }, options.map(([name, text]) => el("option", { value: name }, text)))));
      colourBy.value = colour;
      controls.replaceChildren(
        parts.select("Place by", ways, by, (way) => { [by, axes] = [way, preset[way]]; again(); }),
        ...(by === "latents" && !api.copy
          ? ["across", "up"].map((label, k) => parts.select(label, latents, axes[k], (number) => { axes[k] = +number; again(); })) : []),
        ...(groups.length ? [el("label", { class: "choose" }, el("span", {}, "Colour by"), " ", colourBy)] : []),
        ...(api.copy || DOTS.length < 2 ? [] : [parts.select("Dots", DOTS.map((count) => [count, Math.min(count, summary.total).toLocaleString("en")]), dots, (count) => { dots = +count; chosen.clear(); again(); })]),
        ...(isTable ? [] : [el("button", { type: "button", "aria-pressed": String(hasImages), onclick: (event) => asImages(event.currentTarget) }, "Images as dots")]),
        el("label", { class: "choose" }, el("span", {}, "Find"), " ", box), answerTo);
    }

    function asImages(button) {
      hasImages = !hasImages;
      button.setAttribute("aria-pressed", String(hasImages));
      remember();
      imagesAsDots();
      loadSheet();
    }

    const names = [el("span", { class: "soft up" }), el("span", { class: "soft across" })];
    const intro = el("p", { class: "soft" });

    async function load() {
      space = await api.json(address(by, ...axes));
      await loadColour();
      names[0].textContent = `↑ ${space.up}`;
      names[1].textContent = `${space.across} →`;
      const some = space.index.length < space.total ? `${space.index.length.toLocaleString("en")} of ${space.total.toLocaleString("en")} examples` : parts.plural(space.total, "example");
      intro.textContent = `Each dot is the code of one of ${some}. Similar codes are close together.`;
      plot.canvas.setAttribute("aria-label", `${space.index.length} examples by ${space.across} and ${space.up}. Arrow keys move between dots, Space selects, Escape clears; plus, minus and 0 zoom, Shift with arrows moves the plot.`);
    }

    function put() {
      plot.places(space.x, space.y);
      plot.colour(colours.painter(colouring));
      plot.select(chosen);
      choices();
      legend();
      imagesAsDots();
    }

    const again = parts.newest(async () => {
      const before = space.index.length;
      names[0].textContent = by === "tsne" ? "Computing t-SNE …" : "Computing …";
      names[1].textContent = "";
      plot.element.classList.add("waiting");
      try {
        await load();
      } finally {
        plot.element.classList.remove("waiting");
      }
      if (!alive()) return;
      if (space.index.length !== before) chosen.clear();
      put();
      loadSheet();
      changed();
      plot.show(Math.max(0, plot.current));
      untwine.settle();
    }, alive);

    await load();
    unpack();
    put();
    describe([...chosen]);
    loadSheet();
    root.append(el("section", {}, el("h2", {}, "Codes in two dimensions"), intro, controls,
      el("div", { class: "scatter" },
        el("div", { class: "card" }, names[0], plot.element, names[1], key),
        el("div", { class: `card beside${isTable ? " stacked" : ""}` }, el("figure", {}, isTable ? preview.element : preview), words, panel))));
    root.addEventListener("shown", () => {
      plot.resize();
      const view = (state.get("view") || "").split(",").map(Number);
      if (view.length === 3 && view.every(Number.isFinite)) plot.look(view[0], view.slice(1));
      plot.show(chosen.size ? [...chosen][0] : 0);
    });
    const resize = parts.later(() => (alive() ? plot.resize() : window.removeEventListener("resize", resize)));
    window.addEventListener("resize", resize);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const repaint = () => (alive() ? [plot.colour(colours.painter(colouring)), legend()] : dark.removeEventListener("change", repaint));
    dark.addEventListener("change", repaint);
  },
};
