// What every page has: theme, menu, namespaces; the rest is in files of its own.
import { enhanceActions } from "./actions.js";
import { decodePayloads, enhanceCodec } from "./codec.js";
import { followFigures } from "./figures.js";
import { enhanceFilter } from "./filter.js";
import { follow, onChange } from "./live.js";
import { enhanceNames } from "./names.js";
import { enhanceScript } from "./script.js";
import { enhanceTimeline } from "./timeline.js";
import { showTimes } from "./times.js";

const THEMES = ["system", "light", "dark"];

function enhanceTheme() {
  const button = document.querySelector("[data-theme-toggle]");
  const current = () => localStorage.getItem("segno-theme") ?? "system";
  const show = () => {
    const theme = current();
    button.textContent = `Theme: ${theme}`;
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(current()) + 1) % THEMES.length];
    if (next === "system") localStorage.removeItem("segno-theme");
    else localStorage.setItem("segno-theme", next);
    show();
  });
  show();
}

function enhanceMenu() {
  const button = document.querySelector(".menu-button");
  const navigation = document.querySelector("#navigation");
  button.addEventListener("click", () => {
    const open = navigation.classList.toggle("open");
    button.setAttribute("aria-expanded", String(open));
  });
  document.querySelector("[data-namespace]").addEventListener("change", (event) => {
    location.href = event.target.value;
  });
  // An open form closes with Escape, and with a click elsewhere.
  const close = (except) => {
    for (const open of document.querySelectorAll("details.action[open]")) {
      if (!open.contains(except)) open.open = false;
    }
  };
  document.addEventListener("click", (event) => close(event.target));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close(null);
    // The filter is one key away.
    const typing = event.target.closest("input, textarea, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      const filter = document.querySelector("#query, #name");
      if (filter) {
        event.preventDefault();
        filter.focus();
      }
    }
  });
}

function openLinkedEvent() {
  const event = location.hash.startsWith("#event-") && document.getElementById(location.hash.slice(1));
  if (event) event.querySelector("details").open = true;
  // The form of the history leads to an event without a hash.
  else document.querySelector("ol.events > [aria-current]")?.scrollIntoView({ block: "center" });
}

enhanceTheme();
enhanceMenu();
enhanceFilter();
enhanceActions();
enhanceNames();
enhanceTimeline();
enhanceScript();
openLinkedEvent();
addEventListener("hashchange", openLinkedEvent);
showTimes();
onChange(showTimes);
enhanceCodec();
decodePayloads();
onChange(decodePayloads);
followFigures() || follow();
