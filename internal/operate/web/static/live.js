// Replaces the parts of a live page that the server sends anew, by a stream or when asked again. Without it, the page is as it was when it was asked for.
const live = document.getElementById("live");
const note = document.getElementById("connection");
const waiting = new Map(); // updates of parts that are in use
// every is how often a page without a stream is asked for again, in milliseconds.
const every = 3000;
// retry is after how many milliseconds a server is asked again that answered otherwise.
const retry = 3000;

function say(text) {
  if (note.textContent !== text) note.textContent = text;
}

const pause = document.getElementById("pause");
const paused = () => pause.getAttribute("aria-pressed") !== "true";
const held = () => paused() ? "Updates are paused." : waiting.size > 0 ? "Updates are paused while something is selected. Press Escape to resume." : "";

// Parts that the user reads or selects are not replaced.
function busy(part) {
  if (paused()) return true;
  if (part.querySelector("input[type=checkbox]:checked")) return true;
  const selection = document.getSelection();
  return part.contains(document.activeElement) || (!selection.isCollapsed && selection.containsNode(part, true));
}

// take keeps what the user opened in a part and how far they scrolled it.
function take(part, old) {
  const open = [...old.querySelectorAll("details")].map((details) => details.open);
  const chosen = old.querySelector("input[type=radio]:checked")?.value;
  const moved = [...old.querySelectorAll(".scroll")].map((table) => table.scrollLeft);
  old.replaceWith(part); // from now on it has a width
  part.querySelectorAll("details").forEach((details, n) => { details.open = open[n] ?? false; });
  if (chosen) part.querySelector(`input[value="${chosen}"]`)?.click();
  part.querySelectorAll(".scroll").forEach((table, n) => { table.scrollLeft = moved[n] ?? 0; });
}

function show(html) {
  const sent = document.createElement("template");
  sent.innerHTML = html;
  for (const part of sent.content.children) {
    waiting.delete(part.id); // the last that came is the last to be shown
    waiting.set(part.id, part);
  }
  for (const [id, part] of waiting) {
    const old = document.getElementById(id);
    const early = id === "asof" && waiting.size > 1; // else it would be said of what is held, too
    if (!old || busy(old) || early) continue;
    take(part, old);
    waiting.delete(id);
  }
  document.dispatchEvent(new Event("redrawn"));
}

function listen() {
  const stream = new EventSource(live.dataset.stream);
  stream.addEventListener("message", (event) => {
    show(event.data);
    say(held());
  });
  stream.addEventListener("problem", (event) => say(event.data));
  stream.addEventListener("error", () => {
    say("Connection lost. The page shows the last known state and will reconnect.");
    // A browser tries again by itself where there was no answer, but not after one that is an error, such as a proxy's.
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, retry);
  });
}

// reload asks for the page again and takes its live parts.
async function reload() {
  if (!paused() && !document.hidden) {
    const answer = await fetch(location.href).catch(() => null);
    if (answer?.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      show([...page.querySelectorAll("[data-live]")].map((part) => part.outerHTML).join(""));
      say(held());
    } else say("Connection lost. The page shows the last known state and will try again.");
  }
  setTimeout(reload, every);
}

if (live) {
  if (live.dataset.stream) listen();
  else setTimeout(reload, every);
  pause.hidden = false;
  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(paused()));
    show(""); // what came in the meantime
    say(held());
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    document.activeElement.blur();
    document.getSelection().removeAllRanges();
  });
}
