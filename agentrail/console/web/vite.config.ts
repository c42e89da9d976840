import { defineConfig } from "vite";

export default defineConfig({
  base: "./", // an app of ASGI may be mounted below a path
  build: {
    outDir: "../static",
    assetsDir: "console",
    emptyOutDir: true,
    license: { fileName: "console/licences.md" },
    modulePreload: { polyfill: false },
    target: "es2023",
    assetsInlineLimit: 0,
  },
});
