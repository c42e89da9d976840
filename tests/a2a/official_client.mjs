// The official client in JavaScript talks to a host: `node official_client.mjs URL KEY`; prints what it got as JSON.
import { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory } from "@a2a-js/sdk/client";

const [url, key] = process.argv.slice(2);
const keyed = (input, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("authorization", `Bearer ${key}`);
  return fetch(input, { ...init, headers });
};
const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
  transports: [new JsonRpcTransportFactory({ fetchImpl: keyed })],
  cardResolver: new DefaultAgentCardResolver({ fetchImpl: keyed }),
});
const client = await new ClientFactory(options).createFromUrl(url);
const message = (part, more = {}) => ({
  tenant: "",
  message: {
    messageId: crypto.randomUUID(), contextId: "", taskId: "", role: 1, extensions: [], referenceTaskIds: [],
    metadata: undefined, parts: [{ content: part, metadata: undefined, filename: "", mediaType: "" }], ...more,
  },
  configuration: undefined, metadata: undefined,
});
const text = (value) => ({ $case: "text", value });
const states = [];
let task;
const follow = async (params) => {
  let last;
  for await (const event of client.sendMessageStream(params)) {
    const { $case: kind, value } = event.payload;
    if (kind === "task") task = value;
    if (kind === "statusUpdate") last = value.status;
    states.push(kind === "artifactUpdate" ? "artifact" : `${kind} ${value.status.state}`);
  }
  return last;
};
const held = await follow(message(text("run x"), { contextId: "js" }));
const facts = held.message.parts[1].content.value;
const ids = { taskId: task.id, contextId: task.contextId };
await follow(message({ $case: "data", value: { ...facts, decision: "approve" } }, ids));
const got = await client.getTask({ tenant: "", id: task.id, historyLength: undefined });
const plain = await client.sendMessage(message(text("hello"), { contextId: "js" }));
let second;
await follow(message(text("run y"), { contextId: "js" }));
const canceled = await client.cancelTask({ tenant: "", id: task.id, metadata: undefined });
await client.cancelTask({ tenant: "", id: task.id, metadata: undefined }).catch((error) => { second = error.constructor.name; });
console.log(JSON.stringify({ states, got, plain, canceled: canceled.status.state, second }));
