"use strict";
// Components that several views share.

const untwine = { views: {}, problem() {}, settle() {} };

const parts = (() => {
  const FRAMES = CONSTANTS.frames; // of a traversal on the page
  const COPY_FRAMES = CONSTANTS.copyFrames; // of a traversal in a copy, some of which are frames of the page
  const COPY_STRIDE = (COPY_FRAMES - 1) / (FRAMES - 1);
  const MIN_SHARE = 0.1; // of a factor's entropy, from which a latent is labelled with it

  /** An element: el("button", {class: "quiet", onclick: go}, "Go"). */
  function el(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value === true) element.setAttribute(key, "");
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
    return element;
  }

  const percent = (share) => (share > 0 && share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);

  /** A number as text with a typographic minus. */
  const minus = (text) => text.replaceAll("-", "−");

  /** A number for reading: three or four significant digits. */
  function short(value) {
    if (!Number.isFinite(value)) return "–";
    if (Number.isInteger(value)) return minus(value.toLocaleString("en"));
    const size = Math.abs(value);
    if (size >= 1000) return minus(Math.round(value).toLocaleString("en"));
    return minus(size < 0.0001 ? value.toExponential(1) : value.toFixed(size >= 10 ? 1 : size >= 0.1 ? 3 : 4));
  }

  const name = (latent) => `z${latent.number}`;
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

  const plain = (text) => text.replaceAll("_", " ");
  const MANY_FACTORS = 10; // from which on only an example's non-zero levels are listed

  /** What a level of a factor is called: "heart"; its number where it has no name. */
  function levelName(factor, level, summary) {
    const known = summary.factors.find((each) => each.name === factor);
    return known && known.level_names.length ? known.level_names[level] : String(level);
  }

  /** The levels of an example: "shape heart · scale 0"; of many attributes, only those it has. */
  function levels(of, summary) {
    const pairs = Object.entries(of);
    const words = ([factor, level]) => `${plain(factor)} ${levelName(factor, level, summary)}`;
    if (pairs.length < MANY_FACTORS) return pairs.map(words).join(" · ");
    const isBinary = new Set(summary.factors.filter((factor) => factor.levels === 2).map((factor) => factor.name));
    return pairs.filter(([, level]) => level > 0).map((pair) => (isBinary.has(pair[0]) ? plain(pair[0]) : words(pair))).join(" · ");
  }

  /** What an example is called: its file or name, or its number. */
  const exampleName = ({ index, name: named }) => named || `Example ${index}`;

  /** How informative a latent is; an estimate is marked. */
  const nats = (latent) => `${latent.exact ? "" : "≈ "}${latent.nats.toFixed(2)} nats`;

  /** What is known of a latent: ["style", "0.54 nats", "scale 80 %"]. */
  function words(latent) {
    const factor = latent.factor && latent.share > MIN_SHARE ? `${plain(latent.factor)} ${percent(latent.share)}` : "";
    return [latent.part === "z" ? "" : latent.part, nats(latent), factor].filter(Boolean);
  }

  const about = (latent) => words(latent).join(" · ");

  /** The same as an element, in which an estimate has a title. */
  function latentLabel(latent, attributes = {}) {
    const pieces = words(latent).map((word) => (word === nats(latent) && !latent.exact ? el("span", { title: "estimated" }, word) : word));
    return el("span", attributes, pieces.flatMap((piece, k) => (k ? [" · ", piece] : [piece])));
  }

  /** A picture; if it fails to load, the page shows why. */
  function image(address, alt, attributes = {}) {
    const failed = async () => untwine.problem(await api.pictureError(address));
    return el("img", { class: "pixels", src: api.source(address), alt, onerror: failed, ...attributes });
  }

  function canvas(label, attributes = {}) {
    return el("canvas", { class: "pixels", role: "img", "aria-label": label, width: 1, height: 1, ...attributes });
  }

  /** Draw one tile of a sheet without gaps; the canvas takes the tile's size. */
  function tile(onto, sheet, { row = 0, column = 0, rows = 1, columns = 1 } = {}) {
    const width = sheet.naturalWidth / columns;
    const height = sheet.naturalHeight / rows;
    onto.width = width;
    onto.height = height;
    onto.getContext("2d").drawImage(sheet, column * width, row * height, width, height, 0, 0, width, height);
  }

  /** Draw a row of a sheet as a film: frames with a small gap between them. */
  function film(onto, sheet, { row = 0, rows = 1, columns = FRAMES, every = 1, isTurned = false } = {}) {
    const width = sheet.naturalWidth / columns;
    const height = sheet.naturalHeight / rows;
    const count = Math.floor((columns - 1) / every) + 1;
    const gap = Math.max(1, Math.round(width / 16));
    onto.width = count * (width + gap);
    onto.height = height;
    const pen = onto.getContext("2d");
    for (let k = 0; k < count; k += 1) {
      const place = isTurned ? count - 1 - k : k;
      pen.drawImage(sheet, k * every * width, row * height, width, height, place * (width + gap) + gap / 2, 0, width, height);
    }
  }

  /** Coalesce calls: one runs at a time, and of those that wait only the newest is run. */
  function newest(work, alive = () => true) {
    let waiting = null;
    let running = false;
    return async function ask(...values) {
      waiting = values;
      if (running) return;
      running = true;
      while (waiting) {
        const now = waiting;
        waiting = null;
        try {
          await work(...now);
        } catch (error) {
          if (alive()) untwine.problem(error);
        }
      }
      running = false;
    };
  }

  /** Debounce: run once no call has come for a moment. */
  function later(work, pause = 150) {
    let timer = 0;
    return (...values) => {
      clearTimeout(timer);
      timer = setTimeout(() => work(...values), pause);
    };
  }

  /** A row of small pictures of which one is chosen. */
  function picker(label, entries, choose) {
    const buttons = entries.map(({ key, picture, text, title }) =>
      el("button", { type: "button", class: picture ? "thumb" : "", "data-key": key, "aria-pressed": "false", title: title || text,
        onclick: () => choose(key) },
      picture ? image(picture, text, { loading: "lazy" }) : text));
    const element = el("div", { class: "picker", role: "group", "aria-label": label }, buttons);
    const mark = (key) => buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.key === key)));
    return { element, mark };
  }

  /** A labelled choice. */
  function select(label, options, value, choose) {
    const element = el("select", { onchange: () => choose(element.value) },
      options.map(([key, text]) => el("option", { value: key }, text)));
    element.value = value;
    return el("label", { class: "choose" }, el("span", {}, label), " ", element);
  }

  const starts = {
    /** The address of a start: "example-5" or "prior-2". */
    address(run, key) {
      const [kind, which] = key.split(/-(.*)/);
      return api.of(run, "start", kind === "prior" ? { seed: +which } : { index: +which });
    },
    label(key, name = "") {
      const [kind, which] = key.split(/-(.*)/);
      if (kind === "upload") return "your picture";
      return kind === "prior" ? `draw ${+which + 1} from the prior` : name || `example ${which}`;
    },
    isKey: (key) => /^(example|prior)-\d{1,9}$/.test(key || ""),
    /** Examples to start from; in a copy, those that it includes. */
    async examples(run) {
      const examples = await api.json(api.of(run, "examples", { count: CONSTANTS.examples, seed: 0 }));
      return examples.filter((example) => api.has(starts.address(run, `example-${example.index}`)));
    },
    entries: (run, summary, examples) => examples.map((example) => ({
      key: `example-${example.index}`,
      picture: summary.tile.length ? api.of(run, "image.png", { index: example.index }) : "",
      text: exampleName(example),
      title: [exampleName(example), levels(example.levels, summary)].filter(Boolean).join(" · "),
    })),
    draws: (run) => Array.from({ length: CONSTANTS.copyDraws }, (_, seed) => seed).filter((seed) => api.has(starts.address(run, `prior-${seed}`))),
  };

  const order = (summary) => summary.latents.map((latent) => latent.number);

  const sheets = new Map(); // of a copy, loaded once
  const MAX_SHEETS = 8;

  /** The traversals of latents from a code: a picture with a row each, or rows of numbers. */
  function films(run, summary, code, numbers) {
    const kind = summary.tile.length ? "png" : "json";
    const address = api.of(run, `traversals.${kind}`, { code, latents: numbers, steps: api.copy ? COPY_FRAMES : FRAMES });
    if (kind === "json") return api.json(address);
    if (!api.copy) return api.picture(address);
    if (!sheets.has(address)) {
      if (sheets.size > MAX_SHEETS) sheets.clear();
      sheets.set(address, api.picture(address));
    }
    return sheets.get(address);
  }

  /** The place of a film: a canvas for images, an element for lines. */
  const strip = (summary, attributes = {}) => (summary.tile.length
    ? el("canvas", { width: FRAMES * (summary.tile[1] + 2), height: summary.tile[0], ...attributes, class: "film" })
    : el("div", { ...attributes, class: "film lines" }));

  /** A function that draws the traversals of latents from a code: draw(strip, number). */
  async function traversals(run, summary, code, numbers) {
    const all = api.copy ? order(summary) : numbers; // a copy has all latents in one sheet
    const sheet = await films(run, summary, code, all);
    const every = api.copy ? COPY_STRIDE : 1;
    if (!summary.tile.length) {
      return (onto, latent, isTurned = false) =>
        rows.lines(onto, summary, sheet[all.indexOf(latent)].filter((_, k) => k % every === 0), isTurned);
    }
    const shape = { rows: all.length, columns: api.copy ? COPY_FRAMES : FRAMES, every };
    return (onto, latent, isTurned = false) => film(onto, sheet, { ...shape, row: all.indexOf(latent), isTurned });
  }

  /** Where a decoded example is shown: an image, or the values of a row with marks for another one. */
  function screen(label, summary) {
    if (!summary.tile.length) {
      const list = rows.list(summary, label);
      let other = null;
      return { element: list.element, values: (now) => list.fill(now, other), compare: (row) => { other = row; } };
    }
    const element = canvas(label);
    return { element, picture: (sheet, place) => tile(element, sheet, place), compare() {} };
  }

  /** A code that sliders move, and what it decodes to. A copy moves one latent at a time, frame by frame. */
  function hand(run, summary, onto, alive) {
    let origin = [];
    let code = [];
    let moved = null;
    const byNumber = new Map(summary.latents.map((latent) => [latent.number, latent]));

    const whole = async (now) => (onto.values
      ? onto.values(await api.json(api.of(run, "decode.json", { code: now })))
      : onto.picture(await api.picture(api.of(run, "decode.png", { code: now }))));

    /** One frame of a film of a copy. */
    async function frame(now, latent) {
      const all = order(summary);
      const sheet = await films(run, summary, origin, all);
      const { low, high } = byNumber.get(latent);
      const column = Math.round((COPY_FRAMES - 1) * Math.min(1, Math.max(0, (now[latent] - low) / (high - low))));
      if (onto.values) onto.values(sheet[all.indexOf(latent)][column]);
      else onto.picture(sheet, { row: all.indexOf(latent), rows: all.length, column, columns: COPY_FRAMES });
    }

    const paint = newest(async (now, latent) => {
      await (!api.copy || latent === null ? whole(now) : frame(now, latent));
      if (alive()) untwine.settle();
    }, alive);

    return {
      get code() { return code; },
      get origin() { return origin; },
      moved: () => [...code.keys()].filter((number) => code[number] !== origin[number]),
      begin(start) {
        onto.compare(start.row ? start.row.values : null);
        origin = start.code.map((value) => +api.number(value));
        code = [...origin];
        moved = null;
        return paint([...code], null);
      },
      set(number, value) {
        if (api.copy) code = [...origin];
        code[number] = +api.number(value);
        moved = code[number] === origin[number] && api.copy ? null : number;
        return paint([...code], moved);
      },
      reset() {
        code = [...origin];
        moved = null;
        return paint([...code], null);
      },
    };
  }

  /** A slider from low to high; arrows move it by a fortieth, with Shift by a two-hundredth. */
  function slider(label, low, high, move) {
    const span = high - low;
    const input = el("input", { type: "range", min: low, max: high, step: api.copy ? span / (COPY_FRAMES - 1) : "any", "aria-label": label });
    const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -5, PageUp: 5 };
    const show = (value) => {
      input.value = value;
      input.setAttribute("aria-valuetext", api.number(value));
    };
    const set = (value) => {
      const rounded = +api.number(value);
      show(rounded);
      move(rounded);
    };
    input.addEventListener("input", () => set(+input.value));
    input.addEventListener("keydown", (event) => {
      const unit = span / (api.copy ? COPY_FRAMES - 1 : event.shiftKey ? 200 : 40);
      const value = event.key === "Home" ? low : event.key === "End" ? high
        : event.key in step ? Math.min(high, Math.max(low, +input.value + step[event.key] * unit)) : null;
      if (value === null || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      set(value);
    });
    return { input, show };
  }

  /** A film above its slider, the thumb under the matching frame. */
  function reel(label, { low, high }, summary, move) {
    const { input, show } = slider(label, low, high, move);
    const above = strip(summary, { "aria-hidden": "true" });
    above.addEventListener("click", (event) => {
      const area = above.getBoundingClientRect();
      const frame = Math.min(FRAMES - 1, Math.max(0, Math.floor(FRAMES * (event.clientX - area.left) / area.width)));
      const value = +api.number(low + frame * (high - low) / (FRAMES - 1));
      show(value);
      move(value);
    });
    return { element: el("div", { class: "reel" }, above, input), strip: above, input, show };
  }

  /** Why a run has no examples, and what to type to have them; null where it has some. */
  const missing = (summary) => (summary.missing ? el("p", { class: "note missing" }, api.sentence(summary.missing)) : null);

  // ---- words and small elements of the frame ----

  const isTouch = window.matchMedia("(hover: none)").matches;
  const click = isTouch ? "Tap" : "Click"; // to begin a sentence

  /** A duration in a unit that suits its size: "42 s", "3 min", "2.2 h". */
  function duration(seconds) {
    const [size, unit, digits] = [[86400, "days", 1], [3600, "h", 1], [60, "min", 0]].find(([each]) => seconds >= 1.5 * each) || [1, "s", 0];
    return `${(seconds / size).toFixed(digits)} ${unit}`;
  }

  /** A labelled box to tick. */
  function check(label, isOn, change) {
    const box = el("input", { type: "checkbox", onchange: () => change(box.checked) });
    box.checked = isOn;
    return el("label", { class: "check" }, box, " ", label);
  }

  async function toClipboard(text, element) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const range = document.createRange(); // without TLS, or from a file
    range.selectNodeContents(element);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    if (!document.execCommand("copy")) throw new Error("not allowed");
    return undefined;
  }

  /** A command with a button that copies it. */
  function command(text) {
    const code = el("pre", {}, text);
    const button = el("button", { type: "button", class: "copier", "aria-label": "Copy the command",
      onclick: () => toClipboard(text, code).then(() => say("Copied"), () => say("Select it and copy")) }, "Copy");
    function say(words) {
      button.textContent = words;
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    }
    return el("div", { class: "command" }, code, button);
  }

  /** What to do where there is nothing to show: a sentence, and a command to run. */
  const empty = (sentence, text = "") => el("div", { class: "card empty" }, el("p", {}, sentence), text ? command(text) : null);

  /** Rows of cells as a file that the browser saves. No text is read as a formula by a spreadsheet. */
  function saveCsv(name, rows) {
    const cell = (value) => {
      const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
      return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    save(name, `${rows.map((row) => row.map(cell).join(",")).join("\n")}\n`, "text/csv");
  }

  /** A file that the browser saves. */
  function save(name, content, type) {
    const link = el("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  /**
   * Repeat work while the page is looked at. It returns the milliseconds until its next turn, or 0 to rest until
   * `start` is called. Nothing is asked of the server while the tab is hidden.
   */
  function polling(work, alive = () => true) {
    let timer = 0;
    let isBusy = false;
    async function turn() {
      timer = 0;
      if (!alive() || document.hidden) return;
      isBusy = true;
      const pause = await work().catch(() => 10_000);
      isBusy = false;
      if (pause) start(pause);
    }
    function start(pause = 0) {
      if (!timer && !isBusy && alive()) timer = setTimeout(turn, pause);
    }
    document.addEventListener("visibilitychange", function seen() {
      if (!alive()) document.removeEventListener("visibilitychange", seen);
      else if (!document.hidden) start();
    });
    return { start };
  }

  const section = (title, sentence, ...children) => el("section", {},
    el("h2", {}, title), sentence ? el("p", { class: "soft" }, sentence) : null, ...children);

  return { el, percent, short, minus, name, plural, plain, levels, levelName, about, latentLabel, image, canvas, tile, film, newest, later, picker, select, starts,
    traversals, strip, screen, hand, reel, slider, section, missing, exampleName, isTouch, click, duration, check, command, empty, save, saveCsv, polling, FRAMES, COPY_FRAMES, MIN_SHARE };
})();
