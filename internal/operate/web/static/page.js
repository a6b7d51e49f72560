// What every page has: theme, times, keys, plots' values and copy buttons. Without it, a page shows the system's theme.
// set reports whether the browser keeps the value.
export const stored = {
  get: (name) => { try { return localStorage.getItem(name); } catch { return null; } },
  set: (name, value) => { try { localStorage.setItem(name, value); return true; } catch { return false; } },
};

const tools = document.getElementById("tools");
const theme = document.getElementById("theme");
const times = document.getElementById("times");
const rows = document.getElementById("rows");
const help = document.getElementById("help");

function choose(select, name, apply) {
  const value = stored.get(name);
  if ([...select.options].some((option) => option.value === value)) select.value = value;
  select.addEventListener("change", () => { stored.set(name, select.value); apply(); });
}

function applyTheme() {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
}

function applyRows() {
  document.documentElement.dataset.rows = rows.value;
}

const pad = (n, width = 2) => String(n).padStart(width, "0");

// utc is as the server writes it. local has the offset, so that nobody takes it for UTC.
const utc = (at) => at.toISOString().replace("T", " ").replace("Z", " UTC");
function local(at) {
  const east = -at.getTimezoneOffset();
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}:` +
    `${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)} ${east < 0 ? "-" : "+"}${pad(Math.floor(Math.abs(east) / 60))}:${pad(Math.abs(east) % 60)}`;
}
// Of plots: the minute only.
const utcMinute = (at) => `${at.toISOString().slice(11, 16)} UTC`;
const localMinute = (at) => local(at).replace(/^\S+ (\d\d:\d\d)\S+/, "$1");
function ago(at) {
  const seconds = Math.round((Date.now() - at) / 1000), far = Math.abs(seconds);
  const [unit, size] = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]].find(([, size]) => far >= size) ?? ["s", 1];
  const text = `${Math.floor(far / size)} ${unit}`;
  if (far < 1) return "now";
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

function applyTimes() {
  for (const element of document.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    const short = "minute" in element.dataset, zone = times.value === "local";
    const exact = short ? (zone ? localMinute(at) : utcMinute(at)) : zone ? local(at) : utc(at);
    const text = times.value === "ago" && "ago" in element.dataset ? ago(at) : exact;
    if (element.textContent !== text) element.textContent = text;
    element.title = text === exact ? (zone ? utc(at) : local(at)) : exact;
  }
  for (const bar of document.querySelectorAll(".plot g[data-at]")) {
    const at = new Date(bar.dataset.at), title = bar.querySelector("title");
    title.textContent = (times.value === "local" ? localMinute(at) : utcMinute(at)) + title.textContent.slice(title.textContent.indexOf(": "));
  }
}

if (tools) {
  tools.hidden = false;
  choose(theme, "theme", applyTheme);
  choose(rows, "rows", applyRows);
  choose(times, "times", applyTimes);
  applyTimes();
  document.addEventListener("redrawn", applyTimes); // by live.js
  setInterval(() => { if (times.value === "ago") applyTimes(); }, 10000);
  document.getElementById("keys").addEventListener("click", () => help.showModal());
}

// step moves the focus by one row, to the row's first link.
function step(by) {
  const rows = [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a") && row.checkVisibility());
  const now = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[now < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(now + by, 0), rows.length - 1)];
  next?.querySelector("a").focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help?.open) return;
  if (event.target.closest("input, select, textarea, [contenteditable]")) return;
  if (event.key === "/") (document.querySelector("main form[role=search] input") ?? document.querySelector(".find input")).focus();
  else if (event.key === "?") help?.showModal();
  else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else return;
  event.preventDefault();
});

// Clipboards are there only over HTTPS and on loopback.
if (navigator.clipboard) {
  for (const element of document.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy ${element.dataset.copy}`);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(element.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    element.after(" ", button);
  }
}

// The values of a plot where the pointer is.
for (const type of ["pointerover", "pointerout"]) {
  document.addEventListener(type, ({ target }) => {
    const output = target.closest?.(".plot g") && target.closest("figure").querySelector("output");
    if (output) output.value = type === "pointerover" ? target.closest("g").querySelector("title").textContent : "";
  });
}

function showSelectAll() {
  const label = document.getElementById("select-all")?.closest("label");
  if (label) label.hidden = false;
}
showSelectAll();
document.addEventListener("redrawn", showSelectAll);
document.addEventListener("change", ({ target: all }) => {
  if (all.id !== "select-all") return;
  for (const box of all.form.querySelectorAll("input[name=item]")) box.checked = all.checked;
});
