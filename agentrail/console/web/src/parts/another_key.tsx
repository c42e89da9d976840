/** Asks whether a key that an address has brought takes the place of the page's own. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { View } from "../host/interface";
import { Plain } from "./plain";

/** What is said of a key in an address that cannot be read. */
export const UNREADABLE =
  "The address has a key that cannot be read: it was cut or changed on its way. Open the whole address that was printed, or enter the key.";

interface Props {
  /** The page's key. */
  readonly own: string;
  /** The key of the address; null: it cannot be read. */
  readonly other: string | null;
  readonly stay: () => void;
  readonly change: (key: string) => void;
}

export function AnotherKey({ own, other, stay, change }: Props) {
  const first = useRef<HTMLButtonElement>(null);
  useEffect(() => first.current?.focus(), []);
  return (
    <main class="sign-in">
      <h1>Another key</h1>
      {other === null ? (
        <p role="alert" class="refusal">
          {UNREADABLE}
        </p>
      ) : (
        <>
          <p>
            The address that was opened brings another key than this page has. If somebody has sent it to you, whatever you
            do with it is done in their name, and they can read it.
          </p>
          <dl>
            <dt>This page</dt>
            <dd>
              <OwnerOf secret={own} />
            </dd>
            <dt>The address</dt>
            <dd>
              <OwnerOf secret={other} />
            </dd>
          </dl>
        </>
      )}
      <button type="button" class="main" ref={first} onClick={stay}>
        Stay as you are
      </button>{" "}
      {other !== null && (
        <button type="button" onClick={() => change(other)}>
          Use the key of the address
        </button>
      )}
    </main>
  );
}

/** Whose a key is, as the host says. */
function OwnerOf({ secret }: { secret: string }) {
  const who = useSignal<View<"IdentityView"> | "asked" | "unknown">("asked");
  useEffect(() => {
    whoIs(secret).then(
      (found) => (who.value = found),
      () => (who.value = "unknown"),
    );
  }, [secret]);
  if (who.value === "asked") return <>…</>;
  return who.value === "unknown" ? <>somebody whom the host does not name</> : <Owner who={who.value} />;
}

/** A user, and the tenant if there is one. */
function Owner({ who }: { who: View<"IdentityView"> }) {
  return (
    <>
      <Plain text={who.user} />
      {who.tenant && (
        <>
          {" "}
          of <Plain text={who.tenant} />
        </>
      )}
    </>
  );
}

/** Asks the host whose a key is, over a request of its own; throws if it does not say. */
async function whoIs(secret: string): Promise<View<"IdentityView">> {
  const answer = await fetch(new URL("v1/identity", document.baseURI), {
    headers: { authorization: `Bearer ${secret}` },
    credentials: "omit",
    cache: "no-store",
  });
  if (!answer.ok) throw new Error(String(answer.status));
  return (await answer.json()) as View<"IdentityView">;
}
