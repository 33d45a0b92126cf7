"use strict";
// A scatter plot on a canvas: zoom, pan, point, choose. It knows nothing of examples.

/**
 * plot({point, click, choose, moved}): the place of dots, with callbacks
 * point(k): the dot pointed at; click(k, more): k is -1 beside all dots; choose(ks, more): a box was drawn;
 * moved(): zoom or place changed.
 */
function scatterPlot({ point, click, choose, moved }) {
  const PAD = 16;
  const REACH = 28; // pixels between the pointer and a dot
  const MAX_ZOOM = 60;
  const STEP = 1.5; // of a button or key
  const TILE = 26; // pixels of an image as a dot, before zooming
  const { el } = parts;
  const canvas = el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "scatter plot" });
  const element = el("div", { class: "plot" }, canvas);
  const pen = canvas.getContext("2d");
  let [width, height] = [300, 300]; // in CSS pixels
  let places = []; // [x, y] of all dots, each from 0 to 1
  let spots = []; // [x, y] of all dots on the canvas
  let paint = () => "#888";
  let chosen = new Set();
  let current = -1;
  let images = null; // draws the image of a dot: images(pen, k, x, y, size)
  let zoom = 1;
  let centre = [0.5, 0.5];
  let tool = "select"; // or "move": what a drag does
  let due = false;

  // ---- drawing ----

  function lay() {
    spots = places.map(([x, y]) => [width / 2 + (x - centre[0]) * zoom * (width - 2 * PAD), height / 2 - (y - centre[1]) * zoom * (height - 2 * PAD)]);
  }

  function draw() {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      paintAll();
    });
  }

  const seen = ([x, y], edge = 20) => x > -edge && y > -edge && x < width + edge && y < height + edge;

  function paintAll() {
    const ratio = canvas.width / width;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const radius = (width < 500 ? 3 : places.length > 3000 ? 3.2 : 4) * Math.min(1.8, zoom ** 0.25);
    const isChosen = (k) => chosen.has(k);
    for (const front of chosen.size ? [false, true] : [true]) {
      pen.globalAlpha = chosen.size && !front ? 0.16 : 0.85;
      spots.forEach((spot, k) => (!chosen.size || isChosen(k) === front) && seen(spot) && dot(spot, k, radius));
    }
    pen.globalAlpha = 1;
    const covered = new Map(); // the images drawn, by cell
    if (images) spots.forEach((spot, k) => (!chosen.size || isChosen(k)) && seen(spot) && tile(spot, k, covered));
    if (current >= 0 && spots[current]) ring(spots[current]);
    if (box) frame();
  }

  function dot([x, y], k, radius) {
    pen.fillStyle = paint(k);
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.fill();
  }

  /** Draw the image of a dot, unless another image is in its place. */
  function tile([x, y], k, covered) {
    const size = Math.min(64, TILE * Math.max(1, zoom ** 0.4));
    const [column, row] = [Math.floor(x / size), Math.floor(y / size)];
    for (let c = column - 1; c <= column + 1; c += 1) {
      for (let r = row - 1; r <= row + 1; r += 1) {
        const other = covered.get(`${c},${r}`);
        if (other && Math.abs(other[0] - x) < size && Math.abs(other[1] - y) < size) return;
      }
    }
    covered.set(`${column},${row}`, [x, y]);
    pen.fillStyle = paint(k);
    pen.fillRect(x - size / 2 - 2, y - size / 2 - 2, size + 4, size + 4);
    images(pen, k, x - size / 2, y - size / 2, size);
  }

  const css = (name) => getComputedStyle(element).getPropertyValue(name).trim();

  function ring([x, y]) {
    pen.strokeStyle = css("--ink");
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(x, y, 9, 0, 2 * Math.PI);
    pen.stroke();
  }

  let box = null; // [[x, y], [x, y]] while it is drawn

  function frame() {
    const [[a, b], [c, d]] = box;
    pen.fillStyle = `rgba(${css("--fill")}, .12)`;
    pen.strokeStyle = css("--accent");
    pen.lineWidth = 1;
    pen.setLineDash([4, 3]);
    pen.fillRect(Math.min(a, c), Math.min(b, d), Math.abs(a - c), Math.abs(b - d));
    pen.strokeRect(Math.min(a, c), Math.min(b, d), Math.abs(a - c), Math.abs(b - d));
    pen.setLineDash([]);
  }

  // ---- zoom and pan ----

  function look(nextZoom, nextCentre) {
    zoom = Math.min(MAX_ZOOM, Math.max(1, nextZoom));
    const margin = 0.5 / zoom;
    centre = nextCentre.map((value) => (zoom === 1 ? 0.5 : Math.min(1.05 - margin * 0.5, Math.max(-0.05 + margin * 0.5, value))));
    canvas.style.touchAction = zoom > 1 || tool === "move" ? "none" : "pan-y";
    lay();
    draw();
    moved();
  }

  /** Zoom by a factor; what is at a place of the canvas stays there. */
  function zoomBy(factor, [x, y] = [width / 2, height / 2]) {
    const next = Math.min(MAX_ZOOM, Math.max(1, zoom * factor));
    const away = [(x - width / 2) / (width - 2 * PAD), -(y - height / 2) / (height - 2 * PAD)];
    look(next, centre.map((value, k) => value + away[k] / zoom - away[k] / next));
  }

  const panBy = (dx, dy) => look(zoom, [centre[0] - dx / zoom / (width - 2 * PAD), centre[1] + dy / zoom / (height - 2 * PAD)]);

  canvas.addEventListener("wheel", (event) => {
    if (zoom === 1 && event.deltaY > 0) return; // the page scrolls
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), at(event));
  }, { passive: false });

  // ---- pointer ----

  const at = (event) => {
    const area = canvas.getBoundingClientRect();
    return [(event.clientX - area.left) * width / area.width, (event.clientY - area.top) * height / area.height];
  };
  const pointers = new Map(); // that are down, by id
  let corner = null; // where a drag began
  let isDrag = false;
  let pinch = 0; // distance of two fingers

  function nearest([x, y], reach = REACH) {
    let best = -1;
    let least = reach ** 2;
    spots.forEach(([px, py], k) => {
      const far = (px - x) ** 2 + (py - y) ** 2;
      if (far < least) [best, least] = [k, far];
    });
    return best;
  }

  const spread = () => {
    const [a, b] = [...pointers.values()];
    return [Math.hypot(a[0] - b[0], a[1] - b[1]), [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2]];
  };
  const pans = (event) => tool === "move" || event.pointerType !== "mouse" || event.buttons === 4;

  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, at(event));
    corner = at(event);
    isDrag = false;
    if (pointers.size === 2) [pinch] = spread();
    if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
    if (event.button === 1) event.preventDefault();
  });
  canvas.addEventListener("pointermove", (event) => {
    const here = at(event);
    const before = pointers.get(event.pointerId);
    if (before) pointers.set(event.pointerId, here);
    if (pointers.size === 2) return pinched();
    if (corner && before && (isDrag || Math.hypot(here[0] - corner[0], here[1] - corner[1]) > 5)) {
      isDrag = true;
      if (pans(event)) return panBy(here[0] - before[0], here[1] - before[1]);
      box = [corner, here];
      return draw();
    }
    const near = nearest(here);
    if (near >= 0 && near !== current) show(near);
  });

  function pinched() {
    const [distance, middle] = spread();
    isDrag = true;
    if (pinch > 0 && distance > 0) zoomBy(distance / pinch, middle);
    pinch = distance;
  }

  canvas.addEventListener("pointerup", (event) => {
    const here = at(event);
    if (box) choose(within(...box), event.shiftKey);
    else if (corner && !isDrag && event.button === 0) clicked(nearest(here), event.shiftKey || event.pointerType !== "mouse");
    release(event);
  });
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("touchstart", (event) => event.touches.length > 1 && event.preventDefault(), { passive: false });

  function release(event) {
    pointers.delete(event.pointerId);
    if (!pointers.size) [corner, box, pinch] = [null, null, 0];
    draw();
  }

  function clicked(k, more) {
    if (k >= 0) show(k);
    click(k, more);
  }

  const within = ([a, b], [c, d]) => spots.flatMap(([x, y], k) =>
    (x >= Math.min(a, c) && x <= Math.max(a, c) && y >= Math.min(b, d) && y <= Math.max(b, d) ? [k] : []));

  // ---- keyboard ----

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (way && event.shiftKey) panBy(-60 * way[0], -60 * way[1]);
    else if (way) show(current < 0 ? 0 : step(way));
    else if (event.key === "+" || event.key === "=") zoomBy(STEP);
    else if (event.key === "-") zoomBy(1 / STEP);
    else if (event.key === "0") look(1, [0.5, 0.5]);
    else if (event.key === " " || event.key === "Enter") clicked(current < 0 ? 0 : current, true);
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

  function show(k) {
    current = k;
    if (k >= 0 && !seen(spots[k], -5)) look(zoom, [...places[k]]);
    draw();
    point(k);
  }

  // ---- size ----

  function resize() {
    width = Math.max(260, element.clientWidth);
    height = Math.round(Math.min(width, Math.max(340, Math.min(0.72 * width, window.innerHeight - 430))));
    const ratio = window.devicePixelRatio || 1;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    canvas.style.height = `${height}px`;
    lay();
    draw();
  }

  const scaled = (values) => {
    const low = values.reduce((a, b) => Math.min(a, b), Infinity);
    const span = values.reduce((a, b) => Math.max(a, b), -Infinity) - low || 1;
    return values.map((value) => (value - low) / span);
  };

  return {
    element, canvas, resize, draw, show, zoomBy, look,
    get view() { return zoom > 1 ? [zoom, ...centre] : null; },
    get current() { return current; },
    reset: () => look(1, [0.5, 0.5]),
    use(next) { tool = next; look(zoom, centre); canvas.classList.toggle("moves", tool === "move"); },
    places(x, y) {
      const [across, up] = [scaled(x), scaled(y)];
      places = across.map((value, k) => [value, up[k]]);
      if (current >= places.length) current = -1;
      lay();
      draw();
    },
    colour(next) { paint = next; draw(); },
    select(next) { chosen = next; draw(); },
    images(next) { images = next; draw(); },
  };
}
