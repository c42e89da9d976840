// Shows changes as the page does: those of one stream a line at its input, the items of each a line at its output.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [web, folder] = process.argv.slice(2);
const typescript = createRequire(join(web, "package.json"))("typescript");
const options = { target: typescript.ScriptTarget.ES2022, module: typescript.ModuleKind.ES2022 };
for (const name of ["conversation", "note_words"]) {
  const source = readFileSync(join(web, "src", "store", `${name}.ts`), "utf8");
  const { outputText } = typescript.transpileModule(source, { compilerOptions: options });
  writeFileSync(join(folder, `${name}.mjs`), outputText.replace('"./note_words"', '"./note_words.mjs"'));
}
const { Conversation } = await import(pathToFileURL(join(folder, "conversation.mjs")).href);

const itemsOf = ({ items }) =>
  items.map((item) => ({ ...item, branch: undefined, inner: item.branch ? itemsOf(item.branch) : [] }));

for (const line of readFileSync(0, "utf8").trimEnd().split("\n")) {
  const conversation = new Conversation();
  for (const told of JSON.parse(line)) for (const change of told.changes) conversation.apply(change, 1, told);
  console.log(JSON.stringify(itemsOf(conversation)));
}
