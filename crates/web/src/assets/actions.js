// Forms are sent without leaving the page, and their outcome is shown next to them.
import { onChange, refresh } from "./live.js";

async function send(form, submitter) {
  const outcome = form.querySelector(".outcome");
  const fields = new URLSearchParams(new FormData(form, submitter));
  const buttons = form.querySelectorAll("button");
  let refused = true;
  for (const button of buttons) button.disabled = true;
  try {
    const response = await fetch(form.getAttribute("action") ?? location.href, {
      method: "POST",
      headers: { "x-segno-script": "1" },
      body: fields,
    });
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    const notice = fresh.querySelector(".notice");
    outcome.replaceChildren(...(notice ? [document.importNode(notice, true)] : [`The server answered ${response.status}`]));
    if (notice?.dataset.next) {
      location.href = notice.dataset.next;
      return;
    }
    refused = !response.ok;
  } catch (error) {
    outcome.textContent = `The server cannot be reached: ${error.message}`;
  } finally {
    for (const button of buttons) button.disabled = false;
  }
  // A disabled button loses the focus; with it back, the form and the reason of the refusal stay on the page.
  if (refused) submitter?.focus({ preventScroll: true });
  await refresh();
}

// Tabs indent in sources; Escape lets the focus leave.
function enhanceEditor(source) {
  let leaving = false;
  source.addEventListener("keydown", (event) => {
    if (event.key === "Tab" && !event.shiftKey && !leaving) {
      event.preventDefault();
      source.setRangeText("  ", source.selectionStart, source.selectionEnd, "end");
    }
    leaving = event.key === "Escape";
  });
}

function enhanceSelection() {
  const form = document.querySelector("[data-selection]");
  if (!form) return;
  const bar = form.querySelector("[data-selection-bar]");
  const show = () => {
    const count = form.querySelectorAll("input[name=run]:checked").length;
    bar.hidden = count === 0;
    bar.querySelector("[data-selection-count]").textContent = String(count);
  };
  form.addEventListener("change", (event) => {
    if (event.target.matches("[data-select-all]")) {
      for (const input of form.querySelectorAll("input[name=run]")) input.checked = event.target.checked;
    }
    show();
  });
  onChange(show);
}

export function enhanceActions() {
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-action]");
    if (!form) return;
    event.preventDefault();
    const question = event.submitter?.dataset.confirm;
    if (question && !confirm(question)) return;
    send(form, event.submitter);
  });
  for (const source of document.querySelectorAll("textarea.source")) enhanceEditor(source);
  enhanceSelection();
}
