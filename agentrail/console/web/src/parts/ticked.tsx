/** A sentence of the host, in which names stand between backticks: they are set as code. */
import { withHiddenShown } from "./plain";

export function Ticked({ text }: { text: string }) {
  const parts = text.split(/`([^`]*)`/);
  return <bdi>{parts.map((part, index) => (index % 2 ? <code>{withHiddenShown(part)}</code> : withHiddenShown(part)))}</bdi>;
}
