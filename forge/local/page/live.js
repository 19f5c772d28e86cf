// Keeps the page as it is on the forge. Parts with data-live are replaced as a
// whole, lists with data-sync entry by entry, so that what is being typed or
// unfolded elsewhere stays.
"use strict";

const interval = 1500; // milliseconds

function replace(old, now) {
  if (old.outerHTML === now.outerHTML || old.contains(document.activeElement) && document.activeElement !== document.body) {
    return;
  }
  const unfolded = [...old.querySelectorAll("details")].map((d) => d.open);
  now.querySelectorAll("details").forEach((d, n) => { d.open = unfolded[n] === true; });
  if (old.outerHTML !== now.outerHTML) {
    old.replaceWith(now);
    now.classList.add("fresh");
    now.addEventListener("animationend", () => now.classList.remove("fresh"), { once: true });
  }
}

function sync(list, next) {
  const wanted = new Set();
  let place = null;
  for (const entry of [...next.children]) {
    wanted.add(entry.id);
    const old = document.getElementById(entry.id);
    if (old) {
      old.classList.remove("fresh");
      replace(old, entry);
    } else {
      entry.classList.add("fresh");
      if (place) { place.after(entry); } else { list.prepend(entry); }
    }
    const here = document.getElementById(entry.id);
    if (here !== (place ? place.nextElementSibling : list.firstElementChild)) {
      if (place) { place.after(here); } else { list.prepend(here); }
    }
    place = here;
  }
  for (const entry of [...list.children]) {
    if (!wanted.has(entry.id)) { entry.remove(); }
  }
}

async function refresh() {
  if (!document.hidden) {
    const answer = await fetch(location.href, { cache: "no-store", redirect: "error" });
    if (answer.ok) {
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-live]")) {
        const now = next.getElementById(part.id);
        part.classList.remove("fresh");
        if (now) { replace(part, now); }
      }
      for (const list of document.querySelectorAll("[data-sync]")) {
        const now = next.getElementById(list.id);
        if (now) { sync(list, now); }
      }
    }
  }
}

async function keepFresh() {
  try { await refresh(); } catch { /* the forge is away; it may come back */ }
  setTimeout(keepFresh, interval);
}

if (document.querySelector("[data-live], [data-sync]")) {
  setTimeout(keepFresh, interval);
}
