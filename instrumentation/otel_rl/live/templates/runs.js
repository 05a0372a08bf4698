// The list follows the runs without a load of the page: what is being typed stays, and so does the focus.
const EVERY = 15000;

async function freshPage() {
  const answer = await fetch(location.href);
  if (!answer.ok) throw new Error(answer.statusText);
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

function takeIn(page) {
  const address = document.activeElement.getAttribute("href");
  for (const part of document.querySelectorAll("[data-part]")) {
    const fresh = page.querySelector(`[data-part="${part.dataset.part}"]`);
    if (fresh && fresh.innerHTML !== part.innerHTML) part.replaceChildren(...fresh.childNodes);
  }
  const focused = [...document.querySelectorAll("[data-part] a")].find((link) => link.getAttribute("href") === address);
  if (address !== null) focused?.focus({ preventScroll: true });
}

async function refresh() {
  const lost = document.querySelector(".lost");
  try {
    takeIn(await freshPage());
    lost.textContent = "";
  } catch {
    lost.textContent = "otel-rl live does not answer: the list is as it was then.";
  }
  document.dispatchEvent(new CustomEvent("list-refreshed"));
}

setInterval(() => document.hidden || refresh(), EVERY);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
