/** Says what the connection does, when it is not simply there. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { HostSocket } from "../host/socket";

const SECOND = 1000;

export function LinkState({ socket }: { socket: HostSocket }) {
  const link = socket.link.value;
  const now = useSignal(Date.now());
  const isLost = link.state === "lost";
  useEffect(() => {
    if (!isLost) return;
    const timer = setInterval(() => (now.value = Date.now()), SECOND);
    return () => clearInterval(timer);
  }, [isLost]);
  return (
    <div class="link-state" data-state={link.state}>
      <p role="status">
        {link.state === "connecting" && "Connecting to the host …"}
        {isLost && `The connection is lost: ${link.why}. It is made again; nothing that happens meanwhile is missed.`}
      </p>
      {isLost && (
        <button type="button" onClick={socket.hurry}>
          Connect now<span aria-hidden="true"> ({Math.max(0, Math.ceil((link.again - now.value) / SECOND))} s)</span>
        </button>
      )}
    </div>
  );
}
