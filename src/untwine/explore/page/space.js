"use strict";
// Space: the codes of examples in two dimensions.

untwine.views.space = {
  title: "Space",
  examples: true,

  async show(root, { run, summary, state, keep, alive }) {
    const { el } = parts;
    const COLUMNS = CONSTANTS.sheetColumns;
    const PAD = { left: 14, right: 14, top: 14, bottom: 14 };
    const MAX_DISTANCE = 28; // pixels between the pointer and a dot
    const MAX_THUMBNAILS = 18; // of a selection
    const numbers = summary.latents.map((latent) => latent.number);
    const address = (by, x, y) => api.of(run, "space", { by, x, y });
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
    let spots = []; // positions of the dots in pixels
    let current = -1; // the dot pointed at
    let sheet = null;
    const chosen = new Set();

    // ---- the plot ----

    const SVG = "http://www.w3.org/2000/svg";
    const plot = document.createElementNS(SVG, "svg");
    plot.setAttribute("tabindex", "0");
    plot.setAttribute("role", "application");
    plot.setAttribute("aria-roledescription", "scatter plot");
    const shape = (tag, attributes) => {
      const element = document.createElementNS(SVG, tag);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      return element;
    };
    const frame = el("div", { class: "plot" }, plot);
    const ring = shape("circle", { class: "ring", r: 9, visibility: "hidden" });
    const box = shape("rect", { class: "box", visibility: "hidden" });
    let dots = [];

    function lay() {
      const width = Math.max(260, frame.clientWidth);
      const height = Math.round(Math.min(width, Math.max(340, Math.min(0.72 * width, window.innerHeight - 490))));
      plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
      const scale = (values, from, to) => {
        const low = Math.min(...values);
        const span = Math.max(...values) - low || 1;
        return values.map((value) => from + (to - from) * (value - low) / span);
      };
      const x = scale(space.x, PAD.left, width - PAD.right);
      const y = scale(space.y, height - PAD.bottom, PAD.top);
      spots = x.map((value, k) => [value, y[k]]);
      const size = width < 500 ? 3.2 : 4.2;
      dots = spots.map(([cx, cy]) => shape("circle", { cx, cy, r: size, class: "dot" }));
      plot.replaceChildren(...dots, box, ring);
      paint();
    }

    function paint() {
      dots.forEach((dot, k) => {
        dot.style.fill = colouring ? hue(colouring.levels[k], colouring.count) : "var(--accent)";
        dot.classList.toggle("chosen", chosen.has(k));
      });
      plot.classList.toggle("choosing", chosen.size > 0);
    }

    function hue(level, count) {
      if (count <= 10) return `var(--level-${level % 10})`;
      const t = count > 1 ? level / (count - 1) : 0; // dark blue to yellow
      return `hsl(${250 - 200 * t} ${58 + 22 * t}% ${40 + 18 * t}%)`;
    }

    // ---- pointing ----

    const preview = parts.canvas("The image of the dot");
    const words = el("p", { class: "soft", "aria-live": "polite" });

    function point(k) {
      current = k;
      ring.setAttribute("visibility", k < 0 ? "hidden" : "visible");
      if (k < 0) return;
      ring.setAttribute("cx", spots[k][0]);
      ring.setAttribute("cy", spots[k][1]);
      picture(preview, k);
      const levels = parts.levels(Object.fromEntries(space.colourings.map((each) => [each.name, each.levels[k]])), summary);
      const link = `example-${space.index[k]}`;
      words.replaceChildren(api.has(parts.starts.address(run, link))
        ? el("a", { href: untwine.link("latents", run, { start: link }) }, `Example ${space.index[k]}`) : `Example ${space.index[k]}`,
      levels ? ` · ${levels}` : "");
    }

    function picture(onto, k) {
      if (!sheet) return;
      const rows = Math.ceil(space.index.length / COLUMNS);
      parts.tile(onto, sheet, { row: Math.floor(k / COLUMNS), column: k % COLUMNS, rows, columns: COLUMNS });
    }

    const at = (event) => {
      const area = plot.getBoundingClientRect();
      const view = plot.viewBox.baseVal;
      return [(event.clientX - area.left) * view.width / area.width, (event.clientY - area.top) * view.height / area.height];
    };

    function nearest([x, y], reach = MAX_DISTANCE) {
      let best = -1;
      let least = reach ** 2;
      spots.forEach(([px, py], k) => {
        const far = (px - x) ** 2 + (py - y) ** 2;
        if (far < least) [best, least] = [k, far];
      });
      return best;
    }

    let corner = null; // where a drag began

    plot.addEventListener("pointerdown", (event) => {
      corner = at(event);
      if (event.pointerType === "mouse") plot.setPointerCapture(event.pointerId);
    });
    plot.addEventListener("pointermove", (event) => {
      const here = at(event);
      if (corner && event.pointerType === "mouse" && Math.hypot(here[0] - corner[0], here[1] - corner[1]) > 5) return drag(here);
      const near = nearest(here);
      if (near >= 0 && near !== current) point(near);
    });
    plot.addEventListener("pointerup", (event) => {
      const here = at(event);
      const isDrag = box.getAttribute("visibility") === "visible";
      box.setAttribute("visibility", "hidden");
      if (isDrag) choose(within(corner, here), event.shiftKey);
      else if (corner) click(nearest(here), event.shiftKey || event.pointerType !== "mouse");
      corner = null;
    });
    plot.addEventListener("pointercancel", () => {
      corner = null;
      box.setAttribute("visibility", "hidden");
    });

    function drag(here) {
      const [x, y] = [0, 1].map((k) => Math.min(corner[k], here[k]));
      Object.entries({ x, y, width: Math.abs(here[0] - corner[0]), height: Math.abs(here[1] - corner[1]), visibility: "visible" })
        .forEach(([key, value]) => box.setAttribute(key, value));
    }

    const within = (a, b) => spots.flatMap(([x, y], k) =>
      (x >= Math.min(a[0], b[0]) && x <= Math.max(a[0], b[0]) && y >= Math.min(a[1], b[1]) && y <= Math.max(a[1], b[1]) ? [k] : []));

    function click(k, more) {
      if (k < 0) return choose([], false);
      point(k);
      if (more && chosen.has(k)) chosen.delete(k);
      else {
        if (!more) chosen.clear();
        chosen.add(k);
      }
      changed();
    }

    plot.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (way) point(current < 0 ? 0 : step(way));
      else if (event.key === " " || event.key === "Enter") click(current < 0 ? 0 : current, true);
      else if (event.key === "Escape") choose([], false);
      else return;
      event.preventDefault();
    });

    /** The nearest dot in a direction; distance sideways counts more. */
    function step([dx, dy]) {
      const [x, y] = spots[current];
      let best = current;
      let least = Infinity;
      spots.forEach(([px, py], k) => {
        const ahead = (px - x) * dx + (py - y) * dy;
        const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
        if (ahead > 0.5 && ahead + 2.5 * aside < least) [best, least] = [k, ahead + 2.5 * aside];
      });
      return best;
    }

    // ---- selecting ----

    const panel = el("div", { class: "selection" });

    function choose(indices, more) {
      if (!more) chosen.clear();
      indices.forEach((k) => chosen.add(k));
      changed();
    }

    function changed() {
      paint();
      legend();
      describe([...chosen]);
    }

    const describe = parts.newest(async (picked) => {
      if (!picked.length) {
        panel.replaceChildren(el("p", { class: "note" }, "Point at a dot to see its image. Drag over dots, click them (Shift adds more) or choose a colour below the plot to see what distinguishes them."));
        return;
      }
      const clear = el("button", { type: "button", class: "quiet", onclick: () => choose([], false) }, "Clear");
      const head = el("h3", {}, `${parts.plural(picked.length, "dot")} selected `, clear);
      const answer = api.copy ? null : await api.send(api.of(run, "selection"), { indices: picked.map((k) => space.index[k]).slice(0, 1000) });
      if (!alive()) return;
      panel.replaceChildren(head, ...(answer ? differences(answer) : []), thumbnails(picked));
      untwine.settle();
    }, alive);

    function thumbnails(picked) {
      const step = Math.max(1, picked.length / MAX_THUMBNAILS);
      const evenly = Array.from({ length: Math.min(MAX_THUMBNAILS, picked.length) }, (_, k) => picked[Math.floor(k * step)]);
      return el("div", { class: "members" }, evenly.map((k) => {
        const small = parts.canvas(`Example ${space.index[k]}`);
        picture(small, k);
        return small;
      }));
    }

    function differences(answer) {
      const factors = answer.factors.slice(0, 4).map((each) => el("li", {},
        el("b", {}, `${parts.plain(each.factor)} = ${each.level}`), `: ${parts.percent(each.share)} of them, ${parts.percent(each.overall)} of all`));
      const latents = answer.latents.slice(0, 4).map((each) => el("li", {},
        el("a", { href: untwine.link("latents", run, { latent: each.number }) }, `z${each.number}`),
        `: ${Math.abs(each.deviations).toFixed(1)} standard deviations ${each.deviations < 0 ? "below" : "above"} the overall mean`));
      return [
        answer.picture ? el("figure", { class: "mean" }, parts.image(answer.picture, "Mean image of the selected dots"), el("figcaption", {}, "Their mean image")) : "",
        factors.length || latents.length ? el("p", { class: "note" }, "What distinguishes them") : el("p", { class: "note" }, "Nothing distinguishes them from the others."),
        el("ul", {}, factors, latents)].filter(Boolean);
    }

    // ---- colours ----

    const key = el("div", { class: "legend", role: "group", "aria-label": "Colours" });

    function legend() {
      if (!colouring) return key.replaceChildren();
      if (colouring.count > 24) {
        return key.replaceChildren(el("span", {}, "0"), el("span", { class: "ramp" }), el("span", {}, String(colouring.count - 1)));
      }
      return key.replaceChildren(...Array.from({ length: colouring.count }, (_, level) => {
        const members = colouring.levels.flatMap((each, k) => (each === level ? [k] : []));
        const isChosen = members.length > 0 && members.every((k) => chosen.has(k));
        const swatch = el("i", {});
        swatch.style.background = hue(level, colouring.count);
        return el("button", { type: "button", class: "level", "aria-pressed": String(isChosen), disabled: !members.length, title: `Select all with ${parts.plain(colouring.name)} ${level}`, "aria-label": `Select all with ${parts.plain(colouring.name)} ${level}`,
          onclick: () => toggle(members, isChosen, level) }, swatch, String(level));
      }));
    }

    function toggle(members, isChosen, level) {
      members.forEach((k) => (isChosen ? chosen.delete(k) : chosen.add(k)));
      changed();
      key.children[level].focus({ preventScroll: true });
    }

    // ---- controls ----

    const controls = el("div", { class: "controls" });

    function recolour(name) {
      colour = name;
      colouring = space.colourings.find((each) => each.name === colour) || space.colourings[0] || null;
      remember();
      paint();
      legend();
    }

    function remember() {
      keep({ by, ...(by === "latents" && !api.copy ? { x: axes[0], y: axes[1] } : {}), colour });
    }

    function choices() {
      const latents = summary.latents.map((latent) => [latent.number, `${parts.name(latent)} (${parts.about(latent)})`]);
      controls.replaceChildren(
        parts.select("Place by", ways, by, (way) => { [by, axes] = [way, preset[way]]; again(); }),
        ...(by === "latents" && !api.copy
          ? ["across", "up"].map((label, k) => parts.select(label, latents, axes[k], (number) => { axes[k] = +number; again(); })) : []),
        ...(space.colourings.length
          ? [parts.select("Colour by", space.colourings.map((each) => [each.name, parts.plain(each.name)]), colouring.name, recolour)] : []));
    }

    const names = [el("span", { class: "soft up" }), el("span", { class: "soft across" })];

    async function load() {
      space = await api.json(address(by, ...axes));
      colouring = space.colourings.find((each) => each.name === colour) || space.colourings[0] || null;
      names[0].textContent = `↑ ${space.up}`;
      names[1].textContent = `${space.across} →`;
      plot.setAttribute("aria-label", `${space.index.length} examples by ${space.across} and ${space.up}. Arrow keys move between dots, Space selects, Escape clears.`);
    }

    const again = parts.newest(async () => {
      remember();
      frame.classList.add("waiting");
      const waiting = el("span", { class: "soft busy", role: "status" }, "Computing …"); // t-SNE takes seconds
      controls.append(waiting);
      try {
        await load();
      } finally {
        frame.classList.remove("waiting");
        waiting.remove();
      }
      if (!alive()) return;
      choices();
      lay();
      legend();
      point(current);
      untwine.settle();
    }, alive);

    await load();
    choices();
    legend();
    describe([]);
    if (summary.tile.length) api.picture(api.of(run, "sheet.png")).then((loaded) => { sheet = loaded; if (alive() && current >= 0) point(current); },
      (error) => alive() && untwine.problem(error));
    root.append(parts.section("Codes in two dimensions", `Each dot is the code of one of ${space.index.length.toLocaleString("en")} examples. Similar codes are close together.`,
      controls,
      el("div", { class: "scatter" },
        el("div", { class: "card" }, names[0], frame, names[1], key),
        el("div", { class: "card beside" }, el("figure", {}, preview), words, panel))));
    root.addEventListener("shown", () => {
      lay();
      point(0);
    });
    const resize = parts.later(() => (alive() ? lay() : window.removeEventListener("resize", resize)));
    window.addEventListener("resize", resize);
  },
};
