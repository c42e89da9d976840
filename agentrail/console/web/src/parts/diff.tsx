/** What a change of a text takes away and adds, line by line. */
import { Folded } from "./folded";

const MOST_LINES = 2_000;

/** Returns the lines of both texts, each with `-`, `+` or a blank in front. */
export function changedLines(before: string, after: string): string[] {
  const old = before.split("\n");
  const fresh = after.split("\n");
  const least = Math.min(old.length, fresh.length);
  let head = 0;
  while (head < least && old[head] === fresh[head]) head += 1;
  let tail = 0;
  while (tail < least - head && old[old.length - 1 - tail] === fresh[fresh.length - 1 - tail]) tail += 1;
  const same = (line: string) => `  ${line}`;
  return [
    ...old.slice(0, head).map(same),
    ...differingLines(old.slice(head, old.length - tail), fresh.slice(head, fresh.length - tail)),
    ...old.slice(old.length - tail).map(same),
  ];
}

function differingLines(old: readonly string[], fresh: readonly string[]): string[] {
  if (old.length * fresh.length > MOST_LINES ** 2) return [...old.map((line) => `- ${line}`), ...fresh.map((line) => `+ ${line}`)];
  // Length of the longest common part of what follows each pair of lines
  const width = fresh.length + 1;
  const common = new Uint32Array((old.length + 1) * width);
  const at = (row: number, column: number) => common[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row -= 1) {
    for (let column = fresh.length - 1; column >= 0; column -= 1) {
      const isSame = old[row] === fresh[column];
      common[row * width + column] = isSame ? at(row + 1, column + 1) + 1 : Math.max(at(row + 1, column), at(row, column + 1));
    }
  }
  const lines: string[] = [];
  let row = 0;
  let column = 0;
  while (row < old.length || column < fresh.length) {
    if (row < old.length && column < fresh.length && old[row] === fresh[column]) {
      lines.push(`  ${old[row]}`);
      row += 1;
      column += 1;
    } else if (column >= fresh.length || (row < old.length && at(row + 1, column) >= at(row, column + 1))) {
      lines.push(`- ${old[row]}`);
      row += 1;
    } else {
      lines.push(`+ ${fresh[column]}`);
      column += 1;
    }
  }
  return lines;
}

/** Lines that are shown above and below those that change in a file. */
const AROUND = 3;

/** Returns what differs between two whole texts, with the numbers of old and new lines, and some lines around. */
export function numberedChanges(before: string, after: string): string[] {
  let old = 0;
  let fresh = 0;
  const lines = changedLines(before, after).map((line) => {
    const mark = line[0] ?? " ";
    const left = mark === "+" ? "" : String((old += 1));
    const right = mark === "-" ? "" : String((fresh += 1));
    return { mark, text: `${left.padStart(5)} ${right.padStart(5)} ${line}` };
  });
  const isNear = lines.map((_, at) => lines.slice(Math.max(at - AROUND, 0), at + AROUND + 1).some(({ mark }) => mark !== " "));
  const shown: string[] = [];
  let folded = 0;
  lines.forEach(({ text }, at) => {
    if (isNear[at]) shown.push(text);
    else {
      folded += 1;
      if (at + 1 === lines.length || isNear[at + 1]) {
        shown.push(`  … ${folded} lines stay as they are`);
        folded = 0;
      }
    }
  });
  return shown;
}

/** The change of a file that is there. */
export function FileDiff({ before, after }: { before: string; after: string }) {
  return <Folded text={numberedChanges(before, after).join("\n")} what="change" isCode isDiff />;
}

export function Diff({ before, after }: { before: string; after: string }) {
  return <Folded text={changedLines(before, after).join("\n")} what="change" isCode isDiff />;
}
