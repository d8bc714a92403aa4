// A join link. What stands behind its "#" leaves the address bar at once; the token in it is sent as the bearer of one
// request, the contribution, and is never shown.
"use strict";

(() => {
  const TOKEN = /^fbj_[A-Za-z0-9_-]{43}$/;
  const HEX = /^([0-9a-f]{2}){1,256}$/i;
  const RANDOM_BYTES = 16;
  const MOST_ID_BYTES = 128;

  const element = (id) => document.getElementById(id);
  const section = element("join");
  const form = element("join-form");
  const own = element("join-own");
  const path = `/v1/sessions/${section.dataset.session}`;
  let invited = null;
  let busy = false;

  function fill(slot, text) {
    for (const one of section.querySelectorAll(`[data-slot="${slot}"]`)) one.textContent = text;
  }

  function say(name) {
    for (const one of section.querySelectorAll("[data-said]")) one.hidden = one.dataset.said !== name;
    section.hidden = false;
  }

  const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

  // What is typed: hex as it is, anything else as its SHA-256, null where a page without TLS has none.
  async function entropy(text) {
    if (HEX.test(text)) return text.toLowerCase();
    if (!crypto.subtle) return null;
    return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
  }

  async function preview() {
    const text = own.value;
    const made = text ? await entropy(text) : "";
    if (text !== own.value) return;
    own.setCustomValidity(made === null ? section.dataset.insecure : "");
    fill("sent", made ?? "");
  }

  function anew() {
    own.value = hex(crypto.getRandomValues(new Uint8Array(RANDOM_BYTES)));
    return preview();
  }

  // What there is to say to this participant in the place of the form, or nothing.
  async function hindrance({ token, participant }) {
    if (!TOKEN.test(token) || !participant) return "broken";
    const session = await read().catch(() => null);
    if (session === null) return "unread";
    const listed = session.participants.find((one) => one.id === participant);
    const long = new TextEncoder().encode(participant).length > MOST_ID_BYTES;
    if (!listed && (!session.open || long)) return "broken";
    if (session.contributed.includes(participant)) return "already";
    if (session.state !== "sealed" || session.close_at === null) return "closed";
    return listed?.key ? "signer" : "";
  }

  async function read() {
    const answer = await fetch(path, { cache: "no-store" });
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.json();
  }

  async function start() {
    if (!location.hash.startsWith("#join=")) return;
    const said = new URLSearchParams(location.hash.slice(1));
    history.replaceState(history.state, "", location.pathname + location.search);
    const one = { token: said.get("join"), participant: said.get("participant") };
    invited = one;
    form.hidden = element("join-receipt").hidden = true;
    const why = await hindrance(one);
    if (one !== invited) return;
    if (why !== "broken") fill("who", one.participant);
    say(why);
    form.hidden = why !== "";
    if (form.hidden) invited = null;
    else await anew();
  }

  async function send(one, made) {
    const answer = await fetch(`${path}/contributions`, {
      method: "POST",
      headers: { Authorization: `Bearer ${one.token}`, "Content-Type": "application/json" },
      body: JSON.stringify({ participant: one.participant, entropy: made }),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
    const text = await answer.text();
    return { taken: answer.status === 201, text, said: JSON.parse(text) };
  }

  function keep(text, index) {
    invited = null;
    form.hidden = true;
    element("join-entry").href = `/log?entry=${index}`;
    fill("index", index.toLocaleString("en"));
    const file = element("join-file");
    URL.revokeObjectURL(file.href);
    file.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    file.download = `receipt-${section.dataset.session.slice(0, 8)}-${index}.json`;
    element("join-receipt").hidden = false;
    say("taken");
    file.focus();
  }

  async function contribute() {
    const one = invited;
    const made = await entropy(own.value);
    if (busy || one === null || made === null) return;
    busy = true;
    say("sending");
    try {
      const { taken, text, said } = await send(one, made);
      if (one !== invited) return;
      if (taken) return keep(text, said.receipt.events[0].index);
      fill("detail", said.detail);
      form.hidden = !said.retryable;
      say("refused");
    } catch {
      if (one === invited) say("lost");
    } finally {
      busy = false;
    }
  }

  own.addEventListener("input", preview);
  element("join-anew").addEventListener("click", anew);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    contribute();
  });
  addEventListener("hashchange", start);
  start();
})();
