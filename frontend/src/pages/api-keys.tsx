/** API keys: who may do what with which key. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { sessionQuery } from "../api/session";
import { type ApiKey, deleteKey, enableKey, keysQuery, rotateKey, usersQuery } from "../api/settings";
import { useWrite } from "../api/write";
import { Failure, Loading, SearchField, State, Time } from "../components/bits";
import { KeyForm } from "../components/key-form";
import { NotSaved } from "../components/notices";
import { Confirm, More, sayRefusal } from "../components/settings-bits";
import { Crumbs } from "../components/shell";
import { shown } from "../lib/format";
import { keyTexts } from "../lib/key-texts";
import { useStore } from "../lib/store";
import "../styles/settings.css";

const route = getRouteApi("/api-keys");
const ORDERS = [["createdAt", "Oldest first"], ["name", "By name"], ["lastUsedAt", "By last use"], ["expiresAt", "By expiry"]] as const;
const OVERLAP_HOURS = 24;
const ROLES = [
  ["None", "nothing but what its roles in single projects allow"],
  ["Viewer", "read"],
  ["Editor", "read and write: report runs, end them, delete them"],
  ["Admin", "everything, also manage keys"],
] as const;

export function KeysPage() {
  const { search = "", sort = "createdAt", make } = route.useSearch();
  const navigate = route.useNavigate();
  const session = useQuery(sessionQuery);
  const keys = useInfiniteQuery(keysQuery(search, sort));
  const change = (next: { search?: string | undefined; sort?: string | undefined; make?: string | undefined }) => {
    const kept = Object.entries({ ...(search === "" ? {} : { search }), ...(sort === "createdAt" ? {} : { sort }), ...(make === undefined ? {} : { make }), ...next });
    void navigate({ search: Object.fromEntries(kept.filter(([, value]) => value !== undefined && value !== "")), replace: true, resetScroll: false });
  };
  const people = useQuery({ ...usersQuery, enabled: session.data !== undefined && (!session.data.needsKey || session.data.role === "ADMIN") });
  const rows = keys.data?.pages.flat() ?? [];
  const names = new Map([...rows, ...(people.data ?? [])].map((one) => [one.id, one.name]));
  const isOpen = session.data?.needsKey === false;
  const isMaking = make !== undefined;
  const isFirstNew = useStore(keyTexts).length > 0 && rows.length === 0; // it is read once somebody has signed in
  return (
    <div className="set-page">
      <Crumbs title="API keys" />
      <div className="head">
        <div>
          <h1>API keys</h1>
          <p className="facts"><span>what programs sign in with, and browsers on servers without a provider</span></p>
        </div>
        {keys.isSuccess && !isMaking && (
          <div className="actions">
            <button type="button" className="btn main" onClick={() => change({ make: "yes" })}>Create key</button>
          </div>
        )}
      </div>
      {isMaking && keys.isSuccess && (
        <KeyForm
          isFirst={isOpen}
          mayChooseTenant={session.data?.tenantId == null}
          onClose={() => change({ make: undefined })}
        />
      )}
      {keys.isPending ? <Loading />
        : keys.isLoadingError ? <Failure error={keys.error} retry={() => void keys.refetch()} />
        : (
          <>
            {isOpen && !isMaking && (
              <p className="callout warn"><b>! This server is open:</b> whoever reaches it may read, write and create keys. The first key closes it.</p>
            )}
            <div className="bar">
              <SearchField label="Search keys" placeholder="Search by name" text={search} onSearch={(text) => change({ search: text })} />
              <select className="field" aria-label="Order" value={sort} onChange={({ target }) => change({ sort: target.value === "createdAt" ? undefined : target.value })}>
                {ORDERS.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
              </select>
            </div>
            {!isFirstNew && <div className="panel gap">
              {rows.length === 0 ? (
                search === "" ? <State title="There is no key yet"><p>Create one with the role admin first, then one with the role editor for each CI job.</p></State>
                  : <State title={`No key matches “${shown(search)}”`}><p>The names of keys are searched.</p></State>
              ) : (
                <table role="table" className="stack-s">
                  <thead role="rowgroup"><tr role="row"><th role="columnheader">Key</th><th role="columnheader">Role</th><th role="columnheader">Status</th><th role="columnheader" className="num">Last used</th><th role="columnheader" className="num">Actions</th></tr></thead>
                  <tbody role="rowgroup">{rows.map((one) => <KeyRow key={one.id} apiKey={one} maker={one.createdBy === null ? null : (names.get(one.createdBy) ?? one.createdBy)} isOwn={one.id === session.data?.id} />)}</tbody>
                </table>
              )}
            </div>}
            <div className="bar"><More query={keys} what="keys" /></div>
          </>
        )}
      <section>
        <div className="sec"><h2>What the roles may do</h2></div>
        <dl className="legend-roles">
          {ROLES.map(([role, text]) => [<dt key={role}>{role}</dt>, <dd key={`${role} may`}>{text}</dd>])}
        </dl>
      </section>
    </div>
  );
}

function KeyRow({ apiKey, maker, isOwn }: { apiKey: ApiKey; maker: string | null; isOwn: boolean }) {
  const keys = () => [["api-keys"], ["session"]];
  const state = useWrite({
    what: "The state of the key",
    send: (isOn: boolean) => enableKey(apiKey.id, isOn),
    keys,
    notice: (answer) => ({ text: answer.enabled ? `${answer.name} is accepted again` : `${answer.name} is refused from now on` }),
  });
  const rotation = useWrite({ what: "The new text of the key", send: (_: null) => rotateKey(apiKey.id, OVERLAP_HOURS), keys });
  const removal = useWrite({ what: "The removal of the key", send: (_: null) => deleteKey(apiKey.id), keys, notice: () => ({ text: `${apiKey.name} is deleted` }) });
  const name = shown(apiKey.name);
  const isBusy = state.isSaving || rotation.isSaving || removal.isSaving;
  return (
    <>
      <tr role="row">
        <th scope="row" role="rowheader">
          {name}{isOwn && <span className="tag">yours</span>}
          <span className="sub">
            made <Time value={apiKey.createdAt} />{maker !== null && ` by ${shown(maker)}`}
            {apiKey.tenantId !== null && ` · tenant ${shown(apiKey.tenantId)}`}
            {apiKey.requestsPerMinute !== null && ` · ${apiKey.requestsPerMinute === 0 ? "no limit" : `${apiKey.requestsPerMinute} requests a minute`}`}
          </span>
        </th>
        <td role="cell">{apiKey.role.toLowerCase()}</td>
        <td role="cell"><KeyState apiKey={apiKey} /></td>
        <td role="cell" className="num">{apiKey.lastUsedAt === null ? "never used" : <><span className="only-stacked">used </span><Time value={apiKey.lastUsedAt} /></>}</td>
        <td role="cell">
          <div className="row-actions">
            {apiKey.enabled
              ? <Confirm label="Disable" action="Disable" question={`Refuse ${name} from now on?${isOwn ? " You are signed in with it." : ""}`} isBusy={isBusy} onConfirm={() => state.save(false)} />
              : <button type="button" className="btn" disabled={isBusy} onClick={() => state.save(true)}>Enable</button>}
            <Confirm label="Rotate" action="Make a new key" question={`The current key is accepted for ${OVERLAP_HOURS} hours more.`} isBusy={isBusy} onConfirm={() => rotation.save(null)} />
            <Confirm label="Delete" action="Delete" question={`Delete ${name} for good?${isOwn ? " You are signed in with it." : ""}`} isBusy={isBusy} onConfirm={() => removal.save(null)} />
          </div>
        </td>
      </tr>
      {[state, rotation, removal].some((write) => write.failure !== null) && (
        <tr role="row"><td role="cell" colSpan={5}><NotSaved write={sayRefusal(state, "The state of the key")} /><NotSaved write={rotation} /><NotSaved write={sayRefusal(removal, "The removal of the key")} /></td></tr>
      )}
    </>
  );
}

function KeyState({ apiKey }: { apiKey: ApiKey }) {
  const { enabled, expiresAt, expiresSoon, previousExpiresAt } = apiKey;
  const isExpired = expiresAt !== null && Date.parse(expiresAt) <= Date.now();
  return (
    <>
      {!enabled ? <span className="sign none">– disabled</span>
        : isExpired ? <span className="sign fail">✗ expired</span>
        : expiresSoon ? <span className="sign error">! expires soon</span>
        : <span className="sign pass">✓ accepted</span>}
      <span className="sub">{expiresAt === null ? "never expires" : <>{isExpired ? "since" : "until"} <Time value={expiresAt} /></>}</span>
      {previousExpiresAt !== null && Date.parse(previousExpiresAt) > Date.now() && <span className="sub">previous key until <Time value={previousExpiresAt} /></span>}
    </>
  );
}
