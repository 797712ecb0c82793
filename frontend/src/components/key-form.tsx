/** A new key: who or what it is for, and what it may do. */
import { useQuery } from "@tanstack/react-query";
import type { FormEvent } from "react";
import { projectsQuery } from "../api/queries";
import { type KeyBody, createKey } from "../api/settings";
import { useWrite } from "../api/write";
import { useKeptForm } from "../lib/drafts";
import { toMoment } from "../lib/settings";
import { NotSaved } from "./notices";
import { Field, KeptNote } from "./settings-bits";

type Role = KeyBody["role"];
type ProjectRole = "VIEWER" | "EDITOR" | "ADMIN";

interface Typed {
  readonly name: string;
  readonly role: Role;
  readonly project: string;
  readonly projectRole: ProjectRole;
  readonly tenant: string;
  readonly expires: string;
  readonly limit: string;
}

const newKey = (isFirst: boolean): Typed => ({
  name: isFirst ? "admin" : "", role: isFirst ? "ADMIN" : "EDITOR", project: "", projectRole: "EDITOR", tenant: "", expires: "", limit: "",
});

interface Props {
  /** Whether the server is open, so that this key closes it. */
  readonly isFirst: boolean;
  readonly mayChooseTenant: boolean;
  readonly onClose: () => void;
}

export function KeyForm({ isFirst, mayChooseTenant, onClose }: Props) {
  const projects = useQuery(projectsQuery);
  const form = useKeptForm("key:new", () => newKey(isFirst));
  const { name, role, project, projectRole, tenant, expires, limit } = form.fields;
  const set = (next: Partial<Typed>) => form.set({ ...form.fields, ...next });
  const creation = useWrite({
    what: "The key",
    send: ({ body }: { readonly body: Partial<KeyBody>; readonly fields: Typed }) => createKey(body),
    keys: () => [["api-keys"], ["session"]],
    onSaved: (_, { fields }) => form.finish({ sent: fields, stored: { fields: newKey(false), opened: null }, key: "key:new" }, (isLeft) => (isLeft ? undefined : onClose())),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const body = {
      name: name.trim(),
      role,
      ...(project.trim() === "" ? {} : { projects: [{ project: project.trim(), role: projectRole }] }),
      ...(tenant.trim() === "" ? {} : { tenantId: tenant.trim() }),
      ...(expires === "" ? {} : { expiresAt: toMoment(expires) }),
      ...(limit === "" ? {} : { requestsPerMinute: Number(limit) }),
    };
    creation.save({ body, fields: form.fields });
  };
  return (
    <form className="panel pad set-form" aria-label="New key" onSubmit={submit}>
      <h2>New key</h2>
      <KeptNote form={form} />
      {isFirst && (
        <p className="callout warn">
          <b>! The first key closes the server:</b> from then on, changing something needs a key. Make the first one an admin, and keep its text.
        </p>
      )}
      <div className="set-fields">
        <Field label="Name" hint="Who or what uses it.">
          {(id, hint) => <input id={id} className="field" required autoFocus dir="auto" aria-describedby={hint} value={name} onChange={({ target }) => set({ name: target.value })} />}
        </Field>
        <Field label="Role" hint="What it may do in all projects; see below.">
          {(id, hint) => (
            <select id={id} className="field" aria-describedby={hint} value={role} onChange={({ target }) => set({ role: target.value as Role })}>
              <option value="NONE">none</option>
              <option value="VIEWER">viewer</option>
              <option value="EDITOR">editor</option>
              <option value="ADMIN">admin</option>
            </select>
          )}
        </Field>
        <Field label="Expires" hint="In your time zone. Empty: never.">
          {(id, hint) => <input id={id} className="field" type="datetime-local" aria-describedby={hint} value={expires} onChange={({ target }) => set({ expires: target.value })} />}
        </Field>
        <Field label="Requests per minute" hint="Empty: the server’s limit; 0: unlimited.">
          {(id, hint) => <input id={id} className="field" type="number" min={0} step={1} aria-describedby={hint} value={limit} onChange={({ target }) => set({ limit: target.value })} />}
        </Field>
        <Field label="Project" hint={role === "NONE" ? "The only one that a key with the role none sees." : "One in which it has a role of its own."}>
          {(id, hint) => (
            <>
              <input id={id} className="field" list={`${id}-projects`} placeholder="Project" required={role === "NONE"} aria-describedby={hint} value={project} onChange={({ target }) => set({ project: target.value })} />
              <datalist id={`${id}-projects`}>{projects.data?.map((one) => <option key={one.id} value={one.name} />)}</datalist>
            </>
          )}
        </Field>
        {project.trim() !== "" && (
          <Field label="Role in the project">
            {(id) => (
              <select id={id} className="field" value={projectRole} onChange={({ target }) => set({ projectRole: target.value as ProjectRole })}>
                <option value="VIEWER">viewer</option>
                <option value="EDITOR">editor</option>
                <option value="ADMIN">admin</option>
              </select>
            )}
          </Field>
        )}
        {mayChooseTenant && (
          <Field label="Tenant" hint="Empty: none; it sees the rows of all.">
            {(id, hint) => <input id={id} className="field" aria-describedby={hint} value={tenant} onChange={({ target }) => set({ tenant: target.value })} />}
          </Field>
        )}
      </div>
      <NotSaved write={creation} again="Create again" />
      <div className="actions">
        <button type="submit" className="btn main" disabled={creation.isSaving}>{creation.isSaving ? "Creating…" : "Create key"}</button>
        <button type="button" className="btn bare" onClick={() => form.giveUp(onClose)}>Cancel</button>
      </div>
    </form>
  );
}
