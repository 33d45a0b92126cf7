"use strict";
// The frame of the page: run, view and errors. The address after # stores the state.

(() => {
  const { el } = parts;
  const VIEWS = ["latents", "images", "between", "space", "factors", "compare", "study"];
  const place = Object.fromEntries(["run", "views", "about", "problem", "busy", "content", "copy"]
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

  const finished = () => runs.filter((run) => run.state === "finished");

  /** Fill the list of runs, grouped by data. */
  function listRuns() {
    const groups = new Map();
    for (const run of finished()) groups.set(run.data, [...(groups.get(run.data) || []), run]);
    place.run.replaceChildren(...[...groups].map(([data, members]) => el("optgroup", { label: data },
      members.map((run) => el("option", { value: run.name, title: run.name }, untwine.label(run))))));
    place.run.disabled = place.run.options.length < 2;
  }

  untwine.label = (run) => `${run.model} · seed ${run.seed} · ${run.name.slice(-12)}`;
  untwine.runs = () => finished();

  function tabs(current, run) {
    place.views.replaceChildren(...VIEWS.map((view) => el("a", {
      href: untwine.link(view, run), "aria-current": view === current ? "page" : false,
    }, untwine.views[view].title)));
    const chosen = place.views.querySelector("[aria-current]");
    place.views.scrollLeft = chosen.offsetLeft - (place.views.clientWidth - chosen.offsetWidth) / 2;
  }

  function about(summary) {
    const rows = summary.parameters.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)));
    place.about.replaceChildren(
      el("h1", {}, `${summary.title} on ${summary.data}`),
      el("p", { class: "soft lead" }, summary.about),
      el("details", { class: "made" }, el("summary", {}, "How this run was made"),
        el("div", { class: "card" }, el("table", { class: "plain" }, rows), el("pre", {}, summary.command))));
  }

  async function show() {
    const mine = ++turn;
    const alive = () => mine === turn;
    const target = where();
    const view = target.view || "latents";
    const exists = finished().some((run) => run.name === target.run);
    const run = exists || !finished().length ? target.run : finished()[0].name;
    untwine.settle();
    place.content.replaceChildren();
    delete place.content.dataset.shown;
    if (!finished().length && view !== "study") return nothing(view, run);
    tabs(view, run);
    place.run.value = run;
    document.title = `${untwine.views[view].title} · untwine`;
    await fill(view, run, target.state, alive);
    if (alive() && target.run && !exists && finished().length) {
      place.content.prepend(el("p", { class: "problem", role: "alert" }, `There is no run ${target.run} here. Showing ${run} instead.`));
    }
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
        document.title = `${untwine.views[view].title} · ${summary.title} on ${summary.data} · untwine`;
      }
      const keep = (now) => alive() && history.replaceState(null, "", untwine.link(view, run, now));
      const root = el("div", { class: `view ${view}` });
      if (summary && summary.tile.length) root.style.setProperty("--shape", `${summary.tile[1]} / ${summary.tile[0]}`);
      if (untwine.views[view].pictured && !summary.tile.length) return bare(run);
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

  /** The message for data that cannot be drawn. */
  function bare(run) {
    busy("");
    place.content.replaceChildren(el("p", {}, "This run is not trained on images, so this view has nothing to draw. ",
      el("a", { href: untwine.link("space", run) }, "Space"), " plots its codes, ", el("a", { href: untwine.link("factors", run) }, "Factors"), " shows what they encode."));
  }

  /** The message of a view of examples, where the data of the run is not here. */
  function absent(summary, run) {
    busy("");
    place.content.replaceChildren(parts.missing(summary), el("p", {}, el("a", { href: untwine.link("latents", run) }, "Latents"), " and ",
      el("a", { href: untwine.link("factors", run) }, "Factors"), " show what the run itself holds."));
  }

  function nothing(view, run) {
    tabs(view, run);
    busy("");
    place.content.replaceChildren(runs.length
      ? el("p", {}, "No run is finished yet. ", el("a", { href: untwine.link("study", run) }, "Study"), " shows their progress. Reload this page when one is finished.")
      : el("p", {}, "There are no runs. Train one with ", el("code", {}, "untwine train beta-tcvae sprites"), ", then start ", el("code", {}, "untwine explore"), " again."));
  }

  async function begin() {
    if (api.copy) {
      place.copy.textContent = `This is a static copy that works without a server. It includes a selection of examples. ${api.about}`;
      place.copy.hidden = false;
    } else if (location.search.includes("token=")) {
      history.replaceState(null, "", location.pathname + location.hash); // the cookie has the token; links should not
    }
    busy("Looking for runs …");
    try {
      runs = await api.json("/api/runs");
    } catch (error) {
      return untwine.problem(error);
    }
    listRuns();
    place.run.addEventListener("change", () => {
      location.hash = untwine.link(where().view || "latents", place.run.value);
    });
    window.addEventListener("hashchange", () => location.hash !== "#content" && show());
    await show();
  }

  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    place.content.focus();
  });
  window.addEventListener("error", (event) => event.message && untwine.problem(`This page failed: ${event.message}.`));
  window.addEventListener("unhandledrejection", (event) => untwine.problem(event.reason));
  begin();
})();
