// Small charts of the server's figures, a point a second.
import { stream } from "./live.js";

const POINTS = 120;

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  while (value >= 1024 && place < units.length - 1) {
    value /= 1024;
    place += 1;
  }
  return `${value.toFixed(place === 0 || value >= 100 ? 0 : 1)} ${units[place]}`;
}

const number = (value) => value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 1 : 0 });
const SHOWN = {
  "rate": number,
  "byte-rate": (value) => `${bytes(value)}/s`,
  "value": number,
  "bytes": bytes,
  "time": (micros) => (micros === 0 ? "–" : micros < 1000 ? `${micros} µs` : `${number(micros / 1000)} ms`),
};

function draw(figure, values) {
  const top = Math.max(...values, 1e-9) * 1.1;
  const x = (place) => ((POINTS - values.length + place) / (POINTS - 1)) * 240;
  const y = (value) => 46 - (value / top) * 42;
  const points = values.map((value, place) => `${x(place).toFixed(1)},${y(value).toFixed(1)}`);
  figure.querySelector("polyline").setAttribute("points", points.join(" "));
  const area = `M${x(0).toFixed(1)},48 L${points.join(" L")} L240,48 Z`;
  figure.querySelector("path").setAttribute("d", area);
}

export function followFigures() {
  const figures = [...document.querySelectorAll("[data-figures] figure")];
  if (figures.length === 0) return false;
  const series = new Map(figures.map((figure) => [figure, []]));
  let before = null;
  stream({
    figures: (event) => {
      const now = { at: performance.now(), values: JSON.parse(event.data) };
      for (const figure of figures) {
        const { figure: name, kind } = figure.dataset;
        const isRate = kind === "rate" || kind === "byte-rate";
        if (!(name in now.values) || (isRate && !before)) continue;
        const seconds = isRate ? Math.max(0.2, (now.at - before.at) / 1000) : 1;
        const value = isRate ? Math.max(0, now.values[name] - before.values[name]) / seconds : now.values[name];
        const values = series.get(figure);
        values.push(value);
        if (values.length > POINTS) values.shift();
        figure.querySelector("output").textContent = SHOWN[kind](value);
        draw(figure, values);
      }
      before = now;
    },
  });
  return true;
}
