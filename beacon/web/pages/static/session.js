// A session that goes on: countdowns, and the section anew after each of its events. The page is whole without this.
"use strict";

const AGAIN_MS = 15_000;
let offset = 0;

function countdown() {
  for (const one of document.querySelectorAll("[data-until]")) {
    const left = Math.ceil((Number(one.dataset.until) - Date.now() - offset) / 1000);
    const hours = Math.floor(left / 3600);
    const clock = [Math.floor(left / 60) % 60, left % 60].map((part) => String(part).padStart(2, "0")).join(":");
    one.textContent = left > 0 ? `${one.dataset.in} ${hours ? `${hours}:` : ""}${clock}` : one.dataset.over;
    one.hidden = false;
  }
}

function begin() {
  document.getElementById("reload")?.setAttribute("hidden", "");
  countdown();
}

async function askTime() {
  const answer = await fetch("/healthz", { cache: "no-store" });
  const given = Date.parse(answer.headers.get("Date"));
  if (Number.isFinite(given) && Math.abs(given - Date.now()) > 1500) offset = given - Date.now();
}

async function renew() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-cache" });
  if (!answer.ok) return false;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("session");
  const old = document.getElementById("session");
  const stood = document.getElementById("state").textContent;
  const open = [...old.querySelectorAll("details[open][id]")].map((one) => one.id);
  const focused = [...old.querySelectorAll("a, summary")].indexOf(document.activeElement);
  const path = focused < 0 ? null : document.activeElement.getAttribute("href");
  old.replaceWith(document.adoptNode(fresh));
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused >= 0) {
    const links = [...document.querySelectorAll("#session a, #session summary")];
    (links.find((one) => one.getAttribute("href") === path) ?? links[focused])?.focus({ preventScroll: true });
  }
  if (document.getElementById("state").textContent !== stood) {
    document.getElementById("said").textContent = document.getElementById("standing").textContent;
  }
  begin();
  return true;
}

let source = null;
let waiting = null;

function later(delay = 100) {
  waiting ??= setTimeout(async () => {
    waiting = null;
    if (!(await renew().catch(() => false))) later(AGAIN_MS);
  }, delay);
}

function follow() {
  const { session, after, events } = document.getElementById("session").dataset;
  if (source || document.hidden || !events) return;
  source = new EventSource(`/v1/sessions/${session}/events?after=${after}`);
  for (const type of events.split(" ")) source.addEventListener(type, () => later());
  source.addEventListener("end", leave);
  source.addEventListener("error", () => {
    if (source?.readyState !== EventSource.CLOSED) return;
    leave();
    setTimeout(follow, AGAIN_MS);
  });
}

// A tab that nobody sees holds no connection: browsers have few for each server.
function leave() {
  source?.close();
  source = null;
}

begin();
setInterval(countdown, 500);
askTime().then(countdown, () => {});
document.addEventListener("visibilitychange", () => (document.hidden ? leave() : follow()));
follow();
