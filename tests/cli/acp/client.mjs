// An editor made of the official client: prints what it sees, one fact a line.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [, , library, folder, ...command] = process.argv;
const acp = await import(library);
const agent = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
let seen = [];
let called = () => {};
const app = acp
  .client({ name: "editor" })
  .onRequest("session/request_permission", async ({ params }) => {
    console.log(`asked ${params.toolCall.title}`);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onNotification("session/update", ({ params: { update } }) => {
    seen.push(update.sessionUpdate);
    if (update.status === "in_progress") called();
  });
const connection = app.connect(acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)));
const ask = (method, params) => connection.agent.request(method, params);

const { protocolVersion } = await ask("initialize", { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
console.log(`version ${protocolVersion}`);
const { sessionId } = await ask("session/new", { cwd: folder, mcpServers: [] });
async function turn(text) {
  const { stopReason } = await ask("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  console.log(`ended ${stopReason}`);
}
await turn("write hello to a.txt");
const begun = new Promise((resolve) => (called = resolve));
const counting = turn("count to 3000");
await begun;
await connection.agent.notify("session/cancel", { sessionId });
await counting;
seen = [];
await ask("session/load", { sessionId, cwd: folder, mcpServers: [] });
console.log(`loaded ${seen.join(" ")}`);
await ask("session/close", { sessionId });
agent.on("exit", (code) => console.log(`left ${code}`));
agent.stdin.end();
