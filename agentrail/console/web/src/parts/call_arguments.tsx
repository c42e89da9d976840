/** The arguments of a call, exactly: a row for each, and on demand the JSON that came. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { entriesOf, indented, type Json } from "../host/exact_json";
import { Folded } from "./folded";
import { JsonText } from "./json_text";
import { escaped, Plain, withHiddenShown } from "./plain";

/** The longest text that is shown in a line; a longer one, or one of several lines, is folded. */
const LINE = 120;

export function CallArguments({ args }: { args: Json }) {
  const entries = entriesOf(args.json);
  const isOpen = useSignal(false);
  return (
    <>
      {entries.length > 0 ? (
        <table class="arguments" aria-label="The arguments">
          <tbody>
            {entries.map(([name, value]) => (
              <tr>
                <th scope="row">
                  <Plain text={name} />
                </th>
                <td>
                  <Value name={name} json={value} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p class="soft small">It has no arguments.</p>
      )}
      <details class="small" onToggle={({ currentTarget }) => (isOpen.value = currentTarget.open)}>
        <summary>As JSON</summary>
        {isOpen.value && <JsonText value={args} what="arguments" />}
      </details>
    </>
  );
}

function Value({ name, json }: { name: string; json: string }): ComponentChildren {
  const isText = json.startsWith('"');
  const text = isText ? (JSON.parse(json) as string) : indented(json);
  if (text.length > LINE || text.includes("\n")) return <Folded text={isText ? text : escaped(text)} what={name} isCode={!isText} />;
  // Of a text that looks like none, or that has blanks that are none, the quotes and escapes are shown
  const isOdd = text.trim() !== text || text === "" || /(?! )\p{Z}/u.test(text);
  if (!isText || isOdd) return <code>{escaped(json)}</code>;
  return <bdi>{withHiddenShown(text)}</bdi>;
}
