// The page: shows the messages of a thread as the agent has them, and asks about what waits.

import { DurableAgent } from "./durable_agent.js";

// The part of the address after `#` is sent to nobody: #host=…&token=…&thread=…
const place = new URLSearchParams(location.hash.slice(1));
const threadId = place.get("thread") ?? crypto.randomUUID();
place.set("thread", threadId);
history.replaceState(null, "", `#${place}`);

const agent = new DurableAgent({ host: place.get("host"), token: place.get("token"), threadId });
const element = (id) => document.getElementById(id);

// What agents and tools have written goes in as text, never as HTML.
function line(kind, text) {
  const paragraph = document.createElement("p");
  paragraph.className = kind;
  paragraph.textContent = text;
  return paragraph;
}

function lines(message) {
  const content = typeof message.content === "string" ? message.content : JSON.stringify(message.content ?? "");
  const calls = message.toolCalls ?? [];
  return [
    ...(content === "" ? [] : [line(message.role, content)]),
    ...calls.map(({ function: call }) => line("call", `${call.name} ${call.arguments}`)),
  ];
}

function show() {
  element("messages").replaceChildren(...agent.messages.flatMap(lines));
}

function button(text, payload) {
  const made = document.createElement("button");
  made.textContent = text;
  made.onclick = () => {
    const resume = agent.pendingInterrupts.map(({ id, metadata }) => {
      // With the digest, the host refuses the decision if it is about something else than what was shown.
      return { interruptId: id, status: "resolved", payload: { ...payload, digest: metadata.digest } };
    });
    run(() => agent.runAgent({ resume }));
  };
  return made;
}

function ask() {
  const calls = agent.messages.flatMap((message) => message.toolCalls ?? []);
  const asked = agent.pendingInterrupts.map(({ message, toolCallId }) => {
    // The arguments as they came: written again from numbers, they may be others.
    const call = calls.find(({ id }) => id === toolCallId)?.function;
    return line("interrupt", call === undefined ? message : `${message}\n${call.name} ${call.arguments}`);
  });
  const isQuestion = agent.pendingInterrupts.some(({ reason }) => reason !== "tool_call");
  const buttons = isQuestion ? [] : [button("Approve", { approved: true }), button("Reject", { approved: false })];
  element("interrupts").replaceChildren(...asked, ...(asked.length > 0 ? buttons : []));
}

async function run(begin) {
  element("state").textContent = "…";
  element("interrupts").replaceChildren();
  try {
    await begin();
    element("state").textContent = "";
  } catch (error) {
    element("state").textContent = error.message;
  }
  show();
  ask();
}

agent.subscribe({ onMessagesChanged: show });

element("form").onsubmit = (event) => {
  event.preventDefault();
  const content = element("text").value;
  element("text").value = "";
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  run(() => agent.runAgent());
};

element("stop").onclick = () => agent.abortRun();

// What was said before, and the run that goes on, if one does. A thread without a message has no session yet.
run(() => agent.connectAgent()).then(() => {
  if (agent.messages.length === 0) element("state").textContent = "";
});
