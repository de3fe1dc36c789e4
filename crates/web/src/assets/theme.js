// Runs before the page is shown, so that it does not flash in the other theme.
const chosen = localStorage.getItem("segno-theme");
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
