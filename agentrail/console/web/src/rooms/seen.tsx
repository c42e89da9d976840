/** The request of a round as it was rendered: its parts with their origin, and the difference to the one before. */
import { useSignal } from "@preact/signals";
import { write } from "../host/exact_json";
import type { View } from "../host/interface";
import { act, ActionButton, SILENT, Told } from "../parts/action";
import { count, UNKNOWN } from "../parts/amounts";
import { Folded } from "../parts/folded";
import { JsonText } from "../parts/json_text";
import { Moment } from "../parts/moment";
import { Plain } from "../parts/plain";
import { ProblemNote } from "../parts/problem_note";
import { Change } from "../parts/state_changes";
import type { SessionRoomProps } from "../rooms";
import { address } from "../route";
import { useAnswer } from "../store/answer";

type Part = View<"SeenPartView">;

export default function Seen({ session, place }: SessionRoomProps) {
  const asked = place.rest[0] ?? "";
  const isWhole = useSignal(false);
  const which = /^\d+$/.test(asked) ? { round: Number(asked) } : asked ? { request: asked } : {};
  const answer = useAnswer("seen", session, { ...which, ...(isWhole.value && { whole: true }) }).value;
  const seen = answer.value;
  return (
    <>
      {answer.problem && <ProblemNote problem={answer.problem} />}
      {!seen && answer.isLate && <p role="status">Loading …</p>}
      {seen && (
        <div aria-busy={answer.isLate}>
          <Which session={session} seen={seen} />
          <Facts session={session} seen={seen} />
          {seen.unknown.map((sentence) => (
            <p class="note">
              <Plain text={sentence} />.
            </p>
          ))}
          <h2>Its parts</h2>
          <Parts session={session} parts={seen.parts} what="The parts of the request" />
          {seen.more_parts > 0 && <p>{count(seen.more_parts)} more parts are not shown.</p>}
          <Difference session={session} seen={seen} />
          <h2>To be copied</h2>
          {isWhole.value && !answer.isLate ? (
            <>
              <AsCurl provider={seen.provider} />
              <AsTest test={seen.test} />
            </>
          ) : (
            <button type="button" onClick={() => (isWhole.value = true)}>
              Show it whole
            </button>
          )}
        </div>
      )}
    </>
  );
}

function Which({ session, seen }: { session: string; seen: View<"SeenView"> }) {
  const { number } = seen.sent;
  return (
    <p class="actions">
      {number > 1 && <a href={address(session, "seen", number - 1)}>Round before</a>}
      <strong>
        Round {number} of {seen.requests}
      </strong>
      {number < seen.requests && <a href={address(session, "seen", number + 1)}>Round after</a>}
    </p>
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
      <table>
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
                {part.layer}
                {part.is_passing && " (this once)"}
              </td>
              <td>
                <Plain text={part.name} />
                <Content part={part} />
              </td>
              <td class="amount">{count(part.tokens)}</td>
              <td>{part.cached === null ? UNKNOWN : part.cached ? "yes" : "no"}</td>
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
        <Plain text={beginning(part)} />
      </summary>
      {isOpen.value &&
        (json ? <JsonText value={{ json: write(json) }} what={part.name} /> : <Folded text={part.text} what={part.name} />)}
    </details>
  );
}

const BEGINNING = 60;

function beginning(part: Part): string {
  const { message } = part;
  const texts = ((message?.["parts"] ?? []) as { text?: unknown }[]).map(({ text }) => (typeof text === "string" ? text : ""));
  const words = part.text || texts.join(" ") || (part.tool ? "its definition" : "show");
  return words.length > BEGINNING ? `${words.slice(0, BEGINNING)}…` : words;
}

function Difference({ session, seen }: { session: string; seen: View<"SeenView"> }) {
  const { difference } = seen;
  if (!difference) return <p>It is the first request.</p>;
  const { before, same, same_tokens: tokens, gone, new: fresh, settings, broke } = difference;
  return (
    <>
      <h2>Against the request before</h2>
      <p>
        The first {count(same)} parts (about {count(tokens)} tokens) are those of{" "}
        <a href={address(session, "seen", before.request_id)}>the request of record {before.record}</a>.
      </p>
      {broke && (
        <p class="problem">
          <Plain text={cacheBreak(broke)} />
        </p>
      )}
      {settings.length > 0 && (
        <dl>
          {settings.map((change) => (
            <Change change={change} />
          ))}
        </dl>
      )}
      {gone.length > 0 && (
        <>
          <h3>Gone</h3>
          <Parts session={session} parts={gone} what="Parts that are gone" />
        </>
      )}
      {fresh.length > 0 && (
        <>
          <h3>New</h3>
          <Parts session={session} parts={fresh} what="Parts that are new" />
        </>
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
