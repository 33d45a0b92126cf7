"use strict";
// The frame of the page: which run, which view, and what goes wrong. The address after # keeps all of it.

(() => {
  const { el } = parts;
  const VIEWS = ["latents", "images", "between", "space", "factors", "compare", "study"];
  const place = Object.fromEntries(["run", "views", "about", "problem", "busy", "content", "copy"]
    .map((id) => [id, document.getElementById(id)]));
  let runs = [];
  let turn = 0; // grows with every view shown, so that what comes late can tell

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
    const [view, run] = path.split("/").map(decoded);
    return { view: VIEWS.includes(view) ? view : "", run: run || "", state: new URLSearchParams(query || "") };
  }

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  const finished = () => runs.filter((run) => run.state === "finished");

  /** Fill the list of runs, those of the same data together. */
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

  function about(facts) {
    const rows = facts.parameters.map(([name, value]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value)));
    place.about.replaceChildren(
      el("h1", {}, `${facts.title} on ${facts.data}`),
      el("p", { class: "soft lead" }, facts.about),
      el("details", { class: "made" }, el("summary", {}, "How it was made"),
        el("div", { class: "card" }, el("table", { class: "plain" }, rows), el("pre", {}, facts.command))));
  }

  async function show() {
    const mine = ++turn;
    const alive = () => mine === turn;
    const asked = where();
    const view = asked.view || "latents";
    const known = finished().some((run) => run.name === asked.run);
    const run = known || !finished().length ? asked.run : finished()[0].name;
    untwine.settle();
    place.content.replaceChildren();
    delete place.content.dataset.shown;
    if (!finished().length && view !== "study") return nothing(view, run);
    tabs(view, run);
    place.run.value = run;
    document.title = `${untwine.views[view].title} · untwine`;
    await fill(view, run, asked.state, alive);
    if (alive() && asked.run && !known && finished().length) {
      place.content.prepend(el("p", { class: "problem", role: "alert" }, `There is no run ${asked.run} here; this is ${run}.`));
    }
  }

  async function fill(view, run, state, alive) {
    const alone = untwine.views[view].alone; // needs no run
    place.about.hidden = Boolean(alone);
    busy(alone ? "Reading the runs …" : "Opening the model …");
    let facts = null;
    try {
      if (!alone) facts = await api.json(api.of(run));
      if (!alive()) return;
      if (facts) {
        about(facts);
        document.title = `${untwine.views[view].title} · ${facts.title} on ${facts.data} · untwine`;
      }
      const keep = (now) => alive() && history.replaceState(null, "", untwine.link(view, run, now));
      const root = el("div", { class: `view ${view}` });
      if (facts && facts.tile.length) root.style.setProperty("--shape", `${facts.tile[1]} / ${facts.tile[0]}`);
      if (untwine.views[view].pictured && !facts.tile.length) return bare(run);
      busy("Computing …");
      await untwine.views[view].show(root, { run, facts, state, keep, alive });
      if (!alive()) return;
      place.content.replaceChildren(root);
      place.content.dataset.shown = `${view}/${run}`;
      root.dispatchEvent(new Event("shown"));
      busy("");
    } catch (error) {
      if (!alive()) return;
      if (!facts) place.about.replaceChildren();
      untwine.problem(error);
    }
  }

  /** For data that cannot be shown as pictures. */
  function bare(run) {
    busy("");
    place.content.replaceChildren(el("p", {}, "This data is not images, so there is nothing to draw here. ",
      el("a", { href: untwine.link("space", run) }, "Space"), " shows where its codes lie, ", el("a", { href: untwine.link("factors", run) }, "Factors"), " what they know."));
  }

  function nothing(view, run) {
    tabs(view, run);
    busy("");
    place.content.replaceChildren(runs.length
      ? el("p", {}, "None of these runs is finished yet. ", el("a", { href: untwine.link("study", run) }, "Study"), " shows how far they are; reload this page when one is.")
      : el("p", {}, "There are no runs here. Train one with ", el("code", {}, "untwine train beta-tcvae sprites"), ", then start untwine explore again."));
  }

  async function begin() {
    if (api.copy) {
      place.copy.textContent = `This is a copy that needs no server: it holds some examples of everything, not all. ${api.about}`;
      place.copy.hidden = false;
    } else if (location.search.includes("token=")) {
      history.replaceState(null, "", location.pathname + location.hash); // a cookie has it now; links should not
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
  window.addEventListener("error", (event) => event.message && untwine.problem(`Something in this page broke: ${event.message}.`));
  window.addEventListener("unhandledrejection", (event) => untwine.problem(event.reason));
  begin();
})();
