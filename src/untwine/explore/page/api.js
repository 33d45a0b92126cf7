"use strict";
// The only ways out of this page: answers and pictures, from the server or from a copy's own files.

const api = (() => {
  const copy = window.UNTWINE_COPY || null;
  const kept = new Map(); // answers that depend on the run alone
  const LASTING = 200;

  // At most four decimals, never "-0": a copy's addresses are written in the same way.
  const number = (value) => String(+(+value).toFixed(4));

  function written(value) {
    if (Array.isArray(value)) return value.map(number).join(",");
    return typeof value === "number" ? number(value) : encodeURIComponent(value);
  }

  /** The address of something of a run: of("name", "decode.png", {code: [0, 1]}). */
  function of(run, what = "", parameters = {}) {
    const pairs = Object.entries(parameters).map(([key, value]) => `${key}=${written(value)}`);
    const place = `/api/runs/${encodeURIComponent(run)}${what ? `/${what}` : ""}`;
    return pairs.length ? `${place}?${pairs.join("&")}` : place;
  }

  const has = (address) => !copy || address in copy.answers || address in copy.pictures;

  const absent = () => new Error("This copy does not hold that; the run itself has to be opened with untwine explore.");

  async function request(address, options) {
    let response;
    try {
      response = await fetch(address, options);
    } catch {
      throw new Error("The server does not answer. Start untwine explore again and reload this page.");
    }
    if (response.ok) return response;
    const told = await response.json().catch(() => ({}));
    throw new Error(sentence(told.detail) || `The server answers with ${response.status}.`);
  }

  function sentence(detail) {
    if (typeof detail !== "string" || !detail) return "";
    const text = detail[0].toUpperCase() + detail.slice(1);
    return /[.!?…]$/.test(text) ? text : `${text}.`;
  }

  /** An answer. Those of a run are remembered; the lists of runs are always fresh. */
  function json(address) {
    if (copy) {
      return address in copy.answers ? Promise.resolve(copy.answers[address]) : Promise.reject(absent());
    }
    if (kept.has(address)) return kept.get(address);
    const answer = request(address).then((response) => response.json());
    if (address.startsWith("/api/runs/")) {
      kept.set(address, answer);
      if (kept.size > LASTING) kept.delete(kept.keys().next().value);
      answer.catch(() => kept.delete(address));
    }
    return answer;
  }

  /** The answer to something sent: a picture's bytes or an object. */
  async function send(address, body) {
    const isFile = body instanceof Blob;
    const headers = { "Content-Type": isFile ? "application/octet-stream" : "application/json" };
    const options = { method: "POST", headers, body: isFile ? body : JSON.stringify(body) };
    return (await request(address, options)).json();
  }

  /** Where a picture lies, for an <img>. */
  const source = (address) => (copy && !address.startsWith("data:") ? copy.pictures[address] || "" : address);

  /** A picture, loaded and ready to be drawn. */
  async function picture(address) {
    if (copy && !has(address)) throw absent();
    const image = new Image();
    image.src = source(address);
    try {
      await image.decode();
    } catch {
      throw await why(address);
    }
    return image;
  }

  /** Why a picture did not come: an <img> cannot say. */
  async function why(address) {
    if (copy) return new Error("A picture of this copy is missing; its folder has to stay together.");
    try {
      await request(address);
      return new Error("A picture could not be read. Reload this page.");
    } catch (error) {
      return error;
    }
  }

  return { copy: Boolean(copy), about: copy ? copy.about : "", of, has, json, send, source, picture, why, number };
})();
