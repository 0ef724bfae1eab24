// Calls to this page's own server, and the stream of changes.
export class ApiError extends Error {
  constructor(status, what, hint) {
    super(what);
    this.status = status;
    this.hint = hint;
  }
}

let csrf = "";

export function useSession(session) {
  csrf = session.csrf;
}

async function call(path, options) {
  let found;
  try {
    found = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw new ApiError(0, "The page's server does not answer.", "Is weft web still running?");
  }
  if (found.status === 401) {
    location.assign("/login");
    throw new ApiError(401, "You are not logged in.", "");
  }
  let body = null;
  try {
    body = await found.json();
  } catch {
    if (!found.ok) throw new ApiError(found.status, `The server answered ${found.status}.`, "");
  }
  if (!found.ok) throw new ApiError(found.status, body?.error?.what ?? `The server answered ${found.status}.`, body?.error?.hint ?? "");
  return body;
}

export function get(path, query, signal) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(given).toString();
  return call(`/api/v1/${path}${text ? `?${text}` : ""}`, { signal });
}

export function post(path) {
  return call(path, { method: "POST", headers: { "X-CSRF-Token": csrf } });
}

export const jobPath = (id) => `jobs/${encodeURIComponent(id)}`;

// Follows topics. `handlers` are called with parsed messages; `onState` with whether the stream is open.
export function follow(topics, handlers, onState) {
  const source = new EventSource(`/api/v1/stream?topics=${[...new Set(["counts", ...topics])].join(",")}`);
  for (const [topic, handle] of Object.entries(handlers)) {
    source.addEventListener(topic, (event) => handle(JSON.parse(event.data)));
  }
  source.onopen = () => onState(true);
  source.onerror = () => {
    onState(false);
    if (source.readyState === EventSource.CLOSED) setTimeout(() => get("session").catch(() => {}), 1000);
  };
  // A browser keeps a page that was left, and its stream with it, and it opens no more than six connections to a server.
  const close = () => source.close();
  addEventListener("pagehide", close);
  return () => {
    removeEventListener("pagehide", close);
    close();
  };
}
