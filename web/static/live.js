// Replaces the parts of a live page that the server sends anew. Without it, the page is as it was when it was asked for.
const live = document.getElementById("live");
const note = document.getElementById("connection");
const waiting = new Map(); // parts that came while somebody was busy with them

function say(text) {
  note.hidden = text === "";
  if (note.textContent !== text) note.textContent = text;
}

// What somebody reads or selects is not taken away under their hands.
function busy(part) {
  const selection = document.getSelection();
  return part.contains(document.activeElement) || (!selection.isCollapsed && selection.containsNode(part, true));
}

function show(html) {
  const sent = document.createElement("template");
  sent.innerHTML = html;
  for (const part of sent.content.children) waiting.set(part.id, part);
  for (const [id, part] of waiting) {
    const old = document.getElementById(id);
    if (!old || busy(old)) continue;
    const open = [...old.querySelectorAll("details")].map((details) => details.open);
    part.querySelectorAll("details").forEach((details, n) => { details.open = open[n] ?? false; });
    old.replaceWith(part);
    waiting.delete(id);
  }
}

if (live) {
  const stream = new EventSource(live.dataset.stream);
  stream.addEventListener("message", (event) => {
    show(event.data);
    say("");
  });
  stream.addEventListener("problem", (event) => say(event.data));
  stream.addEventListener("error", () => say("The connection is lost, this is what was seen last. It is tried again."));
}
