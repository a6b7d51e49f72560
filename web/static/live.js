// Replaces the live part of a page with what the server sends. Without it, the page is as it was when it was asked for.
const part = document.getElementById("live");
const note = document.getElementById("connection");
// retry is after how many milliseconds a server is asked again that answered otherwise.
const retry = 3000;

function say(text) {
  if (note.textContent !== text) note.textContent = text;
}

// show leaves tables as far to the side as somebody has moved them.
function show(html) {
  const moved = [...part.querySelectorAll(".scroll")].map((table) => table.scrollLeft);
  part.innerHTML = html;
  part.querySelectorAll(".scroll").forEach((table, n) => { table.scrollLeft = moved[n] ?? 0; });
}

function listen() {
  const stream = new EventSource(part.dataset.stream);
  stream.addEventListener("message", (event) => {
    // What somebody reads or selects is not taken away under their hands.
    const held = part.contains(document.activeElement) || !document.getSelection().isCollapsed;
    if (!held) show(event.data);
    say(held ? "Held still while something is selected. Escape lets it go on." : "");
  });
  stream.addEventListener("problem", (event) => say(event.data));
  stream.addEventListener("error", () => {
    say("The connection is lost, this is what was seen last. It is tried again.");
    // A browser tries again by itself where there was no answer, but not after one that is an error, such as a proxy's.
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, retry);
  });
}

if (part) {
  listen();
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    document.activeElement.blur();
    document.getSelection().removeAllRanges();
  });
}
