"use strict";
// Learning curves of one or several runs, finished or in training.

untwine.views.curves = {
  title: "Curves",
  alone: true,
  unfinished: true,

  async show(root, { run, state, keep, alive }) {
    const { el } = parts;
    const INTERVAL = 2000; // milliseconds between two updates of running runs
    const MAX_RUNS = 10; // as many as there are colours
    const MAX_TERMS = 6; // shown until the reader chooses
    if (!untwine.runs(true).length) {
      root.append(parts.empty("There are no runs. Train one, and its curves appear here.", "untwine train beta-tcvae sprites"));
      return;
    }
    const list = (key) => (state.get(key) || "").split(",").filter(Boolean).map(decodeURIComponent);
    const isHere = (name) => untwine.runs(true).some((line) => line.name === name);
    let chosen = [run, ...list("with")].filter((name, k, all) => isHere(name) && all.indexOf(name) === k).slice(0, MAX_RUNS);
    let terms = list("terms");
    let smooth = Math.min(0.99, Math.max(0, +state.get("smooth") || 0));
    let logs = new Set((state.get("log") || "").split("").filter((axis) => "xy".includes(axis)));
    let validation = state.get("validation") !== "0";
    const curves = new Map(); // by run
    const problems = new Map();

    const remember = () => keep({ with: chosen.filter((name) => name !== run).map(encodeURIComponent).join(","), terms: terms.map(encodeURIComponent).join(","),
      smooth: smooth || "", log: [...logs].sort().join(""), validation: validation ? "" : "0" });

    async function load(names) {
      await Promise.all(names.map(async (name) => {
        try {
          curves.set(name, await api.json(api.of(name, "curves"), { fresh: true }));
          problems.delete(name);
        } catch (error) {
          problems.set(name, error.message);
        }
      }));
    }

    const colour = (name) => `var(--level-${chosen.indexOf(name) % 10})`;
    const line = (name) => (curves.get(name) || {}).run || untwine.runs(true).find((each) => each.name === name);
    const title = (name) => name.replaceAll("_", " ");

    // ---- terms ----

    const available = () => [...new Set(chosen.flatMap((name) => (curves.has(name) ? [...Object.keys(curves.get(name).training), ...(validation ? Object.keys(curves.get(name).validation) : [])] : [])))];

    function shownTerms() {
      const all = available();
      const asked = all.filter((term) => terms.includes(term));
      return asked.length ? asked : all.slice(0, MAX_TERMS);
    }

    /** The lines of a term: one for each run on training data, and one on held-out data. */
    function linesOf(term) {
      return chosen.flatMap((name) => {
        const own = curves.get(name);
        if (!own) return [];
        const kinds = [["training", own.training[term]], ["validation", validation ? own.validation[term] : null]];
        return kinds.filter(([, values]) => values).map(([kind, values]) => ({
          name, kind, colour: colour(name), label: `${line(name).label}${kind === "validation" ? ", validation" : ""}`,
          points: own.steps.map((step, k) => [step, values[k]]).filter(([, value]) => value !== null),
        }));
      });
    }

    const charts = el("div", { class: "charts" });
    const about = el("p", { class: "note" });

    function draw() {
      const shown = shownTerms();
      charts.replaceChildren(...shown.map((term) => {
        const lines = linesOf(term);
        return el("figure", { class: "card chart" }, el("figcaption", {}, el("b", {}, title(term))),
          chart.draw(lines, { smooth, logs, label: title(term) }));
      }));
      if (!shown.length) charts.replaceChildren(el("p", {}, chosen.some((name) => line(name) && line(name).phase === "running") ? "The first values appear in a moment." : "No values are recorded for these runs."));
      const all = available();
      termChoice.hidden = all.length < 2;
      termBoxes.replaceChildren(...all.map((term) => parts.check(title(term), shown.includes(term), (isOn) => {
        terms = all.filter((each) => (each === term ? isOn : shown.includes(each)));
        remember();
        draw();
      })));
      validationBox.hidden = !chosen.some((name) => curves.has(name) && Object.keys(curves.get(name).validation).length);
      dashes.hidden = validationBox.hidden || !validation;
      const notes = new Set(chosen.filter((name) => curves.has(name)).map((name) => curves.get(name).note).filter(Boolean));
      about.textContent = [...notes].map(api.sentence).join(" ");
    }

    // ---- runs ----

    const legend = el("ul", { class: "curved", "aria-label": "Runs" });

    function describe(each) {
      const own = curves.get(each.name);
      const last = own && own.steps.length ? `step ${own.steps[own.steps.length - 1].toLocaleString("en")} of ${each.steps.toLocaleString("en")}` : "";
      if (each.phase === "finished" || each.phase === "elsewhere") return [last];
      if (each.phase === "running") return [last || "begins", each.seconds_left === null ? "" : `about ${parts.duration(each.seconds_left)} left`].filter(Boolean);
      return [each.state];
    }

    function entry(name) {
      const each = line(name);
      const dot = el("i", { class: "swatch" });
      dot.style.background = colour(name);
      const meter = el("span", { class: "meter", "aria-hidden": "true" }, el("i", {}));
      meter.firstChild.style.width = `${Math.min(100, 100 * each.step / Math.max(1, each.steps))}%`;
      const facts = [each.data, ...describe(each)].filter(Boolean);
      return el("li", { class: each.phase }, dot,
        el("div", {}, each.phase === "finished" ? el("a", { href: untwine.link("latents", name) }, each.label) : el("b", {}, each.label),
          el("div", { class: "note" }, each.phase === "running" ? meter : "", facts.join(" · ")),
          each.reason ? el("div", { class: "note failed" }, api.sentence(each.reason)) : "",
          problems.has(name) ? el("div", { class: "note failed" }, problems.get(name)) : ""),
        chosen.length > 1 ? el("button", { type: "button", class: "quiet", "aria-label": `Remove ${each.label}`, title: "Remove", onclick: () => remove(name) }, "×") : "");
    }

    function remove(name) {
      const rest = chosen.filter((each) => each !== name);
      if (name === run) location.hash = untwine.link("curves", rest[0], { ...Object.fromEntries(state), with: rest.slice(1).map(encodeURIComponent).join(",") });
      else {
        chosen = rest;
        remember();
        fill();
      }
    }

    async function add(name) {
      if (!name || chosen.includes(name)) return;
      chosen.push(name);
      remember();
      await load([name]);
      if (alive()) fill();
      poll.start();
    }

    const menu = el("span", {});
    const status = el("p", { class: "note", role: "status" });

    function fill() {
      legend.replaceChildren(...chosen.filter(line).map(entry));
      const others = untwine.runs(true).filter((each) => !chosen.includes(each.name));
      menu.hidden = !others.length || chosen.length >= MAX_RUNS;
      menu.replaceChildren(others.length ? parts.select("Add a run", [["", "choose …"], ...others.map((each) => [each.name, untwine.menuLabel(each)])], "", add) : "");
      status.textContent = counts();
      draw();
    }

    /** How many runs there are in each phase, where not all are finished. */
    function counts() {
      const phases = untwine.runs(true).map((each) => each.phase);
      const words = ["running", "failed", "stopped"].map((phase) => [phases.filter((each) => each === phase).length, phase]);
      words.push([untwine.overview.waiting, "waiting"]);
      const some = words.filter(([count]) => count).map(([count, phase]) => `${count.toLocaleString("en")} ${phase}`);
      return some.length ? `Of ${parts.plural(phases.length + untwine.overview.waiting, "run")}: ${some.join(", ")}.` : "";
    }

    // ---- controls ----

    const smoothing = el("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: smooth, "aria-label": "Smoothing",
      oninput: () => { smooth = +smoothing.value; draw(); remember(); } });
    const axis = (name, label) => parts.check(label, logs.has(name), (isOn) => {
      logs[isOn ? "add" : "delete"](name);
      remember();
      draw();
    });
    const validationBox = parts.check("validation", validation, (isOn) => { validation = isOn; remember(); draw(); });
    const dashes = el("span", { class: "note" }, "solid: training, dashed: validation");
    const termBoxes = el("div", { class: "checks" });
    const termChoice = el("details", { class: "chooser" }, el("summary", {}, "Terms"), termBoxes);

    root.append(el("h1", {}, "Learning curves"),
      el("p", { class: "soft lead" }, "The loss and its terms during training, averaged over the examples since the previous point. ", api.copy ? "" : "Running runs update by themselves."),
      el("div", { class: "controls" }, menu, el("label", { class: "choose" }, el("span", {}, "Smoothing"), " ", smoothing),
        el("span", { class: "checks" }, axis("x", "log steps"), axis("y", "log values"), validationBox), termChoice, dashes),
      el("div", { class: "card" }, legend), status, charts, about);

    // ---- updates ----

    const poll = parts.polling(async () => {
      const running = chosen.filter((name) => !curves.has(name) || ["running", "waiting"].includes(line(name).phase));
      if (!running.length || api.copy) return 0;
      await load(running);
      if (alive()) fill();
      return INTERVAL;
    }, alive);
    root.addEventListener("runs", () => { fill(); poll.start(); }); // the list of runs has changed

    await load(chosen);
    if (!alive()) return;
    fill();
    poll.start(INTERVAL);
  },
};
