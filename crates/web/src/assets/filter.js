// The filter: names of search attributes are completed, and views are saved in this browser.
const OPERATORS = ["=", "!=", ">", "<", "AND", "OR", "IN", "BETWEEN", "STARTS_WITH", "IS NULL", "ORDER BY"];
const STATUSES = ["Running", "Completed", "Failed", "Canceled", "Terminated", "ContinuedAsNew", "TimedOut"];

function suggestions(text, attributes) {
  const quoted = (text.match(/'/g) ?? []).length % 2 === 1;
  if (quoted) {
    const value = text.match(/ExecutionStatus\s*(?:=|!=|IN\s*\()[^']*'([A-Za-z]*)$/);
    if (!value) return [];
    return STATUSES.filter((name) => name.startsWith(value[1])).map((name) => ({ name, kind: "status", text: name + "'", length: value[1].length }));
  }
  const word = text.match(/[A-Za-z_]*$/)[0];
  const before = text.slice(0, text.length - word.length).trimEnd();
  const names = [...attributes.keys()];
  const afterName = names.some((name) => before.endsWith(name)) && !before.endsWith("'");
  const afterValue = /('|\d|\)|NULL)$/i.test(before);
  if (afterName || afterValue) {
    const wanted = OPERATORS.filter((one) => /^[A-Z]/.test(one) === (afterValue || word.length > 0) || afterName);
    return wanted.filter((one) => one.startsWith(word.toUpperCase())).map((name) => ({ name, kind: "", text: `${name} `, length: word.length }));
  }
  const lower = word.toLowerCase();
  const starts = names.filter((name) => name.toLowerCase().startsWith(lower));
  const contains = names.filter((name) => !starts.includes(name) && lower && name.toLowerCase().includes(lower));
  return [...starts, ...contains].map((name) => ({ name, kind: attributes.get(name), text: `${name} `, length: word.length }));
}

function enhanceCompletion(input, list) {
  const attributes = new Map(input.dataset.attributes.split(" ").filter(Boolean).map((one) => one.split(":")));
  let found = [];
  let chosen = -1;
  const close = () => {
    list.hidden = true;
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (place) => {
    chosen = place;
    [...list.children].forEach((option, index) => option.setAttribute("aria-selected", String(index === place)));
    list.children[place]?.scrollIntoView({ block: "nearest" });
    if (place >= 0) input.setAttribute("aria-activedescendant", `completion-${place}`);
  };
  const take = (place) => {
    const { text, length } = found[place];
    const at = input.selectionStart;
    input.setRangeText(text, at - length, at, "end");
    input.focus();
    show();
  };
  const show = () => {
    found = suggestions(input.value.slice(0, input.selectionStart), attributes).slice(0, 12);
    list.replaceChildren(...found.map(({ name, kind }, place) => {
      const option = document.createElement("li");
      option.id = `completion-${place}`;
      option.role = "option";
      option.setAttribute("aria-selected", "false");
      const hint = document.createElement("small");
      hint.textContent = kind ?? "";
      option.append(name, " ", hint);
      option.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        take(place);
      });
      return option;
    }));
    if (found.length === 0) return close();
    list.hidden = false;
    chosen = -1;
    input.setAttribute("aria-expanded", "true");
  };
  input.addEventListener("input", show);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (list.hidden) {
      if (event.key === "ArrowDown") show();
      return;
    }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      choose((chosen + step + found.length) % found.length);
    } else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) {
      event.preventDefault();
      take(chosen);
    } else if (event.key === "Escape") {
      event.stopPropagation();
      close();
    }
  });
}

function enhanceViews(input, place) {
  const key = "segno-views";
  const load = () => JSON.parse(localStorage.getItem(key) ?? "[]");
  const show = () => {
    place.replaceChildren(...load().map(({ name, query }) => {
      const view = document.createElement("span");
      const link = document.createElement("a");
      link.href = `?query=${encodeURIComponent(query)}`;
      link.textContent = name;
      if (query === input.value) link.setAttribute("aria-current", "true");
      const remove = document.createElement("button");
      remove.type = "button";
      remove.textContent = "×";
      remove.setAttribute("aria-label", `Remove the view ${name}`);
      remove.addEventListener("click", () => {
        localStorage.setItem(key, JSON.stringify(load().filter((one) => one.name !== name)));
        show();
      });
      view.append(link, remove);
      return view;
    }));
  };
  document.querySelector("[data-save-view]").addEventListener("click", () => {
    const query = input.value.trim();
    const name = query && prompt("Name of the view", query.slice(0, 40));
    if (!name) return;
    localStorage.setItem(key, JSON.stringify([...load().filter((one) => one.name !== name), { name, query }]));
    show();
  });
  show();
}

export function enhanceFilter() {
  const input = document.querySelector("#query[data-attributes]");
  if (!input) return;
  enhanceCompletion(input, document.querySelector("#completions"));
  enhanceViews(input, document.querySelector("[data-views]"));
}
