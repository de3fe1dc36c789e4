// Zooming of the timeline: by its links, by dragging over it, and by keys.
import { refresh } from "./live.js";

async function go(address) {
  history.replaceState(null, "", address);
  await refresh();
}

function enhanceDrag(section) {
  let start = null;
  const unit = (svg, event) => {
    const box = svg.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width) * Number(svg.dataset.width);
  };
  const millis = (svg, x) => {
    const [from, to, names] = [Number(svg.dataset.from), Number(svg.dataset.to), Number(svg.dataset.names)];
    const part = (x - names) / (Number(svg.dataset.width) - names - 8);
    return from + Math.min(1, Math.max(0, part)) * (to - from);
  };
  section.addEventListener("pointerdown", (event) => {
    const svg = event.target.closest("[data-timeline]");
    if (svg && event.button === 0) start = { svg, x: unit(svg, event) };
  });
  section.addEventListener("pointermove", (event) => {
    if (!start) return;
    const [a, b] = [start.x, unit(start.svg, event)].sort((a, b) => a - b);
    const brush = start.svg.querySelector("[data-brush]");
    brush.setAttribute("x", a);
    brush.setAttribute("width", b - a);
  });
  addEventListener("pointerup", (event) => {
    if (!start) return;
    const { svg, x } = start;
    start = null;
    svg.querySelector("[data-brush]").setAttribute("width", 0);
    const end = unit(svg, event);
    if (Math.abs(end - x) < 6) return;
    // The click that ends a drag opens nothing.
    addEventListener("click", (click) => click.preventDefault(), { capture: true, once: true });
    const [from, to] = [millis(svg, x), millis(svg, end)].sort((a, b) => a - b);
    go(`?from=${Math.floor(from)}&to=${Math.ceil(to)}`);
  });
}

export function enhanceTimeline() {
  const section = document.querySelector("section.timeline");
  if (!section) return;
  section.addEventListener("click", (event) => {
    const link = event.target.closest("nav.zoom a");
    if (!link) return;
    event.preventDefault();
    go(link.getAttribute("href").replace("#timeline", "") || "?");
  });
  enhanceDrag(section);
  section.addEventListener("keydown", (event) => {
    const name = { "+": "Zoom in", "-": "Zoom out", ArrowLeft: "Earlier", ArrowRight: "Later", 0: "Whole run" }[event.key];
    const link = name && [...section.querySelectorAll("nav.zoom a")].find((one) => one.textContent === name);
    if (!link || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    link.click();
  });
}
