// An editor of version 2, made of the official client: prints what it sees, one fact a line.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [, , library, folder, ...command] = process.argv;
const acp = await import(library);
const agent = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const seen = [];
let idle = () => {};
const app = acp
  .client({ name: "two" })
  .onRequest("session/request_permission", async ({ params }) => {
    console.log(`asked ${params.title}: ${params.description}`);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onNotification("session/update", ({ params: { update } }) => {
    seen.push(update.sessionUpdate);
    if (update.sessionUpdate === "state_update") {
      console.log(`state ${update.state} ${update.stopReason ?? ""}`.trim());
      if (update.state === "idle") idle();
    }
  });
const connection = app.connect(acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)));
const ask = (method, params) => connection.agent.request(method, params);

await ask("initialize", { protocolVersion: 2, info: { name: "two", version: "1" }, capabilities: {} });
const { sessionId } = await ask("session/new", { cwd: folder });
async function turn(text, then = async () => {}) {
  const ends = new Promise((resolve) => (idle = resolve));
  const { messageId } = await ask("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  console.log(`inserted ${messageId}`);
  await then();
  await ends;
}
await turn("write hello to a.txt");
await turn("count to 3000", () => connection.agent.notify("session/cancel", { sessionId }));
seen.length = 0;
const replayed = new Promise((resolve) => (idle = resolve));  // handlers may run after the answer has come
await ask("session/resume", { sessionId, cwd: folder, replayFrom: { type: "start" } });
await replayed;
console.log(`replayed ${seen.join(" ")}`);
await ask("session/close", { sessionId });
agent.on("exit", (code) => console.log(`left ${code}`));
agent.stdin.end();
