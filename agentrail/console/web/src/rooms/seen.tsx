/** The request of a round as it was rendered: its parts with their origin, and the difference to the one before. */
import "../style/insight.css";
import { useSignal } from "@preact/signals";
import { write } from "../host/exact_json";
import type { View } from "../host/interface";
import { act, ActionButton, SILENT, Told } from "../parts/action";
import { count, UNKNOWN } from "../parts/amounts";
import { Folded } from "../parts/folded";
import { JsonText } from "../parts/json_text";
import { LAYER_KEYS } from "../parts/context_bar";
import { Icon } from "../parts/icon";
import { Moment } from "../parts/moment";
import { usePageKeys } from "../parts/page_keys";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import { Change } from "../parts/state_changes";
import type { SessionRoomProps } from "../rooms";
import { address, go } from "../route";
import { useAnswer } from "../store/answer";
import { capitalised } from "../store/capitalised";

type Part = View<"SeenPartView">;

export default function Seen({ session, place }: SessionRoomProps) {
  const asked = place.rest[0] ?? "";
  const isWhole = useSignal(false);
  const which = /^\d+$/.test(asked) ? { round: Number(asked) } : asked ? { request: asked } : {};
  const answer = useAnswer("seen", session, { ...which, ...(isWhole.value && { whole: true }) }).value;
  const seen = answer.value;
  return (
    <div class="room">
      {answer.problem && <ProblemNote problem={answer.problem} />}
      {!seen && answer.isLate && <p role="status">Loading …</p>}
      {seen && (
        <div class="room" aria-busy={answer.isLate}>
          <Which session={session} seen={seen} />
          <div class="seen-top">
            <section class="card seen-facts" aria-label="The request">
              <Facts session={session} seen={seen} />
            </section>
            <Difference session={session} seen={seen} />
          </div>
          {seen.unknown.map((sentence) => (
            <p class="soft">
              <Plain text={sentence} />.
            </p>
          ))}
          <section>
            <h2>What was sent</h2>
            <Parts session={session} parts={seen.parts} what="The parts of the request" />
            {seen.more_parts > 0 && <p>{count(seen.more_parts)} more parts are not shown.</p>}
          </section>
          <Changes session={session} seen={seen} />
          <section class="card">
            <header>
              <h2>To be copied</h2>
              {!isWhole.value && (
                <button type="button" class="end slim" onClick={() => (isWhole.value = true)}>
                  Show it whole
                </button>
              )}
            </header>
            {isWhole.value && !answer.isLate && (
              <div class="copies">
                <AsCurl provider={seen.provider} />
                <AsTest test={seen.test} />
              </div>
            )}
          </section>
        </div>
      )}
    </div>
  );
}

function Which({ session, seen }: { session: string; seen: View<"SeenView"> }) {
  const { number } = seen.sent;
  const step = (to: number) => go(address(session, "seen", to));
  const hasNext = number < seen.requests;
  usePageKeys({ j: () => hasNext && step(number + 1), k: () => number > 1 && step(number - 1) });
  return (
    <div class="room-head">
      <h2 class="seen-title">
        Round {number} of {seen.requests}
      </h2>
      <span class="line">
        <button type="button" class="square slim" aria-label="Round before" disabled={number <= 1} onClick={() => step(number - 1)}>
          <Icon name="left" />
        </button>
        <button type="button" class="square slim" aria-label="Round after" disabled={!hasNext} onClick={() => step(number + 1)}>
          <Icon name="right" />
        </button>
      </span>
      <span class="keys-here extra">
        <kbd>J</kbd> <kbd>K</kbd> next and previous round
      </span>
    </div>
  );
}

