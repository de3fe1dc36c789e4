// Times in the reader's zone, and near ones as a distance from now.
const date = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const precise = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3,
});
const relative = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "narrow" });
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60]];

function distance(milliseconds) {
  const seconds = Math.round(milliseconds / 1000);
  if (seconds === 0) return "now";
  const found = UNITS.find(([, size]) => Math.abs(seconds) >= size);
  if (found) return relative.format(Math.trunc(seconds / found[1]), found[0]);
  // Written as spans are: 5 s.
  return seconds < 0 ? `${-seconds} s ago` : `in ${seconds} s`;
}

function span(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600), Math.floor(seconds / 60)];
  if (days) return `${days}d ${hours % 24}h`;
  if (hours) return `${hours}h ${minutes % 60}m`;
  if (minutes) return `${minutes}m ${seconds % 60}s`;
  return `${seconds} s`;
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function showTimes() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time[datetime]")) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    const near = time.hasAttribute("data-relative") && Math.abs(now - at) < 30 * 86400e3;
    const exact = time.closest("ol.events") ? precise : date;
    set(time, near ? distance(at - now) : exact.format(at));
    if (near) time.title = date.format(at);
  }
  for (const element of document.querySelectorAll("[data-since]")) set(element, span(now - Date.parse(element.dataset.since)));
}

setInterval(showTimes, 1000);
