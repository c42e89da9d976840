/** The icon of a record, in the colour of what it is. */
import type { Role } from "../store/activity";
import type { Kind } from "../store/record_words";
import { Icon, type IconName } from "./icon";

const ICONS: Readonly<Record<Kind, readonly [IconName, Role | "soft"]>> = {
  person: ["person", "soft"],
  model: ["model", "is-work"],
  good: ["check", "is-good"],
  bad: ["cross", "is-bad"],
  waits: ["person", "is-person"],
  sub: ["subagent", "is-sub"],
  call: ["tool", "soft"],
  other: ["note", "soft"],
};

export function RecordIcon({ kind }: { kind: Kind }) {
  const [name, role] = ICONS[kind];
  return (
    <span class={role}>
      <Icon name={name} />
    </span>
  );
}
