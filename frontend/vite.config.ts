import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// `dokimos serve` answers the interface and its API from one address; in development Vite answers the pages
// and passes the API on to a server at its usual port.
const SERVER = process.env.DOKIMOS_SERVER ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [react()],
  server: { proxy: { "/api": SERVER, "/actuator": SERVER } },
  // Scripts ask for others beside themselves: the same files are served below any path of a site. Those that the
  // page names the server puts below its root path.
  experimental: { renderBuiltUrl: (_, { hostType }) => (hostType === "html" ? undefined : { relative: true }) },
  build: {
    outDir: "../src/dokimos/server/static",
    emptyOutDir: true,
    assetsInlineLimit: 0, // nothing inline: the content policy forbids it
    modulePreload: { polyfill: false },
    target: "es2022",
    rollupOptions: { output: { hashCharacters: "hex" } },
  },
});
