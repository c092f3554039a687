"use strict";
// Everything works without this file; with it the plan follows the form as it changes.

function plan() {
  const form = document.getElementById("study");
  const panel = document.getElementById("panel");
  if (!form || !panel) return;
  let timer = 0;
  let asked = null;

  async function ask() {
    if (asked) asked.abort();
    asked = new AbortController();
    panel.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch("plan", {
        method: "POST",
        body: new URLSearchParams(new FormData(form)),
        signal: asked.signal,
      });
      panel.innerHTML = await answer.text();
      panel.removeAttribute("aria-busy");
    } catch (error) {
      if (error.name !== "AbortError") panel.removeAttribute("aria-busy");
    }
  }

  for (const range of form.querySelectorAll("input[type=range]")) {
    const field = form.elements[range.dataset.moves];
    const follow = () => {
      const value = Math.log10(Number(field.value));
      if (Number.isFinite(value)) range.value = value;
    };
    follow();
    range.addEventListener("input", () => {
      field.value = Number((10 ** Number(range.value)).toPrecision(3));
    });
    field.addEventListener("input", follow);
  }

  form.addEventListener("input", (event) => {
    if (/^(draft|save)\./.test(event.target.name || "")) return;
    clearTimeout(timer);
    timer = setTimeout(ask, 250);
  });
}

function run() {
  const state = document.getElementById("state");
  if (!state || !state.dataset.poll) return;
  const again = setInterval(async () => {
    const answer = await fetch("run/state");
    state.innerHTML = await answer.text();
    if (answer.headers.get("X-Done") === "true") {
      clearInterval(again);
      location.reload();
    }
  }, 500);
}

plan();
run();
