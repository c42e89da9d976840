/** What a room says when it has nothing: what would be here, when it was so last, and the next step. */
import type { ComponentChildren } from "preact";
import { Icon, type IconName } from "./icon";

interface EmptyProps {
  readonly icon: IconName;
  readonly title: string;
  readonly children?: ComponentChildren;
  /** What one can do now: buttons, or a command. */
  readonly next?: ComponentChildren;
}

export function Empty({ icon, title, children, next }: EmptyProps) {
  return (
    <div class="empty">
      <Icon name={icon} />
      <strong>{title}</strong>
      {children && <p>{children}</p>}
      {next}
    </div>
  );
}
