/** LLM connections: the models that judge and rules ask, whether they answer, and what is wrong where they do not. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { sessionQuery } from "../api/session";
import { type Connection, type ConnectionTest, connectionQuery, connectionsQuery, deleteConnection, hasRole, tryConnection } from "../api/settings";
import { useWrite } from "../api/write";
import { Failure, Loading, SearchField, State } from "../components/bits";
import { BusyButton } from "../components/busy-button";
import { ConnectionForm, TestResult, sayTest } from "../components/connection-form";
import { NotSaved } from "../components/notices";
import { Confirm, RoleNeeded, sayRefusal } from "../components/settings-bits";
import { Crumbs } from "../components/shell";
import { announce } from "../lib/announce";
import { dropDraft } from "../lib/drafts";
import { plural, shown } from "../lib/format";
import { hostOf } from "../lib/settings";
import "../styles/settings.css";

const route = getRouteApi("/llm-connections");
export const PROTOCOLS: Record<Connection["protocol"], string> = { RESPONSES: "Responses", CHAT_COMPLETIONS: "Chat Completions" };

export function ConnectionsPage() {
  const { search = "", edit } = route.useSearch();
  const navigate = route.useNavigate();
  const session = useQuery(sessionQuery);
  const connections = useQuery(connectionsQuery(search));
  const mayChange = hasRole(session.data, "EDITOR");
  const show = (next: string | undefined) =>
    void navigate({ search: (old) => ({ ...(old.search === undefined ? {} : { search: old.search }), ...(next === undefined ? {} : { edit: next }) }), resetScroll: false });
  return (
    <div className="set-page">
      <Crumbs title="LLM connections" />
      <div className="head">
        <div>
          <h1>LLM connections</h1>
          <p className="facts">
            <span>the models that judge on this server</span>
            {connections.data !== undefined && <span>{plural(connections.data.length, "connection")}{search && " found"}</span>}
          </p>
        </div>
        {mayChange && edit === undefined && (
          <div className="actions"><button type="button" className="btn main" onClick={() => show("new")}>Add connection</button></div>
        )}
      </div>
      {!mayChange && <RoleNeeded session={session.data} role="editor" what="Adding, changing and testing connections" />}
      {mayChange && edit === "new" && <ConnectionForm connection={null} onClose={() => show(undefined)} onStay={show} />}
      {mayChange && edit !== undefined && edit !== "new" && <EditConnection key={edit} id={edit} onClose={() => show(undefined)} onStay={show} />}
      <div className="bar">
        <SearchField
          label="Search connections"
          placeholder="Search by name, model or URL"
          text={search}
          onSearch={(text) => void navigate({ search: (old) => ({ ...(old.edit === undefined ? {} : { edit: old.edit }), ...(text === "" ? {} : { search: text }) }), replace: true, resetScroll: false })}
        />
      </div>
      {connections.isPending ? <Loading />
        : connections.isLoadingError ? <Failure error={connections.error} retry={() => void connections.refetch()} />
        : connections.data.length === 0 ? <Empty search={search} />
        : (
          <div className="panel gap">
            <table role="table" className="stack-s">
              <thead role="rowgroup"><tr role="row"><th role="columnheader">Connection</th><th role="columnheader">Model</th><th role="columnheader">API key</th><th role="columnheader">Price</th><th role="columnheader" className="num">Actions</th></tr></thead>
              <tbody role="rowgroup">
                {connections.data.map((one) => <ConnectionRow key={one.id} connection={one} mayChange={mayChange} onEdit={() => show(one.id)} />)}
              </tbody>
            </table>
          </div>
        )}
    </div>
  );
}

function Empty({ search }: { search: string }) {
  if (search !== "") return <div className="panel gap"><State title={`No connection matches “${shown(search)}”`}><p>Names, models and addresses are searched.</p></State></div>;
  return (
    <div className="panel gap">
      <State title="No model is connected">
        <p>A connection names a model, its address and one key. Judge jobs and rules of online evaluation ask their model through it; evaluators without a model need none.</p>
      </State>
    </div>
  );
}

function EditConnection({ id, onClose, onStay }: { id: string; onClose: () => void; onStay: (id: string) => void }) {
  const connection = useQuery(connectionQuery(id));
  if (connection.isPending) return <Loading />;
  if (connection.isLoadingError) return <Failure error={connection.error} retry={() => void connection.refetch()} />;
  return <ConnectionForm connection={connection.data} onClose={onClose} onStay={onStay} />;
}

function ConnectionRow({ connection, mayChange, onEdit }: { connection: Connection; mayChange: boolean; onEdit: () => void }) {
  const [result, setResult] = useState<ConnectionTest | null>(null);
  const test = useWrite({
    what: "The result of the test",
    send: (_: null) => tryConnection(connection.id),
    onSaved: (answer) => {
      setResult(answer);
      announce(`${connection.name}: ${sayTest(answer)}`);
    },
    onFailed: () => setResult(null),
  });
  const removal = useWrite({
    what: "The removal of the connection",
    send: (_: null) => deleteConnection(connection.id),
    keys: () => [["llm-connections"]],
    notice: () => ({ text: `${connection.name} is deleted` }),
    onSaved: () => dropDraft(`connection:${connection.id}`),
  });
  return (
    <>
      <tr role="row">
        <th scope="row" role="rowheader">
          {shown(connection.name)}
          <span className="sub">{shown(hostOf(connection.baseUrl))}</span>
          {connection.problem !== null && <span className="error">! {shown(connection.problem)}</span>}
        </th>
        <td role="cell">{shown(connection.model)}<span className="sub">{PROTOCOLS[connection.protocol]}</span></td>
        <td role="cell">{connection.hasInlineKey ? "stored" : connection.credentialRef === null ? "none" : <span className="mono">{shown(connection.credentialRef)}</span>}</td>
        <td role="cell">{sayPrice(connection)}</td>
        <td role="cell">
          {mayChange && (
            <div className="row-actions">
              <BusyButton isBusy={test.isSaving} busy="Testing…" onClick={() => test.save(null)}>Test connection</BusyButton>
              <button type="button" className="btn" onClick={onEdit}>Edit</button>
              <Confirm label="Delete" action="Delete" question={`Delete ${shown(connection.name)} and its jobs? Their scores stay.`} isBusy={removal.isSaving} onConfirm={() => removal.save(null)} />
            </div>
          )}
        </td>
      </tr>
      {(result !== null || test.failure !== null || removal.failure !== null) && (
        <tr role="row">
          <td role="cell" colSpan={5}>
            {result !== null && <TestResult result={result} onClose={() => setResult(null)} />}
            <NotSaved write={test} again="Test again" />
            <NotSaved write={sayRefusal(removal, "The removal of the connection")} again="Delete again" />
          </td>
        </tr>
      )}
    </>
  );
}

function sayPrice({ inputPricePerMillion: input, outputPricePerMillion: output }: Connection): string {
  if (input === null && output === null) return "not set";
  const say = (price: number | null) => (price === null ? "–" : `$${price}`);
  return `${say(input)} in, ${say(output)} out`;
}
