// Folds streams of events as the page does: one stream a line at its input, the items of each a line at its output.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [web, folder] = process.argv.slice(2);
const typescript = createRequire(join(web, "package.json"))("typescript");
const source = readFileSync(join(web, "src", "store", "conversation.ts"), "utf8");
const options = { target: typescript.ScriptTarget.ES2022, module: typescript.ModuleKind.ES2022 };
const module = join(folder, "conversation.mjs");
writeFileSync(module, typescript.transpileModule(source, { compilerOptions: options }).outputText);
const { Conversation } = await import(pathToFileURL(module).href);

const itemsOf = ({ items }) =>
  items.map((item) => ({ ...item, branch: undefined, inner: item.branch ? itemsOf(item.branch) : [] }));

for (const line of readFileSync(0, "utf8").trimEnd().split("\n")) {
  const conversation = new Conversation();
  for (const envelope of JSON.parse(line)) conversation.apply(envelope.event, envelope);
  console.log(JSON.stringify(itemsOf(conversation)));
}
