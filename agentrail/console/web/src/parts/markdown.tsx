/**
 * Markdown that a model or a person wrote, as elements of the page.
 *
 * The library only takes the text apart. Nothing of it is ever read as HTML: each element is made here, from a list of
 * those there may be. Links say where they lead; pictures of other hosts are not loaded, and are links too.
 */
import MarkdownIt from "markdown-it";
import { h, type ComponentChildren } from "preact";
import { withHiddenShown } from "./plain";

const parser = new MarkdownIt({ html: false, linkify: true, typographer: false });

type Token = ReturnType<typeof parser.parse>[number];

const ELEMENTS: ReadonlySet<string> = new Set(
  "p h1 h2 h3 h4 h5 h6 ul ol li blockquote table thead tbody tr th td em strong s code pre hr br".split(" "),
);

/** Headings of a message stand below those of the page. */
const BELOW: Readonly<Record<string, string>> = { h1: "h3", h2: "h4", h3: "h5", h4: "h6", h5: "h6", h6: "h6" };

const SCHEMES: ReadonlySet<string> = new Set(["http:", "https:", "mailto:"]);

/** Returns the address of a link; null if it is none that one may follow. */
export function safeAddress(text: string): URL | null {
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  return SCHEMES.has(url.protocol) && !url.username && !url.password ? url : null;
}

function Link({ to, children }: { to: string; children?: ComponentChildren }) {
  const url = safeAddress(to);
  if (!url) {
    return (
      <span>
        {children} <span class="link-target">[{withHiddenShown(to)}]</span>
      </span>
    );
  }
  return (
    <span>
      <a href={url.href} target="_blank" rel="noopener noreferrer nofollow" referrerpolicy="no-referrer">
        {children}
      </a>{" "}
      <span class="link-target">[{url.host || url.href}]</span>
    </span>
  );
}

/** Elements that are open while tokens are read. */
interface Open {
  readonly make: (children: ComponentChildren[]) => ComponentChildren;
  readonly children: ComponentChildren[];
}

function built(tokens: readonly Token[]): ComponentChildren[] {
  const root: ComponentChildren[] = [];
  const open: Open[] = [];
  const put = (...found: ComponentChildren[]) => (open.at(-1)?.children ?? root).push(...found);
  for (const token of tokens) {
    if (token.nesting > 0) open.push({ make: maker(token), children: [] });
    else if (token.nesting < 0) {
      const done = open.pop();
      if (done) put(done.make(done.children));
    } else put(...leaf(token));
  }
  for (let done = open.pop(); done; done = open.pop()) put(done.make(done.children));
  return root;
}

function maker(token: Token): Open["make"] {
  if (token.type === "link_open") return (children) => <Link to={String(token.attrGet("href") ?? "")}>{children}</Link>;
  if (token.hidden || !ELEMENTS.has(token.tag)) return (children) => <>{children}</>;
  const start = token.tag === "ol" ? Number(token.attrGet("start") ?? 1) : undefined;
  const isCell = token.tag === "th" || token.tag === "td";
  const element = (children: ComponentChildren[]) => h(BELOW[token.tag] ?? token.tag, { dir: isCell ? undefined : "auto", start }, children);
  if (token.tag !== "table") return element;
  return (children) => (
    <div class="table" tabIndex={0} role="group" aria-label="A table">
      {element(children)}
    </div>
  );
}

function leaf(token: Token): ComponentChildren[] {
  switch (token.type) {
    case "inline":
      return built(token.children ?? []);
    case "text":
      return [withHiddenShown(token.content)];
    case "softbreak":
      return ["\n"];
    case "hardbreak":
      return [<br />];
    case "hr":
      return [<hr />];
    case "code_inline":
      return [<code>{withHiddenShown(token.content)}</code>];
    case "fence":
    case "code_block":
      return [
        <pre class="code" tabIndex={0} role="group" aria-label={`Code ${token.info}`.trim()}>
          <code>{withHiddenShown(token.content)}</code>
        </pre>,
      ];
    case "image":
      return [
        <Link to={String(token.attrGet("src") ?? "")}>picture: {withHiddenShown(token.content || "without a description")}</Link>,
      ];
    default:
      return [withHiddenShown(token.content)];
  }
}

/** The most characters that are laid out as Markdown; a longer text is shown as it is. */
export const MOST = 60_000;

export function Markdown({ text }: { text: string }) {
  return <div class="markdown">{built(parser.parse(text, {}))}</div>;
}
