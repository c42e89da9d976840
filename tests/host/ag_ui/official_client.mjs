// Scenes with the official client; each prints what it has seen as one line of JSON.

import { buildResumeArray } from "@ag-ui/client";
import { DurableAgent } from "./durable_agent.js";

const [host, token] = process.argv.slice(2);
const lines = console.log;
console.warn = (...words) => { throw new Error(`warned: ${words.join(" ")}`); };

function agentOf(threadId) {
  return new DurableAgent({ host, token, threadId });
}

function tell(name, facts) {
  lines(JSON.stringify({ scene: name, ...facts }));
}

// Run `agent` with a message, and return the types of the events and how the run has ended.
async function run(agent, text, more = {}, on = () => {}) {
  if (text !== undefined) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
  return heard((subscriber) => agent.runAgent(more, subscriber), on);
}

async function heard(begin, on = () => {}) {
  const types = [];
  let ending;
  await begin({
    onEvent: ({ event }) => {
      if (types.at(-1) !== event.type) types.push(event.type);
      if (event.type === "RUN_FINISHED" || event.type === "RUN_ERROR") ending = event;
      on(event);
    },
  });
  return { types, outcome: ending?.outcome?.type ?? ending?.message };
}

const said = (agent) => agent.messages.map((message) => [message.role, message.content ?? ""]);

const scenes = {
  async tool() {
    const agent = agentOf("tool");
    const { types, outcome } = await run(agent, "add 2 3");
    const call = agent.messages.find((message) => message.toolCalls !== undefined).toolCalls[0].function;
    tell("tool", { types, outcome, call, said: said(agent) });
  },
  async interrupt() {
    const agent = agentOf("interrupt");
    const first = await run(agent, "pay eve");
    const [interrupt] = agent.pendingInterrupts;
    let refused;
    try { await run(agent, "never mind"); } catch (error) { refused = error.message; }
    agent.messages.pop();
    const resume = buildResumeArray(agent.pendingInterrupts, { [interrupt.id]: { status: "resolved", payload: { approved: true } } });
    const second = await run(agent, undefined, { resume });
    tell("interrupt", { first: first.outcome, refused: refused?.includes("pending interrupt"), second: second.outcome, said: said(agent), left: agent.pendingInterrupts });
  },
  async abort() {
    const agent = agentOf("abort");
    let aborted;
    const { outcome } = await run(agent, "count 5000", {}, (event) => {
      if (event.type === "TEXT_MESSAGE_CONTENT") aborted ??= agent.abortRun();
    });
    tell("abort", { outcome, status: (await aborted).status });
  },
  async subagent() {
    const agent = agentOf("subagent");
    const { types, outcome } = await run(agent, "hand over");
    const inner = agent.messages.filter((message) => message.subagentRunId !== undefined).map((message) => [message.role, message.content ?? ""]);
    tell("subagent", { started: types.includes("SUBAGENT_STARTED"), ended: types.includes("SUBAGENT_FINISHED"), outcome, inner, last: said(agent).at(-1) });
  },
  // The host is killed when it reads `kill`, and another process takes its place.
  async killed() {
    const agent = agentOf("killed");
    let pieces = 0;
    const { outcome } = await run(agent, "count 200", {}, (event) => {
      if (event.type === "TEXT_MESSAGE_CONTENT" && ++pieces === 20) lines("kill");
    });
    tell("killed", { outcome, said: said(agent) });
  },
  async guide() {
    await run(agentOf("trip"), "add 2 3");
    const [first, second] = await Promise.all([import("./first.mjs"), import("./second.mjs")]);
    tell("guide", { first: said(first.agent), second: said(second.agent) });
  },
  async reload() {
    const first = agentOf("reload");
    const second = agentOf("reload");
    let pieces = 0;
    let joined;
    const { outcome } = await run(first, "count 200", {}, (event) => {
      if (event.type === "TEXT_MESSAGE_CONTENT" && ++pieces === 20) {
        joined = heard((subscriber) => second.connectAgent({}, subscriber));
      }
    });
    const rejoined = await joined;
    tell("reload", { outcome, types: rejoined.types, same: JSON.stringify(said(first)) === JSON.stringify(said(second)), said: said(second) });
  },
};

for (const name of process.argv.slice(4)) await scenes[name]();
