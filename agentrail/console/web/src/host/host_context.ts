/** The connection, for the components that use it. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { HostSocket } from "./socket";

export const HostContext = createContext<HostSocket | null>(null);

export function useHost(): HostSocket {
  const socket = useContext(HostContext);
  if (!socket) throw new Error("a room is shown without a connection");
  return socket;
}
