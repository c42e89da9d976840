/** Going back before a prompt: in words, which is a copy of the session, in files, or in both; what would come back is shown first. */
import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useHost } from "../host/host_context";
import type { View } from "../host/interface";
import { address, go } from "../route";
import { useAnswer } from "../store/answer";
import type { Said } from "../store/conversation";
import { act, ActionButton, SILENT, Told, type Telling } from "./action";
import { Dialog } from "./dialog";
import { Folded } from "./folded";
import { Plain } from "./plain";

export interface GoBackProps {
  readonly session: string;
  /** The prompt before which everything was as it is to be. */
  readonly said: Said;
  readonly isOpen: Signal<boolean>;
}

type Preview = View<"RewindPreviewView">;

/** What becomes of a file, by how it comes back. */
const BACK: Readonly<Record<string, string>> = { restored: "as it was", recreated: "there again", removed: "gone, as it was new" };

export function GoBack({ session, said, isOpen }: GoBackProps) {
  const host = useHost();
  const telling = useSignal<Telling>(SILENT);
  const preview = useAnswer("preview_rewind", session, { since: said.ref }).value;
  const paths = preview.value?.files.map(({ path }) => path) ?? [];
  const files = () => host.call("rewind", { session, body: { since: said.ref, files: paths } }); // those that are shown, and no other
  const words = async () => {
    const made = await host.call("fork", { session, body: { at: said.ref } });
    isOpen.value = false;
    go(address(made.session));
  };
  const doing = (done: string, action: () => Promise<unknown>) => async () => void (await act(telling, done, action));
  const both = async () => {
    await files();
    await words();
  };
  return (
    <Dialog title="Go back before this prompt" isOpen={isOpen}>
      <Folded text={said.text} what="prompt" />
      {preview.isLate && <p role="status">It is looked at which files would come back …</p>}
      {preview.problem && (
        <p class="hint">
          Files stay as they are: <Plain text={preview.problem.detail} />
        </p>
      )}
      {preview.value && <Files preview={preview.value} />}
      <p class="hint">Words go back in a copy of this session; this one stays as it is.</p>
      <div class="actions">
        <ActionButton kind="main" act={doing("Forked", words)}>
          Words
        </ActionButton>
        <ActionButton disabled={paths.length === 0} act={doing("The files are back", files)}>
          Files
        </ActionButton>
        <ActionButton disabled={paths.length === 0} act={doing("Back", both)}>
          Both
        </ActionButton>
      </div>
      <Told telling={telling} />
    </Dialog>
  );
}

function Files({ preview: { files, edited, left_out: leftOut } }: { preview: Preview }) {
  if (files.length + edited.length + leftOut.length === 0) return <p class="hint">The agent has changed no file since.</p>;
  return (
    <div class="going-back" tabIndex={0} role="group" aria-label="What becomes of the files">
      <Kind title="Come back" rows={files.map(({ path, back }) => [path, BACK[back] ?? back])} />
      <Kind title="Stay: somebody else has changed them since" rows={edited.map((path) => [path, ""])} />
      <Kind title="Cannot come back" rows={leftOut.map(({ path, why }) => [path, why])} />
    </div>
  );
}

/** The files of one kind, with what is said about each. */
function Kind({ title, rows }: { title: string; rows: readonly (readonly [path: string, words: string])[] }): ComponentChildren {
  if (rows.length === 0) return null;
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      <ul class="names">
        {rows.map(([path, words]) => (
          <li key={path}>
            <code>
              <Plain text={path} />
            </code>{" "}
            {words && (
              <span class="soft small">
                <Plain text={words} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
