/** All keys of the page, and where they act. */
const KEYS = [
  ["/", "Search"],
  ["J K", "Next and previous row, also ↓ ↑"],
  ["Enter", "Open the row; in the inbox, go to the decision"],
  ["A", "Approve, when the whole call is in sight; else Enter has to follow"],
  ["E", "Edit the arguments"],
  ["R", "Reject, or answer a question"],
  ["L", "Approve for always, which asks once more"],
  ["Esc", "Leave what is open; in a conversation, stop the turn"],
  ["?", "Show these keys"],
] as const;

export function KeyTable() {
  return (
    <>
      <table class="keys">
        <tbody>
          {KEYS.map(([key, words]) => (
            <tr>
              <th scope="row">
                {key.split(" ").map((one) => (
                  <>
                    <kbd>{one}</kbd>{" "}
                  </>
                ))}
              </th>
              <td>{words}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="soft small">
        Letters act when no field has the focus. One that decides does so only by itself: a key within half a second before or
        after it makes it a part of a sentence.
      </p>
    </>
  );
}
