/** What the server says of itself: its version, its database, who may do what, and each setting. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { type ServerSettings, serverSettingsQuery } from "../api/settings";
import { Failure, Loading, SearchField, State, Time } from "../components/bits";
import { Crumbs } from "../components/shell";
import { count, plural, shown } from "../lib/format";
import { sayValue } from "../lib/settings";
import "../styles/settings.css";

const route = getRouteApi("/settings");

export function ServerSettingsPage() {
  const settings = useQuery(serverSettingsQuery);
  return (
    <div className="set-page">
      <Crumbs title="Server settings" />
      <div className="head">
        <div>
          <h1>Server settings</h1>
          {settings.data !== undefined && (
            <p className="facts">
              <span>dokimos {settings.data.version}</span>
              {settings.data.startedAt !== null && <span>started <Time value={settings.data.startedAt} /></span>}
              <span>set by environment variables, read when the server starts</span>
            </p>
          )}
        </div>
      </div>
      {settings.isPending ? <Loading />
        : settings.isLoadingError ? <Failure error={settings.error} retry={() => void settings.refetch()} />
        : <Server settings={settings.data} />}
    </div>
  );
}

function Server({ settings }: { settings: ServerSettings }) {
  const { database, access, capabilities, warnings } = settings;
  return (
    <>
      {warnings.map((warning) => <p key={warning} className="callout warn"><b>!</b> {shown(warning)}</p>)}
      <section className="set-two">
        <div className="panel pad">
          <h2>This server</h2>
          <Facts
            rows={[
              ["Version", settings.version],
              ["Python", settings.pythonVersion],
              ["Platform", settings.platform],
              ["Database", `${database.dialect} ${database.version}, schema ${database.schemaVersion}`],
              ["Where", <span key="where" className="address">{shown(database.location)}</span>],
            ]}
          />
        </div>
        <div className="panel pad">
          <h2>Access</h2>
          <Facts
            rows={[
              ["Writing", access.needsKey ? "needs a key or a sign-in" : "is open to whoever reaches the server"],
              ["Reading", access.readsNeedKey ? "needs a key or a sign-in" : "is open to whoever reaches the server"],
              ["Shared rows", access.sharedRowsAreReadOnly ? "tenants only read them" : "tenants may change them"],
              ["Sign-in", [capabilities.identityProvider && "an identity provider", capabilities.trustedHeader && "a proxy", "keys"].filter(Boolean).join(", ")],
              ["Parquet", capabilities.parquet ? "datasets are read and written as Parquet" : "the package for it is not installed"],
              ["More servers", capabilities.severalServers ? "may share this database" : "one server only, since the database is a file"],
            ]}
          />
        </div>
      </section>
      <SettingsTable settings={settings} />
    </>
  );
}

function Facts({ rows }: { rows: readonly (readonly [string, ReactNode])[] }) {
  return <dl className="facts-list spaced-top">{rows.map(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name} is`}>{value}</dd>])}</dl>;
}

function SettingsTable({ settings }: { settings: ServerSettings }) {
  const { search = "", all } = route.useSearch();
  const navigate = route.useNavigate();
  const changed = settings.settings.filter((one) => !one.isDefault);
  const isAll = all !== undefined || search !== "";
  const rows = (isAll ? settings.settings : changed).filter((one) => one.name.toLowerCase().includes(search.toLowerCase()));
  const say = (one: ServerSettings["settings"][number], value: (typeof one)["value"]) => (one.isSecret ? (value === null || value === false ? "not set" : "set, not shown") : sayValue(value));
  const show = (next: { search?: string; all?: string }) => {
    const kept = Object.entries({ ...(search === "" ? {} : { search }), ...(all === undefined ? {} : { all }), ...next }).filter(([, value]) => value !== "");
    void navigate({ search: Object.fromEntries(kept), replace: true, resetScroll: false });
  };
  return (
    <section>
      <div className="sec">
        <h2>Settings</h2>
        <span className="label">{count(changed.length)} of {plural(settings.settings.length, "setting")} differ from the default</span>
      </div>
      <div className="bar">
        <SearchField label="Search settings" placeholder="Search by name, such as retention" text={search} onSearch={(text) => show({ search: text })} />
        <button type="button" className="chip" aria-pressed={!isAll} onClick={() => show({ all: "", search: "" })}>Changed</button>
        <button type="button" className="chip" aria-pressed={isAll} onClick={() => show({ all: "yes" })}>All</button>
      </div>
      <div className="panel gap">
        {rows.length === 0 ? (
          <State title={search === "" ? "Every setting has its default" : "No setting has this in its name"}><p>The documentation of the server lists the variable of each.</p></State>
        ) : (
          <table>
            <thead><tr><th>Setting</th><th>Value</th><th className="hide-s">Default</th></tr></thead>
            <tbody>
              {rows.map((one) => (
                <tr key={one.name}>
                  <th scope="row" className="address">{sayName(one.name)}</th>
                  <td className="address">{one.isDefault ? shown(say(one, one.value)) : <b>{shown(say(one, one.value))}</b>}</td>
                  <td className="hide-s muted address">{shown(say(one, one.default))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </div>
      {settings.variables.length > 0 && <p className="label spaced-top">Read from the environment: {settings.variables.map(shown).join(", ")}</p>}
    </section>
  );
}

/** `judging.MaxAttempts` as `judging · max attempts`. */
function sayName(name: string): string {
  return name.split(".").map((part) => part.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase()).join(" · ");
}
