"use strict";
// Requests: answers and pictures, from the server or from the files of an exported copy.

const api = (() => {
  const copy = window.UNTWINE_COPY || null;
  const cache = new Map(); // answers of runs by address, which do not change
  const MAX_CACHED = 200;

  // Never "-0"; the exporter writes addresses in the same way.
  const number = (value) => String(+(+value).toFixed(CONSTANTS.decimals));

  function encode(value) {
    if (Array.isArray(value)) return value.map(number).join(",");
    return typeof value === "number" ? number(value) : encodeURIComponent(value);
  }

  /** The address of a run, or of something of it: of("name", "decode.png", {code: [0, 1]}). */
  function of(run, what = "", parameters = {}) {
    const pairs = Object.entries(parameters).map(([key, value]) => `${key}=${encode(value)}`);
    const place = `/api/runs/${encodeURIComponent(run)}${what ? `/${what}` : ""}`;
    return pairs.length ? `${place}?${pairs.join("&")}` : place;
  }

  const has = (address) => !copy || address in copy.answers || address in copy.pictures;

  const absent = () => new Error("Not included in this export. Open the run with `untwine explore`.");

  async function request(address, options) {
    let response;
    try {
      response = await fetch(address, options);
    } catch {
      throw new Error("The server does not respond. Start `untwine explore` again and reload this page.");
    }
    if (response.ok) return response;
    const refusal = await response.json().catch(() => ({}));
    throw new Error(sentence(refusal.detail) || `The server responded with status ${response.status}.`);
  }

  function sentence(detail) {
    if (typeof detail !== "string" || !detail) return "";
    const text = detail[0].toUpperCase() + detail.slice(1);
    return /[.!?…]$/.test(text) ? text : `${text}.`;
  }

  /** An answer. Answers about one run are cached, unless a fresh one is asked for; lists of runs are always fetched. */
  function json(address, { fresh = false } = {}) {
    if (copy) {
      return address in copy.answers ? Promise.resolve(copy.answers[address]) : Promise.reject(absent());
    }
    if (!fresh && cache.has(address)) return cache.get(address);
    const answer = request(address).then((response) => response.json());
    if (address.startsWith("/api/runs/") && !fresh) {
      cache.set(address, answer);
      if (cache.size > MAX_CACHED) cache.delete(cache.keys().next().value);
      answer.catch(() => cache.delete(address));
    }
    return answer;
  }

  /** An answer that changes by itself, such as a progress. */
  const fresh = (address) => (copy ? json(address) : request(address).then((response) => response.json()));

  /** Forget the answers whose address begins like this. */
  function forget(address) {
    for (const key of cache.keys()) if (key.startsWith(address)) cache.delete(key);
  }

  /** The answer to a file or an object that is sent. */
  async function send(address, body) {
    const isFile = body instanceof Blob;
    const headers = { "Content-Type": isFile ? "application/octet-stream" : "application/json" };
    const options = { method: "POST", headers, body: isFile ? body : JSON.stringify(body) };
    return (await request(address, options)).json();
  }

  /** The source of a picture for an <img>. */
  const source = (address) => (copy && !address.startsWith("data:") ? copy.pictures[address] || "" : address);

  /** A picture, loaded and ready to be drawn. */
  async function picture(address) {
    if (copy && !has(address)) throw absent();
    const image = new Image();
    image.src = source(address);
    try {
      await image.decode();
    } catch {
      throw await pictureError(address);
    }
    return image;
  }

  /** The error behind a picture that failed to load, which an <img> does not report. */
  async function pictureError(address) {
    if (copy) return new Error("A picture of this export is missing. Keep the files of its folder together.");
    try {
      await request(address);
      return new Error("A picture could not be read. Reload this page.");
    } catch (error) {
      return error;
    }
  }

  return { copy: Boolean(copy), about: copy ? copy.about : "", of, has, sentence, json, fresh, forget, send, source, picture, pictureError, number };
})();
