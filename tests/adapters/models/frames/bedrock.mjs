// Writes the recorded streams of Bedrock by AWS's own codec: `npm install @smithy/eventstream-codec @smithy/util-utf8`
// in a folder, then `node bedrock.mjs FOLDER_WITH_NODE_MODULES` beside the files.
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(`${process.argv[2]}/package.json`);
const { EventStreamCodec } = require("@smithy/eventstream-codec");
const { toUtf8, fromUtf8 } = require("@smithy/util-utf8");
const codec = new EventStreamCodec(toUtf8, fromUtf8);

const frame = (key, kind, message, fields) =>
  codec.encode({
    headers: {
      [key]: { type: "string", value: kind },
      ":content-type": { type: "string", value: "application/json" },
      ":message-type": { type: "string", value: message },
      "x-number": { type: "long", value: { bytes: new Uint8Array([0, 0, 0, 0, 0, 0, 1, 2]) } },
      "x-flag": { type: "boolean", value: true },
    },
    body: fromUtf8(JSON.stringify(fields)),
  });
const event = (kind, fields) => frame(":event-type", kind, "event", fields);
const delta = (contentBlockIndex, fields) => event("contentBlockDelta", { contentBlockIndex, delta: fields });
const usage = { inputTokens: 9, outputTokens: 4, totalTokens: 20, cacheReadInputTokens: 5, cacheWriteInputTokens: 2 };
const ended = (stopReason) => [
  event("messageStop", { stopReason }),
  event("metadata", { usage, metrics: { latencyMs: 1 } }),
];
const begun = event("messageStart", { role: "assistant" });

const streams = {
  text: [begun, delta(0, { text: "Grüß " }), delta(0, { text: "Gott 🙂" }), event("contentBlockStop", { contentBlockIndex: 0 }), ...ended("end_turn")],
  tools: [
    begun,
    delta(0, { reasoningContent: { text: "I look." } }),
    delta(0, { reasoningContent: { signature: "c2ln" } }),
    event("contentBlockStart", { contentBlockIndex: 1, start: { toolUse: { toolUseId: "tooluse_1", name: "lamp" } } }),
    delta(1, { toolUse: { input: '{"room":' } }),
    delta(1, { toolUse: { input: '"kitchen"}' } }),
    event("contentBlockStop", { contentBlockIndex: 1 }),
    ...ended("tool_use"),
  ],
  exception: [begun, delta(0, { text: "One " }), frame(":exception-type", "throttlingException", "exception", { message: "slow down" })],
};
for (const [name, frames] of Object.entries(streams)) {
  writeFileSync(new URL(`bedrock_${name}.bin`, import.meta.url), Buffer.concat(frames));
}
