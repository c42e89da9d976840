/** A JSON value of any shape, exactly as it came: only blanks between its tokens are added. */
import { indented, type Json } from "../host/exact_json";
import { Folded } from "./folded";
import { escaped } from "./plain";

export function JsonText({ value, what }: { value: Json | string | null; what: string }) {
  const json = value === null ? "null" : typeof value === "string" ? JSON.stringify(value) : indented(value.json);
  return <Folded text={escaped(json)} what={what} isCode />;
}
