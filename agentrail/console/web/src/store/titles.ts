/** Titles of sessions, whether they run or are stored; each is asked for once. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { useHost } from "../host/host_context";
import { Refused } from "../host/socket";

/** Returns what gives the title of one of *sessions*, or its id if it has none or may not be seen. */
export function useTitles(sessions: readonly string[]): (session: string) => string {
  const host = useHost();
  const titles = useSignal<ReadonlyMap<string, string>>(new Map());
  const asked = useRef(new Set<string>());
  useEffect(() => {
    for (const session of sessions) {
      if (asked.current.has(session)) continue;
      asked.current.add(session);
      host.call("show_session", { session }).then(
        ({ title }) => (titles.value = new Map(titles.value).set(session, title)),
        (error: unknown) => {
          if (!(error instanceof Refused)) throw error; // it is shown by its id
        },
      );
    }
  }, [host, sessions.join(" ")]);
  return (session) => titles.value.get(session) || session;
}
