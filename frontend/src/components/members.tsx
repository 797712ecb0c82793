/** Who has a role in a project, beside the one that it has on the whole server. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { type FormEvent, useDeferredValue, useState } from "react";
import type { Session } from "../api/session";
import { type Member, keysQuery, membersQuery, removeMember, saveMember, usersQuery } from "../api/settings";
import { useWrite } from "../api/write";
import { shown } from "../lib/format";
import { Failure, Loading, State, Time } from "./bits";
import { NotSaved } from "./notices";
import { Confirm, Field } from "./settings-bits";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const ROLES = ["VIEWER", "EDITOR", "ADMIN"] as const;

interface Props {
  readonly project: string;
  readonly mayManage: boolean;
  readonly session: Session | undefined;
}

export function Members({ project, mayManage, session }: Props) {
  const members = useQuery({ ...membersQuery(project), enabled: mayManage });
  return (
    <section aria-label="Members">
      <div className="sec"><h2>Members</h2><span className="label">a role here counts where it is the higher one</span></div>
      {!mayManage ? <p className="callout">Seeing and changing members needs the role admin, here or on the server. {session?.isAuthenticated ? `Yours is ${session.role.toLowerCase()}.` : "Nobody is signed in."}</p>
        : members.isPending ? <Loading />
        : members.isLoadingError ? <Failure error={members.error} retry={() => void members.refetch()} />
        : (
          <>
            <div className="panel">
              {members.data.length === 0 ? <State title="Nobody has a role here alone"><p>Roles on the whole server hold in this project, too.</p></State> : (
                <table role="table" className="stack-s">
                  <thead role="rowgroup"><tr role="row"><th role="columnheader">Member</th><th role="columnheader">Role here</th><th role="columnheader" className="hide-s">Since</th><th role="columnheader" className="num">Actions</th></tr></thead>
                  <tbody role="rowgroup">{members.data.map((one) => <MemberRow key={one.id} member={one} project={project} />)}</tbody>
                </table>
              )}
            </div>
            <AddMember project={project} members={members.data} isServerAdmin={session === undefined || !session.needsKey || session.role === "ADMIN"} />
          </>
        )}
    </section>
  );
}

function RoleChoice({ id, label, role, onRole }: { id?: string; label?: string; role: string; onRole: (role: string) => void }) {
  return (
    <select id={id} className="field" aria-label={label} value={role} onChange={({ target }) => onRole(target.value)}>
      {ROLES.map((one) => <option key={one} value={one}>{one.toLowerCase()}</option>)}
    </select>
  );
}

function MemberRow({ member, project }: { member: Member; project: string }) {
  const keys = () => [["members", project], ["session"]];
  const save = useWrite({
    what: "The role",
    send: (role: string) => saveMember(project, member.id, role),
    keys,
    apply: (queries, role) =>
      queries.setQueryData(membersQuery(project).queryKey, (old) => old?.map((one) => (one.id === member.id ? { ...one, role } : one))),
    notice: (answer) => ({ text: `${answer.name} is ${answer.role.toLowerCase()} here` }),
  });
  const removal = useWrite({ what: "The removal of the role", send: (_: null) => removeMember(project, member.id), keys, notice: () => ({ text: `${member.name} has no role here any more` }) });
  return (
    <>
      <tr role="row">
        <th scope="row" role="rowheader">{shown(member.name)}<span className="sub">{member.kind === "key" ? "a key" : "a person"}</span></th>
        <td role="cell"><RoleChoice label={`Role of ${shown(member.name)}`} role={member.role} onRole={save.save} /></td>
        <td role="cell" className="hide-s"><Time value={member.createdAt} /></td>
        <td role="cell"><div className="row-actions"><Confirm label="Remove" action="Remove" question={`Take the role here from ${shown(member.name)}?`} isBusy={removal.isSaving} onConfirm={() => removal.save(null)} /></div></td>
      </tr>
      {(save.failure !== null || removal.failure !== null) && <tr role="row"><td role="cell" colSpan={4}><NotSaved write={save} /><NotSaved write={removal} /></td></tr>}
    </>
  );
}

function AddMember({ project, members, isServerAdmin }: { project: string; members: readonly Member[]; isServerAdmin: boolean }) {
  const [id, setId] = useState("");
  // Of many keys the server finds those whose name is typed.
  const sought = useDeferredValue(UUID.test(id.trim()) ? "" : id.trim());
  // Only an administrator of the server may list keys and people; others type the id that they were given.
  const keys = useInfiniteQuery({ ...keysQuery(sought, "name"), enabled: isServerAdmin });
  const people = useQuery({ ...usersQuery, enabled: isServerAdmin });
  const chosen = [...(keys.data?.pages.flat() ?? []), ...(people.data ?? [])].find((one) => one.id === id.trim());
  const [role, setRole] = useState("EDITOR");
  const add = useWrite({
    what: "The member",
    send: (who: string) => saveMember(project, who, role),
    keys: () => [["members", project]],
    notice: (answer) => ({ text: `${answer.name} is ${answer.role.toLowerCase()} here` }),
    onSaved: () => setId(""),
  });
  const others = [...(keys.data?.pages.flat() ?? []), ...(people.data ?? [])].filter((one) => !members.some((member) => member.id === one.id));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add.save(id.trim());
  };
  return (
    <form className="spaced-top" aria-label="Add member" onSubmit={submit}>
      <div className="set-fields">
        <Field label="Add a key or a person" hint={chosen !== undefined ? `This is ${shown(chosen.name)}.` : isServerAdmin ? "By its id: type a name to find it." : "By its id."}>
          {(field, hint) => (
            <>
              <input id={field} className="field mono" list={`${field}-keys`} required aria-describedby={hint} spellCheck={false} value={id} onChange={({ target }) => setId(target.value)} />
              <datalist id={`${field}-keys`}>{others.map((one) => <option key={one.id} value={one.id}>{shown(one.name)}</option>)}</datalist>
            </>
          )}
        </Field>
        <Field label="Role here">{(field) => <RoleChoice id={field} role={role} onRole={setRole} />}</Field>
      </div>
      <div className="bar"><button type="submit" className="btn" disabled={add.isSaving}>{add.isSaving ? "Adding…" : "Add member"}</button></div>
      <NotSaved write={add} again="Add again" />
    </form>
  );
}
