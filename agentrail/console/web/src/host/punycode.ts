/**
 * Takes the place of the package of that name, with which Markdown's library writes names of hosts in other scripts: the
 * browser does so in each address, and the name that stands beside a link is the one that it asks for.
 */
const same = (host: string) => host;

export default { toASCII: same, toUnicode: same };
