// The page: sessions, the transcript of one, what waits for a person. All text goes in as text, never as HTML.
import { Host, path, visible } from "./client.js";

const $ = (id) => document.getElementById(id);

// The token is in the fragment of the address, which is sent to nobody; it is taken out, and kept for this tab alone.
// A host counts only with its token: an address with another host must not get this one.
const given = new URLSearchParams(location.hash.slice(1));
if (given.has("token")) for (const name of ["token", "host"]) sessionStorage.setItem(name, given.get(name) ?? "");
const host = new Host(sessionStorage.getItem("host") || location.origin, sessionStorage.getItem("token"));

let session, following = new AbortController();

function element(tag, text, name = "", ...children) {
  const made = document.createElement(tag);
  made.textContent = text;
  made.className = name;
  made.dir = "auto";
  made.append(...children);
  return made;
}

function line(text, name) {
  const made = element("li", text, name);
  $("transcript").append(made);
  made.scrollIntoView({ block: "end" });
  return made;
}

const state = (text) => ($("state").textContent = text);
const trying = (action) => action().catch((error) => state(error.message));

function button(label, action) {
  const made = element("button", label);
  made.type = "button";
  made.onclick = () => trying(action);
  return made;
}

async function list() {
  const buttons = (await host.all("/v1/sessions")).map((one) => {
    const made = button(one.title || one.session, () => show(one.session));
    if (one.session === session) made.ariaCurrent = "true";
    return element("li", "", "", made);
  });
  $("sessions").replaceChildren(...buttons);
}

async function show(wanted) {
  following.abort();
  following = new AbortController();
  const { signal } = following;
  session = wanted;
  history.replaceState(null, "", `#${new URLSearchParams({ session })}`);
  for (const id of ["transcript", "held"]) $(id).replaceChildren();
  for (const id of ["text", "send", "steer", "abort"]) $(id).disabled = false;
  state("");
  await list();
  answer = null;
  for await (const frame of host.events(session, signal, () => state("The connection is lost; it is made again …"))) {
    if (signal.aborted) return;
    if (frame.name === "gap") gap = " … "; // if the answer goes on, pieces are missing; the whole response follows
    else if (frame.name === "problem") line(frame.data.detail);
    else on[frame.name]?.(frame.data.event);
  }
}

let [answer, gap] = [null, ""]; // the line of the response that is under way; a mark for what it may have lost
const words = (parts = []) => parts.map((part) => (part.$ === "Thinking" ? "" : (part.text ?? ""))).join("");

const on = {
  PromptReceived: (event) => line(event.text, "user"),
  PromptQueued: (event) => line(`queued: ${event.text}`),
  PromptRejected: (event) => line(`refused: ${event.reason}`),
  SteeringReceived: (event) => line(`steered (${event.status}): ${event.text}`, "user"),
  AgentStart: () => state("The agent works."),
  RequestStart: () => ([answer, gap] = [null, ""]),
  MessageDelta: (event) => ((answer ??= line("")).append(gap, event.delta), (gap = "")),
  ResponseComplete: (event) => {
    const text = words(event.message.parts);
    if (text) (answer ?? line("")).textContent = text;
    answer = null;
  },
  ToolExecutionStart: (event) => line(`${event.name} ${visible(event.args ?? "{}")}`),
  ToolExecutionEnd: (event) => line(`${event.name}: ${words(event.content)}`),
  ToolBlocked: (event) => line(`${event.name} was blocked: ${event.reason}`),
  ApprovalRequired: (event) => hold(event.approval_id, event.hint, event.path, (decide) => [
    element("p", `${event.tool} is to run with exactly these arguments:`),
    element("pre", visible(event.args ?? "{}")),
    button("Approve", () => decide("approve", { digest: event.digest })),
    button("Reject", () => decide("reject", { digest: event.digest, auto_resume: true })),
  ]),
  ApprovalResolved: (event) => settle(event.approval_id, `${event.tool}: ${event.status}`),
  AskUser: (event) => hold(event.ref, event.question, [], () => {
    const field = element("input", "");
    const say = (text) => host.command(`${path(session)}/respond`, { ref: event.ref, answer: text });
    const choices = (event.options ?? []).map((each) => button(each, () => say(each)));
    return [...choices, field, button("Answer", () => say(field.value))];
  }),
  UserResponded: (event) => settle(event.ref, `answered: ${event.answer}`),
  AgentEnd: (event) => state(`The turn is over: ${event.reason}.`),
  AgentAbort: (e) => state(e.ref ? `The turn was aborted${e.reason ? `: ${e.reason}` : ""}.` : "No turn is open."),
};

function hold(id, hint, origin, parts) {
  const decide = (what, more) => host.command(`${path(session)}/${what}`, { approval: id, ...more });
  const made = element("div", "", "call", element("p", [...(origin ?? []), hint].join(" / ")), ...parts(decide));
  made.dataset.id = id;
  $("held").append(made);
  state("The agent waits for you.");
}

function settle(id, text) {
  [...$("held").children].find((each) => each.dataset.id === id)?.remove();
  line(text);
}

async function say(action) {
  const text = $("text").value;
  $("text").value = "";
  const body = action === "steer" ? { text, when: "now" } : { message: text };
  const found = await host.command(`${path(session)}/${action}`, body).catch((error) => {
    $("text").value = text;
    throw error;
  });
  if (found.text) line(found.text); // a plugin of the host has answered, such as `/help`: there are no events
}

$("say").onsubmit = () => (trying(() => say("prompt")), false);
$("steer").onclick = () => trying(() => say("steer"));
$("abort").onclick = () => trying(() => host.command(`${path(session)}/abort`, {}));
$("new").onclick = () => trying(async () => show((await host.command("/v1/sessions", {})).session));

if (!host.token) state("The token is missing: open this page with `#host=…&token=…` at the end of its address.");
else trying(() => (given.has("session") ? show(given.get("session")) : list()));
if (!given.has("session")) history.replaceState(null, "", "#");
