// The turns of a script's run: its slider, its links, and the line at which the script stands.
import { onChange, refresh } from "./live.js";

async function go(address) {
  history.replaceState(null, "", address);
  await refresh();
}

// The line at which the script stands is in view, without moving the page.
function showLine() {
  const marked = [...document.querySelectorAll("#script .source .stands")];
  const line = marked.find((one) => one.querySelector(".note").textContent.startsWith("failed:")) ?? marked[0];
  const view = line?.closest(".scroll");
  if (!view) return;
  const [top, bottom] = [line.offsetTop - view.offsetTop, line.offsetTop - view.offsetTop + line.offsetHeight];
  if (top < view.scrollTop || bottom > view.scrollTop + view.clientHeight) {
    view.scrollTop = Math.max(0, top - view.clientHeight / 3);
  }
}

export function enhanceScript() {
  const turns = document.querySelector("form.turns");
  if (!turns) return;
  const slider = turns.querySelector("input[type=range]");
  slider?.addEventListener("input", () => go(`?turn=${slider.value}`));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-turn]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(link.getAttribute("href"));
  });
  onChange(() => {
    const shown = document.querySelector("#script")?.querySelector("[data-place]");
    if (slider && shown && document.activeElement !== slider) {
      slider.max = shown.dataset.count;
      slider.value = shown.dataset.place;
    }
    showLine();
  });
  showLine();
}
