import { appendFileSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const LICENCES = "console/licences.md";

function path(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}

export default defineConfig({
  base: "./", // an app of ASGI may be mounted below a path
  resolve: { alias: { entities: path("src/host/entities.ts"), "punycode.js": path("src/host/punycode.ts") } },
  plugins: [
    {
      name: "licence-of-the-font", // it is no package, so nothing tells of it
      writeBundle({ dir = "" }) {
        const text = readFileSync(path("src/style/geist-licence.txt"), "utf-8");
        appendFileSync(`${dir}/${LICENCES}`, `\n## Geist, a font (SIL Open Font License 1.1), of which this is a subset\n\n${text}`);
      },
    },
  ],
  build: {
    outDir: "../static",
    assetsDir: "console",
    emptyOutDir: true,
    license: { fileName: LICENCES },
    modulePreload: { polyfill: false },
    target: "es2023",
    assetsInlineLimit: 0,
    // Each file costs a request and its headers: small parts that several rooms share are in one.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "parts", test: /\.tsx?$/, minShareCount: 3, maxModuleSize: 4_000 }] } } },
  },
});
