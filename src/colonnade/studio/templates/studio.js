"use strict";
// Everything works without this file. With it the plan and its mistakes follow the form, the curve is drawn at once,
// and the progress of a run refreshes itself.

function main() {
  const form = document.getElementById("study");
  const panel = document.getElementById("panel");
  if (form && panel) followForm(form, panel);
  followRun();
}

function followForm(form, panel) {
  let timer = 0;
  let asked = null;

  async function ask() {
    if (asked) asked.abort();
    asked = new AbortController();
    panel.setAttribute("aria-busy", "true");
    clearTimeout(timer);
    timer = 0;
    try {
      const answer = await fetch("plan", {
        method: "POST",
        body: new URLSearchParams(new FormData(form)),
        signal: asked.signal,
      });
      const text = await answer.text();
      const open = new Set([...panel.querySelectorAll("details[open] > summary")].map((s) => s.textContent));
      if (answer.ok) panel.innerHTML = text;
      else panel.textContent = new DOMParser().parseFromString(text, "text/html").getElementById("refusal").textContent;
      for (const summary of panel.querySelectorAll("details > summary")) {
        summary.parentElement.open = open.has(summary.textContent);
      }
      panel.removeAttribute("aria-busy");
      fill();
      mark();
      draw(asked.signal);
    } catch (error) {
      if (error.name !== "AbortError") panel.removeAttribute("aria-busy");
    }
  }

  // What the plan proposes for fields that are still empty, but for the one that somebody has emptied to type into.
  function fill() {
    for (const proposed of panel.querySelectorAll("[data-set]")) {
      const field = form.elements[proposed.dataset.set];
      if (field && field.value === "" && field !== document.activeElement) {
        field.value = proposed.dataset.to;
        field.dispatchEvent(new Event("proposed"));
      }
    }
  }

  // Each mistake at its field.
  function mark() {
    const wrong = new Map();
    for (const link of panel.querySelectorAll("[data-fault]")) wrong.set(link.dataset.fault, link.textContent);
    for (const place of form.querySelectorAll(".fault")) {
      const name = place.id.slice(2);
      const field = document.getElementById("f-" + name);
      place.textContent = wrong.get(name) || "";
      place.hidden = !wrong.has(name);
      if (field && wrong.has(name)) field.setAttribute("aria-invalid", "true");
      else if (field) field.removeAttribute("aria-invalid");
    }
  }

  async function draw(signal) {
    const place = panel.querySelector("#curve");
    if (!place) return;
    try {
      const answer = await fetch("curve/part", { signal });
      if (answer.ok) place.innerHTML = await answer.text();
    } catch {
      // The link to the curve's own page stays.
    }
  }

  for (const range of form.querySelectorAll("input[type=range]")) {
    const field = form.elements[range.dataset.moves];
    const follow = () => {
      const value = Math.log10(Number(field.value));
      if (Number.isFinite(value)) range.value = value;
    };
    range.hidden = false;
    follow();
    range.addEventListener("input", () => {
      field.value = Number((10 ** Number(range.value)).toPrecision(3));
    });
    field.addEventListener("input", follow);
    field.addEventListener("proposed", follow);
  }

  form.addEventListener("input", (event) => {
    if (/^(draft|save)\./.test(event.target.name || "")) return;
    clearTimeout(timer);
    timer = setTimeout(ask, 250);
  });
  // A link to another page takes along what was typed last.
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[href]");
    if (!link || !timer) return;
    event.preventDefault();
    await ask();
    location.href = link.href;
  });
  asked = new AbortController();
  draw(asked.signal);
}

function followRun() {
  const state = document.getElementById("state");
  if (!state || !state.dataset.poll) return;
  const again = setInterval(async () => {
    const answer = await fetch("run/state");
    const text = await answer.text();
    if (answer.headers.get("X-Done") === "true") {
      clearInterval(again);
      location.reload();
    } else if (!state.contains(document.activeElement)) {
      // Whoever is about to cancel keeps the button that has the focus.
      state.innerHTML = text;
    }
  }, 500);
}

main();
