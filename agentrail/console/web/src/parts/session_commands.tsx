/** What the menus of a session do alike, in its own head and in the row of the table. */
import type { Signal } from "@preact/signals";
import { useHost } from "../host/host_context";
import type { HostSocket } from "../host/socket";
import { address, go } from "../route";
import { Question } from "./dialog";
import type { MenuItem } from "./menu";

/** Carries out what the second does, and tells the first when it is done. */
export type Doing = (done: string, action: () => Promise<unknown>) => Promise<void>;

/** What the records keep as the reason of an abort or a stop from here. */
export const REASON = { reason: "stopped in the console" };

/** Returns the item that suspends the session, or resumes it. */
export function pauseItem(host: HostSocket, session: string, isSuspended: boolean | undefined, doing: Doing): MenuItem {
  return isSuspended
    ? { label: "Resume", act: () => void doing("Resumed", () => host.call("resume", { session })) }
    : { label: "Suspend", act: () => void doing("Suspended", () => host.call("suspend", { session })) };
}

/** Forks the session, and opens the fork. */
export async function fork(host: HostSocket, session: string): Promise<void> {
  go(address((await host.call("fork", { session, body: {} })).session));
}

/** Returns the item that asks whether the session is to be stopped for good. */
export function stopItem(isStopping: Signal<boolean>): MenuItem {
  return { label: "Stop for good…", act: () => (isStopping.value = true), isDanger: true };
}

/** Asks whether the session is to be stopped for good, and stops it. */
export function StopQuestion({ session, isStopping, doing }: { session: string; isStopping: Signal<boolean>; doing: Doing }) {
  const host = useHost();
  return (
    <Question
      title="Stop for good"
      text="The session ends and cannot go on."
      yes="Stop it"
      isOpen={isStopping}
      act={() => doing("Stopped", () => host.call("stop", { session, body: REASON }))}
    />
  );
}
