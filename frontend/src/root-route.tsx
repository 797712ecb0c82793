/** The frame around all pages, in a file of its own so that several files can hang routes into it. */
import { Link, createRootRoute } from "@tanstack/react-router";
import { State } from "./components/bits";
import { Shell } from "./components/shell";

export const rootRoute = createRootRoute({ component: Shell, notFoundComponent: NotFound });

function NotFound() {
  return (
    <State title="There is no such page" actions={<Link className="btn" to="/">Go to the projects</Link>}>
      <p>The address may be cut off or misspelled.</p>
    </State>
  );
}
