/** The way from a page of an experiment back to it. */
import { Link } from "@tanstack/react-router";
import { shown } from "../lib/format";
import { Crumbs } from "./shell";

interface Props {
  /** Of the page. */
  readonly title: string;
  readonly projectName: string;
  readonly experimentId: string;
  readonly experimentName: string;
}

export function ExperimentCrumbs({ title, projectName, experimentId, experimentName }: Props) {
  return (
    <Crumbs title={title}>
      <Link to="/projects/$name" params={{ name: projectName }}>{shown(projectName)}</Link>
      <i>/</i>
      <Link to="/experiments/$experimentId" params={{ experimentId }}>{shown(experimentName)}</Link>
      <i>/</i>
    </Crumbs>
  );
}
