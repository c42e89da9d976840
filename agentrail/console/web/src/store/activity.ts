/** What a session does, in the words of every room, and the colour that says so. */

/** A session, as a row of the tree or its status says. */
interface Doing {
  readonly phase: string;
  /** Whether only a person's decision makes its turn go on; its phase may be `idle` or `executing_tools` then. */
  readonly waits: boolean;
  readonly suspended?: boolean;
}

export const WAITS = "needs you";

/** The class that gives a part its role; empty: neither of them. */
export type Role = "is-work" | "is-good" | "is-person" | "is-bad" | "is-sub" | "";

const WORDS: Readonly<Record<string, string>> = {
  running: "working",
  streaming: "writing an answer",
  executing_tools: "running tools",
};

export function activity({ phase, waits, suspended = false }: Doing): string {
  if (suspended) return "suspended";
  return waits ? WAITS : (WORDS[phase] ?? phase);
}

/** Returns the role of what is done. */
export function roleOf({ phase, waits, suspended = false }: Doing): Role {
  if (suspended) return "";
  if (waits) return "is-person";
  return phase in WORDS ? "is-work" : "";
}
