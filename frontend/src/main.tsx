import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { applyTheme } from "./lib/theme";
import { queryClient } from "./query-client";
import { router } from "./router";
import "./styles/tokens.css";
import "./styles/ui.css";
import "./styles/account.css";
import "./styles/traces.css";
import "./styles/graph.css";
import "./styles/print.css";

const LONGEST_BLANK_MS = 300;

applyTheme();

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
const show = createRoot(root);
// With its page the frame needs no placeholder; on a slow line it is there without.
await Promise.race([router.load(), new Promise((resolve) => setTimeout(resolve, LONGEST_BLANK_MS))]);
show.render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
