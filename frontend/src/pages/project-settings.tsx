/** The settings of a project, and who has a role in it. */
import { useQuery } from "@tanstack/react-query";
import { Link, getRouteApi } from "@tanstack/react-router";
import { sessionQuery } from "../api/session";
import { hasRole, projectSettingsQuery } from "../api/settings";
import { Failure, Loading } from "../components/bits";
import { InstructionsForm } from "../components/instructions-form";
import { Members } from "../components/members";
import { ProjectSettingsForm } from "../components/project-settings-form";
import { RoleNeeded } from "../components/settings-bits";
import { Crumbs } from "../components/shell";
import { shown } from "../lib/format";
import "../styles/settings.css";

const route = getRouteApi("/projects/$name/settings");

export function ProjectSettingsPage() {
  const { name } = route.useParams();
  const session = useQuery(sessionQuery);
  const settings = useQuery(projectSettingsQuery(name));
  const mayChange = hasRole(session.data, "EDITOR", name);
  return (
    <div className="set-page">
      <Crumbs title="Settings">
        <Link to="/projects/$name" params={{ name }}>{shown(name)}</Link><i>/</i>
      </Crumbs>
      <div className="head">
        <div>
          <h1>Settings of {shown(name)}</h1>
          <p className="facts"><span>what is left empty is as the server has it</span></p>
        </div>
        <div className="actions"><Link className="btn" to="/projects/$name/alerts" params={{ name }}>Alert webhooks</Link></div>
      </div>
      {settings.isPending ? <Loading />
        : settings.isLoadingError ? <Failure error={settings.error} retry={() => void settings.refetch()} />
        : (
          <>
            {!mayChange && <RoleNeeded session={session.data} role="editor" what="Changing them" />}
            <ProjectSettingsForm key={name} settings={settings.data} mayChange={mayChange} />
            <InstructionsForm project={name} mayChange={mayChange} />
            <Members project={name} mayManage={hasRole(session.data, "ADMIN", name)} session={session.data} />
          </>
        )}
    </div>
  );
}
