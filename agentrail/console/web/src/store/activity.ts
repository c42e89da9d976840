/** What a session does, in the words of every room. */

/** A session, as a row of the tree or its status says. */
interface Doing {
  readonly phase: string;
  /** Whether only a person's decision makes its turn go on; its phase may be `idle` or `executing_tools` then. */
  readonly waits: boolean;
}

export const WAITS = "waits for a person";

export function activity({ phase, waits }: Doing): string {
  return waits ? WAITS : phase;
}
