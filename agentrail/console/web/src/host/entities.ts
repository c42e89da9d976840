/**
 * Named characters of Markdown, such as `&eacute;`: it takes the place of the package of that name, whose table of all
 * 2,231 names is 13 kB. A name that is not here stays as it was written. (The browser knows all of them, but only as
 * HTML, which the policy of the page refuses to read.)
 */

/** The names from U+00A0 to U+00FF, in order. */
const LATIN =
  "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro para middot cedil sup1 " +
  "ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml " +
  "ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring " +
  "aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc " +
  "uuml yacute thorn yuml";

const OTHERS: Readonly<Record<string, string>> = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", ndash: "–", mdash: "—", lsquo: "‘", rsquo: "’", sbquo: "‚", ldquo: "“", rdquo: "”",
  bdquo: "„", lsaquo: "‹", rsaquo: "›", hellip: "…", bull: "•", dagger: "†", euro: "€", trade: "™", larr: "←", uarr: "↑", rarr: "→",
  darr: "↓", harr: "↔", rArr: "⇒", minus: "−", ne: "≠", le: "≤", ge: "≥", asymp: "≈", infin: "∞", colon: ":", check: "✓", cross: "✗",
};

const names = new Map(LATIN.split(" ").map((name, index) => [name, String.fromCharCode(0xa0 + index)]));

/** Returns the character that `&NAME;` stands for. */
export function decodeHTMLStrict(text: string): string {
  const name = text.slice(1, -1);
  return names.get(name) ?? (Object.hasOwn(OTHERS, name) ? (OTHERS[name] ?? text) : text);
}
