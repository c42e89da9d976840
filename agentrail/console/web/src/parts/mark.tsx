/** The mark of agentrail and its name, which lead to the first room. */
import { address } from "../route";

export function Mark() {
  return (
    <a class="brand" href={address(null, "now")}>
      <svg viewBox="0 0 16 16" width="22" height="22" aria-hidden="true">
        <path d="M2 3h12M2 8h8M2 13h12" stroke="currentColor" stroke-width="2.5" stroke-linecap="round" />
        <circle cx="13" cy="8" r="2" fill="currentColor" />
      </svg>
      agentrail
    </a>
  );
}
