// The official client in JavaScript wants push notifications: `node push_client.mjs URL KEY HOOK`; with `parse`, it
// reads the notifications in bodies.json by the SDK's types.
import { readFileSync } from "node:fs";
import { StreamResponse } from "@a2a-js/sdk";
import { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory } from "@a2a-js/sdk/client";

const [url, key, hook] = process.argv.slice(2);
if (url === "parse") {
  const parsed = JSON.parse(readFileSync("bodies.json", "utf8")).map((body) => {
    const { $case: kind, value } = StreamResponse.fromJSON(body).payload;
    return [kind, value.id, value.status.state];
  });
  console.log(JSON.stringify(parsed));
  process.exit(0);
}
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
const config = (id, taskId = "") => ({ tenant: "", id, taskId, url: hook, token: "t", authentication: undefined });
const message = (part, more = {}, configuration = undefined) => ({
  tenant: "",
  message: {
    messageId: crypto.randomUUID(), contextId: "", taskId: "", role: 1, extensions: [], referenceTaskIds: [],
    metadata: undefined, parts: [{ content: part, metadata: undefined, filename: "", mediaType: "" }], ...more,
  },
  configuration, metadata: undefined,
});
const held = await client.sendMessage(
  message({ $case: "text", value: "run x" }, { contextId: "js-push" }, {
    acceptedOutputModes: [], taskPushNotificationConfig: config(""), historyLength: undefined, returnImmediately: false,
  }),
);
const named = { tenant: "", taskId: held.id, id: "second" };
await client.createTaskPushNotificationConfig(config("second", held.id));
const got = await client.getTaskPushNotificationConfig(named);
const listed = await client.listTaskPushNotificationConfig({ tenant: "", taskId: held.id, pageSize: 0, pageToken: "" });
const facts = held.status.message.parts[1].content.value;
await client.deleteTaskPushNotificationConfig(named);
await client.sendMessage(message({ $case: "data", value: { ...facts, decision: "approve" } }, { taskId: held.id }));
const ids = listed.configs.map(({ id }) => id).sort((left, right) => (left === "second" ? -1 : right === "second" ? 1 : 0));
for (let patience = 100; patience; patience -= 1) {
  const left = await client.listTaskPushNotificationConfig({ tenant: "", taskId: held.id, pageSize: 0, pageToken: "" });
  if (!left.configs.length) break;
  await new Promise((resolve) => setTimeout(resolve, 50));
}
console.log(JSON.stringify({ task: held.id, got: got.url, ids }));
