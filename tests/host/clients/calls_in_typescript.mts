/**
 * Calls each route of a host by `openapi-fetch`, with the types that `openapi-typescript` makes of its document.
 *
 * `test_generated_clients.py` checks the types of this program, and runs it with the address of the host and a key.
 */
import createClient from "openapi-fetch";
import type { paths } from "./host_types.js";

declare const process: { argv: string[] };

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

const [url = "", key = ""] = process.argv.slice(2);
const anyone = createClient<paths>({ baseUrl: url });
const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });

function check(isTrue: boolean, found: unknown): void {
  if (!isTrue) throw new Error(`found ${JSON.stringify(found)}`);
}

/** Return what the host gave; fail if that was a problem. */
function good<T>({ data, error, response }: Answer<T>): T {
  if (data === undefined) throw new Error(`${response.status}: ${JSON.stringify(error)}`);
  return data;
}

/** Fail if the host did not answer that a command was carried out. */
function done({ error, response }: Answer<unknown>): void {
  check(response.status === 204, error);
}

const sessionOf = (id: string) => ({ path: { id } });
const trip = sessionOf("trip");

async function aboutTheHost(): Promise<void> {
  check(good(await anyone.GET("/healthz")).status === "ok", "another status");
  check(good(await anyone.GET("/readyz")).ready, "a host that is not ready");
  check(good(await anyone.GET("/", { parseAs: "text" })).includes("<html"), "no page");
  const file = await anyone.GET("/console/{file}", { params: { path: { file: "none.js" } }, parseAs: "text" });
  check(file.response.status === 404, "the console has no such file");
  check("paths" in good(await anyone.GET("/openapi.json")), "no document");
  check(good(await client.GET("/metrics", { parseAs: "text" })).includes("agentrail_sessions"), "no figures");
  const own = good(await client.GET("/v1/identity"));
  check(own.tenant === "evil" && own.user === "ann" && own.scopes.join() === "admin,decide,observe,talk", own);
  const agents = good(await client.GET("/v1/agents")).items;
  check(agents.join() === "desk", agents);
  good(await client.GET("/v1/commands"));
  good(await client.GET("/v1/tree"));
  const rows = good(await client.GET("/v1/tree/rows", { params: { query: { limit: 5 } } }));
  check(rows.matching === 0, rows);
  check(good(await client.GET("/v1/trouble")).items.length === 0, "some trouble");
  check(good(await client.GET("/v1/figures")).series.length === 0, "some figures");
  check((await client.GET("/v1/evaluations")).response.status === 403, "experiments are for the operator of the host");
  const evaluation = await client.GET("/v1/evaluation", { params: { query: { file: "main" } } });
  check(evaluation.response.status === 403, evaluation.error);
  check(good(await client.GET("/v1/candidates")).items.length === 0, "some candidates");
  const { response } = await client.GET("/v1/ws"); // a WebSocket needs a client of its own
  check(response.status === 426, response.status);
}

