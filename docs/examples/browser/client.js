// Talks to a host of agentrail: calls, and a session's events as they happen.

// What the host refuses: the sentence of its problem document.
export class Problem extends Error {
  constructor(status, found) {
    super(found.detail ?? found.title ?? `status ${status}`);
    this.status = status;
  }
}

export class Host {
  constructor(address, token) {
    this.address = address;
    this.token = token;
  }

  async fetch(method, path, { body, headers, signal } = {}) {
    const response = await fetch(this.address + path, {
      method,
      signal,
      body: body && JSON.stringify(body),
      headers: { ...headers, "content-type": "application/json", authorization: `Bearer ${this.token}` },
      credentials: "omit",
      cache: "no-store",
    }).catch(() => Promise.reject(new Error(`${this.address} does not answer, or not to this page: see \`--origin\``)));
    if (response.ok) return response;
    throw new Problem(response.status, await response.json().catch(() => ({})));
  }

  async get(path) {
    return read(await (await this.fetch("GET", path)).text());
  }

  // Gives all items of a list, page after page.
  async all(path) {
    const found = [];
    for (let next = ""; next !== null; ) {
      const page = await this.get(`${path}${next && `?after=${encodeURIComponent(next)}`}`);
      found.push(...page.items);
      next = page.next;
    }
    return found;
  }

  // Sends a command. It has an id, so that it can be sent again if the connection breaks, and is carried out once.
  async command(path, body) {
    const key = crypto.getRandomValues(new Uint32Array(4)).join("-");
    for (let left = 3; ; left -= 1) {
      try {
        const text = await (await this.fetch("POST", path, { body, headers: { "idempotency-key": key } })).text();
        return text && read(text);
      } catch (error) {
        if (error instanceof Problem || !left) throw error;
        await pause(500);
      }
    }
  }

  // Gives each frame of a session's events, from the first one on and as they happen. A connection that is lost is made
  // again, from the cursor of the last event on, so none is missed and none comes twice. `lost` is called meanwhile.
  async *events(session, signal, lost) {
    let cursor = "0.0";
    for (let wait = 200; ; wait = Math.min(2 * wait, 5000)) {
      try {
        const headers = { "last-event-id": cursor };
        for await (const frame of frames(await this.fetch("GET", `${path(session)}/events`, { headers, signal }))) {
          yield frame;
          cursor = frame.id ?? cursor;
          wait = 200;
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof Problem && error.status < 500 && error.status !== 429) throw error;
      }
      lost();
      await pause(wait);
    }
  }
}

export const path = (session) => `/v1/sessions/${encodeURIComponent(session)}`;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function* frames(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const frame = Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      if (frame.event) yield { id: frame.id, name: frame.event, data: read(frame.data) };
    }
  }
}

// Parses JSON, but leaves the value of each key "args" as the text that came. What a person approves must be what runs;
// `JSON.parse` would round long numbers, and put keys that are numbers first.
export function read(text) {
  const tokens = [...text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]]|[^\s{}[\]:,"]+/g)];
  let at = 0;
  const is = (mark) => tokens[at][0] === mark;
  const value = () => {
    const token = tokens[at++][0];
    if (token === "[") {
      const found = [];
      while (!is("]")) found.push(value());
      at++;
      return found;
    }
    if (token !== "{") return JSON.parse(token);
    const found = { __proto__: null };
    while (!is("}")) {
      const key = JSON.parse(tokens[at++][0]);
      const start = tokens[at].index;
      const one = value();
      const last = tokens[at - 1];
      found[key] = key === "args" ? text.slice(start, last.index + last[0].length) : one;
    }
    at++;
    return found;
  };
  return value();
}

// JSON text in which characters that do not show, or that turn a line around, are written as escapes.
export const visible = (json) =>
  json.replace(/(?! )[\p{C}\p{Z}\p{DI}]/gu, (found) =>
    found.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""));
