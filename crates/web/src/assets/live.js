// Follows changes: the server says that the page changed, the page is fetched again, and the parts that differ are replaced.
const FILLED_IN = "input:not([type=checkbox]), textarea, details.action[open], form:has(.notice.bad)";
const listeners = [];
let running = false;
let again = false;
// Whether a part was left as it was for the sake of a form.
let kept = false;

export const onChange = (listener) => listeners.push(listener);

// The time at which a page was rendered is not a difference, neither is what scripts wrote into it.
const original = new Map();

function remember() {
  for (const part of document.querySelectorAll("[data-live][id]")) original.set(part.id, part.innerHTML);
}

// Keeps what the reader is doing: focus, ticks, open details.
function replace(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const address = focused?.getAttribute("href") ?? focused?.value;
  const ticked = new Set([...old.querySelectorAll("input:checked")].map((input) => input.value));
  const opened = [...old.querySelectorAll("li[id] > details[open], details[id][open]")];
  const open = new Set(opened.map((details) => details.id || details.parentElement.id));
  const scroll = old.querySelector(".scroll")?.scrollLeft ?? 0;
  const adopted = document.importNode(fresh, true);
  old.replaceChildren(...adopted.childNodes);
  for (const input of old.querySelectorAll("input[type=checkbox]")) input.checked = ticked.has(input.value);
  for (const id of open) {
    const named = document.getElementById(id);
    const details = named?.matches("details") ? named : named?.querySelector("details");
    if (details) details.open = true;
  }
  const scrolled = old.querySelector(".scroll");
  if (scrolled) scrolled.scrollLeft = scroll;
  if (focused && !document.contains(focused)) {
    const same = [...old.querySelectorAll("a, button, input")].find((one) => (one.getAttribute("href") ?? one.value) === address);
    same?.focus({ preventScroll: true });
  }
}

export async function refresh(address = location.href) {
  if (running) {
    again = true;
    return;
  }
  running = true;
  try {
    do {
      again = false;
      kept = false;
      const response = await fetch(address, { headers: { accept: "text/html" } });
      if (!response.ok) return;
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      for (const part of fresh.querySelectorAll("[data-live][id]")) {
        const old = document.getElementById(part.id);
        if (!old || original.get(part.id) === part.innerHTML) continue;
        // A form that the reader fills in stays as it is.
        const typing = document.activeElement?.closest(FILLED_IN);
        if (typing && old.contains(typing)) {
          kept = true;
          continue;
        }
        original.set(part.id, part.innerHTML);
        replace(old, part);
      }
      for (const listener of listeners) listener();
    } while (again);
  } catch {
    // The server is away; the stream says so and asks again.
  } finally {
    running = false;
  }
}

function connection(text) {
  const place = document.querySelector("[data-connection]");
  if (place && place.textContent !== text) place.textContent = text;
}

// Opens the stream of this page. Nothing is requested while the page is hidden.
export function stream(handlers) {
  const source = document.body.dataset.liveSource;
  if (!source) return;
  let events = null;
  const open = () => {
    events = new EventSource(source);
    events.addEventListener("open", () => connection("Live"));
    events.addEventListener("error", () => connection("Reconnecting …"));
    for (const [name, handler] of Object.entries(handlers)) events.addEventListener(name, handler);
  };
  const look = () => {
    if (document.hidden && events) {
      events.close();
      events = null;
      connection("");
    } else if (!document.hidden && !events) {
      open();
    }
  };
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", () => events?.close());
  look();
}

export function follow() {
  remember();
  let seen = document.body.dataset.liveId;
  const compare = (event) => {
    if (seen !== event.data) refresh();
    seen = event.data;
  };
  stream({ hello: compare, change: compare });
  // A form that was closed shows what changed while it was open.
  document.addEventListener("toggle", (event) => kept && !event.target.open && refresh(), true);
}
