/** What the project of an item tells its reviewers: above the item, folded once it is known. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { instructionsQuery } from "../api/reviews";
import { sessionQuery } from "../api/session";
import { hasRole } from "../api/settings";
import { shown } from "../lib/format";
import { type Folded, fold, keepFolded, readFolded } from "../lib/instructions";
import { useKeys } from "../lib/keys";
import { Text } from "./bits";
import { Formattable } from "./markdown";

export function ReviewInstructions({ project }: { project: string }) {
  const session = useQuery(sessionQuery).data;
  const instructions = useQuery(instructionsQuery(project));
  if (session === undefined) return null;
  if (instructions.isLoadingError) {
    return (
      <p className="callout warn split" role="status">
        <span><b>! The instructions for reviewers could not be read.</b> {shown(instructions.error.message)}</span>
        <button type="button" className="btn" onClick={() => void instructions.refetch()}>Try again</button>
      </p>
    );
  }
  if (instructions.data === undefined) return null;
  const { projectId, text, version } = instructions.data;
  if (text === "") {
    if (!hasRole(session, "EDITOR", project)) return null;
    return (
      <p className="label instructions-none">
        {shown(project)} gives its reviewers no instructions. <Link className="link" to="/projects/$name/settings" params={{ name: project }} hash="instructions">Write some</Link>
      </p>
    );
  }
  return <Instructions key={session.id} person={session.id} project={project} projectId={projectId} text={text} version={version} />;
}

interface Props {
  readonly person: string;
  readonly project: string;
  readonly projectId: string;
  readonly text: string;
  readonly version: string;
}

function Instructions({ person, project, projectId, text, version }: Props) {
  const [folded, setFolded] = useState<Folded>(() => readFolded(person));
  const isFolded = folded[projectId] === version;
  const hasChanged = !isFolded && folded[projectId] !== undefined;
  const toggle = () => {
    // Read again: another tab may have folded those of another project meanwhile.
    const next = fold(readFolded(person), projectId, isFolded ? null : version);
    keepFolded(person, next);
    setFolded(next);
  };
  useKeys({ i: toggle });
  return (
    <section className="panel instructions" aria-label="Instructions for reviewers">
      <h2>
        <button type="button" className="plain-button" aria-expanded={!isFolded} onClick={toggle}>
          <span aria-hidden="true">{isFolded ? "▸" : "▾"}</span> Instructions of {shown(project)}
          {hasChanged && <span className="label">changed since you folded them</span>}
          <kbd>i</kbd>
        </button>
      </h2>
      {!isFolded && <Formattable text={text}><Text>{text}</Text></Formattable>}
    </section>
  );
}
