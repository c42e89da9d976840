/** The place of the back-test: what other plugins would have decided in stored sessions. */
export default function WhatIf() {
  return (
    <>
      <h1>What if</h1>
      <p>
        Here you will choose stored sessions and other plugins, and see what would have been blocked, held, let through or
        changed. It is not there yet.
      </p>
    </>
  );
}
