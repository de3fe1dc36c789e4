// Decodes payloads that only their owner can read: the codec server of the owner is asked by this browser, as Temporal's UI does.
const COOKIE = "segno_codec";
const CREDENTIALS = "segno-codec-credentials";
const BATCH = 50;
const decoded = new Map();

const bytes = (text) => Uint8Array.from(atob(text ?? ""), (character) => character.charCodeAt(0));
const utf8 = (text) => new TextDecoder().decode(bytes(text));

// What to show for a payload that came back.
function readable(payload) {
  const encoding = utf8(payload.metadata?.encoding);
  if (encoding === "binary/null") return "null";
  const text = utf8(payload.data);
  if (!encoding.startsWith("json/")) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function ask(endpoint, namespace, payloads) {
  const address = `${endpoint.replaceAll("{namespace}", encodeURIComponent(namespace))}/decode`;
  const response = await fetch(address, {
    method: "POST",
    headers: { "content-type": "application/json", "x-namespace": namespace },
    credentials: localStorage.getItem(CREDENTIALS) ? "include" : "omit",
    body: JSON.stringify({ payloads }),
  });
  if (!response.ok) throw new Error(`the codec server answers ${response.status}`);
  return (await response.json()).payloads ?? [];
}

function say(text) {
  const place = document.querySelector("[data-codec-state]");
  if (place && place.textContent !== text) place.textContent = text;
}

// Puts what was decoded in the place of what stood for it: alone, or as a text within JSON.
function show(element, items) {
  let text = element.textContent;
  for (const { shown, payload } of items) {
    const result = decoded.get(JSON.stringify(payload));
    if (result === undefined) continue;
    const quoted = JSON.stringify(shown);
    text = text.includes(quoted) ? text.replace(quoted, () => result) : text.replace(shown, () => result);
  }
  if (text !== element.textContent) {
    element.textContent = text;
    element.dataset.decoded = "";
  }
}

export async function decodePayloads() {
  const { codec, inNamespace: namespace } = document.body.dataset;
  const elements = [...document.querySelectorAll("[data-encoded]:not([data-decoded])")];
  if (!codec || !elements.length) return;
  const parts = elements.map((element) => [element, JSON.parse(element.dataset.encoded)]);
  const missing = new Map();
  for (const [, items] of parts) {
    for (const { payload } of items) {
      const key = JSON.stringify(payload);
      if (!decoded.has(key)) missing.set(key, payload);
    }
  }
  try {
    const keys = [...missing.keys()];
    for (let start = 0; start < keys.length; start += BATCH) {
      const some = keys.slice(start, start + BATCH);
      const answers = await ask(codec, namespace, some.map((key) => missing.get(key)));
      some.forEach((key, place) => answers[place] && decoded.set(key, readable(answers[place])));
    }
    say("");
  } catch (error) {
    say(`Payloads are not decoded: ${error.message}`);
  }
  for (const [element, items] of parts) show(element, items);
}

// The reader's own endpoint, which the server allows the browser to reach from the next page on.
export function enhanceCodec() {
  const form = document.querySelector("[data-codec-form]");
  if (!form) return;
  form.elements.credentials.checked = Boolean(localStorage.getItem(CREDENTIALS));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const endpoint = form.elements.endpoint.value.trim();
    const age = endpoint ? 400 * 86400 : 0;
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `${COOKIE}=${encodeURIComponent(endpoint)}; path=/ui; samesite=strict; max-age=${age}${secure}`;
    if (form.elements.credentials.checked) localStorage.setItem(CREDENTIALS, "1");
    else localStorage.removeItem(CREDENTIALS);
    location.reload();
  });
}
