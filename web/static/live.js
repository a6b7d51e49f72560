// Replaces the live part of a page with what the server sends. Without it, the page is as it was when it was asked for.
const part = document.getElementById("live");
const note = document.getElementById("connection");

function say(text) {
  note.hidden = text === "";
  if (note.textContent !== text) note.textContent = text;
}

if (part) {
  const stream = new EventSource(part.dataset.stream);
  stream.addEventListener("message", (event) => {
    // What somebody reads or selects is not taken away under their hands.
    const busy = part.contains(document.activeElement) || !document.getSelection().isCollapsed;
    if (!busy) part.innerHTML = event.data;
    say("");
  });
  stream.addEventListener("problem", (event) => say(event.data));
  stream.addEventListener("error", () => say("The connection is lost, this is what was seen last. It is tried again."));
}