async function talking(): Promise<void> {
  good(await client.POST("/v1/sessions", { body: { session: "trip", title: "A trip" } }));
  const file = await client.POST("/v1/sessions/{id}/files", {
    params: { ...trip, query: { name: "list.txt" } },
    headers: { "Content-Type": "application/octet-stream" },
    body: "milk",
    bodySerializer: (bytes) => bytes,
  });
  check(good(file).size === 4, file);
  check(good(await client.GET("/v1/sessions/{id}/files", { params: trip })).items.length === 0, "some files");
  const missing = { params: { ...trip, query: { path: "list.txt" } } };
  check((await client.GET("/v1/sessions/{id}/file", missing)).response.status === 404, "a file that nobody wrote");
  check((await client.GET("/v1/sessions/{id}/file/piece", missing)).response.status === 404, "a piece of it");
  const reply = good(await client.POST("/v1/chat", { body: { message: "hello", session: "trip" } }));
  check(reply.text === "done" && reply.held.length === 0, reply);
  const body = { message: "hello", session: "trip" };
  const streamed = good(await client.POST("/v1/stream", { body, parseAs: "text" }));
  check(String(streamed).includes("event: reply"), streamed);
  const input = { threadId: "trip", runId: "run", messages: [{ role: "user", id: "first", content: "hello" }] };
  const run = good(await client.POST("/v1/ag-ui", { body: input, parseAs: "text" }));
  check(String(run).includes("RUN_FINISHED"), run);
  const followed = good(await client.GET("/v1/sessions/{id}/ag-ui", { params: trip, parseAs: "text" }));
  check(String(followed).includes("RUN_FINISHED"), followed);
  const asked = good(await client.POST("/v1/sessions/{id}/ask", { params: trip, body: { message: "hello" } }));
  check(asked.text === "done", asked);
  const params = { ...trip, query: { limit: 2 } };
  const messages = good(await client.GET("/v1/sessions/{id}/messages", { params })).items;
  check(messages.length === 2, messages);
  good(await client.GET("/v1/sessions/{id}", { params: trip }));
  good(await client.GET("/v1/sessions/{id}/offered", { params: trip }));
  done(await client.POST("/v1/sessions/{id}/label", { params: trip, body: { add: ["red"] } }));
  const sessions = good(await client.GET("/v1/sessions", { params: { query: { label: "red" } } })).items;
  check(sessions.map((session) => session.title).join() === "A trip", sessions);
  const records = good(await client.GET("/v1/sessions/{id}/records", { params })).records;
  check(records.map((record) => record.number).join() === "1,2", records);
  const about = { ...trip, query: { about: "1" } };
  check(good(await client.GET("/v1/sessions/{id}/why", { params: about })).entries.length > 0, "nothing told");
  const options = JSON.stringify({ BudgetGuard: { max_rounds: 1 } });
  const tried = await client.GET("/v1/sessions/{id}/what-if", { params: { ...trip, query: { options } } });
  check(good(tried).records > 0, "nothing tried");
  const first = { ...trip, query: { record: 1 } };
  check(good(await client.GET("/v1/sessions/{id}/at", { params: first })).record === 1, "another record");
  check(good(await client.GET("/v1/sessions/{id}/timeline", { params: trip })).spans.length > 0, "no spans");
  const round = { ...trip, query: { round: 1 } };
  check(good(await client.GET("/v1/sessions/{id}/seen", { params: round })).sent.number === 1, "another round");
}

async function steering(): Promise<void> {
  const params = { ...trip, header: { "Idempotency-Key": "k1" } };
  good(await client.POST("/v1/sessions/{id}/prompt", { params, body: { message: "wait" } }));
  const second = good(await client.POST("/v1/sessions/{id}/prompt", { params: trip, body: { message: "hello" } }));
  const queued = good(await client.GET("/v1/sessions/{id}/queue", { params: trip })).items;
  check(queued.map((prompt) => prompt.ref).join() === second.ref, queued);
  done(await client.POST("/v1/sessions/{id}/withdraw", { params: trip, body: { ref: second.ref } }));
  done(await client.POST("/v1/sessions/{id}/disallow", { params: trip, body: { tool: "pay", command_family: "pay" } }));
  good(await client.POST("/v1/sessions/{id}/steer", { params: trip, body: { text: "hurry" } }));
  done(await client.POST("/v1/sessions/{id}/abort", { params: trip, body: { reason: "enough" } }));
}

/** Return the id of what waits for a person after a message. */
async function held(message: string): Promise<string> {
  const reply = good(await client.POST("/v1/chat", { body: { message, session: "trip" } }));
  const [first] = good(await client.GET("/v1/approvals")).items;
  if (first === undefined || first.id !== reply.held[0]?.id) throw new Error(JSON.stringify(reply));
  return first.id;
}

async function deciding(): Promise<void> {
  const reject = { approval: await held("pay"), auto_resume: true };
  done(await client.POST("/v1/sessions/{id}/reject", { params: trip, body: reject }));
  const approve = { approval: await held("pay"), args: { to: "bob" } };
  const ofCall = { ...trip, query: { approval: approve.approval } };
  const shown = good(await client.GET("/v1/sessions/{id}/change", { params: ofCall }));
  check(shown.path === null && shown.unseen === null, shown); // the tool writes no file
  done(await client.POST("/v1/sessions/{id}/approve", { params: trip, body: approve }));
  const respond = { ref: await held("question"), answer: "that one" };
  done(await client.POST("/v1/sessions/{id}/respond", { params: trip, body: respond }));
  const reply = good(await client.GET("/v1/sessions/{id}/reply", { params: trip }));
  check(reply.text === "done" && reply.held.length === 0, reply);
  const built = { $: "Ok" as const, content: [{ $: "Text" as const, text: "built" }] };
  const result = { call: await held("build"), result: built };
  done(await client.POST("/v1/sessions/{id}/result", { params: trip, body: result }));
}

