// Two dice in this browser, counted beside what is due. Local play: nothing is sent, nothing is kept.
"use strict";

(() => {
  const SIDES = 6;
  const PAIRS = SIDES * SIDES;
  // Bytes from here on would make some faces likelier than others: they are thrown away (rejection sampling).
  const LIMIT = 256 - (256 % SIDES);
  const PIPS = ["0001000", "1000001", "1001001", "1100011", "1101011", "1110111"];
  const MOST_TOLD = 100000;
  const KEYS = { r: "once", g: "game", m: "many" };

  const element = (id) => document.getElementById(id);
  const bytes = new Uint8Array(1024);
  let used = bytes.length;

  function die() {
    for (;;) {
      if (used === bytes.length) {
        crypto.getRandomValues(bytes);
        used = 0;
      }
      const byte = bytes[used++];
      if (byte < LIMIT) return (byte % SIDES) + 1;
    }
  }

  let count;

  function reset() {
    count = { rolls: 0, doubles: 0, streak: 0, longest: 0, faces: Array(SIDES).fill(0), pairs: Array(PAIRS).fill(0) };
  }

  function roll() {
    const first = die();
    const second = die();
    count.rolls += 1;
    count.faces[first - 1] += 1;
    count.faces[second - 1] += 1;
    count.pairs[(first - 1) * SIDES + second - 1] += 1;
    count.streak = first === second ? count.streak + 1 : 0;
    count.doubles += first === second ? 1 : 0;
    count.longest = Math.max(count.longest, count.streak);
    return [first, second];
  }

  // The odds of at least `length` doubles in a row in `rolls` rolls: a chain over the streak that is going on.
  function streakOdds(rolls, length) {
    let state = Array(length).fill(0);
    state[0] = 1;
    let reached = 0;
    for (let done = 0; done < rolls; done += 1) {
      reached += state[length - 1] / SIDES;
      const missed = state.reduce((sum, weight) => sum + weight, 0) * (1 - 1 / SIDES);
      state = [missed, ...state.slice(0, -1).map((weight) => weight / SIDES)];
    }
    return reached;
  }

  function show(name, face) {
    element(name).querySelectorAll(".pip").forEach((pip, place) => {
      pip.classList.toggle("shown", face > 0 && PIPS[face - 1][place] === "1");
    });
  }

  const decimal = (value) => value.toLocaleString("en", { maximumFractionDigits: 1 });

  function paint() {
    element("rolls").textContent = decimal(count.rolls);
    element("doubles").textContent = decimal(count.doubles);
    element("doubles-due").textContent = decimal(count.rolls / SIDES);
    element("longest").textContent = decimal(count.longest);
    const told = count.longest > 0 && count.rolls <= MOST_TOLD;
    element("odds-line").hidden = !told;
    if (told) element("odds").textContent = `${(100 * streakOdds(count.rolls, count.longest)).toFixed(2)} %`;
    const most = Math.max(...count.faces, 1);
    count.faces.forEach((counted, place) => {
      element(`face-${place + 1}`).textContent = decimal(counted);
      element(`bar-${place + 1}`).style.inlineSize = `${(100 * counted) / most}%`;
    });
    count.pairs.forEach((counted, place) => {
      element(`pair-${Math.floor(place / SIDES) + 1}-${(place % SIDES) + 1}`).textContent = decimal(counted);
    });
    const due = { face: (2 * count.rolls) / SIDES, pair: count.rolls / PAIRS };
    document.querySelectorAll("[data-due]").forEach((cell) => {
      cell.textContent = decimal(due[cell.dataset.due]);
    });
  }

  function say(text, values) {
    element("said").textContent = text.replace(/\[(\w+)\]/g, (_, name) => values[name]);
  }

  function play(times) {
    let last = [0, 0];
    for (let done = 0; done < times; done += 1) last = roll();
    show("first", last[0]);
    show("second", last[1]);
    paint();
    const words = element("said").dataset;
    say(times === 1 ? words.roll : words.many, { first: last[0], second: last[1], times: decimal(times) });
  }

  const actions = {
    once: () => play(1),
    game: () => play(50),
    many: () => play(3600),
    anew: () => {
      reset();
      show("first", 0);
      show("second", 0);
      paint();
      say(element("said").dataset.none, {});
    },
  };

  for (const [name, act] of Object.entries(actions)) element(name).addEventListener("click", act);
  // Only while the focus is in here: a key alone must not surprise whoever speaks to the browser.
  element("dice").addEventListener("keydown", (event) => {
    const name = KEYS[event.key.toLowerCase()];
    if (name && !event.ctrlKey && !event.metaKey && !event.altKey) actions[name]();
  });
  actions.anew();
  element("dice").hidden = false;
})();
