"use strict";
// Colours of dots: by level, with or without order, and by number.

const colours = (() => {
  const N_CATEGORIES = 10; // colours that are told apart by name
  const RAMP_STOPS = 5;
  const MAX_SWATCHES = 24; // levels with a button each in the legend
  const TAIL = 0.01; // of the numbers at either end, which share the end's colour
  const { el } = parts;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

  /** A function from [0, 1] to colours of the theme, dark to bright, legible at both ends. */
  function ramp() {
    const stops = Array.from({ length: RAMP_STOPS }, (_, k) => channels(css(`--ramp-${k}`)));
    return (share) => {
      const place = Math.min(1, Math.max(0, share)) * (RAMP_STOPS - 1);
      const k = Math.min(RAMP_STOPS - 2, Math.floor(place));
      return `rgb(${stops[k].map((from, c) => Math.round(from + (place - k) * (stops[k + 1][c] - from))).join(", ")})`;
    };
  }

  /** A function from a level to its colour. */
  function byLevel({ count, ordered }) {
    if (ordered && count > 2) {
      const shade = ramp();
      return (level) => shade(level / (count - 1));
    }
    if (count <= N_CATEGORIES) {
      const names = Array.from({ length: count }, (_, level) => css(`--level-${level}`));
      return (level) => names[level];
    }
    const light = css("--hue-light");
    return (level) => `hsl(${(level * 137.5) % 360} ${level % 2 ? 45 : 70}% ${light})`; // neighbours far apart
  }

  /** The ends of numbers, without the outermost hundredth on either side. */
  function ends(values) {
    const known = values.filter((value) => value !== null).sort((a, b) => a - b);
    if (!known.length) return [0, 1];
    const at = (share) => known[Math.round(share * (known.length - 1))];
    return [at(TAIL), at(1 - TAIL)];
  }

  /** A function from the position of a dot to its colour. */
  function painter(colouring) {
    if (!colouring) return () => css("--accent");
    if (colouring.levels) {
      const colour = byLevel(colouring);
      return (k) => colour(colouring.levels[k]);
    }
    const [shade, missing] = [ramp(), css("--firm")];
    const [low, high] = ends(colouring.values);
    return (k) => (colouring.values[k] === null ? missing : shade((colouring.values[k] - low) / (high - low || 1)));
  }

  /** The legend: a button for each level, or the two ends of the numbers. */
  function legend(colouring, label, select) {
    if (!colouring) return [];
    const name = el("b", { class: "soft" }, label);
    if (!colouring.levels) {
      const [low, high] = ends(colouring.values);
      return [name, el("span", {}, parts.short(low)), el("span", { class: "ramp", "aria-hidden": "true" }), el("span", {}, parts.short(high)),
        colouring.running ? el("span", { class: "busy" }, "Measuring …") : null].filter(Boolean);
    }
    if (colouring.count > MAX_SWATCHES && colouring.ordered) {
      return [name, el("span", {}, colouring.levelName(0)), el("span", { class: "ramp", "aria-hidden": "true" }), el("span", {}, colouring.levelName(colouring.count - 1))];
    }
    const colour = byLevel(colouring);
    return [name, ...Array.from({ length: colouring.count }, (_, level) => {
      const members = colouring.levels.flatMap((each, k) => (each === level ? [k] : []));
      const swatch = el("i", {});
      swatch.style.background = colour(level);
      const title = `Select all with ${label} ${colouring.levelName(level)}`;
      return el("button", { type: "button", class: "level", "data-level": level, "aria-pressed": String(select.has(members)), disabled: !members.length, title, "aria-label": title,
        onclick: () => select.toggle(members, level) }, swatch, colouring.levelName(level));
    })];
  }

  return { painter, legend };
})();
