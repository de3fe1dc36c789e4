// Offers the names of signals, updates and queries in the forms of a run. A worker is asked for them when a form is used.
export function enhanceNames() {
  const place = document.querySelector("[data-names]");
  if (!place) return;
  let asked = false;
  const ask = async () => {
    asked = true;
    try {
      const response = await fetch(place.dataset.names);
      if (!response.ok) return;
      for (const [kind, names] of Object.entries(await response.json())) {
        const options = names.map(({ name, description }) => new Option(description, name));
        document.getElementById(`names-${kind}`)?.replaceChildren(...options);
      }
    } catch {
      // The names can be typed all the same.
    }
  };
  document.addEventListener("focusin", (event) => {
    if (!asked && event.target.matches("input[list^='names-']")) ask();
  });
}
