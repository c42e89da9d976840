/** Beside the conversation: what the session does and has used, its plan, and its model, tools and plugins, which can be changed. */
import { useSignal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { View } from "../host/interface";
import { activity } from "../store/activity";
import type { Detail } from "../store/detail";
import type { LiveConversation } from "../store/live_conversation";
import type { Telling } from "./action";
import { count, dollars } from "./amounts";
import { ContextBar } from "./context_bar";
import { History } from "./history";
import { Icon, type IconName } from "./icon";
import { Lazy } from "./lazy";
import { Plain } from "./plain";
import type { SessionSetupProps } from "./session_setup";
import type { WrittenFilesProps } from "./written_files";

interface SideProps {
  readonly session: string;
  readonly live: LiveConversation;
  readonly detail: Detail;
  readonly telling: Signal<Telling>;
  readonly close: () => void;
}

export function SessionSide(props: SideProps) {
  const { live, detail, close } = props;
  void live.version.value;
  const view = detail.view.value;
  return (
    <aside class="side" aria-label="About the session">
      <div class="line">
        <h2 class="grow">Session</h2>
        <button type="button" class="bare square slim" aria-label="Hide this panel" aria-expanded="true" onClick={close}>
          <Icon name="panel" />
        </button>
      </div>
      {view && <StatusFacts view={view} live={live} />}
      <Plan todos={live.conversation.status.todos} />
      {view?.context && <ContextBar context={view.context} />}
      <Files session={props.session} version={view} />
      {view && <Setup session={props.session} detail={detail} telling={props.telling} view={view} />}
      <History session={props.session} />
    </aside>
  );
}

function StatusFacts({ view, live }: { view: View<"DetailView">; live: LiveConversation }) {
  void live.version.value;
  const { status } = view;
  const shown = live.conversation.status;
  const usage = status?.usage;
  return (
    <section class="first">
      <dl class="facts">
        <dt>Agent</dt>
        <dd>
          <Plain text={view.agent} />
        </dd>
        <dt>Person</dt>
        <dd>
          <Plain text={view.owner} />
        </dd>
        <dt>Doing</dt>
        <dd>{view.ended ? "ended" : status ? activity({ phase: shown.phase, waits: status.waits }) : "does not run now"}</dd>
        <dt>Model</dt>
        <dd>
          <Plain text={status?.model ?? shown.model} />
        </dd>
        <dt>Turn</dt>
        <dd>
          {status?.turn ?? shown.turn}, step {status?.round ?? shown.round}
        </dd>
        {status && status.quarantined.length > 0 && (
          <>
            <dt>Set aside</dt>
            <dd>{status.quarantined.length} calls that were cancelled and still run</dd>
          </>
        )}
        {usage && (
          <>
            <dt>Tokens</dt>
            <dd>
              {count(usage.input_tokens)} in{" "}
              {usage.input_tokens > 0 && <span class="soft">({Math.round((100 * usage.cached_tokens) / usage.input_tokens)} % cached)</span>}
              <br />
              {count(usage.output_tokens)} out
            </dd>
            <dt>Cost</dt>
            <dd>{dollars(usage.cost_usd)}</dd>
          </>
        )}
        {view.labels.length > 0 && (
          <>
            <dt>Labels</dt>
            <dd>
              <Plain text={view.labels.join(", ")} />
            </dd>
          </>
        )}
      </dl>
      {view.problem && (
        <p role="alert" class="problem">
          <Plain text={view.problem} />
        </p>
      )}
    </section>
  );
}

/** How a thing to do stands: its icon and its colour. */
const STEPS: Readonly<Record<string, readonly [IconName, string]>> = {
  completed: ["check", "is-good"],
  in_progress: ["clock", "is-work"],
};

function Plan({ todos }: { todos: readonly View<"Todo">[] }) {
  if (todos.length === 0) return null;
  return (
    <section>
      <h2>Plan</h2>
      <ul class="plan">
        {todos.map((todo) => {
          const [icon, role] = STEPS[todo.status ?? ""] ?? ["clock", "soft"];
          return (
            <li class={todo.status === "in_progress" ? "" : "soft"}>
              <span class={role}>
                <Icon name={icon} />
              </span>
              <span>
                <Plain text={todo.text} />
                <span class="only-read"> ({(todo.status ?? "pending").replaceAll("_", " ")})</span>
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** The files that the agent wrote; they are asked for once somebody wants to see them. */
function Files(props: WrittenFilesProps) {
  return (
    <Fold title="Files">
      <Lazy load={loadFiles} props={props} />
    </Fold>
  );
}

async function loadFiles() {
  return (await import("./written_files")).WrittenFiles;
}

const SETUP = [
  ["model", () => "Model"],
  ["tools", ({ tools }: View<"DetailView">) => `Tools · ${tools.length}`],
  ["plugins", ({ plugins }: View<"DetailView">) => `Plugins · ${plugins.length}, in their order`],
] as const;

/** What can be changed: it is folded, so that the conversation has the room, and loaded when it is opened. */
function Setup(props: Omit<SessionSetupProps, "what">) {
  return (
    <>
      {SETUP.map(([what, title]) => (
        <Fold key={what} title={title(props.view)}>
          <Lazy load={loadSetup} props={{ ...props, what }} />
        </Fold>
      ))}
    </>
  );
}

async function loadSetup() {
  return (await import("./session_setup")).SessionSetup;
}

/** Something that is there once it was opened. */
function Fold({ title, children }: { title: string; children: ComponentChildren }) {
  const wasOpened = useSignal(false);
  return (
    <details onToggle={({ currentTarget }) => (wasOpened.value ||= currentTarget.open)}>
      <summary>{title}</summary>
      {wasOpened.value && children}
    </details>
  );
}
