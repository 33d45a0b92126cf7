"use strict";
// The frame of the page: run, view and errors. The address after # stores the state.

(() => {
  const { el } = parts;
  const VIEWS = ["latents", "images", "between", "space", "factors", "compare", "curves", "study"];
  const place = Object.fromEntries(["run", "views", "about", "problem", "busy", "content", "copy", "help"]
    .map((id) => [id, document.getElementById(id)]));
  let runs = [];
  let turn = 0; // counts views, so that late answers to an earlier view are dropped

  untwine.link = (view, run, state = {}) => {
    const text = new URLSearchParams(Object.entries(state).filter(([, value]) => value !== "" && value != null)).toString();
    return `#/${view}/${encodeURIComponent(run)}${text ? `?${text.replaceAll("%2C", ",").replaceAll("%3A", ":")}` : ""}`;
  };

  untwine.problem = (error) => {
    place.problem.textContent = error && error.message ? error.message : String(error);
    place.problem.hidden = false;
    place.busy.hidden = true;
  };

  untwine.settle = () => {
    place.problem.hidden = true;
    place.problem.textContent = "";
  };

  function busy(text) {
    place.busy.textContent = text;
    place.busy.hidden = !text;
  }

  function where() {
    const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/);
    const [view, run] = path.split("/").map(decode);
    return { view: VIEWS.includes(view) ? view : "", run: run || "", state: new URLSearchParams(query || "") };
  }

  function decode(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  const finished = () => runs.filter((run) => run.phase === "finished");

  /** Runs that can be opened, the newest first; or all that can be read. */
  untwine.runs = (all = false) => (all ? runs.filter((run) => run.phase !== "unreadable") : finished());
  untwine.overview = { title: "", view: "latents", run: "", waiting: 0 };

  const progress = (run) => (run.phase === "finished" ? "" : ` · ${run.state}`);
  /** What a run is called in menus: with its data, if there are several. */
  untwine.menuLabel = (run) => `${run.label}${runs.some((other) => other.data && other.data !== run.data) ? ` · ${run.data}` : ""}${progress(run)}`;

  /** Fill the list of runs, grouped by data. */
  function listRuns() {
    const groups = new Map();
    for (const run of untwine.runs(true)) groups.set(run.data, [...(groups.get(run.data) || []), run]);
    place.run.replaceChildren(...[...groups].map(([data, members]) => el("optgroup", { label: data },
      members.map((run) => el("option", { value: run.name, title: run.name }, untwine.menuLabel(run))))));
    place.run.disabled = place.run.options.length < 2;
  }

  /** The title of a view; rows of numbers are no images. */
  function title(view, name) {
    const { shape = [] } = runs.find((run) => run.name === name) || {};
    return view === "images" && shape.length === 1 && shape[0] > 2 ? "Rows" : untwine.views[view].title;
  }

  function tabs(current, run) {
    place.views.replaceChildren(...VIEWS.map((view) => el("a", {
      href: untwine.link(view, run), "aria-current": view === current ? "page" : false,
    }, title(view, run))));
    const chosen = place.views.querySelector("[aria-current]");
    place.views.scrollLeft = chosen.offsetLeft - (place.views.clientWidth - chosen.offsetWidth) / 2;
    fade();
  }

  /** Fade the end of the tabs at which there are more. */
  function fade() {
    const { scrollLeft, clientWidth, scrollWidth } = place.views;
    place.views.classList.toggle("more-before", scrollLeft > 2);
    place.views.classList.toggle("more-after", scrollLeft + clientWidth < scrollWidth - 2);
  }

  function about(summary) {
    const rows = summary.parameters.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)));
    place.about.replaceChildren(
      el("h1", {}, `${summary.title} on ${summary.data}`),
      el("p", { class: "soft lead" }, summary.about),
      el("details", { class: "made" }, el("summary", {}, "How this run was made"),
        el("div", { class: "card" }, el("table", { class: "plain" }, rows), parts.command(summary.command))));
  }

  async function show() {
    const mine = ++turn;
    const alive = () => mine === turn;
    const target = where();
    const view = target.view || untwine.overview.view;
    const exists = runs.some((run) => run.name === target.run);
    const run = exists ? target.run : untwine.overview.run;
    const line = runs.find((each) => each.name === run);
    untwine.settle();
    place.content.replaceChildren();
    delete place.content.dataset.shown;
    delete place.content.dataset.waits;
    tabs(view, run);
    place.run.value = run;
    document.title = `${title(view, run)} · untwine`;
    if (!runs.length && view !== "study") return nothing();
    if (line && line.phase !== "finished" && !untwine.views[view].alone) return unfinished(line);
    await fill(view, run, target.state, alive);
    if (alive() && target.run && !exists && run && view !== "study") {
      place.content.prepend(el("p", { class: "problem", role: "alert" }, `There is no run ${target.run} here. Showing ${run} instead.`));
    }
    return undefined;
  }

  /** The message of a view that needs a trained model, for a run that is not finished. */
  function unfinished(line) {
    busy("");
    place.about.hidden = true;
    const left = line.seconds_left === null ? "" : `, about ${parts.duration(line.seconds_left)} left`;
    const words = {
      running: `This run is in training: ${line.state.replace("running ", "")}${left}. This view opens when it is finished.`,
      failed: `This run failed. ${api.sentence(line.reason)}`,
      stopped: `This run was ${line.state}. Repeat the command that started it to resume it.`,
      elsewhere: "This run is finished, but its weights are stored elsewhere. Copy model.safetensors into its directory to look at it.",
    };
    place.content.replaceChildren(el("h1", {}, line.label), el("p", {}, words[line.phase] || api.sentence(line.state)),
      line.phase === "unreadable" ? "" : el("p", {}, el("a", { href: untwine.link("curves", line.name) }, "See its learning curves")));
    place.content.dataset.waits = line.name;
  }

  async function fill(view, run, state, alive) {
    const alone = untwine.views[view].alone; // needs no run
    place.about.hidden = Boolean(alone);
    busy(alone ? "Reading the runs …" : "Opening the model …");
    let summary = null;
    try {
      if (!alone) summary = await api.json(api.of(run));
      if (!alive()) return;
      if (summary) {
        about(summary);
        document.title = `${title(view, run)} · ${summary.title} on ${summary.data} · untwine`;
      }
      const keep = (now) => alive() && history.replaceState(null, "", untwine.link(view, run, now));
      const root = el("div", { class: `view ${view}` });
      if (summary && summary.tile.length) root.style.setProperty("--shape", `${summary.tile[1]} / ${summary.tile[0]}`);
      if (untwine.views[view].examples && summary.missing) return absent(summary, run);
      busy("Computing …");
      await untwine.views[view].show(root, { run, summary, state, keep, alive });
      if (!alive()) return;
      place.content.replaceChildren(root);
      place.content.dataset.shown = `${view}/${run}`;
      root.dispatchEvent(new Event("shown"));
      busy("");
    } catch (error) {
      if (!alive()) return;
      if (!summary) place.about.replaceChildren();
      untwine.problem(error);
    }
  }

  /** The message of a view of examples, where the data of the run is not here. */
  function absent(summary, run) {
    busy("");
    place.content.replaceChildren(parts.missing(summary), el("p", {}, el("a", { href: untwine.link("latents", run) }, "Latents"), " and ",
      el("a", { href: untwine.link("factors", run) }, "Factors"), " show what the run itself holds."));
  }

  function nothing() {
    busy("");
    place.content.replaceChildren(parts.empty("There are no runs here. Train one; it appears on this page as soon as it starts.", "untwine train beta-tcvae sprites"));
  }

  // ---- runs that begin and end while the page is open ----

  const LIST_INTERVAL = { running: 4000, resting: 12_000 }; // milliseconds
  const SHARE_OF_TIME = 20; // a server that takes long to list its runs is asked less often

  const watchRuns = parts.polling(async () => {
    const began = performance.now();
    const [listed, overview] = await Promise.all([api.json("/api/runs"), api.json("/api/overview")]);
    const took = performance.now() - began;
    const before = JSON.stringify(runs);
    runs = listed;
    untwine.overview = overview;
    if (JSON.stringify(runs) !== before) runsChanged();
    const usual = runs.some((run) => run.phase === "running") || overview.waiting ? LIST_INTERVAL.running : LIST_INTERVAL.resting;
    return Math.max(usual, SHARE_OF_TIME * took);
  });

  function runsChanged() {
    const run = place.run.value;
    if (document.activeElement !== place.run) { // an open menu stays as it is
      listRuns();
      place.run.value = run;
    }
    const waits = place.content.dataset.waits;
    if (waits ? runs.some((each) => each.name === waits) : !place.content.dataset.shown && place.problem.hidden && place.busy.hidden) show();
    else for (const view of place.content.children) view.dispatchEvent(new Event("runs"));
  }

  // ---- keyboard ----

  const SHORTCUTS = [
    ["?", "these shortcuts"],
    [`1 – ${VIEWS.length}`, "views, from the left"],
    ["← → on a slider", "a fortieth of its range; with Shift a two-hundredth; Page Up and Down more; Home and End"],
    ["← → on the scatter plot", "next dot; Space selects, Escape clears; + and − zoom, 0 shows all dots; with Shift, arrows move the plot"],
    ["← → on an enlarged image", "previous and next; Escape closes"],
    ["Tab", "next control"],
  ];

  function help() {
    if (!place.help.childElementCount) {
      place.help.append(el("div", { class: "headed" }, el("h2", { id: "help-title" }, "Keyboard shortcuts"),
        el("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: () => place.help.close() }, "×")),
        el("table", { class: "plain" }, SHORTCUTS.map(([key, words]) => el("tr", {}, el("th", { scope: "row" }, el("kbd", {}, key)), el("td", {}, words)))));
      place.help.addEventListener("click", (event) => event.target === place.help && place.help.close());
    }
    place.help.showModal();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || place.help.open) return;
    if (event.target.matches("select, textarea, input:not([type=range], [type=checkbox])")) return;
    if (event.key === "?") help();
    else if (VIEWS[+event.key - 1]) location.hash = untwine.link(VIEWS[+event.key - 1], place.run.value);
    else return;
    event.preventDefault();
  });
  document.getElementById("shortcuts").addEventListener("click", help);
  place.views.addEventListener("scroll", fade, { passive: true });
  window.addEventListener("resize", fade);

  async function begin() {
    if (api.copy) {
      place.copy.textContent = `This is a static copy that works without a server. It includes a selection of examples. ${api.about}`;
      place.copy.hidden = false;
    } else if (location.search.includes("token=")) {
      history.replaceState(null, "", location.pathname + location.hash); // the cookie has the token; links should not
    }
    busy("Looking for runs …");
    try {
      [runs, untwine.overview] = await Promise.all([api.json("/api/runs"), api.json("/api/overview")]);
    } catch (error) {
      return untwine.problem(error);
    }
    listRuns();
    place.run.addEventListener("change", () => {
      location.hash = untwine.link(where().view || untwine.overview.view, place.run.value);
    });
    window.addEventListener("hashchange", () => location.hash !== "#content" && show());
    await show();
    if (!api.copy) watchRuns.start(LIST_INTERVAL.running);
    return undefined;
  }

  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    place.content.focus();
  });
  window.addEventListener("error", (event) => event.message && untwine.problem(`This page failed: ${event.message}.`));
  window.addEventListener("unhandledrejection", (event) => untwine.problem(event.reason));
  begin();
})();
