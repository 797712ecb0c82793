/** What the server has answered: kept here for pages, and for what reads ahead before a page is there. */
import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "./api/client";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      networkMode: "always", // a browser may think that it is offline while this machine's server answers
      // What the server refuses it refuses again; it may be away for a moment.
      retry: (failures, error) => !(error instanceof ApiError && error.status < 500) && failures < 2,
    },
  },
});
