/** Why something cannot be shown: what was found, and what to do. */
import type { Problem } from "../host/interface";
import { Plain } from "./plain";

export function ProblemNote({ problem }: { problem: Problem }) {
  return (
    <p role="alert" class="problem">
      <Plain text={problem.detail} />
    </p>
  );
}