async function changing(): Promise<void> {
  done(await client.POST("/v1/sessions/{id}/suspend", { params: trip }));
  done(await client.POST("/v1/sessions/{id}/resume", { params: trip }));
  done(await client.POST("/v1/sessions/{id}/model", { params: trip, body: { model: "demo" } }));
  done(await client.POST("/v1/sessions/{id}/tools", { params: trip, body: { do: "attach", tools: ["look"] } }));
  for (const change of ["attach", "detach"] as const) {
    const body = { do: change, plugin: "EventLogger" };
    done(await client.POST("/v1/sessions/{id}/plugins", { params: trip, body }));
  }
  done(await client.POST("/v1/sessions/{id}/compact", { params: trip, body: { reason: "long" } }));
}

async function delegating(): Promise<void> {
  const params = sessionOf("boss");
  good(await client.POST("/v1/sessions", { body: { session: "boss" } }));
  good(await client.POST("/v1/sessions/{id}/prompt", { params, body: { message: "delegate" } }));
  let child: string | undefined;
  while (child === undefined) child = good(await client.GET("/v1/sessions/{id}/tasks", { params })).items[0]?.child;
  const query = { child };
  done(await client.POST("/v1/sessions/{id}/tasks", { params, body: { child, text: "hurry" } }));
  const wait = { ...params, query: { children: child, milliseconds: 1 } };
  good(await client.GET("/v1/sessions/{id}/tasks/results", { params: wait }));
  done(await client.DELETE("/v1/sessions/{id}/tasks", { params: { ...params, query } }));
  good(await client.GET("/v1/sessions/{id}/tasks/result", { params: { ...params, query } }));
}

async function knowing(): Promise<void> {
  const store = { path: { store: "handbook" } };
  const start = { path: { store: "handbook", name: "guide/start.md" } };
  const added = await client.PUT("/v1/knowledge/{store}/documents/{name}", {
    params: start,
    headers: { "Content-Type": "text/markdown" },
    body: "# Start\n\nMilk is white.",
    bodySerializer: (bytes) => bytes,
  });
  const stores = good(await client.GET("/v1/knowledge")).items;
  check(stores.length === 1 && stores[0]?.store === "handbook", stores);
  const listed = good(await client.GET("/v1/knowledge/{store}/documents", { params: { ...store, query: { limit: 5 } } }));
  check(listed.items[0]?.digest === good(added).digest, listed);
  const found = await client.GET("/v1/knowledge/{store}/search", { params: { ...store, query: { query: "white milk" } } });
  const [best] = good(found).items;
  check(best !== undefined, found.data);
  const part = { ...start, query: { start: best.start, end: best.end } };
  check(good(await client.GET("/v1/knowledge/{store}/documents/{name}", { params: part })).text === best.text, part);
  const cited = await client.GET("/v1/sessions/{id}/cited", { params: { ...trip, query: { store: "handbook" } } });
  check(good(cited).items.length === 0, cited.data);
  done(await client.DELETE("/v1/knowledge/{store}/documents/{name}", { params: start }));
  done(await client.DELETE("/v1/knowledge/{store}", { params: store }));
}

async function ending(): Promise<void> {
  const forked = await client.POST("/v1/sessions/{id}/fork", { params: trip, body: { session: "copy" } });
  const params = sessionOf(good(forked).session);
  const preview = await client.GET("/v1/sessions/{id}/rewind", { params: { ...params, query: { since: 0 } } });
  check(good(preview).files.length === 0, "nothing ran in the copy");
  const rewound = await client.POST("/v1/sessions/{id}/rewind", { params, body: { since: 0 } });
  check(good(rewound).files.length === 0, "so nothing comes back");
  const events = await client.GET("/v1/sessions/{id}/events", {
    params: { ...params, query: { since: "0" } },
    parseAs: "stream",
  });
  done(await client.POST("/v1/sessions/{id}/stop", { params, body: {} }));
  const text = await new Response(good(events)).text(); // the stream ends with its session
  check(text.includes("event: SessionEnd"), text);
  good(await client.DELETE("/v1/sessions/{id}", { params }));
}

for (const part of [aboutTheHost, talking, steering, deciding, changing, delegating, knowing, ending]) await part();
