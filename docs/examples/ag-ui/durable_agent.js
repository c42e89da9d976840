// An agent of AG-UI whose runs outlive their connections: it goes on from the last frame that it has.
// Works in browsers and in Node, with `@ag-ui/client` 1.0.

import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";

const ENDS = new Set(["RUN_FINISHED", "RUN_ERROR"]);
const PAUSE = 250; // milliseconds before another attempt

export class DurableAgent extends HttpAgent {
  // `host` is the address of the host, `token` a key, `agent` the name of a profile.
  constructor({ host, token, agent, ...config }) {
    const query = agent === undefined ? "" : `?agent=${encodeURIComponent(agent)}`;
    const headers = { authorization: `Bearer ${token}` };
    super({ ...config, url: `${host}/v1/ag-ui${query}`, headers, fetch: (url, init) => this.#stream(url, init) });
    this.host = host;
  }

  // The host has the conversation: it needs the new message alone.
  requestInit(input) {
    return super.requestInit({ ...input, messages: input.messages.slice(-1) });
  }

  // Join the session as it is now, also in the middle of a run: after a reload, or in a second window.
  connect(input) {
    const init = { headers: this.headers, signal: this.abortController.signal };
    return transformHttpEventStream(runHttpRequest(() => this.#stream(this.#address(input.runId), init)));
  }

  // Stop the turn. To leave a run, which then goes on at the host, call `detachActiveRun`.
  abortRun() {
    const headers = { ...this.headers, "content-type": "application/json" };
    const address = `${this.host}/v1/sessions/${encodeURIComponent(this.threadId)}/abort`;
    return fetch(address, { method: "POST", headers, body: "{}" });
  }

  #address(runId) {
    return `${this.host}/v1/sessions/${encodeURIComponent(this.threadId)}/ag-ui?run=${encodeURIComponent(runId)}`;
  }

  // Return the answer to a request, whose content is that of as many connections as it takes.
  async #stream(url, init) {
    const input = init.body === undefined ? undefined : JSON.parse(init.body);
    let response = await this.#again(url, init);
    if (response.status === 404 && input?.resume !== undefined) {
      // The host took the answers, and was gone before it said so. Joined, the run tells what still waits, if anything.
      response = await this.#again(this.#address(input.runId), { headers: this.headers, signal: init.signal });
    }
    if (!response.ok) return response;
    const runId = input?.runId ?? new URL(url).searchParams.get("run");
    const frames = this.#frames(response, url, init, runId);
    const content = new ReadableStream({
      async pull(controller) {
        const { done, value } = await frames.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: () => frames.return(),
    });
    return new Response(content, { headers: response.headers });
  }

  async *#frames(response, url, init, runId) {
    const encoder = new TextEncoder();
    let last = "";
    for (;;) {
      try {
        for await (const frame of whole(response.body)) {
          last = /^id: (.*)$/m.exec(frame)?.[1] ?? last;
          yield encoder.encode(`${frame}\n\n`);
          const data = /^data: (.*)$/m.exec(frame)?.[1];
          if (data !== undefined && ENDS.has(JSON.parse(data).type)) return;
        }
      } catch (error) {
        if (init.signal?.aborted) throw error;
      }
      // Without a frame, the request is made again: the host carries the same message out once.
      const headers = { ...this.headers, "last-event-id": last };
      response = await (last === "" ? this.#again(url, init) : this.#again(this.#address(runId), { headers, signal: init.signal }));
      if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
    }
  }

  // Fetch, until the host is there.
  async #again(url, init) {
    for (;;) {
      try {
        const response = await fetch(url, init);
        if (response.status < 502) return response;
      } catch (error) {
        if (init.signal?.aborted) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  }
}

// Yield the frames of a stream that came whole; what is left of a cut one comes again.
async function* whole(body) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of body) {
    const frames = (text + decoder.decode(piece, { stream: true })).split("\n\n");
    text = frames.pop();
    yield* frames;
  }
}