function Facts({ session, seen }: { session: string; seen: View<"SeenView"> }) {
  const { sent, usage } = seen;
  return (
    <dl class="facts">
      <dt>Sent</dt>
      <dd>
        <Moment at={sent.at_ms} />, <a href={address(session, "record", sent.record)}>record {sent.record}</a>, round{" "}
        {sent.round} of turn {sent.turn}
        {sent.attempt > 1 && `, attempt ${sent.attempt}`}
      </dd>
      <dt>Model</dt>
      <dd>
        <Plain text={sent.model} />
      </dd>
      <dt>Tokens</dt>
      <dd>
        about {count(seen.tokens)}
        {usage && usage.input_tokens + usage.output_tokens > 0
          ? `; counted: ${count(usage.input_tokens)}, of which ${count(usage.cached_tokens)} were in the cache, and ${count(usage.output_tokens)} came back`
          : "; nobody has counted them"}
      </dd>
      {Object.keys(seen.options).length > 0 && (
        <>
          <dt>Options</dt>
          <dd>
            <JsonText value={{ json: write(seen.options) }} what="options" />
          </dd>
        </>
      )}
    </dl>
  );
}

function Parts({ session, parts, what }: { session: string; parts: readonly Part[]; what: string }) {
  return (
    <div class="table request-parts" tabIndex={0} role="region" aria-label={what}>
      <table class="plain-table">
        <thead>
          <tr>
            <th scope="col">Layer</th>
            <th scope="col">What</th>
            <th scope="col" class="amount">
              Tokens
            </th>
            <th scope="col">Cached</th>
            <th scope="col">From</th>
          </tr>
        </thead>
        <tbody>
          {parts.map((part) => (
            <tr data-cached={part.cached ?? undefined}>
              <td>
                <span class="line">
                  <span class={`key ${LAYER_KEYS[part.layer] ?? "k5"}`} aria-hidden="true" />
                  {layerWords(part)}
                </span>
              </td>
              <td>
                <Content part={part} />
              </td>
              <td class="amount">{count(part.tokens)}</td>
              <td>{part.cached === null ? <span class="soft">{UNKNOWN}</span> : part.cached ? "from the cache" : <span class="soft">read anew</span>}</td>
              <td>
                <Plain text={part.by.join(", ")} />
                {part.record !== null && (
                  <>
                    {" "}
                    <a href={address(session, "record", part.record)}>record {part.record}</a>
                  </>
                )}
                {part.by.length === 0 && part.record === null && "the specification"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Content({ part }: { part: Part }) {
  const isOpen = useSignal(false);
  const json = part.tool ?? part.message;
  return (
    <details onToggle={({ currentTarget }) => (isOpen.value = currentTarget.open)}>
      <summary>
        <span class="cut">
          <code>
            <Plain text={part.name} />
          </code>{" "}
          <Plain text={beginning(part)} />
        </span>
      </summary>
      {isOpen.value &&
        (json ? <JsonText value={{ json: write(json) }} what={part.name} /> : <Folded text={part.text} what={part.name} />)}
    </details>
  );
}

/** The name of the layer of the system prompt, as the host says it, and what stands for it. */
const SYSTEM = "user";

function layerWords({ layer, is_passing: isPassing }: Part): string {
  const words = layer === SYSTEM ? "System" : capitalised(layer);
  return isPassing ? `${words}, this once` : words;
}

const BEGINNING = 90;

function beginning(part: Part): string {
  const { message } = part;
  const texts = ((message?.["parts"] ?? []) as { text?: unknown }[]).map(({ text }) => (typeof text === "string" ? text : ""));
  const words = part.text || texts.join(" ") || (part.tool ? String(part.tool["description"] ?? "") : "");
  return words.length > BEGINNING ? `${words.slice(0, BEGINNING)}…` : words;
}

/** In a sentence or two, what differs from the request before. */
function Difference({ session, seen }: { session: string; seen: View<"SeenView"> }) {
  const { difference } = seen;
  return (
    <section class="card seen-facts" aria-label="Against the request before">
      <h2>Against the request before</h2>
      {!difference && <p class="soft small">It is the first request.</p>}
      {difference && (
        <>
          <p class="small">
            The first {count(difference.same)} parts (about {count(difference.same_tokens)} tokens) are those of{" "}
            <a href={address(session, "seen", difference.before.request_id)}>the request of record {difference.before.record}</a>;{" "}
            {count(difference.gone.length)} are gone, {count(difference.new.length)} are new.
          </p>
          {difference.broke && (
            <p class="problem small">
              <Plain text={cacheBreak(difference.broke)} />
            </p>
          )}
        </>
      )}
    </section>
  );
}

/** The parts that came and went, and the settings that changed. */
function Changes({ session, seen }: { session: string; seen: View<"SeenView"> }) {
  const { difference } = seen;
  if (!difference) return null;
  const { gone, new: fresh, settings } = difference;
  return (
    <>
      {settings.length > 0 && (
        <section>
          <h2>Other settings</h2>
          <dl class="changes">
            {settings.map((change) => (
              <Change change={change} />
            ))}
          </dl>
        </section>
      )}
      {gone.length > 0 && (
        <section>
          <h2>Gone since the request before</h2>
          <Parts session={session} parts={gone} what="Parts that are gone" />
        </section>
      )}
      {fresh.length > 0 && (
        <section>
          <h2>New since the request before</h2>
          <Parts session={session} parts={fresh} what="Parts that are new" />
        </section>
      )}
    </>
  );
}

/** Returns what broke the provider's cache, as the event `PrefixChanged` tells it. */
function cacheBreak(broke: Readonly<Record<string, unknown>>): string {
  const { part, name, by, tokens } = broke as Readonly<{ part?: string; name?: string; by?: string; tokens?: number }>;
  const first = `The provider's cache was broken: what changed first is ${part ?? UNKNOWN}${name ? ` (${name})` : ""}`;
  return `${first}${by ? `, by ${by}` : ""}; about ${count(tokens ?? 0)} tokens are read again.`;
}

/** Returns *text* as one word of a shell. */
function word(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Returns a header as one word of a shell, in which `$NAME` is a variable. */
function header(name: string, value: string): string {
  const text = `${name}: ${value}`;
  if (!/\$[A-Z_]/.test(value)) return word(text);
  return `"${text.replace(/[\\"`]/g, "\\$&").replace(/\$(?![A-Z_])/g, "\\$")}"`;
}

export function curlOf({ url, headers, body }: View<"ProviderRequestView">): string {
  const lines = Object.entries(headers).map(([name, value]) => `  -H ${header(name, value)} \\`);
  return [`curl -N ${word(url)} \\`, ...lines, `  --data-binary ${word(body)}`].join("\n");
}

function AsCurl({ provider }: { provider: View<"ProviderRequestView"> | null }) {
  if (!provider) return <p>The model is of no provider.</p>;
  return (
    <section aria-label="As its provider gets it">
      <h3>As its provider gets it</h3>
      <p class="hint">Secrets are variables of your shell in it.</p>
      <Copied text={curlOf(provider)} what="command" as="curl" />
    </section>
  );
}

function AsTest({ test }: { test: string | null }) {
  if (test === null) return <p>No whole response has come to it, so there is nothing to test.</p>;
  return (
    <section aria-label="As a test">
      <h3>As a test</h3>
      <p class="hint">
        For pytest: a <code>ScriptedModel</code> answers as the model did, and tools return what they returned. Give it the
        plugins that you test.
      </p>
      <Copied text={test} what="test" as="a test" />
    </section>
  );
}

/** A text that is there to be copied. */
function Copied({ text, what, as: form }: { text: string; what: string; as: string }) {
  const telling = useSignal(SILENT);
  const copy = () => act(telling, "Copied", () => navigator.clipboard.writeText(text));
  return (
    <>
      <Folded text={text} what={what} isCode />
      {isSecureContext ? (
        <div class="actions">
          <ActionButton act={copy}>Copy as {form}</ActionButton>
          <Told telling={telling} />
        </div>
      ) : (
        <p class="hint">Select it to copy it: a browser copies nothing for a page without TLS.</p>
      )}
    </>
  );
}
