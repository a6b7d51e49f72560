// The filter of a list: values are suggested while a token is typed, Backspace leads to the tokens in force, and filters are kept by name in this browser. Without it, the line is typed and sent as it is.
import { stored } from "./page.js";

// ui is the address of the overview.
const ui = new URL("../..", import.meta.url).href;

const input = document.getElementById("filter");
const quote = (value) => /[\s"]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;

// typing returns the token before the caret: where it begins, its name or "", and its value.
function typing() {
  const before = input.value.slice(0, input.selectionStart);
  let start = 0, quoted = false;
  for (let n = 0; n < before.length; n++) {
    if (before[n] === '"') quoted = !quoted;
    else if (before[n] === " " && !quoted) start = n + 1;
  }
  const [, name = "", value] = before.slice(start).match(/^(?:([a-z]+):)?(.*)$/is);
  return { start, name: name.toLowerCase(), value: value.replace(/^"/, "").replaceAll('""', '"') };
}

// workspace is the one that the line or the filter in force names.
function workspace() {
  const [, quoted, word] = input.value.match(/(?:^|\s)workspace:(?:"((?:[^"]|"")*)"|(\S+))/i) ?? [];
  return quoted?.replaceAll('""', '"') ?? word ?? input.form.elements.workspace?.value ?? "";
}

// suggestions returns what the token may become.
async function suggestions({ name, value }) {
  const names = input.dataset.names.split(" ");
  if (!name) return names.filter((known) => known.startsWith(value.toLowerCase())).map((known) => `${known}:`);
  if (!names.includes(name)) return [];
  const answer = await fetch(`${ui}suggest?${new URLSearchParams({ of: name, q: value, workspace: workspace() })}`).catch(() => null);
  if (!answer?.ok) return [];
  return (await answer.text()).split("\n").filter(Boolean).map((found) => `${name}:${quote(found)} `);
}

// suggest makes the input a combobox with a list of suggestions.
function suggest() {
  const list = document.createElement("ul");
  list.id = "filter-suggestions";
  list.role = "listbox";
  list.ariaLabel = "Suggestions";
  input.after(list);
  input.role = "combobox";
  input.setAttribute("aria-controls", list.id);
  input.setAttribute("aria-autocomplete", "list");
  let asked = 0, chosen = -1;
  const show = (texts) => {
    const kept = chosen < 0 ? -1 : texts.indexOf(list.children[chosen].textContent); // answers may come after a choice
    list.replaceChildren(...texts.map((text, n) => Object.assign(document.createElement("li"), { id: `suggestion-${n}`, role: "option", ariaSelected: "false", textContent: text })));
    list.hidden = texts.length === 0;
    input.ariaExpanded = String(!list.hidden);
    choose(kept);
  };
  const choose = (n) => {
    chosen = n;
    [...list.children].forEach((option, at) => { option.ariaSelected = String(at === n); });
    if (n < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", list.children[n].id);
    list.children[n].scrollIntoView({ block: "nearest" });
  };
  const close = () => { asked++; show([]); };
  const ask = async () => {
    const mine = ++asked, texts = await suggestions(typing());
    if (mine === asked) show(texts);
  };
  const take = (n) => {
    input.setRangeText(list.children[n].textContent, typing().start, input.selectionStart, "end");
    ask();
  };
  input.addEventListener("focus", ask);
  input.addEventListener("input", ask);
  input.addEventListener("blur", close);
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the input keeps the focus
  list.addEventListener("click", ({ target }) => {
    if (target.role === "option") take([...list.children].indexOf(target));
  });
  input.addEventListener("keydown", (event) => {
    const all = list.children.length;
    if (event.key === "ArrowDown" && all === 0) ask();
    else if (event.key === "ArrowDown") choose((chosen + 1) % all);
    else if (event.key === "ArrowUp" && all > 0) choose(chosen > 0 ? chosen - 1 : all - 1);
    else if (event.key === "Escape" && all > 0) { close(); event.stopPropagation(); }
    else return;
    event.preventDefault();
  });
  input.form.addEventListener("submit", (event) => {
    if (chosen < 0) return;
    event.preventDefault();
    take(chosen);
  });
  close();
}

// remove lets Backspace in an empty line lead to the last token, and there remove it.
function remove() {
  const tokens = [...document.querySelectorAll(".token")];
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Backspace" || input.value !== "" || tokens.length === 0) return;
    tokens.at(-1).focus();
    event.preventDefault();
  });
  for (const token of tokens) {
    token.addEventListener("keydown", (event) => {
      if (event.key !== "Backspace" && event.key !== "Delete") return;
      event.preventDefault();
      token.click();
    });
  }
}

// keptMost is how many filters are kept.
const keptMost = 20;

// kept returns the filters that this browser keeps. Others may have written there.
function kept() {
  try {
    const all = JSON.parse(stored.get("filters") ?? "[]");
    return all.filter(({ name, query }) => typeof name === "string" && typeof query === "string").slice(0, keptMost);
  } catch { return []; }
}

// keep lists the kept filters, and keeps the one in force by a name.
function keep(section) {
  const list = section.querySelector("ul"), form = section.querySelector("form"), note = section.querySelector("[role=status]");
  const { query } = section.dataset;
  const draw = (all) => {
    list.replaceChildren(...all.map((filter) => {
      const entry = document.createElement("li"), link = document.createElement("a"), forget = document.createElement("button");
      link.href = `${ui}items?${new URLSearchParams(filter.query)}`;
      link.textContent = filter.name;
      if (filter.query === query) link.ariaCurrent = "true";
      forget.type = "button";
      forget.textContent = "×";
      forget.ariaLabel = `Forget the filter ${filter.name}`;
      forget.addEventListener("click", () => {
        if (set(all.filter((other) => other !== filter), `Forgot ${filter.name}.`)) (list.querySelector("a") ?? input).focus();
      });
      entry.append(link, forget);
      return entry;
    }));
    list.hidden = all.length === 0;
    section.hidden = all.length === 0 && !form;
  };
  const set = (all, said) => {
    const done = stored.set("filters", JSON.stringify(all));
    note.textContent = done ? said : "Not saved: this browser keeps nothing for this site.";
    if (done) draw(all);
    return done;
  };
  form?.addEventListener("submit", (event) => {
    event.preventDefault();
    const field = form.querySelector("input"), name = field.value.trim();
    const others = kept().filter((other) => other.name !== name);
    if (!name) return;
    if (others.length >= keptMost) { note.textContent = `Not saved: there are ${keptMost} filters. Forget one first.`; return; }
    if (!set([...others, { name, query }].sort((a, b) => a.name.localeCompare(b.name)), `Saved as ${name}.`)) return;
    field.value = "";
    form.closest("details").open = false;
  });
  draw(kept());
}

if (input) {
  suggest();
  remove();
}
const saved = document.getElementById("saved");
if (saved) keep(saved);
