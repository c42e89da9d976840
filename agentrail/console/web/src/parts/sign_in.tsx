/** Asks for the key; *refusal* says what is wrong with the one that was there. */
import { useSignal } from "@preact/signals";

export function SignIn({ refusal, enter }: { refusal: string; enter: (key: string) => void }) {
  const given = useSignal("");
  const submit = (event: Event) => {
    event.preventDefault();
    if (given.value.trim()) enter(given.value.trim());
  };
  return (
    <main class="sign-in">
      <h1>agentrail</h1>
      <p>A host for LLM agents runs here. This page shows what they do, and lets you talk with them and decide.</p>
      <form onSubmit={submit}>
        <label for="key">Key</label>
        <input
          id="key"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          value={given.value}
          aria-describedby="about-key"
          onInput={(event) => (given.value = event.currentTarget.value)}
        />
        <button class="main">Enter</button>
      </form>
      <p role="alert" class="refusal">
        {refusal}
      </p>
      <p id="about-key">
        If the address that <code>agentrail serve</code> printed ends with <code>#token=…</code>, what comes after the{" "}
        <code>=</code> is the key. Otherwise, whoever runs this host makes one for you:{" "}
        <code>agentrail serve keys make FILE TENANT USER</code>. The page keeps it until this tab is closed.
      </p>
      <h2>For programs</h2>
      <ul>
        <li>
          <a href="openapi.json">openapi.json</a>: each call, with what it takes, gives and may refuse
        </li>
        <li>
          <a href="healthz">healthz</a>: whether the host answers
        </li>
        <li>
          <a href="readyz">readyz</a>: whether it can do its work
        </li>
      </ul>
    </main>
  );
}
